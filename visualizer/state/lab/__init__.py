"""The language lab: what a training and its model show, as values."""
