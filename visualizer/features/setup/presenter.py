"""The Setup pane as a value: the document's settings and text, with errors at their settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.errors import InputError, Problem
from visualizer.session.screen import PanelId
from visualizer.session.setting_definitions import SETTINGS, SettingState, remedy_in_words

if TYPE_CHECKING:
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.session.document import Document


@dataclass(frozen=True, slots=True)
class SetupPanel:
    """The current settings and the text."""

    text: str
    tokenizer: object
    lines: object
    text_problem: str
    settings: tuple[SettingState, ...]
    captured: str = ""
    """Sentences on captured attention, shown in place of settings; empty for a module."""


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
    text = found.get("text")
    sentence = text.sentence if text else ""
    said = _captured_in_words(document.captured) if document.captured else ""
    return SetupPanel(
        document.get("text"), document.tokenizer, document.lines, sentence, rows, said
    )


def _captured_in_words(captured: CapturedAttention) -> str:
    return (
        f"Opened from {captured.called}: {captured.size}. There are no queries, keys and values in "
        "it, so scores, context vectors and the module’s settings are missing."
    )
