"""The kinds of processors that there are kernels for, and what each offers."""
