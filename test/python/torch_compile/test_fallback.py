"""What isn't compiled by the backend `winograd`: it is named, and computed all the same."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import pytest
import torch
from iree.winograd.compiling import program
from iree.winograd.torch_compile import fallback_warning
from iree.winograd.torch_compile.fallback import compile_elsewhere
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from small_networks import UNIT_ROUNDOFF, BesselNetwork, Network, check, compiled
from torch._inductor import cpp_builder
from torch._inductor.exc import InvalidCxxCompiler
from torch.fx.experimental.proxy_tensor import make_fx
from wide import wide


@pytest.mark.parametrize("rest", ["eager", *wide(["inductor"])])
def test_operators_without_a_lowering_fall_back_and_are_named(images: torch.Tensor, rest: str) -> None:
    model = BesselNetwork()
    with pytest.warns(FallbackWarning, match=f"left to {rest}.*special_bessel_j0"):
        check(model, compiled(model, fallback=rest), images)


def test_without_a_compiler_inductor_is_not_asked(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_compiler() -> str:
        raise InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", no_compiler)
    fallback_warning.warn_once.cache_clear()
    model = BesselNetwork()
    with pytest.warns(FallbackWarning, match=r"C\+\+ compiler"):
        check(model, compiled(model), images)
    fallback_warning.warn_once.cache_clear()


def test_a_part_that_cannot_take_its_weights_is_left_to_the_fallback(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise winograd.CompilationError("out of luck")

    model = Network()
    function = compiled(model, fallback="eager", cache=False)
    check(model, function, images)
    monkeypatch.setattr(program, "compile", fail)
    for expected in (["left to eager: a part of the model (out of luck)"], []):
        model.load_state_dict(Network().state_dict())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check(model, function, images)
        assert [str(each.message) for each in caught if each.category is FallbackWarning] == expected


def test_a_target_that_the_tensors_are_not_on_is_named(images: torch.Tensor) -> None:
    model = Network()
    with pytest.warns(FallbackWarning, match="its tensors are on cpu, not cuda"):
        check(model, compiled(model, target="cuda", fallback="eager"), images)


def test_values_in_double_precision_are_left_to_the_fallback(images: torch.Tensor) -> None:
    class Mixed(Network):
        def forward(self, image: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
            return torch.sin(self.stem(image) + offset)

    model, offset = Mixed(), torch.randn(2, 8, 12, 12, dtype=torch.float64)
    with pytest.warns(FallbackWarning, match="its elements are torch.float64") as caught:
        result = compiled(model, fallback="eager")(images, offset)
    assert not any("aten.convolution" in str(warning.message) for warning in caught)
    expected = model(images, offset)
    assert result.dtype == torch.float64
    # Both sum 27 products in single precision; the transforms of small tiles enlarge errors by less than ten.
    torch.testing.assert_close(
        result, expected, rtol=0, atol=10 * 28 * UNIT_ROUNDOFF * float(model.stem(images).abs().max())
    )


def test_evaluation_with_gradients_is_named(images: torch.Tensor) -> None:
    function = compiled(Network(), cache=False)
    with (
        torch.enable_grad(),
        pytest.warns(FallbackWarning, match=r"it is faster as a whole, in torch.no_grad"),
    ):
        function(images)


@pytest.mark.wide
def test_inductor_is_given_operators_that_it_knows() -> None:
    """Among those that it doesn't are some that torch decomposes others to, for torch-mlir."""
    graph = make_fx(lambda tensor: torch.ops.prims.squeeze.default(tensor, [1]) + 1)(torch.ones(2, 1, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        function = compile_elsewhere(graph, [torch.ones(2, 1, 3)], "inductor")
    assert torch.equal(function(torch.ones(2, 1, 3)), torch.full((2, 3), 2.0))


FORKING = """
import os, torch

compiled = torch.compile(lambda x, factor: torch.sin(x) * factor, backend="winograd", dynamic=False)
x = torch.randn(4, 8)
compiled(x, 2.0)
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
x = torch.randn(5, 8)
os._exit(int(not torch.allclose(compiled(x, 2.0), torch.sin(x) * 2.0)))
"""


@pytest.mark.wide
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_inductor_compiles_in_a_fork_of_a_process_in_which_it_has(tmp_path: Path) -> None:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING], env=environment, timeout=240, check=True)
