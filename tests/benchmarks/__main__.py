"""Measure everything and print it: ``python -m tests.benchmarks [part …] [--repeats N]``.

Drawn without a screen, or on the one that ATTENTION_VISUALIZER_TEST_PLATFORM names (``xcb``).
"""

from __future__ import annotations

import argparse
import os
import platform

PARTS = (
    *("toggles", "startup", "heartbeat", "memory", "playback", "lines", "reading", "exports"),
    *("worker", "training", "lab"),
)
FEWEST = 15


def main() -> int:
    """Print the tables; the exit status says whether every target was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--repeats", type=int, default=FEWEST)
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}")
    missed = sum(_measure(part, options.repeats) for part in options.parts or PARTS)
    print(f"\n{missed or 'No'} targets missed" if missed != 1 else "\n1 target missed")
    return int(bool(missed))


def _measure(part: str, repeats: int) -> int:
    # Each part is imported when it is its turn: what one imports is no burden to another.
    from tests.benchmarks import (
        exports,
        heartbeat,
        lab,
        lines,
        memory,
        playback,
        reading,
        startup,
        training,
        worker,
    )

    if part != "toggles":
        modules = (startup, heartbeat, memory, playback, lines, reading, exports, worker)
        more = (training, lab)
        named = {one.__name__.rpartition(".")[2]: one for one in (*modules, *more)}[part]
        return int(named.measure(repeats))
    from tests.benchmarks import stand, toggles

    with stand.application() as application:
        where = f"{application.platformName()}, Python {platform.python_version()}"
        print(f"{where}, {os.cpu_count()} cores; medians of {repeats} rounds")
        return toggles.measure(repeats)


if __name__ == "__main__":
    raise SystemExit(main())
