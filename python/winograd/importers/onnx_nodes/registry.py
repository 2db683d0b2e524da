"""Which operators of ONNX are written in others before a model is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from iree.winograd.importers.onnx_nodes.rewriting import Rewriting

Rewrite: TypeAlias = Callable[[Rewriting], None]
"""Adds the nodes that are to take the place of one; adds none where it is right as it is.

Raises `ModelImportError` for a form of the operator that can't be lowered.
"""

_REWRITES: dict[str, Rewrite] = {}
REWRITES: Mapping[str, Rewrite] = MappingProxyType(_REWRITES)


def rewrites(*operators: str) -> Callable[[Rewrite], Rewrite]:
    """Registers a rewrite of these operators."""

    def register(rewrite: Rewrite) -> Rewrite:
        for operator in operators:
            assert operator not in _REWRITES, f"{operator} has a rewrite already"
            _REWRITES[operator] = rewrite
        return rewrite

    return register
