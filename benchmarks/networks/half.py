"""The networks that half precision on CPUs is measured with."""

from __future__ import annotations

from types import MappingProxyType

from benchmarks.networks import diffusion
from benchmarks.networks.catalog import NETWORKS as CATALOG
from benchmarks.networks.convnext import ConvNeXt
from benchmarks.networks.network import Network
from benchmarks.networks.pytorchcv_networks import member

NETWORKS = MappingProxyType(
    {
        **{name: CATALOG[name] for name in ("resnet18", "resnet50", "vgg16", "mobilenetv2")},
        "efficientnet_b0": member("efficientnet_b0", (3, 224, 224)),
        "convnext_tiny": Network(ConvNeXt, (3, 224, 224)),
        "diffusion_block": Network(lambda: diffusion.ResidualBlock(320, 320), (320, 32, 32)),
        "vae_decoder": Network(diffusion.VaeDecoder, (diffusion.LATENT_CHANNELS, 16, 16)),
    }
)
"""By name: convolutions of 3x3 and 1x1, depthwise ones, linear layers, normalized groups and attention."""
