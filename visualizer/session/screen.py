"""All that is shown, as one value: a function of the document, the view and the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from visualizer.attention.run import Run
    from visualizer.errors import InputError
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import Resolved
    from visualizer.session.view import View


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """All that can be exported of one moment: a run, what it is of, and how it is looked at.

    Parameters
    ----------
    document : Document
        The one that the run was computed of.
    """

    document: Document
    view: View
    run: Run


Panel = TypeVar("Panel")


@dataclass(frozen=True, slots=True)
class PanelId(Generic[Panel]):
    """The id of a panel, which knows the panel's type."""

    name: str

    def of(self, panels: Mapping[str, object]) -> Panel:
        """Give the panel from among all panels, by their ids."""
        return cast("Panel", panels[self.name])


@dataclass(frozen=True, slots=True, eq=False)
class Screen:
    """The window's whole content.

    Parameters
    ----------
    resolved : Resolved or None
        What there really is to be shown; None while there are no numbers.
    panels : mapping
        By their ids.
    """

    document: Document
    view: View
    resolved: Resolved | None
    panels: Mapping[str, object]

    def panel(self, wanted: PanelId[Panel]) -> Panel:
        """Give a panel."""
        return wanted.of(self.panels)


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """What the panels of a screen are made of.

    Parameters
    ----------
    resolved : Resolved or None
        None while there are no numbers.
    refused : InputError or None
        What is wrong with the document.
    is_working : bool
        Whether numbers are on their way.
    panels : dict
        Those that have been made already, by their ids.
    """

    document: Document
    view: View
    resolved: Resolved | None
    refused: InputError | None = None
    is_working: bool = False
    panels: dict[str, object] = field(default_factory=dict)

    def panel(self, wanted: PanelId[Panel]) -> Panel:
        """Give a panel that has been made already."""
        return wanted.of(self.panels)


class Presenter(Protocol):
    """Makes screens, and says what has to be read for them."""

    def present(self, moment: Moment, previous: Mapping[str, object]) -> Screen:
        """Make a screen; panels that did not change are the very same objects.

        Parameters
        ----------
        previous : mapping
            The panels that were shown before, or that were prepared.
        """

    def prefetch_key(self, resolved: Resolved) -> Hashable:
        """Name all that has to be read; two views that need the same are read together."""

    def prefetch(self, resolved: Resolved, previous: Mapping[str, object]) -> Mapping[str, object]:
        """Read all that is needed, so that `present` finds it read: for the worker.

        Returns
        -------
        mapping
            Panels that were made on the way, by their ids.
        """
