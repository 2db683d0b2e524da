"""What moves, pools, resamples or computes elements of images."""
