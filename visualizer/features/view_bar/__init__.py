"""Controls of heads, zoom, arrangement and colours."""
