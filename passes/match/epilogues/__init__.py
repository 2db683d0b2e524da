"""What is computed of each element behind a kernel's own work."""
