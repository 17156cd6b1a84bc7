"""Write behaviour snapshots into a folder, or compare two such folders.

``python -m tests.behaviour_snapshots FOLDER [part …]`` writes screenshots of the windows, their
accessibility trees as text, exported files and the output of the command line.

``python -m tests.behaviour_snapshots --compare BEFORE AFTER`` lists the differences. Use this for
changes that must not change behaviour: write a folder before the change and another after it, on
the same machine, because fonts and torch's results differ between machines.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.behaviour_snapshots.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("windows", "windows_at_scale_2", "lab", "commands")
"""The parts, each of which runs in a separate process, because Qt reads the scale only once."""
ENVIRONMENT = {
    "COLUMNS": "100",
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": str(ROOT),
    "QT_SCALE_FACTOR": "1",
    "TZ": "UTC",
}
"""Environment variables that could otherwise differ between users and machines."""
SCREEN = {"name": "screen", "x": 0, "y": 0, "width": 1920, "height": 1080, "dpr": 1,
          "logicalDpi": 96, "logicalBaseDpi": 96}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare folders; return exit status 1 if they differ or a part failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.behaviour_snapshots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, nargs="?", help="folder to write; created if missing")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    parser.add_argument(
        "--differences", type=Path, metavar="FOLDER",
        help="folder for images of the differences (default: AFTER-differences)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.compare:
        before, after = options.compare
        return compare(before, after, options.differences or Path(f"{after}-differences"))
    if options.folder is None:
        parser.error("FOLDER or --compare is required")
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part: {', '.join(sorted(unknown))}")
    failed = [part for part in options.parts or PARTS if not write(part, options.folder)]
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return int(bool(failed))


def write(part: str, folder: Path) -> bool:
    """Write a part in a separate process and temporary folder; return whether this succeeded."""
    (folder / part).mkdir(parents=True, exist_ok=True)
    scale = {"QT_SCALE_FACTOR": "2"} if part.endswith("scale_2") else {}
    with tempfile.TemporaryDirectory() as place:
        places = {f"XDG_{kind}_HOME": f"{place}/{kind.lower()}" for kind in ("CONFIG", "DATA")}
        screens = Path(place) / "screens.json"
        screens.write_text(json.dumps({"screens": [SCREEN]}))
        platform = {"QT_QPA_PLATFORM": f"offscreen:configfile={screens}"}
        command = [sys.executable, "-m", f"tests.behaviour_snapshots.{part.partition('_')[0]}"]
        ended = subprocess.run(
            [*command, str((folder / part).resolve())],
            cwd=place,
            env=os.environ | ENVIRONMENT | platform | scale | places,
            check=False,
        )
    files = sum(path.is_file() for path in (folder / part).rglob("*"))
    print(f"{part}: {files} files, exit status {ended.returncode}", flush=True)
    return ended.returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
