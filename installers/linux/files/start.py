"""Starts the program; its name is that of the command, which the system shows for its windows."""

from visualizer.__main__ import main

raise SystemExit(main())
