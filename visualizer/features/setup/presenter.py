"""Presenter of the settings bar: the document's settings and text, with their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.model_forward_pass import SecondTextUse
from visualizer.attention.settings import SETTINGS, SettingGroup, SettingKind
from visualizer.errors import FIRST_CHARACTERS, InputError, Problem, Remedy
from visualizer.format import format_count
from visualizer.models.model_source import parse_server_address
from visualizer.session.screen import PanelId
from visualizer.session.setting_state import SettingState, describe_remedy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.model_forward_pass import ModelForwardPass
    from visualizer.session.document import Document


class TextProblem(Struct, frozen=True):
    """An error in a text.

    Parameters
    ----------
    sentence : str
        The error message; empty without an error.
    remedy : Remedy or None
        A change that fixes the error, if there is one.
    remedy_text : str
        Description of the remedy; empty without one.
    """

    sentence: str = ""
    remedy: Remedy | None = None
    remedy_text: str = ""


class SecondTextField(Struct, frozen=True):
    """The field for the second input text of a model.

    Parameters
    ----------
    label : str
        The purpose of the text in the model.
    """

    text: str
    label: str
    problem: TextProblem = TextProblem()


class ImageField(Struct, frozen=True):
    """The input image of a vision model, shown instead of the text.

    Parameters
    ----------
    name : str
        The file name; empty until an image is chosen.
    path : str
        The full path.
    """

    name: str
    path: str
    problem: TextProblem = TextProblem()


class AttentionKinds(Struct, frozen=True):
    """The kinds of attention of a model, if it has several.

    Parameters
    ----------
    choices : tuple of (name, words)
        The kinds of attention; each name is a path in the model.
    shown : str
        The name of the current kind.
    """

    choices: tuple[tuple[str, str], ...] = ()
    shown: str = ""


class SettingChip(Struct, frozen=True):
    """A button on the settings bar that opens an editor for a group of settings.

    Parameters
    ----------
    name : str
        Caption before the values; empty if the values do not need a caption.
    shown : tuple of str
        The settings whose values are in the caption, most important first.
    settings : tuple of str
        All settings in its editor.
    hides_idle : bool
        Whether settings without an effect are hidden instead of disabled.
    rank : int
        Chips with a high rank move to the menu first if there is not enough room.
    """

    name: str
    shown: tuple[str, ...]
    settings: tuple[str, ...]
    hides_idle: bool = False
    rank: int = 0

    def describe_values(self, values: Mapping[str, SettingState]) -> str:
        """Return the values as a caption, such as ``16 → 24``."""
        words = dict.fromkeys(describe_value(values[name]) for name in self.shown)
        return " → ".join(words)

    def find_problem(self, values: Mapping[str, SettingState]) -> str:
        """Return the first problem of its settings, or an empty string."""
        problems = (values[name].problem for name in self.settings)
        return next((problem.sentence for problem in problems if problem), "")


def _setting_names_in_group(group: SettingGroup) -> tuple[str, ...]:
    return tuple(each.name for each in SETTINGS if each.has_control and each.group is group)


def _create_chips() -> tuple[SettingChip, ...]:
    mask, dropout = (
        _setting_names_in_group(SettingGroup.MASK),
        _setting_names_in_group(SettingGroup.DROPOUT),
    )
    chips = (
        SettingChip("", ("mechanism",), ("mechanism",), rank=2),
        SettingChip("Heads", ("heads",), ("heads", "arrangement", "key_value_heads")),
        SettingChip("Size", ("d_in", "d_out"), ("d_in", "d_out"), rank=3),
        SettingChip("Mask", ("mask",), mask, hides_idle=True, rank=1),
        SettingChip("Dropout", ("dropout",), dropout, hides_idle=True, rank=4),
    )
    placed = {name for chip in chips for name in chip.settings}
    rest = tuple(each.name for each in SETTINGS if each.has_control and each.name not in placed)
    return (*chips, SettingChip("More", (), rest))


CHIPS = _create_chips()
"""The buttons of the settings bar, from left to right; together they contain every setting with a
control once."""


def describe_value(state: SettingState) -> str:
    """Return a value as its control shows it, but in lower case unless it is a title."""
    setting, value = state.setting, state.value
    if setting.kind is SettingKind.CHOICE:
        words: str = dict(setting.choices)[value]
        return words.removesuffix(" attention") if setting.name == "mechanism" else words.lower()
    return f"{value:g}" if isinstance(value, float) else f"{value:,}"


class SetupPanel(Struct, frozen=True):
    """The current settings and the text."""

    text: str
    tokenizer: object
    lines: object
    problem: TextProblem
    settings: tuple[SettingState, ...]
    captured: str = ""
    """Notice about captured attention, shown instead of settings; empty for a module."""
    source: str = ""
    """Name of the model or file of captured attention; empty for a module."""
    has_labels: bool = False
    """Whether the input consists of token labels rather than a text."""
    second: SecondTextField | None = None
    """The field for the second text, or None if the model does not take a second text."""
    image: ImageField | None = None
    """The input image, or None if the input is a text."""
    parts: AttentionKinds = AttentionKinds()
    """The kinds of attention; empty if there is only one."""

    def settings_by_name(self) -> dict[str, SettingState]:
        """Return the settings by their names."""
        return {state.setting.name: state for state in self.settings}


SETUP_PANEL: PanelId[SetupPanel] = PanelId("Setup")


SECOND_LABELS = {
    SecondTextUse.PAIR: "Second text of the pair",
    SecondTextUse.DECODER: "Start of the decoder text",
}
VECTORS_NOTE = "Queries, keys and values are shown after positional encoding and normalization"


def present_setup(
    document: Document, refused: InputError | None, reading: ModelForwardPass | None = None
) -> SetupPanel:
    """Present the settings of a document, each error next to the setting that causes it.

    Parameters
    ----------
    reading : ModelForwardPass, optional
        The last forward pass of the document's model, which determines the inputs it accepts.
    """
    found = {problem.field: problem for problem in document.setting_problems()}
    if refused and refused.field not in found:
        found[refused.field] = Problem(refused.field, refused.sentence, refused.remedy)
    rows = tuple(
        SettingState(
            setting,
            document.get_setting(setting.name),
            setting.has_effect(document.spec),
            problem := found.get(setting.name),
            describe_remedy(*problem.remedy) if problem and problem.remedy else "",
        )
        for setting in SETTINGS
    )
    text = next(filter(None, map(found.get, ("text", "model", "server", "chat"))), None)
    said = _describe_captured_attention(document.captured) if document.captured else ""
    source = document.captured.display_name if document.captured else ""
    if document.model:
        said, source = _describe_model(document), document.model.name
    return SetupPanel(
        document.get_setting("text"),
        document.tokenizer,
        document.lines,
        TextProblem() if document.takes_image else _present_text_problem(text),
        rows,
        said,
        source,
        document.has_labels,
        _present_second_text(document, found.get("second"), reading),
        _present_image(document, found.get("image") or text),
        _present_attention_kinds(document, reading),
    )


def _present_second_text(
    document: Document, problem: Problem | None, reading: ModelForwardPass | None
) -> SecondTextField | None:
    """Return the field if the model takes a second text, or if such a text is set or required."""
    if document.model is None or document.takes_image:
        return None
    kind = reading.second if reading else SecondTextUse.NONE
    text = document.model.second
    if kind is SecondTextUse.NONE and not (text or problem):
        return None
    return SecondTextField(
        text, SECOND_LABELS.get(kind, "Second text"), _present_text_problem(problem)
    )


def _present_image(document: Document, problem: Problem | None) -> ImageField | None:
    image = document.model.image if document.model else None
    if image is None:
        return None
    return ImageField(image.name, image.path, _present_text_problem(problem))


def _present_attention_kinds(
    document: Document, reading: ModelForwardPass | None
) -> AttentionKinds:
    if reading is None or len(reading.parts) < 2:
        return AttentionKinds()
    wanted = document.model.part if document.model else ""
    is_known = wanted in dict(reading.parts)
    return AttentionKinds(reading.parts, wanted if is_known else reading.part)


def _present_text_problem(problem: Problem | None) -> TextProblem:
    if problem is None:
        return TextProblem()
    mends = _describe_text_remedy(problem.remedy) if problem.remedy else ""
    return TextProblem(problem.sentence, problem.remedy, mends)


def _describe_text_remedy(remedy: Remedy) -> str:
    field, value = remedy
    if field == FIRST_CHARACTERS:
        return f"Use the first {format_count(len(str(value)), 'character')}"
    return f"Use the first {format_count(int(str(value)), 'token')}"


def _describe_model(document: Document) -> str:
    assert document.model
    server = parse_server_address(document.model.folder)
    name = f"{document.model.name} at {server}" if server else document.model.name
    if document.captured:
        remedy = "Choose an image" if document.takes_image else "Edit the text"
        saved = f"computed when the document was saved: {document.captured.size_text}"
        return f"Attention of {name}, {saved}. {remedy} to run the model again."
    if document.takes_image:
        return f"{name} runs on an image; its patches are the tokens. {VECTORS_NOTE}."
    if document.model.is_chat:
        input_text = "this text as a user message, formatted with its chat template"
        return f"{name} runs on {input_text}. {VECTORS_NOTE}."
    return f"{name} runs on this text as you type. {VECTORS_NOTE}."


def _describe_captured_attention(captured: CapturedAttention) -> str:
    opened = f"Opened from {captured.display_name}: {captured.size_text}."
    if captured.vectors:
        return (
            f"{opened} {VECTORS_NOTE}; the inputs and weight matrices that produced them are not "
            "included."
        )
    return (
        f"{opened} Only attention weights are included, so scores, context vectors and module "
        "settings are unavailable."
    )
