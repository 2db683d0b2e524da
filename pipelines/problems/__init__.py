"""What a backend is told: its target, and of each convolution the ops, the shape and the schedule."""
