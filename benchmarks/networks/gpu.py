"""The networks that calls on GPUs are measured with, as their libraries make them."""

from __future__ import annotations

from types import MappingProxyType

from torch import nn

from benchmarks.networks import denoising, diffusion, timm_networks
from benchmarks.networks.diffusion import LATENT_CHANNELS, VaeDecoder
from benchmarks.networks.network import Network
from benchmarks.networks.pytorchcv_networks import flattening, member
from benchmarks.networks.unet import UNet
from benchmarks.networks.yolo import Yolo


def _timm(name: str, size: int = 224) -> Network:
    # timm's exportable networks have attention without fused kernels.
    return timm_networks.member(name, size)


def _torchvision(name: str, size: int, **options: None) -> Network:
    def build() -> nn.Module:
        from torchvision.models import get_model

        model: nn.Module = get_model(name, weights=None, **options)
        return model

    return Network(build, (3, size, size))


NETWORKS = MappingProxyType(
    {
        "timm_resnet18": _timm("resnet18"),
        "timm_efficientnet_b0": _timm("efficientnet_b0"),
        "timm_convnext_tiny": _timm("convnext_tiny"),
        "timm_mobilenetv3_large_100": _timm("mobilenetv3_large_100"),
        "timm_resnet50": _timm("resnet50"),
        "vae_decoder": Network(VaeDecoder, (LATENT_CHANNELS, 64, 64)),
        "denoising_unet": Network(denoising.DenoisingUNet, (LATENT_CHANNELS, 64, 64), denoising.conditions),
        "timm_vit_tiny_patch16_224": _timm("vit_tiny_patch16_224"),
        "timm_seresnet50": _timm("seresnet50"),
        "unet": Network(UNet, (1, 512, 512)),
        "timm_densenet121": _timm("densenet121"),
        "torchvision_deeplabv3_mobilenet_v3_large": _torchvision(
            "deeplabv3_mobilenet_v3_large", 512, weights_backbone=None
        ),
        "timm_regnety_002": _timm("regnety_002"),
        "timm_convnext_atto": _timm("convnext_atto"),
        "timm_swin_tiny_patch4_window7_224": _timm("swin_tiny_patch4_window7_224"),
        "timm_inception_v3": _timm("inception_v3", 299),
        "timm_xception41": _timm("xception41", 299),
        "shufflenetv2_w1": member("shufflenetv2_w1", (3, 224, 224)),
        "timm_ghostnet_100": _timm("ghostnet_100"),
        "vgg16": flattening("vgg16", (3, 224, 224)),
        "timm_mobilenetv2_100": _timm("mobilenetv2_100"),
        "yolo": Network(Yolo, (3, 640, 640)),
        "torchvision_fcn_resnet50": _torchvision("fcn_resnet50", 512, weights_backbone=None),
        "timm_repvgg_a0": _timm("repvgg_a0"),
        "timm_mobilenetv4_conv_small": _timm("mobilenetv4_conv_small"),
        "timm_hrnet_w18_small": _timm("hrnet_w18_small"),
        "timm_resnext50_32x4d": _timm("resnext50_32x4d"),
        "timm_mobilevit_xxs": _timm("mobilevit_xxs", 256),
        "timm_coatnet_nano_rw_224": _timm("coatnet_nano_rw_224"),
        "timm_efficientnetv2_rw_t": _timm("efficientnetv2_rw_t"),
        "darknet53": member("darknet53", (3, 224, 224)),
    }
)
"""By name, first those that most is known of. Names without a library's are of pytorchcv or written here."""

PARTS = MappingProxyType(
    {
        "diffusion_normalized_between": Network(lambda: diffusion.NormalizedBetween(128), (128, 512, 512)),
        "diffusion_block": Network(lambda: diffusion.ResidualBlock(256, 256), (256, 256, 256)),
        "diffusion_narrowing_block": Network(lambda: diffusion.ResidualBlock(512, 256), (512, 256, 256)),
        "diffusion_upsampling": Network(lambda: diffusion.Upsampling(512), (512, 128, 128)),
        "diffusion_attention": Network(lambda: diffusion.ConvolvedAttention(512), (512, 64, 64)),
    }
)
"""Of the decoder of Stable Diffusion's images at 512 x 512 pixels, measured when they are asked for."""

_COLORS = 3
_LARGE = 320
"""Pixels of a side of images that networks get one of at a time."""
_BATCHES = (1, 32)
_GUIDED = (2,)
"""Latents with and without a text, as classifier-free guidance has them."""


def batches(network: Network) -> tuple[int, ...]:
    """How many images a call of the network is measured with."""
    if network.build is denoising.DenoisingUNet:
        return _GUIDED
    large = network.input_shape[0] != _COLORS or network.input_shape[-1] > _LARGE
    return _BATCHES[:1] if large else _BATCHES
