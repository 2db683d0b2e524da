"""All forms of convolution that JAX has, as StableHLO, against their definition in double precision."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import pytest
import torch
from conformance import compile_rewritten
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from wide import batches

jax = pytest.importorskip("jax")

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Form:
    """A call of `lax.conv_general_dilated`."""

    image: tuple[int, ...]
    filters: tuple[int, ...]
    layout: tuple[str, str, str] = ("NHWC", "HWIO", "NHWC")
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[tuple[int, int], ...] = ((1, 1), (1, 1))
    image_dilation: tuple[int, ...] = (1, 1)
    filter_dilation: tuple[int, ...] = (1, 1)
    feature_groups: int = 1
    batch_groups: int = 1

    def __call__(self, image: Any, filters: Any) -> Any:
        return jax.lax.conv_general_dilated(
            image,
            filters,
            self.strides,
            self.padding,
            lhs_dilation=self.image_dilation,
            rhs_dilation=self.filter_dilation,
            dimension_numbers=self.layout,
            feature_group_count=self.feature_groups,
            batch_group_count=self.batch_groups,
        )

    @property
    def products(self) -> int:
        """Summed up per output."""
        letters = self.layout[1]
        return prod(size for letter, size in zip(letters, self.filters, strict=True) if letter != "O")

    def reference(self, image: Array, filters: Array) -> Array:
        """The definition, in double precision."""
        spatial = "".join(letter for letter in self.layout[0] if letter not in "NC")
        image = ordered(image.astype(np.float64), self.layout[0], f"NC{spatial}")
        filters = ordered(filters.astype(np.float64), self.layout[1], f"OI{spatial}")
        image = dilated(image, self.image_dilation)
        for axis, (low, high) in enumerate(self.padding, 2):
            image = padded(image, axis, low, high)
        filters = dilated(filters, self.filter_dilation)
        groups = self.feature_groups * self.batch_groups
        parts = [
            correlation(part, filter_part, self.strides)
            for part, filter_part in zip(
                np.split(image, groups, axis=1 if self.feature_groups > 1 else 0),
                np.split(filters, groups, axis=0),
                strict=True,
            )
        ]
        return ordered(np.concatenate(parts, axis=1), f"NC{spatial}", self.layout[2])


def ordered(array: Array, letters: str, others: str) -> Array:
    return array.transpose([letters.index(letter) for letter in others])


def dilated(array: Array, dilation: Sequence[int]) -> Array:
    sizes = [(size - 1) * step + 1 for size, step in zip(array.shape[2:], dilation, strict=True)]
    result = np.zeros((*array.shape[:2], *sizes))
    result[(slice(None), slice(None), *(slice(None, None, step) for step in dilation))] = array
    return result


def padded(array: Array, axis: int, low: int, high: int) -> Array:
    """Negative padding takes away."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (max(low, 0), max(high, 0))
    array = np.pad(array, widths)
    kept = [slice(None)] * array.ndim
    kept[axis] = slice(max(-low, 0), array.shape[axis] - max(-high, 0))
    return array[tuple(kept)]


def correlation(image: Array, filters: Array, strides: Sequence[int]) -> Array:
    kernel = filters.shape[2:]
    sizes = [
        (size - taps) // stride + 1
        for size, taps, stride in zip(image.shape[2:], kernel, strides, strict=True)
    ]
    result = np.zeros((image.shape[0], filters.shape[0], *sizes))
    for tap in itertools.product(*map(range, kernel)):
        window = tuple(
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(tap, sizes, strides, strict=True)
        )
        values = image[(slice(None), slice(None), *window)]
        result += np.einsum("nc...,oc->no...", values, filters[(slice(None), slice(None), *tap)])
    return result


NHWC, HWIO = (2, 9, 10, 8), (3, 3, 8, 16)
FORMS = {
    "channels-last": Form(NHWC, HWIO),
    "channels-first": Form((2, 8, 9, 10), (16, 8, 3, 3), ("NCHW", "OIHW", "NCHW")),
    "mixed": Form((9, 10, 2, 8), (16, 3, 3, 8), ("HWNC", "OHWI", "CHWN")),
    "transposed-spatial": Form((8, 10, 2, 9), (3, 16, 3, 8), ("CWNH", "WOHI", "WHCN")),
    "strides": Form(NHWC, HWIO, strides=(2, 3), padding=((1, 0), (0, 2))),
    "negative-padding": Form(NHWC, HWIO, padding=((-1, 1), (2, -2))),
    "filter-dilation": Form(NHWC, HWIO, filter_dilation=(2, 1)),
    "image-dilation": Form(NHWC, HWIO, image_dilation=(2, 2)),
    "both-dilations": Form(NHWC, HWIO, image_dilation=(2, 3), filter_dilation=(2, 2)),
    "image-dilation-strides": Form(NHWC, HWIO, image_dilation=(2, 2), strides=(3, 1)),
    "feature-groups": Form(NHWC, (3, 3, 2, 16), feature_groups=4),
    "feature-groups-image-dilation": Form(NHWC, (3, 3, 4, 16), image_dilation=(2, 2), feature_groups=2),
    "depthwise": Form(NHWC, (3, 3, 1, 8), feature_groups=8),
    "depthwise-multiplied": Form(NHWC, (3, 3, 1, 16), feature_groups=8),
    "batch-groups": Form((4, 9, 10, 8), HWIO, batch_groups=2),
    "batch-groups-channels-first": Form(
        (4, 8, 9, 10), (16, 8, 3, 3), ("NCHW", "OIHW", "NCHW"), batch_groups=4
    ),
    "one-dimension": Form((2, 8, 12), (16, 8, 3), ("NCW", "OIW", "NCW"), (1,), ((1, 1),), (1,), (1,)),
    "three-dimensions": Form(
        (1, 5, 6, 5, 8),
        (3, 3, 3, 8, 16),
        ("NDHWC", "DHWIO", "NDHWC"),
        (1, 1, 1),
        ((1, 1),) * 3,
        (2, 1, 1),
        (1, 1, 2),
    ),
}
QUICK = ("mixed", "both-dilations", "batch-groups")


@pytest.mark.parametrize("names", batches(FORMS, QUICK))
def test_forms_are_rewritten_and_right(names: Sequence[str]) -> None:
    for name, result, expected in results_of(names, np.dtype(np.float32)):
        assert np.abs(result - expected).max() < sum_bound(name, expected), name


@pytest.mark.wide
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_forms_of_half_precision_are_rounded_once(name: str) -> None:
    """Their sums, which JAX has in half precision by default, are in f32."""
    type_ = np.dtype(getattr(jax.numpy, name))
    for form, result, expected in results_of(FORMS, type_):
        rounding = UNIT_ROUNDOFF[name] * np.abs(expected)
        assert np.all(np.abs(result - expected) <= rounding + sum_bound(form, expected)), form


def results_of(names: Iterable[str], type_: np.dtype[Any]) -> list[tuple[str, Array, Array]]:
    """The results of one program for all of the named forms, and the exact ones, in double precision."""
    forms = [FORMS[name] for name in names]
    generator = np.random.default_rng(0)
    operands = [
        tuple(
            generator.standard_normal(shape, np.float32).astype(type_) for shape in (form.image, form.filters)
        )
        for form in forms
    ]

    def apply(operands: Sequence[tuple[Any, Any]]) -> list[Any]:
        return [form(*each) for form, each in zip(forms, operands, strict=True)]

    exported = jax.export.export(jax.jit(apply))(operands)
    compiled = compile_rewritten(exported.mlir_module(), flags=("--iree-input-type=stablehlo",))
    assert len(compiled.rewritten) >= len(forms)
    # Torch has a type for bf16, numpy has none.
    given = [
        torch.from_numpy(each.astype(np.float32)).to(getattr(torch, type_.name))
        for each in itertools.chain(*operands)
    ]
    results = iree.winograd.load(compiled.program, "local-sync")(*given)
    found = []
    for name, form, each, result, aval in zip(
        names, forms, operands, results, exported.out_avals, strict=True
    ):
        expected = form.reference(*each)
        assert result.shape == expected.shape == aval.shape, name
        found.append((name, torch.as_tensor(result).double().numpy(), expected))
    return found


def sum_bound(name: str, expected: Array) -> float:
    """F(m, r) may err some times as much as a direct convolution, which is within a roundoff per product."""
    return float(8 * FORMS[name].products * UNIT_ROUNDOFF["float32"] * np.abs(expected).max())


def test_four_dimensions_are_left_with_a_reason(capfd: pytest.CaptureFixture[str]) -> None:
    image, filters = np.ones((1, 4, 4, 4, 4, 4), np.float32), np.ones((4, 4, 3, 3, 3, 3), np.float32)
    function = jax.jit(lambda image, filters: jax.lax.conv_general_dilated(image, filters, (1,) * 4, "VALID"))
    exported = jax.export.export(function)(image, filters)
    program = iree.winograd.compile(exported.mlir_module(), remarks=True)
    assert "left as it is: it has 4 spatial dimensions" in capfd.readouterr().err
    np.testing.assert_array_equal(iree.winograd.load(program, "local-sync")(image, filters), 324.0)
