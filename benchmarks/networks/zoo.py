"""All networks that hold what users may bring."""

from __future__ import annotations

from types import MappingProxyType

from benchmarks.networks.blocks import BLOCKS
from benchmarks.networks.pytorchcv_networks import FAMILIES

ZOO = MappingProxyType({**FAMILIES, **BLOCKS})
"""The networks by name."""
