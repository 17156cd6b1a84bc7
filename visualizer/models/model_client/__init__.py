"""Client of a model server: gives a model on another machine the interface of a local model."""
