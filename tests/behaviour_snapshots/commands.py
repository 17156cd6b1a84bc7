"""Output of the command line and the files it writes."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from visualizer.export.formats import FORMATS

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "documents"
MAIN = str(ROOT / "main.py")
SMALL = ("--block=8", "--width=8", "--heads=2", "--batch=4", "--size=2000", "--threads=1")
API = """
import inspect, visualizer
for name in visualizer.__all__:
    made = getattr(visualizer, name)
    if inspect.isfunction(made):
        print(name, inspect.signature(made))
    else:
        print(name, *sorted(part for part in vars(made) if part[0] != "_"))
        print("   ", *getattr(made, "__annotations__", {}))
"""

COMMANDS: dict[str, tuple[str, ...]] = {
    "help": (MAIN, "--help"),
    "help of the package": ("-m", "visualizer", "--help"),
    "help of lab": (MAIN, "lab", "--help"),
    "help of train": (MAIN, "train", "--help"),
    "help of generate": (MAIN, "generate", "--help"),
    "stages": (MAIN, "--list", "stages"),
    "version": (MAIN, "--version"),
    "api": ("-c", API),
    "reset settings": (MAIN, "--reset-settings"),
    # rejected commands
    "unknown option": (MAIN, "--hed", "2"),
    "no such file": (MAIN, "nothing.attention"),
    "not a document": (MAIN, "broken.attention"),
    "newer document": (MAIN, "newer.attention"),
    "heads do not divide": (MAIN, "--heads", "3", "--output-size", "4"),
    "no such mechanism": (MAIN, "--mechanism", "cross"),
    "dropout too large": (MAIN, "--dropout", "1.5"),
    "unknown suffix": (MAIN, "--export", "figure.bmp"),
    "no such folder": (MAIN, "--export", "nowhere/figure.png"),
    "theme without a file": (MAIN, "--theme", "dark"),
    "speed without a film": (MAIN, "--speed", "2", "--export", "figure.png"),
    "no such stage": (MAIN, "--stages", "wieghts", "--export", "figure.png"),
    "no such head": (MAIN, "--heads-shown", "9", "--export", "figure.png"),
    "module for captured attention": (MAIN, "captured-2.attention", "--heads", "2"),
    "no run to open": (MAIN, "lab", "nothing"),
    "train without a source": (MAIN, "train"),
    "train without a folder": (MAIN, "train", "repeat"),
    "train what does not divide": (MAIN, "train", "repeat", "--out", "odd", "--heads", "7"),
    "train no such file": (MAIN, "train", "nothing.txt", "--out", "odd"),
    "resume nothing": (MAIN, "train", "--resume", "nothing"),
    # successful commands
    "train": (MAIN, "train", "repeat", "--out", "run", "--steps", "40", "--quiet", *SMALL),
    "generate": (MAIN, "generate", "run", "--tokens", "50", "--seed", "1"),
    "resume": (MAIN, "train", "--resume", "run", "--steps", "60", "--quiet"),
    "train words": (MAIN, "train", "world", "--out", "words", "--steps", "5", "--quiet", *SMALL,
                    "--model", "transformer", "--decay", "cosine"),
}  # fmt: skip
FILMS = ("--span", "scores..context", "--speed", "4")
EXPORTS: dict[str, tuple[str, ...]] = {
    "usual": (),
    "batch with dropout": (
        *("--text", "The cat sat", "--text", "A dog ran home", "--dropout", "0.5", "--seed", "7"),
        *("--embedding-size", "8", "--output-size", "4", "--heads", "4", "--theme", "dark"),
        *("--size", "180mm", "--title", "A title", "--no-caption", "--dtype", "float64"),
    ),
    "simplified": ("--mechanism", "simplified", "--stages", "scores,weights", "--causal"),
    "captured": ("captured-2.attention",),
}


def main(folder: Path) -> int:
    """Run all commands in the current folder and write the results; return exit status 0."""
    for document in GOLDEN.glob("*.attention"):
        shutil.copy(document, document.name)
    _spoil()
    for name, arguments in COMMANDS.items():
        (folder / f"{name}.txt").write_text(run(*arguments))
    for run_ in ("run", "words"):
        for file in (Path(run_) / "run.json", Path(run_) / "losses.csv"):
            text = re.sub(r",[\d.]+$", ",…", file.read_text(), flags=re.M)  # a duration
            (folder / f"{run_} {file.name}").write_text(text)
        (folder / f"{run_} weights.txt").write_text(described(sorted(
            (Path(run_) / "snapshots").iterdir())[-1]))  # fmt: skip
    for name, options in EXPORTS.items():
        _export(folder, name, options)
    for document in sorted(GOLDEN.glob("*.attention")):
        _save_again(folder, document)
    return 0


def _spoil() -> None:
    """Write a file that is not a document, and a document of a future version."""
    Path("broken.attention").write_bytes(b"PK\x03\x04 and nothing else")
    with (
        zipfile.ZipFile("plain-2.attention") as old,
        zipfile.ZipFile("newer.attention", "w") as new,
    ):
        document = json.loads(old.read("document.json")) | {"schema": 999}
        new.writestr("document.json", json.dumps(document))


def run(*arguments: str) -> str:
    """Run Python; return its exit status and its output."""
    ended = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=600,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    whole = f"exit status {ended.returncode}\n--- stdout\n{ended.stdout}--- stderr\n{ended.stderr}"
    return whole.replace(str(Path.cwd()), "HERE").replace(str(ROOT), "ROOT")


def _export(folder: Path, name: str, options: tuple[str, ...]) -> None:
    """Export all formats, and describe the contents of binary files."""
    names = [f"{name}{each.suffix}" for each in FORMATS]
    asked = [part for file in names for part in ("--export", file)]
    (folder / f"export {name}.txt").write_text(run(MAIN, *options, *FILMS, *asked))
    for file in filter(Path.exists, map(Path, names)):
        if is_described(file):
            (folder / f"{file.name}.txt").write_text(described(file))
        else:
            shutil.copy(file, folder)


def _save_again(folder: Path, document: Path) -> None:
    """Open a document and save it in the current version."""
    again = Path(f"again {document.name}")
    said = run(MAIN, document.name, "--export", str(again))
    (folder / f"{document.stem} saved again.txt").write_text(said + described(again))


def is_described(file: Path) -> bool:
    """Return whether a file is compared by its content, because its bytes are not reproducible."""
    return file.suffix in {".npz", ".attention", ".safetensors", ".pdf"}


def described(file: Path) -> str:
    """Describe a file: its JSON and its texts, and the type, shape and digest of its arrays."""
    if file.suffix == ".safetensors":
        return _described_tensors(file.read_bytes())
    if file.suffix == ".pdf":
        return _described_page(file.read_bytes())
    lines = []
    with zipfile.ZipFile(file) as archive:
        for name in sorted(archive.namelist()):
            data = archive.read(name)
            if name.endswith(".npy"):
                array = np.load(io.BytesIO(data), allow_pickle=False)
                lines.append(f"{name}: {array.dtype} {array.shape} {_digest(array.tobytes())}")
            elif name.endswith(".json"):
                lines.append(f"{name}: {_sorted(data)}")
            else:
                lines.append(f"{name}: {data.decode('utf-8', 'backslashreplace')}")
    return "\n".join(lines) + "\n"


def _described_tensors(data: bytes) -> str:
    length = int.from_bytes(data[:8], "little")
    head, numbers = json.loads(data[8 : 8 + length]), data[8 + length :]
    lines = [f"metadata: {_sorted(json.dumps(head.pop('__metadata__', {})))}"]
    for name, told in sorted(head.items()):
        start, end = told["data_offsets"]
        lines.append(f"{name}: {told['dtype']} {told['shape']} {_digest(numbers[start:end])}")
    return "\n".join(lines) + "\n"


def _described_page(data: bytes) -> str:
    """List the objects of a PDF page without their numbers; the order of fonts is not defined."""
    data = re.sub(rb"\(D:\d{14}[^)]*\)", b"(D:)", data)
    data = re.sub(rb'(xmp:\w+Date=)"[^"]*"', rb'\1""', data)
    data = re.sub(rb"uuid:[0-9a-f-]{36}", b"uuid:", data)
    lines = []
    for found in re.findall(rb"\d+ 0 obj\n(.*?)\nendobj", data, re.DOTALL):
        head, _, stream = found.partition(b"\nstream\n")
        with suppress(zlib.error):
            stream = zlib.decompress(stream)
        head = re.sub(
            rb"(?<=/)[A-Z]{6}(?=\+)|\d+ 0 R", b"#", head
        )  # names of fonts and of other objects
        said = " ".join(head.decode("latin-1").split()).encode("unicode_escape").decode("ascii")
        lines.append(f"{said} {_digest(stream)}" if stream else said)
    return "\n".join(sorted(lines)) + "\n"


def _sorted(text: str | bytes) -> str:
    return json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
