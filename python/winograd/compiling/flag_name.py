"""The names of flags as they are written."""

from __future__ import annotations


def flag_name(flag: str) -> str:
    """Of `--name=value` or `--name`: what is before the value, without dashes in front."""
    return flag.lstrip("-").partition("=")[0]
