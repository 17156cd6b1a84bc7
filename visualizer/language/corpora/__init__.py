"""Training texts: files, synthetic tasks and generated stories."""
