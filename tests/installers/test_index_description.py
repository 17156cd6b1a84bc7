"""The description for package indexes has no links that work only in the repository."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.architecture.project_graph import ROOT
from visualizer.version import __version__
from visualizer.widgets.documentation_pages import find_links

index_description = pytest.importorskip("installers.index_description", exc_type=ImportError)
README = (ROOT / "README.md").read_text(encoding="utf-8")
TARGETS = [target for _, target in find_links(README)]


def test_links_lead_to_the_files_of_the_release() -> None:
    text = index_description.create_description(README, "https://host.org/me/it.git", "v1.2.3")
    found = [target for _, target in find_links(text)]
    assert [
        re.sub(r"https://host.org/me/it/(raw|blob)/v1.2.3/", "", each) for each in found
    ] == TARGETS
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert pictures
    assert all("/raw/" in each for each in pictures)
    assert "git clone https://host.org/me/it attention-visualizer" in text
    assert index_description.PLACEHOLDER not in text


def test_without_an_address_there_are_no_pictures_and_no_links() -> None:
    text = index_description.create_description(README, "", "v1.2.3")
    assert find_links(text) == []
    assert "![" not in text
    assert "The first five minutes" in text


def test_the_citation_is_that_of_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lines[0] == "cff-version: 1.2.0"
    assert f"version: {__version__}" in lines
    assert f"license: {project['license']}" in lines
    assert f"  - name: {project['authors'][0]['name']}" in lines
