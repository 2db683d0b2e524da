"""Which implementation computes a convolution: what is on offer, predicted and measured, and the choice."""
