"""Run the benchmarks and print the results: ``python -m tests.benchmarks [part …] [--repeats N]``.

Windows are drawn offscreen, or on the platform in ATTENTION_VISUALIZER_TEST_PLATFORM (``xcb``).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS = (
    *(
        "toggles",
        "flow",
        "startup",
        "heartbeat",
        "memory",
        "playback",
        "lines",
        "reading",
        "exports",
    ),
    *(
        "worker",
        "training",
        "recording",
        "lab",
        "models",
        "model_memory",
        "model_typing",
        "long_texts",
    ),
    "slow_line",
)
OPTIONAL_PARTS = ("notebook_views",)
"""Parts that run only if they are named, because they require other tools and half an hour."""
FEWEST = 15


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return exit status 1 if a target was missed or a part failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parts = ", ".join(PARTS + OPTIONAL_PARTS)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {parts}")
    parser.add_argument("--repeats", type=int, default=FEWEST)
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - {*PARTS, *OPTIONAL_PARTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # all programs are compared on the CPU
    asked = os.environ.get("ATTENTION_VISUALIZER_TEST_PLATFORM")
    screen = asked or os.environ.get("QT_QPA_PLATFORM", "offscreen")
    where = f"{screen}, Python {platform.python_version()}, {os.cpu_count()} cores"
    print(f"{where}; medians of {options.repeats} rounds", flush=True)
    missed, failed = _measure_all(options.parts or PARTS, options.repeats)
    print(f"\n{missed or 'No'} targets missed" if missed != 1 else "\n1 target missed")
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return int(bool(missed or failed))


def _measure_all(parts: Sequence[str], repeats: int) -> tuple[int, list[str]]:
    """Run all parts; return the number of missed targets and the names of the failed parts."""
    missed, failed = 0, []
    for part in parts:
        try:
            # Import each module only when its part starts, so that its imports do not affect other
            # parts.
            missed += import_module(f"tests.benchmarks.{part}").measure(repeats)
        except Exception:  # noqa: BLE001 - it is printed whole, and the other parts go on
            failed.append(part)
            print(f"\n{part} FAILED", flush=True)
            traceback.print_exc(file=sys.stdout)
    return missed, failed


if __name__ == "__main__":
    raise SystemExit(main())
