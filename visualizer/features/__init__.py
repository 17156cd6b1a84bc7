"""One folder per feature; a feature never imports another feature."""
