"""Real models in a notebook: opened from a folder, or one that is in memory already."""

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
from visualizer.attention.captured_numbers import captured_header
from visualizer.attention.spec import Device, Dtype
from visualizer.attention.token_labels import readable_tokens
from visualizer.brief_repr import shortened
from visualizer.errors import InputError
from visualizer.export.offscreen_qt_application import qt_for_drawing
from visualizer.memory_allocator_settings import return_freed_memory
from visualizer.models.layer_selection_and_head_measures import (
    head_rows,
    layer_numbers,
    part_names,
    run_of_layer,
    runs_of_only_part,
    runs_of_part,
)
from visualizer.models.model_source import MAX_HEAD_SCALE, HeadEdit, HeadEditKind
from visualizer.read_files_and_restore_runs import ROOMY
from visualizer.session.document import Document
from visualizer.session.head_order import HeadOrder
from visualizer.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    import numpy as np

    from visualizer.api.figure_and_explained_number import Explained, Figure
    from visualizer.api.keyword_argument_types import Look
    from visualizer.attention.model_answers import LogitParts
    from visualizer.models.generation_with_cache import GeneratedText
    from visualizer.models.kept_parts import KeptParts
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.opened_model import OpenedModel
    from visualizer.models.run_from_attention_calls import LayerRun
    from visualizer.models.runs_of_recorded_texts import RecordedBatch


def open_model(
    path: str | Path,
    *,
    device: object = Device.AUTO,
    dtype: object = Dtype.FLOAT32,
    from_disk: bool = False,
) -> Model:
    """Open a model of transformers from its folder: ``open_model("models/SmolLM2-135M")``.

    Nothing is fetched, and no code of the folder is run. It takes
    ``pip install "attention-visualizer[models]"``.

    Parameters
    ----------
    path : str or path
        A folder with ``config.json``, weights as ``.safetensors`` and a tokenizer;
        ``organisation/name`` of a model in the local Hugging Face cache; or the folder of a run of
        the language lab, one of its snapshots, or weights that the lab has saved.
    device : str or torch.device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``; one that is not available is rejected.
    dtype : str or torch.dtype
        ``"float32"`` or ``"float64"``. Weights of 16 bits are converted without loss.
    from_disk : bool
        Whether its layers stay on the disk and are read one at a time, on the CPU, each time that
        they are needed: for a model larger than the memory.

    Raises
    ------
    InputError
        A `ValueError` that says why it cannot be opened, and what to do about it.
    """
    from visualizer.attention.device import check_available
    from visualizer.models.opened_model import open_model as opened

    return_freed_memory()
    place, where = file_path("path", path), (device_of(device), dtype_of(dtype))
    check_available(*where)
    return Model(opened(place, *where, is_from_disk=switch("from_disk", from_disk)))


# No struct: `help` would evaluate the types of its fields, which are imported for checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Model:
    """A model of transformers that was opened from its folder; see `open_model`."""

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
        """Run the model on a text, or on an image, and return the attention of all its layers.

        Parameters
        ----------
        text : str or list of str, optional
            Several texts are read one by one, without padding, and give the attention of each.
        second : str, optional
            The second text of a pair; of a model with an encoder and a decoder, what the decoder
            reads after its first token.
        chat : bool
            Whether the text is given as a user's message, by the tokenizer's chat template.
        image : str or path, optional
            The file of an image, instead of a text. Its tokens are patches, named by their places
            from the top left: ``row 3, column 5``.
        layers : int or iterable of int, optional
            The numbers of the layers to keep, from 0; all by default.
        stages : str or iterable of str, optional
            The stages to keep, besides the weights; all by default. A number that is computed from
            a stage that is not kept is not explained.

        Raises
        ------
        InputError
            When there is nothing to read, or it is too long for the model or the memory; when there
            is no such layer or stage.
        """
        kept = _kept(layers, stages)
        if image is not None:
            if text is not None or second is not None:
                raise InputError("image", "A model reads an image or a text: give one of them.")
            if switch("chat", chat):
                raise InputError("chat", "An image is no message: give a text with it.")
            return ModelAttention(self.opened.attend_image(file_path("image", image), kept))
        if text is None:
            raise InputError("text", "There is nothing to read: give a text or an image.")
        if not isinstance(text, str):
            return self._attend_each(text, second, kept, is_chat=switch("chat", chat))
        given, is_chat = None if second is None else string("second", second), switch("chat", chat)
        runs = self.opened.attend(string("text", text), given, is_chat=is_chat, kept=kept)
        return ModelAttention(runs)

    def _attend_each(
        self, given: object, second: object, kept: KeptParts, *, is_chat: bool
    ) -> tuple[ModelAttention, ...]:
        from visualizer.models.several_texts import attend_each

        texts = [string("text", text) for text in several("text", "a text or a list", given)]
        if second is not None:
            raise InputError("second", "A second text belongs to one text: read the pairs apart.")
        runs = attend_each(self.opened, texts, is_chat=is_chat, kept=kept)
        return tuple(map(ModelAttention, runs))

    def next_tokens(self, text: str, most: int = 10) -> list[tuple[str, float]]:
        """Return the likeliest tokens that follow a text, each with its probability.

        Raises
        ------
        InputError
            When the model does not continue texts.
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
        """Return the likeliest next tokens, as `next_tokens`, without some heads.

        Parameters
        ----------
        heads : iterable of (layer, head)
            Their context vectors are 0 meanwhile.
        mean : bool
            Whether they are the mean of the head's context vectors over the text, and not 0.

        Raises
        ------
        InputError
            As `next_tokens`; when there is no such head, or it cannot be switched off.
        """
        kind = HeadEditKind.MEAN if mean else HeadEditKind.OFF
        return self._with_edits(text, [HeadEdit(*place, kind) for place in _heads(heads)], most)

    def scale(
        self, text: str, heads: Iterable[tuple[int, int]], factor: float, *, most: int = 10
    ) -> list[tuple[str, float]]:
        """Return the likeliest next tokens, as `next_tokens`, with heads multiplied by a factor.

        Raises
        ------
        InputError
            As `ablate`; when the factor is no number up to 100.
        """
        by = number("factor", factor)
        if not abs(by) <= MAX_HEAD_SCALE:
            sentence = f"factor is from -{MAX_HEAD_SCALE:g} to {MAX_HEAD_SCALE:g}, and not {by:g}."
            raise InputError("factor", sentence)
        edits = [HeadEdit(*place, HeadEditKind.SCALED, by) for place in _heads(heads)]
        return self._with_edits(text, edits, most)

    def cut(
        self,
        text: str,
        edges: Iterable[tuple[int, int, int, int]],
        *,
        most: int = 10,
    ) -> list[tuple[str, float]]:
        """Return the likeliest next tokens, as `next_tokens`, with edges of attention cut.

        Parameters
        ----------
        edges : iterable of (layer, head, query, key)
            Their scores are masked before the softmax, so that the weight is 0 and the other
            weights of the query sum to 1.

        Raises
        ------
        InputError
            As `ablate`; when a query would be left without a key.
        """
        given, count = string("text", text), whole_number("most", most)
        cells: dict[LayerAndHead, list[tuple[int, int]]] = {}
        tokens = len(self.opened.inputs(given)[1])
        for layer, head, query, key in _edges(edges):
            if not (0 <= query < tokens and 0 <= key < tokens):
                sentence = f"There is no query {query} or key {key} in this text."
                raise InputError("edges", sentence)
            cells.setdefault((layer, head), []).append((query, key))
        logs = self.opened.next_token_log_probabilities(given, None, cells)
        return self.opened.likeliest(logs, count)

    def _with_edits(self, text: str, edits: list[HeadEdit], most: int) -> list[tuple[str, float]]:
        from visualizer.models.activation_patching import log_probabilities_with

        given, count = string("text", text), whole_number("most", most)
        return self.opened.likeliest(log_probabilities_with(self.opened, given, edits), count)

    def patch(
        self, text: str, source: str, heads: Iterable[tuple[int, int]], *, most: int = 10
    ) -> list[tuple[str, float]]:
        """Return the likeliest next tokens of a text with heads as they read another one.

        Parameters
        ----------
        source : str
            A text of as many tokens, from whose reading the heads' context vectors are taken.
        heads : iterable of (layer, head)
            The heads.

        Raises
        ------
        InputError
            As `ablate`; when the texts have different numbers of tokens.
        """
        kind, other = HeadEditKind.PATCHED, string("source", source)
        edits = [HeadEdit(*place, kind, text=other) for place in _heads(heads)]
        return self._with_edits(text, edits, most)

    def logit_parts(self, text: str, token: str | None = None) -> LogitParts:
        """Split the logit of a next token into what each head and layer adds to it directly.

        ``heads`` [layer, head], ``rest`` [layer], ``embedding`` and ``bias`` sum to ``logit``. What
        a head adds directly and what is lost without it, `ablations`, are two questions.

        Parameters
        ----------
        token : str, optional
            A single token, with its leading blank if it has one; the likeliest without it.

        Raises
        ------
        InputError
            When the model continues no text, what heads write is changed before it is added, or
            ``token`` is not one token.
        """
        from visualizer.models.logit_attribution import logit_parts

        wanted = None if token is None else self.opened.number_of(string("token", token))
        return logit_parts(self.opened, string("text", text), wanted)

    def logit_lens(self, text: str, most: int = 1) -> list[list[list[tuple[str, float]]]]:
        """Return what each layer would say next if it were the last: [layer][query][rank].

        Each is a token with its probability. The last layer's are the model's own.

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
        """Continue a text, token by token, with the cache of keys and values.

        Parameters
        ----------
        tokens : int
            At most so many; the model may end its text before.
        temperature, top_k, top_p, seed
            As in the lab; at temperature 0 the likeliest token is taken.
        chat : bool
            Whether the text is a user's message, which the model answers.

        Raises
        ------
        InputError
            When the model does not continue texts, or a setting is invalid.
        """
        from visualizer.language.sampling import Sampling
        from visualizer.models.generation_with_cache import generate

        return generate(
            self.opened,
            string("text", text),
            whole_number("tokens", tokens),
            Sampling(number("temperature", temperature), top_k, number("top_p", top_p)),
            whole_number("seed", seed),
            is_chat=switch("chat", chat),
        )

    def ablations(self, text: str) -> np.ndarray:
        """Return what each head does for the likeliest next token, [layer, head], read-only.

        Each number is the change of that token's log-probability, in nats, where that head alone
        is switched off: below 0 the head speaks for the token, above 0 against it. The model runs
        once for each head. This is what is lost without the head; what the head itself adds to the
        logit is another question.

        Raises
        ------
        InputError
            When the model does not continue texts, or its layers differ in their heads.
        """
        from visualizer.models.head_ablations import ablation_changes

        return ablation_changes(self.opened, string("text", text)).changes


def _kept(layers: int | Iterable[int] | None, stages: str | Iterable[str] | None) -> KeptParts:
    from visualizer.models.kept_parts import KeptParts

    if layers is None:
        numbers = None
    else:
        is_one = isinstance(layers, Integral)
        several_layers = [layers] if is_one else several("layers", "a list of layers", layers)
        numbers = frozenset(whole_number("layers", layer) for layer in several_layers)
    return KeptParts(numbers, None if stages is None else stages_of(stages))


def _heads(heads: Iterable[tuple[int, int]]) -> list[LayerAndHead]:
    takes = "a list of (layer, head), such as [(5, 1)]"
    return [(layer, head) for layer, head in _numbers("heads", takes, ("layer", "head"), heads)]


def _edges(edges: Iterable[tuple[int, int, int, int]]) -> list[list[int]]:
    takes = "a list of (layer, head, query, key), such as [(5, 1, 8, 3)]"
    return _numbers("edges", takes, ("layer", "head", "query", "key"), edges)


def _numbers(name: str, takes: str, parts: tuple[str, ...], given: object) -> list[list[int]]:
    """Read a list of rows of whole numbers, which may be empty."""
    is_empty = isinstance(given, tuple | list) and not given
    rows = [] if is_empty else several(name, takes, given)
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) != len(parts):
            raise InputError(name, f"{name} is {takes}, and not {shown(given)}.")
    return [[whole_number(*part) for part in zip(parts, row, strict=True)] for row in rows]


@contextmanager
def capture(
    model: Any, tokens: Iterable[str] | Iterable[Iterable[str]] | None = None
) -> Iterator[ModelAttention]:
    """Record the attention of a transformers model that is in memory, while it runs.

    ::

        with visualizer.capture(model) as seen:
            model(**inputs)
        seen["weights"]  # [layer, head, query, key]

    If the model runs several times within the context, the last text is kept. Runs that continue
    the same text with a cache of keys and values belong together, so that ``model.generate()``
    gives the rows of the prompt and of all generated tokens. If a cache was filled before, there
    are only the rows of the new tokens, which are the last of the keys, and a notice says so.

    Of a batch, the first text is read, and ``seen.texts`` has all of them. Padding is left out, as
    ``attention_mask`` marks it. The model computes with its eager attention meanwhile.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        Or any object that contains one: a model of PEFT, a ``SentenceTransformer``, a pipeline, a
        module of your own, or a compiled model, which runs uncompiled meanwhile.
    tokens : iterable of str, or iterable of those, optional
        The labels of the tokens of the whole text, instead of their numbers; of a batch, a list
        for each text. Also as a vocabulary writes them:
        ``tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])``.

    Raises
    ------
    InputError
        When there is no model of transformers, or several, or none of its attention was computed.
    """
    from visualizer.models.recorded_texts import record_texts
    from visualizer.models.runs_of_recorded_texts import RecordedBatch
    from visualizer.models.transformers_model_within import transformers_model_within

    words = () if tokens is None else _token_lists(tokens)
    own = transformers_model_within(model)
    seen = ModelAttention(())
    with record_texts(own) as recorded:
        yield seen
    batch = RecordedBatch(recorded, type(own).__name__, words)
    if words and len(words) > max(1, len(batch)):
        sentence = f"There are {len(words):,} lists of tokens, and {len(batch):,} texts."
        raise InputError("tokens", sentence)
    object.__setattr__(seen, "runs", batch.runs(0))
    object.__setattr__(seen, "batch", batch if len(batch) > 1 else None)


def _token_lists(tokens: object) -> tuple[tuple[str, ...], ...]:
    given = several("tokens", "a list of texts", tokens)
    if given and not any(isinstance(each, str) for each in given):
        lists = [several("tokens", "a list of texts", each) for each in given]
    else:
        lists = [given]
    return tuple(readable_tokens([string("tokens", word) for word in words]) for words in lists)


def _attention_of(layers: LayerRun) -> Attention:
    return Attention(Document().set("captured", captured_header(layers.run)), ROOMY, layers.run)


# No struct: see above.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelAttention:
    """The attention of a model on a text, layer by layer.

    ``seen["weights"]`` is [layer, head, query, key], read-only, and so are the other stages that
    the model's layers have: ``seen.stages``. A model with an encoder and a decoder has several
    kinds of attention, which are read one by one: ``seen.part("encoder")``, of ``seen.parts``.
    Of a recorded batch it is the first text; ``seen.texts`` has one of these for each.
    """

    runs: tuple[LayerRun, ...]
    batch: RecordedBatch | None = None

    def __repr__(self) -> str:
        if not self.runs:
            return "<ModelAttention: not run yet>"
        name = self.runs[0].run.source_file.rpartition(" of ")[2]
        parts = [*((name,) if name else ()), *map(_described, self.runs)]
        count = (f"{len(self.batch):,} texts",) if self.batch else ()
        return shortened(f"<ModelAttention: {' · '.join((*parts, *count))}>")

    def __getitem__(self, stage: str) -> np.ndarray:
        import numpy as np

        places = {
            layer: (_attention_of(each), at if each.run.trace.axes else None)
            for each in self._of_one_part()
            for at, layer in enumerate(each.group.layers)
        }
        made = np.empty(0)
        for row, layer in enumerate(sorted(places)):
            attention, at = places[layer]
            own = attention[stage] if at is None else attention[stage, at]
            if not row:
                made = np.empty((len(places), *own.shape), own.dtype)
            elif own.shape != made.shape[1:]:
                sentence = "The layers differ in their sizes: use attention(layer)."
                raise InputError("stage", sentence)
            made[row] = own
        made.flags.writeable = False
        return made

    @property
    def parts(self) -> tuple[str, ...]:
        """Where in the model attention is computed: one name for all layers of a kind."""
        return part_names(self.runs)

    def part(self, name: str) -> ModelAttention:
        """Return the attention of one part, by its name, or a step or letters that it alone has."""
        return ModelAttention(runs_of_part(self._some(), string("name", name)))

    @property
    def texts(self) -> tuple[ModelAttention, ...]:
        """The attention of each text of a recorded batch; only itself if there is one text."""
        if self.batch is None:
            return (self,)
        return tuple(ModelAttention(self.batch.runs(at)) for at in range(len(self.batch)))

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages that all its layers have, in order of computation."""
        first, *others = (each.run.trace.names for each in self._some())
        return tuple(name for name in first if all(name in each for each in others))

    @property
    def layers(self) -> tuple[int, ...]:
        """The numbers of its layers, ascending."""
        return layer_numbers(self._some())

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the queries, as the model's tokenizer has them."""
        return self._of_one_part()[0].run.texts[0]

    @property
    def key_tokens(self) -> tuple[str, ...]:
        """The tokens of the keys, which in cross-attention are others."""
        return self._of_one_part()[0].run.key_tokens or self.tokens

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the numbers, as sentences."""
        said = (notice for each in self.runs for notice in each.notices)
        return tuple(dict.fromkeys(said))

    def attention(self, layer: int) -> Attention:
        """Return the attention of the layers that are alike to one, it included.

        Its axis ``layer`` counts those layers from 0.
        """
        return _attention_of(self._at(layer)[0])

    def explain(self, stage: str, *, layer: int, **place: int) -> Explained:
        """Explain how one number is computed.

        Parameters
        ----------
        layer : int
            The number of the layer in the model.
        **place : int
            Its indices, by the names of the stage's dims: ``head=1, query=3, key=2``.

        Raises
        ------
        InputError
            When there is no such stage or place.
        """
        found, at = self._at(layer)
        return _attention_of(found).explain(stage, layer=at, **place)

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: int | Iterable[int] | None = None,
        *,
        layer: int,
        **look: Unpack[Look],
    ) -> Figure:
        """Make a figure of one layer's heatmaps; see `Attention.figure`."""
        found, at = self._at(layer)
        return _attention_of(found).figure(stages, heads, layer=at, **look)

    def overview(self, order: str = HeadOrder.LAYER) -> Overview:
        """Draw all heads of all layers as small heatmaps.

        Parameters
        ----------
        order : str
            ``"layer"``; those first that read most of the ``"induction"``, ``"duplicate"``,
            ``"previous"``, ``"first"`` or ``"own"`` token, or are ``"sharpest"`` or
            ``"farthest"``; or ``"alike"``.

        Raises
        ------
        InputError
            When the layers differ in their heads.
        """
        chosen = choice("order", HeadOrder, order)
        runs = [(each.run, each.group.layers) for each in self._of_one_part()]
        with qt_for_drawing():
            from visualizer.export.figures.overview_writer import overview_png

            return Overview(overview_png(runs, chosen), repr(self)[1:-1])

    def heads(self) -> list[dict[str, float]]:
        """Return a table of all heads: a row each, with its measures.

        ``layer``, ``head`` and the mean weights on the ``previous`` token, the ``first``, its
        ``own``, earlier occurrences of the query's token (``duplicate``) and, for ``induction``,
        those that followed them; the mean ``largest`` weight; the ``entropy`` in bits and the mean
        ``distance`` in tokens. ``value_weighting`` is how far the weights move when each is
        times the length of its value (Kobayashi et al. 2020), as shares of a row: half the sum of
        the differences of a row. NaN where there is nothing to take a mean of.
        """
        return head_rows(self._of_one_part())

    def _some(self) -> tuple[LayerRun, ...]:
        if not self.runs:
            raise InputError("model", "The model has not been run yet.")
        return self.runs

    def _of_one_part(self) -> tuple[LayerRun, ...]:
        return runs_of_only_part(self._some())

    def _at(self, layer: object) -> tuple[LayerRun, int]:
        number = whole_number("layer", layer)
        found = run_of_layer(self._of_one_part(), number)
        if found is None:
            raise InputError("layer", f"There is no layer {shown(number)} among {self.layers}.")
        return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Overview:
    """A picture of all heads; a notebook shows it."""

    png: bytes
    about: str = ""

    def __repr__(self) -> str:
        return shortened(f"<Overview: PNG of {len(self.png):,} bytes · {self.about}>")

    def save(self, path: str | Path) -> None:
        """Write it as PNG, replacing an existing file.

        Raises
        ------
        InputError
            When the file cannot be written, or its name does not end in ``.png``.
        """
        place = file_path("path", path)
        if place.suffix.lower() != ".png":
            raise InputError("path", "The overview is a PNG: use a name that ends in .png.")
        atomic_file.write(place, lambda file: file.write(self.png))

    def _repr_png_(self) -> bytes:
        return self.png


def _described(layers: LayerRun) -> str:
    """Describe the layers of a run: where they are, and the sizes of their attention."""
    trace, count = layers.run.trace, len(layers.group.layers)
    queries, keys = trace.sides
    tokens = f"{queries:,}" if queries == keys else f"{queries:,} × {keys:,}"
    heads = trace.spec.heads
    return (
        f"{layers.group.name}: {count:,} layer{'s' * (count != 1)} × {heads:,} "
        f"head{'s' * (heads != 1)}, {tokens} token{'s' * (keys != 1)}"
    )
