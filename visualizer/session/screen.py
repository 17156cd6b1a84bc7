"""The screen: the window content as a function of the document, the view and the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from visualizer.errors import InputError
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.view import View


Panel = TypeVar("Panel")


class PanelId(Struct, Generic[Panel], frozen=True):
    """The id of a panel; the class of the panel is its type parameter."""

    name: str

    def look_up_in(self, panels: Mapping[str, object]) -> Panel:
        """Look up the panel by id."""
        return cast("Panel", panels[self.name])


class LazyPanels(dict[str, object]):
    """Panels by id, built on first access so that those painted first are built first."""

    def __init__(self) -> None:
        super().__init__()
        self.panel_builders: dict[str, Callable[[], object]] = {}
        """Factories for the panels that have not been built yet, by id."""
        self.before: dict[str, object] = {}
        """Previous versions of the panels that have not been built yet, by id."""

    def __missing__(self, name: str) -> object:
        # The builder is removed first, because building a panel may access all panels that are
        # shown.
        maker = self.panel_builders.pop(name)
        try:
            panel = self[name] = maker()
        except BaseException:
            self.panel_builders[name] = maker  # the next access raises the same exception
            raise
        self.before.pop(name, None)
        return panel

    def latest_panels(self) -> dict[str, object]:
        """Return each panel, or its previous version if it has not been built yet."""
        return {**self.before, **self}

    def drop_unbuilt(self) -> None:
        """Drop the panels that have not been built yet, and release their inputs."""
        self.panel_builders.clear()
        self.before.clear()

    def build_all(self) -> None:
        """Build the remaining panels; until then, their inputs are kept alive."""
        while self.panel_builders:  # building one panel may build others
            self.__missing__(next(iter(self.panel_builders)))


class Screen(Struct, frozen=True, eq=False):
    """The complete content of the window.

    Parameters
    ----------
    view : View
        The view that is shown.
    resolved : ResolvedView or None
        The resolved view; None before the first run.
    panels : LazyPanels
        Panels by id.
    wanted : View
        The view that was requested last; the controls show it. It differs from `view` while its
        data is being read.
    """

    document: Document
    view: View
    resolved: ResolvedView | None
    panels: LazyPanels
    wanted: View

    def panel(self, wanted: PanelId[Panel]) -> Panel:
        return wanted.look_up_in(self.panels)


class TokenProgress(Struct, frozen=True):
    """Number of tokens of a text that a model has processed."""

    tokens: int
    of: int

    @property
    def share(self) -> float:
        """The completed share, from 0 to 1."""
        return self.tokens / max(1, self.of)


class ScreenInputs(Struct, frozen=True, eq=False):
    """The inputs of the panels of one screen.

    Parameters
    ----------
    resolved : ResolvedView or None
        The resolved view; None before the first run.
    wanted : View
        The view that was requested last.
    refused : InputError or None
        The error in the last input, or None if the input is valid.
    is_working : bool
        Whether a computation is in progress.
    progress : TokenProgress or None
        Progress of a model that processes a long text.
    panels : LazyPanels
        The panels of the screen, by id.
    """

    document: Document
    view: View
    resolved: ResolvedView | None
    wanted: View
    refused: InputError | None = None
    is_working: bool = False
    progress: TokenProgress | None = None
    panels: LazyPanels = field(default_factory=LazyPanels)

    def panel(self, wanted: PanelId[Panel]) -> Panel:
        return wanted.look_up_in(self.panels)


class Presenter(Protocol):
    """Builds screens and prefetches their data."""

    def present(self, inputs: ScreenInputs, previous: Mapping[str, object]) -> Screen:
        """Build a screen, reusing the objects of unchanged panels.

        Parameters
        ----------
        previous : mapping
            The panels that were shown before or prefetched.
        """

    def present_refined_images(self, inputs: ScreenInputs, shown: LazyPanels) -> Screen:
        """Build a screen after a change that affects only the images of a long text.

        Parameters
        ----------
        shown : LazyPanels
            The panels of the previous screen.
        """

    def prefetch_key(self, resolved: ResolvedView) -> Hashable:
        """Return a key for the data to prefetch; views with equal keys share a prefetch."""

    def prefetch(
        self, resolved: ResolvedView, previous: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Prefetch everything that `present` needs; called on the worker thread.

        Returns
        -------
        mapping
            Panels built during the prefetch, by id.
        """

    def has_preview(self, resolved: ResolvedView) -> bool:
        """Return whether all images were drawn once and the cell under the pointer was read."""

    def are_images_exact(self, resolved: ResolvedView) -> bool:
        """Return whether all visible images are exact; images of long texts are refined later."""

    def draw_first_images(self, resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
        """Draw all visible images once, on the worker thread, until `is_over` returns true."""

    def refine_images(self, resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
        """Refine the visible images on the worker thread until `is_over` returns true."""
