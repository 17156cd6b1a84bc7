"""Comparing: what was kept with what is live, a head with a head, samples of dropout with none."""
