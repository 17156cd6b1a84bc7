"""The text: tokenizers, corpora, language models and their training."""
