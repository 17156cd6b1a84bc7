"""Decides from a model's configuration which of its inputs the program can supply. No torch.

The program gives a model a text, a pair of texts or one image. Kinds of models whose main input is
something else are listed here by the names of transformers, so that a list of models needs neither
transformers nor weights; a kind that is not listed is judged by its class when it is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

AUDIO = "audio"
VIDEO = "videos"
SERIES = "time series"
IMAGE_AND_TEXT = "an image together with a text"
SUPPLIED = ("input_ids", "pixel_values")
"""Main inputs of the classes of transformers that the program supplies."""
_MAIN_INPUTS = {
    "input_features": AUDIO,
    "input_values": AUDIO,
    "audio_values": AUDIO,
    "pixel_values_videos": VIDEO,
    "past_values": SERIES,
}
_KINDS = {
    AUDIO: (
        "whisper wav2vec2 wav2vec2-bert wav2vec2-conformer hubert wavlm unispeech unispeech-sat "
        "sew sew-d data2vec-audio speech_to_text speecht5 speech-encoder-decoder "
        "audio-spectrogram-transformer clap moonshine moonshine_streaming encodec dac mimi "
        "xcodec xcodec2 neucodec pop2piano parakeet_ctc parakeet_encoder parakeet_rnnt "
        "parakeet_tdt lasr_ctc lasr_encoder univnet musicgen musicgen_melody moshi csm dia "
        "kyutai_speech_to_text canary cohere_asr granite_speech5_ctc nemotron3_5_asr "
        "nemotron3_diarization nemotron_asr_streaming"
    ),
    VIDEO: "videomae vivit timesformer vjepa2 videoprism videoprism_vision_model tvp videomt",
    SERIES: (
        "time_series_transformer autoformer informer patchtst patchtsmixer timesfm timesfm2_5"
    ),
    IMAGE_AND_TEXT: (
        "blip-2 instructblip instructblipvideo kosmos-2 vilt lxmert visual_bert bridgetower "
        "layoutlmv2 layoutxlm udop pix2struct vision-encoder-decoder grounding-dino "
        "mm-grounding-dino omdet-turbo"
    ),
    "tables": "tapas",
    "states, actions and rewards": "decision_transformer",
    "states of a robot": "pi0",
    "pairs of images": "lightglue superglue efficientloftr",
    "arrays of any kind": "perceiver",
}  # fmt: skip
"""Kinds of models by the input that the program cannot supply."""
_UNSUPPLIED = {kind: what for what, kinds in _KINDS.items() for kind in kinds.split()}
_BY_IMAGE = (
    "clip", "siglip", "siglip2", "altclip", "chinese_clip", "metaclip_2", "clipseg", "blip",
    "owlvit", "owlv2",
)  # fmt: skip
"""Kinds with a part for texts and one for images, of which the program runs the latter."""
_PARTS = {
    "vision_config": "images", "vq_config": "images", "image_config": "images",
    "audio_config": AUDIO, "speech_config": AUDIO, "video_config": VIDEO,
}  # fmt: skip
"""Settings of parts for further inputs, in the configuration of a model that reads texts."""


def check_kind(name: str, config: Mapping[str, Any]) -> None:
    """Reject a model that the program can give no input, by its configuration.

    Raises
    ------
    InputError
        Of ``model``.
    """
    if what := _UNSUPPLIED.get(str(config.get("model_type"))):
        raise unsupplied_input(name, what)


def check_main_input(name: str, main_inputs: str | Iterable[str]) -> None:
    """Reject a model that the program can give no input, by the main input of its class.

    Raises
    ------
    InputError
        Of ``model``.
    """
    names = (main_inputs,) if isinstance(main_inputs, str) else tuple(main_inputs)
    if not any(each in SUPPLIED for each in names):
        first = names[0] if names else ""
        raise unsupplied_input(name, _MAIN_INPUTS.get(first, f"“{first}”"))


def unsupplied_input(name: str, what: str) -> InputError:
    """Return the error of a model that reads something that the program cannot supply."""
    return InputError(
        "model",
        f"{name} reads {what}, which cannot be given to a model here. Open a model that reads "
        "texts or images.",
    )


def notice_of_parts(name: str, config: Mapping[str, Any]) -> str:
    """Return the sentence on parts of a model that are not run; empty if it is run whole."""
    if str(config.get("model_type")) in _BY_IMAGE:
        return f"Only the part of {name} that reads images is run; it is given no text."
    found = dict.fromkeys(
        what for part, what in _PARTS.items() if isinstance(config.get(part), dict)
    )
    if not found:
        return ""
    return f"{name} is given a text only: it also reads {' and '.join(found)}, which are left out."
