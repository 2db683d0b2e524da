"""Activations that are pooled by their maxima, which the backward graph can do without."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

_ATEN = torch.ops.aten
_POOLING_BACKWARD = _ATEN.max_pool2d_with_indices_backward.default


def drop_pooled_activations(joint: Graph) -> None:
    """Have the backward half of `joint`, a graph of both halves, read maxima instead of what they are of.

    The gradient of a pooled activation is zero but for the maxima, and a maximum is beyond a threshold where
    what it was taken from is: so the gradient of a threshold can be taken first, of fewer elements.

        pooled, indices = max_pool2d_with_indices(activation, ...)
        scattered = max_pool2d_with_indices_backward(gradient, activation, ..., indices)
        threshold_backward(scattered, activation, t)
      becomes
        above = threshold_backward(gradient, pooled, t)
        max_pool2d_with_indices_backward(above, empty, ..., indices)

    Of `activation` the gradient of the pooling reads nothing but how large it is, and in which order. It is
    then kept from the forward half to the backward one only if something else reads it.
    """
    for threshold in joint.find_nodes(op="call_function", target=_ATEN.threshold_backward.default):
        scattered, detached, limit = threshold.args
        activation = _attached(detached)
        pooled = _maxima(scattered, activation, threshold)
        if pooled is None:
            continue
        value = activation.meta["val"]
        with joint.inserting_before(threshold):
            above = joint.call_function(threshold.target, (scattered.args[0], pooled, limit))
            above.meta["val"] = pooled.meta["val"]
            empty = joint.call_function(
                _ATEN.empty_strided.default,
                (list(value.shape), list(value.stride())),
                {"dtype": value.dtype, "device": value.device},
            )
            empty.meta["val"] = value
            last = joint.call_function(_POOLING_BACKWARD, (above, empty, *scattered.args[2:]))
            last.meta = dict(scattered.meta)
        threshold.replace_all_uses_with(last)
        joint.erase_node(threshold)
        joint.erase_node(scattered)


def _attached(node: Node) -> Node:
    """What `node` is, with its history."""
    while node.target is _ATEN.detach.default:
        (node,) = node.all_input_nodes
    return node


def _maxima(scattered: object, activation: Node, threshold: Node) -> Node | None:
    """Those of `activation`, if `scattered` is the gradient of pooling it and only `threshold` reads that."""
    if not isinstance(scattered, Node) or scattered.target is not _POOLING_BACKWARD:
        return None
    is_static = all(isinstance(size, int) for size in activation.meta["val"].shape)
    if scattered.args[1] is not activation or set(scattered.users) != {threshold} or not is_static:
        return None
    indices = scattered.args[-1]
    assert isinstance(indices, Node)
    results = {user.args[1]: user for user in indices.all_input_nodes[0].users}
    return results.get(0)
