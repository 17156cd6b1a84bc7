"""The Settings window: each change takes effect immediately."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QPushButton,
    QWidget,
)

from visualizer.attention.settings import SETTINGS
from visualizer.session.view_options import ColourMapKind, colour_maps_of_kind
from visualizer.widgets.app_settings import TEXT_SIZES_PERCENT
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import ElidedLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.theme import ColourScheme

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from visualizer.attention.spec import Device

DIALOG_WIDTH_PX = 560
SCHEME_CHOICES = (
    (ColourScheme.SYSTEM, "Same as system"),
    (ColourScheme.LIGHT, "Light"),
    (ColourScheme.DARK, "Dark"),
)
SETTING_TITLES = {
    "scheme": "Theme",
    "text_size": "Text size",
    "map": "Colours of weights",
    "signed_map": "Colours of signed numbers",
    "motion": "Reduce motion",
    "start_page": "Show the start page",
    "shortcuts": "Keyboard shortcuts",
    "device": "Device",
    "autosave": "Back up unsaved changes",
}
"""Titles of the settings by the names of their controls."""
DEVICE_CHOICES = next(setting.choices for setting in SETTINGS if setting.name == "device")


class ProgramSettings(Struct, frozen=True):
    """The values that the Settings window shows.

    Parameters
    ----------
    text_size : int
        Text size as a percentage of the system's text size; 0 adapts it to the screen.
    sequential, diverging : str
        Ids of the colour maps for weights and for signed values.
    """

    scheme: ColourScheme
    text_size: int
    is_motion_reduced: bool
    has_start_page: bool
    sequential: str
    diverging: str
    device: Device
    autosaves: bool


class DataFolder(Struct, frozen=True):
    """A folder in which the program stores data.

    Parameters
    ----------
    title : str
        Description of the folder's contents.
    """

    title: str
    path: Path


class OpenFolderButton(QPushButton):
    """Button that opens a data folder."""

    def __init__(self, folder: DataFolder) -> None:
        super().__init__("Show")
        self.folder = folder
        self.setAutoDefault(False)
        self.setToolTip("Open this folder in the file manager")
        self.setAccessibleName(f"Open the folder: {folder.title}")


class SettingComboBox(QComboBox):
    """Combo box that lists values by their labels."""

    valueChosen = Signal(object)

    def __init__(self, name: str, choices: Iterable[tuple[object, str]], hint: str) -> None:
        super().__init__()
        # The values are not item data, because Qt would return a member of a StrEnum as a plain
        # string.
        self._values, words = zip(*choices, strict=True)
        self.addItems(words)
        self.setAccessibleName(name)
        self.setAccessibleDescription(hint)
        self.setToolTip(plain_tooltip(hint))
        install_input_filters(self)
        self.activated.connect(self._emit_value)

    def _emit_value(self, at: int) -> None:
        self.valueChosen.emit(self._values[at])

    def show_value(self, value: object) -> None:
        self.setCurrentIndex(self._values.index(value))


class SettingsDialog(QDialog):
    """The Settings window; shows the program's settings and emits the user's changes."""

    schemeChosen = Signal(object)
    textSizeChosen = Signal(object)
    mapChosen = Signal(object)
    signedMapChosen = Signal(object)
    motionChosen = Signal(bool)
    startPageChosen = Signal(bool)
    deviceChosen = Signal(object)
    autosaveChosen = Signal(bool)
    shortcutsRequested = Signal()
    """Requests that the editor of keyboard shortcuts is opened."""
    folderOpenRequested = Signal(object)
    """Requests that a `DataFolder` is opened."""

    def __init__(self, window: QWidget, folders: Iterable[DataFolder]) -> None:
        super().__init__(window)
        self.setWindowTitle("Settings")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(8)
        self._grid.setColumnStretch(1, 1)
        self._add_appearance_settings()
        self._add_computation_settings()
        self._add_section_title("Folders")
        self.folder_buttons = [self._add_folder(folder) for folder in folders]
        close = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        close.rejected.connect(self.reject)
        column = column_layout(self, (24, 16, 24, 16), spacing=16)
        column.addLayout(self._grid)
        column.addStretch(1)
        column.addWidget(close)
        self._fit_width_to_text()

    def _fit_width_to_text(self) -> None:
        """Adapt the minimum width to the text size."""
        width = round(DIALOG_WIDTH_PX * text_scale())
        if width != self.minimumWidth():
            self.setMinimumWidth(width)
            self.adjustSize()

    def _add_appearance_settings(self) -> None:
        self._add_section_title("Appearance")
        sizes = [(size, f"{size}%" if size else "Automatic") for size in TEXT_SIZES_PERCENT]
        maps, signed = (
            [(each.id, each.title) for each in colour_maps_of_kind(kind)] for kind in ColourMapKind
        )
        self.scheme = self._add_combo_box(
            "scheme", SCHEME_CHOICES, "Figures are exported on a white background in any theme"
        )
        self.text_size = self._add_combo_box("text_size", sizes, "Relative to the system text size")
        self.map = self._add_combo_box("map", maps, "For this window and new windows")
        self.signed_map = self._add_combo_box(
            "signed_map",
            signed,
            "For scores and vectors, in this window and new windows",
        )
        self.motion = self._add_check_box("motion", "Show panes, menus and lists without animation")
        self.start_page = self._add_check_box(
            "start_page", "When the program starts without a document"
        )
        self.shortcuts = self._add_button("shortcuts", "Change…")
        self.shortcuts.clicked.connect(self.shortcutsRequested)
        self.scheme.valueChosen.connect(self.schemeChosen)
        self.text_size.valueChosen.connect(self.textSizeChosen)
        self.map.valueChosen.connect(self.mapChosen)
        self.signed_map.valueChosen.connect(self.signedMapChosen)
        self.motion.clicked.connect(self.motionChosen)
        self.start_page.clicked.connect(self.startPageChosen)

    def _add_computation_settings(self) -> None:
        self._add_section_title("Computation and recovery")
        self.device = self._add_combo_box(
            "device",
            DEVICE_CHOICES,
            "Where numbers are computed, for this document and new documents",
        )
        self.autosave = self._add_check_box(
            "autosave", "After a crash, unsaved documents can be recovered"
        )
        self.device.valueChosen.connect(self.deviceChosen)
        self.autosave.clicked.connect(self.autosaveChosen)

    def _add_section_title(self, title: str) -> None:
        label, row = PlainTextLabel(title), self._grid.rowCount()
        label.setStyleSheet("font-weight: 600")
        if row > 1:
            self._grid.setRowMinimumHeight(row, 8)
            row += 1
        self._grid.addWidget(label, row, 0, 1, 3)

    def _add_combo_box(
        self, name: str, choices: Iterable[tuple[object, str]], hint: str
    ) -> SettingComboBox:
        title, row = SETTING_TITLES[name], self._grid.rowCount()
        box, label = SettingComboBox(title, choices, hint), PlainTextLabel(title)
        label.setBuddy(box)
        self._grid.addWidget(label, row, 0)
        self._grid.addWidget(box, row, 1, 1, 2)
        return box

    def _add_check_box(self, name: str, hint: str) -> QCheckBox:
        switch = QCheckBox(SETTING_TITLES[name])
        switch.setToolTip(plain_tooltip(hint))
        switch.setAccessibleDescription(hint)
        self._grid.addWidget(switch, self._grid.rowCount(), 1, 1, 2)
        return switch

    def _add_button(self, name: str, words: str) -> QPushButton:
        title, row = SETTING_TITLES[name], self._grid.rowCount()
        button, label = QPushButton(words), PlainTextLabel(title)
        button.setAutoDefault(False)
        button.setAccessibleName(f"{title}: {words}")
        label.setBuddy(button)
        self._grid.addWidget(label, row, 0)
        self._grid.addWidget(button, row, 1, Qt.AlignmentFlag.AlignLeft)
        return button

    def _add_folder(self, folder: DataFolder) -> OpenFolderButton:
        button, row = OpenFolderButton(folder), self._grid.rowCount()
        path = ElidedLabel(elide=Qt.TextElideMode.ElideMiddle)  # only the ends of the paths differ
        path.show_text(str(folder.path))
        self._grid.addWidget(PlainTextLabel(folder.title), row, 0)
        self._grid.addWidget(path, row, 1)
        self._grid.addWidget(button, row, 2)
        button.clicked.connect(self._request_opening_folder)
        return button

    def _request_opening_folder(self) -> None:
        button = self.sender()
        if isinstance(button, OpenFolderButton):
            self.folderOpenRequested.emit(button.folder)

    def focus_setting(self, name: str) -> None:
        """Focus the control of a setting."""
        control: QWidget = getattr(self, name)
        control.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def show_settings(self, settings: ProgramSettings) -> None:
        self._fit_width_to_text()
        self.scheme.show_value(settings.scheme)
        self.text_size.show_value(settings.text_size)
        self.map.show_value(settings.sequential)
        self.signed_map.show_value(settings.diverging)
        self.motion.setChecked(settings.is_motion_reduced)
        self.start_page.setChecked(settings.has_start_page)
        self.device.show_value(settings.device)
        self.autosave.setChecked(settings.autosaves)
