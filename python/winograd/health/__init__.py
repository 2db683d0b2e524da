"""What `iree-winograd doctor` looks at: packages, processor, devices, commands and files."""
