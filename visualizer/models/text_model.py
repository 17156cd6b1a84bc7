"""A loaded model that encodes texts and decodes tokens."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import torch

from visualizer.attention import device as attention_device
from visualizer.attention.captured_attention import numbered_labels
from visualizer.attention.model_forward_pass import SecondTextUse
from visualizer.attention.run import USABLE_MEMORY_SHARE, format_gib
from visualizer.attention.spec import Device, ModelDtype
from visualizer.attention.token_labels import label_split_characters
from visualizer.errors import InputError
from visualizer.models.model_folder import positive_int_or_zero
from visualizer.models.model_tokenizer import MAX_MODEL_TOKENS, SPECIAL_TOKEN_NAMES
from visualizer.models.token_inputs import TokenIds, TokenVectors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from visualizer.attention.model_forward_pass import SpecialTokens
    from visualizer.models.model_loading import LoadedModel
    from visualizer.models.model_tokenizer import ModelTokenizer
    from visualizer.models.token_inputs import ModelInput

    Inputs = tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]

EMPTY_TEXT_ERROR = "The text is empty. Enter a word or a sentence."
PIXELS_ARGUMENT = "pixel_values"
"""Name of the argument that passes an image to a transformers model."""
IDS_ARGUMENT, VECTORS_ARGUMENT = "input_ids", "inputs_embeds"
"""Names of the arguments that pass token ids, or vectors in place of token embeddings."""
IMAGES_ONLY_ERROR = (
    "{name} takes images instead of text. Use “attention-visualizer model FOLDER --image FILE” or "
    "attend(image=…) in Python."
)
DUPLICATE_START_NOTICE = (
    "The text starts with {token} twice. If the tokenizer adds this token (for example to a chat "
    "template that is already rendered), remove it from the text."
)


class TextModel:
    """A model that converts texts to model inputs and tokens to text."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.folder, self.model, self.tokenizer, self.device, self.ranks, self.on_disk = loaded

    @property
    def dtype(self) -> ModelDtype:
        """Floating-point type in which the model computes."""
        return ModelDtype(str(self.model.dtype).removeprefix("torch."))

    def config_size(self, name: str) -> int:
        """Return a positive integer from the text model's configuration; 0 if it is missing."""
        try:
            return positive_int_or_zero(getattr(self.model.config.get_text_config(), name, 0))
        except NotImplementedError:  # raised for an unlimited length
            return 0

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the model has an encoder and a decoder, each with its own text."""
        return bool(getattr(self.model.config, "is_encoder_decoder", False))

    @property
    def no_next_token_reason(self) -> str:
        """The reason why the model predicts no next token, as a sentence; empty if it does."""
        if self.is_encoder_decoder or not self.model.can_generate():
            return f"{self.folder.name} does not generate text or predict a next token."
        return ""

    def check_can_generate(self) -> None:
        """Reject a model that predicts no next token, with an `InputError` with field ``model``."""
        if self.no_next_token_reason:
            raise InputError("model", self.no_next_token_reason)

    @property
    def is_image_model(self) -> bool:
        """Whether the model takes images instead of texts."""
        return self.image_model is not None

    @property
    def image_model(self) -> Any:
        """The model or submodel that takes images; None if there is none."""
        if self.model.main_input_name == PIXELS_ARGUMENT:
            return self.model
        part = getattr(self.model, "vision_model", None)
        return part if getattr(part, "main_input_name", "") == PIXELS_ARGUMENT else None

    @staticmethod
    def count_tokens(given: Mapping[str, Any]) -> int:
        """Return the number of tokens of a text, given the model's inputs for it."""
        first = given.get(IDS_ARGUMENT)
        return int((given[VECTORS_ARGUMENT] if first is None else first).shape[1])

    def check_memory(self, tokens: int, layers: int | None = None) -> None:
        """Reject a text if the attention weights would not fit in the free memory.

        Parameters
        ----------
        layers : int, optional
            Number of layers; by default, all layers of the model.
        """
        layers = layers or self.config_size("num_hidden_layers") or 1
        heads = self.config_size("num_attention_heads") or 1
        with self.ranks.propagate_errors():
            _check_attention_memory(layers, heads, tokens, "text")

    def check_image_memory(self, tokens: int) -> None:
        """Reject an image if the attention weights would not fit in the free memory."""
        names = ("num_hidden_layers", "num_attention_heads")
        config = self.image_model.config
        layers, heads = (positive_int_or_zero(getattr(config, name, None)) or 1 for name in names)
        _check_attention_memory(layers, heads, tokens, "image")

    @property
    def cache_disabling_arguments(self) -> dict[str, bool]:
        """The argument that disables the key/value cache; empty if the model has no such cache."""
        return cache_disabling_argument(self.model)

    @property
    def last_logits_arguments(self) -> dict[str, int]:
        """The argument that omits the logits of all tokens but the last; empty if unsupported."""
        name = "logits_to_keep"
        return {name: 1} if name in signature(self.model.forward).parameters else {}

    def encode_inputs(
        self, text: ModelInput, second: str | None = None, *, is_chat: bool = False
    ) -> Inputs:
        """Return the model's inputs, the query tokens, and the key tokens if they differ."""
        if isinstance(text, TokenIds):
            return self._encode_token_ids(text)
        if isinstance(text, TokenVectors):
            return self._encode_vectors(text)
        tokenizer = self.required_tokenizer
        if not text.strip():
            raise InputError("text", EMPTY_TEXT_ERROR)
        is_pair = bool(second) and not self.is_encoder_decoder
        given_text = self.prepare_text(text, is_chat=is_chat)
        # A rendered chat template already contains the special tokens.
        coded = tokenizer.encode(given_text, second if is_pair else None, has_special=not is_chat)
        if not coded.count:
            raise InputError("text", EMPTY_TEXT_ERROR)
        if is_pair and coded.count > (alone := tokenizer.encode(given_text).count):
            self.check_token_count(alone)
            self.check_token_count(coded.count, "second")
        self.check_token_count(coded.count)
        device = self.model.device
        given = {name: torch.tensor([each], device=device) for name, each in coded.inputs.items()}
        words = label_split_characters(coded.tokens)
        if not self.is_encoder_decoder:
            return given, words, ()
        return self._add_decoder_ids(given, words, self._decoder_ids(second))

    def _encode_token_ids(self, given: TokenIds) -> Inputs:
        """Return the model's inputs for token ids, with a mask that includes all tokens.

        Raises
        ------
        InputError
            With field ``text`` if an id is not in the vocabulary or there are too many tokens; with
            ``model`` if the model takes images; with ``second`` as for a text.
        """
        if self.model.main_input_name == PIXELS_ARGUMENT:
            raise InputError("model", IMAGES_ONLY_ERROR.format(name=self.folder.name))
        if given.decoder_ids and not self.is_encoder_decoder:
            sentence = f"{self.folder.name} has no decoder. Remove decoder_input_ids from text."
            raise InputError("text", sentence)
        for ids in (given.ids, given.decoder_ids):
            self._check_ids_in_vocabulary(ids)
            self.check_token_count(len(ids))
        accepted, device = signature(self.model.forward).parameters, self.model.device
        inputs = {IDS_ARGUMENT: torch.tensor([given.ids], device=device)}
        if "attention_mask" in accepted:
            inputs["attention_mask"] = torch.ones_like(inputs[IDS_ARGUMENT])
        if given.token_types and "token_type_ids" in accepted:
            inputs["token_type_ids"] = torch.tensor([given.token_types], device=device)
        words = self._label_ids(given.ids)
        if not self.is_encoder_decoder:
            return inputs, words, ()
        return self._add_decoder_ids(inputs, words, [*given.decoder_ids] or self._decoder_ids(None))

    def _check_ids_in_vocabulary(self, ids: Sequence[int]) -> None:
        size = self.model.get_input_embeddings().weight.shape[0]
        wrong = next((number for number in ids if not 0 <= number < size), None)
        if wrong is not None:
            sentence = f"Token id {wrong} does not exist: the ids of {self.folder.name} are 0 to"
            raise InputError("text", f"{sentence} {size - 1:,}.")

    def _encode_vectors(self, given: TokenVectors) -> Inputs:
        """Return the model's inputs for vectors that replace the token embeddings.

        Raises
        ------
        InputError
            With field ``text`` if the model does not accept vectors, they have another size, or
            there are too many.
        """
        vectors = torch.from_numpy(given.vectors)[None].to(self.model.device, self.model.dtype)
        name, accepted = self.folder.name, signature(self.model.forward).parameters
        if self.is_encoder_decoder or VECTORS_ARGUMENT not in accepted:
            raise InputError("text", f"{name} does not accept embeddings. Pass token ids.")
        width = self.model.get_input_embeddings().weight.shape[1]
        if vectors.shape[-1] != width:
            sentence = f"{name} needs embeddings of {width:,} numbers per token."
            raise InputError("text", f"{sentence} These have {vectors.shape[-1]:,}.")
        self.check_token_count(vectors.shape[1])
        return {VECTORS_ARGUMENT: vectors}, numbered_labels(vectors.shape[1]), ()

    def _add_decoder_ids(
        self, given: dict[str, Any], words: tuple[str, ...], ids: Sequence[int]
    ) -> Inputs:
        given["decoder_input_ids"] = torch.tensor([ids], device=self.model.device)
        return given, self._label_ids(ids), words

    def _label_ids(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the texts of tokens, or their ids if there is no tokenizer."""
        texts = self.token_texts(ids) if self.tokenizer else tuple(map(str, ids))
        return label_split_characters(texts)

    def double_bos_notice(self, given: Mapping[str, Any]) -> str:
        """Return a notice if a text starts with two BOS tokens; otherwise an empty string."""
        ids = given.get(IDS_ARGUMENT)
        if ids is None or self.tokenizer is None or not self.tokenizer.bos_token:
            return ""
        names = [self.tokenizer.special_names.get(number) for number in ids[0, :2].tolist()]
        if names != [SPECIAL_TOKEN_NAMES["bos_token"]] * 2:
            return ""
        return DUPLICATE_START_NOTICE.format(token=self.tokenizer.bos_token)

    @property
    def required_tokenizer(self) -> ModelTokenizer:
        """The tokenizer; raises an `InputError` with field ``model`` if there is none."""
        if self.tokenizer is None:
            sentence = f"{self.folder.name} has no tokenizer, so it cannot process text."
            if self.image_model is not None:
                sentence = IMAGES_ONLY_ERROR.format(name=self.folder.name)
            raise InputError("model", sentence)
        return self.tokenizer

    def prepare_text(self, text: str, *, is_chat: bool = False) -> str:
        """Return a text for the tokenizer: unchanged, or as a user message in a chat template."""
        if not is_chat or not text.strip():
            return text
        return self.required_tokenizer.format_user_message(text, self.folder.name)

    def special_tokens(
        self, text: str, second: str = "", *, is_chat: bool = False, of_decoder: bool = False
    ) -> SpecialTokens:
        """Return the positions and names of the special tokens of a text.

        Parameters
        ----------
        of_decoder : bool
            Whether to return the special tokens of the decoder's text.
        """
        given, *_ = self.encode_inputs(text, second or None, is_chat=is_chat)
        # Decoder-only models such as OPT may be called decoders, but have the usual inputs.
        own = "decoder_input_ids"
        ids = given[own if of_decoder and own in given else "input_ids"]
        names = self.required_tokenizer.special_names
        numbers = enumerate(ids[0].tolist())
        return tuple((at, names[number]) for at, number in numbers if number in names)

    @property
    def second_text_use(self) -> SecondTextUse:
        """How the model uses a second text."""
        if self.tokenizer is None:
            return SecondTextUse.NONE
        if self.is_encoder_decoder:
            return SecondTextUse.DECODER
        return SecondTextUse.NONE if self.model.can_generate() else SecondTextUse.PAIR

    def _decoder_ids(self, second: str | None) -> list[int]:
        config = self.model.config
        first = getattr(config, "decoder_start_token_id", None)
        first = getattr(config, "bos_token_id", None) if first is None else first
        ids = [] if first is None else [first]
        if second:
            coded = self.required_tokenizer.encode(second, has_special=False)
            self.check_token_count(len(ids) + coded.count, "second")
            ids += coded.inputs["input_ids"]
        if not ids:
            raise InputError(
                "second",
                "The decoder has no start token. Enter the beginning of the decoder’s text.",
            )
        self.check_token_count(len(ids), "second")
        return ids

    def check_token_count(self, count: int, field: str = "text") -> None:
        """Reject more tokens than the model supports."""
        learned = self.config_size("max_position_embeddings")
        longest = min(MAX_MODEL_TOKENS, learned or MAX_MODEL_TOKENS)
        if count > longest:
            is_pair = field == "second" and not self.is_encoder_decoder
            what = "The two texts have" if is_pair else "The text has"
            sentence = f"{what} {count:,} tokens; {self.folder.name} supports at most {longest:,}."
            raise InputError(field, f"{sentence} Use a shorter text.")

    def top_tokens(self, logs: torch.Tensor, most: int) -> list[tuple[str, float]]:
        """Return the most likely tokens with their probabilities, from log-probabilities [token].

        Raises
        ------
        InputError
            With field ``most`` if the number is less than 1 or exceeds the size of the vocabulary.
        """
        if not 1 <= most <= len(logs):
            raise InputError("most", f"`most` must be from 1 to {len(logs):,}. It is {most:,}.")
        values, numbers = logs.topk(most)
        return [*zip(self.token_texts(numbers.tolist()), values.exp().tolist(), strict=True)]

    def token_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the texts of tokens by their ids."""
        return self.required_tokenizer.token_texts(ids)

    def token_text(self, token_id: int) -> str:
        """Return the text of a token by its id."""
        return self.token_texts((token_id,))[0]

    def decode_tokens(self, ids: Sequence[int]) -> str:
        """Decode tokens into one text."""
        return self.required_tokenizer.decode(ids)

    def token_id(self, token: str) -> int:
        """Return the id of a token of the vocabulary by its text.

        Raises
        ------
        InputError
            With field ``token`` if the text is not exactly one token.
        """
        found = self.required_tokenizer.encode(token, has_special=False)
        if found.count != 1:
            split = f"{self.folder.name} splits “{token[:60]}” into {found.count:,} tokens."
            raise InputError("token", f"{split} Enter a single token.")
        return found.inputs["input_ids"][0]


def cache_disabling_argument(model: Any) -> dict[str, bool]:
    """Return the argument that disables the key/value cache; empty if there is no such cache."""
    is_there = {"use_cache", "past_key_values"} & signature(model.forward).parameters.keys()
    return {"use_cache": False} if is_there else {}


def _check_attention_memory(layers: int, heads: int, tokens: int, field: str) -> None:
    # One stage of all layers, if it is accessed as a whole; the weights, if they must be kept; and
    # the intermediate values of one layer, including its softmax.
    needed = 4 * heads * tokens**2 * (2 * layers + 6)
    is_text = field == "text"
    advice = "Use a shorter text." if is_text else "Use a smaller model or close programs."
    check_free_memory(
        needed, f"{layers:,} layers × {heads:,} heads × {tokens:,} tokens", field, advice
    )


def check_free_memory(needed: int, described: str, field: str, advice: str) -> None:
    """Reject an input that needs more bytes of memory than are available.

    Parameters
    ----------
    described, advice : str
        Description of the input, and a sentence that states what to do, for the error message.
    """
    free = USABLE_MEMORY_SHARE * attention_device.free_device_bytes(Device.CPU)
    if needed > free:
        memory = f"{format_gib(needed)} of memory; {format_gib(free)} is available"
        raise InputError(field, f"{described} need {memory}. {advice}")
