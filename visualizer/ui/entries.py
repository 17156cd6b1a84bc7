"""Everything the program can do, as a table; menus and shortcuts come from it."""

from __future__ import annotations

from dataclasses import dataclass

from visualizer.ui.panes import PANES


@dataclass(frozen=True, slots=True)
class Entry:
    """One action.

    Parameters
    ----------
    name : str
        The method that does it: of the window, or of one of its parts (``player.toggle``).
    arguments : tuple
        What the method is called with.
    group : str
        Actions of which one is chosen share a group.
    divides : bool
        Whether a line stands before it in the menu.
    ticks : bool
        Whether it is something that is on or off.
    near : bool
        Whether its keys work only at the heatmaps and the track, as others type with them.
    """

    menu: str
    words: str
    name: str
    keys: tuple[str, ...] = ()
    arguments: tuple[object, ...] = ()
    group: str = ""
    icon: str = ""
    divides: bool = False
    ticks: bool = False
    near: bool = False

    @property
    def key(self) -> str:
        """The action's own name: its method and arguments."""
        return " ".join((self.name, *map(str, self.arguments)))

    @property
    def said(self) -> str:
        """What it does, in words that are enough where its menu is not seen."""
        within = self.menu.partition(">")[2]
        return (f"{within}: {self.words}" if within else self.words).replace("&", "")


# fmt: off
ENTRIES: tuple[Entry, ...] = (
    Entry("&File", "&New window", "filer.new_window", ("Ctrl+N",)),
    Entry("&File", "&Open…", "filer.choose_to_open", ("Ctrl+O",), icon="open"),
    Entry("&File>Open &recent", "&Forget these", "recents.forget", ("Ctrl+Alt+O",)),
    Entry("&File", "&Save", "filer.save", ("Ctrl+S",), icon="save", divides=True),
    Entry("&File", "Save &as…", "filer.save_as", ("Ctrl+Shift+S",)),
    Entry("&File", "Save the n&umbers too", "filer.toggle_numbers", ("Ctrl+Alt+N",), ticks=True),
    Entry("&File", "&Export…", "publisher.export", ("Ctrl+E",), icon="export"),
    Entry("&File", "&Close the window", "close", ("Ctrl+W",), divides=True),
    Entry("&File", "&Quit", "filer.quit", ("Ctrl+Q",)),
    Entry("&Edit", "&Undo", "workspace.undo", ("Ctrl+Z",), icon="undo"),
    Entry("&Edit", "&Redo", "workspace.redo", ("Ctrl+Shift+Z", "Ctrl+Y"), icon="redo"),
    Entry("&Edit", "&Copy cell", "inspector.copy", ("Ctrl+Shift+C",), icon="copy", divides=True),
    Entry("&Edit", "Copy as p&icture", "publisher.copy_picture", ("Ctrl+Shift+I",)),
    Entry("&Edit", "Copy as scri&pt", "publisher.copy_script", ("Ctrl+Alt+C",)),
    Entry("&Edit", "&Let go of the pinned cell", "pointer.let_go", ("Ctrl+Shift+P",), icon="pin"),
    Entry("&Edit", "Edit the &sentence", "edit_sentence", ("Ctrl+L",), divides=True),
    Entry("&Edit", "&Find a token", "find_token", ("Ctrl+F",)),
    Entry("&Edit", "&Other role of the tokens: what they read, or who reads them",
          "chooser.turn", ("Ctrl+Shift+T",)),
    Entry("&Edit", "Let go of the chosen &tokens", "chooser.let_go", ("Ctrl+Shift+D",)),
    Entry("&Module", "Causal &mask", "toggle_mask", ("Ctrl+M",), ticks=True),
    Entry("&Module", "&Paint the mask", "painter.toggle", ("Ctrl+Shift+K",), ticks=True),
    Entry("&Module", "Allow or forbid the pinned &cell", "painter.paint_pinned", ("X",), near=True),
    Entry("&Module", "Dropout as in &training", "toggle_mode", ("Ctrl+T",), ticks=True),
    Entry("&Module", "&Resample dropout", "workspace.resample", ("Ctrl+R",), ("dropout_seed",),
          icon="resample"),
    Entry("&Module", "Resample &weights", "workspace.resample", ("Ctrl+Shift+R",), ("seed",)),
    Entry("&Module", "&Keep these weights", "workspace.keep_weights", ("Ctrl+K",), ticks=True),
    Entry("&Module", "Every &setting", "open_settings", ("Ctrl+,",), icon="settings", divides=True),
    Entry("&Play", "&Play or pause", "player.toggle", ("Space",), icon="play", near=True),
    Entry("&Play", "Step &forward", "player.step", ("PgDown",), (1,), icon="step-on"),
    Entry("&Play", "Step &back", "player.step", ("PgUp",), (-1,), icon="step-back"),
    Entry("&Play", "To the &start", "player.to_start", ("Home",), icon="to-start", near=True),
    Entry("&Play", "To the &end: all computed", "player.to_end", ("End",), icon="to-end",
          near=True),
    Entry("&Play", "&Next stage", "player.skip", ("Ctrl+Right",), (1,), near=True),
    Entry("&Play", "Pre&vious stage", "player.skip", ("Ctrl+Left",), (-1,), near=True),
    Entry("&Play", "By s&tage", "player.set_grain", ("Alt+1",), ("stage",), "grain", divides=True),
    Entry("&Play", "By &row", "player.set_grain", ("Alt+2",), ("row",), "grain"),
    Entry("&Play", "By &cell", "player.set_grain", ("Alt+3",), ("cell",), "grain"),
    Entry("&Play", "F&aster", "player.change_speed", ("Ctrl+.",), (1,), divides=True),
    Entry("&Play", "Slo&wer", "player.change_speed", ("Ctrl+;",), (-1,)),
    Entry("&Play", "&Loop", "player.toggle_loop", ("Ctrl+Shift+L",), icon="loop", ticks=True),
    Entry("&Play", "Predict this sta&ge", "player.predict", ("Ctrl+P",), icon="predict",
          divides=True, ticks=True),
    Entry("&Play", "&Mark the pinned cell", "pointer.mark", ("Return", "Enter"), near=True),
    Entry("&Play", "Reveal what is &hidden", "player.reveal", ("Ctrl+Return",)),
    Entry("&Compare", "Keep this as &A", "comparer.keep_as_a", ("Ctrl+D",)),
    Entry("&Compare", "&Swap A and B", "comparer.swap", ("Ctrl+B",)),
    Entry("&Compare", "&Head against head", "comparer.compare_heads", ("Ctrl+H",), divides=True),
    Entry("&Compare", "&Dropout: samples and their mean", "comparer.compare_samples", ("Ctrl+U",)),
    Entry("&Compare", "Twice as &many samples", "comparer.scale_samples", ("Ctrl+>",), (1,)),
    Entry("&Compare", "Half as man&y samples", "comparer.scale_samples", ("Ctrl+<",), (-1,)),
    Entry("&Compare", "&One sample more", "comparer.add_sample", ("Ctrl+Shift+U",)),
    Entry("&Compare", "&Go to the largest difference", "comparer.go_to_largest", ("Ctrl+G",),
          divides=True),
    Entry("&Compare", "Stop &comparing", "comparer.stop", ("Ctrl+Shift+G",)),
    Entry("&View", "Next text or layer", "step_text", ("Ctrl+PgDown",), (1,)),
    Entry("&View", "&Previous text or layer", "step_text", ("Ctrl+PgUp",), (-1,)),
    Entry("&View", "Te&xts or layers side by side", "gaze.toggle_spread", ("Ctrl+Alt+T",),
          ticks=True),
    Entry("&View", "Back to the cell be&fore", "pointer.go", ("Ctrl+[",), (-1,), icon="back",
          divides=True),
    Entry("&View", "O&n to the cell after", "pointer.go", ("Ctrl+]",), (1,),
          icon="chevron-right"),
    Entry("&View", "Look &closer", "gaze.closer", ("Ctrl++", "Ctrl+="), divides=True),
    Entry("&View", "Look from f&urther away", "gaze.further", ("Ctrl+-",)),
    Entry("&View", "Look at &all of every panel", "gaze.whole", ("Ctrl+0",)),
    Entry("&View>&Move what is seen", "&Up", "gaze.pan", ("Alt+Shift+Up",), (-1, 0)),
    Entry("&View>&Move what is seen", "&Down", "gaze.pan", ("Alt+Shift+Down",), (1, 0)),
    Entry("&View>&Move what is seen", "&Left", "gaze.pan", ("Alt+Shift+Left",), (0, -1)),
    Entry("&View>&Move what is seen", "&Right", "gaze.pan", ("Alt+Shift+Right",), (0, 1)),
    Entry("&View>Layou&t", "&Stages × heads", "gaze.all_panels", ("Ctrl+Shift+A",)),
    Entry("&View>Layou&t", "&One stage, all heads", "gaze.one_stage", ("Ctrl+Shift+O",)),
    Entry("&View>Layou&t", "One &head, large", "gaze.one_head", ("Ctrl+Shift+H",)),
    Entry("&View>Layou&t", "&Next head alone", "gaze.next_head", ("Ctrl+Shift+N",), (1,)),
    Entry("&View>Layou&t", "&Previous head alone", "gaze.next_head", ("Ctrl+Shift+B",), (-1,)),
    Entry("&View>Layou&t", "&Mean of heads", "gaze.toggle_fold", ("Ctrl+Shift+M",), ("mean",),
          divides=True, ticks=True),
    Entry("&View>Layou&t", "&Largest of heads", "gaze.toggle_fold", ("Ctrl+Shift+X",), ("max",),
          ticks=True),
    Entry("&View>Wei&ghts as", "They &are", "gaze.set_lens", ("Ctrl+Shift+W",), ("plain",),
          "lens"),
    Entry("&View>Wei&ghts as", "Without the &first token", "gaze.set_lens", ("Ctrl+Shift+F",),
          ("without-first",), "lens"),
    Entry("&View>Wei&ghts as", "Times the length of the &value", "gaze.set_lens",
          ("Ctrl+Shift+V",), ("times-value",), "lens"),
    Entry("&View>Co&lours", "By si&ze", "gaze.set_curve", ("Ctrl+1",), ("linear",), "curve"),
    Entry("&View>Co&lours", "By &power (log)", "gaze.set_curve", ("Ctrl+2",), ("log",), "curve"),
    Entry("&View>Co&lours", "By &rank", "gaze.set_curve", ("Ctrl+3",), ("rank",), "curve"),
    Entry("&View>Co&lours", "Ends: &automatic", "gaze.set_limits", ("Ctrl+7",), ("automatic",),
          "limits", divides=True),
    Entry("&View>Co&lours", "Ends: each ro&w’s", "gaze.set_limits", ("Ctrl+8",), ("row",),
          "limits"),
    Entry("&View>Co&lours", "Ends: each pa&nel’s", "gaze.set_limits", ("Ctrl+9",), ("panel",),
          "limits"),
    Entry("&View>Co&lours", "Ends: shared b&y all heads", "gaze.set_limits", ("Ctrl+Alt+9",),
          ("shared",), "limits"),
    Entry("&View>Co&lours", "Ends: &typed", "gaze.set_limits", ("Ctrl+Alt+8",), ("typed",),
          "limits"),
    Entry("&View", "Code in the b&ook’s words", "set_dialect", ("Ctrl+4",), ("book",), "dialect",
          divides=True),
    Entry("&View", "Code in the lecture’s &words", "set_dialect", ("Ctrl+5",), ("lecture",),
          "dialect"),
    Entry("&View", "Code in one call of P&yTorch", "set_dialect", ("Ctrl+6",), ("sdpa",),
          "dialect"),
    Entry("&View", "Split or &join the heads’ columns", "shapes.drawing.turn", ("Ctrl+J",),
          divides=True),
    Entry("&View>Co&lours", "&viridis", "gaze.set_map", ("Ctrl+Alt+1",), ("viridis",), "map",
          divides=True),
    Entry("&View>Co&lours", "&cividis", "gaze.set_map", ("Ctrl+Alt+2",), ("cividis",), "map"),
    Entry("&View>Co&lours", "&magma", "gaze.set_map", ("Ctrl+Alt+3",), ("magma",), "map"),
    Entry("&View>Co&lours", "&blue (CET-CBL1)", "gaze.set_map", ("Ctrl+Alt+4",), ("CET-CBL1",),
          "map"),
    Entry("&View>Co&lours", "gr&ey (CET-L1)", "gaze.set_map", ("Ctrl+Alt+5",), ("CET-L1",),
          "map"),
    Entry("&View>Co&lours", "&Signed numbers as the theme", "gaze.set_diverging", ("Ctrl+Alt+6",),
          ("automatic",), "signed", divides=True),
    Entry("&View>Co&lours", "Signed numbers &light at 0", "gaze.set_diverging", ("Ctrl+Alt+7",),
          ("CET-CBD1",), "signed"),
    Entry("&View>Co&lours", "Signed numbers &dark at 0", "gaze.set_diverging", ("Ctrl+Alt+0",),
          ("CET-D6",), "signed"),
    Entry("&View", "Theme: as the &system", "set_scheme", ("Ctrl+Alt+S",), ("system",), "scheme",
          "theme", divides=True),
    Entry("&View", "Theme: lig&ht", "set_scheme", ("Ctrl+Alt+L",), ("light",), "scheme"),
    Entry("&View", "Theme: &dark", "set_scheme", ("Ctrl+Alt+D",), ("dark",), "scheme"),
    Entry("&View", "To the next part of the window", "parts.go", ("F12",), (1,), divides=True),
    Entry("&View", "To the part before", "parts.go", ("Shift+F12",), (-1,)),
    Entry("&View", "Presenter mode (&video projector)", "presenter.toggle", ("F5",), divides=True,
          ticks=True),
    Entry("&View", "Blan&k the projector", "presenter.hide_all", ("B", ".")),
    Entry("&View", "&Reduce motion", "motion.toggle", ("Ctrl+Alt+M",), ticks=True),
    Entry("&Lessons", "&Next page", "reader.step", ("Alt+Right",), (1,), divides=True),
    Entry("&Lessons", "&Previous page", "reader.step", ("Alt+Left",), (-1,)),
    Entry("&Lessons", "&Back to this page", "reader.back", ("Alt+Home",)),
    Entry("&Lessons", "&Close the lesson", "reader.close", ("Alt+End",)),
    Entry("&Lessons", "The &folder of my lessons", "reader.open_folder", ("Ctrl+Alt+F",),
          divides=True),
    Entry("L&ab", "&Language lab", "labWanted.emit", ("Ctrl+Alt+A",)),
    Entry("&Help", "&Keyboard shortcuts", "show_shortcuts", ("Ctrl+?", "F1")),
    Entry("&Help", "&About", "show_about"),
)
# fmt: on


WITHIN = (
    ("Pin a cell, walk from cell to cell, head to head, stage to stage", "arrow keys"),
    ("While playing, with no cell pinned: step, or go to another stage", "arrow keys"),
    ("Let go of the pinned cell", "Esc in the heatmaps"),
    ("Painting the mask: spread what the pinned cell is", "Shift+arrow keys"),
    ("Leave presenter mode, with no cell pinned", "Esc"),
    ("Open one of the first lessons", "Alt+Shift+1 to Alt+Shift+9"),
    ("Go from token to token, choose several", "arrow keys, Shift+arrow keys in the tokens"),
    ("Choose a token or not, let go of all", "Space, Esc in the tokens"),
    ("Go to the next token that is found, find no more", "Enter, Esc in the search"),
    ("See a head alone, sort by a column, copy all", "Enter, Space, Ctrl+C in the Heads pane"),
    ("Type a number, copy, paste", "Enter, Ctrl+C, Ctrl+V in the Numbers pane"),
)
"""What keys do where they are pressed, with no action for it."""


def shortcuts() -> list[tuple[str, str]]:
    """List what can be done with which keys."""
    own = [(entry.said, ", ".join(entry.keys)) for entry in ENTRIES if entry.keys]
    panes = [(f"Open or close the {pane.title} pane", pane.keys) for pane in PANES]
    return [*own, *panes, *WITHIN]
