"""What is known of values: constants, their types, the ranges of numbers."""
