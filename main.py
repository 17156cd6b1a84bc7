"""Start the program from a checkout: ``python main.py``."""

from visualizer.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
