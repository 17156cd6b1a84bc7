"""Builds the file tree to install: the bundle and its desktop files."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from installers.linux.bytecode import compile_bytecode
from installers.linux.commands import run
from installers.linux.constants import EXTRAS, NAME, PROGRAM, ROOT
from installers.linux.desktop_files import FILES, write_desktop_files
from installers.linux.interpreter import (
    copy_interpreter,
    download_interpreter,
    find_interpreter,
    isolate_interpreter,
    require_cpu_build,
)
from installers.linux.licences import write_licences
from installers.linux.man_page import man_page
from installers.linux.pruning import prune, strip_symbols
from installers.linux.shared_libraries import bundle_interpreter_libraries
from visualizer.optional_packages import BUNDLE_INSTALLER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

PROGRAMS = re.compile(
    rf".*/{PROGRAM.as_posix()}/({NAME}|python3\.\d+)|.*/torch/bin/torch_shm_manager"
)
"""The only files that remain executable; packages mark other files as executable."""


def build_tree(
    work: Path,
    interpreter_folder: Path | None,
    pip_arguments: Sequence[str],
    built: datetime,
    pictures_url: str,
    report_progress: Callable[[str], None],
) -> Path:
    """Build the tree in an empty folder and return its path.

    Parameters
    ----------
    interpreter_folder : Path, optional
        The folder of the interpreter; None for Debian's interpreter.
    pip_arguments : sequence of str
        Additional arguments of pip, such as a package index.
    built : datetime
        The modification time of all files, and the date in the documents.
    pictures_url : str
        As in `metainfo`.
    """
    tree, unpacked = work / "tree", work / "unpacked"
    root = tree / "usr" / PROGRAM
    root.mkdir(parents=True)
    report_progress("Copying the interpreter…")
    source = find_interpreter(interpreter_folder) if interpreter_folder else None
    source = source or download_interpreter(unpacked)
    program = copy_interpreter(source, root)
    bundle_interpreter_libraries(root, program, source.folder / "lib", unpacked)
    report_progress("Installing the packages…")
    packages = root / "lib" / program.name / "site-packages"
    install_packages(program, packages, pip_arguments)
    require_cpu_build(packages)
    prune(packages)
    strip_symbols(packages)
    mark_as_bundle(packages)
    report_progress("Compiling the modules…")
    compile_bytecode(root, program, Path("/usr") / PROGRAM)
    isolate_interpreter(program)
    report_progress("Writing the desktop files…")
    write_launcher(tree, program.name)
    share = tree / "usr" / "share"
    write_desktop_files(share, built, pictures_url)
    documents = share / "doc" / NAME
    write_licences(packages, unpacked / "usr" / "share" / "doc", documents)
    write_gzip(documents / "NEWS.gz", (ROOT / "CHANGELOG.md").read_bytes())
    write_gzip(share / "man" / "man1" / f"{NAME}.1.gz", man_page(built).encode())
    make_uniform(tree, int(built.timestamp()))
    return tree


def install_packages(program: Path, packages: Path, pip_arguments: Sequence[str]) -> None:
    """Install the program and its dependencies for an interpreter, without compiling them."""
    wanted = f"{ROOT}[{','.join(EXTRAS)}]"
    pip = (sys.executable, "-m", "pip", "--python", program, "install", "--quiet", "--no-compile")
    where = ("--target", packages, "-c", ROOT / "constraints.txt")
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    run([*pip, *where, *pip_arguments, wanted], environment=environment)


def mark_as_bundle(packages: Path) -> None:
    """Record in the metadata of the program that it is in a bundle, to which nobody adds packages.

    The file INSTALLER is where installers enter their name.
    """
    (metadata,) = packages.glob("attention_visualizer-*.dist-info")
    (metadata / "INSTALLER").write_text(f"{BUNDLE_INSTALLER}\n", encoding="utf-8")


def write_launcher(tree: Path, program: str) -> None:
    """Write the command next to the interpreter, and a link to the command in ``usr/bin``."""
    root = tree / "usr" / PROGRAM
    text = (FILES / "launcher").read_text(encoding="utf-8").replace("{program}", program)
    (root / NAME).write_text(text, encoding="utf-8")
    (root / NAME).chmod(0o755)
    # The system shows the name of the file that Python runs, so it is named like the command.
    shutil.copyfile(FILES / "start.py", root / "lib" / NAME)
    link = tree / "usr" / "bin" / NAME
    link.parent.mkdir()
    link.symlink_to(f"../{PROGRAM.as_posix()}/{NAME}")


def write_gzip(path: Path, content: bytes) -> None:
    """Write a gzip file without name and time, as Debian requires for documents."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, 9, mtime=0))


def make_uniform(tree: Path, moment: int) -> None:
    """Set the same modification time, and permissions for all users, on all files."""
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            is_run = path.is_dir() or PROGRAMS.fullmatch(path.as_posix())
            path.chmod(0o755 if is_run else 0o644)
        os.utime(path, (moment, moment), follow_symlinks=False)


def remove(folder: Path) -> None:
    """Delete the output of an earlier build."""
    if folder.is_dir():
        shutil.rmtree(folder)
