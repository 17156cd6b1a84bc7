"""The generated pages of the reference are complete, up to date and true."""

from __future__ import annotations

import doctest
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.reference_pages import python_api, shortcuts
from tests.reference_pages.python_api import Entry, list_all_entries
from tests.support.recordings import a_recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

PACKAGES = {
    "to_dataframe": "pandas", "to_xarray": "xarray", "plot": "matplotlib",
    "lightning_callback": "lightning",
}  # fmt: skip
"""Optional packages that the examples of methods require."""


class ExpectedOnly(doctest.OutputChecker):
    """Compares a result only if the example states one."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


@pytest.fixture(scope="module")
def variables(
    tmp_path_factory: pytest.TempPathFactory, tiny_model_folder: Path, run_folder: Path
) -> Iterator[dict[str, Any]]:
    """Return the variables of the examples, in a folder with a model and a training run."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(tiny_model_folder, folder / "models" / "SmolLM2-135M")
    shutil.copytree(run_folder, folder / "runs" / "poems")
    a_recording(folder / "runs" / "recorded", 0, 10, 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        found: dict[str, Any] = {}
        exec(python_api.START, found)
        yield found


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("module", [python_api, shortcuts], ids=lambda module: module.PAGE.stem)
def test_the_page_is_up_to_date(module: ModuleType) -> None:
    if module is shortcuts and sys.platform != "linux":
        pytest.skip("the page lists the shortcuts of Linux")
    page = module.PAGE.read_text(encoding="utf-8")
    assert page == module.create_page(), "run python -m tests.reference_pages"


def test_every_public_name_has_an_example() -> None:
    assert [entry.name for entry in list_all_entries() if not entry.examples] == []


@pytest.mark.slow
@pytest.mark.parametrize("entry", list_all_entries(), ids=lambda entry: entry.name)
@pytest.mark.usefixtures("application")
@pytest.mark.filterwarnings("ignore::UserWarning")  # libraries warn about small models
def test_every_example_runs(entry: Entry, variables: dict[str, Any]) -> None:
    pytest.importorskip(PACKAGES.get(entry.name.rpartition(".")[2], "visualizer"))
    printed: list[str] = []
    example = doctest.DocTest(entry.examples, {**variables}, entry.name, None, None, None)
    doctest.DocTestRunner(ExpectedOnly(), verbose=False).run(example, out=printed.append)
    assert not printed, "".join(printed)
