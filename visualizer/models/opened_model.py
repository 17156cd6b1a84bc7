"""A model opened from its folder; tokenizes texts and records the model's attention."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the types of fields
from contextlib import contextmanager, suppress
from functools import partial, reduce
from hashlib import sha256
from inspect import signature
from threading import RLock
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention import device as attention_device
from visualizer.attention.captured_attention import position_labels
from visualizer.attention.float64_conversion import float64_on_cpu
from visualizer.attention.layer_stages import AROUND
from visualizer.attention.model_reading import SecondText
from visualizer.attention.run import HELD_WHOLE, USABLE, gib
from visualizer.attention.saved_numbers import with_patches
from visualizer.attention.spec import Device, Dtype
from visualizer.attention.token_labels import join_split_characters
from visualizer.errors import InputError, is_out_of_memory
from visualizer.format import format_size
from visualizer.models.attention_recorder import (
    EAGER,
    HeadCut,
    RecordingMethod,
    record_attention,
)
from visualizer.models.chunked_prefill import (
    CHUNK,
    read_in_chunks,
    reads_alike_in_chunks,
    without_cache,
)
from visualizer.models.disk_layers import (
    LAYOUT_MISMATCH,
    LayersOnDisk,
    device_map_of,
    stack_of_layers,
)
from visualizer.models.disk_reading_estimate import (
    INSTEAD,
    LAB_MODEL_REASON,
    SEVERAL_STACKS,
    memory_from_disk,
    refused,
    why_not_from_disk,
)
from visualizer.models.image_reading import image_tokens
from visualizer.models.inference_boundary import NotByRuleError
from visualizer.models.kept_parts import ALL_PARTS, KeptParts
from visualizer.models.lab_model_files import is_lab_model
from visualizer.models.layer_inference import OtherStepsError, known_layers
from visualizer.models.layer_recorder import (
    NOTHING_PASSED,
    LayerInput,
    ModulePass,
    record_layer_inputs,
    record_layers,
)
from visualizer.models.layer_stages import widths_of, with_layers, with_repeated_layers
from visualizer.models.long_text_recorder import record_long_text, runs_of_long_text
from visualizer.models.long_text_vectors import file_for_vectors, held_in
from visualizer.models.meta_model import bytes_of_model, meta_model
from visualizer.models.model_folder import (
    IMAGE_CONFIG,
    ModelFolder,
    bytes_in_memory,
    check_image_config,
    read_model_folder,
)
from visualizer.models.model_inputs import check_main_input
from visualizer.models.model_ranks import ONE, ModelRanks, Parallelism, SeveralRanks
from visualizer.models.model_source import heads_in_words
from visualizer.models.model_tokenizer import MAX_LISTED_TOKENS, NAMES, TokenizerBeingRead
from visualizer.models.rank_calls import calls_of_all_ranks
from visualizer.models.recorded_runs import (
    LayerGroup,
    LayerRun,
    check_memory,
    groups_of,
    numbered_by_layer,
    run_of,
)
from visualizer.models.tokenizer_process import tokenizer_process
from visualizer.models.weight_loading_progress import LoadedWeights
from visualizer.optional_packages import require_package
from visualizer.progress import CancelledError, no_progress, progress_of_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy as np

    from visualizer.attention.captured_attention import ImagePatches
    from visualizer.attention.model_reading import SpecialTokens
    from visualizer.models.attention_recorder import (
        AttentionCall,
        ContextEdit,
        ContextEdits,
        EdgeCuts,
    )
    from visualizer.models.layer_inference import KnownLayers
    from visualizer.models.layer_stages import LayerPlaces, ModuleWidths, Recording
    from visualizer.models.long_text_recorder import LongTextCall
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.model_tokenizer import ModelTokenizer
    from visualizer.progress import Progress

    Edits = Mapping[LayerAndHead, ContextEdit]
    Cuts = Mapping[LayerAndHead, Sequence[tuple[int, int]]]

ABSENT_ADAPTER_FOLDER = "no adapter"
"""A subfolder that does not exist, so that peft finds no adapter."""
NOTHING = "The text is empty. Enter a word or a sentence."
MAX_LAYER_BYTES = 2**29
MAX_HELD_LAYER_BYTES = 2**25
"""Above this size, the stages around the attention are computed on access, if possible."""
FIRST_TOKENS = 16
"""Number of tokens of the run that recognizes the steps of each layer."""
MAX_CACHED_READING_BYTES = 2**28
"""Maximum size of the attention weights that are cached with an unedited reading."""
MAX_CACHED_READINGS = 3
"""Maximum number of cached unedited readings."""
SHARE_OF_FREE = 4
"""The stages around the attention are omitted if they would take more than ``MAX_LAYER_BYTES``,
or more than one part in ``SHARE_OF_FREE`` of the free memory."""
PIXELS = "pixel_values"
"""Name of the argument with which models of transformers receive an image."""
PROBE_TOKENS = 4
"""Number of tokens of the run that counts the heads of each layer."""
IMAGE_COMMANDS = "“attention-visualizer model FOLDER --image FILE” or attend(image=…) in Python"
ATTENTION_ALONE = (
    "Only attention is shown. The other stages are not available for a text of this length."
)
ONE_PASS = (
    "The text was processed in one pass because processing it in chunks would change the results."
)
ONE_PASS_FROM_DISK = (
    "The text was processed in one pass because each chunk would load all layers from disk again."
)
COMPUTES_ITSELF = (
    "This model uses its own attention implementation, so its weights cannot be computed in tiles."
)
LOOKS_INTO_MASK = (
    "This model inspects its attention mask, so its weights cannot be computed in tiles."
)
CUTS_UNAVAILABLE = "Edges cannot be cut in a text this long."
WHOLE_ONLY = "All attention weights would have to be kept in memory:"
BEGINS_TWICE = (
    "The text starts with {token} twice. If the tokenizer adds this token (for example to a chat "
    "template that is already rendered), remove it from the text."
)
PARALLEL_STAGES_NOTICE = (
    "Only attention is shown. The other stages are not available for a model that is "
    "split over several processes."
)
LEFT_OUT = (
    "Only attention is shown. The other stages of all layers would need {size} of memory. "
    "Use a shorter text or fewer layers to show them."
)
SPREAD = "a model can be split over processes or run from disk, but not both"
ON_CPU_ALONE = "models run from disk on the CPU only"
DISK_STAGES_NOTICE = (
    "Only attention is shown. The other stages need the weights of all layers, but this model "
    "loads its layers from disk one at a time."
)


class _AttentionHeads(Struct, frozen=True):
    """Attention module of a layer, its head count, and whether heads can be edited separately."""

    module: str
    heads: int
    is_editable: bool


class _RecordedLayers(Struct, frozen=True, eq=False):
    """Recorded values from which the stages around the attention are built.

    Parameters
    ----------
    passed, inputs : mapping
        As recorded by `record_layers` and `record_layer_inputs`.
    is_repeated : bool
        Whether layers run again from their recorded inputs when a stage is accessed.
    notice : str
        Why these stages are not available, as a sentence; empty if they are.
    """

    passed: Mapping[str, ModulePass] = NOTHING_PASSED
    inputs: Mapping[str, LayerInput] = {}
    is_repeated: bool = False
    notice: str = ""


class TextReading(Struct, frozen=True, eq=False):
    """Result of one forward pass over a text or an image.

    Parameters
    ----------
    runs : tuple of LayerRun
        As returned by `OpenedModel.attend`.
    next_token, next_token_of_all_heads : Tensor or None
        Log-probabilities of the next token over the vocabulary, [token], float64, with the edits
        and without them; None if the model predicts no next token.
    changes : mapping
        By layer, the distance of each head's weights from those without edits, [head], float64:
        total variation (half the summed absolute difference) per row, averaged over all rows.
        Empty if nothing is edited, or if the weights would take too much memory.
    """

    runs: tuple[LayerRun, ...]
    next_token: torch.Tensor | None
    next_token_of_all_heads: torch.Tensor | None
    changes: Mapping[int, np.ndarray] = {}


class PlainReading(Struct, frozen=True, eq=False):
    """Result of a forward pass without edits.

    Parameters
    ----------
    next_token : Tensor or None
        As in `TextReading`.
    contexts : mapping
        By layer, the context vectors of its heads, [query, head, d_value].
    weights : mapping
        By layer, [head, query, key]; empty if they would take too much memory.
    is_long : bool
        Whether the text is so long that neither contexts nor weights are kept.
    """

    next_token: torch.Tensor | None
    contexts: Mapping[int, torch.Tensor]
    weights: Mapping[int, torch.Tensor]
    is_long: bool = False


class GivenImage(Struct, frozen=True, eq=False):
    """A preprocessed image with its tokens.

    Parameters
    ----------
    given : mapping
        The model's arguments.
    names : tuple of str
        Labels of its tokens.
    patches : ImagePatches or None
        The image as preprocessed, with its patches; None if unknown.
    key : str
        Hash of the pixel values, used as cache key.
    """

    given: dict[str, Any]
    names: tuple[str, ...]
    patches: ImagePatches | None
    key: str


class OpenedModel:
    """A transformers model with its tokenizer, in memory.

    Parameters
    ----------
    folder : ModelFolder
        The folder it was opened from.
    model
        The transformers model, in evaluation mode, with eager attention.
    tokenizer : ModelTokenizer or None
        None if the folder has no tokenizer.
    device : Device
        Device that the model runs on.
    ranks : ModelRanks
        The processes that the model is split over. All of them must make the same calls to this
        object in the same order.
    on_disk : LayersOnDisk or None
        The layers, if their weights are loaded from disk whenever they are needed.
    """

    def __init__(
        self,
        folder: ModelFolder,
        model: Any,
        tokenizer: ModelTokenizer | None,
        device: Device,
        ranks: ModelRanks = ONE,
        on_disk: LayersOnDisk | None = None,
    ) -> None:
        self.folder, self.model, self.tokenizer = folder, model, tokenizer
        self.device, self.ranks, self.on_disk = device, ranks, on_disk
        self.most_held: int | None = None
        """Maximum bytes of attention weights (all layers) kept in memory before tiles are used;
        None for the limit of other runs, `HELD_WHOLE`."""
        self._image_processor: Any = None
        """The image processor of transformers; None until the first image."""
        self._layers: dict[int, _AttentionHeads] | None = None
        self._is_by_interface = False
        self._reads_in_chunks: bool | None = False if on_disk else None
        """Whether long texts can be processed in chunks; None until the first long text."""
        self._known: dict[LayerPlaces, KnownLayers | None] = {}
        """Recognized steps of the layers, by group of layers; None if not recognized."""
        self._widths: dict[frozenset[int] | None, dict[LayerPlaces, ModuleWidths]] = {}
        """Module widths of layers that can run again, by the requested layers."""
        self._vector_bytes: int | None = None
        """Bytes per token that all local layers keep of a long text; None until measured."""
        self._plain: dict[tuple[str, str, bool], PlainReading] = {}
        """Recent unedited readings, by text, second text and whether it is a chat message."""
        self.lock = RLock()
        """Held during a run: hooks record one run at a time, on any thread."""

    def attend(
        self,
        text: str,
        second: str | None = None,
        *,
        is_chat: bool = False,
        kept: KeptParts = ALL_PARTS,
    ) -> tuple[LayerRun, ...]:
        """Run the model on a text and return the runs of its attention.

        Parameters
        ----------
        second : str, optional
            The second text of a pair; for an encoder–decoder model, the start of the decoder text.
        is_chat : bool
            Whether the text is a user message that is put into the tokenizer's chat template.
        kept : KeptParts
            The layers and stages that are kept.

        Returns
        -------
        tuple of LayerRun
            One per group of identical layers, in order of computation. Weights that do not fit
            into memory are computed in tiles on access.

        Raises
        ------
        InputError
            If the text is empty, or too long for the model or for memory; with field ``chat`` if
            the text cannot be put into a chat template; with field ``layers`` and ``stages`` if one
            does not exist.
        """
        inputs = self.inputs(text, second, is_chat=is_chat)
        attend = self._attend if self._is_held_whole(inputs[0]) else self._attend_to_long
        return kept.of_runs(attend(inputs, {}, {}, kept)[0])

    def attend_image(self, path: Path, kept: KeptParts = ALL_PARTS) -> tuple[LayerRun, ...]:
        """Run the model on an image and return the runs of its attention, like `attend`.

        Its tokens are patches, labelled by position: ``row 3, column 5``.

        Raises
        ------
        InputError
            With field ``image`` if it cannot be read, or has too many patches for memory; for
            ``model``, if it does not accept images.
        """
        return kept.of_runs(self.read_image(self.image(path), kept=kept).runs)

    def image(self, path: Path, known: str = "") -> GivenImage:
        """Prepare an image file for the model.

        Parameters
        ----------
        known : str
            Expected hash of its content; empty to accept any.

        Raises
        ------
        InputError
            As in `attend_image`.
        """
        part = self._part_for_images
        if part is None:
            raise InputError("model", f"{self.folder.name} does not accept images.")
        self._image_processor = self._image_processor or _load_image_processor(self.folder)
        found = image_tokens(path, self._image_processor, part, known)
        names = ("num_hidden_layers", "num_attention_heads")
        layers, heads = (_positive_int(getattr(part.config, name, None)) or 1 for name in names)
        check_memory(layers, heads, len(found.names), "image")
        pixels = found.pixels.to(self.model.device, self.model.dtype)
        key = sha256(found.pixels.numpy().tobytes()).hexdigest()
        return GivenImage({PIXELS: pixels}, found.names, found.patches, key)

    def read_image(
        self,
        image: GivenImage,
        edits: Edits | None = None,
        cuts: Cuts | None = None,
        kept: KeptParts = ALL_PARTS,
    ) -> TextReading:
        """Run the model once on an image, with optional head edits and cut edges as in `read`.

        Raises
        ------
        InputError
            With field ``image`` if the model fails on it; for ``heads`` and ``cuts`` as in `read`.
        """
        runs, _ = self._attend((image.given, image.names, ()), edits or {}, cuts or {}, kept)
        runs = tuple(_with_patches(each, image) for each in runs)
        if not (edits or cuts):
            return TextReading(runs, None, None)
        return TextReading(
            runs, None, None, _weight_distances(runs, self.read_image_plainly(image))
        )

    def read_image_plainly(self, image: GivenImage) -> PlainReading:
        """Run the model without edits on an image, or return the cached result."""
        return self._cached_plain_reading((PIXELS, image.key, False), lambda: image.given)

    @property
    def reads_images(self) -> bool:
        """Whether the model takes images instead of texts."""
        return self._part_for_images is not None

    @property
    def _part_for_images(self) -> Any:
        """The model or submodel that takes images; None if there is none."""
        if self.model.main_input_name == PIXELS:
            return self.model
        part = getattr(self.model, "vision_model", None)
        return part if getattr(part, "main_input_name", "") == PIXELS else None

    def read(
        self,
        text: str,
        edits: Edits | None = None,
        cuts: Cuts | None = None,
        second: str | None = None,
        *,
        is_chat: bool = False,
        by_blocks: bool = False,
    ) -> TextReading:
        """Run the model on a text once, for its attention and its next-token prediction.

        Parameters
        ----------
        edits, cuts : mapping, optional
            As in `next_token_log_probabilities`.
        by_blocks : bool
            Whether weights of a long text are computed in tiles on access; such runs contain no
            captured attention.

        Raises
        ------
        InputError
            As in `next_token_log_probabilities`, except for models that generate no text.
        """
        given = self.inputs(text, second, is_chat=is_chat)
        attend = self._attend_to_long if by_blocks and self.is_long(given[0]) else self._attend
        is_changed = bool(edits or cuts)
        is_known = (text, second or "", is_chat) in self._plain
        parts = 2 if is_changed and not is_known else 1
        with progress_of_part(0, parts):
            runs, result = attend(given, edits or {}, cuts or {})
        logs = None if self.why_no_next_token else _last_log_probabilities(result)
        if not is_changed:
            return TextReading(runs, logs, logs)
        with progress_of_part(1, parts):
            plain = self.read_plainly(text, second, is_chat=is_chat)
        return TextReading(runs, logs, plain.next_token, _weight_distances(runs, plain))

    def read_plainly(
        self, text: str, second: str | None = None, *, is_chat: bool = False
    ) -> PlainReading:
        """Run the model without edits on a text, or return the cached result.

        Raises
        ------
        InputError
            As in `attend`; with field ``model`` if the heads cannot be recorded separately.
        """
        return self._cached_plain_reading(
            (text, second or "", is_chat), lambda: self.inputs(text, second, is_chat=is_chat)[0]
        )

    def _cached_plain_reading(
        self, key: tuple[str, str, bool], given: Callable[[], Mapping[str, Any]]
    ) -> PlainReading:
        with self.lock:
            known = self._plain.pop(key, None)
            found = known or self._compute_plain_reading(given())
            self._plain[key] = found
            while len(self._plain) > MAX_CACHED_READINGS:
                del self._plain[next(iter(self._plain))]
        return found

    def _compute_plain_reading(self, given: Mapping[str, Any]) -> PlainReading:
        if PIXELS not in given and self.is_long(given):
            with suppress(NotByRuleError):
                _, result = self._read_long(given, {}, keeps=False)
                logs = None if self.why_no_next_token else _last_log_probabilities(result)
                return PlainReading(logs, {}, {}, is_long=True)
        calls, result = self._calls_by_layer({**given, **self._last_logits_only()})
        logs = None if self.why_no_next_token else _last_log_probabilities(result)
        contexts = {at: call.context[0] for at, call in calls.items() if call.context is not None}
        is_small = sum(call.weights.nbytes for call in calls.values()) <= MAX_CACHED_READING_BYTES
        weights = {at: call.weights[0] for at, call in calls.items()} if is_small else {}
        return PlainReading(logs, contexts, weights)

    def _attend(
        self,
        inputs: tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]],
        edits: Edits,
        cuts: Cuts,
        kept: KeptParts = ALL_PARTS,
        *,
        repeats: bool = True,
    ) -> tuple[tuple[LayerRun, ...], Any]:
        """Run the model on a text or an image; parameters as in `_record_around`."""
        given, tokens, key_tokens = inputs
        if PIXELS not in given:  # `image` has already checked the memory for patches
            self.check_memory(given, _positive_int(self._config_value("num_hidden_layers")) or 1)
        only = {} if self.why_no_next_token else self._last_logits_only()
        is_here = self.ranks.count == 1 and self.on_disk is None
        with torch.inference_mode(), self.lock:
            by_module = self.edits_by_module(given, edits)
            cut_by_module = self._cuts_by_module(given, cuts, len(tokens))
            around = self._record_around(given, len(tokens), kept, repeats=repeats)
            recording = self.recorded(by_module, cut_by_module, holds_weights=not is_here)
            with around as seen, recording as calls:
                more = without_cache(self.model) if seen.is_repeated else {}
                result = self.run({**given, **only, **more})
        self._layers = self._layers or _heads_by_layer(calls)
        groups = groups_of(kept.of_calls(calls))
        if not groups:
            sentence = f"No attention could be recorded in {self.folder.name}."
            raise InputError("model", sentence)
        where = attention_device.describe(self.device)
        begins_twice = self._begins_twice(given)
        name, runs = self.folder.name, []
        again = partial(self.recorded, by_module, cut_by_module)
        for group in groups:
            labels = _token_labels(group, tokens, key_tokens)
            found = run_of(group, name, *labels, where)
            if seen.passed and not group.is_cross:
                try:
                    found = self._add_stages(found, seen, edits, again)
                except (
                    OtherStepsError
                ):  # the layers take other steps for this text than for a few tokens
                    return self._attend(inputs, edits, cuts, kept, repeats=False)
            notices = filter(None, (seen.notice, begins_twice, *self.folder.notices))
            runs.append(reduce(LayerRun.with_notice, notices, found))
        return tuple(runs), result

    @contextmanager
    def _record_around(
        self, given: Mapping[str, Any], tokens: int, kept: KeptParts, *, repeats: bool
    ) -> Iterator[_RecordedLayers]:
        """Record the values from which the stages around the attention are built.

        Parameters
        ----------
        kept : KeptParts
            Parts to keep; without any of these stages nothing is recorded.
        repeats : bool
            Whether layers may run again on access if the stages are large.
        """
        if kept.stages is not None and AROUND.isdisjoint(kept.stages):
            yield _RecordedLayers()
        elif self.ranks.count > 1 or self.on_disk:
            yield _RecordedLayers(
                notice=DISK_STAGES_NOTICE if self.on_disk else PARALLEL_STAGES_NOTICE
            )
        else:
            with self._record_around_here(given, tokens, kept, repeats=repeats) as seen:
                yield seen

    @contextmanager
    def _record_around_here(
        self, given: Mapping[str, Any], tokens: int, kept: KeptParts, *, repeats: bool
    ) -> Iterator[_RecordedLayers]:
        needed = self._bytes_of_layers(tokens)
        room = attention_device.free_bytes(Device.CPU) / SHARE_OF_FREE
        is_large = needed > MAX_HELD_LAYER_BYTES
        layers = self._layers_to_repeat(given, kept) if repeats and is_large else None
        if layers is not None:
            with record_layer_inputs(self.model, layers) as (passed, inputs):
                yield _RecordedLayers(passed, inputs, is_repeated=True)
        elif needed <= min(MAX_LAYER_BYTES, room):
            with record_layers(self.model) as passed:
                yield _RecordedLayers(passed)
        else:
            yield _RecordedLayers(notice=LEFT_OUT.format(size=format_size(needed)))

    def _layers_to_repeat(
        self, given: Mapping[str, Any], kept: KeptParts
    ) -> tuple[str, ...] | None:
        """Return the paths of layers that can run again; None if they cannot.

        Their steps are recognized from the first tokens of the first large text.
        """
        if PIXELS in given or self.has_decoder:
            return None
        widths = self._widths.get(kept.layers)
        if widths is None:
            few = {name: tensor[:, :FIRST_TOKENS] for name, tensor in given.items()}
            with record_layers(self.model) as passed, self.recorded() as calls:
                self.run({**few, **without_cache(self.model)})
            widths = {}
            for group in groups_of(kept.of_calls(calls)):
                key = (group.name, group.layers)
                if key not in self._known:
                    found = known_layers(self.model, group.calls, group.layers, passed)
                    self._known[key] = found
                if (known := self._known[key]) is not None:
                    widths[key] = widths_of(known.paths, passed)
            self._widths[kept.layers] = widths
        known_here = [known for key in widths if (known := self._known[key]) is not None]
        if any(known.experts for known in known_here):  # their choice differs for each text
            return None
        return tuple(path for known in known_here for path in known.paths)

    def _add_stages(
        self, found: LayerRun, seen: _RecordedLayers, edits: Edits, recording: Recording
    ) -> LayerRun:
        """Add the recognized stages around the attention to a run."""
        if not seen.is_repeated:
            with self.lock:  # runs modules, such as experts
                return with_layers(found, self.model, seen.passed, edits, self._known)
        key = (found.group.name, found.group.layers)
        known = self._known.get(key)
        if known is None:
            return found
        widths = widths_of(known.paths, seen.passed)
        if not any(each.get(key) == widths for each in self._widths.values()):
            raise OtherStepsError
        return with_repeated_layers(
            found, self.model, known, seen.passed, seen.inputs, edits, recording
        )

    def is_long(self, given: Mapping[str, Any]) -> bool:
        """Whether the weights of all layers exceed the limit for keeping them in memory."""
        names = ("num_hidden_layers", "num_attention_heads")
        layers, heads = (_positive_int(self._config_value(name)) or 1 for name in names)
        count = given["input_ids"].shape[-1]
        needed = self.model.dtype.itemsize * layers * heads * count**2
        return not self.has_decoder and needed > (
            HELD_WHOLE if self.most_held is None else self.most_held
        )

    def _is_held_whole(self, given: Mapping[str, Any]) -> bool:
        """Whether the weights of a text are few, or fit into free memory."""
        if not self.is_long(given):
            return True
        try:
            self.check_memory(given, _positive_int(self._config_value("num_hidden_layers")) or 1)
        except InputError:
            return False
        return True

    def _attend_to_long(
        self,
        inputs: tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]],
        edits: Edits,
        cuts: Cuts,
        kept: KeptParts = ALL_PARTS,
    ) -> tuple[tuple[LayerRun, ...], Any]:
        """Run the model on a long text like `_attend`, without query × key matrices."""
        given, tokens, _ = inputs
        try:
            if cuts:
                raise NotByRuleError(CUTS_UNAVAILABLE)
            calls, result = self._read_long(given, edits)
            if not calls:
                raise NotByRuleError(COMPUTES_ITSELF)
        except NotByRuleError as refused:
            return self._attend_in_full(inputs, edits, cuts, kept, refused)
        where = attention_device.describe(self.device)
        runs = runs_of_long_text(kept.of_calls(calls), self.folder.name, tokens, where)
        notices_of_text = [*filter(None, [self._begins_twice(given)]), ATTENTION_ALONE]
        if not (self._reads_in_chunks or self.why_no_next_token):
            notices_of_text.append(ONE_PASS_FROM_DISK if self.on_disk else ONE_PASS)
        notices = (" ".join(notices_of_text), *self.folder.notices)
        return tuple(reduce(LayerRun.with_notice, notices, each) for each in runs), result

    def _attend_in_full(
        self,
        inputs: tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]],
        edits: Edits,
        cuts: Cuts,
        kept: KeptParts,
        refused: NotByRuleError,
    ) -> tuple[tuple[LayerRun, ...], Any]:
        """Run the model on a text and keep all weights; used if they cannot be recomputed."""
        try:
            return self._attend(inputs, edits, cuts, kept)
        except InputError as error:
            if error.field != "text":
                raise
            sentence = f"{refused.sentence} {WHOLE_ONLY} {error.sentence}"
            raise InputError("text", sentence) from error

    def _read_long(
        self, given: Mapping[str, Any], edits: Edits, *, keeps: bool = True
    ) -> tuple[list[LongTextCall], Any]:
        """Run the model on a long text; return the inputs of its attention, and its result.

        Raises
        ------
        NotByRuleError
            If the attention cannot be recomputed from its inputs.
        """
        only = {} if self.why_no_next_token else self._last_logits_only()
        with torch.inference_mode(), self.lock:
            self._layers = self._layers or self._probe_heads(given)
            by_module = self.edits_by_module(given, edits)
            layers, model, run = len(self._layers), self.model, self._run_by_rule
            if self._reads_in_chunks is None:
                self._reads_in_chunks = reads_alike_in_chunks(
                    model, run, {**given, **only}, self.ranks
                )
            if self._reads_in_chunks:
                # The cache holds keys and values during the run, even if nothing is kept.
                room = self._room_for_vectors(given, keeps=True, at_once=CHUNK)
                try:
                    with room:
                        return read_in_chunks(
                            model, run, {**given, **only}, by_module, layers=layers, keeps=keeps,
                            ranks=self.ranks,
                        )  # fmt: skip
                except NotByRuleError:  # one pass may still work
                    self._reads_in_chunks = False
            recording = record_long_text(
                model, by_module, layers=layers, keeps=keeps, ranks=self.ranks
            )
            with self._room_for_vectors(given, keeps=keeps), recording as calls:
                return calls, run({**given, **only, **without_cache(model)})

    def _run_by_rule(self, given: Mapping[str, Any]) -> Any:
        """Run the model with rules in place of mask matrices."""
        try:
            return self.run(given)
        except InputError as error:
            if isinstance(error.__cause__, TypeError | AttributeError):
                raise NotByRuleError(LOOKS_INTO_MASK) from error
            raise

    @contextmanager
    def _room_for_vectors(
        self, given: Mapping[str, Any], *, keeps: bool, at_once: int = MAX_LISTED_TOKENS
    ) -> Iterator[None]:
        """Reserve memory or a file for the vectors of a text; reject a text that does not fit.

        Parameters
        ----------
        at_once : int
            Maximum number of tokens processed at once.
        """
        tokens = given["input_ids"].shape[-1]
        of_token = self._vector_bytes_of_token(given) if keeps else 0
        with self.ranks.agreed():
            file = file_for_vectors(of_token, tokens)
            self._check_room(tokens, 0 if file else of_token * tokens, at_once)
        with held_in(file):
            yield

    def _check_room(self, tokens: int, in_memory: int, at_once: int) -> None:
        """Reject a text if its vectors and the layers' intermediate values exceed free memory."""
        width = _positive_int(self._config_value("hidden_size")) or 1
        wide = _positive_int(self._config_value("intermediate_size")) or 4 * width
        needed = in_memory + 4 * min(tokens, at_once) * (8 * width + 3 * wide)
        free = USABLE * attention_device.free_bytes(Device.CPU)
        if needed > free:
            sentence = f"{tokens:,} tokens need {gib(needed)} of memory; {gib(free)} is available."
            raise InputError("text", f"{sentence} Use a shorter text.")

    def _vector_bytes_of_token(self, given: Mapping[str, Any]) -> int:
        """Return the bytes per token that all layers keep, measured on a few tokens."""
        if self._vector_bytes is None:
            few = {name: tensor[:, :PROBE_TOKENS] for name, tensor in given.items()}
            with record_long_text(self.model, ranks=self.ranks) as calls:
                self._run_by_rule({**few, **without_cache(self.model)})
            found = sum(call.vectors.bytes for call in calls)
            self._vector_bytes = found // few["input_ids"].shape[-1]
        return self._vector_bytes

    def _bytes_of_layers(self, tokens: int) -> int:
        """Return an estimate of the bytes of the stages around the attention of all layers."""
        width = _positive_int(self._config_value("hidden_size")) or 1
        wide = _positive_int(self._config_value("intermediate_size")) or 4 * width
        layers = _positive_int(self._config_value("num_hidden_layers")) or 1
        experts = _positive_int(
            self._config_value("num_experts_per_tok")
        )  # output of each active expert
        return 4 * layers * tokens * ((12 + experts) * width + 3 * wide)

    @property
    def why_no_next_token(self) -> str:
        """Why the model predicts no next token, as a sentence; empty if it does."""
        if self.has_decoder or not self.model.can_generate():
            return f"{self.folder.name} does not generate text, so it predicts no next token."
        return ""

    @property
    def are_heads_switchable(self) -> bool:
        """Whether single heads can be edited, according to the runs so far."""
        return bool(self._layers) and _are_editable(self._layers or {})

    def next_token_log_probabilities(
        self,
        text: str,
        edits: Edits | None = None,
        cuts: Cuts | None = None,
        *,
        is_chat: bool = False,
    ) -> torch.Tensor:
        """Return the log-probabilities of the next token over the vocabulary, [token].

        Parameters
        ----------
        edits : mapping, optional
            Edits of heads' context vectors, by layer and head; 0 ablates a head.
        cuts : mapping, optional
            Cut edges as (query, key), by layer and head. They are masked before the softmax; edges
            outside the text are ignored.

        Raises
        ------
        InputError
            As in `attend`; with field ``model`` if it predicts no next token; with field ``heads``
            if a head does not exist or cannot be edited; with field ``cuts`` if a query would have
            no key left.
        """
        if self.why_no_next_token:
            raise InputError("model", self.why_no_next_token)
        given, *_ = self.inputs(text, None, is_chat=is_chat)
        self.check_memory(given, 1)
        with torch.inference_mode():
            by_module = self.edits_by_module(given, edits)
            cut_by_module = self._cuts_by_module(given, cuts or {})
            with self.recorded(by_module, cut_by_module, keeps=False):
                return _last_log_probabilities(self.run({**given, **self._last_logits_only()}))

    def log_probabilities_without_each(
        self,
        text: str,
        heads: Sequence[LayerAndHead],
        edits: Edits | None = None,
        cuts: Cuts | None = None,
    ) -> torch.Tensor:
        """Return the log-probabilities of the next token with each head ablated separately.

        The model runs on one batch that repeats the text once per head.

        Parameters
        ----------
        edits, cuts : mapping, optional
            Changes applied in addition, as in `next_token_log_probabilities`.

        Returns
        -------
        Tensor
            [head, token], float64.

        Raises
        ------
        InputError
            As in `next_token_log_probabilities`.
        """
        if self.why_no_next_token:
            raise InputError("model", self.why_no_next_token)
        given, *_ = self.inputs(text, None)
        self.check_memory(given, len(heads))
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
        with torch.inference_mode():
            by_module = self.edits_by_module(given, each)
            cut_by_module = self._cuts_by_module(given, cuts or {})
            with self.recorded(by_module, cut_by_module, keeps=False):
                logits = self.run({**batch, **self._last_logits_only()}).logits
        logs: torch.Tensor = float64_on_cpu(logits[:, -1]).log_softmax(-1)
        return logs

    def calls_by_layer(
        self, given: Mapping[str, Any], edits: Edits | None = None, cuts: Cuts | None = None
    ) -> dict[int, AttentionCall]:
        """Run the model once and return the recorded attention of each layer.

        Parameters
        ----------
        edits, cuts : mapping, optional
            As in `next_token_log_probabilities`.

        Raises
        ------
        InputError
            With field ``model`` if heads cannot be recorded separately: the model has its own
            attention implementation, or its layers run several times.
        """
        return self._calls_by_layer(given, edits, cuts)[0]

    def _calls_by_layer(
        self, given: Mapping[str, Any], edits: Edits | None = None, cuts: Cuts | None = None
    ) -> tuple[dict[int, AttentionCall], Any]:
        """Return the attention calls by layer, and the model's output."""
        if PIXELS not in given:
            self.check_memory(given, _positive_int(self._config_value("num_hidden_layers")) or 1)
        with torch.inference_mode():
            by_module = self.edits_by_module(given, edits)
            cut_by_module = self._cuts_by_module(given, cuts or {})
            with self.recorded(by_module, cut_by_module) as calls:
                result = self.run(given)
        self._layers = self._layers or _heads_by_layer(calls)
        if not self.are_heads_switchable:
            sentence = f"The heads of {self.folder.name} cannot be recorded separately."
            raise InputError("model", sentence)
        return dict(numbered_by_layer(calls)), result

    @contextmanager
    def recorded(
        self,
        edits: ContextEdits | None = None,
        cuts: EdgeCuts | None = None,
        *,
        keeps: bool = True,
        holds_weights: bool = True,
    ) -> Iterator[list[AttentionCall]]:
        """Record the attention of a run; runs on other threads wait.

        If a run's attention used only the attention interface, softmax is not watched in later
        runs.
        """
        recording = record_attention(
            self.model,
            edits,
            cuts,
            keeps=keeps,
            watches=not self._is_by_interface,
            holds_weights=holds_weights,
            ranks=self.ranks,
        )
        with self.lock, recording as calls:
            yield calls
        if keeps:
            calls[:] = calls_of_all_ranks(self.ranks, calls)
        met = {call.method for call in calls}
        self._is_by_interface = self._is_by_interface or met == {RecordingMethod.INTERFACE}

    def edits_by_module(self, given: Mapping[str, Any], edits: Edits | None) -> ContextEdits:
        """Return edits of heads by module path instead of layer number.

        Raises
        ------
        InputError
            With field ``heads`` if a head does not exist or cannot be edited.
        """
        found: dict[str, dict[int, ContextEdit]] = {}
        if not edits:
            return found
        for (layer, head), edit in edits.items():
            found.setdefault(self._module_of(given, layer, head), {})[head] = edit
        return found

    def _cuts_by_module(
        self, given: Mapping[str, Any], cuts: Cuts, tokens: int | None = None
    ) -> EdgeCuts:
        """Return the cut edges within the text by module path instead of layer number."""
        if not cuts:
            return {}
        if tokens is None:
            tokens = given["input_ids"].shape[-1]
        found: dict[str, dict[int, HeadCut]] = {}
        for (layer, head), cells in cuts.items():
            module = self._module_of(given, layer, head)
            if within := [cell for cell in cells if min(cell) >= 0 and max(cell) < tokens]:
                queries, keys = zip(*within, strict=True)
                cut = HeadCut(queries, keys, heads_in_words(((layer, head),)))
                found.setdefault(module, {})[head] = cut
        return found

    def _module_of(self, given: Mapping[str, Any], layer: int, head: int) -> str:
        """Return the path of the module of a head that can be edited."""
        layers = self._layers = self._layers or self._probe_heads(given)
        known = layers.get(layer)
        if known is None or not 0 <= head < known.heads:
            raise InputError("heads", f"Head {head} of layer {layer} does not exist.")
        # If one stack has more layers than another, the numbers of its last layers would be
        # unambiguous, but the unedited model could not be recorded for comparison.
        if not _are_editable(layers):
            sentence = f"Single heads of {self.folder.name} cannot be edited."
            raise InputError("heads", sentence)
        return known.module

    def _probe_heads(self, given: Mapping[str, Any]) -> dict[int, _AttentionHeads]:
        """Probe the heads with a few tokens: weights of a long text would fill memory."""
        few = {name: tensor[:, :PROBE_TOKENS] for name, tensor in given.items()}
        with self.recorded() as calls:
            self.run(given if PIXELS in given else few)
        return _heads_by_layer(calls)

    def layers_and_heads(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the layer and number of every head that runs on a text."""
        given, *_ = self.inputs(text, None)
        with torch.inference_mode():
            layers = self._layers = self._layers or self._probe_heads(given)
        counts = ((layer, layers[layer].heads) for layer in sorted(layers))
        return tuple((layer, head) for layer, count in counts for head in range(count))

    def _last_logits_only(self) -> dict[str, int]:
        """Return the argument that omits the logits of all tokens but the last, if supported."""
        name = "logits_to_keep"
        return {name: 1} if name in signature(self.model.forward).parameters else {}

    def likeliest(self, logs: torch.Tensor, most: int) -> list[tuple[str, float]]:
        """Return the most likely tokens with their probabilities, from log-probabilities [token].

        Raises
        ------
        InputError
            With field ``most`` if it is less than 1 or exceeds the vocabulary.
        """
        if not 1 <= most <= len(logs):
            raise InputError("most", f"most must be from 1 to {len(logs):,}. It is {most:,}.")
        values, numbers = logs.topk(most)
        return [*zip(self.tokens(numbers.tolist()), values.exp().tolist(), strict=True)]

    def tokens(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """Return tokens of the vocabulary as texts."""
        return self.tokenizer_for_text.words(numbers)

    def token(self, number: int) -> str:
        """Return a token of the vocabulary as text."""
        return self.tokens((number,))[0]

    def decoded(self, numbers: Sequence[int]) -> str:
        """Return tokens as one text."""
        return self.tokenizer_for_text.decode(numbers)

    def number_of(self, token: str) -> int:
        """Return the id of a token of the vocabulary by its text.

        Raises
        ------
        InputError
            With field ``token`` if the text is not exactly one token.
        """
        found = self.tokenizer_for_text.encode(token, has_special=False)
        if found.count != 1:
            tokens = f"{found.count:,} tokens"
            sentence = f"“{token[:60]}” is {tokens} of {self.folder.name}. Enter a single token."
            raise InputError("token", sentence)
        return found.numbers["input_ids"][0]

    def run(self, given: Mapping[str, Any]) -> Any:
        """Run the model; failures are raised as an InputError of ``text`` or ``image``."""
        self.ranks.check_stopped()
        with self.ranks.agreed():
            return self._run_model(given)

    def _run_model(self, given: Mapping[str, Any]) -> Any:
        what = "image" if PIXELS in given else "text"
        try:
            return (self._part_for_images if PIXELS in given else self.model)(**given)
        except (InputError, CancelledError):
            raise
        except Exception as error:  # every architecture fails in its own way
            if is_out_of_memory(error):
                advice = "Use a shorter text." if what == "text" else "Close other programs."
                raise InputError(what, f"Out of memory. {advice}") from error
            sentence = f"{self.folder.name} failed on this {what}: {_first_line(error)}"
            raise InputError(what, sentence) from error
        finally:
            if self.on_disk:
                self.on_disk.drop()

    @contextmanager
    def weights_in_memory(self, path: str) -> Iterator[None]:
        """Load the weights of a module into memory for the duration of the context.

        Raises
        ------
        InputError
            With field ``model`` if the weights are on disk and the files have changed.
        """
        if self.on_disk is None:
            yield
            return
        with self.lock, self.on_disk.in_memory(path):
            yield

    @property
    def has_decoder(self) -> bool:
        """Whether the model has an encoder and a decoder, each with its own text."""
        return bool(getattr(self.model.config, "is_encoder_decoder", False))

    def size(self, name: str) -> int:
        """Return a positive integer of the configuration; 0 if missing."""
        return _positive_int(self._config_value(name))

    def _config_value(self, name: str) -> object:
        """Return a value of the text model's configuration; None if missing."""
        try:
            return getattr(self.model.config.get_text_config(), name, None)
        except NotImplementedError:  # raised for a length without limit
            return None

    def check_memory(self, given: Mapping[str, Any], layers: int) -> None:
        """Reject a text if the weights of ``layers`` layers would not fit into free memory."""
        heads = _positive_int(self._config_value("num_attention_heads")) or 1
        with self.ranks.agreed():
            check_memory(layers, heads, given["input_ids"].shape[-1])

    def inputs(
        self, text: str, second: str | None = None, *, is_chat: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
        """Return the model's inputs, the query tokens, and the key tokens if they differ."""
        tokenizer = self.tokenizer_for_text
        if not text.strip():
            raise InputError("text", NOTHING)
        is_pair = bool(second) and not self.has_decoder
        given_text = self.as_given(text, is_chat=is_chat)
        # A rendered chat template already contains the special tokens.
        coded = tokenizer.encode(given_text, second if is_pair else None, has_special=not is_chat)
        if not coded.count:
            raise InputError("text", NOTHING)
        if is_pair and coded.count > (alone := tokenizer.encode(given_text).count):
            self.check_length(alone)
            self.check_length(coded.count, "second")
        self.check_length(coded.count)
        device = self.model.device
        given = {name: torch.tensor([each], device=device) for name, each in coded.numbers.items()}
        words = join_split_characters(coded.words)
        if not self.has_decoder:
            return given, words, ()
        start = self._decoder_ids(second)
        given["decoder_input_ids"] = torch.tensor([start], device=device)
        return given, join_split_characters(self.tokens(start)), words

    def _begins_twice(self, given: Mapping[str, Any]) -> str:
        """Return a notice if a text starts with two BOS tokens; empty otherwise."""
        ids = given.get("input_ids")
        if ids is None or self.tokenizer is None or not self.tokenizer.bos_token:
            return ""
        names = [self.tokenizer.special_names.get(number) for number in ids[0, :2].tolist()]
        if names != [NAMES["bos_token"]] * 2:
            return ""
        return BEGINS_TWICE.format(token=self.tokenizer.bos_token)

    @property
    def tokenizer_for_text(self) -> ModelTokenizer:
        """The tokenizer; raises an InputError of ``model`` if there is none."""
        if self.tokenizer is None:
            sentence = f"{self.folder.name} has no tokenizer, so it cannot process text."
            if self._part_for_images is not None:
                sentence = f"{self.folder.name} takes images instead of text. Use {IMAGE_COMMANDS}."
            raise InputError("model", sentence)
        return self.tokenizer

    def as_given(self, text: str, *, is_chat: bool = False) -> str:
        """Return a text for the tokenizer: unchanged, or as a user message in a chat template."""
        if not is_chat or not text.strip():
            return text
        return self.tokenizer_for_text.as_users_message(text, self.folder.name)

    def special_tokens(
        self, text: str, second: str = "", *, is_chat: bool = False, of_decoder: bool = False
    ) -> SpecialTokens:
        """Return the positions and names of the special tokens of a text.

        Parameters
        ----------
        of_decoder : bool
            Whether to return those of the decoder.
        """
        given, *_ = self.inputs(text, second or None, is_chat=is_chat)
        # Decoder-only models such as OPT may be called decoders, but have the usual inputs.
        own = "decoder_input_ids"
        ids = given[own if of_decoder and own in given else "input_ids"]
        names = self.tokenizer_for_text.special_names
        numbers = enumerate(ids[0].tolist())
        return tuple((at, names[number]) for at, number in numbers if number in names)

    @property
    def second_text(self) -> SecondText:
        """How the model uses a second text."""
        if self.tokenizer is None:
            return SecondText.NONE
        if self.has_decoder:
            return SecondText.DECODER
        return SecondText.NONE if self.model.can_generate() else SecondText.PAIR

    def _decoder_ids(self, second: str | None) -> list[int]:
        config = self.model.config
        first = getattr(config, "decoder_start_token_id", None)
        first = getattr(config, "bos_token_id", None) if first is None else first
        ids = [] if first is None else [first]
        if second:
            coded = self.tokenizer_for_text.encode(second, has_special=False)
            self.check_length(len(ids) + coded.count, "second")
            ids += coded.numbers["input_ids"]
        if not ids:
            raise InputError(
                "second", "The decoder has no start token. Enter a text for it to start with."
            )
        self.check_length(len(ids), "second")
        return ids

    def check_length(self, count: int, field: str = "text") -> None:
        """Reject more tokens than the model supports."""
        learned = _positive_int(self._config_value("max_position_embeddings"))
        longest = min(MAX_LISTED_TOKENS, learned or MAX_LISTED_TOKENS)
        if count > longest:
            is_pair = field == "second" and not self.has_decoder
            what = "The two texts have" if is_pair else "The text has"
            sentence = f"{what} {count:,} tokens; {self.folder.name} supports at most {longest:,}."
            raise InputError(field, f"{sentence} Use a shorter text.")


def _with_patches(found: LayerRun, image: GivenImage) -> LayerRun:
    """Add the image to a run if its tokens are the image's patches."""
    if image.patches is None or found.run.texts != (image.names,) or not found.run.has_same_keys:
        return found
    return replace(found, run=with_patches(found.run, image.patches))


def _last_log_probabilities(result: Any) -> torch.Tensor:
    logs: torch.Tensor = float64_on_cpu(result.logits[0, -1]).log_softmax(-1)
    return logs


def _weight_distances(runs: Sequence[LayerRun], plain: PlainReading) -> dict[int, np.ndarray]:
    """Return each head's mean total variation from the unedited weights, by layer, [head]."""
    found = {}
    for each in runs:
        # Long texts have no calls, as their weights are not kept.
        for layer, call in zip(each.group.layers, each.group.calls, strict=False):
            before = plain.weights.get(layer)
            if before is not None and before.shape == call.weights[0].shape:
                now = float64_on_cpu(call.read_weights()[0])
                apart = (now - float64_on_cpu(before)).abs().sum(-1) / 2
                found[layer] = apart.mean(-1).cpu().numpy()
    return found


def _heads_by_layer(calls: Sequence[AttentionCall]) -> dict[int, _AttentionHeads]:
    numbered = numbered_by_layer(calls)
    names, layers = [call.module for call in calls], [layer for layer, _ in numbered]
    return {
        layer: _AttentionHeads(
            call.module,
            call.weights.shape[1],
            # An edit would apply to every call of a module that runs more than once. In a layer
            # that attends twice, such as with cross-attention, the layer number is ambiguous.
            call.method is RecordingMethod.INTERFACE
            and names.count(call.module) == 1
            and layers.count(layer) == 1,
        )
        for layer, call in numbered
    }


def _are_editable(layers: Mapping[int, _AttentionHeads]) -> bool:
    return all(each.is_editable for each in layers.values())


def _positive_int(value: object) -> int:
    """Return a positive integer of a configuration unchanged; 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0


def _token_labels(
    group: LayerGroup, tokens: tuple[str, ...], others: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the query tokens of a group and, if they differ, its key tokens."""
    queries, keys = group.calls[0].weights.shape[-2:]
    if not others:
        return _matching_labels(tokens, queries), () if keys == queries else _matching_labels(
            tokens, keys
        )
    is_encoder = "encoder" in group.name.split(".") and "decoder" not in group.name.split(".")
    if is_encoder:
        return _matching_labels(others, queries), ()
    return _matching_labels(tokens, queries), _matching_labels(
        others, keys
    ) if group.is_cross else ()


def _matching_labels(tokens: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return the tokens as labels, or position numbers if the counts differ."""
    return tokens if len(tokens) == count else position_labels(count)


def _first_line(error: Exception) -> str:
    """Return the first line of an error message, at most 200 characters."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def open_model(
    path: Path,
    device: Device = Device.AUTO,
    dtype: Dtype = Dtype.FLOAT32,
    progress: Progress = no_progress,
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
        How the model is split over the processes of a server, all of which call this function.
    is_from_disk : bool
        Whether the layers' weights stay on disk and are loaded one layer at a time when needed.

    Raises
    ------
    InputError
        With field ``model`` if the folder cannot be opened, or the model does not fit into memory,
        cannot be split, or cannot be run from disk.
    """
    if is_lab_model(path):
        if is_from_disk:
            raise refused(path.name, LAB_MODEL_REASON)
        return _open_lab_model(path, device, dtype)
    folder = read_model_folder(path)
    numbers = folder.numbers
    if is_from_disk:
        numbers = _check_from_disk(folder, device, dtype, parallelism)
        device = Device.CPU
    where, _ = attention_device.resolve(device, dtype)
    ranks = _ranks_for(folder, parallelism, where)
    needed = bytes_in_memory(numbers, dtype)
    with ranks.agreed():  # before any process fills the memory
        _check_room(folder, needed, where, dtype, ranks, is_from_disk=is_from_disk)
    read = LoadedWeights(progress, numbers, folder.bytes * numbers // max(1, folder.numbers))
    if folder.has_tokenizer:
        tokenizer_process.start()  # its imports take as long as the imports here
    transformers = _import_transformers()
    if folder.kind not in transformers.CONFIG_MAPPING:
        sentence = (
            f"{folder.name} has an architecture (“{folder.kind[:60]}”) that is not supported by"
        )
        sentence = f"{sentence} the installed version of transformers ({transformers.__version__})."
        if not folder.kind:
            sentence = f"The config.json of {folder.name} names no architecture (model_type)."
        raise InputError("model", sentence)
    read.check()
    being_read = TokenizerBeingRead(folder) if folder.has_tokenizer else None
    stack, placed, types = "", dict[str, Any](), getattr(torch, dtype)
    with _silence_libraries():
        with ranks.agreed(), _explain_errors(folder):
            config = _load_config(folder)
            kind = _model_class(transformers, folder, config)
            check_main_input(folder.name, kind.main_input_name)
            on_meta = meta_model(kind, config, folder, types, read.check)
            buffers = sum(each.nbytes for each in on_meta.buffers())
            needed = needed + buffers if is_from_disk else max(needed, bytes_of_model(on_meta))
            _check_room(folder, needed, where, dtype, ranks, is_from_disk=is_from_disk)
        if is_from_disk:
            stack = stack_of_layers(on_meta, folder.layer_sizes.layers)
            if not stack:
                raise refused(folder.name, SEVERAL_STACKS)
            placed = {"device_map": device_map_of(on_meta, stack)}
        del on_meta
        settings = {"config": config, "dtype": types} | ranks.settings() | placed
        model = _load_weights(kind, folder, where, read, settings).eval()
        on_disk = LayersOnDisk(folder.name, model, stack) if stack else None
    tokenizer = being_read.result(read.check) if being_read else None
    return OpenedModel(folder, model, tokenizer, where, ranks, on_disk)


def _check_room(
    folder: ModelFolder,
    needed: int,
    device: Device,
    dtype: Dtype,
    ranks: ModelRanks,
    *,
    is_from_disk: bool,
) -> None:
    """Reject a model that needs more memory than is available."""
    # Each process has its own GPU, but all share the memory of the machine.
    needed //= ranks.count if device is Device.CUDA else 1
    free = USABLE * attention_device.free_bytes(device)
    if needed > free:
        sentence = (
            f"{folder.name} needs {gib(needed)} of memory as {dtype}; {gib(free)} is available."
        )
        is_spread = ranks.parallelism is not Parallelism.NONE
        if not (is_from_disk or is_spread or why_not_from_disk(folder)):
            sentence = f"{sentence} {INSTEAD}"
        raise InputError("model", sentence)


def _check_from_disk(
    folder: ModelFolder, device: Device, dtype: Dtype, parallelism: Parallelism
) -> int:
    """Return the number of parameters in memory at once; reject a model that cannot be streamed."""
    if parallelism is not Parallelism.NONE:
        raise refused(folder.name, SPREAD)
    if device not in {Device.AUTO, Device.CPU}:
        raise refused(folder.name, ON_CPU_ALONE)
    if why := why_not_from_disk(folder):
        raise refused(folder.name, why)
    require_package("accelerate", "Running a model from disk")
    sizes = folder.layer_sizes
    return memory_from_disk(folder.numbers, sizes, dtype) // bytes_in_memory(1, dtype)


def _load_config(folder: ModelFolder) -> Any:
    """Load the transformers configuration of a model."""
    return _import_transformers().AutoConfig.from_pretrained(
        str(folder.path), local_files_only=True, trust_remote_code=False
    )


def _ranks_for(folder: ModelFolder, parallelism: Parallelism, device: Device) -> ModelRanks:
    """Return the processes over which to split a model."""
    if parallelism is Parallelism.NONE:
        return ONE
    require_package("accelerate", "Splitting a model over processes")
    with _explain_errors(folder):
        config = _load_config(folder).get_text_config()
    heads = _positive_int(getattr(config, "num_attention_heads", 0)) or 1
    key_heads = _positive_int(getattr(config, "num_key_value_heads", 0)) or heads
    ranks = SeveralRanks(parallelism, heads, device)
    plan = getattr(config, "base_model_tp_plan", None) or {}
    is_by_heads = parallelism is Parallelism.TENSOR and any("q_proj" in name for name in plan)
    if is_by_heads and key_heads % ranks.count:
        sentence = (
            f"{folder.name} has {key_heads} key heads per layer, which cannot be divided evenly"
        )
        raise InputError("model", f"{sentence} among {ranks.count} processes.")
    layers = _positive_int(getattr(config, "num_hidden_layers", 0)) or 1
    if parallelism is Parallelism.PIPELINE and layers < ranks.count:
        sentence = f"{folder.name} has only {layers} layers for {ranks.count} processes."
        raise InputError("model", f"{sentence} Start at most {layers} processes.")
    return ranks


def _open_lab_model(path: Path, device: Device, dtype: Dtype) -> OpenedModel:
    _import_transformers()
    from visualizer.models.lab_transformer import read_lab_model  # imports transformers

    where, _ = attention_device.resolve(device, dtype)
    with _silence_libraries():
        folder, model, tokenizer = read_lab_model(path)
    return OpenedModel(folder, model.to(where, getattr(torch, dtype)).eval(), tokenizer, where)


def _import_transformers() -> Any:
    require_package("transformers", "Opening models")
    return importlib.import_module("transformers")


@contextmanager
def _silence_libraries() -> Iterator[None]:
    """Suppress progress bars and log messages of transformers and accelerate."""
    library_log: Any = importlib.import_module("transformers.utils.logging")
    accelerate_log = logging.getLogger("accelerate")

    level, bars, accelerate_level = (
        library_log.get_verbosity(),
        library_log.is_progress_bar_enabled(),
        accelerate_log.level,
    )
    library_log.set_verbosity(logging.CRITICAL)
    accelerate_log.setLevel(logging.CRITICAL)
    library_log.disable_progress_bar()
    try:
        yield
    finally:
        library_log.set_verbosity(level)
        accelerate_log.setLevel(accelerate_level)
        if bars:
            library_log.enable_progress_bar()


def _model_class(transformers: Any, folder: ModelFolder, config: Any) -> Any:
    """Return the model class: one named in the config that fits it, or the default."""
    for name in folder.architectures:
        found: Any = getattr(transformers, name, None)
        is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
        if is_model and found.config_class is type(config):
            return found
    if type(config) not in transformers.MODEL_MAPPING:
        sentence = (
            f"transformers has no model class for {folder.name} (model type “{folder.kind}”)."
        )
        raise InputError("model", sentence)
    kinds = transformers.MODEL_MAPPING[type(config)]
    return kinds[0] if isinstance(kinds, tuple | list) else kinds


@contextmanager
def _explain_errors(folder: ModelFolder) -> Iterator[None]:
    """Raise errors of transformers as an `InputError` of ``model``."""
    try:
        yield
    except (CancelledError, InputError):
        raise
    except Exception as error:  # the library raises errors of every kind on damaged folders
        if is_out_of_memory(error):
            raise InputError("model", f"Out of memory while opening {folder.name}.") from error
        if "needed to be re-saved" in str(error):
            raise refused(folder.name, LAYOUT_MISMATCH) from error
        sentence = f"{folder.name} cannot be opened: {_first_line(error)}"
        raise InputError("model", sentence) from error


def _load_weights(
    kind: Any, folder: ModelFolder, device: Device, read: LoadedWeights, settings: Mapping[str, Any]
) -> Any:
    with _explain_errors(folder):
        with read.reported():
            model, found = kind.from_pretrained(
                str(folder.path),
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                attn_implementation=EAGER,
                output_loading_info=True,
                adapter_kwargs={"subfolder": ABSENT_ADAPTER_FOLDER},
                **settings,
            )
        read.copy_to(model, device)
    if missing := sorted(map(str, found.get("missing_keys") or ())):
        count = f"{len(missing):,} weight{'s are' if len(missing) > 1 else ' is'} missing"
        sentence = f"{folder.name} is incomplete: {count}, for example {missing[0][:80]}."
        raise InputError("model", sentence)
    return model


def _load_image_processor(folder: ModelFolder) -> Any:
    check_image_config(folder.path)
    transformers = _import_transformers()
    try:
        with _silence_libraries():
            return transformers.AutoImageProcessor.from_pretrained(
                str(folder.path), local_files_only=True, trust_remote_code=False
            )
    except ImportError as error:
        sentence = (
            f"The image processor of {folder.name} requires torchvision, which is not supported."
        )
        raise InputError("model", sentence) from error
    except Exception as error:  # as above
        sentence = f"The {IMAGE_CONFIG} of {folder.name} is invalid: {_first_line(error)}"
        raise InputError("model", sentence) from error
