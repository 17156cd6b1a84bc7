"""Entry point of the installed program, and of ``python -m visualizer``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.lazy_numpy import import_numpy_on_first_use

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, and return the exit status."""
    import_numpy_on_first_use()
    from visualizer.app import main as begin

    return begin(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
