"""From operations to dispatches of kernels, a file for each kind of them."""
