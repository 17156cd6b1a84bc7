"""Start the program from a checkout: ``python main.py``."""

from visualizer.app import main

if __name__ == "__main__":
    raise SystemExit(main())
