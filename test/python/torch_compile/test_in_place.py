"""Which values of a graph that runs eagerly are written over, and what it computes then."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from iree.winograd.torch_compile.in_place import write_in_place
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

_ATEN = torch.ops.aten
_OVERWRITING = (_ATEN.relu_.default, _ATEN.add_.Tensor, _ATEN.threshold_backward.grad_input)
Function = Callable[[torch.Tensor], Any]


def _activate_and_keep(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = x * 3
    return torch.relu(product), product


def _activate_and_add(x: torch.Tensor) -> torch.Tensor:
    product = x * 3
    return torch.relu(product) + product.neg()


def _activate_and_read_a_view(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    view = (x * 3).view(-1)
    return torch.relu(view), view.square()


def _activate_a_view_that_is_read(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = x * 3
    return torch.relu(product.view(-1)), product


def _normalize_and_activate(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    mean, variance = torch.zeros(x.shape[1]), torch.ones(x.shape[1])
    functional = _ATEN._native_batch_norm_legit_functional
    normalized, *statistics = functional(x, None, None, mean, variance, True, 0.1, 1e-5)
    return (torch.relu(normalized), *statistics)


@pytest.mark.parametrize(
    ("function", "overwritten"),
    [
        (torch.relu, 0),
        (lambda x: torch.relu(x * 3), 1),
        (lambda x: (x * 3) + x, 1),
        (lambda x: x + x * 3, 0),
        (lambda x: _ATEN.threshold_backward(x * 3, x, 0), 1),
        (lambda x: _ATEN.threshold_backward(x, x * 3, 0), 0),
        (_normalize_and_activate, 1),
        (_activate_and_keep, 0),
        # The sum is written over what only it reads.
        (_activate_and_add, 1),
        (_activate_and_read_a_view, 0),
        (_activate_a_view_that_is_read, 0),
        # The sum is larger, or of another type, or in another order.
        (lambda x: (x[:1] * 3) + x, 0),
        (lambda x: (x.int() * 3) + x, 0),
        (lambda x: (x.transpose(2, 3) * 3).contiguous() + x, 1),
    ],
)
def test_only_what_nothing_else_reads_is_overwritten(function: Function, overwritten: int) -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 4, 4)
    before = image.clone()
    graph: GraphModule = make_fx(function, tracing_mode="fake")(image)
    write_in_place(graph.graph)
    graph.recompile()
    assert sum(node.target in _OVERWRITING for node in graph.graph.nodes) == overwritten
    torch.testing.assert_close(graph(image), function(before), rtol=0, atol=0)
    assert torch.equal(image, before)
