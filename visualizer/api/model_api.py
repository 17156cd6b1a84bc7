"""Python API for Transformers models that are opened from a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, overload

from visualizer.api.argument_validation import (
    describe_value,
    validate_bool,
    validate_device,
    validate_integer,
    validate_model_dtype,
    validate_number,
    validate_path,
    validate_sampling,
    validate_seed,
    validate_sequence,
    validate_string,
)
from visualizer.api.generated_text import GeneratedText, generated_text
from visualizer.api.model_attention import ModelAttention
from visualizer.api.model_inputs import parse_kept_parts, parse_model_input, parse_single_input
from visualizer.attention.spec import Device, ModelDtype
from visualizer.brief_repr import truncate
from visualizer.console import ConsoleProgress
from visualizer.errors import InputError
from visualizer.models.model_path import parse_repository_name
from visualizer.models.model_source import MAX_HEAD_SCALE, HeadEdit, HeadEditKind
from visualizer.process_settings import fix_mmap_threshold

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from visualizer.attention.model_forward_pass import LogitParts
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.opened_model import OpenedModel
    from visualizer.models.recorded_runs import KeptLayersAndStages
    from visualizer.models.token_inputs import ModelInput


def open_model(
    path: str | Path,
    *,
    device: object = Device.AUTO,
    dtype: object = ModelDtype.AUTO,
    from_disk: bool = False,
    revision: str | None = None,
    download: bool = False,
) -> Model:
    """Open a Transformers model from its folder or by its name: ``open_model("org/name")``.

    Nothing is downloaded unless ``download`` is True, and no code in the folder is run. Requires
    transformers, accelerate and h11, which the extra ``models`` installs.

    Parameters
    ----------
    path : str or path
        A folder with ``config.json``, weights in ``.safetensors`` files and a tokenizer; the name
        of a model in the local Hugging Face cache, such as ``org/name`` or ``org/name@revision``;
        or the folder of a language lab run, one of its snapshots, or weights saved by the lab.
    device : str or torch.device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``. A device that is not available is rejected.
    dtype : str or torch.dtype
        The type in which the model computes: ``"float32"``, ``"float64"``, ``"bfloat16"`` or
        ``"float16"``. ``"auto"`` stands for float32, to which 16-bit weights are converted without
        loss, or for the type of 16-bit weights that do not fit in the memory as float32. If a model
        computes in 16 bits, `ModelAttention.notices` state how much the weights can differ.
    from_disk : bool
        Whether to leave the layers on disk and read them one at a time, for models that are larger
        than memory. The device must be the CPU.
    revision : str, optional
        A branch, a tag or a commit of the model on the Hugging Face Hub; the main branch by
        default.
    download : bool
        Whether to download the model from the Hugging Face Hub if the cache does not contain it.
        Private and gated models use the token that ``hf auth login`` stores.

    Raises
    ------
    InputError
        A `ValueError` that states why the model cannot be opened, and what to do.

    Examples
    --------
    >>> model = visualizer.open_model("models/SmolLM2-135M")
    """
    from visualizer.attention.device import check_device_available
    from visualizer.models.opened_model import open_model as opened

    fix_mmap_threshold()
    folder, where = _find_model(path, revision, download=download), validate_device(device)
    computed_in = validate_model_dtype(dtype)
    check_device_available(where, computed_in)
    is_disk = validate_bool("from_disk", from_disk)
    return Model(opened(folder, where, computed_in, is_from_disk=is_disk))


def _find_model(path: object, revision: object, *, download: object) -> Path:
    """Return the folder or the name of a model; download the model if requested."""
    folder = validate_path("path", path)
    if revision is not None:
        name = validate_string("revision", revision)
        if folder.exists() or "@" in folder.name:
            raise InputError("revision", f"revision has no effect on “{folder}”. Remove revision.")
        folder = Path(f"{folder.as_posix()}@{name}")
        if parse_repository_name(folder.as_posix()) is None:
            raise InputError("revision", f"Invalid revision: {describe_value(name)}.")
    if not validate_bool("download", download):
        return folder
    from visualizer.models.hub_download import download_model_by_name

    return download_model_by_name(folder, ConsoleProgress(is_quiet=False))


# This is a dataclass, because `help` would evaluate the types of a Struct's fields, which are
# imported for type checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Model:
    """A Transformers model that was opened from its folder; see `open_model`.

    Examples
    --------
    >>> model.config.model_type
    'llama'
    >>> model.tokenizer("The cat")["input_ids"]
    """

    opened: OpenedModel

    def __repr__(self) -> str:
        folder = self.opened.folder
        return truncate(
            f"<Model: {folder.name} · {folder.kind} · {folder.parameters:,} parameters>"
        )

    def __call__(self, *inputs: object, **options: object) -> NoReturn:
        """Refuse the call, because there are several passes from which to choose."""
        sentence = (
            "A Model object is not callable. Use attend(text) for its attention, next_tokens(text) "
            "for its predictions, or generate(text) to generate text."
        )
        raise InputError("model", sentence)

    @property
    def config(self) -> Any:
        """The configuration of the Transformers model."""
        return self.opened.model.config

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of Transformers; None if the model has none, like models of the lab.

        Raises
        ------
        InputError
            If the tokenizer's files are invalid.
        """
        return self.opened.transformers_tokenizer

    @overload
    def attend(
        self,
        text: str | list[int] | None = None,
        second: str | None = None,
        *,
        chat: bool = False,
        image: str | Path | None = None,
        layers: int | Iterable[int] | None = None,
        stages: str | Iterable[str] | None = None,
    ) -> ModelAttention: ...

    @overload
    def attend(
        self,
        text: list[str] | tuple[str, ...] | list[list[int]],
        second: None = None,
        *,
        chat: bool = False,
        image: None = None,
        layers: int | Iterable[int] | None = None,
        stages: str | Iterable[str] | None = None,
    ) -> tuple[ModelAttention, ...]: ...

    @overload
    def attend(
        self,
        text: Any,
        second: str | None = None,
        *,
        chat: bool = False,
        image: None = None,
        layers: int | Iterable[int] | None = None,
        stages: str | Iterable[str] | None = None,
    ) -> Any: ...

    def attend(
        self,
        text: Any = None,
        second: str | None = None,
        *,
        chat: bool = False,
        image: str | Path | None = None,
        layers: int | Iterable[int] | None = None,
        stages: str | Iterable[str] | None = None,
    ) -> Any:
        """Run the model on a text or an image and return the attention of all its layers.

        Parameters
        ----------
        text : str, token ids, embeddings, or a list
            The text; its token ids, as a list, an array or a tensor [token]; or vectors in place of
            its token embeddings [token, d_model]. The output of a tokenizer is also accepted.
            Several texts, in a list or along the first axis of a tensor, are processed one by one,
            without padding; there is one result for each text, and a single result for a tensor
            with one text.
        second : str, optional
            The second text of a pair. For an encoder-decoder model, the decoder's input after its
            first token.
        chat : bool
            Whether to format the text as a user message with the tokenizer's chat template.
        image : str or path, optional
            An image file, instead of a text. The tokens are patches of the image; their labels are
            their positions from the top left, such as ``row 3, column 5``.
        layers : int or iterable of int, optional
            Indices of the layers to keep, from 0; all layers by default.
        stages : str or iterable of str, optional
            The stages to keep in addition to the weights; all stages by default. A value cannot be
            explained if it is computed from a stage that is not kept.

        Raises
        ------
        InputError
            If no input is given, the input is too long for the model or for memory, a token id is
            not in the vocabulary, or a layer or stage does not exist.

        Examples
        --------
        >>> model_attention = model.attend("the cat sat on the mat the cat")
        >>> part = model.attend(text, layers=[0, 1], stages=["context"])
        >>> several = model.attend(["the cat", "the mat"])
        >>> len(several)
        2
        """
        kept = parse_kept_parts(layers, stages)
        is_chat = validate_bool("chat", chat)
        if image is not None:
            if text is not None or second is not None:
                raise InputError("image", "text and image cannot be combined. Pass one of them.")
            if is_chat:
                raise InputError("chat", "chat has no effect with an image. Remove chat.")
            return ModelAttention(self.opened.attend_image(validate_path("image", image), kept))
        if text is None:
            raise InputError("text", "A text or an image is required. Pass one of them.")
        given = parse_model_input(text)
        if isinstance(given, list):
            return self._attend_each_text(given, second, kept, is_chat=is_chat)
        second_text = None if second is None else validate_string("second", second)
        if not isinstance(given, str):
            _check_text_arguments(second_text, is_chat=is_chat)
        runs = self.opened.attend(given, second_text, is_chat=is_chat, kept=kept)
        return ModelAttention(runs)

    def _attend_each_text(
        self, texts: list[ModelInput], second: object, kept: KeptLayersAndStages, *, is_chat: bool
    ) -> tuple[ModelAttention, ...]:
        from visualizer.models.model_text_runs import run_model_on_texts

        if second is not None:
            raise InputError(
                "second", "second cannot be combined with several texts. Pass one text at a time."
            )
        if not all(isinstance(each, str) for each in texts):
            _check_text_arguments(None, is_chat=is_chat)
        runs = run_model_on_texts(self.opened, texts, is_chat=is_chat, kept=kept)
        return tuple(map(ModelAttention, runs))

    def next_tokens(self, text: Any, most: int = 10) -> list[tuple[str, float]]:
        """Return the most likely next tokens after a text, each with its probability.

        Parameters
        ----------
        text : str, token ids or embeddings
            As in `attend`, but only one text.

        Raises
        ------
        InputError
            If the model does not generate text.

        Examples
        --------
        >>> [(token, probability), *_] = model.next_tokens(text)
        """
        count = validate_integer("most", most)
        logs = self.opened.next_token_log_probabilities(parse_single_input(text))
        return self.opened.top_tokens(logs, count)

    def ablate(
        self,
        text: str,
        heads: Iterable[tuple[int, int]],
        *,
        mean: bool = False,
        most: int = 10,
    ) -> list[tuple[str, float]]:
        """Return the most likely next tokens, like `next_tokens`, with some heads ablated.

        Parameters
        ----------
        heads : iterable of (layer, head)
            Indices of the heads to ablate: their context vectors are replaced with zeros.
        mean : bool
            Whether to replace each head's context vectors with their mean over the text instead.

        Raises
        ------
        InputError
            As in `next_tokens`; also if a head does not exist or cannot be ablated.

        Examples
        --------
        >>> model.ablate(text, [(1, 0), (1, 2)], most=3)  # heads 0 and 2 of layer 1
        >>> model.ablate(text, [(1, 0)], mean=True, most=3)
        """
        kind = HeadEditKind.MEAN if validate_bool("mean", mean) else HeadEditKind.OFF
        edits = [HeadEdit(*head, kind) for head in _parse_heads(heads)]
        return self._predict_with_edits(text, edits, most)

    def scale(
        self, text: str, heads: Iterable[tuple[int, int]], factor: float, *, most: int = 10
    ) -> list[tuple[str, float]]:
        """Return the most likely next tokens, like `next_tokens`, with heads scaled by a factor.

        Raises
        ------
        InputError
            As in `ablate`; also if the absolute value of the factor is more than 100.

        Examples
        --------
        >>> model.scale(text, [(1, 0)], 2.0, most=3)  # head 0 of layer 1, twice as strong
        """
        by = validate_number("factor", factor)
        if not abs(by) <= MAX_HEAD_SCALE:
            sentence = (
                f"factor must be at least -{MAX_HEAD_SCALE:g} and at most "
                f"{MAX_HEAD_SCALE:g}. It is {by:g}."
            )
            raise InputError("factor", sentence)
        edits = [HeadEdit(*head, HeadEditKind.SCALED, by) for head in _parse_heads(heads)]
        return self._predict_with_edits(text, edits, most)

    def cut(
        self,
        text: str,
        edges: Iterable[tuple[int, int, int, int]],
        *,
        most: int = 10,
    ) -> list[tuple[str, float]]:
        """Return the most likely next tokens, like `next_tokens`, with attention edges cut.

        Parameters
        ----------
        edges : iterable of (layer, head, query, key)
            Indices of the edges to cut: their scores are masked before the softmax, so that their
            weights are 0 and the query's other weights sum to 1.

        Raises
        ------
        InputError
            As in `ablate`; also if a query would have no key left.

        Examples
        --------
        >>> model.cut(text, [(1, 0, 6, 2)], most=3)  # layer 1, head 0: query 6, key 2
        """
        validated_text, count = validate_string("text", text), validate_integer("most", most)
        cells: dict[LayerAndHead, list[tuple[int, int]]] = {}
        tokens = len(self.opened.encode_inputs(validated_text)[1])
        for layer, head, query, key in _parse_edges(edges):
            if not (0 <= query < tokens and 0 <= key < tokens):
                sentence = (
                    f"Query {query} or key {key} does not exist: this text has {tokens} tokens."
                )
                raise InputError("edges", sentence)
            cells.setdefault((layer, head), []).append((query, key))
        logs = self.opened.next_token_log_probabilities(validated_text, None, cells)
        return self.opened.top_tokens(logs, count)

    def _predict_with_edits(
        self, text: str, edits: list[HeadEdit], most: int
    ) -> list[tuple[str, float]]:
        from visualizer.models.head_edits import context_edits

        given, count = validate_string("text", text), validate_integer("most", most)
        edited = context_edits(self.opened, given, edits)
        return self.opened.top_tokens(
            self.opened.next_token_log_probabilities(given, edited), count
        )

    def patch(
        self, text: str, source: str, heads: Iterable[tuple[int, int]], *, most: int = 10
    ) -> list[tuple[str, float]]:
        """Return the most likely next tokens, with heads patched from another text.

        Parameters
        ----------
        source : str
            A text with the same number of tokens, which supplies the heads' context vectors.
        heads : iterable of (layer, head)
            Indices of the heads to patch.

        Raises
        ------
        InputError
            As in `ablate`; also if the texts have different numbers of tokens.

        Examples
        --------
        >>> model.patch(text, "the dog sat on the mat the dog", [(0, 1)], most=3)
        """
        kind, other = HeadEditKind.PATCHED, validate_string("source", source)
        edits = [HeadEdit(*head, kind, text=other) for head in _parse_heads(heads)]
        return self._predict_with_edits(text, edits, most)

    def logit_parts(self, text: str, token: str | None = None) -> LogitParts:
        """Split the logit of a next token into direct contributions of the heads and layers.

        ``heads`` [layer, head], ``rest`` [layer], ``embedding`` and ``bias`` sum to ``logit``. The
        direct contribution of a head differs from the effect of ablating it; see `ablations`. A
        model that computes in 16 bits runs in float32.

        Parameters
        ----------
        token : str, optional
            A single token, with its leading space if it has one; by default, the most likely token.

        Raises
        ------
        InputError
            If the model does not generate text, the outputs of the heads are transformed before
            they are added to the residual stream, or ``token`` is not a single token.

        Examples
        --------
        >>> parts = model.logit_parts(text)
        >>> total = parts.heads.sum() + parts.rest.sum() + parts.embedding + parts.bias
        >>> bool(abs(total - parts.logit) < 1e-3)
        True
        """
        from visualizer.models.logit_attribution import logit_parts

        number = None if token is None else self.opened.token_id(validate_string("token", token))
        return logit_parts(self.opened, validate_string("text", text), number)

    def logit_lens(self, text: str, most: int = 1) -> list[list[list[tuple[str, float]]]]:
        """Return the next-token predictions after each layer (logit lens), [layer][query][rank].

        Each entry is a token with its probability. The predictions after the last layer are the
        model's output.

        Raises
        ------
        InputError
            As in `logit_parts`.

        Examples
        --------
        >>> after_first_layer = model.logit_lens(text)[0]  # for each query, the likeliest tokens
        """
        from visualizer.models.logit_attribution import logit_lens

        read = logit_lens(
            self.opened, validate_string("text", text), max(1, validate_integer("most", most))
        )
        return [
            [
                [*zip(self.opened.token_texts(ranks), chances, strict=True)]
                for ranks, chances in zip(numbers, shares, strict=True)
            ]
            for numbers, shares in zip(
                read.numbers.tolist(), read.probabilities.tolist(), strict=True
            )
        ]

    def generate(
        self,
        text: str,
        tokens: int = 20,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int = 0,
        chat: bool = False,
    ) -> GeneratedText:
        """Generate text token by token, with a key/value cache.

        Parameters
        ----------
        tokens : int
            Maximum number of tokens to generate; the model may stop earlier.
        temperature, top_k, top_p, seed
            As in `TrainedModel.generate`; at temperature 0, the most likely token is chosen.
        chat : bool
            Whether to format the text as a user message to which the model replies.

        Raises
        ------
        InputError
            If the model does not generate text, or a setting is invalid.

        Examples
        --------
        >>> generated = model.generate(text, tokens=3)
        >>> sampled = model.generate(text, tokens=3, temperature=0.8, top_k=50, seed=1)
        """
        from visualizer.models.kv_cache_generation import generate

        result = generate(
            self.opened,
            validate_string("text", text),
            validate_integer("tokens", tokens),
            validate_sampling(temperature, top_k, top_p),
            validate_seed(seed),
            is_chat=validate_bool("chat", chat),
        )
        return generated_text(result, self.opened.folder.name)

    def ablations(self, text: str) -> np.ndarray:
        """Return the effect of ablating each head on the most likely next token, [layer, head].

        Each value is the change in the log-probability of this token, in nats, if only this head is
        ablated: negative if the head supports the token, positive if the head suppresses it. The
        model runs once per head. The effect of ablating a head differs from its direct contribution
        to the logit; see `logit_parts`. The array is read-only.

        Raises
        ------
        InputError
            If the model does not generate text, or its layers have different numbers of heads.

        Examples
        --------
        >>> effects = model.ablations(text)  # layer head
        >>> effects.shape == (len(model_attention.layers), model_attention["weights", 0].shape[0])
        True
        """
        from visualizer.models.head_edits import compute_ablation_changes

        return compute_ablation_changes(self.opened, validate_string("text", text)).changes


def _check_text_arguments(second: str | None, *, is_chat: bool) -> None:
    """Reject arguments that have no effect on token ids and embeddings."""
    if second is not None:
        sentence = (
            "second cannot be combined with token ids or embeddings. Pass the output of the "
            "tokenizer for both texts, which may contain decoder_input_ids."
        )
        raise InputError("second", sentence)
    if is_chat:
        raise InputError("chat", "chat has no effect on token ids or embeddings. Remove chat.")


def _parse_heads(heads: Iterable[tuple[int, int]]) -> list[LayerAndHead]:
    takes = "a list of (layer, head) pairs, such as [(5, 1)]"
    return [
        (layer, head)
        for layer, head in _parse_integer_rows("heads", takes, ("layer", "head"), heads)
    ]


def _parse_edges(edges: Iterable[tuple[int, int, int, int]]) -> list[list[int]]:
    takes = "a list of (layer, head, query, key) tuples, such as [(5, 1, 8, 3)]"
    return _parse_integer_rows("edges", takes, ("layer", "head", "query", "key"), edges)


def _parse_integer_rows(
    name: str, takes: str, parts: tuple[str, ...], given: object
) -> list[list[int]]:
    """Validate a list of rows of integers; the list may be empty."""
    is_empty = isinstance(given, tuple | list) and not given
    rows = [] if is_empty else validate_sequence(name, takes, given)
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != len(parts):
            raise InputError(name, f"{name} must be {takes}. It is {describe_value(given)}.")
    return [[validate_integer(*part) for part in zip(parts, row, strict=True)] for row in rows]
