"""The screen: everything shown, as a function of the document, the view and the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from visualizer.errors import InputError
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import Resolved
    from visualizer.session.view import View


Panel = TypeVar("Panel")


class PanelId(Struct, Generic[Panel], frozen=True):
    """A panel's id, typed by the panel."""

    name: str

    def of(self, panels: Mapping[str, object]) -> Panel:
        """Look up the panel among all panels, by id."""
        return cast("Panel", panels[self.name])


class LatePanels(dict[str, object]):
    """Panels by id, each made when it is first asked for: what is painted first is made first."""

    def __init__(self) -> None:
        super().__init__()
        self.makers: dict[str, Callable[[], object]] = {}
        """What makes the other panels, by id."""
        self.before: dict[str, object] = {}
        """The panels that were shown before those that are not made yet, by id."""

    def __missing__(self, name: str) -> object:
        maker = self.makers.pop(name)  # to make it may ask for what is shown
        try:
            panel = self[name] = maker()
        except BaseException:
            self.makers[name] = maker  # asked for again, it says the same
            raise
        self.before.pop(name, None)
        return panel

    def newest(self) -> dict[str, object]:
        """Return each panel, or the one before it where it is not made."""
        return {**self.before, **self}

    def forget(self) -> None:
        """Leave out what is not made, and let go of all that it would be made from."""
        self.makers.clear()
        self.before.clear()

    def make_all(self) -> None:
        """Make what is left; until then, all that it is made from is kept alive."""
        while self.makers:  # to make one may make others
            self.__missing__(next(iter(self.makers)))


class Screen(Struct, frozen=True, eq=False):
    """The window's whole content.

    Parameters
    ----------
    view : View
        The view that is shown.
    resolved : Resolved or None
        The resolved view; None while there are no numbers.
    panels : LatePanels
        By id.
    wanted : View
        The view that was requested last, which controls show. It differs from `view` while numbers
        for it are read.
    """

    document: Document
    view: View
    resolved: Resolved | None
    panels: LatePanels
    wanted: View

    def panel(self, wanted: PanelId[Panel]) -> Panel:
        return wanted.of(self.panels)


class ReadingProgress(Struct, frozen=True):
    """How many tokens of a text a model has read."""

    tokens: int
    of: int

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return self.tokens / max(1, self.of)


class Moment(Struct, frozen=True, eq=False):
    """The inputs of the panels of one screen.

    Parameters
    ----------
    resolved : Resolved or None
        None while there are no numbers.
    wanted : View
        The view that was requested last.
    refused : InputError or None
        The problem with the document.
    is_working : bool
        Whether a computation is in progress.
    progress : ReadingProgress or None
        How far it is, where it is a model that reads a long text.
    panels : LatePanels
        The panels of the screen, by id.
    """

    document: Document
    view: View
    resolved: Resolved | None
    wanted: View
    refused: InputError | None = None
    is_working: bool = False
    progress: ReadingProgress | None = None
    panels: LatePanels = field(default_factory=LatePanels)

    def panel(self, wanted: PanelId[Panel]) -> Panel:
        return wanted.of(self.panels)


class Presenter(Protocol):
    """Makes screens and prefetches their data."""

    def present(self, moment: Moment, previous: Mapping[str, object]) -> Screen:
        """Make a screen, reusing the objects of unchanged panels.

        Parameters
        ----------
        previous : mapping
            The panels shown before, or prefetched.
        """

    def present_drawn(self, moment: Moment, shown: LatePanels) -> Screen:
        """Make a screen of which only pictures of a long text have changed.

        Parameters
        ----------
        shown : LatePanels
            The panels of the screen before.
        """

    def prefetch_key(self, resolved: Resolved) -> Hashable:
        """Return a key of everything to be prefetched; equal keys need one prefetch."""

    def prefetch(self, resolved: Resolved, previous: Mapping[str, object]) -> Mapping[str, object]:
        """Prefetch, on the worker, everything that `present` needs.

        Returns
        -------
        mapping
            Panels made along the way, by id.
        """

    def is_begun(self, resolved: Resolved) -> bool:
        """Whether there is a first picture of all that is seen, and what is pointed at is read."""

    def is_drawn(self, resolved: Resolved) -> bool:
        """Whether all pictures that are seen are exact; those of long texts are so later."""

    def begin(self, resolved: Resolved, is_over: Callable[[], bool]) -> None:
        """Make a first picture of all that is seen, on the worker, until it is over."""

    def draw_more(self, resolved: Resolved, is_over: Callable[[], bool]) -> None:
        """Make the pictures that are seen more exact, on the worker, until it is over."""
