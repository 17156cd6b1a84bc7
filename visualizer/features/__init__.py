"""One folder a feature; a feature never imports another feature."""
