"""Tokenizers, corpora, language models and their training."""
