"""View bar and Colours pane: controls for heads, zoom, layout and colours."""
