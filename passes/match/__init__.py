"""What passes look for in a program. Nothing here builds or changes anything."""
