"""Functions of single elements whose approximations by IREE are off by more than roundings.

It takes angles modulo a rounded pi, so that the sine of 1000 is off by 2e-5, and computes inverse functions
as differences that cancel. Each is computed in f32 here, also of half precision, to a few roundings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

Function = Callable[..., Any]

_RIGHT_ANGLE = (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8)
"""pi/2 in parts, of which the first two have so few bits that a product with an angle's number is exact."""
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_ARC_TANGENT = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
"""Of Moshier's Cephes, of squares: for up to pi/4, and for up to the tangent of pi/8."""
_LARGE = 1e10
"""Beside whose square 1 is nothing."""
_NO_DIFFERENCE = 9.0
"""From which on exp(-x) is nothing beside exp(x)."""


def in_single_precision(function: Function) -> Function:
    """`function` of tensors of f32, for those of f32 and half precision; others are as they were."""

    def decomposed(*tensors: Any) -> Any:
        dtype = torch.result_type(*tensors) if len(tensors) > 1 else tensors[0].dtype
        if dtype not in (torch.float16, torch.bfloat16, torch.float32):
            return NotImplemented
        return function(*(each.float() for each in tensors)).to(dtype)

    return decomposed


def sin(angle: Any) -> Any:
    """`aten.sin` of angles up to 1e5."""
    sine, cosine, quadrant = _by_quadrants(angle)
    value = torch.where(_is_odd(quadrant), cosine, sine)
    return torch.where(quadrant >= 2, -value, value)


def cos(angle: Any) -> Any:
    """`aten.cos` of angles up to 1e5."""
    sine, cosine, quadrant = _by_quadrants(angle)
    value = torch.where(_is_odd(quadrant), sine, cosine)
    return torch.where((quadrant == 1) | (quadrant == 2), -value, value)


def tan(angle: Any) -> Any:
    """`aten.tan` of angles up to 1e5."""
    sine, cosine, quadrant = _by_quadrants(angle)
    is_odd = _is_odd(quadrant)
    return torch.where(is_odd, -cosine, sine) / torch.where(is_odd, sine, cosine)


def _by_quadrants(angle: Any) -> tuple[Any, Any, Any]:
    """Sine and cosine of what an angle is beyond the nearest right angle, and this one's number modulo 4."""
    number = torch.round(angle * (2 / math.pi))
    for part in _RIGHT_ANGLE:
        angle = angle - number * part
    # Of angles whose number has more bits than that hardly anything is known.
    angle = torch.where(angle.abs() > 1, 0.0, angle)
    square = angle * angle
    sine = angle + angle * square * _polynomial(_SINE, square)
    cosine = 1 - (0.5 * square - square * square * _polynomial(_COSINE, square))
    return sine, cosine, number - 4 * torch.floor(number * 0.25)


def _is_odd(quadrant: Any) -> Any:
    return (quadrant == 1) | (quadrant == 3)


def sinh(tensor: Any) -> Any:
    """`aten.sinh`, also where exp is infinite and sinh isn't yet."""
    size = tensor.abs()
    less_one, root = torch.expm1(size), torch.exp(0.5 * size)
    small = 0.5 * (less_one + less_one / (less_one + 1))
    return _signed(torch.where(size > _NO_DIFFERENCE, 0.5 * root * root, small), tensor)


def asinh(tensor: Any) -> Any:
    """`aten.asinh`."""
    size = tensor.abs()
    square = size * size
    small = torch.log1p(size + square / (1 + torch.sqrt(square + 1)))
    return _signed(torch.where(size > _LARGE, torch.log(size) + math.log(2), small), tensor)


def acosh(tensor: Any) -> Any:
    """`aten.acosh`."""
    beyond = tensor - 1
    small = torch.log1p(beyond + torch.sqrt(beyond * (tensor + 1)))
    value = torch.where(tensor > _LARGE, torch.log(tensor) + math.log(2), small)
    return torch.where(tensor < 1, math.nan, value)


def atanh(tensor: Any) -> Any:
    """`aten.atanh`."""
    size = tensor.abs()
    value = 0.5 * torch.log1p(2 * size / (1 - size))
    return _signed(torch.where(size == 1, math.inf, value), tensor)


def atan(tensor: Any) -> Any:
    """`aten.atan`."""
    size = tensor.abs()
    is_large = size > 1
    angle = _arc_tangent(torch.where(is_large, size.reciprocal(), size))
    return _signed(torch.where(is_large, math.pi / 2 - angle, angle), tensor)


def atan2(y: Any, x: Any) -> Any:
    """`aten.atan2`, which tells zeros of either sign apart."""
    height, width = y.abs(), x.abs()
    is_steep = height > width
    smaller, larger = torch.where(is_steep, width, height), torch.where(is_steep, height, width)
    ratio = torch.where(larger == 0, 0.0, torch.where(torch.isinf(smaller), 1.0, smaller / larger))
    angle = _arc_tangent(ratio)
    angle = torch.where(is_steep, math.pi / 2 - angle, angle)
    angle = torch.where(_is_negative(x), math.pi - angle, angle)
    angle = torch.where(_is_negative(y), -angle, angle)
    return torch.where(torch.isnan(x) | torch.isnan(y), math.nan, angle)


def _arc_tangent(tensor: Any) -> Any:
    """Of numbers from 0 to 1."""
    is_large = tensor > math.tan(math.pi / 8)
    tensor = torch.where(is_large, (tensor - 1) / (tensor + 1), tensor)
    square = tensor * tensor
    angle = tensor + tensor * square * _polynomial(_ARC_TANGENT, square)
    return torch.where(is_large, math.pi / 4 + angle, angle)


def _polynomial(coefficients: tuple[float, ...], tensor: Any) -> Any:
    first, *others = coefficients
    value: Any = first
    for each in others:
        value = value * tensor + each
    return value


def _signed(value: Any, tensor: Any) -> Any:
    return torch.where(_is_negative(tensor), -value, value)


def _is_negative(tensor: Any) -> Any:
    return (tensor < 0) | ((tensor == 0) & (tensor.reciprocal() < 0))
