"""Programs as MLIR, as importers write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatchmethod
from math import inf

import expressions as e
import numpy as np
import operations as o
import program as p
from evaluation import constant_array, label, private_name, public_name
from iree.winograd.dialect.bindings import arith, func, ir, linalg, linalg_structure, math, scf, tensor
from iree.winograd.passes.build.convolution import build_convolution
from iree.winograd.passes.build.named import build_named
from iree.winograd.passes.build.slices import extracted, inserted, padded
from iree.winograd.passes.build.tensors import index_constant
from narrowing import narrow
from number_types import NUMBER_TYPES, NumberType
from open_size import is_open
from size_building import SizeBuilder
from tensors import Shape, Tensor

NAMES: Mapping[tuple[str, str, str], str] = {
    ("n0c", "0cf", "n0f"): "conv_1d_nwc_wcf",
    ("nc0", "fc0", "nf0"): "conv_1d_ncw_fcw",
    ("n01c", "01cf", "n01f"): "conv_2d_nhwc_hwcf",
    ("n01c", "f01c", "n01f"): "conv_2d_nhwc_fhwc",
    ("nc01", "fc01", "nf01"): "conv_2d_nchw_fchw",
    ("ngc01", "gfc01", "ngf01"): "conv_2d_ngchw_gfchw",
    ("ngc01", "fgc01", "ngf01"): "conv_2d_ngchw_fgchw",
    ("n01gc", "gf01c", "n01gf"): "conv_2d_nhwgc_gfhwc",
    ("n012c", "012cf", "n012f"): "conv_3d_ndhwc_dhwcf",
    ("nc012", "fc012", "nf012"): "conv_3d_ncdhw_fcdhw",
    ("n0g", "0g", "n0g"): "depthwise_conv_1d_nwc_wc",
    ("ng0", "g0", "ng0"): "depthwise_conv_1d_ncw_cw",
    ("n0g", "0gf", "n0gf"): "depthwise_conv_1d_nwc_wcm",
    ("n01g", "01g", "n01g"): "depthwise_conv_2d_nhwc_hwc",
    ("ng01", "g01", "ng01"): "depthwise_conv_2d_nchw_chw",
    ("n01g", "01gf", "n01gf"): "depthwise_conv_2d_nhwc_hwcm",
    ("n012g", "012g", "n012g"): "depthwise_conv_3d_ndhwc_dhwc",
    ("ng012", "g012", "ng012"): "depthwise_conv_3d_ncdhw_cdhw",
    ("n012g", "012gf", "n012gf"): "depthwise_conv_3d_ndhwc_dhwcm",
}
"""linalg's operations by the layouts of input, filter and output."""

POOLINGS: Mapping[str, str] = {
    "n0c": "pooling_nwc",
    "nc0": "pooling_ncw",
    "n01c": "pooling_nhwc",
    "nc01": "pooling_nchw",
    "n012c": "pooling_ndhwc",
}

LOWEST = -3.4028234663852886e38


def build(program: p.Program, context: ir.Context, numbers: NumberType = NUMBER_TYPES["f32"]) -> ir.Module:
    """The module of `program`, its functions `f0`, `f1` and so on, on tensors of `numbers`."""
    context.load_all_available_dialects()
    with context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            for function in p.called_functions(program):
                called = _build_function(private_name(function), function)
                called.attributes["sym_visibility"] = ir.StringAttr.get("private")
                # Inlined it would be as if it weren't called.
                called.attributes["noinline"] = ir.UnitAttr.get()
            for number, function in enumerate(program.functions):
                _build_function(public_name(number), function)
        narrow(module.operation, numbers)
        module.operation.verify()
        return module


def _build_function(name: str, function: p.Function) -> func.FuncOp:
    arguments = [_type(Tensor(each.shape)) for each in function.inputs]
    result_types = [_type(result) for result in p.function_types(function)]
    hands_over = [result_types[0]] if function.output_argument else []
    main = func.FuncOp(name, ([*arguments, *hands_over], result_types))
    block = main.add_entry_block()
    if function.output_argument:
        index = ir.IntegerAttr.get(ir.IndexType.get(), 0)
        marks = [ir.DictAttr.get({})] * len(arguments) + [ir.DictAttr.get({"iree.abi.output": index})]
        main.arg_attrs = marks
    with ir.InsertionPoint(block):
        taken = list(block.arguments)[: len(arguments)]
        func.return_(_Builder(name, function, taken).block(function, []))
    return main


def _type(of: Tensor) -> ir.RankedTensorType:
    sizes = [ir.ShapedType.get_dynamic_size() if is_open(size) else size for size in of.shape]
    return ir.RankedTensorType.get(sizes, ir.F32Type.get())


class _Builder:
    """Of one function: knows the types of its values, and where sizes come from."""

    def __init__(self, name: str, function: p.Function, arguments: Sequence[ir.Value]) -> None:
        self.function = name
        self.arguments = iter(arguments)
        inputs = zip(arguments, function.inputs, strict=True)
        self.types = {value: Tensor(each.shape) for value, each in inputs}
        self.size_builder = SizeBuilder(arguments, self.types, function.sizes_of_arguments)

    def block(self, block: p.Block | p.Function, values: list[ir.Value]) -> list[ir.Value]:
        for operation in block.operations:
            with ir.Location.name(label(self.function, len(values))):
                results = self.results(operation, values)
            inferred = p.infer(operation, [self.types[value] for value in values])
            self.types.update(zip(results, inferred, strict=True))
            values.extend(results)
        return [values[result] for result in block.results]

    def result_type(self, operation: p.Operation, values: Sequence[ir.Value]) -> Tensor:
        """The type of the only result."""
        (result,) = p.infer(operation, [self.types[value] for value in values])
        return result

    def empty(self, of: Tensor, values: Sequence[ir.Value]) -> ir.Value:
        return tensor.empty(self.size_builder.sizes(of, values), ir.F32Type.get())

    def filled(self, number: float, of: Tensor, values: Sequence[ir.Value]) -> ir.Value:
        return build_named(linalg.FillOp, [_number(number)], self.empty(of, values))

    @singledispatchmethod
    def results(self, operation: p.Operation, values: list[ir.Value]) -> list[ir.Value]:
        raise TypeError(f"no operation: {operation}")

    @results.register
    def _(self, op: o.Input, values: list[ir.Value]) -> list[ir.Value]:
        return [next(self.arguments)]

    @results.register
    def _(self, op: o.Constant, values: list[ir.Value]) -> list[ir.Value]:
        array = constant_array(op).astype(np.float32)
        attribute = ir.DenseElementsAttr.get(
            np.ascontiguousarray(array), type=ir.F32Type.get(), shape=list(op.shape)
        )
        return [arith.constant(_type(Tensor(op.shape)), attribute)]

    @results.register
    def _(self, op: o.Fill, values: list[ir.Value]) -> list[ir.Value]:
        of = Tensor(op.shape)
        if op.is_constant:
            number = ir.FloatAttr.get_f32(op.number)
            return [arith.constant(_type(of), ir.DenseElementsAttr.get_splat(_type(of), number))]
        return [self.filled(op.number, of, values)]

    @results.register
    def _(self, op: o.Pad, values: list[ir.Value]) -> list[ir.Value]:
        shape = _type(self.result_type(op, values)).shape
        return [padded(values[op.source], shape, op.low, op.high, _number(op.number))]

    @results.register
    def _(self, op: o.Insertion, values: list[ir.Value]) -> list[ir.Value]:
        source, target = values[op.source], values[op.target]
        sizes = self.size_builder.sizes(self.types[source], values)
        return [inserted(source, target, op.offsets, sizes, op.steps)]

    @results.register
    def _(self, op: o.Slice, values: list[ir.Value]) -> list[ir.Value]:
        sizes = self.size_builder.sizes(Tensor(op.sizes), values)
        return [extracted(values[op.source], op.offsets, sizes, op.steps)]

    @results.register
    def _(self, op: o.Concatenation, values: list[ir.Value]) -> list[ir.Value]:
        sources = [values[source] for source in op.sources]
        return [tensor.concat(_type(self.result_type(op, values)), op.dimension, sources)]

    @results.register
    def _(self, op: o.Transposition, values: list[ir.Value]) -> list[ir.Value]:
        init = self.empty(self.result_type(op, values), values)
        return [build_named(linalg.TransposeOp, values[op.source], init, permutation=list(op.permutation))]

    @results.register
    def _(self, op: o.Expansion, values: list[ir.Value]) -> list[ir.Value]:
        source = values[op.source]
        of = self.result_type(op, values)
        groups = _groups(source.type.rank, op.dimension, len(op.sizes))
        sizes = self.size_builder.sizes(of, values)
        dynamic = [size for size in sizes if not isinstance(size, int)]
        static = [size if isinstance(size, int) else ir.ShapedType.get_dynamic_size() for size in sizes]
        return [tensor.expand_shape(_type(of), source, groups, dynamic, static)]

    @results.register
    def _(self, op: o.Collapse, values: list[ir.Value]) -> list[ir.Value]:
        source = values[op.source]
        groups = _groups(source.type.rank - 1, op.dimension, 2)
        return [tensor.collapse_shape(_type(self.result_type(op, values)), source, groups)]

    @results.register
    def _(self, op: o.Broadcast, values: list[ir.Value]) -> list[ir.Value]:
        init = self.empty(Tensor(op.shape), values)
        return [build_named(linalg.BroadcastOp, values[op.source], init, dimensions=list(op.dimensions))]

    @results.register
    def _(self, op: o.Elementwise, values: list[ir.Value]) -> list[ir.Value]:
        of = Tensor(op.shape)
        rank = len(op.shape)
        sources = [values[source] for source in op.sources]
        inits = [self.empty(of, values) for _ in op.body] if op.init is None else [values[op.init]]
        outside = {
            part: _number(part.value)
            if isinstance(part, e.Number)
            else tensor.extract(values[part.value], [index_constant(0)] * values[part.value].type.rank)
            for tree in op.body
            for part in e.subexpressions(tree)
            if isinstance(part, e.Captured) or (isinstance(part, e.Number) and part.captured)
        }
        reads = [
            ir.AffineMap.get(
                rank,
                0,
                [
                    ir.AffineExpr.get_constant(0) if loop is None else ir.AffineExpr.get_dim(loop)
                    for loop in read
                ],
            )
            for read in op.maps
        ]
        identity = ir.AffineMap.get_identity(rank)

        def body(*elements: ir.Value) -> list[ir.Value]:
            return [_expression(tree, elements, outside) for tree in op.body]

        return _generic(sources, inits, [*reads, *[identity] * len(inits)], ["parallel"] * rank, body)

    @results.register
    def _(self, op: o.Reduction, values: list[ir.Value]) -> list[ir.Value]:
        source = values[op.source]
        rank = source.type.rank
        kept = [d for d in range(rank) if d not in op.dimensions]
        of = self.result_type(op, values)
        least = -inf if op.begins_with_infinity else LOWEST
        init = self.filled(0.0 if op.kind == "sum" else least, of, values)
        combine = arith.addf if op.kind == "sum" else arith.maximumf
        kinds = ["reduction" if d in op.dimensions else "parallel" for d in range(rank)]
        result = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(d) for d in kept])
        maps = [ir.AffineMap.get_identity(rank), result]
        return _generic([source], [init], maps, kinds, lambda element, sum_: [combine(element, sum_)])

    @results.register
    def _(self, op: o.Reversal, values: list[ir.Value]) -> list[ir.Value]:
        source = values[op.source]
        shape = self.types[source].shape

        def body(_: ir.Value) -> list[ir.Value]:
            position = []
            for d, size in enumerate(shape):
                index = linalg.IndexOp(d).result
                position.append(arith.subi(index_constant(size - 1), index) if d in op.dimensions else index)
            return [tensor.extract(source, position)]

        identity = ir.AffineMap.get_identity(len(shape))
        init = self.empty(Tensor(shape), values)
        return _generic([], [init], [identity], ["parallel"] * len(shape), body)

    @results.register
    def _(self, op: o.Resizing, values: list[ir.Value]) -> list[ir.Value]:
        source = values[op.source]
        nearest = [
            self.nearest(size, resized, op.in_floats, values)
            for size, resized in zip(self.types[source].shape, op.shape, strict=True)
        ]

        def body(_: ir.Value) -> list[ir.Value]:
            places = [place_in(linalg.IndexOp(d).result) for d, place_in in enumerate(nearest)]
            return [tensor.extract(source, places)]

        rank, init = len(op.shape), self.empty(Tensor(op.shape), values)
        return _generic([], [init], [ir.AffineMap.get_identity(rank)], ["parallel"] * rank, body)

    @results.register
    def _(self, op: o.Product, values: list[ir.Value]) -> list[ir.Value]:
        left, right, init = (values[operand] for operand in op.operands)
        loops = [*op.layouts[2], "k"]
        maps = [
            ir.AffineMap.get(len(loops), 0, [ir.AffineExpr.get_dim(loops.index(each)) for each in layout])
            for layout in op.layouts
        ]
        if op.named:
            product = ir.Operation.create(
                "linalg.batch_matmul",
                results=[init.type],
                operands=[left, right, init],
                attributes={
                    "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
                    "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1]),
                },
                regions=1,
            )
            linalg_structure.fill_builtin_region(product)
            return [product.results[0]]
        kinds = ["parallel"] * (len(loops) - 1) + ["reduction"]
        return _generic(
            [left, right], [init], maps, kinds, lambda a, b, sum_: [arith.addf(sum_, arith.mulf(a, b))]
        )

    @results.register
    def _(self, op: o.Pooling, values: list[ir.Value]) -> list[ir.Value]:
        source = values[op.source]
        window = tensor.empty(list(op.window), ir.F32Type.get())
        init = self.filled(0.0 if op.kind == "sum" else LOWEST, self.result_type(op, values), values)
        name = f"{POOLINGS[op.layout]}_{op.kind}"
        return [_named(name, [source, window], init, op.strides, op.dilations)]

    @results.register
    def _(self, op: o.Convolution, values: list[ir.Value]) -> list[ir.Value]:
        source, filters, init = (values[operand] for operand in op.operands)
        name = NAMES.get(op.layouts)
        if op.named and name is not None:
            return [_named(name, [source, filters], init, op.strides, op.dilations)]
        return [build_convolution(op.layouts, op.strides, op.dilations, (source, filters, init))]

    @results.register
    def _(self, op: p.Loop, values: list[ir.Value]) -> list[ir.Value]:
        loop = scf.ForOp(index_constant(0), index_constant(op.count), index_constant(1), [values[op.initial]])
        with ir.InsertionPoint(loop.body):
            self.types[loop.inner_iter_args[0]] = self.types[values[op.initial]]
            scf.yield_(self.block(op.body, [*values, *loop.inner_iter_args]))
        return list(loop.results)

    @results.register
    def _(self, op: p.Branch, values: list[ir.Value]) -> list[ir.Value]:
        condition = values[op.condition]
        element = tensor.extract(condition, [index_constant(0)] * condition.type.rank)
        positive = arith.cmpf(arith.CmpFPredicate.OGT, element, _number(0.0))
        branch = ir.Operation.create("scf.if", [_type(op.type)], [positive], regions=2)
        for region, operations in zip(branch.regions, (op.then, op.otherwise), strict=True):
            with ir.InsertionPoint(_append_block(region, [])):
                scf.yield_(self.block(operations, list(values)))
        return list(branch.results)

    @results.register
    def _(self, op: p.Call, values: list[ir.Value]) -> list[ir.Value]:
        types = [_type(result) for result in p.function_types(op.function)]
        callee = ir.FlatSymbolRefAttr.get(private_name(op.function))
        return list(func.CallOp(types, callee, [values[source] for source in op.sources]).results)

    def nearest(
        self, size: int, resized: int, in_floats: bool, values: Sequence[ir.Value]
    ) -> Callable[[ir.Value], ir.Value]:
        """Builds which of `size` elements is at a place of `resized` ones."""
        if size == resized:
            return lambda place: place
        factor = _factor(size, resized)
        if not in_floats and factor is not None:
            return lambda place: arith.divsi(place, index_constant(factor))
        of, to = (
            each if isinstance(each, ir.Value) else index_constant(each)
            for each in self.size_builder.sizes(Tensor((size, resized)), values)
        )
        if not in_floats:
            return lambda place: arith.divsi(arith.muli(place, of), to)
        is_known = not (is_open(size) or is_open(resized))
        scale = _number(resized / size) if is_known else arith.divf(_float(to), _float(of))

        def place_in(place: ir.Value) -> ir.Value:
            quotient = math.floor(arith.divf(_float(place), scale))
            integer = ir.IntegerType.get_signless(64)
            return arith.index_cast(ir.IndexType.get(), arith.fptosi(integer, quotient))

        return place_in


def _factor(size: int, resized: int) -> int | None:
    """How many times as many there are in all runs, if that is a whole number of times."""
    if is_open(resized):
        return next((times for times in range(2, 5) if resized == size * times), None)
    return None if is_open(size) or resized % size else resized // size


def _float(index: ir.Value) -> ir.Value:
    return arith.sitofp(ir.F32Type.get(), arith.index_cast(ir.IntegerType.get_signless(64), index))


def _expression(
    tree: e.Expression, elements: Sequence[ir.Value], outside: Mapping[e.Expression, ir.Value]
) -> ir.Value:
    if tree in outside:
        return outside[tree]
    if isinstance(tree, e.Argument):
        return elements[tree.number]
    if isinstance(tree, e.Number):
        return _number(tree.value)
    if isinstance(tree, e.Position):
        integer = arith.index_cast(ir.IntegerType.get_signless(32), linalg.IndexOp(tree.dimension).result)
        return arith.sitofp(ir.F32Type.get(), integer)
    assert isinstance(tree, e.Apply)
    operands = [_expression(operand, elements, outside) for operand in tree.operands]
    return OPERATIONS[tree.operation](*operands)


def _select_greater(a: ir.Value, b: ir.Value, chosen: ir.Value, other: ir.Value) -> ir.Value:
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, a, b), chosen, other)


OPERATIONS: Mapping[str, Callable[..., ir.Value]] = {
    "add": arith.addf,
    "sub": arith.subf,
    "mul": arith.mulf,
    "div": arith.divf,
    "max": arith.maximumf,
    "min": arith.minimumf,
    "neg": arith.negf,
    "abs": math.absf,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "tanh": math.tanh,
    "erf": math.erf,
    "select_greater": _select_greater,
}


def _generic(
    sources: Sequence[ir.Value],
    inits: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    kinds: Sequence[str],
    body: Callable[..., list[ir.Value]],
) -> list[ir.Value]:
    generic = linalg.GenericOp(
        [init.type for init in inits],
        list(sources),
        list(inits),
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]),
    )
    block = _append_block(generic.regions[0], [ir.F32Type.get()] * (len(sources) + len(inits)))
    with ir.InsertionPoint(block):
        linalg.yield_(body(*block.arguments))
    return list(generic.results)


def _named(
    name: str, sources: Sequence[ir.Value], init: ir.Value, strides: Shape, dilations: Shape
) -> ir.Value:
    operation = ir.Operation.create(
        f"linalg.{name}",
        results=[init.type],
        operands=[*sources, init],
        attributes={
            "strides": ir.DenseElementsAttr.get(np.array(strides, np.int64)),
            "dilations": ir.DenseElementsAttr.get(np.array(dilations, np.int64)),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(sources), 1]),
        },
        regions=1,
    )
    linalg_structure.fill_builtin_region(operation)
    return operation.results[0]


def _groups(rank: int, dimension: int, count: int) -> list[list[int]]:
    """The reassociation that splits `dimension` of `rank` into `count` dimensions."""
    groups: list[list[int]] = []
    start = 0
    for d in range(rank):
        width = count if d == dimension else 1
        groups.append(list(range(start, start + width)))
        start += width
    return groups


def _append_block(region: ir.Region, types: Sequence[ir.Type]) -> ir.Block:
    return region.blocks.append(*types, arg_locs=[ir.Location.current] * len(types))


def _number(number: float) -> ir.Value:
    return arith.constant(ir.F32Type.get(), number)
