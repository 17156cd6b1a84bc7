"""The steps of generated text in the lab."""
