"""A model opened from its folder: it splits a text into tokens and records its attention."""

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
from visualizer.attention.captured_numbers import with_patches
from visualizer.attention.float64_conversion import float64_on_cpu
from visualizer.attention.model_layer_stages import AROUND
from visualizer.attention.model_reading import SecondText
from visualizer.attention.run import HELD_WHOLE, USABLE, gib
from visualizer.attention.spec import Device, Dtype
from visualizer.attention.token_labels import join_split_characters
from visualizer.errors import InputError, is_out_of_memory
from visualizer.models.attention_recorder import (
    EAGER,
    HeadCut,
    RecordingMethod,
    record_attention,
)
from visualizer.models.calls_of_all_ranks import calls_of_all_ranks
from visualizer.models.chunked_prefill import (
    CHUNK,
    read_in_chunks,
    reads_alike_in_chunks,
    without_cache,
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
from visualizer.models.kept_parts import ALL_PARTS, KeptParts
from visualizer.models.lab_model_files import is_lab_model
from visualizer.models.layer_recorder import (
    NOTHING_PASSED,
    LayerInput,
    ModulePass,
    record_layer_inputs,
    record_layers,
)
from visualizer.models.layer_step_recognition import OtherStepsError, known_layers
from visualizer.models.layers_on_disk import (
    LAYOUT_MISMATCH,
    LayersOnDisk,
    device_map_of,
    stack_of_layers,
)
from visualizer.models.long_text_recorder import record_long_text
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
from visualizer.models.model_tokenizer import MAX_LISTED_TOKENS, TokenizerBeingRead
from visualizer.models.not_by_rule_error import NotByRuleError
from visualizer.models.repeated_layers import widths_of, with_repeated_layers
from visualizer.models.run_from_attention_calls import (
    LayerGroup,
    LayerRun,
    check_memory,
    groups_of,
    numbered_by_layer,
    run_of,
)
from visualizer.models.run_with_layer_stages import with_layers
from visualizer.models.runs_of_long_text import runs_of_long_text
from visualizer.models.special_token_names import NAMES
from visualizer.models.tokenizer_process import tokenizer_process
from visualizer.models.unfinished_reading_on_disk import UnfinishedReading, going_on, key_of
from visualizer.models.weight_loading_progress import LoadedWeights
from visualizer.number_format import format_size
from visualizer.optional_packages import require_package
from visualizer.progress_callback import CancelledError, no_progress, progress_of_part

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
    from visualizer.models.layer_step_recognition import KnownLayers
    from visualizer.models.long_text_recorder import LongTextCall
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.model_tokenizer import ModelTokenizer
    from visualizer.models.repeated_layers import ModuleWidths, Recording
    from visualizer.models.run_with_layer_stages import LayerPlaces
    from visualizer.progress_callback import Progress

    Edits = Mapping[LayerAndHead, ContextEdit]
    Cuts = Mapping[LayerAndHead, Sequence[tuple[int, int]]]

ABSENT_ADAPTER_FOLDER = "no adapter"
"""A folder that a model's folder does not have, so that peft finds no adapter there."""
NOTHING = "There is nothing to read yet. Type a word or a sentence."
MAX_LAYER_BYTES = 2**29
MAX_HELD_LAYER_BYTES = 2**25
"""Stages around the attention that take more bytes are computed when they are read, if possible."""
FIRST_TOKENS = 16
"""With so many tokens of a text it is found out what layers compute."""
MAX_CACHED_READING_BYTES = 2**28
"""Weights of the model without edits that take more than these bytes are not kept."""
MAX_CACHED_READINGS = 3
"""So many texts are kept as the model without edits read them."""
SHARE_OF_FREE = 4
"""Stages around the attention that would take more than these bytes, or than this part of what is
free, are left out."""
PIXELS = "pixel_values"
"""What the argument is called that models are given an image by."""
PROBE_TOKENS = 4
"""So many tokens tell how many heads each layer has."""
IMAGE_COMMANDS = "attention-visualizer model FOLDER --image FILE, or attend(image=…) in Python"
ATTENTION_ALONE = "Only attention is shown: the stages around it are left out of a text this long."
ONE_PASS = "It was read in one pass, as chunks of it would be read otherwise."
ONE_PASS_FROM_DISK = "It was read in one pass, as each chunk would read all layers from the disk."
COMPUTES_ITSELF = "The model computes its attention itself, so it is not computed again by blocks."
LOOKS_INTO_MASK = "The model looks into its mask, so its attention is not computed again by blocks."
CUTS_UNAVAILABLE = "Edges are not cut in a text this long."
WHOLE_ONLY = "Its weights would have to be held whole:"
BEGINS_TWICE = (
    "The text begins with {token} twice. If the tokenizer adds it, as to a chat template that was "
    "rendered before, remove it from the text."
)
PARALLEL_STAGES_NOTICE = (
    "Only attention is shown: the stages around it are not gathered from the processes that the "
    "model is spread over."
)
LEFT_OUT = "Only attention is shown: the stages around it, of all layers, would take {size}."
SPREAD = "a model is spread over processes, or read from the disk"
ON_CPU_ALONE = "from there it computes on the CPU alone"
DISK_STAGES_NOTICE = (
    "Only attention is shown: the stages around it need the weights of all layers, which are read "
    "from the disk one layer at a time."
)


class _LayerHeads(Struct, frozen=True):
    """The module of a layer's attention, and whether its heads can be edited by themselves."""

    module: str
    heads: int
    is_editable: bool


class _RecordedLayers(Struct, frozen=True, eq=False):
    """What the stages around the attention of a text are made of.

    Parameters
    ----------
    passed, inputs : mapping
        As `record_layers` and `record_layer_inputs` keep them.
    is_repeated : bool
        Whether layers are run again where they are read, for which their inputs are kept.
    notice : str
        Why there are no such stages, as a sentence; empty where there are.
    """

    passed: Mapping[str, ModulePass] = NOTHING_PASSED
    inputs: Mapping[str, LayerInput] = {}
    is_repeated: bool = False
    notice: str = ""


class TextReading(Struct, frozen=True, eq=False):
    """What came of reading a text once.

    Parameters
    ----------
    runs : tuple of LayerRun
        As `OpenedModel.attend` returns them.
    next_token, next_token_of_all_heads : Tensor or None
        The log-probability of each token of the vocabulary as the next one, [token], float64, with
        the heads edited and with all heads as they are; None where there is none.
    changes : mapping
        By layer, how far the weights of each head are from those of the model without edits,
        [head], float64: half the sum of the differences of a row (total variation), the mean over
        all rows. Empty where nothing is edited, and where the weights would take too much memory.
    """

    runs: tuple[LayerRun, ...]
    next_token: torch.Tensor | None
    next_token_of_all_heads: torch.Tensor | None
    changes: Mapping[int, np.ndarray] = {}


class PlainReading(Struct, frozen=True, eq=False):
    """What the model without edits made of a text.

    Parameters
    ----------
    next_token : Tensor or None
        As in `TextReading`.
    contexts : mapping
        By layer, the context vectors of its heads, [query, head, d_value].
    weights : mapping
        By layer, [head, query, key]; empty where they would take too much memory.
    is_long : bool
        Whether neither contexts nor weights are kept, as the text is long.
    """

    next_token: torch.Tensor | None
    contexts: Mapping[int, torch.Tensor]
    weights: Mapping[int, torch.Tensor]
    is_long: bool = False


class GivenImage(Struct, frozen=True, eq=False):
    """An image as a model is given it.

    Parameters
    ----------
    given : mapping
        The model's arguments.
    names : tuple of str
        Of its tokens.
    patches : ImagePatches or None
        What the model sees of the image; None where it is not known.
    key : str
        What tells its numbers from those of other images.
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
        Where it was opened from.
    model
        Of transformers, in evaluation mode, computing eager attention.
    tokenizer : ModelTokenizer or None
        None where the folder has none.
    device : Device
        Where it computes.
    ranks : ModelRanks
        The processes that it is spread over, all of which run the same calls of this in the same
        order.
    on_disk : LayersOnDisk or None
        Its layers, where their weights are read from the disk whenever they are needed.
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
        """Bytes of the weights of all layers that are held, of more of which blocks are computed;
        None for as many as of other runs."""
        self._image_processor: Any = None
        """Of transformers; None until an image was read."""
        self._layers: dict[int, _LayerHeads] | None = None
        self._is_by_interface = False
        self._reads_in_chunks: bool | None = False if on_disk else None
        """Whether a long text can be read chunk by chunk; None until one was read."""
        self._known: dict[LayerPlaces, KnownLayers | None] = {}
        """What is known of its layers, from texts that it has read."""
        self._widths: dict[frozenset[int] | None, dict[LayerPlaces, ModuleWidths]] = {}
        """The modules of layers that can be run again, by the layers that were asked for."""
        self._vector_bytes: int | None = None
        """What all layers here keep of a token of a long text; None until one was read."""
        self._plain: dict[tuple[str, str, bool], PlainReading] = {}
        """The last texts that were read without edits; with the second, and how they are given."""
        self.lock = RLock()
        """Held while it runs: what hooks keep is of one run, whichever thread it is on."""

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
            The second text of a pair; for an encoder–decoder model what its decoder begins with.
        is_chat : bool
            Whether the text is given as a user's message, by the tokenizer's chat template.
        kept : KeptParts
            The layers and stages that are kept.

        Returns
        -------
        tuple of LayerRun
            One for each group of layers that are alike, in the order of computation. Weights that
            would not fit into the memory are computed block by block where they are read.

        Raises
        ------
        InputError
            When there is no text, or it is too long for the model or the memory; of ``chat``, when
            it cannot be given as a message; of ``layers`` and ``stages``, when there are no such.
        """
        inputs = self.inputs(text, second, is_chat=is_chat)
        attend = self._attend if self._is_held_whole(inputs[0]) else self._attend_to_long
        return kept.of_runs(attend(inputs, {}, {}, kept)[0])

    def attend_image(self, path: Path, kept: KeptParts = ALL_PARTS) -> tuple[LayerRun, ...]:
        """Run the model on an image and return the runs of its attention, as `attend`.

        Its tokens are patches, named by their places: ``row 3, column 5``.

        Raises
        ------
        InputError
            Of ``image``, when it cannot be read, or has too many patches for the memory; of
            ``model``, when it reads no images.
        """
        return kept.of_runs(self.read_image(self.image(path), kept=kept).runs)

    def image(self, path: Path, known: str = "") -> GivenImage:
        """Prepare an image file for the model.

        Parameters
        ----------
        known : str
            The hash that its content must have; empty where any will do.

        Raises
        ------
        InputError
            As `attend_image`.
        """
        part = self._part_for_images
        if part is None:
            raise InputError("model", f"{self.folder.name} reads no images.")
        self._image_processor = self._image_processor or _image_processor_of(self.folder)
        found = image_tokens(path, self._image_processor, part, known)
        names = ("num_hidden_layers", "num_attention_heads")
        layers, heads = (_positive(getattr(part.config, name, None)) or 1 for name in names)
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
        """Run the model on an image once, with heads edited and edges cut as in `read`.

        Raises
        ------
        InputError
            Of ``image``, when the model cannot read it; of ``heads`` and ``cuts`` as in `read`.
        """
        runs, _ = self._attend((image.given, image.names, ()), edits or {}, cuts or {}, kept)
        runs = tuple(_with_patches(each, image) for each in runs)
        if not (edits or cuts):
            return TextReading(runs, None, None)
        return TextReading(runs, None, None, _changes(runs, self.read_image_plainly(image)))

    def read_image_plainly(self, image: GivenImage) -> PlainReading:
        """Run the model without edits on an image, or return what it made of it before."""
        return self._plain_of((PIXELS, image.key, False), lambda: image.given)

    @property
    def reads_images(self) -> bool:
        """Whether it is given an image, and no text."""
        return self._part_for_images is not None

    @property
    def _part_for_images(self) -> Any:
        """The model, or the part of it, that reads images; None where there is none."""
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
        """Run the model on a text once, for its attention and for the token that it expects next.

        Parameters
        ----------
        edits, cuts : mapping, optional
            As in `next_token_log_probabilities`.
        by_blocks : bool
            Whether weights of a long text are computed block by block where they are read; there is
            no captured attention then.

        Raises
        ------
        InputError
            As `next_token_log_probabilities`, but for a model that continues no text.
        """
        given = self.inputs(text, second, is_chat=is_chat)
        attend = self._attend_to_long if by_blocks and self.is_long(given[0]) else self._attend
        is_changed = bool(edits or cuts)
        is_known = (text, second or "", is_chat) in self._plain
        parts = 2 if is_changed and not is_known else 1
        with progress_of_part(0, parts):
            runs, result = attend(given, edits or {}, cuts or {})
        logs = None if self.why_no_next_token else _of_last(result)
        if not is_changed:
            return TextReading(runs, logs, logs)
        with progress_of_part(1, parts):
            plain = self.read_plainly(text, second, is_chat=is_chat)
        return TextReading(runs, logs, plain.next_token, _changes(runs, plain))

    def read_plainly(
        self, text: str, second: str | None = None, *, is_chat: bool = False
    ) -> PlainReading:
        """Run the model without edits on a text, or return what it made of it before.

        Raises
        ------
        InputError
            As `attend`; of ``heads``, when heads cannot be told apart.
        """
        return self._plain_of(
            (text, second or "", is_chat), lambda: self.inputs(text, second, is_chat=is_chat)[0]
        )

    def _plain_of(
        self, key: tuple[str, str, bool], given: Callable[[], Mapping[str, Any]]
    ) -> PlainReading:
        with self.lock:
            known = self._plain.pop(key, None)
            found = known or self._read_plainly(given())
            self._plain[key] = found
            while len(self._plain) > MAX_CACHED_READINGS:
                del self._plain[next(iter(self._plain))]
        return found

    def _read_plainly(self, given: Mapping[str, Any]) -> PlainReading:
        if PIXELS not in given and self.is_long(given):
            with suppress(NotByRuleError):
                _, result = self._read_long(given, {}, keeps=False)
                logs = None if self.why_no_next_token else _of_last(result)
                return PlainReading(logs, {}, {}, is_long=True)
        calls, result = self._calls_by_layer({**given, **self._last_only()})
        logs = None if self.why_no_next_token else _of_last(result)
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
        """Read a text or an image; parameters are as of `_recorded_layers`."""
        given, tokens, key_tokens = inputs
        if PIXELS not in given:  # the memory for an image's patches is checked before
            self.check_memory(given, _positive(self._config("num_hidden_layers")) or 1)
        only = {} if self.why_no_next_token else self._last_only()
        is_here = self.ranks.count == 1 and self.on_disk is None
        with torch.inference_mode(), self.lock:
            by_module = self.edits_by_module(given, edits)
            cut_by_module = self._cuts_by_module(given, cuts, len(tokens))
            around = self._recorded_layers(given, len(tokens), kept, repeats=repeats)
            recording = self.recorded(by_module, cut_by_module, holds_weights=not is_here)
            with around as seen, recording as calls:
                more = without_cache(self.model) if seen.is_repeated else {}
                is_plain = not (edits or cuts)
                result = self._run_on({**given, **only, **more}, calls, is_plain=is_plain)
        self._layers = self._layers or _layers_of(calls)
        groups = groups_of(kept.of_calls(calls))
        if not groups:
            sentence = f"{self.folder.name} computes no attention that could be read."
            raise InputError("model", sentence)
        where = attention_device.describe(self.device)
        begins_twice = self._begins_twice(given)
        name, runs = self.folder.name, []
        again = partial(self.recorded, by_module, cut_by_module)
        for group in groups:
            labels = _labels(group, tokens, key_tokens)
            found = run_of(group, name, *labels, where)
            if seen.passed and not group.is_cross:
                try:
                    found = self._with_layers(found, seen, edits, again)
                except OtherStepsError:  # of a text that is not read as a few tokens are
                    return self._attend(inputs, edits, cuts, kept, repeats=False)
            notices = filter(None, (seen.notice, begins_twice, *self.folder.notices))
            runs.append(reduce(LayerRun.with_notice, notices, found))
        return tuple(runs), result

    @contextmanager
    def _recorded_layers(
        self, given: Mapping[str, Any], tokens: int, kept: KeptParts, *, repeats: bool
    ) -> Iterator[_RecordedLayers]:
        """Record what the stages around the attention are made of.

        Parameters
        ----------
        kept : KeptParts
            What is kept; without any of these stages nothing is recorded.
        repeats : bool
            Whether, where these are large, layers may be run again when one is read.
        """
        if kept.stages is not None and AROUND.isdisjoint(kept.stages):
            yield _RecordedLayers()
        elif self.ranks.count > 1 or self.on_disk:
            yield _RecordedLayers(
                notice=DISK_STAGES_NOTICE if self.on_disk else PARALLEL_STAGES_NOTICE
            )
        else:
            with self._recorded_here(given, tokens, kept, repeats=repeats) as seen:
                yield seen

    @contextmanager
    def _recorded_here(
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
        """Return the paths of layers that can be run again; None where they cannot.

        What they compute is found out with the first tokens of the first text that is large.
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
        if any(known.experts for known in known_here):  # which are others for each text
            return None
        return tuple(path for known in known_here for path in known.paths)

    def _with_layers(
        self, found: LayerRun, seen: _RecordedLayers, edits: Edits, recording: Recording
    ) -> LayerRun:
        """Add the stages around the attention of a run, as far as they are known."""
        if not seen.is_repeated:
            with self.lock:  # it runs modules, as of experts
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

    def _run_on(
        self, given: Mapping[str, Any], calls: list[AttentionCall], *, is_plain: bool
    ) -> Any:
        """Run the model; from the disk, where a plain run of this that did not end left off."""
        # Where layers read what others hold, those that are left out would be missed.
        if not (is_plain and self.on_disk) or _positive(self._config("num_kv_shared_layers")):
            return self.run(given)
        facts = self.folder.fingerprint, self.on_disk.versions, self.model.dtype
        kept = UnfinishedReading(key_of(given, *facts))
        try:
            with going_on(self.on_disk, kept, calls):
                result = self.run(given)
        except InputError:  # it would fail again in the same way
            kept.remove()
            raise
        kept.remove()
        return result

    def is_long(self, given: Mapping[str, Any]) -> bool:
        """Whether the weights of all layers are more than are held whole."""
        names = ("num_hidden_layers", "num_attention_heads")
        layers, heads = (_positive(self._config(name)) or 1 for name in names)
        count = given["input_ids"].shape[-1]
        needed = self.model.dtype.itemsize * layers * heads * count**2
        return not self.has_decoder and needed > (
            HELD_WHOLE if self.most_held is None else self.most_held
        )

    def _is_held_whole(self, given: Mapping[str, Any]) -> bool:
        """Whether the weights of a text are few, or fit into the free memory."""
        if not self.is_long(given):
            return True
        try:
            self.check_memory(given, _positive(self._config("num_hidden_layers")) or 1)
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
        """Read a long text as `_attend` does, but without any matrix of queries and keys."""
        given, tokens, _ = inputs
        try:
            if cuts:
                raise NotByRuleError(CUTS_UNAVAILABLE)
            calls, result = self._read_long(given, edits)
            if not calls:
                raise NotByRuleError(COMPUTES_ITSELF)
        except NotByRuleError as refused:
            return self._attend_whole(inputs, edits, cuts, kept, refused)
        where = attention_device.describe(self.device)
        runs = runs_of_long_text(kept.of_calls(calls), self.folder.name, tokens, where)
        said = [*filter(None, [self._begins_twice(given)]), ATTENTION_ALONE]
        if not (self._reads_in_chunks or self.why_no_next_token):
            said.append(ONE_PASS_FROM_DISK if self.on_disk else ONE_PASS)
        notices = (" ".join(said), *self.folder.notices)
        return tuple(reduce(LayerRun.with_notice, notices, each) for each in runs), result

    def _attend_whole(
        self,
        inputs: tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]],
        edits: Edits,
        cuts: Cuts,
        kept: KeptParts,
        refused: NotByRuleError,
    ) -> tuple[tuple[LayerRun, ...], Any]:
        """Read a text with all weights, where those fit that cannot be made again."""
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
        """Run the model on a long text; return what its attention read, and its result.

        Raises
        ------
        NotByRuleError
            When its attention cannot be computed again from what it read.
        """
        only = {} if self.why_no_next_token else self._last_only()
        with torch.inference_mode(), self.lock:
            self._layers = self._layers or self._heads_of_layers(given)
            by_module = self.edits_by_module(given, edits)
            layers, model, run = len(self._layers), self.model, self._run_by_rule
            if self._reads_in_chunks is None:
                self._reads_in_chunks = reads_alike_in_chunks(
                    model, run, {**given, **only}, self.ranks
                )
            if self._reads_in_chunks:
                # Keys and values are held while it is read, even where nothing is kept.
                room = self._room_for_vectors(given, keeps=True, at_once=CHUNK)
                try:
                    with room:
                        return read_in_chunks(
                            model, run, {**given, **only}, by_module, layers=layers, keeps=keeps,
                            ranks=self.ranks,
                        )  # fmt: skip
                except NotByRuleError:  # at once it may be read
                    self._reads_in_chunks = False
            recording = record_long_text(
                model, by_module, layers=layers, keeps=keeps, ranks=self.ranks
            )
            with self._room_for_vectors(given, keeps=keeps), recording as calls:
                return calls, run({**given, **only, **without_cache(model)})

    def _run_by_rule(self, given: Mapping[str, Any]) -> Any:
        """Run the model with rules for masks, as a text of which no matrix is held."""
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
        """Have the vectors of a text be held in memory or in a file; refuse one without room.

        Parameters
        ----------
        at_once : int
            The most tokens that the model reads together.
        """
        tokens = given["input_ids"].shape[-1]
        of_token = self._vector_bytes_of_token(given) if keeps else 0
        with self.ranks.agreed():
            file = file_for_vectors(of_token, tokens)
            self._check_room(tokens, 0 if file else of_token * tokens, at_once)
        with held_in(file):
            yield

    def _check_room(self, tokens: int, in_memory: int, at_once: int) -> None:
        """Refuse a text without room for so many bytes, and for what the layers make of it."""
        width = _positive(self._config("hidden_size")) or 1
        wide = _positive(self._config("intermediate_size")) or 4 * width
        needed = in_memory + 4 * min(tokens, at_once) * (8 * width + 3 * wide)
        free = USABLE * attention_device.free_bytes(Device.CPU)
        if needed > free:
            sentence = f"{tokens:,} tokens need {gib(needed)}, and {gib(free)} can be used."
            raise InputError("text", f"{sentence} Use less text.")

    def _vector_bytes_of_token(self, given: Mapping[str, Any]) -> int:
        """Return the bytes of the vectors that all layers keep of a token, as a few tokens tell."""
        if self._vector_bytes is None:
            few = {name: tensor[:, :PROBE_TOKENS] for name, tensor in given.items()}
            with record_long_text(self.model, ranks=self.ranks) as calls:
                self._run_by_rule({**few, **without_cache(self.model)})
            found = sum(call.vectors.bytes for call in calls)
            self._vector_bytes = found // few["input_ids"].shape[-1]
        return self._vector_bytes

    def _bytes_of_layers(self, tokens: int) -> int:
        """Return about how many bytes the stages around the attention of all layers take."""
        width = _positive(self._config("hidden_size")) or 1
        wide = _positive(self._config("intermediate_size")) or 4 * width
        layers = _positive(self._config("num_hidden_layers")) or 1
        experts = _positive(self._config("num_experts_per_tok"))  # what each of a token makes
        return 4 * layers * tokens * ((12 + experts) * width + 3 * wide)

    @property
    def why_no_next_token(self) -> str:
        """Why it says nothing of a next token, as a sentence; empty where it does."""
        if self.has_decoder or not self.model.can_generate():
            return f"{self.folder.name} does not continue a text, so it has no next token."
        return ""

    @property
    def are_heads_switchable(self) -> bool:
        """Whether the heads that were met can be switched off one by one."""
        return bool(self._layers) and _are_editable(self._layers or {})

    def next_token_log_probabilities(
        self,
        text: str,
        edits: Edits | None = None,
        cuts: Cuts | None = None,
        *,
        is_chat: bool = False,
    ) -> torch.Tensor:
        """Return the log-probability of each token of the vocabulary as the next one, [token].

        Parameters
        ----------
        edits : mapping, optional
            What becomes of the context vectors of heads, by the layer and the head: 0 switches a
            head off.
        cuts : mapping, optional
            The (query, key) of edges of attention that are cut, by the layer and the head: they are
            masked before the softmax. Those that the text does not have act on nothing.

        Raises
        ------
        InputError
            As `attend`; of ``model``, when it predicts no next token; of ``heads``, when there is
            no such head, or it cannot be switched off; of ``cuts``, when a query would be left
            without a key.
        """
        if self.why_no_next_token:
            raise InputError("model", self.why_no_next_token)
        given, *_ = self.inputs(text, None, is_chat=is_chat)
        self.check_memory(given, 1)
        with torch.inference_mode():
            by_module = self.edits_by_module(given, edits)
            cut_by_module = self._cuts_by_module(given, cuts or {})
            with self.recorded(by_module, cut_by_module, keeps=False):
                return _of_last(self.run({**given, **self._last_only()}))

    def log_probabilities_without_each(
        self,
        text: str,
        heads: Sequence[LayerAndHead],
        edits: Edits | None = None,
        cuts: Cuts | None = None,
    ) -> torch.Tensor:
        """Return the log-probabilities of the next token with each of some heads off by itself.

        The model reads the text as often, in one batch.

        Parameters
        ----------
        edits, cuts : mapping, optional
            What is changed beforehand, as in `next_token_log_probabilities`.

        Returns
        -------
        Tensor
            [head, token], float64.

        Raises
        ------
        InputError
            As `next_token_log_probabilities`.
        """
        if self.why_no_next_token:
            raise InputError("model", self.why_no_next_token)
        given, *_ = self.inputs(text, None)
        self.check_memory(given, len(heads))
        on = torch.ones(len(heads), device=self.model.device, dtype=self.model.dtype)
        each: dict[LayerAndHead, ContextEdit] = dict(edits or {})
        for at, head in enumerate(heads):
            before = each.get(head, 1.0)
            if isinstance(before, torch.Tensor):  # others stand in place of its own
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
                logits = self.run({**batch, **self._last_only()}).logits
        logs: torch.Tensor = float64_on_cpu(logits[:, -1]).log_softmax(-1)
        return logs

    def calls_by_layer(
        self, given: Mapping[str, Any], edits: Edits | None = None, cuts: Cuts | None = None
    ) -> dict[int, AttentionCall]:
        """Run the model once and return what the attention of each layer computed.

        Parameters
        ----------
        edits, cuts : mapping, optional
            As in `next_token_log_probabilities`.

        Raises
        ------
        InputError
            Of ``model``, when heads cannot be told apart: attention that the model computes itself,
            or layers that run several times.
        """
        return self._calls_by_layer(given, edits, cuts)[0]

    def _calls_by_layer(
        self, given: Mapping[str, Any], edits: Edits | None = None, cuts: Cuts | None = None
    ) -> tuple[dict[int, AttentionCall], Any]:
        """Return the calls of a run with its result."""
        if PIXELS not in given:
            self.check_memory(given, _positive(self._config("num_hidden_layers")) or 1)
        with torch.inference_mode():
            by_module = self.edits_by_module(given, edits)
            cut_by_module = self._cuts_by_module(given, cuts or {})
            with self.recorded(by_module, cut_by_module) as calls:
                result = self.run(given)
        self._layers = self._layers or _layers_of(calls)
        if not self.are_heads_switchable:
            sentence = f"Heads of {self.folder.name} cannot be read one by one."
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
        """Record attention of one run at a time, whichever thread it is on.

        Once it was met by its interface alone, softmax is not watched.
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
        """Return edits of heads by the path of their module instead of the layer's number.

        Raises
        ------
        InputError
            Of ``heads``, when there is no such head, or it cannot be edited.
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
        """Return cut edges likewise, those that are within the text, or within so many tokens."""
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
        layers = self._layers = self._layers or self._heads_of_layers(given)
        known = layers.get(layer)
        if known is None or not 0 <= head < known.heads:
            raise InputError("heads", f"There is no head {head} in a layer {layer}.")
        # Where a stack has more layers than another, the number of its last ones would do, and
        # nothing could be said of the model without the edit.
        if not _are_editable(layers):
            sentence = f"Heads of {self.folder.name} cannot be switched off one by one."
            raise InputError("heads", sentence)
        return known.module

    def _heads_of_layers(self, given: Mapping[str, Any]) -> dict[int, _LayerHeads]:
        """Return what a few tokens tell, as weights of a long text would fill memory."""
        few = {name: tensor[:, :PROBE_TOKENS] for name, tensor in given.items()}
        with self.recorded() as calls:
            self.run(given if PIXELS in given else few)
        return _layers_of(calls)

    def layers_and_heads(self, text: str) -> tuple[tuple[int, int], ...]:
        """Return the number of every head with that of its layer, as the model runs on a text."""
        given, *_ = self.inputs(text, None)
        with torch.inference_mode():
            layers = self._layers = self._layers or self._heads_of_layers(given)
        counts = ((layer, layers[layer].heads) for layer in sorted(layers))
        return tuple((layer, head) for layer, count in counts for head in range(count))

    def _last_only(self) -> dict[str, int]:
        """Return the argument that leaves out the logits of all tokens but the last."""
        name = "logits_to_keep"
        return {name: 1} if name in signature(self.model.forward).parameters else {}

    def likeliest(self, logs: torch.Tensor, most: int) -> list[tuple[str, float]]:
        """Return the likeliest tokens with their probabilities, of log-probabilities [token].

        Raises
        ------
        InputError
            Of ``most``, when it is not a number of tokens.
        """
        if not 1 <= most <= len(logs):
            raise InputError("most", f"most is from 1 to {len(logs):,}, and not {most:,}.")
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
        """Return the number of a token of the vocabulary by its text.

        Raises
        ------
        InputError
            Of ``token``, when the text is not one token.
        """
        found = self.tokenizer_for_text.encode(token, has_special=False)
        if found.count != 1:
            are = f"{found.count:,} tokens of {self.folder.name}"
            sentence = f"“{token[:60]}” is {are}, and not one."
            raise InputError("token", sentence)
        return found.numbers["input_ids"][0]

    def run(self, given: Mapping[str, Any]) -> Any:
        """Run the model; what it cannot do with a text or an image is said of that."""
        self.ranks.check_stopped()
        with self.ranks.agreed():
            return self._run(given)

    def _run(self, given: Mapping[str, Any]) -> Any:
        what = "image" if PIXELS in given else "text"
        try:
            return (self._part_for_images if PIXELS in given else self.model)(**given)
        except (InputError, CancelledError):
            raise
        except Exception as error:  # every architecture fails in its own way
            if is_out_of_memory(error):
                less = "Use less text." if what == "text" else "Close other programs."
                raise InputError(what, f"The memory ran out. {less}") from error
            sentence = f"{self.folder.name} cannot read this {what}: {_reason(error)}"
            raise InputError(what, sentence) from error
        finally:
            if self.on_disk:
                self.on_disk.drop()

    @contextmanager
    def weights_in_memory(self, path: str) -> Iterator[None]:
        """Have the weights of a module, by its path, be in memory within the context.

        Raises
        ------
        InputError
            Of ``model``, when they are on the disk and the files were changed.
        """
        if self.on_disk is None:
            yield
            return
        with self.lock, self.on_disk.in_memory(path):
            yield

    @property
    def has_decoder(self) -> bool:
        """Whether one text is read by an encoder, and another one by a decoder."""
        return bool(getattr(self.model.config, "is_encoder_decoder", False))

    def size(self, name: str) -> int:
        """Return a size that its config names; 0 where it has none."""
        return _positive(self._config(name))

    def _config(self, name: str) -> object:
        """Return a setting of the part that reads text; None where it has none."""
        try:
            return getattr(self.model.config.get_text_config(), name, None)
        except NotImplementedError:  # of a length, where there is no limit
            return None

    def check_memory(self, given: Mapping[str, Any], layers: int) -> None:
        """Refuse a text whose weights of so many layers would not fit into the free memory."""
        heads = _positive(self._config("num_attention_heads")) or 1
        with self.ranks.agreed():
            check_memory(layers, heads, given["input_ids"].shape[-1])

    def inputs(
        self, text: str, second: str | None = None, *, is_chat: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
        """Return what the model is given of a text, the tokens of its queries, and other keys'."""
        tokenizer = self.tokenizer_for_text
        if not text.strip():
            raise InputError("text", NOTHING)
        is_pair = bool(second) and not self.has_decoder
        given_text = self.as_given(text, is_chat=is_chat)
        # A template writes the special tokens itself.
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
        """Return a notice that a text begins with two BOS tokens; empty if it does not."""
        ids = given.get("input_ids")
        if ids is None or self.tokenizer is None or not self.tokenizer.bos_token:
            return ""
        names = [self.tokenizer.special_names.get(number) for number in ids[0, :2].tolist()]
        if names != [NAMES["bos_token"]] * 2:
            return ""
        return BEGINS_TWICE.format(token=self.tokenizer.bos_token)

    @property
    def tokenizer_for_text(self) -> ModelTokenizer:
        """Its tokenizer; `InputError`, of ``model``, says that it has none."""
        if self.tokenizer is None:
            sentence = f"{self.folder.name} has no tokenizer, so that it cannot read a text."
            if self._part_for_images is not None:
                sentence = f"{self.folder.name} reads images, and no texts: {IMAGE_COMMANDS}."
            raise InputError("model", sentence)
        return self.tokenizer

    def as_given(self, text: str, *, is_chat: bool = False) -> str:
        """Return a text as it is given to the tokenizer: as it is, or as a user's message."""
        if not is_chat or not text.strip():
            return text
        return self.tokenizer_for_text.as_users_message(text, self.folder.name)

    def special_tokens(
        self, text: str, second: str = "", *, is_chat: bool = False, of_decoder: bool = False
    ) -> SpecialTokens:
        """Return the names of the special tokens of a text, by their places.

        Parameters
        ----------
        of_decoder : bool
            Whether they are those that the decoder reads.
        """
        given, *_ = self.inputs(text, second or None, is_chat=is_chat)
        # A model that is a decoder alone, as OPT, may be called one, and reads what all do.
        own = "decoder_input_ids"
        ids = given[own if of_decoder and own in given else "input_ids"]
        names = self.tokenizer_for_text.special_names
        numbers = enumerate(ids[0].tolist())
        return tuple((at, names[number]) for at, number in numbers if number in names)

    @property
    def second_text(self) -> SecondText:
        """What a second text is to it."""
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
            raise InputError("second", "The decoder needs a text to begin with.")
        self.check_length(len(ids), "second")
        return ids

    def check_length(self, count: int, field: str = "text") -> None:
        """Refuse more tokens than the model reads, at the text or at the second one."""
        learned = _positive(self._config("max_position_embeddings"))
        longest = min(MAX_LISTED_TOKENS, learned or MAX_LISTED_TOKENS)
        if count > longest:
            is_pair = field == "second" and not self.has_decoder
            what = "The two texts have" if is_pair else "The text has"
            sentence = f"{what} {count:,} tokens, and {self.folder.name} reads {longest:,}."
            raise InputError(field, f"{sentence} Use less text.")


def _with_patches(found: LayerRun, image: GivenImage) -> LayerRun:
    """Add the image to a run whose tokens are its patches."""
    if image.patches is None or found.run.texts != (image.names,) or not found.run.has_same_keys:
        return found
    return replace(found, run=with_patches(found.run, image.patches))


def _of_last(result: Any) -> torch.Tensor:
    logs: torch.Tensor = float64_on_cpu(result.logits[0, -1]).log_softmax(-1)
    return logs


def _changes(runs: Sequence[LayerRun], plain: PlainReading) -> dict[int, np.ndarray]:
    """Return how far the weights of each head are from those without edits, by layer, [head]."""
    found = {}
    for each in runs:
        # Of a long text there are no calls: its weights are not held.
        for layer, call in zip(each.group.layers, each.group.calls, strict=False):
            before = plain.weights.get(layer)
            if before is not None and before.shape == call.weights[0].shape:
                now = float64_on_cpu(call.read_weights()[0])
                apart = (now - float64_on_cpu(before)).abs().sum(-1) / 2
                found[layer] = apart.mean(-1).cpu().numpy()
    return found


def _layers_of(calls: Sequence[AttentionCall]) -> dict[int, _LayerHeads]:
    numbered = numbered_by_layer(calls)
    names, layers = [call.module for call in calls], [layer for layer, _ in numbered]
    return {
        layer: _LayerHeads(
            call.module,
            call.weights.shape[1],
            # Of modules that run more than once, all would be edited; and where a layer attends
            # twice, as decoders do to another text, its number does not tell which is meant.
            call.method is RecordingMethod.INTERFACE
            and names.count(call.module) == 1
            and layers.count(layer) == 1,
        )
        for layer, call in numbered
    }


def _are_editable(layers: Mapping[int, _LayerHeads]) -> bool:
    return all(each.is_editable for each in layers.values())


def _positive(value: object) -> int:
    """Return a whole number above 0; 0 for anything else that a config may have."""
    return value if isinstance(value, int) and value > 0 else 0


def _labels(
    group: LayerGroup, tokens: tuple[str, ...], others: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tokens of a group's queries and, where they are others, of its keys."""
    queries, keys = group.calls[0].weights.shape[-2:]
    if not others:
        return _of_length(tokens, queries), () if keys == queries else _of_length(tokens, keys)
    is_encoder = "encoder" in group.name.split(".") and "decoder" not in group.name.split(".")
    if is_encoder:
        return _of_length(others, queries), ()
    return _of_length(tokens, queries), _of_length(others, keys) if group.is_cross else ()


def _of_length(tokens: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return labels for places: tokens, or numbers where there are not as many."""
    return tokens if len(tokens) == count else position_labels(count)


def _reason(error: Exception) -> str:
    """Return the first line of what a library says of an error."""
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
    """Open a model from its folder, without a network and without code of its own.

    Parameters
    ----------
    path : Path
        A folder of transformers, or a run's folder or a file of weights of the language lab.
    progress : Progress
        Called with the bytes of weights read and their total.
    parallelism : Parallelism
        How it is spread over the processes of a server, all of which open it.
    is_from_disk : bool
        Whether the weights of its layers stay on the disk, and are read one layer at a time
        whenever they are needed.

    Raises
    ------
    InputError
        Of ``model``, when the folder cannot be opened, or the model does not fit into the memory,
        cannot be spread, or cannot be read from the disk.
    """
    if is_lab_model(path):
        if is_from_disk:
            raise refused(path.name, LAB_MODEL_REASON)
        return _opened_of_lab(path, device, dtype)
    folder = read_model_folder(path)
    numbers = folder.numbers
    if is_from_disk:
        numbers = _check_from_disk(folder, device, dtype, parallelism)
        device = Device.CPU
    where, _ = attention_device.resolve(device, dtype)
    ranks = _ranks(folder, parallelism, where)
    needed = bytes_in_memory(numbers, dtype)
    with ranks.agreed():  # before any of them fills it
        _check_room(folder, needed, where, dtype, ranks, is_from_disk=is_from_disk)
    read = LoadedWeights(progress, numbers, folder.bytes * numbers // max(1, folder.numbers))
    if folder.has_tokenizer:
        tokenizer_process.start()  # its imports take as long as those here
    transformers = _transformers()
    if folder.kind not in transformers.CONFIG_MAPPING:
        named = folder.kind or "no architecture"
        sentence = f"The config.json names “{named[:60]}”, which this transformers does not know."
        raise InputError("model", sentence)
    read.check()
    being_read = TokenizerBeingRead(folder) if folder.has_tokenizer else None
    stack, placed, types = "", dict[str, Any](), getattr(torch, dtype)
    with _quiet():
        with ranks.agreed(), _errors_explained(folder):
            config = _config_of(folder)
            kind = _class_of(transformers, folder, config)
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
        model = _loaded(kind, folder, where, read, settings).eval()
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
    """Reject a model of more bytes than may be used."""
    # Of GPUs each process has its own; the memory of the machine is that of all.
    needed //= ranks.count if device is Device.CUDA else 1
    free = USABLE * attention_device.free_bytes(device)
    if needed > free:
        sentence = f"{folder.name} needs {gib(needed)} as {dtype}, and {gib(free)} can be used."
        is_spread = ranks.parallelism is not Parallelism.NONE
        if not (is_from_disk or is_spread or why_not_from_disk(folder)):
            sentence = f"{sentence} {INSTEAD}"
        raise InputError("model", sentence)


def _check_from_disk(
    folder: ModelFolder, device: Device, dtype: Dtype, parallelism: Parallelism
) -> int:
    """Refuse what is not read from the disk; return how many numbers would be in memory at once."""
    if parallelism is not Parallelism.NONE:
        raise refused(folder.name, SPREAD)
    if device not in {Device.AUTO, Device.CPU}:
        raise refused(folder.name, ON_CPU_ALONE)
    if why := why_not_from_disk(folder):
        raise refused(folder.name, why)
    require_package("accelerate", "Reading a model from the disk")
    sizes = folder.layer_sizes
    return memory_from_disk(folder.numbers, sizes, dtype) // bytes_in_memory(1, dtype)


def _config_of(folder: ModelFolder) -> Any:
    """Return the configuration of a model, of transformers."""
    return _transformers().AutoConfig.from_pretrained(
        str(folder.path), local_files_only=True, trust_remote_code=False
    )


def _ranks(folder: ModelFolder, parallelism: Parallelism, device: Device) -> ModelRanks:
    """Return the processes that a model is to be spread over."""
    if parallelism is Parallelism.NONE:
        return ONE
    require_package("accelerate", "Spreading a model over processes")
    with _errors_explained(folder):
        config = _config_of(folder).get_text_config()
    heads = _positive(getattr(config, "num_attention_heads", 0)) or 1
    key_heads = _positive(getattr(config, "num_key_value_heads", 0)) or heads
    ranks = SeveralRanks(parallelism, heads, device)
    plan = getattr(config, "base_model_tp_plan", None) or {}
    is_by_heads = parallelism is Parallelism.TENSOR and any("q_proj" in name for name in plan)
    if is_by_heads and key_heads % ranks.count:
        sentence = f"{folder.name} has {key_heads} key heads in a layer, which do not divide evenly"
        raise InputError("model", f"{sentence} among {ranks.count} processes.")
    layers = _positive(getattr(config, "num_hidden_layers", 0)) or 1
    if parallelism is Parallelism.PIPELINE and layers < ranks.count:
        sentence = (
            f"{folder.name} has {layers} layers, which are too few for {ranks.count} processes."
        )
        raise InputError("model", f"{sentence} Start {layers} at most.")
    return ranks


def _opened_of_lab(path: Path, device: Device, dtype: Dtype) -> OpenedModel:
    _transformers()
    from visualizer.models.opened_lab_model import read_lab_model  # which loads transformers

    where, _ = attention_device.resolve(device, dtype)
    with _quiet():
        folder, model, tokenizer = read_lab_model(path)
    return OpenedModel(folder, model.to(where, getattr(torch, dtype)).eval(), tokenizer, where)


def _transformers() -> Any:
    require_package("transformers", "Opening models")
    return importlib.import_module("transformers")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the progress bars and remarks of transformers and accelerate off the console."""
    told: Any = importlib.import_module("transformers.utils.logging")
    placing = logging.getLogger("accelerate")

    level, bars, level_of_placing = (
        told.get_verbosity(),
        told.is_progress_bar_enabled(),
        placing.level,
    )
    told.set_verbosity(logging.CRITICAL)
    placing.setLevel(logging.CRITICAL)
    told.disable_progress_bar()
    try:
        yield
    finally:
        told.set_verbosity(level)
        placing.setLevel(level_of_placing)
        if bars:
            told.enable_progress_bar()


def _class_of(transformers: Any, folder: ModelFolder, config: Any) -> Any:
    """Return the model's class: one that its config names, if it is of that architecture."""
    for name in folder.architectures:
        found: Any = getattr(transformers, name, None)
        is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
        if is_model and found.config_class is type(config):
            return found
    if type(config) not in transformers.MODEL_MAPPING:
        sentence = f"{folder.name} is of the kind “{folder.kind}”, of which no model can be made."
        raise InputError("model", sentence)
    kinds = transformers.MODEL_MAPPING[type(config)]
    return kinds[0] if isinstance(kinds, tuple | list) else kinds


@contextmanager
def _errors_explained(folder: ModelFolder) -> Iterator[None]:
    """Raise errors of transformers as an `InputError` of ``model``."""
    try:
        yield
    except (CancelledError, InputError):
        raise
    except Exception as error:  # the library raises errors of every kind on damaged folders
        if is_out_of_memory(error):
            raise InputError("model", f"The memory ran out opening {folder.name}.") from error
        if "needed to be re-saved" in str(error):
            raise refused(folder.name, LAYOUT_MISMATCH) from error
        sentence = f"{folder.name} cannot be opened: {_reason(error)}"
        raise InputError("model", sentence) from error


def _loaded(
    kind: Any, folder: ModelFolder, device: Device, read: LoadedWeights, settings: Mapping[str, Any]
) -> Any:
    with _errors_explained(folder):
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
        count = f"{len(missing):,} of its weights are missing"
        raise InputError("model", f"{folder.name}: {count}, such as {missing[0][:80]}.")
    return model


def _image_processor_of(folder: ModelFolder) -> Any:
    check_image_config(folder.path)
    transformers = _transformers()
    try:
        with _quiet():
            return transformers.AutoImageProcessor.from_pretrained(
                str(folder.path), local_files_only=True, trust_remote_code=False
            )
    except ImportError as error:
        sentence = f"Images for {folder.name} are prepared by torchvision, which is not used here."
        raise InputError("model", sentence) from error
    except Exception as error:  # as above
        sentence = f"The {IMAGE_CONFIG} of {folder.name} cannot be used: {_reason(error)}"
        raise InputError("model", sentence) from error
