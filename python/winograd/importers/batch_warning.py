"""A warning about models whose batch is only partly known."""

from __future__ import annotations


class BatchWarning(UserWarning):
    """What a model computes depends on its batch, which is imported as one that is known when running."""
