"""Models that people bring, with few channels and layers, for small inputs.

Those of residual blocks, inverted or not, are among the blocks and beginnings of `test_zoo.py`.
"""

from __future__ import annotations

from typing import Any

from benchmarks.networks.network import Network
from benchmarks.networks.people import CRNN, transformer, whisper_encoder


def _small(model: str, size: int = 64, output: str = "last_hidden_state", **configuration: Any) -> Network:
    return Network(transformer(model, output, image_size=size, **configuration), (3, size, size))


SMALL_MODELS: dict[str, Network] = {
    "beit": _small(
        "BeitModel",
        32,
        patch_size=8,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=96,
        use_relative_position_bias=True,
    ),
    "convnext": _small("ConvNextModel", num_stages=2, hidden_sizes=[16, 24], depths=[1, 1]),
    "crnn": Network(CRNN, (1, 32, 64)),
    "cvt": Network(
        transformer(
            "CvtModel", "last_hidden_state", embed_dim=[16, 32, 48], num_heads=[1, 2, 3], depth=[1, 2, 3]
        ),
        (3, 64, 64),
    ),
    "dinov2": _small("Dinov2Model", 56, hidden_size=48, num_hidden_layers=2, num_attention_heads=3),
    "levit": _small(
        "LevitModel",
        hidden_sizes=[32, 48, 64],
        num_attention_heads=[2, 3, 4],
        depths=[1, 1, 1],
        key_dim=[16, 16, 16],
    ),
    "poolformer": _small(
        "PoolFormerModel",
        num_encoder_blocks=2,
        patch_sizes=[7, 3],
        strides=[4, 2],
        padding=[2, 1],
        hidden_sizes=[16, 24],
        depths=[1, 1],
    ),
    "segformer": _small(
        "SegformerForSemanticSegmentation",
        output="logits",
        num_encoder_blocks=2,
        hidden_sizes=[16, 40],
        depths=[1, 1],
        num_attention_heads=[1, 5],
        decoder_hidden_size=64,
    ),
    "swin": _small("SwinModel", 32, patch_size=4, embed_dim=24, depths=[2], num_heads=[3], window_size=4),
    "whisper_encoder": Network(
        whisper_encoder(
            d_model=48,
            encoder_layers=1,
            encoder_attention_heads=3,
            encoder_ffn_dim=96,
            num_mel_bins=16,
            max_source_positions=40,
        ),
        (16, 80),
    ),
}
