"""Numbers with units, for readers."""

from __future__ import annotations

_PREFIXES = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)
_BINARY_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_THREE_DIGITS = 0.9995
"""What three digits round up to 1."""


def quantity(value: float, unit: str) -> str:
    """`value`, not negative, with three digits and the prefix of `unit` that keeps it below 1000."""
    for scale, prefix in _PREFIXES:
        if value >= _THREE_DIGITS * scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def binary_size(count: int) -> str:
    """A number of bytes with three digits and a unit that is a power of 1024."""
    for unit, name in _BINARY_UNITS:
        if count >= unit:
            value = count / unit
            return f"{value:.0f} {name}" if value >= 100 else f"{value:.3g} {name}"
    return f"{count} B"
