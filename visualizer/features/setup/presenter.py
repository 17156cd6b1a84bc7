"""The Setup pane as a value: the document's settings and text, with errors at their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.model_reading import SecondText
from visualizer.attention.settings import SETTINGS
from visualizer.errors import FIRST_CHARACTERS, InputError, Problem, Remedy
from visualizer.models.model_source import server_of
from visualizer.number_format import format_count
from visualizer.session.screen import PanelId
from visualizer.session.setting_definitions import SettingState, remedy_in_words

if TYPE_CHECKING:
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.model_reading import ModelReading
    from visualizer.session.document import Document


class TextProblem(Struct, frozen=True):
    """What is wrong with a text.

    Parameters
    ----------
    sentence : str
        Empty where nothing is.
    remedy : Remedy or None
        What would mend it.
    mends : str
        What the remedy does, in words; empty where there is none.
    """

    sentence: str = ""
    remedy: Remedy | None = None
    mends: str = ""


class SecondTextField(Struct, frozen=True):
    """The field of the second text that a model reads.

    Parameters
    ----------
    label : str
        What the text is to the model.
    """

    text: str
    label: str
    problem: TextProblem = TextProblem()


class ImageField(Struct, frozen=True):
    """The image that a vision model reads, in place of the text.

    Parameters
    ----------
    name : str
        The name of its file; empty until one is chosen.
    path : str
        Its whole path.
    """

    name: str
    path: str
    problem: TextProblem = TextProblem()


class AttentionParts(Struct, frozen=True):
    """The kinds of attention of a model with several.

    Parameters
    ----------
    choices : tuple of (name, words)
        By where they are in the model.
    shown : str
        The name of the one that is shown.
    """

    choices: tuple[tuple[str, str], ...] = ()
    shown: str = ""


class SetupPanel(Struct, frozen=True):
    """The current settings and the text."""

    text: str
    tokenizer: object
    lines: object
    problem: TextProblem
    settings: tuple[SettingState, ...]
    captured: str = ""
    """Sentences on captured attention, shown in place of settings; empty for a module."""
    has_labels: bool = False
    """Whether what is typed are labels of tokens, and not a text."""
    second: SecondTextField | None = None
    """None where no second text can be read."""
    image: ImageField | None = None
    """None where a text is read."""
    parts: AttentionParts = AttentionParts()
    """Without choices where there is a single kind of attention."""


SETUP: PanelId[SetupPanel] = PanelId("Setup")


SECOND_LABELS = {
    SecondText.PAIR: "Second text of the pair",
    SecondText.DECODER: "How the decoder’s text begins",
}


def present_setup(
    document: Document, refused: InputError | None, reading: ModelReading | None = None
) -> SetupPanel:
    """Present a document's settings, each error at the setting it belongs to.

    Parameters
    ----------
    reading : ModelReading, optional
        The last reading by the document's model, which says what that can be given.
    """
    found = {problem.field: problem for problem in document.problems()}
    if refused and refused.field not in found:
        found[refused.field] = Problem(refused.field, refused.sentence, refused.remedy)
    rows = tuple(
        SettingState(
            setting,
            document.get(setting.name),
            setting.acts(document.spec),
            problem := found.get(setting.name),
            remedy_in_words(*problem.remedy) if problem and problem.remedy else "",
        )
        for setting in SETTINGS
    )
    text = next(filter(None, map(found.get, ("text", "model", "server", "chat"))), None)
    said = _captured_in_words(document.captured) if document.captured else ""
    if document.model:
        said = _model_in_words(document)
    return SetupPanel(
        document.get("text"),
        document.tokenizer,
        document.lines,
        TextProblem() if document.reads_image else _text_problem(text),
        rows,
        said,
        document.has_labels,
        _second(document, found.get("second"), reading),
        _image(document, found.get("image") or text),
        _parts(document, reading),
    )


def _second(
    document: Document, problem: Problem | None, reading: ModelReading | None
) -> SecondTextField | None:
    """Return the field of the second text where one can be read, is there, or is missing."""
    if document.model is None or document.reads_image:
        return None
    kind = reading.second if reading else SecondText.NONE
    text = document.model.second
    if kind is SecondText.NONE and not (text or problem):
        return None
    return SecondTextField(text, SECOND_LABELS.get(kind, "Second text"), _text_problem(problem))


def _image(document: Document, problem: Problem | None) -> ImageField | None:
    image = document.model.image if document.model else None
    if image is None:
        return None
    return ImageField(image.name, image.path, _text_problem(problem))


def _parts(document: Document, reading: ModelReading | None) -> AttentionParts:
    if reading is None or len(reading.parts) < 2:
        return AttentionParts()
    wanted = document.model.part if document.model else ""
    is_known = wanted in dict(reading.parts)
    return AttentionParts(reading.parts, wanted if is_known else reading.part)


def _text_problem(problem: Problem | None) -> TextProblem:
    if problem is None:
        return TextProblem()
    mends = _text_remedy_in_words(problem.remedy) if problem.remedy else ""
    return TextProblem(problem.sentence, problem.remedy, mends)


def _text_remedy_in_words(remedy: Remedy) -> str:
    field, value = remedy
    if field == FIRST_CHARACTERS:
        return f"Use the first {format_count(len(str(value)), 'character')}"
    return f"Use the first {format_count(int(str(value)), 'token')}"


def _model_in_words(document: Document) -> str:
    assert document.model
    if document.reads_image:
        return _image_model_in_words(document)
    server = server_of(document.model.folder)
    name = f"{document.model.name}, at {server}," if server else document.model.name
    if document.captured:
        return (
            f"{name} read this text when the document was saved: "
            f"{document.captured.size}. It reads again when the text is changed."
        )
    if document.model.is_chat:
        return (
            f"{name} reads this text as a user’s message, in the words of its chat "
            "template. Queries, keys and values are as they met, after positions and norms."
        )
    return (
        f"{name} reads this text as you type. Queries, keys and values are as they "
        "met, after positions and norms."
    )


def _image_model_in_words(document: Document) -> str:
    assert document.model
    name = document.model.name
    if document.captured:
        return (
            f"{name} read this image when the document was saved: {document.captured.size}. It "
            "reads again when an image is chosen."
        )
    return (
        f"{name} reads an image; its patches are the tokens. Queries, keys and values are as they "
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
