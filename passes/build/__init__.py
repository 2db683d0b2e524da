"""What passes build with. Nothing here changes what is there."""
