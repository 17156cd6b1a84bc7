"""Notebook API for transformers models, opened from a folder or already in memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, overload

from visualizer.api.argument_validation import (
    choice,
    device_of,
    dtype_of,
    file_path,
    number,
    several,
    shown,
    string,
    switch,
    whole_number,
)
from visualizer.api.attention_api import Attention, stages_of
from visualizer.attention.saved_numbers import captured_header
from visualizer.attention.spec import Device, Dtype
from visualizer.attention.token_labels import readable_tokens
from visualizer.brief_repr import shortened
from visualizer.errors import InputError
from visualizer.export.offscreen_qt_application import qt_for_drawing
from visualizer.file_opening import ROOMY
from visualizer.models.layer_lookup import (
    head_rows,
    layer_numbers,
    part_names,
    run_of_layer,
    runs_of_only_part,
    runs_of_part,
)
from visualizer.models.model_source import MAX_HEAD_SCALE, HeadEdit, HeadEditKind
from visualizer.runtime import return_freed_memory
from visualizer.session.document import Document
from visualizer.session.head_order import HeadOrder
from visualizer.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    import numpy as np

    from visualizer.api.keyword_argument_types import Look
    from visualizer.api.notebook_values import Explained, Figure
    from visualizer.attention.model_reading import LogitParts
    from visualizer.models.cached_generation import GeneratedText
    from visualizer.models.kept_parts import KeptParts
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.opened_model import OpenedModel
    from visualizer.models.recorded_runs import LayerRun
    from visualizer.models.recorded_texts import RecordedBatch


def open_model(
    path: str | Path,
    *,
    device: object = Device.AUTO,
    dtype: object = Dtype.FLOAT32,
    from_disk: bool = False,
) -> Model:
    """Open a transformers model from its folder: ``open_model("models/SmolLM2-135M")``.

    Nothing is downloaded, and no code in the folder is run. Requires
    ``pip install "attention-visualizer[models]"``.

    Parameters
    ----------
    path : str or path
        A folder with ``config.json``, weights in ``.safetensors`` files and a tokenizer; the name
        ``organisation/name`` of a model in the local Hugging Face cache; or the folder of a
        language lab run, one of its snapshots, or weights saved by the lab.
    device : str or torch.device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``. A device that is not available is rejected.
    dtype : str or torch.dtype
        ``"float32"`` or ``"float64"``. 16-bit weights are converted without loss.
    from_disk : bool
        Whether to leave the layers on disk and read them one at a time whenever they are needed,
        on the CPU. Use it for models larger than memory.

    Raises
    ------
    InputError
        A `ValueError` that states why the model cannot be opened, and what to do.
    """
    from visualizer.attention.device import check_available
    from visualizer.models.opened_model import open_model as opened

    return_freed_memory()
    place, where = file_path("path", path), (device_of(device), dtype_of(dtype))
    check_available(*where)
    return Model(opened(place, *where, is_from_disk=switch("from_disk", from_disk)))


# A dataclass, not a Struct: `help` would evaluate the types of a Struct's fields, which are
# imported for type checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Model:
    """A transformers model opened from its folder; see `open_model`."""

    opened: OpenedModel

    def __repr__(self) -> str:
        folder = self.opened.folder
        return shortened(f"<Model: {folder.name} · {folder.kind} · {folder.numbers:,} numbers>")

    @overload
    def attend(
        self,
        text: str | None = None,
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
        text: list[str] | tuple[str, ...],
        second: None = None,
        *,
        chat: bool = False,
        image: None = None,
        layers: int | Iterable[int] | None = None,
        stages: str | Iterable[str] | None = None,
    ) -> tuple[ModelAttention, ...]: ...

    def attend(
        self,
        text: str | list[str] | tuple[str, ...] | None = None,
        second: str | None = None,
        *,
        chat: bool = False,
        image: str | Path | None = None,
        layers: int | Iterable[int] | None = None,
        stages: str | Iterable[str] | None = None,
    ) -> ModelAttention | tuple[ModelAttention, ...]:
        """Run the model on a text or an image and return the attention of all its layers.

        Parameters
        ----------
        text : str or list of str, optional
            The text. Several texts are processed one by one, without padding, and return one result
            each.
        second : str, optional
            The second text of a pair. For an encoder-decoder model, the decoder's input after its
            first token.
        chat : bool
            Whether to format the text as a user message with the tokenizer's chat template.
        image : str or path, optional
            An image file, instead of a text. Its tokens are patches, labelled by their positions
            from the top left: ``row 3, column 5``.
        layers : int or iterable of int, optional
            Indices of the layers to keep, from 0; all by default.
        stages : str or iterable of str, optional
            The stages to keep in addition to the weights; all by default. A number cannot be
            explained if it is computed from a stage that is not kept.

        Raises
        ------
        InputError
            If no input is given, the input is too long for the model or for memory, or a layer or
            stage does not exist.
        """
        kept = _parse_kept_parts(layers, stages)
        if image is not None:
            if text is not None or second is not None:
                raise InputError("image", ("text and image cannot be combined. Pass one of them."))
            if switch("chat", chat):
                raise InputError("chat", "chat has no effect with an image. Remove it.")
            return ModelAttention(self.opened.attend_image(file_path("image", image), kept))
        if text is None:
            raise InputError("text", "A text or an image is required.")
        if not isinstance(text, str):
            return self._attend_each(text, second, kept, is_chat=switch("chat", chat))
        given, is_chat = None if second is None else string("second", second), switch("chat", chat)
        runs = self.opened.attend(string("text", text), given, is_chat=is_chat, kept=kept)
        return ModelAttention(runs)

    def _attend_each(
        self, given: object, second: object, kept: KeptParts, *, is_chat: bool
    ) -> tuple[ModelAttention, ...]:
        from visualizer.models.text_reading import attend_each

        texts = [string("text", text) for text in several("text", "a text or a list", given)]
        if second is not None:
            raise InputError(
                "second", ("second cannot be combined with several texts. Pass one text at a time.")
            )
        runs = attend_each(self.opened, texts, is_chat=is_chat, kept=kept)
        return tuple(map(ModelAttention, runs))

    def next_tokens(self, text: str, most: int = 10) -> list[tuple[str, float]]:
        """Return the most likely next tokens after a text, each with its probability.

        Raises
        ------
        InputError
            If the model does not generate text.
        """
        count = whole_number("most", most)
        logs = self.opened.next_token_log_probabilities(string("text", text))
        return self.opened.likeliest(logs, count)

    def ablate(
        self,
        text: str,
        heads: Iterable[tuple[int, int]],
        *,
        mean: bool = False,
        most: int = 10,
    ) -> list[tuple[str, float]]:
        """Return the most likely next tokens, as `next_tokens`, with some heads ablated.

        Parameters
        ----------
        heads : iterable of (layer, head)
            Heads whose context vectors are replaced by zeros.
        mean : bool
            Whether to replace them by the mean of the head's context vectors over the text instead.

        Raises
        ------
        InputError
            As `next_tokens`; also if a head does not exist or cannot be ablated.
        """
        kind = HeadEditKind.MEAN if mean else HeadEditKind.OFF
        return self._predict_with_edits(
            text, [HeadEdit(*place, kind) for place in _parse_heads(heads)], most
        )

    def scale(
        self, text: str, heads: Iterable[tuple[int, int]], factor: float, *, most: int = 10
    ) -> list[tuple[str, float]]:
        """Return the most likely next tokens, as `next_tokens`, with heads scaled by a factor.

        Raises
        ------
        InputError
            As `ablate`; also if the absolute value of the factor is more than 100.
        """
        by = number("factor", factor)
        if not abs(by) <= MAX_HEAD_SCALE:
            sentence = (
                f"factor must be at least -{MAX_HEAD_SCALE:g} and at most "
                f"{MAX_HEAD_SCALE:g}. It is {by:g}."
            )
            raise InputError("factor", sentence)
        edits = [HeadEdit(*place, HeadEditKind.SCALED, by) for place in _parse_heads(heads)]
        return self._predict_with_edits(text, edits, most)

    def cut(
        self,
        text: str,
        edges: Iterable[tuple[int, int, int, int]],
        *,
        most: int = 10,
    ) -> list[tuple[str, float]]:
        """Return the most likely next tokens, as `next_tokens`, with attention edges cut.

        Parameters
        ----------
        edges : iterable of (layer, head, query, key)
            Their scores are masked before the softmax, so that the weight is 0 and the query's
            other weights sum to 1.

        Raises
        ------
        InputError
            As `ablate`; also if a query would have no key left.
        """
        given, count = string("text", text), whole_number("most", most)
        cells: dict[LayerAndHead, list[tuple[int, int]]] = {}
        tokens = len(self.opened.inputs(given)[1])
        for layer, head, query, key in _parse_edges(edges):
            if not (0 <= query < tokens and 0 <= key < tokens):
                sentence = f"There is no query {query} or key {key} in this text."
                raise InputError("edges", sentence)
            cells.setdefault((layer, head), []).append((query, key))
        logs = self.opened.next_token_log_probabilities(given, None, cells)
        return self.opened.likeliest(logs, count)

    def _predict_with_edits(
        self, text: str, edits: list[HeadEdit], most: int
    ) -> list[tuple[str, float]]:
        from visualizer.models.head_edits import log_probabilities_with

        given, count = string("text", text), whole_number("most", most)
        return self.opened.likeliest(log_probabilities_with(self.opened, given, edits), count)

    def patch(
        self, text: str, source: str, heads: Iterable[tuple[int, int]], *, most: int = 10
    ) -> list[tuple[str, float]]:
        """Return the most likely next tokens, with heads patched from another text.

        Parameters
        ----------
        source : str
            A text with the same number of tokens, from which the heads' context vectors are taken.
        heads : iterable of (layer, head)
            The heads to patch.

        Raises
        ------
        InputError
            As `ablate`; also if the texts differ in their number of tokens.
        """
        kind, other = HeadEditKind.PATCHED, string("source", source)
        edits = [HeadEdit(*place, kind, text=other) for place in _parse_heads(heads)]
        return self._predict_with_edits(text, edits, most)

    def logit_parts(self, text: str, token: str | None = None) -> LogitParts:
        """Split the logit of a next token into the direct contributions of heads and layers.

        ``heads`` [layer, head], ``rest`` [layer], ``embedding`` and ``bias`` sum to ``logit``. The
        direct contribution of a head differs from the effect of ablating it; see `ablations`.

        Parameters
        ----------
        token : str, optional
            A single token, with its leading space if it has one; the most likely one by default.

        Raises
        ------
        InputError
            If the model does not generate text, the outputs of the heads are transformed before
            they are added, or ``token`` is not a single token.
        """
        from visualizer.models.logit_attribution import logit_parts

        number = None if token is None else self.opened.number_of(string("token", token))
        return logit_parts(self.opened, string("text", text), number)

    def logit_lens(self, text: str, most: int = 1) -> list[list[list[tuple[str, float]]]]:
        """Return the next-token predictions after each layer (logit lens): [layer][query][rank].

        Each entry is a token with its probability. Those of the last layer are the model's output.

        Raises
        ------
        InputError
            As `logit_parts`.
        """
        from visualizer.models.logit_attribution import logit_lens

        read = logit_lens(self.opened, string("text", text), max(1, whole_number("most", most)))
        return [
            [
                [*zip(self.opened.tokens(ranks), chances, strict=True)]
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
            As for `TrainedModel.generate`; at temperature 0 the most likely token is chosen.
        chat : bool
            Whether to format the text as a user message, which the model answers.

        Raises
        ------
        InputError
            If the model does not generate text, or a setting is invalid.
        """
        from visualizer.language.sampling import Sampling
        from visualizer.models.cached_generation import generate

        return generate(
            self.opened,
            string("text", text),
            whole_number("tokens", tokens),
            Sampling(number("temperature", temperature), top_k, number("top_p", top_p)),
            whole_number("seed", seed),
            is_chat=switch("chat", chat),
        )

    def ablations(self, text: str) -> np.ndarray:
        """Return the effect of ablating each head on the most likely next token, [layer, head].

        Each number is the change of that token's log-probability, in nats, if only that head is
        ablated: negative if the head supports the token, positive if it suppresses it. The model
        runs once per head. The effect of ablating a head differs from its direct contribution to
        the logit; see `logit_parts`. The array is read-only.

        Raises
        ------
        InputError
            If the model does not generate text, or its layers differ in their number of heads.
        """
        from visualizer.models.head_edits import ablation_changes

        return ablation_changes(self.opened, string("text", text)).changes


def _parse_kept_parts(
    layers: int | Iterable[int] | None, stages: str | Iterable[str] | None
) -> KeptParts:
    from visualizer.models.kept_parts import KeptParts

    if layers is None:
        numbers = None
    else:
        is_one = isinstance(layers, Integral)
        several_layers = [layers] if is_one else several("layers", "a list of layers", layers)
        numbers = frozenset(whole_number("layers", layer) for layer in several_layers)
    return KeptParts(numbers, None if stages is None else stages_of(stages))


def _parse_heads(heads: Iterable[tuple[int, int]]) -> list[LayerAndHead]:
    takes = "a list of (layer, head), such as [(5, 1)]"
    return [
        (layer, head)
        for layer, head in _parse_integer_rows("heads", takes, ("layer", "head"), heads)
    ]


def _parse_edges(edges: Iterable[tuple[int, int, int, int]]) -> list[list[int]]:
    takes = "a list of (layer, head, query, key), such as [(5, 1, 8, 3)]"
    return _parse_integer_rows("edges", takes, ("layer", "head", "query", "key"), edges)


def _parse_integer_rows(
    name: str, takes: str, parts: tuple[str, ...], given: object
) -> list[list[int]]:
    """Validate a list of rows of integers, which may be empty."""
    is_empty = isinstance(given, tuple | list) and not given
    rows = [] if is_empty else several(name, takes, given)
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != len(parts):
            raise InputError(name, f"{name} must be {takes}. It is {shown(given)}.")
    return [[whole_number(*part) for part in zip(parts, row, strict=True)] for row in rows]


@contextmanager
def capture(
    model: Any, tokens: Iterable[str] | Iterable[Iterable[str]] | None = None
) -> Iterator[ModelAttention]:
    """Record the attention of a transformers model in memory while it runs.

    ::

        with visualizer.capture(model) as seen:
            model(**inputs)
        seen["weights"]  # [layer, head, query, key]

    If the model runs several times within the context, the last text is kept. Runs that continue
    the same text with a key/value cache are joined, so that ``model.generate()`` yields the rows of
    the prompt and of all generated tokens. If the cache was filled before the context, only the
    rows of the new tokens are recorded, which are the last of the keys, and a notice says so.

    For a batch, the attention is that of the first text, and ``seen.texts`` holds all of them.
    Padding is removed according to ``attention_mask``. The model uses its eager attention
    implementation within the context.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Or any object that contains one: a PEFT model, a ``SentenceTransformer``, a pipeline, your
        own module, or a compiled model, which runs uncompiled within the context.
    tokens : iterable of str, or iterable of those, optional
        Labels for the tokens of the whole text, instead of their numbers; for a batch, one list
        per text. Tokens in the form of the vocabulary are also accepted:
        ``tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])``.

    Raises
    ------
    InputError
        If the object contains no transformers model or several, or none of the model's attention
        was computed.
    """
    from visualizer.models.recorded_texts import RecordedBatch, record_texts
    from visualizer.models.transformers_model_within import transformers_model_within

    words = () if tokens is None else _parse_token_lists(tokens)
    own = transformers_model_within(model)
    seen = ModelAttention(())
    with record_texts(own) as recorded:
        yield seen
    batch = RecordedBatch(recorded, type(own).__name__, words)
    if words and len(words) > max(1, len(batch)):
        sentence = f"tokens has {len(words):,} lists, but there are {len(batch):,} texts."
        raise InputError("tokens", sentence)
    object.__setattr__(seen, "runs", batch.runs(0))
    object.__setattr__(seen, "batch", batch if len(batch) > 1 else None)


def _parse_token_lists(tokens: object) -> tuple[tuple[str, ...], ...]:
    given = several("tokens", "a list of texts", tokens)
    if given and not any(isinstance(each, str) for each in given):
        lists = [several("tokens", "a list of texts", each) for each in given]
    else:
        lists = [given]
    return tuple(readable_tokens([string("tokens", word) for word in words]) for words in lists)


def _to_attention(layers: LayerRun) -> Attention:
    return Attention(Document().set("captured", captured_header(layers.run)), ROOMY, layers.run)


# A dataclass, not a Struct: see `Model`.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelAttention:
    """The attention of a model on a text, layer by layer.

    ``seen["weights"]`` is a read-only array [layer, head, query, key]. ``seen.stages`` lists the
    other stages that all layers have. An encoder-decoder model has several kinds of attention,
    which are selected by name: ``seen.part("encoder")``; ``seen.parts`` lists the names.
    For a recorded batch, this is the attention of the first text; ``seen.texts`` has one
    `ModelAttention` per text.
    """

    runs: tuple[LayerRun, ...]
    batch: RecordedBatch | None = None

    def __repr__(self) -> str:
        if not self.runs:
            return "<ModelAttention: not run yet>"
        name = self.runs[0].run.source_file.rpartition(" of ")[2]
        parts = [*((name,) if name else ()), *map(_describe_layers, self.runs)]
        count = (f"{len(self.batch):,} texts",) if self.batch else ()
        return shortened(f"<ModelAttention: {' · '.join((*parts, *count))}>")

    def __getitem__(self, stage: str) -> np.ndarray:
        import numpy as np

        places = {
            layer: (_to_attention(each), at if each.run.trace.axes else None)
            for each in self._runs_of_only_part()
            for at, layer in enumerate(each.group.layers)
        }
        stacked = np.empty(0)
        for row, layer in enumerate(sorted(places)):
            attention, at = places[layer]
            layer_values = attention[stage] if at is None else attention[stage, at]
            if not row:
                stacked = np.empty((len(places), *layer_values.shape), layer_values.dtype)
            elif layer_values.shape != stacked.shape[1:]:
                sentence = "The layers differ in size. Use attention(layer)."
                raise InputError("stage", sentence)
            stacked[row] = layer_values
        stacked.flags.writeable = False
        return stacked

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the model's kinds of attention, one for all layers of a kind."""
        return part_names(self.runs)

    def part(self, name: str) -> ModelAttention:
        """Return the attention of one part, by its name, a component of it or an abbreviation."""
        return ModelAttention(runs_of_part(self._require_runs(), string("name", name)))

    @property
    def texts(self) -> tuple[ModelAttention, ...]:
        """The attention of each text of a recorded batch; a tuple of itself for a single text."""
        if self.batch is None:
            return (self,)
        return tuple(ModelAttention(self.batch.runs(at)) for at in range(len(self.batch)))

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages that all layers have, in order of computation."""
        first, *others = (each.run.trace.names for each in self._require_runs())
        return tuple(name for name in first if all(name in each for each in others))

    @property
    def layers(self) -> tuple[int, ...]:
        """Indices of the recorded layers, ascending."""
        return layer_numbers(self._require_runs())

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the queries, as split by the model's tokenizer."""
        return self._runs_of_only_part()[0].run.texts[0]

    @property
    def key_tokens(self) -> tuple[str, ...]:
        """The tokens of the keys, which differ from those of the queries in cross-attention."""
        return self._runs_of_only_part()[0].run.key_tokens or self.tokens

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the numbers, as sentences."""
        sentences = (notice for each in self.runs for notice in each.notices)
        return tuple(dict.fromkeys(sentences))

    def attention(self, layer: int) -> Attention:
        """Return the attention of a layer, together with all layers of the same structure.

        The axis ``layer`` of the result indexes these layers from 0.
        """
        return _to_attention(self._find_layer(layer)[0])

    def explain(self, stage: str, *, layer: int, **place: int) -> Explained:
        """Explain how one number is computed.

        Parameters
        ----------
        layer : int
            Index of the layer in the model.
        **place : int
            Indices by the names of the stage's dimensions: ``head=1, query=3, key=2``.

        Raises
        ------
        InputError
            If the stage or position does not exist.
        """
        found, at = self._find_layer(layer)
        return _to_attention(found).explain(stage, layer=at, **place)

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: int | Iterable[int] | None = None,
        *,
        layer: int,
        **look: Unpack[Look],
    ) -> Figure:
        """Create a figure of one layer's heatmaps; see `Attention.figure`."""
        found, at = self._find_layer(layer)
        return _to_attention(found).figure(stages, heads, layer=at, **look)

    def overview(self, order: str = HeadOrder.LAYER) -> Overview:
        """Draw all heads of all layers as small heatmaps.

        Parameters
        ----------
        order : str
            ``"layer"``; ``"induction"``, ``"duplicate"``, ``"previous"``, ``"first"`` or ``"own"``
            for the heads with the highest mean weight on these tokens first; ``"sharpest"`` or
            ``"farthest"``; or ``"alike"``, which groups similar heads.

        Raises
        ------
        InputError
            If the layers differ in their number of heads.
        """
        chosen = choice("order", HeadOrder, order)
        runs = [(each.run, each.group.layers) for each in self._runs_of_only_part()]
        with qt_for_drawing():
            from visualizer.export.figures.png_writer import overview_png

            return Overview(overview_png(runs, chosen), repr(self)[1:-1])

    def heads(self) -> list[dict[str, float]]:
        """Return a table of measures with one row per head.

        Each row has ``layer``, ``head`` and the mean weights on the ``previous`` token, the
        ``first`` token, the query's ``own`` token, earlier occurrences of the query's token
        (``duplicate``) and the tokens after those occurrences (``induction``); the mean ``largest``
        weight; the ``entropy`` in bits; and the mean ``distance`` in tokens. ``value_weighting`` is
        the distance between a row of weights and the same row weighted by the norms of the values
        and normalized (Kobayashi et al. 2020): half the sum of the absolute differences. A measure
        is NaN if there is nothing to average.
        """
        return head_rows(self._runs_of_only_part())

    def _require_runs(self) -> tuple[LayerRun, ...]:
        if not self.runs:
            raise InputError("model", "The model has not been run yet.")
        return self.runs

    def _runs_of_only_part(self) -> tuple[LayerRun, ...]:
        return runs_of_only_part(self._require_runs())

    def _find_layer(self, layer: object) -> tuple[LayerRun, int]:
        number = whole_number("layer", layer)
        found = run_of_layer(self._runs_of_only_part(), number)
        if found is None:
            raise InputError(
                "layer", (f"There is no layer {shown(number)}. The layers are {self.layers}.")
            )
        return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Overview:
    """A picture of all heads, displayed by notebooks."""

    png: bytes
    about: str = ""

    def __repr__(self) -> str:
        return shortened(f"<Overview: PNG of {len(self.png):,} bytes · {self.about}>")

    def save(self, path: str | Path) -> None:
        """Write the picture as a PNG file, replacing an existing file.

        Raises
        ------
        InputError
            If the file cannot be written, or its name does not end in ``.png``.
        """
        place = file_path("path", path)
        if place.suffix.lower() != ".png":
            raise InputError("path", ("The overview is a PNG. Use a name that ends in .png."))
        atomic_file.write(place, lambda file: file.write(self.png))

    def _repr_png_(self) -> bytes:
        return self.png


def _describe_layers(layers: LayerRun) -> str:
    """Describe the layers of a run: their kind and the sizes of their attention."""
    trace, count = layers.run.trace, len(layers.group.layers)
    queries, keys = trace.sides
    tokens = f"{queries:,}" if queries == keys else f"{queries:,} × {keys:,}"
    heads = trace.spec.heads
    return (
        f"{layers.group.name}: {count:,} layer{'s' * (count != 1)} × {heads:,} "
        f"head{'s' * (heads != 1)}, {tokens} token{'s' * (keys != 1)}"
    )
