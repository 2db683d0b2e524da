"""What a backward graph needs of activations whose maxima are pooled, and the gradients that it computes."""

from typing import Any

import pytest
import torch
from iree.winograd.torch_compile.pooled_activations import drop_pooled_activations
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition
from torch.fx import GraphModule


def _pool(image: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.max_pool2d(torch.relu(image), 3, stride=2, padding=1)


def _pool_and_read(image: torch.Tensor) -> torch.Tensor:
    activation = torch.relu(image)
    return torch.nn.functional.max_pool2d(activation, 2) * activation.mean()


@pytest.mark.parametrize(("function", "is_kept"), [(_pool, False), (_pool_and_read, True)])
@torch.enable_grad()  # type: ignore[untyped-decorator]
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_activations_are_kept_only_for_what_reads_them(
    function: Any, is_kept: bool, layout: torch.memory_format
) -> None:
    # Integers: many maxima are zero, or attained more than once.
    image = torch.randint(-3, 4, (2, 3, 8, 10)).float()
    image[0, 0, 2, 3] = torch.nan
    image = image.contiguous(memory_format=layout).requires_grad_()
    backwards: list[GraphModule] = []

    def partition(joint: GraphModule, inputs: Any, **arguments: Any) -> tuple[GraphModule, GraphModule]:
        drop_pooled_activations(joint.graph)
        return default_partition(joint, inputs, **arguments)

    def keep(graph: GraphModule, inputs: Any) -> GraphModule:
        backwards.append(graph)
        return graph

    backend = aot_autograd(fw_compiler=lambda graph, inputs: graph, bw_compiler=keep, partition_fn=partition)
    compiled = torch.compile(function, backend=backend)
    result = compiled(image)
    gradient = torch.randn_like(result)
    (ours,) = torch.autograd.grad(result, image, gradient)
    (eager,) = torch.autograd.grad(function(image), image, gradient)
    torch.testing.assert_close(ours, eager, rtol=0, atol=0, equal_nan=True)
    assert ours.stride() == eager.stride()
    (backward,) = backwards
    inputs = [node.meta["val"] for node in backward.graph.find_nodes(op="placeholder")]
    assert any(each.shape == image.shape for each in inputs) == is_kept
