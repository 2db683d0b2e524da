"""Calls of models whose structure torch.compile is told not to look at."""

from collections.abc import Sequence
from typing import Any

import iree.winograd
import torch
from small_networks import THREADS, Network, check
from torch._dynamo.utils import counters


def graphs_seen() -> int:
    return int(counters["stats"]["unique_graphs"])


def test_what_may_change_between_calls_is_seen(images: torch.Tensor) -> None:
    """Weights, also those of another object, flags of modules, and the sizes of images."""
    torch._dynamo.reset()
    numbers: list[tuple[int, int]] = []

    def guards(entries: Sequence[Any]) -> list[bool]:
        kept = iree.winograd.fewer_guards(entries)
        numbers.append((sum(kept), len(kept)))
        return kept

    model = Network().eval()
    options = {**THREADS, "measured": False, "guard_filter_fn": guards}
    function = torch.compile(model, backend="winograd", options=options, dynamic=False)
    with torch.no_grad():
        check(model, function, images)
        ((kept, all_),) = numbers
        assert kept < all_ / 2
        before = graphs_seen()
        model.stem.weight.mul_(-2)
        check(model, function, images)
        model.block.weight = torch.nn.Parameter(model.block.weight + 1)
        check(model, function, images)
        assert graphs_seen() == before
        check(model, function, images[..., :-2])
        assert graphs_seen() == before + 1
        check(model.train(), function, images)
        assert graphs_seen() == before + 2
