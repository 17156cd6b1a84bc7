"""Writers of animations: GIF, APNG, WebP and MP4."""
