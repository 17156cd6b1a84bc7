"""A bar for scrubbing through snapshots of the weights."""
