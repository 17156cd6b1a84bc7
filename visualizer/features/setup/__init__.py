"""Settings bar: text, sizes, heads, mask and dropout."""
