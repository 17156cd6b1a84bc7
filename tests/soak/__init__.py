"""Long random use of the whole program by real input events, with faults."""
