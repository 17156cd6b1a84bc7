"""The Setup pane as a value: the document's settings and text, with errors at their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import FIRST_CHARACTERS, InputError, Problem, Remedy
from visualizer.number_format import format_count
from visualizer.session.screen import PanelId
from visualizer.session.setting_definitions import SETTINGS, SettingState, remedy_in_words

if TYPE_CHECKING:
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.session.document import Document


class SetupPanel(Struct, frozen=True):
    """The current settings and the text."""

    text: str
    tokenizer: object
    lines: object
    text_problem: str
    text_remedy: Remedy | None
    text_mends: str
    """What the remedy of the text's problem does; empty where there is none."""
    settings: tuple[SettingState, ...]
    captured: str = ""
    """Sentences on captured attention, shown in place of settings; empty for a module."""
    has_labels: bool = False
    """Whether what is typed are labels of tokens, and not a text."""


SETUP: PanelId[SetupPanel] = PanelId("Setup")


def present_setup(document: Document, refused: InputError | None) -> SetupPanel:
    """Present a document's settings, each error at the setting it belongs to."""
    found = {problem.field: problem for problem in document.problems()}
    if refused and refused.field not in found:
        found[refused.field] = Problem(refused.field, refused.sentence, refused.remedy)
    rows = tuple(
        SettingState(
            setting,
            document.get(setting.name),
            setting.counts(document.spec),
            problem := found.get(setting.name),
            remedy_in_words(*problem.remedy) if problem and problem.remedy else "",
        )
        for setting in SETTINGS
    )
    text = found.get("text") or found.get("model") or found.get("chat")
    sentence = text.sentence if text else ""
    said = _captured_in_words(document.captured) if document.captured else ""
    if document.model:
        said = _model_in_words(document)
    return SetupPanel(
        document.get("text"),
        document.tokenizer,
        document.lines,
        sentence,
        text.remedy if text else None,
        _text_remedy_in_words(text.remedy if text else None),
        rows,
        said,
        document.has_labels,
    )


def _text_remedy_in_words(remedy: Remedy | None) -> str:
    if remedy is None:
        return ""
    field, value = remedy
    if field == FIRST_CHARACTERS:
        return f"Use the first {format_count(len(str(value)), 'character')}"
    return f"Use the first {format_count(int(str(value)), 'token')}"


def _model_in_words(document: Document) -> str:
    assert document.model
    if document.captured:
        return (
            f"{document.model.name} read this text when the document was saved: "
            f"{document.captured.size}. It reads again when the text is changed."
        )
    if document.model.is_chat:
        return (
            f"{document.model.name} reads this text as a user’s message, in the words of its chat "
            "template. Queries, keys and values are as they met, after positions and norms."
        )
    return (
        f"{document.model.name} reads this text as you type. Queries, keys and values are as they "
        "met, after positions and norms."
    )


def _captured_in_words(captured: CapturedAttention) -> str:
    opened = f"Opened from {captured.called}: {captured.size}."
    if captured.vectors:
        return (
            f"{opened} Queries, keys and values are as they met, after positions and norms; what "
            "made them is not in it."
        )
    return (
        f"{opened} There are no queries, keys and values in it, so scores, context vectors and the "
        "module’s settings are missing."
    )
