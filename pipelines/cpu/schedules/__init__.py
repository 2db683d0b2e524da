"""The schedules of the kernels as data, a file each, and whether one fits a convolution and a target."""
