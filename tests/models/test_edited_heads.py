"""Tests that edits of heads and cut edges have the same effects as plain hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from msgspec.structs import replace

import visualizer
from tests.support.examples import others_slow
from tests.support.explained_values import result_of
from tests.support.head_hooks import contexts, head, run_plain
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import VOCABULARY, save_tiny_model
from visualizer import InputError, Model
from visualizer.api.attention_api import Attention
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.spec import Device
from visualizer.attention.stages import Operation
from visualizer.explanations.explain import describe_step, explain
from visualizer.file_opening import EXPORT_VIEW
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind, describe_heads
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.models.opened_model import open_model
from visualizer.session.document import Document
from visualizer.session.timeline import Step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.models.model_source import ModelSource
    from visualizer.models.opened_model import OpenedModel

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT, OTHER = "the cat sat on the mat the cat", "a dog ran to a log the dog"
KINDS = ("llama", "gpt2", "granite")
"""Llama and Granite have one key head per two query heads."""
SIZE, TOKENS = 8, 9


@pytest.fixture(scope="module", params=others_slow(KINDS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind = str(request.param)
    return save_tiny_model(tmp_path_factory.mktemp("models") / kind, kind)


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return visualizer.open_model(folder)


@pytest.fixture(scope="module")
def opened(folder: Path) -> tuple[ModelSource, OpenedModel]:
    return open_model_folder(folder, Device.CPU)  # includes the model, so that it stays open


@pytest.fixture(scope="module")
def source(opened: tuple[ModelSource, OpenedModel]) -> ModelSource:
    return opened[0]


def causal_with(cells: Sequence[tuple[int, int, int]], heads: int = 4) -> torch.Tensor:
    """Return a causal mask, [head, query, key], in which the given cells are also masked."""
    mask = torch.full((heads, TOKENS, TOKENS), torch.finfo(torch.float32).min).triu(1)
    for place in cells:
        mask[place] = torch.finfo(torch.float32).min
    return mask


def check(run: Run, model: Model, shares: torch.Tensor, weights: list[torch.Tensor]) -> None:
    """Compare a run with the probabilities and weights of the plain model."""
    assert run.reading
    before = run_plain(model, TEXT)[0]
    numbers = {model.opened.token_text(at): at for at in range(len(shares))}
    for row in (*run.reading.next_tokens, *run.reading.largest_changes):
        assert row.probability == pytest.approx(float(shares[numbers[row.token]]), abs=1e-6)
        assert row.probability_of_all_heads == pytest.approx(
            float(before[numbers[row.token]]), abs=1e-6
        )
    found = run.trace.read("weights")
    np.testing.assert_allclose(found, torch.stack(weights).numpy(), atol=1e-6)


EDITS = (
    HeadEdit(0, 0),
    HeadEdit(0, 1, HeadEditKind.SCALED, -1.5),
    HeadEdit(0, 2, HeadEditKind.MEAN),
    HeadEdit(1, 3, HeadEditKind.PATCHED, text=OTHER),
)


def test_edits_of_heads_match_plain_hooks(source: ModelSource, model: Model) -> None:
    own, others = contexts(model, TEXT), contexts(model, OTHER)

    def edit(layer: int, given: torch.Tensor) -> torch.Tensor:
        for each in EDITS:
            if each.layer != layer:
                continue
            part, plain = head(given, each.head), head(own[layer], each.head)
            if each.kind is HeadEditKind.OFF:
                part[:] = 0
            elif each.kind is HeadEditKind.SCALED:
                part *= each.factor
            elif each.kind is HeadEditKind.MEAN:
                part[:] = plain.mean(1, keepdim=True)
            else:
                part[:] = head(others[layer], each.head)
        return given

    shares, weights = run_plain(model, TEXT, edit)
    run = read_text(replace(source, edits=EDITS), TEXT, Device.CPU)
    check(run, model, shares, weights)
    assert run.reading
    largest = (shares - run_plain(model, TEXT)[0]).abs().topk(5).values
    apart = [
        abs(row.probability - row.probability_of_all_heads) for row in run.reading.largest_changes
    ]
    assert apart == pytest.approx(largest.tolist(), abs=1e-6)


CUTS = {0: [(1, 4, 1), (1, 8, 2), (2, 3, 0)], 1: [(0, 8, 5)]}


def cuts_of(cells: dict[int, list[tuple[int, int, int]]]) -> tuple[CutEdges, ...]:
    return tuple(
        CutEdges(layer, each, tuple((query, key) for one, query, key in found if one == each))
        for layer, found in cells.items()
        for each in sorted({one for one, *_ in found})
    )


@pytest.mark.parametrize("layers", [(0,), (0, 1)])
def test_cut_edges_match_a_manual_mask(
    source: ModelSource, model: Model, layers: tuple[int, ...]
) -> None:
    cells = {layer: CUTS[layer] for layer in layers}
    shares, weights = run_plain(
        model, TEXT, mask={layer: causal_with(found) for layer, found in cells.items()}
    )
    run = read_text(replace(source, cuts=cuts_of(cells)), TEXT, Device.CPU)
    check(run, model, shares, weights)
    trace = run.trace
    masked = trace.read("masked")
    for layer, found in cells.items():
        for each, query, key in found:
            assert trace.read("weights", (layer, each, query, key)) == 0
            assert masked[layer, each, query, key] == -np.inf
            assert not trace.allowed_mask("weights", (layer,), each)[query, key]
            assert (
                trace.allowed_mask("weights", (layer,), (each + 1) % 2 + 2)[query, key] or each > 1
            )
        sums = trace.read("weights", (layer,)).sum(-1)
        np.testing.assert_allclose(sums, 1, atol=1e-6)


WITH_OTHER_STEPS = {"gemma2": "capped", "gpt_oss": ""}
"""Architectures with different masks in their layers; one has a cap, the other has sinks."""


@pytest.mark.parametrize("kind", [*WITH_OTHER_STEPS])
def test_edges_can_be_cut_with_layer_masks_caps_and_sinks(tmp_path: Path, kind: str) -> None:
    folder = save_tiny_model(tmp_path / kind, kind)
    source, _model = open_model_folder(folder, Device.CPU)
    plain = read_text(source, TEXT, Device.CPU).trace
    run = read_text(replace(source, cuts=cuts_of(CUTS)), TEXT, Device.CPU)
    trace = run.trace
    assert len({*trace.layer_masks}) == 2
    assert trace.stage("weights").operation is plain.stage("weights").operation
    weights, masked = trace.read("weights"), trace.read("masked")
    for layer in range(2):
        alone = plain.allowed_mask("weights", (layer,))
        for each in range(4):
            cells = [(query, key) for one, query, key in CUTS[layer] if one == each]
            allowed = alone.copy()
            for cell in cells:
                allowed[cell] = False
            np.testing.assert_array_equal(trace.allowed_mask("weights", (layer,), each), allowed)
            np.testing.assert_array_equal(weights[layer, each] > 0, allowed)
            np.testing.assert_array_equal(np.isfinite(masked[layer, each]), allowed)
    assert ("sinks" in "".join(trace.model_weights)) == (kind == "gpt_oss")
    if step := WITH_OTHER_STEPS[kind]:
        assert step in trace
    for each, query, _ in CUTS[0]:
        for key in range(TOKENS):
            found = explain(trace, "weights", (0, each, query, key))
            value = trace.read("weights", (0, each, query, key))
            np.testing.assert_allclose(result_of(found), value, atol=1e-6)
    assert run.reading
    assert run.reading.fetch_captured
    captured = run.reading.fetch_captured()
    assert captured
    again = create_captured_run(captured).trace
    np.testing.assert_array_equal(again.read("masked"), masked)


def test_the_cells_of_a_cut_row_are_explained(source: ModelSource) -> None:
    trace = read_text(replace(source, cuts=cuts_of(CUTS)), TEXT, Device.CPU).trace
    for stage in ("masked", "weights"):
        for key in range(TOKENS):
            place = (1, 4, key)
            found = explain(trace, stage, (0, *place))
            value = trace.read(stage, (0, *place))
            np.testing.assert_allclose(result_of(found), value, atol=1e-6)


def test_the_outputs_of_edited_heads_are_explained(source: ModelSource) -> None:
    run = read_text(replace(source, edits=EDITS), TEXT, Device.CPU)
    shown = Attention(Document().with_setting("captured", run.captured), EXPORT_VIEW, run)
    for layer, query, column in np.ndindex(2, TOKENS, 4 * SIZE):
        found = explain(run.trace, "concat", (layer, query, column))
        value = run.trace.read("concat", (layer, query, column))
        np.testing.assert_allclose(result_of(found), value, atol=1e-6)
    for head_, (said, formula) in enumerate(
        (
            ("is ablated", "number × 0"),
            ("is multiplied by -1.5", "number × −1.5"),
            ("is replaced in the model", "replaced in the model"),
        )
    ):
        explained = shown.explain("concat", layer=0, query=3, d_out=head_ * SIZE)
        assert f"is taken from head {head_ + 1}, which {said}" in explained.sentence
        assert explained.formula == formula
    columns = range(4 * SIZE)
    for rows in (range(3, 4), range(TOKENS)):
        caption = describe_step(run, (0,), Step("concat", rows, columns), head=0)
        assert (
            "(head 1 is ablated, head 2 is multiplied by -1.5 "
            "and head 3 is replaced in the model) are concatenated"
        ) in caption
    stream = run.trace.read("attended") - run.trace.read("residual")
    np.testing.assert_allclose(stream, run.trace.read("output"), atol=1e-5)


def test_cut_edges_are_restored_from_a_document(source: ModelSource) -> None:
    run = read_text(replace(source, cuts=cuts_of(CUTS)), TEXT, Device.CPU)
    assert run.reading
    assert run.reading.fetch_captured
    captured = run.reading.fetch_captured()
    assert captured
    again = create_captured_run(captured)
    np.testing.assert_array_equal(again.trace.read("masked"), run.trace.read("masked"))
    assert again.trace.cut == run.trace.cut
    assert len(run.trace.cut) == 4


def test_changes_are_the_distances_between_edited_and_unedited_weights(
    source: ModelSource, model: Model
) -> None:
    plain = run_plain(model, TEXT)[1]
    _, edited = run_plain(model, TEXT, mask={0: causal_with(CUTS[0])})
    run = read_text(replace(source, cuts=cuts_of({0: CUTS[0]})), TEXT, Device.CPU)
    assert run.reading
    assert run.reading.changes is not None
    for layer in range(2):
        apart = edited[layer].double().numpy() - plain[layer].double().numpy()
        expected = np.abs(apart).sum(-1).mean(-1) / 2
        np.testing.assert_allclose(run.reading.changes[layer], expected, atol=1e-6)
    assert (run.reading.changes[0, [0, 3]] == 0).all()
    assert (run.reading.changes[0, [1, 2]] > 0).all()
    unedited = read_text(source, TEXT, Device.CPU)
    assert unedited.reading
    assert unedited.reading.changes is None


def test_notebooks_can_scale_and_cut(model: Model) -> None:
    own, _ = run_plain(model, TEXT, mask={0: causal_with(CUTS[0]), 1: causal_with(CUTS[1])})
    edges = [(layer, *place) for layer, found in CUTS.items() for place in found]
    found = model.cut(TEXT, edges, most=VOCABULARY)
    assert [share for _, share in found] == pytest.approx(sorted(own.tolist())[::-1], abs=1e-6)

    def doubled(layer: int, given: torch.Tensor) -> torch.Tensor:
        if layer == 1:
            head(given, 2).mul_(2)
        return given

    own, _ = run_plain(model, TEXT, doubled)
    found = model.scale(TEXT, [(1, 2)], 2, most=VOCABULARY)
    assert [share for _, share in found] == pytest.approx(sorted(own.tolist())[::-1], abs=1e-6)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "the old cat sat on the mat the cat",
            "The text has 9 tokens, but the text to patch from has 10. Use texts with the same "
            "number of tokens. Differences: nothing → “<unk>”.",
        ),
        (
            "the dog ran on the mat",
            "The text has 9 tokens, but the text to patch from has 7. Use texts with the same "
            "number of tokens. Differences: “cat|sat” → “dog|ran”, “the|cat” → nothing.",
        ),
        (" ", "Enter the text to patch from. It must have as many tokens as the current text."),
    ],
)
def test_a_patch_from_a_text_of_another_length_is_rejected(
    source: ModelSource, text: str, sentence: str
) -> None:
    edits = (HeadEdit(0, 0, HeadEditKind.PATCHED, text=text),)
    with pytest.raises(InputError) as refused:
        read_text(replace(source, edits=edits), TEXT, Device.CPU)
    assert (refused.value.field, refused.value.sentence) == ("edits", sentence)


def test_a_query_must_keep_at_least_one_key(source: ModelSource, model: Model) -> None:
    cut = CutEdges(1, 2, ((1, 0), (1, 1)))
    with pytest.raises(InputError) as refused:
        read_text(replace(source, cuts=(cut,)), TEXT, Device.CPU)
    assert (refused.value.field, refused.value.sentence) == (
        "cuts",
        "Query 2 of layer 2, head 3 would have no key left. Keep at least one of its edges.",
    )  # fmt: skip
    with pytest.raises(InputError, match="Query 9 or key 0 does not exist"):
        model.cut(TEXT, [(0, 0, 9, 0)])
    with pytest.raises(
        InputError, match=r"factor must be at least -100 and at most 100. It is nan\."
    ):
        model.scale(TEXT, [(0, 0)], float("nan"))


def test_weights_of_an_encoder_with_a_cut_edge_follow_from_its_scores(tmp_path: Path) -> None:
    model = open_model(save_tiny_model(tmp_path / "b", "bert"), Device.CPU)
    (found,) = model.read("the cat sat on the mat", {}, {(0, 1): ((3, 1),)}).runs
    trace = found.run.trace
    assert trace.stage("weights").operation is Operation.SCORES_TO_WEIGHTS
    assert np.argwhere(np.isinf(trace.read("masked"))).tolist() == [[0, 1, 3, 1]]
    assert trace.read("weights")[0, 1, 3, 1] == 0
    assert found.run.notices == ()
    told = explain(trace, "weights", (0, 1, 3, 2))
    assert result_of(told) == pytest.approx(told.value, abs=1e-6)


def test_cut_edges_outside_the_text_are_ignored(source: ModelSource) -> None:
    beyond = replace(source, cuts=(CutEdges(1, 2, ((30, 2),)),))
    run = read_text(beyond, TEXT, Device.CPU)
    plain = read_text(source, TEXT, Device.CPU)
    np.testing.assert_array_equal(run.trace.read("weights"), plain.trace.read("weights"))


def test_edges_of_an_encoder_without_a_mask_can_be_cut(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "bert", "bert")
    source, _model = open_model_folder(folder, Device.CPU)
    plain = visualizer.open_model(folder).opened
    run = read_text(replace(source, cuts=(CutEdges(0, 1, ((2, 5), (3, 0))),)), TEXT, Device.CPU)
    mask = torch.zeros(4, TOKENS, TOKENS)
    mask[1, 2, 5] = mask[1, 3, 0] = torch.finfo(torch.float32).min
    attention = plain.model.encoder.layer[0].attention.self
    hook = attention.register_forward_pre_hook(
        lambda _, given, named: (
            (given[0], *((mask[None],) if len(given) > 1 else ())),
            {**named, **({} if len(given) > 1 else {"attention_mask": mask[None]})},
        ),
        with_kwargs=True,
    )
    ids = tokenizer_of(plain)(TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        weights = plain.model(ids, output_attentions=True).attentions
    hook.remove()
    expected = torch.cat(weights).numpy()
    np.testing.assert_allclose(run.trace.read("weights"), expected, atol=1e-6)
    assert expected[0, 1, 2, 5] == 0
    assert run.trace.has_forbidden_cells("weights", (0,), 1)
    assert not run.trace.has_forbidden_cells("weights", (0,), 2)


def test_heads_can_be_edited_for_a_pair_of_texts(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "bert", "bert")
    source, _model = open_model_folder(folder, Device.CPU)
    source = replace(source, second="a dog ran")
    plain = read_text(source, TEXT, Device.CPU).trace
    edits = (HeadEdit(0, 1, HeadEditKind.MEAN), HeadEdit(0, 2, HeadEditKind.PATCHED, text=OTHER))
    found = read_text(replace(source, edits=edits), TEXT, Device.CPU).trace
    other = read_text(source, OTHER, Device.CPU).trace
    context, now = plain.read("context", (0,)), found.read("concat", (0,))
    size = context.shape[-1]
    parts = [now[:, each * size : (each + 1) * size] for each in range(3)]
    np.testing.assert_allclose(parts[0], context[0], atol=1e-6)
    np.testing.assert_allclose(
        parts[1], np.broadcast_to(context[1].mean(0), parts[1].shape), atol=1e-6
    )
    np.testing.assert_allclose(parts[2], other.read("context", (0, 2)), atol=1e-6)


@pytest.mark.parametrize(
    ("heads", "words"),
    [
        ([(18, 6)], "layer 19, head 7"),
        ([(0, head) for head in range(9)], "layer 1, heads 1–9"),
        ([(17, 8), (17, 4), (17, 3), (18, 6), (17, 5)], "layer 18, heads 4–6, 9; layer 19, head 7"),
        ([(1, 0), (1, 1)], "layer 2, heads 1, 2"),
        (
            [(layer, 0) for layer in range(8)],
            f"{'; '.join(f'layer {layer + 1}, head 1' for layer in range(6))} and 2 more",
        ),
    ],
)
def test_heads_are_listed_by_layer(heads: list[tuple[int, int]], words: str) -> None:
    assert describe_heads(heads) == words
