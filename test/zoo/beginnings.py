"""The beginnings of networks of many families."""

from __future__ import annotations

from torch import nn

from benchmarks.networks.network import Network

# Each with a kind of unit of its own: how many units after the first convolutions show it.
BEGINNINGS = {
    "cbam_resnet18": 1,
    "condensenet74_c8_g8": 2,
    "densenet40_k12_bc_cifar10": 2,
    "ghostnet": 1,
    "mixnet_s": 1,
    "shufflenet_g1_w1": 2,
    "sknet50": 1,
}


def beginning(network: Network, units: int) -> Network:
    """The first convolutions of a network and so many units of its stages, for small images."""

    def build() -> nn.Module:
        first, *stages = network.build().get_submodule("features").children()
        return nn.Sequential(first, *[unit for stage in stages for unit in stage.children()][:units])

    return Network(build, (3, 32, 32))
