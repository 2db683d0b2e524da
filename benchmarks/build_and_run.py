"""Benchmarks that are built where the compiler is, and run where the GPU is: options and facts they share."""

from __future__ import annotations

import argparse
from pathlib import Path


def build_and_run_parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Options of a benchmark: `action`, `folder`, `output` and, by default so many, `rounds`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("build", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def software_and_device() -> dict[str, str | int | None]:
    """What a report says of where it was measured."""
    import torch

    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
    }
