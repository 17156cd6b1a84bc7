"""Writers of numerical data: CSV, JSON, Markdown, NPZ and safetensors."""
