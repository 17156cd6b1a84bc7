"""Selection of the layers and stages of a text that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError
from visualizer.models.recorded_runs import number_calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.models.recorded_runs import CallT, LayerRun


class PartsToKeep(Struct, frozen=True):
    """The layers and stages that are kept when a model reads a text.

    Parameters
    ----------
    layers : frozenset of int or None
        Their numbers in the model; None for all.
    stages : frozenset of str or None
        Their names; None for all. Weights are always kept.
    """

    layers: frozenset[int] | None = None
    stages: frozenset[str] | None = None

    def select_calls(self, calls: Sequence[CallT]) -> list[CallT]:
        """Return the recorded calls of the layers.

        Raises
        ------
        InputError
            With field ``layers`` if one of them does not compute attention.
        """
        if self.layers is None:
            return [*calls]
        numbered = number_calls(calls)
        known = sorted({number for number, _ in numbered})
        if missing := sorted(self.layers.difference(known)):
            layers = _format_numbers(known)
            sentence = f"Layer {missing[0]} has no attention. Layers with attention: {layers}."
            raise InputError("layers", sentence)
        selected = [(number, call) for number, call in numbered if number in self.layers]
        calls_found = [call for _, call in selected]
        if [number for number, _ in number_calls(calls_found)] != [at for at, _ in selected]:
            sentence = "The layers of this model cannot be selected by number. Keep all layers."
            raise InputError("layers", sentence)
        return calls_found

    def select_runs(self, runs: tuple[LayerRun, ...]) -> tuple[LayerRun, ...]:
        """Return runs with only the selected stages.

        Raises
        ------
        InputError
            With field ``stages`` if no layer has one of them.
        """
        if self.stages is None:
            return runs
        known = dict.fromkeys(name for each in runs for name in each.run.trace.names)
        if unknown := sorted(self.stages.difference(known)):
            sentence = f"Stage “{unknown[0]}” is not available. Available: {', '.join(known)}."
            raise InputError("stages", sentence)
        return tuple(each.select_stages(self.stages) for each in runs)


KEEP_ALL_PARTS = PartsToKeep()


def _format_numbers(numbers: Sequence[int]) -> str:
    is_range = [*numbers] == [*range(numbers[0], numbers[-1] + 1)]
    if is_range and len(numbers) > 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
