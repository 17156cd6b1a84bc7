"""Builds the Debian package and the AppDir: ``python -m installers.linux --out FOLDER``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from installers.linux.app_dir import build_app_dir
from installers.linux.commands import require_programs
from installers.linux.debian_package import build_debian_package
from installers.linux.file_tree import build_tree, make_uniform, remove
from installers.linux.names_and_paths import ROOT
from installers.linux.shared_libraries import system_packages
from visualizer.errors import InputError


def main() -> int:
    """Build both and return the exit status."""
    options = build_parser().parse_args()
    try:
        require_programs()
        build(options)
    except InputError as refused:
        print(refused.sentence, file=sys.stderr)
        return 1
    return 0


def build(options: argparse.Namespace) -> None:
    """Build both into the folder of the options."""
    moment = source_moment()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    remove(out / "AttentionVisualizer.AppDir")
    with tempfile.TemporaryDirectory(dir=out, prefix="build-") as work:
        built = datetime.fromtimestamp(moment, UTC)
        tree = build_tree(Path(work), options.interpreter, options.pip, built, say)
        packages = system_packages(tree)
        say("The AppDir")
        app_dir = build_app_dir(tree, out)
        make_uniform(app_dir, moment)
        say("The Debian package")
        package = build_debian_package(tree, packages, out, moment)
    say(f"{package}: {package.stat().st_size / 1e6:.1f} MB")
    say(f"{app_dir}: appimagetool makes an AppImage of it")


def source_moment() -> int:
    """Return the time of the sources: ``SOURCE_DATE_EPOCH``, or that of the last commit.

    Raises
    ------
    InputError
        When there is neither.
    """
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    asked = ("git", "-C", ROOT, "log", "-1", "--format=%ct")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            "SOURCE_DATE_EPOCH",
            "These sources are no checkout of git: set SOURCE_DATE_EPOCH to the time that the "
            "files inside shall have, in seconds since 1970.",
        )
    return int(done.stdout)


def say(words: str) -> None:
    """Say how far the build is."""
    print(words, flush=True)


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of what the build is told."""
    made = argparse.ArgumentParser(
        prog="python -m installers.linux",
        description="Build the Debian package and the AppDir, with an interpreter inside.",
    )
    made.add_argument(
        "--out", type=Path, default=ROOT / "dist", metavar="FOLDER", help="(default: dist)"
    )
    made.add_argument(
        "--interpreter",
        type=Path,
        metavar="FOLDER",
        help="the interpreter to put inside: a folder with bin/python3.X and lib/python3.X, such "
        "as one of python-build-standalone (default: that of Debian 12, downloaded by apt-get)",
    )
    made.add_argument("pip", nargs="*", help="after --: what pip is told besides")
    return made


if __name__ == "__main__":
    raise SystemExit(main())
