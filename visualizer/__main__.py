"""Entry point of the installed package: ``python -m visualizer``."""

from visualizer.app import main

if __name__ == "__main__":
    raise SystemExit(main())
