"""A network of each family of pytorchcv and of timm."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest
from types import MappingProxyType

from benchmarks.networks import pytorchcv_networks, timm_networks


def _in_turns(*lists: Iterable[str]) -> list[str]:
    """The first of each, the second of each, and so on."""
    return [name for name in chain.from_iterable(zip_longest(*lists)) if name is not None]


_NETWORKS = {**pytorchcv_networks.FAMILIES, **timm_networks.FAMILIES}
_DISTINCT = _in_turns(timm_networks.ARCHITECTURES, pytorchcv_networks.SMALL_FAMILIES)

FAMILIES = MappingProxyType({name: _NETWORKS[name] for name in dict.fromkeys([*_DISTINCT, *_NETWORKS])})
"""The networks by name, first those that take least and have most of their own."""

SMALL_FAMILIES = (
    "nin_cifar10",
    "alexnetb",
    "proxylessnas_mobile",
    "preresnet20_cifar10",
    "bagnet9",
    "regnetx002",
    "fractalnet_cifar10",
    "bam_resnet18",
    "fdmobilenet_w1",
    "resnet20_cifar10",
    "peleenet",
    "diaresnet20_cifar10",
    "efficientnet_b0",
    "seresnet20_cifar10",
    "mobilenetv2_w1",
    "dla46xc",
    "ghostnet",
    "shufflenetv2_w1",
    "enet_cityscapes",
    "squeezenet_v1_1",
)
"""Of these 20 that are compiled in seconds, for what compiles each often."""
