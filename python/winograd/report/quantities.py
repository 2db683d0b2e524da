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
_THREE_DIGITS = 0.9995
"""What three digits round up to 1."""


def quantity(value: float, unit: str) -> str:
    """`value`, not negative, with three digits and the prefix of `unit` that keeps it below 1000."""
    for scale, prefix in _PREFIXES:
        if value >= _THREE_DIGITS * scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
