"""A warning about exported programs that hold for some of the sizes that they take."""

from __future__ import annotations


class SizeWarning(UserWarning):
    """A program whose sizes are open was exported for those alone at which something has a known size."""
