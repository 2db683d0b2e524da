"""Random programs that found something, by what that was, each with what it was compiled for."""

from __future__ import annotations

from dataclasses import replace

import expressions as e
import operations as o
from configuration import Configuration
from host import HAS_AVX512
from open_size import named
from operations import (
    Broadcast,
    Collapse,
    Constant,
    Convolution,
    Elementwise,
    Expansion,
    Fill,
    Input,
    Insertion,
    Pad,
    Reduction,
    Resizing,
    Slice,
    Transposition,
)
from program import Call, Function, Program

PREDICTED = Configuration(
    "avx512" if HAS_AVX512 else "avx2", threads=1, output_tile=None, implementation_seed=None
)

ACCUMULATION = Function(
    (
        Input((2, 5, 16)),
        Input((2, 3, 8)),
        Constant((3, 16, 8), 7),
        Convolution(0, 2, 1, ("n0c", "0cf", "n0f"), (1,), (1,), named=True),
    ),
    (3,),
)


def _softmax_along(
    dimension: int, source: int, shape: tuple[int, ...], begins_with_infinity: bool
) -> tuple[o.Operation, ...]:
    """Of the value `source`, the last one before."""
    whole = tuple(range(len(shape)))
    maps = (whole, tuple(each for each in whole if each != dimension))
    difference = e.Apply("sub", (e.Argument(0), e.Argument(1)))
    return (
        Reduction(source, (dimension,), "max", begins_with_infinity),
        Elementwise((source, source + 1), maps, (e.Apply("exp", (difference,)),), shape),
        Reduction(source + 2, (dimension,), "sum"),
        Elementwise((source + 2, source + 3), maps, (e.Apply("div", (e.Argument(0), e.Argument(1))),), shape),
    )


def _softmax(dimension: int) -> Function:
    """Of a convolution's outputs."""
    shape = (1, 16, 4, 5)
    return Function(
        (
            Input((1, 8, 6, 15)),
            Constant((16, 8, 3, 3), 106, 0.1),
            Fill(0.0, shape),
            Convolution(0, 1, 2, ("nc01", "fc01", "nf01"), (1, 3), (1, 1), named=True),
            *_softmax_along(dimension, 3, shape, begins_with_infinity=False),
        ),
        (7,),
    )


def _resized_sums(batch: int, height: int, width: int) -> Function:
    """Sums of columns, repeated and resized, of which a convolution reads the sums of all pixels."""
    resized = (batch, 6, height * 3, width)
    return Function(
        (
            Input((batch, 6, height, width)),
            Reduction(0, (2,), "sum"),
            Elementwise((0, 1), ((0, 1, 2, 3), (0, 1, 3)), (e.Argument(1),), (batch, 6, height, width)),
            Resizing(2, resized, in_floats=False),
            Input((6, 1)),
            Elementwise((3, 4), ((0, 1, 2, 3), (1, None)), (e.Argument(0),), resized),
            Reduction(5, (2, 3), "sum"),
            Expansion(6, 1, (6, 1, 1)),
            Constant((6, 6, 1, 1), 1000, 0.4),
            Fill(0.0, (batch, 6, 1, 1)),
            Convolution(7, 8, 9, ("nc01", "fc01", "nf01"), (1, 1), (1, 1), named=True),
        ),
        (10,),
        other_runs=((("batch", 3), ("height", 5), ("width", 4)),),
    )


RACING = "a softmax of columns of an open size between zeros"


def _softmax_between_zeros() -> Function:
    """Of channels, then of columns, and a grouped transposed convolution of each: IREE's of open sizes."""
    height, width = named("height", 8), named("width", 13)
    shape, stretched = (1, 33, height, width), (1, 33, height * 3 + 1, width * 3 + 2)
    operations: list[o.Operation] = [
        Input(shape),
        *_softmax_along(1, 0, shape, begins_with_infinity=True),
        *_softmax_along(2, 4, shape, begins_with_infinity=False),
    ]
    results = []
    for source in (8, 4):
        first = len(operations)
        operations += [
            Fill(0.0, stretched),
            Insertion(source, first, (0, 0, 2, 2), (1, 1, 3, 3)),
            Expansion(first + 1, 1, (3, 11)),
            Constant((1, 3, 11, 1, 1), 265, 0.3),
            Input((1, 3, 1, *stretched[2:])),
            Convolution(
                *range(first + 2, first + 5), ("ngc01", "fgc01", "ngf01"), (1, 1), (1, 1), named=True
            ),
        ]
        results.append(first + 5)
    return Function(tuple(operations), tuple(results), other_runs=((("height", 17), ("width", 2)),))


def _transposed_with_bias(first: int) -> tuple[o.Operation, ...]:
    """One tap and a stride of 3: two of three outputs are the bias alone. Its values begin at `first`."""
    shape = (3, 16, 32)
    return (
        Input((3, 6, 32)),
        Fill(0.0, shape),
        Insertion(first, first + 1, (0, 0, 0), (1, 3, 1)),
        Input((1, 32, 32)),
        Constant((32,), 390),
        Broadcast(first + 4, shape, (0, 1)),
        Convolution(first + 2, first + 3, first + 5, ("n0c", "0cf", "n0f"), (1,), (1,), named=True),
    )


FOUND: dict[str, tuple[Program, Configuration]] = {
    # IREE moved a transposition of one of several results into the operation, as if that had no other.
    "one of several results is transposed": (
        Program(
            (
                Function(
                    (
                        Input((2, 4, 1, 3)),
                        Elementwise(
                            (0,),
                            ((0, 1, 2, 3),),
                            (
                                e.Apply("mul", (e.Argument(0), e.Argument(0))),
                                e.Apply("add", (e.Argument(0), e.Number(0.5))),
                            ),
                            (2, 4, 1, 3),
                        ),
                        Expansion(1, 1, (4, 1)),
                        Constant((4, 3, 1, 1, 1), 499),
                        Fill(0.0, (2, 4, 3, 1, 3)),
                        Convolution(3, 4, 5, ("ngc01", "gfc01", "ngf01"), (3, 1), (1, 1), named=True),
                        Collapse(6, 1),
                    ),
                    (2, 7),
                ),
            )
        ),
        PREDICTED,
    ),
    # Rows of taps that lie outside of the image were read, in front of it.
    "a depthwise window in padding alone": (
        Program(
            (
                Function(
                    (
                        Input((2, 1, 8, 6)),
                        Pad(0, (0, 1, 0, 0), (0, 5, 0, 0), 0.0),
                        Input((3, 3, 6)),
                        Fill(0.0, (2, 1, 6, 6)),
                        Convolution(1, 2, 3, ("n01g", "01g", "n01g"), (1, 1), (3, 1), named=True),
                    ),
                    (4,),
                ),
            )
        ),
        PREDICTED,
    ),
    # The sizes of an initial value without dimensions crashed the compiler.
    "an initial value without dimensions, a dynamic batch": (
        Program(
            (
                Function(
                    (
                        Input((named("batch", 1), 4, 5, 8)),
                        Input((16, 4, 1, 1)),
                        o.Constant((), 96),
                        o.Broadcast(2, (named("batch", 1), 16, 5, 4), (0, 1, 2, 3)),
                        Convolution(0, 1, 3, ("nc01", "fc01", "nf01"), (1, 2), (1, 1), named=True),
                    ),
                    (4,),
                ),
            )
        ),
        PREDICTED,
    ),
    # IREE copied within the memory of the caller, which it may not write to.
    "an insertion into an argument": (
        Program(
            (
                Function(
                    (Input((1, 3, 4, 8)), Input((1, 6, 4, 8)), o.Insertion(0, 1, (0, 2, 0, 0), (1, 1, 1, 1))),
                    (2,),
                ),
            )
        ),
        PREDICTED,
    ),
    # What is called may be computed in the memory of an argument as well.
    "a function that accumulates into an argument is called": (
        Program((ACCUMULATION, Function((*ACCUMULATION.inputs, Call((0, 1), ACCUMULATION)), (2,)))),
        PREDICTED,
    ),
    # Commands of IREE's that don't verify were laid to the pass that reads them.
    "calls that IREE disagrees with itself about": (
        Program(
            (
                Function(
                    (
                        *ACCUMULATION.inputs,
                        Call((0, 1), ACCUMULATION),
                        Elementwise((2,), ((0, 1, 2),), (e.Number(0.5, captured=True),), (2, 3, 8)),
                        Call((0, 3), ACCUMULATION),
                    ),
                    (4,),
                ),
            )
        ),
        replace(PREDICTED, verifies=False),
    ),
    # The schedule was for pixels of all images as one row, but images that are padded have rows of their own.
    "a padded pointwise convolution of groups": (
        Program(
            (
                Function(
                    (
                        Input((3, 2, 2, 2, 3)),
                        Pad(0, (0, 0, 0, 3, 2), (0, 0, 2, 0, 0), 0.0),
                        Expansion(1, 1, (2, 1)),
                        Constant((2, 4, 1, 1, 1, 1), 999),
                        Fill(0.0, (3, 2, 4, 4, 5, 5)),
                        Convolution(
                            2, 3, 4, ("ngc012", "gfc012", "ngf012"), (1, 1, 1), (1, 1, 1), named=True
                        ),
                        Collapse(5, 1),
                    ),
                    (6,),
                ),
            )
        ),
        replace(PREDICTED, target="sse"),
    ),
    # Channels last, IREE moved the slice within the argument, over what it had yet to read.
    "a slice inserted beside itself": (
        Program(
            (
                Function(
                    (
                        Input((1, 22, 17)),
                        Transposition(0, (0, 2, 1)),
                        Slice(1, (0, 5, 17), (1, 7, 4), (1, 1, 1)),
                        Insertion(2, 1, (0, 4, 18), (1, 1, 1)),
                    ),
                    (3,),
                ),
            )
        ),
        replace(PREDICTED, target="sse"),
    ),
    # IREE gave both results one memory, to which it had written the bias they share.
    "transposed convolutions of one bias": (
        Program(
            (
                Function(
                    (*_transposed_with_bias(0), *_transposed_with_bias(7)),
                    (6, 13),
                ),
            )
        ),
        replace(PREDICTED, target="avx2"),
    ),
    # IREE computed the rest of the second in the memory of that part, before it was copied for the first.
    "concatenations that begin with one part": (
        Program(
            (
                Function(
                    (
                        *(Input((1, 41, 2)),) * 3,
                        Elementwise((2,), ((0, 1, 2),), (e.Apply("neg", (e.Argument(0),)),), (1, 41, 2)),
                        o.Concatenation((0, 1), 1),
                        o.Concatenation((0, 3), 1),
                    ),
                    (4, 5),
                ),
            )
        ),
        replace(PREDICTED, target="avx2"),
    ),
    # No element of it lies along a column.
    "arithmetic between convolutions of half precision that isn't fused": (
        Program(
            (
                Function(
                    (
                        Input((1, 9, 16)),
                        Constant((3, 16, 16), 1, 0.2),
                        Fill(0.0, (1, 7, 16)),
                        Convolution(0, 1, 2, ("n0c", "0cf", "n0f"), (1,), (1,), named=True),
                        Elementwise(
                            (3,),
                            ((0, 1, 2),),
                            (e.Apply("mul", (e.Argument(0), e.Apply("tanh", (e.Position(1),)))),),
                            (1, 7, 16),
                        ),
                        Constant((3, 16, 16), 2, 0.2),
                        Fill(0.0, (1, 5, 16)),
                        Convolution(4, 5, 6, ("n0c", "0cf", "n0f"), (1,), (1,), named=True),
                    ),
                    (7,),
                ),
            )
        ),
        replace(PREDICTED, numbers="bf16"),
    ),
    "a softmax of columns of one element": (
        Program(
            (
                Function(
                    (Input((2, 1, 17)), *_softmax_along(1, 0, (2, 1, 17), begins_with_infinity=True)), (4,)
                ),
            )
        ),
        replace(PREDICTED, target="avx2"),
    ),
    # IREE's code for Vulkan reads what other threads reduced without waiting for them.
    "a softmax of a convolution": (
        Program(tuple(map(_softmax, (1, 2, 3)))),
        replace(PREDICTED, target="vulkan"),
    ),
    # What keeps that sum a dispatch of its own kept its sizes, too, which IREE asked for behind it.
    "sums of open sizes that are repeated and resized": (
        Program((_resized_sums(named("batch", 1), named("height", 1), named("width", 1)),)),
        replace(PREDICTED, target="vulkan"),
    ),
    # As that of a convolution, where all convolutions stay with IREE: it was right now and then.
    RACING: (Program((_softmax_between_zeros(),)), replace(PREDICTED, target="vulkan")),
}
