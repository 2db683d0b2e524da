"""Convolutions of ONNX models in the operators that torch-mlir lowers rightly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.winograd.importers.transposed_padding import uncovered_padding
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper

SLICE_OPERATOR_SET = 10
"""The first in which `Slice` takes its bounds as operands."""


def crop_transposed_convolutions(graph: GraphProto) -> bool:
    """Has `Slice` do what padding of a `ConvTranspose` does that torch-mlir lowers wrongly.

    It is the padding that `uncovered_padding` tells of. `graph`, whose values have shapes where these are
    known, is changed; returns whether it was.
    """
    changed = False
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info)
    }
    shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                changed |= crop_transposed_convolutions(attribute.g)
        if node.op_type == "ConvTranspose" and node.domain in ("", "ai.onnx"):
            cropped = tuple(_cropped(node, shapes.get(node.input[1], ()), graph))
            changed |= len(cropped) > 1
            graph.node.extend(cropped)
        else:
            graph.node.append(node)
    return changed


def _cropped(node: NodeProto, filter_shape: Sequence[int], graph: GraphProto) -> Iterator[NodeProto]:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    taps = attributes.get("kernel_shape", filter_shape[2:])
    pads = attributes.get("pads", [0] * 2 * len(taps))
    low, high = pads[: len(taps)], pads[len(taps) :]
    dilations = attributes.get("dilations", [1] * len(taps))
    output_padding = attributes.get("output_padding", [0] * len(taps))
    if 0 in taps or any(len(each) != len(taps) for each in (low, high, dilations, output_padding)):
        # The filter's shape isn't known here, or ONNX's own checks name what is wrong.
        yield node
        return
    crops = uncovered_padding(low, taps, dilations, output_padding)
    is_explicit = "output_shape" not in attributes and attributes.get("auto_pad", b"NOTSET") == b"NOTSET"
    # torch-mlir says of other padding that it can't lower it.
    if not any(crops) or not is_explicit or low != high:
        yield node
        return
    del node.attribute[:]
    kept = [p - crop for p, crop in zip(low, crops, strict=True)]
    for name, value in {**attributes, "pads": [*kept, *kept]}.items():
        node.attribute.append(helper.make_attribute(name, value))
    (result,) = node.output
    node.output[0] = f"{result}.uncropped"
    yield node
    bounds = {
        "starts": [crop for crop in crops if crop],
        "ends": [-crop for crop in crops if crop],
        "axes": [2 + d for d, crop in enumerate(crops) if crop],
    }
    for name, values in bounds.items():
        tensor = helper.make_tensor(f"{result}.{name}", TensorProto.INT64, [len(values)], values)
        graph.initializer.append(tensor)
    operands = [node.output[0], *(f"{result}.{name}" for name in bounds)]
    yield helper.make_node("Slice", operands, [result], name=node.name)
