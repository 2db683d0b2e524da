"""Images of another's pixels: resized, pooled, or selected at positions that are computed."""
