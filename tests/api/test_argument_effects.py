"""The Python API ignores no argument: an argument without effect is an error that names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from visualizer.api import argument_conversion
from visualizer.api.argument_conversion import AttendArguments
from visualizer.api.argument_validation import CUSTOM_WEIGHT_LAYERS
from visualizer.api.attention_api import attend
from visualizer.api.loading import load
from visualizer.attention.spec import BLOCK_LAYERS, MaskKind
from visualizer.documents.document_file import write_document
from visualizer.errors import InputError
from visualizer.heatmap.colour_mapping import colour_table
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document, LineGrouping
from visualizer.session.timeline import PlaybackPosition, PlaybackState
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_document
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "a b c d"
TWO = ["a b", "c d"]
DIAGONAL = np.eye(4, dtype=bool)
VECTORS = np.arange(12.0).reshape(4, 3)
ALL_OWN: dict[str, np.ndarray] = {
    **{name: np.full((3, 2), 0.5) for name in ("W_query", "W_key", "W_value")},
    "W_output": np.eye(2),
    "W_output.bias": np.zeros(2),
}


pytestmark = pytest.mark.usefixtures("one_thread")

IGNORED: list[tuple[dict[str, Any], str]] = [
    (
        {"own_mask": DIAGONAL, "causal": True},
        "causal cannot be combined with own_mask. Remove one of them.",
    ),
    (
        {"causal": False, "own_mask": DIAGONAL},
        "causal cannot be combined with own_mask. Remove one of them.",
    ),
    (
        {"own_mask": DIAGONAL, "mask": "causal"},
        "mask cannot be combined with own_mask. Remove one of them.",
    ),
    ({"mask": "none", "causal": True}, "causal cannot be combined with mask. Remove one of them."),
    ({"window": 2}, 'window has no effect without mask="window". Remove window.'),
    ({"causal": False, "route": "after"}, 'route has no effect with mask="none". Remove route.'),
    (
        {"mechanism": "simplified", "output_size": 4},
        'output_size has no effect with projection="none". Remove output_size.',
    ),
    (
        {"projection": "uniform", "bias": True},
        'bias has no effect without projection="linear". Remove bias.',
    ),
    (
        {"feed_forward_size": 4},
        'feed_forward_size has no effect without block="pre-norm". Remove feed_forward_size.',
    ),
    (
        {"activation": "gelu"},
        'activation has no effect without block="pre-norm". Remove activation.',
    ),
    (
        {"heads": 1, "arrangement": "split"},
        "arrangement has no effect without heads above 1. Remove arrangement.",
    ),
    (
        {"mechanism": "average", "scale": "none"},
        'scale has no effect with normalisation="uniform". Remove scale.',
    ),
    (
        {"normalisation": "uniform", "temperature": 2},
        'temperature has no effect with normalisation="uniform". Remove temperature.',
    ),
    ({"mode": "eval"}, "mode has no effect without dropout above 0 or own_kept. Remove mode."),
    (
        {"dropout_seed": 1},
        "dropout_seed has no effect without dropout above 0. Remove dropout_seed.",
    ),
    (
        {"dropout": 0.5, "mode": "eval", "dropout_seed": 1},
        'dropout_seed has no effect without mode="train". Remove dropout_seed.',
    ),
    (
        {"dropout": 0.5, "own_kept": DIAGONAL, "dropout_seed": 1},
        "dropout_seed has no effect with own_kept. Remove dropout_seed.",
    ),
    (
        {"own_kept": DIAGONAL, "mode": "eval"},
        'own_kept has no effect without mode="train". Remove own_kept.',
    ),
    (
        {"mechanism": "simplified", "vectors": VECTORS, "seed": 1},
        "seed has no effect if all vectors and weights are given. Remove seed.",
    ),
    (
        {"vectors": VECTORS, "weights": ALL_OWN, "seed": 1},
        "seed has no effect if all vectors and weights are given. Remove seed.",
    ),
    (
        {"text": None, "vectors": VECTORS, "tokenizer": "characters"},
        "tokenizer has no effect without a text. Remove tokenizer.",
    ),
    (
        {"mechanism": "simplified", "weights": {"W_query": np.eye(3)}},
        "weights contains “W_query”, which this module does not use. The module has no weights.",
    ),
    (
        {"weights": {"linear1": np.eye(3)}},
        "weights contains “linear1”, which this module does not use. "
        "The module uses W_query, W_key, W_value, W_output, W_output.bias.",
    ),
    (
        {"normalisation": "uniform", "output_projection": False, "weights": ALL_OWN},
        "weights contains “W_query”, which this module does not use. The module uses W_value.",
    ),
    (
        {"projection": "uniform", "heads": 1, "weights": {"W_key.bias": [0.0, 1.0]}},
        "weights contains “W_key.bias”, which this module does not use. "
        "The module uses W_query, W_key, W_value, W_output, W_output.bias.",
    ),
    (
        {"bias": False, "heads": 1, "weights": {"W_key.bias": [0.0, 1.0]}},
        "weights contains “W_key.bias”, which this module does not use. "
        "The module uses W_query, W_key, W_value, W_output, W_output.bias.",
    ),
    (
        {
            "mechanism": "average",
            **{"projection": "linear", "heads": 2, "arrangement": "split", "scale": "d_head"},
            **{"output_projection": True, "normalisation": "softmax", "causal": True},
            **{"block": "none", "output_size": 2},
        },
        "mechanism has no effect if all settings that it determines are given. Remove mechanism.",
    ),
]


@pytest.mark.parametrize(("settings", "said"), IGNORED)
def test_a_setting_without_effect_is_rejected(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        attend(**{"text": TEXT, **settings})
    assert refused.value.sentence == said
    assert refused.value.field in settings


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: attend([]), "text must not be empty. Pass a text or a list of texts."),
        (
            lambda: attend(["a\nb", "c"], tokenizer="characters"),
            'Each text of a batch must be a single line if tokenizer is "characters".',
        ),
        (lambda: attend(TEXT, nothing=None), "Unknown setting “nothing”."),  # type: ignore[call-arg]
        (lambda: attend(TEXT, mask="own"), 'mask="own" requires own_mask.'),
        (lambda: attend(TWO).figure(text=5), "Text 5 does not exist. Valid indices are 0 to 1."),
        (lambda: attend(TEXT).figure(text=1), "Text 1 does not exist. Valid indices are 0 to 0."),
        (lambda: attend(TEXT).figure(layer=1), "Layer 1 does not exist. Valid indices are 0 to 0."),
        (lambda: attend(TEXT).figure([]), "stages must not be empty. Pass"),
        (lambda: attend(TEXT).figure(heads=[]), "heads must not be empty. Pass"),
        (
            lambda: attend(TEXT).figure("input", [0]),
            "heads has no effect on stages without heads. Remove heads.",
        ),
        (
            lambda: attend(TEXT).figure("weights", layout="all"),
            'stages has no effect with layout="all", which shows all stages. Remove stages.',
        ),
        (
            lambda: attend(TEXT).figure(heads=0, layout="heads"),
            'heads has no effect with layout="heads", which shows all heads. Remove heads.',
        ),
        (
            lambda: attend(TEXT).figure(heads=[0, 1], layout="head"),
            'layout="head" shows only one of the 2 heads. Pass one.',
        ),
        (
            lambda: attend(TEXT).figure(["scores", "weights"], layout="panel"),
            'layout="panel" shows only one of the 2 stages. Pass one.',
        ),
        (
            lambda: attend(TEXT).figure("weights", colour_map="CET-D6"),
            "colour_map “CET-D6” is for numbers other than weights, and the figure has none. Use "
            "plum, viridis, cividis, magma, CET-CBL1, CET-L1.",
        ),
        (
            lambda: attend(TEXT).figure("scores", colour_map="magma"),
            "colour_map “magma” is for weights, and the figure has none. Use automatic, CET-CBD1, "
            "blue-gold-dark, CET-D6.",
        ),
        (
            lambda: attend(TEXT).figure(colour_map="magna"),
            "colour_map must be one of plum, viridis, cividis, magma, CET-CBL1, CET-L1, automatic, "
            "CET-CBD1, blue-gold-dark, CET-D6. It is 'magna'. Did you mean magma?",
        ),
        (lambda: attend(TEXT).figure(nothing=None), "Unknown keyword argument “nothing”."),  # type: ignore[call-arg]
        (lambda: attend(TEXT).save(), "paths must not be empty."),
        (lambda: attend(TEXT).figure().save(), "paths must not be empty."),
    ],
)
def test_arguments_without_effect_are_rejected(ask: Any, said: str) -> None:
    with pytest.raises(InputError) as refused:
        ask()
    assert refused.value.sentence.startswith(said)


# ------------------------------------------------------ every argument beside every kind of module

OTHERS: dict[str, tuple[Any, ...]] = {
    "embedding_size": (4, 6),
    "output_size": (4, 6),
    "heads": (1, 2),
    "key_value_heads": (1, 2),
    "causal": (False, True),
    "dropout": (0.25, 0.5),
    "seed": (7, 8),
    "dropout_seed": (7, 8),
    "mode": ("train", "eval"),
    "projection": ("none", "uniform", "linear"),
    "bias": (False, True),
    "arrangement": ("split", "stacked"),
    "output_projection": (False, True),
    "block": ("none", "pre-norm"),
    "feed_forward_size": (2, 3),
    "activation": ("relu", "gelu"),
    "position": ("none", "learned", "sinusoidal", "alibi"),
    "scale": ("none", "d_head", "d_model"),
    "temperature": (0.5, 2.0),
    "normalisation": ("softmax", "uniform"),
    "mask": ("none", "causal", "window"),
    "window": (1, 2),
    "own_mask": (DIAGONAL, np.tri(4, k=1)),
    "own_kept": (DIAGONAL, np.tri(4, k=1)),
    "route": ("before", "after"),
    "tokenizer": ("words", "characters"),
}
"""Values of each argument that change the results whenever the argument has an effect."""

MODULES: list[dict[str, Any]] = [
    {},
    {"mechanism": "simplified"},
    {"mechanism": "self"},
    {"mechanism": "stacked"},
    {"mechanism": "block"},
    {"mechanism": "block", "embedding_size": 4, "weights": {"W_query": np.full((4, 4), 0.5)}},
    {"mechanism": "average"},
    {"mechanism": "average", "causal": True},
    {"mechanism": "average", "projection": "linear"},
    {"projection": "uniform"},
    {"normalisation": "linear"},
    {"causal": False},
    {"mask": "window"},
    {"own_mask": np.tri(4, k=2)},
    {"dropout": 0.5},
    {"dropout": 0.5, "mode": "eval"},
    {"own_kept": DIAGONAL},
    {"vectors": VECTORS},
    {"vectors": VECTORS, "mechanism": "simplified"},
    {"vectors": VECTORS, "mechanism": "simplified", "position": "learned"},
    {"vectors": VECTORS, "weights": ALL_OWN},
    {"vectors": VECTORS, "weights": ALL_OWN, "position": "learned"},
    {"vectors": VECTORS, "weights": ALL_OWN, "bias": True},
]


TURNED_OFF = ("dropout", {"dropout": 0.5, "mode": "eval"})
"""Arguments that are accepted without an effect, because the mode turns dropout off."""


def numbers_of(arguments: dict[str, Any]) -> dict[str, tuple[Any, bytes]] | str:
    """Return the stages and parameters of a call, or the error message if it is rejected."""
    try:
        attention = attend(**{"text": TEXT, "device": "cpu", **arguments})
    except InputError as refused:
        return refused.sentence
    arrays = {name: attention[name] for name in attention.stages} | attention.parameters
    return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}


def test_every_setting_is_tried() -> None:
    free = {"mechanism", "dtype", "device"}
    assert AttendArguments.__annotations__.keys() - free == OTHERS.keys()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: " ".join(module) or "default")
@pytest.mark.parametrize("name", OTHERS)
def test_an_argument_is_taken_where_it_has_an_effect(
    name: str, module: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = {key: each for key, each in module.items() if key != name}
    found = [numbers_of(beside | {name: value}) for value in OTHERS[name]]
    taken = [each for each in found if isinstance(each, dict)]
    if (name, module) != TURNED_OFF and len(taken) > 1:
        assert any(each != taken[0] for each in taken)
    if not taken and f"{name} has no effect" in found[0]:
        monkeypatch.setattr(argument_conversion, "check_arguments_used", lambda *_: None)
        first, *others = (numbers_of(beside | {name: value}) for value in OTHERS[name])
        assert isinstance(first, dict)
        assert all(each == first for each in others)


@pytest.mark.parametrize("name", CUSTOM_WEIGHT_LAYERS)
def test_every_weight_that_is_taken_has_an_effect(name: str) -> None:
    sizes = {"W_output": (2, 2), "linear1": (3, 5), "linear2": (5, 3), "linear1.bias": (5,)}
    sizes |= dict.fromkeys(("ln1", "ln2", "ln1.bias", "ln2.bias", "linear2.bias"), (3,))
    size = sizes.get(name, (2,) if name.endswith(".bias") else (3, 2))
    module: dict[str, Any] = {"bias": True}
    if CUSTOM_WEIGHT_LAYERS[name] in BLOCK_LAYERS:
        module |= {"mechanism": "block", "feed_forward_size": 5}
    drawn = attend(TEXT, **module)
    own = attend(TEXT, weights={name: np.full(size, 0.25)}, **module)
    changed = {each for each in own.stages if (own[each] != drawn[each]).any()}
    assert changed
    np.testing.assert_array_equal(own.weights[name], np.full(size, 0.25))


# ---------------------------------------------------------------- what is accepted, on purpose


@pytest.mark.parametrize(
    "settings",
    [
        {"own_mask": DIAGONAL, "mask": "own"},
        {"mechanism": "causal", "own_mask": DIAGONAL},
        {"mechanism": "self", "causal": True},
        {"dropout": 0.5, "mode": "eval"},
        {"own_kept": DIAGONAL, "mode": "train"},
        {"heads": None, "window": None},
        {"weights": {}},
    ],
)
def test_arguments_with_an_effect_are_accepted(settings: dict[str, Any]) -> None:
    assert attend(TEXT, **settings).stages


def test_none_is_the_default() -> None:
    nothing: dict[str, Any] = dict.fromkeys(AttendArguments.__annotations__)
    first, second = attend(TEXT, **nothing), attend(TEXT)
    assert first.document == second.document
    assert second.spec.mask is MaskKind.CAUSAL
    look: dict[str, Any] = {"layout": None, "theme": None, "size": None, "title": None}
    assert second.figure(**look).look == second.figure().look


def test_a_figure_has_the_colours_of_its_map() -> None:
    attention = attend(TEXT)
    for stage, name in (("weights", "magma"), ("scores", "CET-D6")):
        looks: list[dict[str, Any]] = [{}, {"colour_map": name}]
        usual, other = (
            attention.figure(stage, layout="cells", theme="light", **look).array() for look in looks
        )
        words = colour_table(name, LIGHT)
        known = {(word >> 16 & 255, word >> 8 & 255, word & 255) for word in words.tolist()}
        assert {tuple(each) for each in other[..., :3].reshape(-1, 3).tolist()} <= known
        assert not np.array_equal(usual, other)
    assert attention.figure(colour_map="CET-D6").shot.view.colouring.diverging == "CET-D6"


def test_the_view_of_a_file_does_not_hide_requested_stages(tmp_path: Path) -> None:
    document = Document().with_setting("text", "a b\nc d").with_setting("lines", LineGrouping.APART)
    pinned = Cell("context", (1, 0, 0))
    view = View(
        stages=frozenset({"scores"}),
        pinned=pinned,
        spread=True,
        playhead=PlaybackState(PlaybackPosition("context", 0)),
    )
    with (tmp_path / "a.attention").open("wb") as file:
        write_document(file, document, view, run_document(document, None))
    loaded = load(tmp_path / "a.attention")
    assert loaded.figure().shot.view.playhead == view.playhead
    asked = loaded.figure("weights", 0, text=1).shot.view
    assert (asked.stages, asked.heads) == (frozenset({"weights"}), frozenset({0}))
    assert asked.text == 1
    assert (asked.pinned, asked.spread, asked.playhead) == (None, False, PlaybackState())
