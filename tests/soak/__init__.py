"""Long random use of the whole program with real input events and injected faults."""
