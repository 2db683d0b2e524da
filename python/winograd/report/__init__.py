"""The report on how each convolution of a program is computed, and why."""
