"""The Tokens pane: the tokens of the text, their selection and search."""
