"""Real models in a notebook: opened from a folder, or one that is in memory already."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from visualizer.api.argument_validation import (
    choice,
    file_path,
    several,
    shown,
    string,
    whole_number,
)
from visualizer.api.attention_api import Attention
from visualizer.attention.spec import Device, Dtype
from visualizer.errors import InputError
from visualizer.read_files_and_restore_runs import ROOMY
from visualizer.session.document import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    import numpy as np

    from visualizer.api.figure_and_explained_number import Explained, Figure
    from visualizer.api.keyword_argument_types import Look
    from visualizer.models.opened_model import OpenedModel
    from visualizer.models.run_from_attention_calls import LayerRun

MEASURES = ("previous", "first", "own", "induction", "largest", "entropy", "distance")


def open_model(path: str | Path, *, device: str = Device.AUTO, dtype: str = Dtype.FLOAT32) -> Model:
    """Open a model of transformers from its folder: ``open_model("models/SmolLM2-135M")``.

    Nothing is fetched, and no code of the folder is run. It takes
    ``pip install "attention-visualizer[models]"``.

    Parameters
    ----------
    path : str or path
        A folder with ``config.json``, weights as ``.safetensors`` and a tokenizer.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    dtype : str
        ``"float32"`` or ``"float64"``.

    Raises
    ------
    InputError
        A `ValueError` that says why it cannot be opened, and what to do about it.
    """
    from visualizer.models.opened_model import open_model as opened

    place = file_path("path", path)
    return Model(opened(place, choice("device", Device, device), choice("dtype", Dtype, dtype)))


# No struct: `help` would evaluate the types of its fields, which are imported for checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Model:
    """A model of transformers that was opened from its folder; see `open_model`."""

    opened: OpenedModel

    def __repr__(self) -> str:
        folder = self.opened.folder
        return f"<Model: {folder.name} · {folder.kind} · {folder.numbers:,} numbers>"

    def attend(self, text: str, second: str | None = None) -> ModelAttention:
        """Run the model on a text and return the attention of all its layers.

        Parameters
        ----------
        second : str, optional
            The second text of a pair; of a model with an encoder and a decoder, what the decoder
            reads after its first token.

        Raises
        ------
        InputError
            When there is nothing to read, or it is too long for the model or the memory.
        """
        given = None if second is None else string("second", second)
        return ModelAttention(_parts(self.opened.attend(string("text", text), given)))


@contextmanager
def capture(model: Any, tokens: Iterable[str] | None = None) -> Iterator[ModelAttention]:
    """Record the attention of a transformers model that is in memory, while it runs.

    ::

        with visualizer.capture(model) as seen:
            model(**inputs)
        seen["weights"]  # [layer, head, query, key]

    What is read afterwards is the last run within the context, of the first text of its batch.
    The model computes with its eager attention meanwhile.

    Parameters
    ----------
    tokens : iterable of str, optional
        The labels of the tokens, instead of their numbers.

    Raises
    ------
    InputError
        When the model is not one of transformers, or none of its attention was computed.
    """
    from visualizer.models.attention_recorder import record_attention
    from visualizer.models.run_from_attention_calls import groups_of

    words = (
        None
        if tokens is None
        else tuple(string("tokens", word) for word in several("tokens", "a list of texts", tokens))
    )
    seen = ModelAttention(())
    with record_attention(model) as calls:
        yield seen
    last = max((call.forward for call in calls), default=0)
    alone = [call.of_text(0) for call in calls if call.forward == last]
    if not alone:
        raise InputError("model", "The model was not run, or computes no attention.")
    runs = [_run(group, type(model).__name__, words) for group in groups_of(alone)]
    object.__setattr__(seen, "parts", _parts(runs))


def _run(group: Any, name: str, words: tuple[str, ...] | None) -> LayerRun:
    from visualizer.attention.captured_attention import position_labels
    from visualizer.models.run_from_attention_calls import run_of

    queries, keys = group.calls[0].weights.shape[-2:]
    if words and len(words) not in {queries, keys}:
        sentence = f"There are {len(words):,} tokens, and the model read {keys:,}."
        raise InputError("tokens", sentence)
    known = words or ()
    rows = known if len(known) == queries else position_labels(queries)
    columns = known if len(known) == keys else position_labels(keys)
    return run_of(group, name, rows, () if columns == rows else columns)


def _parts(runs: Iterable[LayerRun]) -> tuple[ModelPart, ...]:
    return tuple(
        ModelPart(
            each.group.name,
            each.group.layers,
            Attention(Document().set("captured", each.captured), ROOMY, each.run),
        )
        for each in runs
    )


# No struct: see above.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelPart:
    """Layers of a model that are alike: equal sizes, masks and stages.

    Parameters
    ----------
    name : str
        Where they are in the model: ``model.layers.*.self_attn``.
    layers : tuple of int
        Their numbers in the model.
    attention : Attention
        Their numbers; its axis ``layer`` counts them from 0.
    """

    name: str
    layers: tuple[int, ...]
    attention: Attention

    def __repr__(self) -> str:
        return f"<ModelPart: {self.name}, {len(self.layers):,} layers>"


# No struct: see above.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelAttention:
    """The attention of a model on a text, layer by layer.

    ``seen["weights"]`` is [layer, head, query, key], read-only, and so are the other stages that
    the model's layers have: ``seen.stages``. Where layers differ in their sizes, or a model has an
    encoder and a decoder, each of its ``parts`` is read by itself, or one ``part(name)``.

    Parameters
    ----------
    parts : tuple of ModelPart
        The layers that are alike, in the order of computation.
    """

    parts: tuple[ModelPart, ...]

    def __repr__(self) -> str:
        layers = sum(len(part.layers) for part in self.parts)
        return f"<ModelAttention: {layers:,} layers in {len(self.parts)} parts>"

    def __getitem__(self, stage: str) -> np.ndarray:
        import numpy as np

        rows: dict[int, np.ndarray] = {}
        for part in self._one_kind():
            whole = part.attention[stage]
            axes = len(part.attention.dims(stage)) - len(part.attention.run.trace.axes)
            layers = whole if whole.ndim > axes else whole[None]
            rows |= dict(zip(part.layers, layers, strict=True))
        if len({row.shape for row in rows.values()}) > 1:
            raise InputError("stage", "The layers differ in their sizes: read them part by part.")
        made = np.stack([rows[layer] for layer in sorted(rows)])
        made.flags.writeable = False
        return made

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parts, each once: self-attention, cross-attention and so on."""
        return tuple(dict.fromkeys(part.name for part in self.parts))

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages that all its layers have, in order of computation."""
        first, *others = (part.attention.stages for part in self._some())
        return tuple(name for name in first if all(name in each for each in others))

    @property
    def layers(self) -> tuple[int, ...]:
        """The numbers of its layers, ascending."""
        return tuple(sorted({layer for part in self._some() for layer in part.layers}))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the queries, as the model's tokenizer has them."""
        return self._one_kind()[0].attention.run.texts[0]

    @property
    def key_tokens(self) -> tuple[str, ...]:
        """The tokens of the keys, which in cross-attention are others."""
        run = self._one_kind()[0].attention.run
        return run.key_tokens or run.texts[0]

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the numbers, as sentences."""
        said = (notice for part in self.parts for notice in part.attention.notices)
        return tuple(dict.fromkeys(said))

    def part(self, name: str) -> ModelAttention:
        """Return the part of a name among ``names``, or of some letters that one name alone has."""
        wanted = string("name", name)
        found = {each for each in self.names if wanted in each}
        found = {wanted} if wanted in self.names else found
        if len(found) != 1:
            sentence = f"There is no single part “{wanted[:60]}” among {', '.join(self.names)}."
            raise InputError("name", sentence)
        return ModelAttention(tuple(part for part in self.parts if part.name in found))

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
        part, at = self._at(layer)
        return part.attention.explain(stage, layer=at, **place)

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: int | Iterable[int] | None = None,
        *,
        layer: int,
        **look: Unpack[Look],
    ) -> Figure:
        """Make a figure of one layer's heatmaps; see `Attention.figure`."""
        part, at = self._at(layer)
        return part.attention.figure(stages, heads, layer=at, **look)

    def heads(self) -> list[dict[str, float]]:
        """Return a table of all heads: a row each, with its measures.

        ``layer``, ``head`` and the mean weights on the ``previous`` token, the ``first``, its
        ``own`` and, for ``induction``, those that followed earlier occurrences of the query's
        token; the mean ``largest`` weight; the ``entropy`` in bits and the mean ``distance`` in
        tokens. NaN where there is nothing to take a mean of.
        """
        rows = []
        for part in self._one_kind():
            run = part.attention.run
            texts = run.texts if run.has_same_keys else ()
            measures = run.trace.measured("weights", texts)
            for at, layer in enumerate(part.layers):
                for head in range(run.trace.spec.heads):
                    place = (at, head) if len(part.layers) > 1 else (head,)
                    known = {name: float(getattr(measures, name)[place]) for name in MEASURES}
                    rows.append({"layer": layer, "head": head, **known})
        return sorted(rows, key=lambda row: (row["layer"], row["head"]))

    def _some(self) -> tuple[ModelPart, ...]:
        if not self.parts:
            raise InputError("model", "The model has not been run yet.")
        return self.parts

    def _one_kind(self) -> tuple[ModelPart, ...]:
        if len(self.names) > 1:
            sentence = f"The model has several kinds of attention. Take one part of {self.names}."
            raise InputError("part", sentence)
        return self._some()

    def _at(self, layer: object) -> tuple[ModelPart, int]:
        number = whole_number("layer", layer)
        for part in self._one_kind():
            if number in part.layers:
                return part, part.layers.index(number)
        raise InputError("layer", f"There is no layer {shown(number)} among {self.layers}.")
