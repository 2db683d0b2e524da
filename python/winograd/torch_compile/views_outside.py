"""Results of a part that are views of what it computes, such as a slice of channels: taken outside of it.

A program's results are dense in memory. A view of one that is not costs nothing outside of the program:

    part: convolution -> chunk -> results 0 and 1
  becomes
    part: convolution -> result;    outside: chunk -> results 0 and 1
"""

from __future__ import annotations

import operator
from collections.abc import Collection, MutableMapping

import torch
from iree.winograd.errors import ModelImportError
from iree.winograd.torch_compile.part_program import memory_order
from torch._ops import OpOverload
from torch.fx import Node


def take_views_outside(part: MutableMapping[Node, int | None]) -> tuple[set[Node], set[Node]]:
    """Have what is outside of `part`, some nodes of a graph, read views that it takes of dense results.

    Returns these views, and the nodes of `part` that are read outside, aren't dense, and are no such views.
    """
    views: dict[Node, Node] = {}
    others: set[Node] = set()
    for node in list(part):
        readers = [user for user in node.users if user not in part and user not in views.values()]
        if not readers or _is_dense(node):
            continue
        view = _view_outside(node, part, views)
        if view is None:
            others.add(node)
            continue
        for reader in readers:
            reader.replace_input_with(node, view)
    for node in reversed(list(part)):
        if not node.users:
            del part[node]
            node.graph.erase_node(node)
    return set(views.values()), others


def _view_outside(node: Node, part: Collection[Node], views: dict[Node, Node]) -> Node | None:
    """`node` once more, outside of `part`, on what is dense; None if it is no view of that."""
    if node in views:
        return views[node]
    if not is_view(node):
        return None
    source = node.args[0]
    assert isinstance(source, Node)
    outside = source
    if source in part and not _is_dense(source):
        viewed = _view_outside(source, part, views)
        if viewed is None:
            return None
        outside = viewed
    # The graph is sorted once its parts are submodules.
    with node.graph.inserting_after(node):
        copy = node.graph.node_copy(node, lambda each: outside if each is source else each)
    views[node] = copy
    return copy


def _is_dense(node: Node) -> bool:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return False
    try:
        memory_order(value)
    except ModelImportError:
        return False
    return True


def is_view(node: Node) -> bool:
    """Whether `node` reads the memory of its first operand as it is."""
    if node.target is operator.getitem:
        return is_view(node.all_input_nodes[0])
    if not isinstance(node.target, OpOverload):
        return False
    returned = [each.alias_info for each in node.target._schema.returns]
    return any(info is not None and not info.is_write for info in returned)
