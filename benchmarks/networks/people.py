"""Models that people bring: of the libraries that they are in, with random weights, each of one input.

What else a model takes, a time step or the encoding of a text for example, is fixed. A model whose library
isn't installed raises ImportError when it is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.networks.hifigan import HifiGan
from benchmarks.networks.network import Network
from benchmarks.networks.recognition import CRNN
from benchmarks.networks.yolo import Yolo


class Calling(nn.Module):
    """A model called by `call`, whose results are tensors."""

    def __init__(
        self, model: nn.Module, call: Callable[[Any, torch.Tensor], Any], **fixed: torch.Tensor
    ) -> None:
        super().__init__()
        self.model, self._call = model, call
        for name, value in fixed.items():
            self.register_buffer(name, value)

    def forward(self, images: torch.Tensor) -> Any:
        return self._call(self, images)


def _vae_decoder(channels: tuple[int, ...], layers: int) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from diffusers import AutoencoderKL

        model = AutoencoderKL(
            block_out_channels=channels,
            down_block_types=("DownEncoderBlock2D",) * len(channels),
            up_block_types=("UpDecoderBlock2D",) * len(channels),
            latent_channels=4,
            layers_per_block=layers,
        )
        model.encoder = nn.Identity()
        return Calling(model, lambda own, latents: own.model.decode(latents, return_dict=False)[0])

    return build


def _unet_2d() -> nn.Module:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=32,
        block_out_channels=(64, 128, 128),
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    )
    return Calling(
        model,
        lambda own, images: own.model(images, own.step, return_dict=False)[0],
        step=torch.tensor([10]),
    )


def _unet_condition() -> nn.Module:
    from diffusers import UNet2DConditionModel

    model = UNet2DConditionModel(
        sample_size=32,
        block_out_channels=(64, 128),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=128,
        attention_head_dim=8,
    )
    return Calling(
        model,
        lambda own, latents: own.model(latents, own.step, own.text, return_dict=False)[0],
        step=torch.tensor([10]),
        text=torch.randn(1, 77, 128),
    )


def _controlnet() -> nn.Module:
    from diffusers import ControlNetModel

    model = ControlNetModel(
        block_out_channels=(64, 128),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        cross_attention_dim=128,
        attention_head_dim=8,
        conditioning_embedding_out_channels=(16, 32),
    )
    # Before training what a ControlNet adds is zero.
    for added in (*model.controlnet_down_blocks, model.controlnet_mid_block):
        nn.init.xavier_uniform_(added.weight)
    return Calling(
        model,
        lambda own, latents: own.model(latents, own.step, own.text, own.condition, return_dict=False)[1],
        step=torch.tensor([10]),
        text=torch.randn(1, 77, 128),
        condition=torch.randn(1, 3, 64, 64),
    )


def _torchvision(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from torchvision.models import get_model

        model: nn.Module = get_model(name, weights=None)
        return model

    return build


def _torchvision_segmentation(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from torchvision.models import segmentation

        model = getattr(segmentation, name)(weights=None, weights_backbone=None)
        return Calling(model, lambda own, images: own.model(images)["out"])

    return build


def _raft() -> nn.Module:
    from torchvision.models.optical_flow import raft_small

    # The two frames are a batch.
    return Calling(
        raft_small(), lambda own, frames: own.model(frames[:1], frames[1:], num_flow_updates=4)[-1]
    )


def _timm(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from timm import create_model

        model: nn.Module = create_model(name, pretrained=False, exportable=True)
        return model

    return build


def _segmentation(architecture: str, encoder: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import segmentation_models_pytorch

        model: nn.Module = segmentation_models_pytorch.create_model(
            architecture, encoder_name=encoder, encoder_weights=None
        )
        return model

    return build


def transformer(model: str, output: str, **configuration: Any) -> Callable[[], nn.Module]:
    """A class of `transformers` by its name, of a default configuration but for what is said."""

    def build() -> nn.Module:
        import transformers

        kind = getattr(transformers, model)
        built = kind(kind.config_class(**configuration))
        return Calling(built, lambda own, images: getattr(own.model(images), output))

    return build


def whisper_encoder(**configuration: Any) -> Callable[[], nn.Module]:
    """The encoder of Whisper, of a default configuration but for what is said."""

    def build() -> nn.Module:
        from transformers import WhisperConfig
        from transformers.models.whisper.modeling_whisper import WhisperEncoder

        model = WhisperEncoder(WhisperConfig(**configuration))
        return Calling(model, lambda own, sound: own.model(sound).last_hidden_state)

    return build


_IMAGE = (3, 224, 224)

MODELS: dict[str, Network] = {
    "crnn": Network(CRNN, (1, 32, 160)),
    "timm_mobilenetv4_conv_small": Network(_timm("mobilenetv4_conv_small"), _IMAGE),
    "timm_levit_128s": Network(_timm("levit_128s"), _IMAGE),
    "timm_convnext_atto": Network(_timm("convnext_atto"), _IMAGE),
    "hifigan": Network(HifiGan, (80, 64)),
    "diffusers_controlnet": Network(_controlnet, (4, 32, 32)),
    "diffusers_unet_condition": Network(_unet_condition, (4, 32, 32)),
    "diffusers_unet2d": Network(_unet_2d, (3, 32, 32)),
    "timm_vit_tiny": Network(_timm("vit_tiny_patch16_224"), _IMAGE),
    "torchvision_mobilenet_v3_large": Network(_torchvision("mobilenet_v3_large"), _IMAGE),
    "torchvision_resnet18": Network(_torchvision("resnet18"), _IMAGE),
    "timm_efficientformer_l1": Network(_timm("efficientformer_l1"), _IMAGE),
    "torchvision_lraspp_mobilenet": Network(_torchvision_segmentation("lraspp_mobilenet_v3_large"), _IMAGE),
    "torchvision_deeplabv3_mobilenet": Network(
        _torchvision_segmentation("deeplabv3_mobilenet_v3_large"), _IMAGE
    ),
    "hf_mobilevit": Network(transformer("MobileViTModel", "last_hidden_state"), (3, 256, 256)),
    "hf_resnet18": Network(
        transformer(
            "ResNetModel",
            "last_hidden_state",
            depths=[2, 2, 2, 2],
            hidden_sizes=[64, 128, 256, 512],
            layer_type="basic",
        ),
        _IMAGE,
    ),
    "yolo": Network(Yolo, (3, 320, 320)),
    "hf_segformer": Network(transformer("SegformerForSemanticSegmentation", "logits"), _IMAGE),
    "segmentation_deeplabv3plus_mobilenet": Network(_segmentation("deeplabv3plus", "mobilenet_v2"), _IMAGE),
    "segmentation_fpn_resnet18": Network(_segmentation("fpn", "resnet18"), _IMAGE),
    "segmentation_unet_resnet18": Network(_segmentation("unet", "resnet18"), _IMAGE),
    "torchvision_efficientnet_b0": Network(_torchvision("efficientnet_b0"), _IMAGE),
    "hf_whisper_encoder": Network(
        whisper_encoder(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536),
        (80, 3000),
    ),
    "torchvision_resnet50": Network(_torchvision("resnet50"), _IMAGE),
    "diffusers_vae_decoder_small": Network(_vae_decoder((32, 64, 64), 1), (4, 32, 32)),
    "torchvision_swin_t": Network(_torchvision("swin_t"), _IMAGE),
    "torchvision_convnext_tiny": Network(_torchvision("convnext_tiny"), _IMAGE),
    "hf_dinov2_small": Network(
        transformer("Dinov2Model", "last_hidden_state", hidden_size=384, num_attention_heads=6), _IMAGE
    ),
    "torchvision_raft_small": Network(_raft, (3, 128, 128)),
    "diffusers_vae_decoder": Network(_vae_decoder((128, 256, 512, 512), 2), (4, 32, 32)),
}
"""By name, the smallest first."""

FRAMES = {"torchvision_raft_small": 2}
"""Images that a model takes at a time, where they aren't one."""
