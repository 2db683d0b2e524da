"""All networks that hold what users may bring."""

from __future__ import annotations

from types import MappingProxyType

from benchmarks.networks.blocks import BLOCKS
from benchmarks.networks.pytorchcv_networks import FAMILIES
from benchmarks.networks.timm_networks import ARCHITECTURES

ZOO = MappingProxyType({**FAMILIES, **BLOCKS, **ARCHITECTURES})
"""The networks by name."""
