"""Programs on disk, and what they are kept by."""
