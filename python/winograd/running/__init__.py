"""What `iree-winograd run` does with a program: its arguments, its time, its peers and its dispatches."""
