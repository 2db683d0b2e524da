"""The networks of Stable Diffusion, as diffusers has them, beside torch in the same type; weights are random.

python samples/diffusion.py --type f16 --device cuda      # 1.5's sizes: 4 GB of weights, 512 x 512 pixels
python samples/diffusion.py --small                       # a few layers, on a CPU

pip install diffusers
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import nn

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
TOKENS = 77
STEP = 981
CALLS = 6


class Denoiser(nn.Module):
    """The U-Net: the noise in latents, at a time step, for a text."""

    def __init__(self, small: bool) -> None:
        super().__init__()
        # Of 1.5's four resolutions one with attention.
        levels = slice(2, 3) if small else slice(4)
        down = (*("CrossAttnDownBlock2D",) * 3, "DownBlock2D")[levels]
        self.unet = UNet2DConditionModel(
            block_out_channels=(32,) if small else (320, 640, 1280, 1280),
            down_block_types=down,
            up_block_types=tuple(each.replace("Down", "Up") for each in reversed(down)),
            mid_block_type=None if small else "UNetMidBlock2DCrossAttn",
            layers_per_block=1 if small else 2,
            cross_attention_dim=64 if small else 768,
        )

    def forward(self, latents: torch.Tensor, step: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        noise: torch.Tensor = self.unet(latents, step, text, return_dict=False)[0]
        return noise


class Decoder(nn.Module):
    """The decoder of the VAE: latents to an image of eight times their size."""

    def __init__(self, small: bool) -> None:
        super().__init__()
        widths = (32, 64) if small else (128, 256, 512, 512)
        self.vae = AutoencoderKL(
            block_out_channels=widths,
            down_block_types=("DownEncoderBlock2D",) * len(widths),
            up_block_types=("UpDecoderBlock2D",) * len(widths),
            latent_channels=4,
            # A decoder has one more.
            layers_per_block=0 if small else 2,
        )
        self.vae.encoder = nn.Identity()

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        image: torch.Tensor = self.vae.decode(latents, return_dict=False)[0]
        return image


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--type", choices=TYPES, default="f32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    size, channels = (16, 64) if options.small else (64, 768)
    latents = torch.randn(2, 4, size, size)
    # Classifier-free guidance asks for two at once: with the text, and without. The step is a tensor, as
    # schedulers have it: torch would compile anew for each number.
    conditions = torch.tensor(STEP), torch.randn(2, TOKENS, channels)
    compare("denoiser", Denoiser(options.small), options, latents, *conditions)
    compare("decoder", Decoder(options.small), options, latents[:1])


def compare(name: str, model: nn.Module, options: argparse.Namespace, *inputs: torch.Tensor) -> None:
    """Print the errors of both, relative to double precision in the 2-norm, and milliseconds."""
    model = model.eval().to(options.device, TYPES[options.type])
    given = [as_type(each.to(options.device), TYPES[options.type]) for each in inputs]
    # What is compared is ours, although small networks may be faster eagerly.
    compiled = torch.compile(model, backend="winograd", options={"measured": False})
    with torch.inference_mode():
        exact = copy.deepcopy(model).double()(*(as_type(each, torch.float64) for each in given))
        for tool, call in (("winograd", compiled), ("torch", model)):
            error = (call(*given) - exact).norm() / exact.norm()
            print(f"{name} by {tool}: error {error:.1e}, {1e3 * seconds(call, given):.1f} ms")


def as_type(tensor: torch.Tensor, type_: torch.dtype) -> torch.Tensor:
    """Numbers of a type; integers stay."""
    return tensor.to(type_) if tensor.is_floating_point() else tensor


def seconds(call: Callable[..., torch.Tensor], inputs: list[torch.Tensor]) -> float:
    """Of the fastest of some calls, of which the first ones are measured by the backend as well."""
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        # A number of the result isn't there before the device is done.
        call(*inputs).flatten()[0].item()
        times.append(time.perf_counter() - begin)
    return min(times)


if __name__ == "__main__":
    main()
