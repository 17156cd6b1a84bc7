"""View bar and Colours pane: heads, zoom, layout and colours."""
