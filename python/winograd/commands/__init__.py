"""The subcommands of `iree-winograd`."""
