"""Networks of the package timm: a small member of each of its architectures that convolve."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from torch import nn

from benchmarks.networks.network import Network


def member(name: str, size: int, **options: Any) -> Network:
    """The network of this name, for images of 3 x `size` x `size`; `options` are timm's."""

    def build() -> nn.Module:
        from timm import create_model

        model: nn.Module = create_model(name, pretrained=False, **options)
        return model

    return Network(build, (3, size, size))


def _members(size: int, *names: str) -> dict[str, Network]:
    return {f"timm_{name}": member(name, size, exportable=True) for name in names}


# The smallest of each architecture with the input it is made for, or that which authors name for phones. Of
# those that convolve only to make patches there is one, `vit_tiny_patch16_224`.
ARCHITECTURES = MappingProxyType(
    _members(
        224,
        "coat_tiny",
        "coatnet_nano_rw_224",
        "convmixer_768_32",
        "convnext_atto",
        "cpubone_nano",
        "cspnext_tiny",
        "davit_tiny",
        "dla46x_c",
        "dpn48b",
        "efficientformer_l1",
        "efficientformerv2_s0",
        "efficientnetv2_rw_t",
        "efficientvim_m1",
        "efficientvit_b0",
        "efficientvit_m0",
        "ese_vovnet19b_slim_dw",
        "fasternet_t0",
        "focalnet_tiny_srf",
        "gcvit_xxtiny",
        "ghostnetv2_100",
        "hardcorenas_a",
        "hgnetv2_b0",
        "hrnet_w18_small",
        "iformer_t",
        "inception_next_atto",
        "lcnet_050",
        "lcnetv2_small",
        "legacy_seresnet18",
        "levit_128s",
        "lowformer_b0",
        "mambaout_femto",
        "mobilenetv3_small_050",
        "mobilenetv4_conv_small",
        "mvitv2_tiny",
        "nextvit_small",
        "pit_ti_224",
        "poolformerv2_s12",
        "pvt_v2_b0",
        "rdnet_tiny",
        "regnety_002",
        "repghostnet_050",
        "repvgg_a0",
        "repvit_m1",
        "res2net50_14w_8s",
        "resnest14d",
        "resnetv2_18",
        "rexnet_100",
        "selecsls42",
        "shvit_s1",
        "skresnet18",
        "starnet_s050",
        "swiftformer_xs",
        "swin_tiny_patch4_window7_224",
        "tf_efficientnetv2_b0",
        "tiny_vit_5m_224",
        "tresnet_m",
        "twins_svt_small",
        "visformer_tiny",
        "vit_tiny_patch16_224",
        "vitamin_small_224",
        "xcit_nano_12_p8_224",
    )
    | _members(
        256,
        "botnet26t_256",
        "cs3darknet_focus_s",
        "eca_nfnet_l0",
        "edgenext_xx_small",
        "fastvit_t8",
        "halonet_h1",
        "maxvit_rmlp_pico_rw_256",
        "mobilevit_xxs",
        "mobilevitv2_050",
        "nf_regnet_b0",
        "resnet26d",
    )
    | _members(299, "xception41p")
    | _members(512, "csatv2")
)

# Beyond those above: what convolves to make patches alone, and families that pytorchcv has as well.
FAMILIES = MappingProxyType(
    dict(ARCHITECTURES)
    | _members(
        224,
        "beit_base_patch16_224",
        "cait_xxs24_224",
        "convit_tiny",
        "deit_tiny_patch16_224",
        "densenet121",
        "eva02_tiny_patch14_224",
        "hiera_tiny_224",
        "gmlp_ti16_224",
        "mixer_s32_224",
        "naflexvit_base_patch16_gap",
        "nest_tiny",
        "resmlp_12_224",
        "samvit_base_patch16_224",
        "sequencer2d_s",
        "swinv2_cr_tiny_224",
        "tnt_s_patch16_224",
        "vgg11",
        "vit_relpos_small_patch16_224",
        "vit_small_resnet26d_224",
        "volo_d1_224",
    )
    | _members(240, "crossvit_tiny_240")
    | _members(256, "mobilenetv5_300m", "qwen3_vit_88m", "swinv2_tiny_window8_256")
    | _members(299, "inception_resnet_v2", "inception_v3", "inception_v4", "legacy_xception")
    | _members(331, "nasnetalarge", "pnasnet5large")
    | _members(896, "sam2_hiera_tiny")
)
"""The smallest of each file of timm's, but for those of some hundred million weights."""
