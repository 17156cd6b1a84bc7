"""The links in the README and the documentation are valid, and the examples work."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from PIL import Image
from torch.distributed.run import get_args_parser as torchrun_parser

import visualizer
from installers.linux.__main__ import build_parser
from tests.architecture.project_graph import ROOT
from tests.documentation.conftest import POEMS
from tests.support.hub_folders import cache_folder
from visualizer.app import main
from visualizer.attention.settings import SETTINGS
from visualizer.attention.stages import STAGE_TABLE
from visualizer.cli.generate import create_generate_parser
from visualizer.cli.model import create_model_parser
from visualizer.cli.options import create_lab_parser, create_parser
from visualizer.cli.serve import create_serve_parser
from visualizer.cli.train import create_train_parser
from visualizer.export.formats import FORMATS
from visualizer.features.head_table.presenter import COLUMNS, RETRIEVAL
from visualizer.features.lessons.claim_check import PrintedNumbers
from visualizer.features.lessons.lesson_file import read_lesson
from visualizer.features.start_page.examples import EXAMPLE_TEXTS, StartPageExample
from visualizer.lab.commands import LAB_COMMANDS
from visualizer.language import training_run
from visualizer.session.timeline import TOUR_MS
from visualizer.shell.commands import COMMANDS, WIDGET_SHORTCUTS
from visualizer.shell.pane_table import PANES
from visualizer.widgets.documentation_pages import (
    INDEX_PAGE,
    find_links,
    find_sections,
    heading_anchor,
    read_documentation_pages,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


README, DOCS = ROOT / "README.md", ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FILES = [README, ROOT / "CONTRIBUTING.md", *PAGES]
TEXTS = {
    path.relative_to(DOCS if DOCS in path.parents else ROOT).as_posix(): path.read_text("utf-8")
    for path in FILES
}
"""The texts of the pages by their path in `docs`, and of the README and CONTRIBUTING."""
NAMES = dict(zip(FILES, TEXTS, strict=True))
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
MAX_ANIMATION_BYTES = 3_000_000
"""Maximum size, in bytes, of the README's animation, which is loaded with the page."""
MAX_LINE_LENGTH = 92
"""Maximum length of a line of code, in characters; longer lines do not fit next to the contents."""
HOSTS = {
    "briefcase.readthedocs.io", "github.com", "huggingface.co", "nnsight.net",
    "pytorch.org", "www.conventionalcommits.org", "www.youtube.com",
}  # fmt: skip
"""Hosts to which the text may link; the tests do not open these links."""


class Block(NamedTuple):
    """A fenced block of code."""

    language: str
    code: str

    @property
    def first_line(self) -> str:
        return self.code.partition("\n")[0]


def blocks_of(text: str) -> list[Block]:
    """List the fenced blocks of a page."""
    found = re.findall(r"^```(.*?)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in found]


def blocks(text: str, language: str) -> list[str]:
    """List the fenced blocks of a language."""
    return [block.code for block in blocks_of(text) if block.language == language]


@pytest.mark.parametrize("name", TEXTS)
def test_each_row_of_a_table_is_on_one_line(name: str) -> None:
    assert not re.findall(r"^\|.*[^|\n]$", TEXTS[name], re.MULTILINE)


LIST_ITEM = r"(?:[-*]|\d+\.) "


@pytest.mark.parametrize("name", TEXTS)
def test_lists_are_separated_from_paragraphs(name: str) -> None:
    """The site generator requires an empty line before a list, and no paragraphs in its items."""
    text = re.sub(r"^```.*?^```$", "", TEXTS[name], flags=re.MULTILINE | re.DOTALL)
    for block in text.split("\n\n"):
        lines = block.strip("\n").splitlines()
        if lines and not re.match(LIST_ITEM, lines[0]):
            assert not lines[0].startswith(" "), block
            assert not [line for line in lines if re.match(LIST_ITEM, line)], block


INSTALLS, SERVES = "installs packages", "serves until it is stopped"
NOT_RUN = {
    "README.md": {
        "git clone REPOSITORY_URL attention-visualizer && cd attention-visualizer": INSTALLS,
        '.venv/bin/pip install --extra-index-url INDEX -c constraints.txt ".[models]"': INSTALLS,
    },
    "CONTRIBUTING.md": {
        "python -m venv .venv": INSTALLS,
        "ruff check && ruff format --check": "all checks, this test among them",
    },
    "how-to/install.md": {
        "sudo apt install ./attention-visualizer_0.1.0_amd64.deb": INSTALLS,
        'pipx install "./attention_visualizer-0.1.0-py3-none-any.whl[models]"': INSTALLS,
        "sudo apt install libgl1 libegl1 libglib2.0-0 libdbus-1-3 libfontconfig1 libxkbcommon0 \\":
            INSTALLS,
        "python3 -m venv .venv": INSTALLS,
        '.venv/bin/pip install --extra-index-url INDEX -c constraints.txt ".[models]"': INSTALLS,
        "pip install -c constraints.txt . --group release": INSTALLS,
        "python -m installers.linux --out dist": "takes ten minutes; its parts have tests",
    },
    "tutorials/first-steps.md": {"python3 -m venv .venv": INSTALLS},
    "how-to/models.md": {
        "hf download HuggingFaceTB/SmolLM2-135M --local-dir models/SmolLM2-135M": "downloads",
    },
    "how-to/large-models.md": {
        "attention-visualizer serve models/SmolLM2-135M":
            f"{SERVES}; test_the_command_that_serves_a_model_serves_it runs it",
        "ssh -L 8763:127.0.0.1:8763 user@machine": "needs another machine",
        "attention-visualizer serve models/SmolLM2-135M --socket ~/model.sock": SERVES,
        "attention-visualizer serve models/Llama-3.1-70B --tensor-parallel 4": SERVES,
    },
    "reference/command-line.md": {"attention-visualizer serve models/SmolLM2-135M": SERVES},
    "how-to/nnsight.md": {
        "from nnsight import TransformersModel": "nnsight is no dependency; `GIVEN` stands for it",
        "from nnsight import CONFIG, TransformersModel": "needs a key of NDIF and its servers",
    },
}  # fmt: skip
"""The blocks that no test runs, by page and first line, with the reason; in order of the page."""


def run_blocks(name: str, language: str) -> list[str]:
    """List the blocks in the given language on a page that the tests run."""
    found = blocks_of(TEXTS[name])
    kept = [block for block in found if block.first_line not in NOT_RUN.get(name, {})]
    return [block.code for block in kept if block.language == language]


def given_by_nnsight() -> dict[str, Any]:
    """Return random weights of two layers, in the types that nnsight returns, and tokens."""
    drawn = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 4, 4, generator=drawn, requires_grad=True)  # layer head query key
    weights = [*scores.softmax(-1).bfloat16()]
    return {"weights": weights, "tokens": ["The", " cat", " sat", " on"]}


def given_by_transformers() -> dict[str, Any]:
    """Return an object with random weights, in the form of the outputs of Transformers."""
    outputs = SimpleNamespace(attentions=[each[None] for each in given_by_nnsight()["weights"]])
    return {"outputs": outputs, "tokens": given_by_nnsight()["tokens"]}


GENERATED = "reference/python-api.md"
"""Page whose examples are run one by one by ``test_reference_pages.py``."""
GIVEN = {"how-to/nnsight.md": given_by_nnsight, "README.md": given_by_transformers}
"""Variables that untested blocks or the code of the reader define, by page."""


def rows(text: str, heading: str) -> list[list[str]]:
    """List the cells of the first table below a heading, without the header row."""
    below = text.partition(f"# {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]


# ------------------------------------------------------------------------------------- README


def test_the_readme_is_short_and_says_what_the_program_is_and_looks_like_first() -> None:
    text = TEXTS["README.md"]
    assert len(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL).split()) < 250
    title, picture, sentence, uses, install, *_ = text.split("\n\n")
    assert title == "# Attention Visualizer"
    assert PICTURE.match(picture)
    assert sentence.startswith("Attention Visualizer is a desktop program and a Python package ")
    assert uses.startswith("- ")
    assert install == "## Install"


def test_the_animation_is_small_and_moves() -> None:
    pictures = [name for _, name in PICTURE.findall(TEXTS["README.md"])]
    (name,) = (picture for picture in pictures if picture.endswith(".webp"))
    assert (ROOT / name).stat().st_size < MAX_ANIMATION_BYTES
    with Image.open(ROOT / name) as film:
        assert getattr(film, "n_frames", 1) > 10


# ------------------------------------------------------------------------------------- search


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("gpu", "Do I need a GPU?"),
        ("gpt2", "How do I open GPT-2, Llama, Qwen or another model?"),
        ("xcb", "The window does not open: could not load the Qt platform plugin xcb"),
        ("output_attentions", "I have attention weights. How do I view them?"),
        ("diagonal line", "What do diagonal lines in cells mean?"),
        ("How do I find induction heads?", "Find the heads"),
        ("pdf figure", "Export a figure"),
        ("jupyter", "Does it work in Jupyter, Colab or VS Code?"),
        ("out of memory", "Out of memory: a model or a text is too large"),
        ("causal mask off", "How do I switch the causal mask off?"),
    ],
)
def test_questions_of_newcomers_are_answered_by_one_of_the_first_results(
    words: str, title: str
) -> None:
    pages = (page for page in read_documentation_pages(DOCS) if page.name != INDEX_PAGE)
    assert title in [section.title for _, section in find_sections(pages, words)[:3]]


# ------------------------------------------------------------------------------------- links


@pytest.mark.parametrize("path", FILES, ids=NAMES.get)
def test_every_link_leads_somewhere(path: Path) -> None:
    for words, target in find_links(TEXTS[NAMES[path]]):
        if "://" in target:
            address = urlsplit(target)
            assert (address.scheme, address.netloc) in {("https", host) for host in HOSTS}, words
            continue
        name, _, anchor = target.partition("#")
        there = path.parent / name if name else path
        assert there.is_file(), (words, target)
        if anchor:
            headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(heading_anchor, headings), (words, target)


@pytest.mark.parametrize("path", FILES, ids=NAMES.get)
def test_every_image_says_what_it_shows(path: Path) -> None:
    for words, target in PICTURE.findall(TEXTS[NAMES[path]]):
        assert len(words.split()) > 3, target
        assert (path.parent / target).resolve().parent == DOCS / "pictures"


def test_the_book_is_explained_on_every_page_that_mentions_it() -> None:
    for name, text in TEXTS.items():
        if "the book" in text.casefold():
            assert "#sources" in text or "Build a Large Language Model" in text, name


def test_no_host_is_known_that_no_link_leads_to() -> None:
    targets = [target for text in TEXTS.values() for _, target in find_links(text)]
    assert {urlsplit(target).netloc for target in targets} == HOSTS | {""}


def test_every_page_is_in_the_index() -> None:
    assert {page.name for page in read_documentation_pages(DOCS)} == {*map(NAMES.get, PAGES)}
    assert next(read_documentation_pages(DOCS)).name == INDEX_PAGE


@pytest.mark.parametrize("path", PAGES, ids=NAMES.get)
def test_code_fits_the_window(path: Path) -> None:
    code = "\n".join(block for kind in ("python", "sh", "toml") for block in blocks(
        TEXTS[NAMES[path]], kind))  # fmt: skip
    assert max(map(len, code.splitlines()), default=0) <= MAX_LINE_LENGTH


NAME_IN_FILE = re.compile(r"`([A-Za-z_.]+)` in `([a-z_/]+\.py)`")


@pytest.mark.parametrize("path", FILES, ids=NAMES.get)
def test_a_name_is_in_the_file_that_is_given_for_it(path: Path) -> None:
    for name, place in NAME_IN_FILE.findall(TEXTS[NAMES[path]]):
        files = [file for file in (ROOT / place, ROOT / "visualizer" / place) if file.is_file()]
        assert files, place
        assert re.search(rf"\b{name.rpartition('.')[2]}\b", files[0].read_text("utf-8")), name


# ------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("path", FILES, ids=NAMES.get)
def test_no_row_of_a_table_is_broken(path: Path) -> None:
    for block in re.sub(r"```.*?```", "", TEXTS[NAMES[path]], flags=re.S).split("\n\n"):
        lines = block.strip().splitlines()
        if lines and lines[0].startswith("|"):
            assert all(line.startswith("|") and line.endswith("|") for line in lines), block


def test_the_table_of_settings_is_whole_and_true() -> None:
    listed = rows(TEXTS["reference/modules.md"], "Settings")
    assert [row[0] for row in listed] == [setting.label for setting in SETTINGS]
    options = options_of(create_parser())
    python = {*visualizer.AttendArguments.__annotations__, "vectors", "weights"}
    for _, option, name, _ in listed:
        assert option.strip("`") in options
        assert name.strip("`") in python


def test_the_table_of_stages_is_whole() -> None:
    listed = rows(TEXTS["reference/modules.md"], "Stages")
    names = [name for row in listed for name in re.findall(r"`(\w+)`", row[0])]
    assert names == [
        *dict.fromkeys(stage.name for stage in STAGE_TABLE if stage.name != "captured")
    ]


def test_the_table_of_formats_is_whole() -> None:
    listed = rows(TEXTS["reference/file-formats.md"], "What is written")
    named = [name for row in listed for name in re.findall(r"`(\.\w+)`", row[0])]
    assert sorted(named) == sorted(known.suffix for known in FORMATS)


def test_the_table_of_panes_is_whole() -> None:
    text = TEXTS["reference/window.md"]
    table = text.partition("| Pane | What it shows |\n| --- | --- |\n")[2].partition("\n\n")[0]
    found = re.findall(r"^\| ([\w ]+) \|", table, re.MULTILINE)
    assert sorted(found) == sorted(pane.title for pane in PANES)


def test_the_table_of_head_measures_is_whole_and_true() -> None:
    listed = rows(TEXTS["reference/head-measures.md"].replace(r"\|", "|"), "Measures of heads")
    assert listed == [
        [each.title, f"`{each.measure}`" if each in COLUMNS else "–", each.unit, each.description]
        for each in (*COLUMNS, RETRIEVAL)
    ]


def test_the_pages_state_the_duration_of_the_tour() -> None:
    stated = f"{TOUR_MS / 1000:g} seconds"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for text in (TEXTS["reference/window.md"], changelog):
        assert stated in text


def test_the_lessons_are_those_of_the_program() -> None:
    files = sorted(ROOT.glob("resources/lessons/*.toml"))
    titles = [re.search(r'^title = "(.*)"', path.read_text("utf-8"))[1] for path in files]  # type: ignore[index]
    listed = [row[0] for row in rows(TEXTS["reference/lessons.md"], "The nine lessons")]
    assert listed == [f"{number}. {title}" for number, title in enumerate(titles, 1)]


# ------------------------------------------------------------------------------------- menus


def test_every_menu_entry_that_is_named_is_one_of_the_program() -> None:
    known = set[str]()
    entries = [(row.menu, row.text) for row in COMMANDS]
    entries += [(row.menu, row.text) for row in LAB_COMMANDS]
    for menu, title in entries:
        path = f"{menu}>{title}".replace("&", "").split(">")
        known |= {" > ".join(path[:length]) for length in range(2, len(path) + 1)}
    menus = "|".join({path.partition(" ")[0] for path in known})
    for name, text in TEXTS.items():
        for found in re.findall(rf"\*((?:{menus}) > [^*]+)\*", text):
            assert " ".join(found.split()) in known, name


def test_the_examples_of_the_start_page_have_their_titles() -> None:
    titles = {each: caption.title for each, caption in EXAMPLE_TEXTS.items()}
    assert f"*{titles[StartPageExample.BOOK]}*" in TEXTS["tutorials/first-steps.md"]
    assert f"*{titles[StartPageExample.TRAINED]}*" in TEXTS["reference/lab.md"]


# ------------------------------------------------------------------------------------- keys


@pytest.mark.usefixtures("application")
def test_every_key_that_is_named_is_one_of_the_program() -> None:
    known = {keys for command in COMMANDS for keys in command.default_shortcuts}
    known |= {keys for command in LAB_COMMANDS for keys in command.default_shortcuts}
    known |= {"Esc", "Enter", "Ctrl", "Shift+F10"}
    known |= {"0", "1", "9", "Ctrl+C"}
    for key in ("Esc", "1 to 9, 0"):
        assert any(key in keys for _, keys in WIDGET_SHORTCUTS)
    names = {"Page Down": "PgDown", "Page Up": "PgUp", "Enter": "Return"}
    kbd = r"<kbd>[^<]+</kbd>"
    for name, text in TEXTS.items():
        for found in re.findall(rf"{kbd}(?:\+{kbd})*", text):
            parts = re.findall(r"<kbd>([^<]+)</kbd>", found)
            written = "+".join(names.get(part, part) for part in parts)
            assert written in known | {"Return"}, (name, found)


# ------------------------------------------------------------------------------------- commands


OPTIONS_OF_OTHER_PROGRAMS = {
    # pip, pipx and uv
    *("--pip-args", "--extra-index-url", "--index", "--no-deps", "--group", "--upgrade"),
    *("--check", "--hypothesis-profile", "--local-dir"),  # ruff, pytest and hf
}


def options_of(known: argparse.ArgumentParser) -> set[str]:
    return {option for action in known._actions for option in action.option_strings}


def test_every_option_that_is_named_is_there() -> None:
    made = (
        create_parser(), create_lab_parser(), create_train_parser(), create_generate_parser(),
        create_model_parser(),
        create_serve_parser(),
    )  # fmt: skip
    parsers = (*made, build_parser(), torchrun_parser())
    known = set[str]().union(*map(options_of, parsers), OPTIONS_OF_OTHER_PROGRAMS)
    for name, text in TEXTS.items():
        named = {found.rstrip("-") for found in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)}
        assert named <= known, name


def commands() -> Iterator[list[str]]:
    """Yield the arguments of each call of the program in the documentation."""
    for text in TEXTS.values():
        for block in blocks(text, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                called = line.rpartition("| ")[2].partition(" > ")[0]
                called = re.sub(r"^torchrun .* -m visualizer ", "attention-visualizer ", called)
                if called.startswith("attention-visualizer "):
                    yield shlex.split(called)[1:]


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the examples run, with the files that they read."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "attn.npz", weights=rng.dirichlet(np.ones(3), size=3).astype("float32"))
    np.save(tmp_path / "vectors.npy", rng.normal(size=(3, 3)).astype("float32"))
    (tmp_path / "mask.txt").write_text("1 0 0\n1 1 0\n1 1 1\n", encoding="utf-8")
    (tmp_path / "poems.txt").write_text(POEMS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def with_model(examples: Path, tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the examples run, with models, also in a Hugging Face cache."""
    for name in ("SmolLM2-135M", "SmolLM2-135M-Instruct"):
        cache_folder(examples / "hub", f"HuggingFaceTB/{name}", tiny_model_folder)
    monkeypatch.setenv("HF_HUB_CACHE", str(examples / "hub"))
    shutil.copytree(tiny_model_folder, examples / "models" / "Llama-3.1-8B")
    return shutil.copytree(tiny_model_folder, examples / "models" / "SmolLM2-135M")


@pytest.fixture
def trained(examples: Path, run_folder: Path) -> Path:
    """Return the folder in which the examples run, with the trained models."""
    for name in ("poems", "shared"):
        shutil.copytree(run_folder, examples / "runs" / name)
    return examples


@pytest.mark.slow
def test_every_command_is_understood(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsers = {
        "train": create_train_parser, "generate": create_generate_parser,
        "model": create_model_parser,
        "serve": create_serve_parser,
    }  # fmt: skip
    shown = [*commands()]
    for first, *others in shown:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Mon Nov 23")))
        if first in parsers:
            parsers[first]().parse_args(others)
        else:
            create_parser().parse_args([first, *others])
    assert len(shown) > 10


TORCHRUN = "torchrun --standalone --nproc-per-node 2 -m visualizer "


def run_shell_command(line: str) -> None:
    """Run a line in a shell, because it has a pipe or starts torchrun."""
    program = f'attention-visualizer() {{ "{sys.executable}" "{ROOT / "main.py"}" "$@"; }}'
    torchrun = f'torchrun() {{ "{sys.executable}" -m torch.distributed.run "$@"; }}'
    done = subprocess.run(
        ["bash", "-c", "\n".join(["set -euo pipefail", program, torchrun, line])],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def run_command_line(line: str) -> None:
    """Run a line in this process, unless it requires a shell or several processes.

    Resuming with several processes is tested in ``tests/language/test_distributed_training.py``, so
    this process resumes such runs.
    """
    line = re.sub(f"^{TORCHRUN}(train --resume )", r"attention-visualizer \1", line)
    command, _, file = line.partition(" > ")
    words = shlex.split(command)
    if words[0] != "attention-visualizer" or "|" in words:
        run_shell_command(line)
        return
    with (
        Path(file or os.devnull).open("w", encoding="utf-8") as opened,
        redirect_stdout(opened if file else sys.stdout),
    ):
        assert main(words[1:]) == 0, line
    assert not file or Path(file).stat().st_size > 0, line


@pytest.fixture
def short_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate a few batches, because evaluation would take longer than the training."""
    monkeypatch.setattr(training_run, "FINAL_EVALUATION_BATCHES", 2)
    monkeypatch.setattr(training_run, "VALIDATION_TOKENS", 400)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TEXTS if run_blocks(name, "sh")])
@pytest.mark.usefixtures("application", "short_evaluation")
@pytest.mark.filterwarnings("ignore::UserWarning")  # libraries warn about small models
def test_every_block_of_commands_runs(name: str, with_model: Path) -> None:
    folder = with_model.parents[1]
    if name in GIVEN:
        run_python(name)
    script = "\n".join(run_blocks(name, "sh")).replace("\\\n", " ")
    few = re.sub(r"--steps \d+", "--steps 4", script).replace(
        "--preset brackets", "--preset brackets --steps 4 --size 2000"
    )
    few = re.sub("--out (runs/)", r"--batch 4 --out \1", few)
    few = few.replace("--export cat.gif", "--size 320x180px --export cat.gif")
    resumed = re.sub(r"(--resume \S+ +--steps) 4", r"\1 6", few)
    for line in filter(None, resumed.splitlines()):
        run_command_line(line)
    written = re.findall(r"(?:--export|--heads|>) (\S+\.\w+)", resumed)
    assert written
    for file in written:
        assert [*folder.glob(file), *folder.glob(file.replace(".", "*."))], file


@pytest.mark.slow
def test_the_command_that_serves_a_model_serves_it(with_model: Path) -> None:
    command = f"attention-visualizer serve models/{with_model.name}".split()
    assert [shlex.join(command)] in [
        block.splitlines() for block in blocks(TEXTS["how-to/large-models.md"], "sh")
    ]
    with subprocess.Popen(
        [sys.executable, ROOT / "main.py", *command[1:], "--port", "0"],
        cwd=with_model.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        served, token = process.stdout.readline(), process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert served.startswith(f"{with_model.name} is served at 127.0.0.1:")
    assert token.startswith("Token: ")


# ------------------------------------------------------------------------------------- code


def run_python(name: str) -> None:
    """Run the Python blocks of a page in order, with variables that replace untested blocks."""
    code = "\n".join(run_blocks(name, "python"))
    exec(compile(code, name, "exec"), GIVEN.get(name, dict)())


@pytest.mark.parametrize(
    "name", [name for name in TEXTS if run_blocks(name, "python") and name != GENERATED]
)
@pytest.mark.usefixtures("application", "trained", "with_model")
@pytest.mark.filterwarnings("ignore::UserWarning")  # libraries warn about small models
def test_every_block_of_python_runs(name: str) -> None:
    run_python(name)
    opened = visualizer.load("attn.npz")
    assert isinstance(opened, visualizer.Attention)
    if name == "reference/file-formats.md":
        assert opened.tokens == ("The", "cat", "sat")
        assert opened["weights"].shape == (2, 4, 3, 3)


@pytest.mark.usefixtures("application", "examples")
def test_attention_from_nnsight_is_opened_unchanged() -> None:
    run_python("how-to/nnsight.md")
    opened = visualizer.load("captured.safetensors")
    weights = given_by_nnsight()["weights"]
    assert opened.tokens == ("The", " cat", " sat", " on")
    np.testing.assert_array_equal(opened["weights"], torch.stack(weights).detach().float().numpy())


def test_the_lesson_that_is_shown_can_be_read() -> None:
    (lesson,) = blocks(TEXTS["how-to/write-lessons.md"], "toml")
    read = read_lesson(lesson, "mine.toml", PrintedNumbers({}))
    assert [page.title for page in read.pages] == [
        "No word attends to later words",
        "Without the mask",
    ]


def test_every_block_is_run_or_is_in_the_table() -> None:
    for name, text in TEXTS.items():
        found = blocks_of(text)
        fences = re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)
        assert len(fences) == 2 * len(found), name
        tried = ["python", "sh", *(["toml"] if name == "how-to/write-lessons.md" else [])]
        lines = [block.first_line for block in found if block.first_line in NOT_RUN.get(name, {})]
        assert lines == [*NOT_RUN.get(name, {})], name  # each exists exactly once
        run = sum(len(run_blocks(name, language)) for language in tried)
        assert run + len(lines) == len(found), name


def test_the_table_names_no_page_that_is_gone() -> None:
    assert set(NOT_RUN) | set(GIVEN) <= set(TEXTS)
    assert all(reason for page in NOT_RUN.values() for reason in page.values())
