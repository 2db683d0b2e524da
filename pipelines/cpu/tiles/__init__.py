"""Transforms of tiles, and the layouts of the images that they read and write."""
