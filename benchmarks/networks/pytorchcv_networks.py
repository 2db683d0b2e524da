"""Networks of the package pytorchcv: any of them by name, and a member of each of its families."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

from benchmarks.networks.network import Network


def member(name: str, input_shape: tuple[int, ...], **options: Any) -> Network:
    """The network of this name; `options` are those of its constructor."""

    def build() -> nn.Module:
        from pytorchcv.model_provider import get_model

        # RegNet and NTS-Net use an alias that numpy no longer has.
        with mock.patch.object(np, "int", int, create=True):
            model: nn.Module = get_model(name, pretrained=False, **options)
        return model

    return Network(build, input_shape)


def flattening(name: str, input_shape: tuple[int, ...]) -> Network:
    """The network of this name, of features that are flattened and an output, in any memory format."""
    return Network(lambda: _Flattening(member(name, input_shape).build()), input_shape)


class _Flattening(nn.Module):
    """A network of pytorchcv whose features may be channels-last: pytorchcv would ask for a view of them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.features, self.output = model.get_submodule("features"), model.get_submodule("output")

    def forward(self, x: torch.Tensor) -> Any:
        return self.output(self.features(x).flatten(1))


class _FixedArguments(nn.Module):
    """A network whose further arguments stay as they are; `arguments` makes them for a batch."""

    def __init__(self, model: nn.Module, arguments: Callable[[int], tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.model = model
        self._arguments = arguments

    def forward(self, x: torch.Tensor) -> Any:
        fixed = self._arguments(x.shape[0])
        return self.model(x, *(each.to(x.dtype) if each.is_floating_point() else each for each in fixed))


def _speech(name: str) -> Network:
    """On spectra of 64 bands and 640 steps in time, all of which belong to the sound."""

    def build() -> nn.Module:
        model = member(name, (), from_audio=False).build()
        return _FixedArguments(model, lambda batch: (torch.full((batch,), 640),))

    return Network(build, (64, 640))


def _voca() -> nn.Module:
    """Speaks as the first of its persons."""
    return _FixedArguments(member("voca8flame", ()).build(), lambda batch: (torch.zeros(batch),))


def _voice_puppetry() -> nn.Module:
    """Speaks as the first of its persons, whose weights pytorchcv leaves to be loaded."""
    model = member("nvpattexp116bazel76", ()).build()
    nn.init.kaiming_uniform_(model.get_parameter("decoder.weight"))
    return _FixedArguments(model, lambda batch: (torch.zeros(batch, dtype=torch.long),))


class _Reversible(nn.Module):
    """A block of RevNet without what saves memory in training, which torch can't export."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.first, self.second = block.get_submodule("fm"), block.get_submodule("gm")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x1, x2 = x.chunk(2, dim=1)
        y1 = x1 + self.first(x2)
        return torch.cat([y1, x2 + self.second(y1)], dim=1)


def _revnet() -> nn.Module:
    from pytorchcv.models.revnet import ReversibleBlock

    model = member("revnet38", ()).build()
    for unit in list(model.modules()):
        for name, block in unit.named_children():
            if isinstance(block, ReversibleBlock):
                setattr(unit, name, _Reversible(block))
    return model


class _SuperPoint(nn.Module):
    """SuperPoint up to where its results decide what is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.model = member("superpointnet", ()).build()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.model.features(x)
        points = self.model.detector.detector(features).softmax(dim=1)
        return points, nn.functional.normalize(self.model.descriptor.head(features))


class _NtsNet(nn.Module):
    """NTS-Net up to where its results decide what is computed: numpy cuts out the parts that it sees next.

    Results are scores of the whole image, and how informative its regions are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.model = member("ntsnet_cub", ()).build()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.model.backbone(x)
        scores = self.model.backbone_classifier(self.model.backbone_tail(features))
        return scores, self.model.navigator_unit(features)


def _linknet() -> nn.Module:
    """As `linknet_cityscapes`, which drops a layer of the backbone in a way that renames the others."""
    from pytorchcv.models.linknet import get_linknet
    from pytorchcv.models.resnet import resnet18

    model: nn.Module = get_linknet(resnet18().features, backbone_out_channels=512, in_size=(256, 512))
    return model


def _members(size: tuple[int, int], *names: str) -> dict[str, Network]:
    return {name: member(name, (3, *size)) for name in names}


def _resized_members(size: tuple[int, int], *names: str) -> dict[str, Network]:
    return {name: member(name, (3, *size), in_size=size) for name in names}


# The smallest of each, or the one that the authors measure where that is a network for phones.
FAMILIES = MappingProxyType(
    _members(
        (32, 32),
        "densenet40_k12_bc_cifar10",
        "diapreresnet20_cifar10",
        "diaresnet20_cifar10",
        "fractalnet_cifar10",
        "msdnet22_cifar10",
        "nin_cifar10",
        "preresnet20_cifar10",
        "pyramidnet110_a48_cifar10",
        "resdropresnet20_cifar10",
        "resnet20_cifar10",
        "resnext20_32x2d_cifar10",
        "rir_cifar10",
        "ror3_56_cifar10",
        "sepreresnet20_cifar10",
        "seresnet20_cifar10",
        "shakedropresnet20_cifar10",
        "shakeshakeresnet20_2x16d_cifar10",
        "wrn16_10_cifar10",
        "wrn20_10_1bit_cifar10",
        "xdensenet40_2_k24_bc_cifar10",
    )
    | _members(
        (224, 224),
        "airnet50_1x64d_r16",
        "airnext50_32x4d_r2",
        "alexnetb",
        "bagnet9",
        "bam_resnet18",
        "bninception",
        "cbam_resnet18",
        "channelnet",
        "condensenet74_c8_g8",
        "darknet53",
        "darknet_tiny",
        "darts",
        "densenet121",
        "diapreresnet10",
        "diaresnet10",
        "dicenet_wd5",
        "diracnet18v2",
        "dla46xc",
        "dpn68",
        "drnd22",
        "efficientnet_b0",
        "efficientnet_edge_small_b",
        "espnetv2_wd2",
        "fastseresnet101b",
        "fbnet_cb",
        "fdmobilenet_w1",
        "fishnet99",
        "ghostnet",
        "hardnet39ds",
        "hrnet_w18_small_v1",
        "ibn_densenet121",
        "ibn_resnet50",
        "ibn_resnext50_32x4d",
        "ibnb_resnet50",
        "igcv3_w1",
        "irevnet301",
        "isqrtcovresnet18",
        "menet228_12x1_g3",
        "mixnet_s",
        "mnasnet_b1",
        "mobilenet_w1",
        "mobilenetb_w1",
        "mobilenetv2_w1",
        "mobilenetv3_large_w1",
        "msdnet22",
        "nasnet_4a1056",
        "octresnet10_ad2",
        "peleenet",
        "preresnet10",
        "proxylessnas_mobile",
        "pyramidnet101_a360",
        "regnetx002",
        "resattnet56",
        "resnestabc14",
        "resnet10",
        "resneta10",
        "resnetd50b",
        "resnext14_32x2d",
        "scnet50",
        "selecsls42",
        "senet16",
        "sepreresnet10",
        "seresnet10",
        "seresnext50_32x4d",
        "sharesnet18",
        "shufflenet_g1_w1",
        "shufflenetv2_w1",
        "shufflenetv2b_w1",
        "sknet50",
        "sparsenet121",
        "spnasnet",
        "sqnxt23_w1",
        "squeezenet_v1_1",
        "vgg11",
        "vovnet27s",
        "wrn50_2",
        "xdensenet121_2",
        "zfnet",
    )
    | {"revnet38": Network(_revnet, (3, 224, 224))}
    | _members((299, 299), "inceptionresnetv1", "inceptionresnetv2", "inceptionv3", "inceptionv4", "xception")
    | _members((331, 331), "pnasnet5large", "polynet")
    # Whose anchors are those of this size.
    | {"ntsnet_cub": Network(_NtsNet, (3, 448, 448))}
    # Segmentation.
    | _members(
        (480, 480),
        "danet_resnetd50b_cityscapes",
        "deeplabv3_resnetd50b_cityscapes",
        "fcn8sd_resnetd50b_cityscapes",
        "icnet_resnetd50b_cityscapes",
        "pspnet_resnetd50b_cityscapes",
    )
    | _members((640, 480), "bisenet_resnet18_celebamaskhq")
    # A quarter of each side of what they are made for.
    | _resized_members(
        (256, 512),
        "cgnet_cityscapes",
        "ctxnet_cityscapes",
        "dabnet_cityscapes",
        "edanet_cityscapes",
        "enet_cityscapes",
        "erfnet_cityscapes",
        "esnet_cityscapes",
        "fastscnn_cityscapes",
        "fpenet_cityscapes",
        "lednet_cityscapes",
        "segnet_cityscapes",
        "sinet_cityscapes",
        "sqnet_cityscapes",
        "unet_cityscapes",
    )
    | {"linknet_cityscapes": Network(_linknet, (3, 256, 512))}
    # Poses, faces and objects.
    | {
        name: member(name, (3, 256, 192), return_heatmap=True)
        for name in (
            "alphapose_fastseresnet101b_coco",
            "simplepose_mobile_mobilenetv3_small_w1_coco",
            "simplepose_resnet18_coco",
        )
    }
    | _members((256, 256), "ibppose_coco", "prnet")
    | _members((368, 368), "lwopenpose2d_mobilenet_cmupan_coco")
    | {"centernet_resnet18_voc": member("centernet_resnet18_voc", (3, 512, 512), return_heatmap=True)}
    | _members((640, 640), "lffd20x5s320v2_widerface")
    | {
        "pfpcnet": member("pfpcnet", (1, 320, 240)),
        "superpointnet": Network(_SuperPoint, (1, 240, 320)),
    }
    # Sound.
    | {
        "jasper5x3": _speech("jasper5x3"),
        "jasperdr10x5_en": _speech("jasperdr10x5_en"),
        "quartznet5x5_en_ls": _speech("quartznet5x5_en_ls"),
        "voca8flame": Network(_voca, (1, 16, 29)),
        "nvpattexp116bazel76": Network(_voice_puppetry, (8, 16, 29)),
    }
)
"""A member of every family by name, but for those that differ in the number of classes alone.

It is the smallest one that authors measure; networks of cities see a quarter of each side of their images.
"""

SEGMENTING = tuple(name for name in FAMILIES if name.endswith(("_cityscapes", "_celebamaskhq")))
"""Of these those that score each pixel: images x classes x height x width."""

SMALL_FAMILIES = (
    "alexnetb",
    "bagnet9",
    "bam_resnet18",
    "cbam_resnet18",
    "darknet_tiny",
    "densenet40_k12_bc_cifar10",
    "diaresnet20_cifar10",
    "dicenet_wd5",
    "diracnet18v2",
    "dla46xc",
    "efficientnet_b0",
    "enet_cityscapes",
    "espnetv2_wd2",
    "fdmobilenet_w1",
    "fractalnet_cifar10",
    "ghostnet",
    "hardnet39ds",
    "igcv3_w1",
    "lednet_cityscapes",
    "menet228_12x1_g3",
    "mixnet_s",
    "mnasnet_b1",
    "mobilenetv2_w1",
    "mobilenetv3_large_w1",
    "msdnet22_cifar10",
    "nin_cifar10",
    "peleenet",
    "preresnet20_cifar10",
    "proxylessnas_mobile",
    "quartznet5x5_en_ls",
    "regnetx002",
    "resnet20_cifar10",
    "resnext20_32x2d_cifar10",
    "rir_cifar10",
    "seresnet20_cifar10",
    "shakeshakeresnet20_2x16d_cifar10",
    "shufflenet_g1_w1",
    "shufflenetv2_w1",
    "squeezenet_v1_1",
    "xdensenet40_2_k24_bc_cifar10",
)
"""Of these those that take the least to compute, 40 of them."""
