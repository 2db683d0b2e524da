"""Programs of their own for sizes that a program leaves open and that come often."""
