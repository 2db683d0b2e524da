"""The networks that the benchmarks run unless another is asked for."""

from __future__ import annotations

from benchmarks.networks.googlenet import GoogLeNet
from benchmarks.networks.network import Network
from benchmarks.networks.pytorchcv_networks import member
from benchmarks.networks.unet import UNet

NETWORKS = {
    "alexnet": member("alexnet", (3, 224, 224)),
    "vgg16": member("vgg16", (3, 224, 224)),
    "resnet18": member("resnet18", (3, 224, 224)),
    "resnet50": member("resnet50", (3, 224, 224)),
    "resnet152": member("resnet152", (3, 224, 224)),
    "mobilenetv2": member("mobilenetv2_w1", (3, 224, 224)),
    "googlenet": Network(GoogLeNet, (3, 224, 224)),
    "inceptionv3": member("inceptionv3", (3, 299, 299)),
    "densenet161": member("densenet161", (3, 224, 224)),
    "unet": Network(UNet, (1, 256, 256)),
}
