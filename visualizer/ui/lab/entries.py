"""Everything the lab can do, as a table; menus and shortcuts come from it."""

from __future__ import annotations

from visualizer.ui.entries import Entry

# fmt: off
LAB_ENTRIES: tuple[Entry, ...] = (
    Entry("&Run", "&New run with these settings…", "keeper.begin_another", ("Ctrl+N",)),
    Entry("&Run", "&Open run folder…", "keeper.choose_to_open", ("Ctrl+O",), icon="open"),
    Entry("&Run", "Open the &chosen run", "keeper.open_chosen", ("Ctrl+Shift+O",)),
    Entry("&Run", "&Rename the chosen run", "keeper.rename", ("F2",), divides=True),
    Entry("&Run", "&Delete the chosen run…", "keeper.delete", ("Ctrl+Del",)),
    Entry("&Run", "&Save the weights as…", "saver.save_weights", ("Ctrl+Shift+S",), icon="save",
          divides=True),
    Entry("&Run", "Save a &film of the training…", "saver.save_film", ("Ctrl+Shift+E",),
          icon="export"),
    Entry("&Run", "&Open this layer in the visualizer", "open_layer", ("Ctrl+E",)),
    Entry("&Run", "&Close the window", "close", ("Ctrl+W",), divides=True),
    Entry("&Train", "&Start, pause or go on", "lab.toggle", ("Ctrl+Return", "Ctrl+Enter"),
          icon="play"),
    Entry("&Train", "One s&tep", "lab.step", ("Ctrl+.",), icon="step-on"),
    Entry("&Train", "Sto&p with a checkpoint", "lab.stop", ("Ctrl+Shift+Return",), icon="stop"),
    Entry("&Train", "Train for &more steps", "train_more", ("Ctrl+M",), divides=True),
    Entry("Te&xt", "&Edit the text that is read", "edit_probe", ("Ctrl+L",)),
    Entry("Te&xt", "&Draw a token", "teller.sample", ("Ctrl+T",), divides=True),
    Entry("Te&xt", "&Write on, token after token, or stop", "teller.toggle", ("Ctrl+R",)),
    Entry("Te&xt", "Step bac&k", "teller.step_back", ("Alt+Left",)),
    Entry("Te&xt", "Step &on", "teller.step_on", ("Alt+Right",)),
    Entry("Te&xt", "Other &branch that was tried here", "teller.turn", ("Alt+Down",), (1,)),
    Entry("&View", "The &settings", "show_pane", ("Alt+1",), ("settings",)),
    Entry("&View", "The &runs", "show_pane", ("Alt+2",), ("runs",)),
    Entry("&View", "Show settings and r&uns", "folding.toggle", ("F9",), ("left",), ticks=True,
          divides=True),
    Entry("&View", "Show losse&s", "folding.toggle", ("F8",), ("losses",), ticks=True),
    Entry("&View", "&Losses on a log axis", "plotter.turn_axis", ("Ctrl+1",), ("losses",),
          ticks=True, divides=True),
    Entry("&View", "St&eps on a log axis", "plotter.turn_axis", ("Ctrl+2",), ("steps",),
          ticks=True),
    Entry("&View", "S&moother losses", "plotter.smoothen", ("Ctrl+3",), (1,)),
    Entry("&View", "&Rougher losses", "plotter.smoothen", ("Ctrl+4",), (-1,)),
    Entry("&View", "&Colours up to each row’s largest", "pictures.turn_colours", ("Ctrl+5",),
          ticks=True, divides=True),
    Entry("&View", "&Play training time, or pause", "scrub.toggle", ("Ctrl+6",), divides=True),
    Entry("&View", "&Faster", "scrub.change_speed", ("Ctrl+7",), (1,)),
    Entry("&View", "Slo&wer", "scrub.change_speed", ("Ctrl+8",), (-1,)),
    Entry("&View", "Theme: as the s&ystem", "set_scheme", ("Ctrl+Alt+S",), ("system",), "scheme",
          "theme", divides=True),
    Entry("&View", "Theme: lig&ht", "set_scheme", ("Ctrl+Alt+L",), ("light",), "scheme"),
    Entry("&View", "Theme: &dark", "set_scheme", ("Ctrl+Alt+D",), ("dark",), "scheme"),
    Entry("&Help", "&Keyboard shortcuts", "show_shortcuts", ("Ctrl+?", "F1")),
)
# fmt: on

WITHIN = (
    ("Walk from cell to cell, open its layer, let go", "arrow keys, Enter, Esc in the heatmaps"),
    ("Go through training time", "arrow keys, Page Up and Down, Home, End in the slider"),
    ("Lay the losses of a run over the plot or not, open it", "Space, Enter in the runs"),
)
"""What keys do where they are pressed, with no action for it."""


def shortcuts() -> list[tuple[str, str]]:
    """List what can be done with which keys."""
    return [*((one.said, ", ".join(one.keys)) for one in LAB_ENTRIES if one.keys), *WITHIN]
