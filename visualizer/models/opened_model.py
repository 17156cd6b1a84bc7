"""A model opened from its folder, which runs on texts and images and records its attention."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec reads the types of fields
from contextlib import nullcontext, suppress
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention import device as attention_device
from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.captured_attention import numbered_labels
from visualizer.attention.saved_numbers import with_image_patches
from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError
from visualizer.models.editable_heads import EditableHeads
from visualizer.models.forward_runner import create_forward_runner
from visualizer.models.image_preparation import PreparedImage, prepare_image
from visualizer.models.long_text_runner import LongTextRunner
from visualizer.models.model_loading import load_image_processor, load_model, load_tokenizer
from visualizer.models.model_ranks import Parallelism
from visualizer.models.recognition_errors import StepMismatchError, UnsupportedAttentionError
from visualizer.models.recorded_runs import (
    KEEP_ALL_PARTS,
    KeptLayersAndStages,
    LayerGroup,
    LayerGroupRun,
    create_layer_run,
    group_calls,
    number_calls_by_layer,
)
from visualizer.models.rounding_probe import RoundingProbe
from visualizer.models.surrounding_stages import SurroundingStageRecorder
from visualizer.models.text_model import PIXELS_ARGUMENT, TextModel
from visualizer.progress import ignore_progress, scale_reported_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np

    from visualizer.models.attention_recorder import AttentionCall, ContextEdit
    from visualizer.models.editable_heads import Cuts, Edits
    from visualizer.models.model_loading import LoadedModel
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.text_model import Inputs
    from visualizer.models.token_inputs import ModelInput
    from visualizer.progress import Progress

MAX_CACHED_READING_BYTES = 2**28
"""Maximum size, in bytes, of the attention weights that are cached for an unedited pass."""
MAX_CACHED_READINGS = 3
"""Maximum number of cached results of unedited passes."""
CUTS_UNAVAILABLE_ERROR = "Edges cannot be cut in a text this long."
WHOLE_WEIGHTS_ERROR = "All attention weights would have to be kept in memory:"


class ForwardResult(Struct, frozen=True, eq=False):
    """Result of one forward pass over a text or an image.

    Parameters
    ----------
    runs : tuple of LayerGroupRun
        As returned by `OpenedModel.attend`.
    next_token, next_token_of_all_heads : Tensor or None
        Log-probabilities of the next token over the vocabulary, [token], float64, with and without
        the edits, respectively; None if the model predicts no next token.
    changes : mapping
        The distance of each head's weights from those without edits, by layer, [head], float64:
        total variation (half the summed absolute difference) per row, averaged over all rows. Empty
        if nothing is edited, or if the weights would take too much memory.
    """

    runs: tuple[LayerGroupRun, ...]
    next_token: torch.Tensor | None
    next_token_of_all_heads: torch.Tensor | None
    changes: Mapping[int, np.ndarray] = {}


class UneditedForwardResult(Struct, frozen=True, eq=False):
    """Result of a forward pass without edits.

    Parameters
    ----------
    next_token : Tensor or None
        As in `ForwardResult`.
    contexts : mapping
        The context vectors of all heads, by layer, [query, head, d_value].
    weights : mapping
        The attention weights by layer, [head, query, key]; empty if they would take too much
        memory.
    is_long : bool
        Whether the text is so long that neither contexts nor weights are kept.
    """

    next_token: torch.Tensor | None
    contexts: Mapping[int, torch.Tensor]
    weights: Mapping[int, torch.Tensor]
    is_long: bool = False


class OpenedModel(TextModel):
    """A transformers model with its tokenizer, in memory.

    If the model is split across several processes, all of them must make the same calls in the same
    order.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__(loaded)
        # If the parts referred to this object, there would be a reference cycle, and the weights
        # of a closed model would stay in memory until the next garbage collection.
        model = TextModel(loaded)
        self.forward = create_forward_runner(model)
        self.heads = EditableHeads(model, self.forward)
        self.long_texts = LongTextRunner(model, self.forward, self.heads)
        self._stages = SurroundingStageRecorder(model, self.forward)
        self._image_processor: Any = None
        """The image processor of transformers; None until the first image is prepared."""
        self._plain: dict[tuple[str, str, bool], UneditedForwardResult] = {}
        """Recent results of unedited passes, keyed by text, second text and ``is_chat``."""

    def attend(
        self,
        text: ModelInput,
        second: str | None = None,
        *,
        is_chat: bool = False,
        kept: KeptLayersAndStages = KEEP_ALL_PARTS,
    ) -> tuple[LayerGroupRun, ...]:
        """Run the model on a text and return the runs of its attention.

        Parameters
        ----------
        text : str, TokenIds or TokenVectors
            The text, its token ids, or vectors in place of its token embeddings.
        second : str, optional
            The second text of a pair; for an encoder-decoder model, the start of the decoder text.
        is_chat : bool
            Whether the text is a user message that is put into the tokenizer's chat template.

        Returns
        -------
        tuple of LayerGroupRun
            One run per group of identical layers, in order of computation. Weights that do not fit
            in memory are computed in tiles on access.

        Raises
        ------
        InputError
            If the text is empty, or too long for the model or for memory; with field ``chat`` if
            the text cannot be put into a chat template; with field ``layers`` or ``stages`` if a
            layer or stage does not exist.
        """
        inputs = self.encode_inputs(text, second, is_chat=is_chat)
        attend = (
            self._attend
            if self.long_texts.can_keep_weights(inputs[0])
            else self._attend_to_long_text
        )
        return kept.select_runs(attend(inputs, {}, {}, kept)[0])

    def attend_image(
        self, path: Path, kept: KeptLayersAndStages = KEEP_ALL_PARTS
    ) -> tuple[LayerGroupRun, ...]:
        """Run the model on an image and return the runs of its attention, like `attend`.

        The tokens are patches of the image, labelled by position: ``row 3, column 5``.

        Raises
        ------
        InputError
            With field ``image`` if the image cannot be read, or has too many patches for memory;
            with ``model`` if the model does not accept images.
        """
        return kept.select_runs(self.read_image(self.prepare_image(path), kept=kept).runs)

    @cached_property
    def transformers_tokenizer(self) -> Any:
        """The tokenizer of transformers; None for a model without one.

        Raises
        ------
        InputError
            With field ``model`` if the tokenizer's files are invalid.
        """
        is_in_folder = self.folder.has_tokenizer and self.folder.lab_run is None
        return load_tokenizer(self.folder) if is_in_folder else None

    def prepare_image(self, path: Path, expected_hash: str = "") -> PreparedImage:
        """Prepare an image file for the model.

        Parameters
        ----------
        expected_hash : str
            Expected hash of the file's content; empty to accept any.

        Raises
        ------
        InputError
            As in `attend_image`.
        """
        part = self.image_model
        if part is None:
            raise InputError("model", f"{self.folder.name} does not accept images.")
        self._image_processor = self._image_processor or load_image_processor(self.folder)
        image = prepare_image(path, self._image_processor, part, expected_hash)
        self.check_image_memory(len(image.names))
        return replace(image, pixels=image.pixels.to(self.model.device, self.model.dtype))

    def read_image(
        self,
        image: PreparedImage,
        edits: Edits | None = None,
        cuts: Cuts | None = None,
        kept: KeptLayersAndStages = KEEP_ALL_PARTS,
    ) -> ForwardResult:
        """Run the model once on an image, with optional head edits and cut edges as in `read`.

        Raises
        ------
        InputError
            With field ``image`` if the model fails on the image; with ``heads`` and ``cuts`` as in
            `read`.
        """
        given = {PIXELS_ARGUMENT: image.pixels}
        runs, _ = self._attend((given, image.names, ()), edits or {}, cuts or {}, kept)
        runs = tuple(_with_image_patches(each, image) for each in runs)
        if not (edits or cuts):
            return ForwardResult(runs, None, None)
        return ForwardResult(
            runs, None, None, _weight_distances(runs, self.read_unedited_image(image))
        )

    def read_unedited_image(self, image: PreparedImage) -> UneditedForwardResult:
        """Run the model without edits on an image, or return the cached result."""
        given = {PIXELS_ARGUMENT: image.pixels}
        return self._cached_unedited_result((PIXELS_ARGUMENT, image.key, False), lambda: given)

    def read(
        self,
        text: str,
        edits: Edits | None = None,
        cuts: Cuts | None = None,
        second: str | None = None,
        *,
        is_chat: bool = False,
        by_blocks: bool = False,
    ) -> ForwardResult:
        """Run the model on a text once, for its attention and its next-token prediction.

        Parameters
        ----------
        by_blocks : bool
            Whether weights of a long text are computed in tiles on access; such runs contain no
            captured attention.

        Raises
        ------
        InputError
            As in `next_token_log_probabilities`, except for models that generate no text.
        """
        given = self.encode_inputs(text, second, is_chat=is_chat)
        attend = (
            self._attend_to_long_text
            if by_blocks and self.long_texts.is_long(given[0])
            else self._attend
        )
        is_changed = bool(edits or cuts)
        is_known = (text, second or "", is_chat) in self._plain
        parts = 2 if is_changed and not is_known else 1
        with scale_reported_progress(0, parts):
            runs, result = attend(given, edits or {}, cuts or {})
        logs = self._optional_log_probabilities(result)
        if not is_changed:
            return ForwardResult(runs, logs, logs)
        with scale_reported_progress(1, parts):
            plain = self.read_unedited_text(text, second, is_chat=is_chat)
        return ForwardResult(runs, logs, plain.next_token, _weight_distances(runs, plain))

    def read_unedited_text(
        self, text: str, second: str | None = None, *, is_chat: bool = False
    ) -> UneditedForwardResult:
        """Run the model without edits on a text, or return the cached result.

        Raises
        ------
        InputError
            As in `attend`; with field ``model`` if the heads cannot be recorded separately.
        """
        return self._cached_unedited_result(
            (text, second or "", is_chat),
            lambda: self.encode_inputs(text, second, is_chat=is_chat)[0],
        )

    def _cached_unedited_result(
        self, key: tuple[str, str, bool], given: Callable[[], Mapping[str, Any]]
    ) -> UneditedForwardResult:
        with self.forward.lock:
            known = self._plain.pop(key, None)
            found = known or self._compute_unedited_result(given())
            self._plain[key] = found
            while len(self._plain) > MAX_CACHED_READINGS:
                del self._plain[next(iter(self._plain))]
        return found

    def _compute_unedited_result(self, given: Mapping[str, Any]) -> UneditedForwardResult:
        if PIXELS_ARGUMENT not in given and self.long_texts.is_long(given):
            with suppress(UnsupportedAttentionError):
                _, result = self.long_texts.run_and_record(given, {}, keeps=False)
                return UneditedForwardResult(
                    self._optional_log_probabilities(result), {}, {}, is_long=True
                )
        calls, result = self.record_calls_by_layer({**given, **self.last_logits_arguments})
        contexts = {at: call.context[0] for at, call in calls.items() if call.context is not None}
        is_small = sum(call.weights.nbytes for call in calls.values()) <= MAX_CACHED_READING_BYTES
        weights = {at: call.weights[0] for at, call in calls.items()} if is_small else {}
        return UneditedForwardResult(self._optional_log_probabilities(result), contexts, weights)

    def _optional_log_probabilities(self, result: Any) -> torch.Tensor | None:
        return None if self.no_next_token_reason else _last_token_log_probabilities(result)

    def _attend(
        self,
        inputs: Inputs,
        edits: Edits,
        cuts: Cuts,
        kept: KeptLayersAndStages = KEEP_ALL_PARTS,
        *,
        repeats: bool = True,
    ) -> tuple[tuple[LayerGroupRun, ...], Any]:
        """Run the model on a text or an image; see `SurroundingStageRecorder.record`."""
        given, tokens, key_tokens = inputs
        if (
            PIXELS_ARGUMENT not in given
        ):  # `prepare_image` has already checked the memory for patches
            self.check_memory(self.count_tokens(given), len(kept.layers or ()))
        with torch.inference_mode(), self.forward.lock:
            by_module = self.heads.edits_by_module(given, edits)
            cut_by_module = self.heads.cuts_by_module(given, cuts, len(tokens))
            around = self._stages.record(given, len(tokens), kept, repeats=repeats)
            probe = self._create_rounding_probe(given, kept)
            recording = self.forward.record_calls(
                by_module,
                cut_by_module,
                holds_weights=self.forward.holds_weights,
                keeps_module=kept.keeps_module,
            )
            inputs_of_layer = probe.record_inputs() if probe else nullcontext()
            with around as seen, recording as calls, inputs_of_layer:
                is_repeated = seen.is_repeated or probe is not None
                more = self.cache_disabling_arguments if is_repeated else {}
                result = self.forward.run({**given, **self.last_logits_arguments, **more})
        self.heads.heads_from_calls(calls)
        groups = group_calls(kept.select_calls(calls))
        if not groups:
            sentence = f"No attention could be recorded in {self.folder.name}."
            raise InputError("model", sentence)
        where = attention_device.describe_device(self.device)
        name, runs = self.folder.name, []
        again = partial(self.forward.record_calls, by_module, cut_by_module)
        rounding = probe.describe(calls, self.dtype, again) if probe else ""
        notices_of_text = (rounding, self.double_bos_notice(given))
        for group in groups:
            labels = _token_labels(group, tokens, key_tokens)
            found = create_layer_run(group, name, *labels, where)
            if seen.module_calls and not group.is_cross:
                try:
                    found = self._stages.add_stages_to_run(found, seen, edits, again)
                except StepMismatchError:  # the first tokens have other steps
                    return self._attend(inputs, edits, cuts, kept, repeats=False)
            notices = filter(None, (seen.notice, *notices_of_text, *self.folder.notices))
            runs.append(reduce(LayerGroupRun.with_notice, notices, found))
        return tuple(runs), result

    def _create_rounding_probe(
        self, given: Mapping[str, Any], kept: KeptLayersAndStages
    ) -> RoundingProbe | None:
        """Return a probe of the middle layer if the model computes in 16 bits."""
        if not self.dtype.is_half or self.ranks.count > 1:
            return None
        heads = self.heads.find_heads(given)
        numbers = sorted((kept.layers or frozenset(heads)).intersection(heads))
        if not numbers:
            return None
        number = numbers[len(numbers) // 2]
        return RoundingProbe(self.model, self.forward, number, heads[number].module)

    def _attend_to_long_text(
        self, inputs: Inputs, edits: Edits, cuts: Cuts, kept: KeptLayersAndStages = KEEP_ALL_PARTS
    ) -> tuple[tuple[LayerGroupRun, ...], Any]:
        """Run the model on a long text, like `_attend`; keep all weights only if necessary."""
        try:
            if cuts:
                raise UnsupportedAttentionError(CUTS_UNAVAILABLE_ERROR)
            return self.long_texts.attend(inputs, edits, kept)
        except UnsupportedAttentionError as refused:
            reason = refused
        try:
            return self._attend(inputs, edits, cuts, kept)
        except InputError as error:
            if error.field != "text":
                raise
            sentence = f"{reason.sentence} {WHOLE_WEIGHTS_ERROR} {error.sentence}"
            raise InputError("text", sentence) from error

    def next_token_log_probabilities(
        self,
        text: ModelInput,
        edits: Edits | None = None,
        cuts: Cuts | None = None,
        *,
        is_chat: bool = False,
    ) -> torch.Tensor:
        """Return the log-probabilities of the next token over the vocabulary, [token].

        Raises
        ------
        InputError
            As in `attend`; with field ``model`` if the model predicts no next token; with field
            ``heads`` if a head does not exist or cannot be edited; with field ``cuts`` if a query
            would have no key left.
        """
        self.check_can_generate()
        given, *_ = self.encode_inputs(text, None, is_chat=is_chat)
        self.check_memory(self.count_tokens(given), 1)
        _, result = self._run_recorded(given, edits, cuts, self.last_logits_arguments, keeps=False)
        return _last_token_log_probabilities(result)

    def ablated_log_probabilities(
        self,
        text: str,
        heads: Sequence[LayerAndHead],
        edits: Edits | None = None,
        cuts: Cuts | None = None,
    ) -> torch.Tensor:
        """Return the log-probabilities of the next token with each head ablated separately.

        The model runs on one batch that repeats the text once per head.

        Returns
        -------
        Tensor
            [head, token], float64.

        Raises
        ------
        InputError
            As in `next_token_log_probabilities`.
        """
        self.check_can_generate()
        given, *_ = self.encode_inputs(text, None)
        self.check_memory(self.count_tokens(given), len(heads))
        on = torch.ones(len(heads), device=self.model.device, dtype=self.model.dtype)
        each: dict[LayerAndHead, ContextEdit] = dict(edits or {})
        for at, head in enumerate(heads):
            before = each.get(head, 1.0)
            if isinstance(before, torch.Tensor):  # patched context vectors
                without = before.expand(len(heads), *before.shape).clone()
            else:
                without = on * before
            without[at] = 0
            each[head] = without
        batch = {name: tensor.expand(len(heads), -1) for name, tensor in given.items()}
        changed = {**batch, **self.last_logits_arguments}
        _, result = self._run_recorded(given, each, cuts, changed, keeps=False)
        logs: torch.Tensor = to_float64_on_cpu(result.logits[:, -1]).log_softmax(-1)
        return logs

    def _run_recorded(
        self,
        given: Mapping[str, Any],
        edits: Edits | None,
        cuts: Cuts | None,
        changed: Mapping[str, Any],
        *,
        keeps: bool = True,
    ) -> tuple[list[AttentionCall], Any]:
        """Run the model with edits; return its attention calls, if they are kept, and its output.

        The arguments in ``changed`` are added to the arguments for the text, or replace them.
        """
        with torch.inference_mode():
            by_module = self.heads.edits_by_module(given, edits)
            cut_by_module = self.heads.cuts_by_module(given, cuts)
            with self.forward.record_calls(by_module, cut_by_module, keeps=keeps) as calls:
                return calls, self.forward.run({**given, **changed})

    def record_calls_by_layer(
        self, given: Mapping[str, Any], edits: Edits | None = None, cuts: Cuts | None = None
    ) -> tuple[dict[int, AttentionCall], Any]:
        """Run the model once; return the recorded attention call of each layer, and its output.

        Raises
        ------
        InputError
            With field ``model`` if heads cannot be recorded separately: the model has its own
            attention implementation, or its layers run several times.
        """
        if PIXELS_ARGUMENT not in given:
            self.check_memory(self.count_tokens(given))
        calls, result = self._run_recorded(given, edits, cuts, {})
        self.heads.heads_from_calls(calls)
        if not self.heads.are_editable:
            sentence = f"The heads of {self.folder.name} cannot be recorded separately."
            raise InputError("model", sentence)
        return dict(number_calls_by_layer(calls)), result


def _with_image_patches(found: LayerGroupRun, image: PreparedImage) -> LayerGroupRun:
    """Add the image to a run if its tokens are the image's patches."""
    if image.patches is None or found.run.texts != (image.names,) or not found.run.has_same_keys:
        return found
    return replace(found, run=with_image_patches(found.run, image.patches))


def _last_token_log_probabilities(result: Any) -> torch.Tensor:
    logs: torch.Tensor = to_float64_on_cpu(result.logits[0, -1]).log_softmax(-1)
    return logs


def _weight_distances(
    runs: Sequence[LayerGroupRun], plain: UneditedForwardResult
) -> dict[int, np.ndarray]:
    """Return each head's mean total variation from the unedited weights, by layer, [head]."""
    found = {}
    for each in runs:
        # Long texts have no calls, as their weights are not kept.
        for layer, call in zip(each.group.layers, each.group.calls, strict=False):
            before = plain.weights.get(layer)
            if before is not None and before.shape == call.weights[0].shape:
                now = to_float64_on_cpu(call.read_weights()[0])
                apart = (now - to_float64_on_cpu(before)).abs().sum(-1) / 2
                found[layer] = apart.mean(-1).cpu().numpy()
    return found


def _token_labels(
    group: LayerGroup, tokens: tuple[str, ...], others: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the query tokens of a group, and its key tokens if they differ."""
    queries, keys = group.calls[0].weights.shape[-2:]
    path = group.name.split(".")
    if not others:
        of_keys = () if keys == queries else tokens
    elif "encoder" in path and "decoder" not in path:
        tokens, of_keys = others, ()
    else:
        of_keys = others if group.is_cross else ()
    return _matching_labels(tokens, queries), of_keys and _matching_labels(of_keys, keys)


def _matching_labels(tokens: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the tokens as labels, or position numbers if the counts differ."""
    return tokens if len(tokens) == count else numbered_labels(count)


def open_model(
    path: Path,
    device: Device = Device.AUTO,
    dtype: ModelDtype = ModelDtype.AUTO,
    progress: Progress = ignore_progress,
    parallelism: Parallelism = Parallelism.NONE,
    *,
    is_from_disk: bool = False,
) -> OpenedModel:
    """Open a model from its folder, without network access and without running its code.

    Parameters
    ----------
    path : Path
        A transformers model folder, or a run folder or weights file of the language lab.
    progress : Progress
        Called with the loaded and total bytes of weights.
    parallelism : Parallelism
        How the model is split across the processes of a server; all of them call this function.
    is_from_disk : bool
        Whether the layers' weights stay on disk and are loaded one layer at a time when needed.

    Raises
    ------
    InputError
        With field ``model`` if the folder cannot be opened, or if the model does not fit in memory,
        cannot be split, or cannot be run from disk.
    """
    return OpenedModel(
        load_model(path, device, dtype, progress, parallelism, is_from_disk=is_from_disk)
    )
