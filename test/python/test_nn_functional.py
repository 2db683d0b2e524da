"""`iree.winograd.nn.functional`: convolutions of torch tensors with gradients."""

import math
from typing import Any

import pytest
import torch
from iree.winograd.compiling import program
from iree.winograd.loading.device import Device
from iree.winograd.nn.functional import conv2d
from iree.winograd.torch_compile import gain
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from wide import wide

UNIT_ROUNDOFF = 2.0**-24


@pytest.fixture(autouse=True)
def small_layers_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions of these sizes aren't worth a call."""
    monkeypatch.setattr(gain, "CALL_SECONDS", -math.inf)
    torch.manual_seed(0)


@pytest.mark.filterwarnings("ignore::iree.winograd.FallbackWarning")
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ((3, 3), {"padding": 1}),
        *(
            pytest.param(*each, marks=pytest.mark.wide)
            for each in (
                ((3, 2), {"stride": (2, 1), "padding": (1, 2), "dilation": 2, "groups": 2}),
                ((3, 3), {"padding": 1, "groups": 4}),
            )
        ),
    ],
    ids=["plain", "strided", "depthwise"],
)
def test_gradients_are_those_that_differences_tell(kernel: tuple[int, int], options: dict[str, Any]) -> None:
    channels = 4 // options.get("groups", 1)
    shapes = ((1, 4, 5, 4), (4, channels, *kernel), (4,))
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def in_single_precision(*tensors: torch.Tensor) -> torch.Tensor:
        return conv2d(*(tensor.float() for tensor in tensors), **options).double()

    # The function is linear in each tensor, so differences over any distance are exact but for rounding: of
    # sums of at most 100 products of values below 4, enlarged by less than ten by the transforms.
    bound = 10 * 100 * 16 * UNIT_ROUNDOFF
    assert torch.autograd.gradcheck(in_single_precision, tensors, eps=1.0, atol=bound, rtol=0.0)
    exact = torch.nn.functional.conv2d(*tensors, **options)
    torch.testing.assert_close(in_single_precision(*tensors), exact, atol=bound, rtol=0.0)


def test_programs_are_compiled_once_and_called_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    images, weight = torch.randn(1, 4, 5, 6), torch.randn(4, 4, 3, 3)
    result = conv2d(images, weight, padding="same")
    monkeypatch.setattr(program, "compile", None)
    monkeypatch.setattr(Device, "copy_from_host", None)
    assert torch.equal(conv2d(images, weight, padding=(1, 1)), result)
    # One image.
    assert torch.equal(conv2d(images[0], weight, padding=1), result[0])


@pytest.mark.parametrize("type_", [torch.bfloat16, *wide([torch.float16])], ids=str)
def test_under_autocast_types_are_torchs(type_: torch.dtype) -> None:
    """Whether programs for float32 are there already or not; gradients have the types of what was given."""
    tensors = [torch.randn(1, 4, 6, 5), torch.randn(8, 4, 3, 3), torch.randn(8)]
    conv2d(*tensors)
    # Beside another type torch converts both.
    tensors[0] = tensors[0].to(type_)

    def gradients(function: Any, tensors: list[torch.Tensor], *, converts: bool) -> list[torch.Tensor]:
        leaves = [each.clone().requires_grad_() for each in tensors]
        with torch.autocast("cpu", type_, enabled=converts):
            result = function(*leaves)
        # Of few bits: its rounding is the same everywhere.
        result.backward(torch.ones_like(result))
        return [result.detach(), *(each.grad for each in leaves if each.grad is not None)]

    rounded = [each.to(type_).double() for each in tensors]
    exact = gradients(torch.nn.functional.conv2d, rounded, converts=False)
    theirs = gradients(torch.nn.functional.conv2d, tensors, converts=True)
    ours = gradients(conv2d, tensors, converts=True)
    for result, other, value in zip(ours, theirs, exact, strict=True):
        assert result.dtype == other.dtype
        # Rounded once, and sums of 36 products in float32.
        bound = torch.finfo(type_).eps / 2 * value.abs() + 100 * UNIT_ROUNDOFF * value.abs().max()
        assert ((result.double() - value).abs() <= bound).all()


def test_what_is_not_taken_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randn(2, 3, 7, 7, dtype=torch.float64)
    weight = torch.randn(4, 3, 4, 2, dtype=torch.float64, requires_grad=True)
    expected = torch.nn.functional.conv2d(images, weight, padding="same")
    with pytest.warns(FallbackWarning, match="its elements are torch.float64"):
        result = conv2d(images, weight, padding="same")
    torch.testing.assert_close(result, expected)
    (exact,) = torch.autograd.grad(expected.square().sum(), weight)
    with pytest.warns(FallbackWarning, match="its elements are torch.float64"):
        (gradient,) = torch.autograd.grad(result.square().sum(), weight)
    torch.testing.assert_close(gradient, exact)


def test_arguments_that_do_not_fit_are_errors() -> None:
    with pytest.raises(RuntimeError, match="channels"):
        conv2d(torch.ones(1, 3, 5, 5), torch.ones(4, 2, 3, 3))
    with pytest.raises(ValueError, match="'same'"):
        conv2d(torch.ones(1, 3, 5, 5), torch.ones(4, 3, 3, 3), stride=2, padding="same")
