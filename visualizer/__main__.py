"""Start the program from where it is installed: ``python -m visualizer``."""

from visualizer.app import main

if __name__ == "__main__":
    raise SystemExit(main())
