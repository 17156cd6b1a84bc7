"""Writers of numbers: CSV, JSON, Markdown, NPZ and safetensors."""
