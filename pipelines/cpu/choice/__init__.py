"""By which schedule a convolution is computed: what each takes, and those that there are."""
