"""The pixels: windows, widgets and pictures. No torch."""
