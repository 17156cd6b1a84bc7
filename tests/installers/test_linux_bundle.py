"""Parts of the build: interpreters, libraries, bytecode, licences and reproducible archives."""

from __future__ import annotations

import marshal
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType

import pytest

from installers.linux.__main__ import build_app_dir, source_timestamp
from installers.linux.bytecode import compile_bytecode
from installers.linux.constants import NAME, PROGRAM
from installers.linux.debian_package import build_debian_package
from installers.linux.desktop_files import write_icons
from installers.linux.file_tree import make_uniform, write_gzip, write_launcher
from installers.linux.interpreter import find_interpreter, isolate_interpreter, require_cpu_build
from installers.linux.licences import write_licences
from installers.linux.shared_libraries import BUNDLED_LIBRARIES, SYSTEM_LIBRARIES, glibc_of
from tests.architecture.project_graph import ROOT
from visualizer.errors import InputError

MOMENT = 1_700_000_000
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bundle is for Linux")
needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no Debian")


def interpreter_folder(folder: Path, version: str) -> Path:
    """Create a folder with the layout of an interpreter."""
    for file in (folder / "bin" / f"python{version}", folder / "lib" / f"python{version}/os.py"):
        file.parent.mkdir(parents=True)
        file.touch()
    return folder


def test_an_interpreter_is_found_in_its_folder(tmp_path: Path) -> None:
    found = find_interpreter(interpreter_folder(tmp_path, "3.12"))
    assert found.version == "3.12"
    assert found.program == tmp_path / "bin" / "python3.12"
    assert found.standard_library == tmp_path / "lib" / "python3.12"


def test_a_folder_without_an_interpreter_or_with_one_too_old_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Python 3\.11 or later"):
        find_interpreter(tmp_path)
    with pytest.raises(InputError, match=r"bin/python3\.X and lib/python3\.X"):
        find_interpreter(interpreter_folder(tmp_path, "3.10"))


def test_a_torch_with_cuda_is_rejected(tmp_path: Path) -> None:
    library = tmp_path / "torch" / "lib"
    library.mkdir(parents=True)
    (library / "libtorch_cpu.so").touch()
    require_cpu_build(tmp_path)
    (library / "libtorch_cuda.so").touch()
    with pytest.raises(InputError, match="CPU-only"):
        require_cpu_build(tmp_path)


def test_libraries_of_the_system_are_those_that_ci_installs() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    packages = script.partition("local packages=(")[2].partition(")")[0]
    for_qt = set(re.findall(r"lib[\w.-]+", packages)) - {"libs"}
    assert len(for_qt) > 10
    assert for_qt <= set(SYSTEM_LIBRARIES.values())
    assert not set(BUNDLED_LIBRARIES) & set(SYSTEM_LIBRARIES)


def test_an_interpreter_with_a_file_of_paths_heeds_no_environment(tmp_path: Path) -> None:
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard_library = Path(os.__file__).parent
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / name).symlink_to(standard_library)
    program = tmp_path / name
    shutil.copy2(Path(sys.executable).resolve(), program)
    isolate_interpreter(program)
    done = subprocess.run(
        [program, "-c", "import sys; print(*sys.path, sep='\\n')"],
        env={**os.environ, "PYTHONPATH": "/elsewhere", "PYTHONUSERBASE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [
        str(tmp_path / "lib" / name / part).rstrip("/")
        for part in ("", "lib-dynload", "site-packages")
    ], done.stderr


def code_objects(code: CodeType) -> list[CodeType]:
    """Return a code object and all code objects in it."""
    return [code, *(one for each in code.co_consts if isinstance(each, CodeType)
                    for one in code_objects(each))]  # fmt: skip


def test_bytecode_is_equal_in_every_build_and_names_the_place_of_installation(
    tmp_path: Path,
) -> None:
    built = []
    for name in ("one", "two"):
        root = tmp_path / name
        root.mkdir()
        for number in range(20):
            source = f"def f{number}(x):\n    return x in {{'a', 'b', 'c', {number}}}\n"
            (root / f"module{number}.py").write_text(source, encoding="utf-8")
        (root / "template.py").write_text("{{ name }} = = 1\n", encoding="utf-8")
        compile_bytecode(root, Path(sys.executable), Path("/usr/lib/there"))
        cached = sorted((root / "__pycache__").iterdir())
        built.append({path.name: path.read_bytes() for path in cached})
    assert built[0] == built[1]
    assert len(built[0]) == 20  # the template is not a module
    for name, content in built[0].items():
        assert int.from_bytes(content[4:8], "little") == 1, "to be compared with its source"
        module = name.partition(".")[0]
        for code in code_objects(marshal.loads(content[16:])):
            assert code.co_filename == f"/usr/lib/there/{module}.py"


def distribution(packages: Path, name: str, *lines: str) -> Path:
    folder = packages / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    head = (f"Name: {name}", "Version: 1.0", *lines)
    (folder / "METADATA").write_text("\n".join(head) + "\n\n", encoding="utf-8")
    return folder


@needs_dpkg
def test_licences_are_collected_and_listed(tmp_path: Path) -> None:
    packages, copyrights, documents = (tmp_path / name for name in ("packages", "debian", "doc"))
    own = distribution(packages, "one", "License-Expression: MIT")
    (own / "LICENSE").touch()
    other = distribution(
        packages, "two", "License: of many lines", "Classifier: License :: OSI Approved :: BSD"
    )
    (other / "licenses").mkdir()
    (other / "licenses" / "COPYING").touch()
    distribution(packages, "shiboken6", "License: LGPL-3.0-only")
    (copyrights / "libssl3").mkdir(parents=True)
    (copyrights / "libssl3" / "copyright").write_text("of OpenSSL", encoding="utf-8")
    write_licences(packages, copyrights, documents)
    page = (documents / "copyright").read_text(encoding="utf-8")
    assert "- one 1.0: MIT\n" in page
    assert "- two 1.0: of many lines\n" in page
    assert "- shiboken6 1.0: LGPL-3.0-only (LGPL-3, GPL-3)\n" in page
    assert (ROOT / "LICENSE").read_text(encoding="utf-8") in page
    assert (documents / "licences" / "debian-libssl3").read_text(encoding="utf-8") == "of OpenSSL"
    assert "GNU LESSER GENERAL PUBLIC" in (documents / "licences" / "LGPL-3").read_text("utf-8")


@needs_dpkg
@pytest.mark.parametrize("lines", [(), ("License: MIT",)])
def test_packages_without_a_licence_are_rejected(lines: tuple[str, ...], tmp_path: Path) -> None:
    distribution(tmp_path / "packages", "three", *lines)
    with pytest.raises(InputError, match=r"three .* licence"):
        write_licences(tmp_path / "packages", tmp_path, tmp_path / "doc")


def small_tree(folder: Path) -> Path:
    """Create a tree with a launcher, a menu entry, icons and a document, like a build."""
    tree = folder / "tree"
    (tree / "usr" / PROGRAM / "lib").mkdir(parents=True)
    write_launcher(tree, "python3.11")
    share = tree / "usr" / "share"
    (share / "applications").mkdir(parents=True)
    (share / "applications" / f"{NAME}.desktop").write_text("[Desktop Entry]\n", encoding="utf-8")
    write_icons(share / "icons" / "hicolor")
    write_gzip(share / "doc" / NAME / "NEWS.gz", b"Changes\n" * 100)
    make_uniform(tree, MOMENT)
    return tree


@needs_dpkg
def test_two_packages_of_the_same_tree_are_equal(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        package = build_debian_package(small_tree(folder), ["libc6", "libgl1"], folder, MOMENT)
        made.append(package.read_bytes())
    assert made[0] == made[1]
    field = ("dpkg-deb", "--field", str(package))
    shown = subprocess.run(field, capture_output=True, text=True, check=True).stdout
    assert "Package: attention-visualizer\n" in shown
    assert "Depends: libc6, libgl1\n" in shown
    contents = subprocess.run(
        ["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True,
        env={**os.environ, "TZ": "UTC"},
    ).stdout.splitlines()  # fmt: skip
    assert all("root/root" in line for line in contents)
    assert all(f"{datetime.fromtimestamp(MOMENT, UTC):%Y-%m-%d %H:%M}" in line for line in contents)
    listed = [line.split()[5] for line in contents]
    assert f"./usr/bin/{NAME}" in listed


@needs_dpkg
@pytest.mark.parametrize("mask", [0o027, 0o077])
def test_the_mask_of_who_builds_it_does_not_matter(mask: int, tmp_path: Path) -> None:
    made = []
    for name, each in (("usual", 0o022), ("strict", mask)):
        folder = tmp_path / name
        folder.mkdir()
        before = os.umask(each)
        try:
            package = build_debian_package(small_tree(folder), ["libc6"], folder, MOMENT)
        finally:
            os.umask(before)
        made.append(package.read_bytes())
    assert made[0] == made[1]


@needs_dpkg
def test_sums_are_those_of_the_files(tmp_path: Path) -> None:
    package = build_debian_package(small_tree(tmp_path), ["libc6"], tmp_path, MOMENT)
    unpacked = tmp_path / "unpacked"
    subprocess.run(["dpkg-deb", "--raw-extract", package, unpacked], check=True)
    sums = unpacked / "DEBIAN" / "md5sums"
    checked = subprocess.run(
        ["md5sum", "--strict", "--check", sums], cwd=unpacked, capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    files = [path for path in (unpacked / "usr").rglob("*") if path.is_file()]
    links = [path for path in files if path.is_symlink()]
    assert len(sums.read_text(encoding="utf-8").splitlines()) == len(files) - len(links)


def test_only_programs_can_be_run(tmp_path: Path) -> None:
    run = [f"{PROGRAM}/python3.11", f"{PROGRAM}/{NAME}", f"{PROGRAM}/torch/bin/torch_shm_manager"]
    read = [f"{PROGRAM}/python3.11._pth", f"{PROGRAM}/lib/{NAME}", f"{PROGRAM}/lib/cgi.py", NAME]
    for name in (*run, *read):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch(mode=0o755)
    make_uniform(tmp_path, MOMENT)
    assert [name for name in (*run, *read) if os.access(tmp_path / name, os.X_OK)] == run
    assert {(tmp_path / name).stat().st_mtime for name in (*run, *read)} == {MOMENT}


def test_the_c_library_that_a_file_needs_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    file.write_bytes(b"\x7fELF..\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_2.99x\0")
    assert glibc_of(file) == 34
    file.write_bytes(b"\x7fELF..")
    assert glibc_of(file) == 0


def test_an_app_dir_has_at_its_top_what_appimagetool_looks_for(tmp_path: Path) -> None:
    app_dir = build_app_dir(small_tree(tmp_path), tmp_path)
    assert (app_dir / "AppRun").readlink() == Path(f"usr/bin/{NAME}")
    assert (app_dir / "AppRun").resolve() == app_dir / "usr" / PROGRAM / NAME
    assert os.access(app_dir / "AppRun", os.X_OK)
    assert (app_dir / f"{NAME}.desktop").is_file()
    assert (app_dir / ".DirIcon").resolve().read_bytes().startswith(b"\x89PNG")


def test_the_launcher_starts_the_interpreter_next_to_it_by_whatever_link(tmp_path: Path) -> None:
    tree = tmp_path / "tree of a build"
    (tree / "usr" / PROGRAM / "lib").mkdir(parents=True)
    write_launcher(tree, "stand-in")
    stand_in = tree / "usr" / PROGRAM / "stand-in"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    stand_in.chmod(0o755)
    link = tmp_path / "linked"
    link.symlink_to(tree / "usr" / "bin" / NAME)
    done = subprocess.run([link, "a b", "--c"], capture_output=True, text=True, check=True)
    started = tree / "usr" / PROGRAM / "lib" / NAME
    assert done.stdout.splitlines() == [str(started), "a b", "--c"]


def test_the_launcher_starts_the_program(tmp_path: Path) -> None:
    (tmp_path / "usr" / PROGRAM / "lib").mkdir(parents=True)
    write_launcher(tmp_path, "python3.11")
    started = tmp_path / "usr" / PROGRAM / "lib" / NAME
    done = subprocess.run(
        [sys.executable, started, "--version"], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(f"{NAME} "), done.stderr


def test_the_moment_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert source_timestamp() == 86400
