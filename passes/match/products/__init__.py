"""Products of rows and a constant matrix, of a batch of matrices, and attention, which consists of these."""
