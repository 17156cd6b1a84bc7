"""The widgets of the language lab: each shows a value and says what a hand wants."""
