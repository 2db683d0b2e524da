"""The schedules of the kernels as data, a file each, and whether one suits a convolution and a target."""
