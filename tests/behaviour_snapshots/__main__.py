"""Write behaviour snapshots into a folder, or compare two such folders.

``python -m tests.behaviour_snapshots FOLDER [part …]`` writes pictures of the windows, texts of
their accessible trees, exported files and what the command line prints.

``python -m tests.behaviour_snapshots --compare BEFORE AFTER`` lists what differs. It is for changes
that must not change behaviour: take one folder before the change and one after it, on the same
machine, as fonts and torch's arithmetic differ between machines.
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
"""Each runs in a process of its own: a scale is read once, as Qt starts."""
ENVIRONMENT = {
    "COLUMNS": "100",
    "LC_ALL": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": str(ROOT),
    "QT_SCALE_FACTOR": "1",
    "TZ": "UTC",
}
"""What would otherwise depend on the person and the machine."""
SCREEN = {"name": "screen", "x": 0, "y": 0, "width": 1920, "height": 1080, "dpr": 1,
          "logicalDpi": 96, "logicalBaseDpi": 96}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; the exit status is 1 where something differs or a part failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.behaviour_snapshots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, nargs="?", help="what to write into; made if missing")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    parser.add_argument(
        "--differences", type=Path, metavar="FOLDER",
        help="where pictures of differences go (AFTER-differences)",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.compare:
        before, after = options.compare
        return compare(before, after, options.differences or Path(f"{after}-differences"))
    if options.folder is None:
        parser.error("name a FOLDER to write into, or --compare two of them")
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    failed = [part for part in options.parts or PARTS if not write(part, options.folder)]
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return int(bool(failed))


def write(part: str, folder: Path) -> bool:
    """Have a part written by a process of its own, in a place of its own; say whether it was."""
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
