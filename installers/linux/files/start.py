"""Starts the program; named like the command, because the system shows the name for windows."""

from visualizer.__main__ import main

raise SystemExit(main())
