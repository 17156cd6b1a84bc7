"""Determines from a model's configuration whether the program can supply its inputs.

The program supplies a text, a pair of texts or one image. Model types with other main inputs are
listed here, so that a list of models can be checked without torch, transformers or weights. A
model of an unlisted type is checked by its class when it is opened. A model is rejected with an
`InputError` with field ``model``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

AUDIO_INPUT = "audio"
VIDEO_INPUT = "videos"
TIME_SERIES_INPUT = "time series"
IMAGE_AND_TEXT_INPUT = "an image together with a text"
SUPPORTED_INPUTS = ("input_ids", "pixel_values")
"""Main inputs of transformers models that the program can supply."""
_MAIN_INPUTS = {
    "input_features": AUDIO_INPUT,
    "input_values": AUDIO_INPUT,
    "audio_values": AUDIO_INPUT,
    "pixel_values_videos": VIDEO_INPUT,
    "past_values": TIME_SERIES_INPUT,
}
_KINDS = {
    AUDIO_INPUT: (
        "whisper wav2vec2 wav2vec2-bert wav2vec2-conformer hubert wavlm unispeech unispeech-sat "
        "sew sew-d data2vec-audio speech_to_text speecht5 speech-encoder-decoder "
        "audio-spectrogram-transformer clap moonshine moonshine_streaming encodec dac mimi "
        "xcodec xcodec2 neucodec pop2piano parakeet_ctc parakeet_encoder parakeet_rnnt "
        "parakeet_tdt lasr_ctc lasr_encoder univnet musicgen musicgen_melody moshi csm dia "
        "kyutai_speech_to_text canary cohere_asr granite_speech5_ctc nemotron3_5_asr "
        "nemotron3_diarization nemotron_asr_streaming"
    ),
    VIDEO_INPUT: "videomae vivit timesformer vjepa2 videoprism videoprism_vision_model tvp videomt",
    TIME_SERIES_INPUT: (
        "time_series_transformer autoformer informer patchtst patchtsmixer timesfm timesfm2_5"
    ),
    IMAGE_AND_TEXT_INPUT: (
        "blip-2 instructblip instructblipvideo kosmos-2 vilt lxmert visual_bert bridgetower "
        "layoutlmv2 layoutxlm udop pix2struct vision-encoder-decoder grounding-dino "
        "mm-grounding-dino omdet-turbo"
    ),
    "tables": "tapas",
    "states, actions and rewards": "decision_transformer",
    "robot states": "pi0",
    "pairs of images": "lightglue superglue efficientloftr",
    "arrays of any kind": "perceiver",
}  # fmt: skip
"""Model types by the input that the program cannot supply."""
_UNSUPPLIED = {kind: what for what, kinds in _KINDS.items() for kind in kinds.split()}
_BY_IMAGE = (
    "clip", "siglip", "siglip2", "altclip", "chinese_clip", "metaclip_2", "clipseg", "blip",
    "owlvit", "owlv2",
)  # fmt: skip
"""Model types with a text encoder and an image encoder; only the image encoder is run."""
_PARTS = {
    "vision_config": "images", "vq_config": "images", "image_config": "images",
    "audio_config": AUDIO_INPUT, "speech_config": AUDIO_INPUT, "video_config": VIDEO_INPUT,
}  # fmt: skip
"""Configuration entries for encoders of other inputs in a text model."""


def check_input_kind(name: str, config: Mapping[str, Any]) -> None:
    """Reject a model with an unsupported input, by its configuration."""
    if what := _UNSUPPLIED.get(str(config.get("model_type"))):
        raise unsupported_input_error(name, what)


def check_main_input(name: str, main_inputs: str | Iterable[str]) -> None:
    """Reject a model with an unsupported input, by the main input of its class."""
    names = (main_inputs,) if isinstance(main_inputs, str) else tuple(main_inputs)
    if not any(each in SUPPORTED_INPUTS for each in names):
        first = names[0] if names else ""
        raise unsupported_input_error(name, _MAIN_INPUTS.get(first, f"“{first}”"))


def unsupported_input_error(name: str, what: str) -> InputError:
    """Return the error for a model with an unsupported input."""
    return InputError(
        "model",
        f"{name} takes {what} as input, which is not supported. Open a model that takes text or "
        "images.",
    )


def unused_submodels_notice(name: str, config: Mapping[str, Any]) -> str:
    """Return the notice about parts of a model that are not run; empty if there are none."""
    if str(config.get("model_type")) in _BY_IMAGE:
        return f"Only the image encoder of {name} is run; its text encoder is not used."
    found = dict.fromkeys(
        what for part, what in _PARTS.items() if isinstance(config.get(part), dict)
    )
    if not found:
        return ""
    return f"{name} is run on text only; its inputs for {' and '.join(found)} are not used."
