"""Graphs that torch traces for any sizes: one program, or one for each of those that come, and then eager."""

import copy
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import pytest
import torch
from iree.winograd.compiling import program
from iree.winograd.errors import ModelImportError
from iree.winograd.loading import call_counts
from iree.winograd.specializing.specialization import SpecialPrograms
from iree.winograd.torch_compile import measured_function
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from iree.winograd.torch_compile.graph_compiler import GraphCompiler
from iree.winograd.torch_compile.symbolic_sizes import bind_sizes
from iree.winograd.torch_compile.whole_graph import WholeGraph
from small_networks import THREADS, UNIT_ROUNDOFF, Network, check, compiled
from wide import wide, wide_combinations

from benchmarks.networks.open_sizes import OPEN_NETWORKS

_SECONDS = 600
"""Compilers are of the lowest priority, on a machine that may have other work."""


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The arguments of each compilation of a program."""
    seen: list[Any] = []
    compile_program = program.compile

    def count(*arguments: Any, **options: Any) -> Any:
        seen.append(arguments)
        return compile_program(*arguments, **options)

    monkeypatch.setattr(program, "compile", count)
    yield seen


@pytest.fixture
def static_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a graph be one for which there aren't all kernels where sizes are open."""
    monkeypatch.setattr(GraphCompiler, "_compile_any_size", lambda *_: None)


def fallbacks(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """What is left to the fallback in a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments)
    return [str(each.message) for each in caught if each.category is FallbackWarning]


@pytest.mark.parametrize("dynamic", [True, *wide([None])])
def test_sizes_share_a_program(dynamic: bool | None, compilations: list[Any]) -> None:
    model = Network()
    function = compiled(model, dynamic=dynamic, cache=False)
    for size in ((12, 12), (10, 14), (40, 9), (7, 33), (21, 16)):
        assert fallbacks(check, model, function, torch.randn(2, 3, *size)) == []
    # By default the first size has its own; else torch traces once more for heights that differ from widths.
    assert len(compilations) <= 2


class Decoder(torch.nn.Module):
    """A level of a U-Net, enlarged by `options` of `interpolate`, to the size that it had without a scale."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        self.outer, self.inner = (torch.nn.Conv2d(channels, 8, 3, padding=1) for channels in (3, 8))
        self.merge = torch.nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        outer = self.outer(image)
        inner = self.inner(torch.nn.functional.max_pool2d(outer, 2))
        size = {} if "scale_factor" in self.options else {"size": outer.shape[2:]}
        enlarged = torch.nn.functional.interpolate(inner, **size, **self.options)
        result: torch.Tensor = self.merge(torch.cat([enlarged, outer], 1))
        return result


RESIZING = (
    {"mode": "bilinear"},
    {"mode": "bilinear", "scale_factor": 2.0},
    {"scale_factor": 2.0},
    {"mode": "nearest-exact"},
)


@pytest.mark.parametrize("options", wide(RESIZING), ids=str)
def test_sizes_of_a_network_that_resizes_share_a_program(
    options: dict[str, Any], compilations: list[Any]
) -> None:
    model = Decoder(**options)
    function = compiled(model, dynamic=True, cache=False)
    for size in ((12, 16), (10, 14), (40, 8), (22, 6)):
        assert fallbacks(check, model, function, torch.randn(2, 3, *size)) == []
    # Torch traces once more for sizes that are known to be even.
    assert len(compilations) <= 2


@pytest.mark.wide
def test_sizes_that_torch_traces_apart_share_a_program(compilations: list[Any]) -> None:
    """Torch takes another convolution from 20480 elements of an image on, and has guards for either."""
    model = Network()
    function = compiled(model, dynamic=True, cache=False)
    torch._dynamo.utils.counters.clear()
    for size in ((12, 14), (60, 160), (40, 100), (9, 20)):
        assert fallbacks(check, model, function, torch.randn(1, 3, *size)) == []
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 1
    assert len(compilations) == 1


@pytest.mark.parametrize("name", ["deeplab", "detector with neck"])
@pytest.mark.wide
def test_networks_of_five_sizes_in_turn_compile_at_most_twice(name: str, compilations: list[Any]) -> None:
    """Torch traces DeepLab four times; the first size has a program of its own, all others share one."""
    network = OPEN_NETWORKS[name]
    model = network.network.calibrated()
    function, exact = compiled(model, cache=False), copy.deepcopy(model).double()
    for times in (1.0, 0.5, 2.0, 1.25, 0.7):
        image = torch.randn(1, network.channels, *network.usual(times))
        with torch.no_grad():
            assert fallbacks(function, image) == []
            result, expected = function(image), exact(image.double())
        # Of sums of up to 720 products in each of up to 9 layers.
        bound = 9 * 720 * UNIT_ROUNDOFF * float(expected.abs().max())
        assert (result - expected).abs().max() <= bound
    assert len(compilations) <= 2


class Rounded(torch.nn.Module):
    """Gives a number beside its image that torch alone computes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 8, 3)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, int]:
        return self.layer(image), int(image.shape[2] * 0.75)


def test_sizes_share_a_program_beside_a_number_that_is_rounded(compilations: list[Any]) -> None:
    model = Rounded()
    function = compiled(model, dynamic=True, cache=False)
    for size in ((20, 24), (31, 18)):
        image = torch.randn(1, 3, *size)
        assert fallbacks(check, model.layer, lambda given: function(given)[0], image) == []
        assert function(image)[1] == int(size[0] * 0.75)
    assert len(compilations) == 1


class Reduced(torch.nn.Module):
    """Resizes to a part of the image's size, which it computes itself."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.first, self.second = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        size = tuple(int(self.factor * each) for each in image.shape[2:])
        resized = torch.nn.functional.interpolate(self.first(image), size=size, mode="bilinear")
        result: torch.Tensor = self.second(resized)
        return result


@pytest.mark.parametrize("factor, programs", [(0.75, 1), *wide_combinations([(1.5, 1), (0.7, 3)])])
def test_parts_of_sizes_are_computed_by_the_program(
    factor: float, programs: int, compilations: list[Any]
) -> None:
    """But for those that floating point would round: these have a program for each size."""
    model = Reduced(factor)
    function = compiled(model, dynamic=True, cache=False)
    for size in ((20, 24), (31, 18), (13, 29)):
        assert fallbacks(check, model, function, torch.randn(2, 3, *size)) == []
    assert len(compilations) == programs


def test_a_size_that_no_arithmetic_computes_is_an_error_of_the_import() -> None:
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode, open_size = FakeTensorMode(shape_env=ShapeEnv()), StatelessSymbolicContext([DimDynamic.DYNAMIC])
    rows = mode.from_tensor(torch.zeros(16), symbolic_context=open_size)
    graph = torch.fx.Graph()
    tensor, size = graph.placeholder("rows"), graph.placeholder("size")
    tensor.meta["val"], size.meta["val"] = rows, torch.sym_int(0.7 * rows.shape[0])
    graph.output(graph.call_function(torch.narrow, (tensor, 0, 0, size)))
    with pytest.raises(ModelImportError, match="no arithmetic of sizes computes "):
        bind_sizes(graph, [size])


@pytest.mark.wide
def test_sizes_that_come_often_get_programs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_counts, "CALLS_FOR_PROGRAM", 2)
    called: list[Any] = []
    function_for = SpecialPrograms.function_for

    def note(programs: SpecialPrograms, arguments: Any) -> Any:
        called.append(function_for(programs, arguments))
        return called[-1]

    monkeypatch.setattr(SpecialPrograms, "function_for", note)
    model, images = Network(), torch.randn(2, 3, 10, 14)
    function = compiled(model, dynamic=True, measured=False, specialize=1, cache_folder=str(tmp_path))
    check(model, function, images)
    last = time.monotonic() + _SECONDS
    while called[-1] is None and time.monotonic() < last:
        # Each call takes of the time of the compiler.
        time.sleep(0.5)
        function(images)
    assert called[-1].signature.inputs[0].shape in (tuple(images.shape), (2, 10, 14, 3))
    check(model, function, images)
    check(model, function, torch.randn(2, 3, 12, 9))
    assert called[-1] is None


@pytest.mark.usefixtures("static_programs")
@pytest.mark.wide
def test_a_second_size_has_a_program_of_its_own(compilations: list[Any]) -> None:
    model = Network()
    function = compiled(model, cache=False)
    first, second = torch.randn(2, 3, 12, 12), torch.randn(2, 3, 10, 14)
    assert fallbacks(check, model, function, first) == []
    assert fallbacks(check, model, function, second) == []
    # Torch has one graph for all of them now.
    assert fallbacks(check, model, function, first) == []
    count = len(compilations)
    for images in (second, first, second):
        check(model, function, images)
    assert len(compilations) == count <= 3


@pytest.mark.wide
def test_programs_for_any_size_have_kernels_and_hold_the_weights() -> None:
    image = torch.randn(2, 3, 12, 12)
    torch._dynamo.mark_dynamic(image, 2)
    torch._dynamo.mark_dynamic(image, 3)
    (graph,) = winograd.explain(Network(), image, options={**THREADS, "cache": False}).graphs
    (part,) = graph.parts
    assert len(part.convolutions) == 2
    for convolution in part.convolutions:
        assert convolution.algorithm is not None
        assert convolution.problem is not None and "x?12x?12x" in convolution.problem


@pytest.mark.usefixtures("static_programs")
@pytest.mark.wide
def test_further_sizes_run_eagerly_until_they_come_often(
    compilations: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_counts, "CALLS_FOR_PROGRAM", 2)
    model = Network()
    function = compiled(model, dynamic=True, cache=False, sizes=1)
    known, new = torch.randn(2, 3, 12, 14), torch.randn(2, 3, 10, 14)
    check(model, function, known)
    assert len(compilations) == 1
    (message,) = fallbacks(check, model, function, new)
    assert "sizes beyond the first 1" in message and "'sizes'" in message
    assert fallbacks(check, model, function, new) == []
    assert len(compilations) == 1
    # The third call is one too many.
    for _ in range(2):
        check(model, function, new)
    assert len(compilations) == 2
    # The size that it takes the place of is a new one.
    check(model, function, known)
    assert len(compilations) == 2


class Upsampling(torch.nn.Module):
    """Images of a linear layer: the batch isn't the size of the first argument of a part."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 128)
        self.convolution = torch.nn.ConvTranspose2d(8, 8, 4, 2, 1)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.convolution(self.linear(codes).view(codes.shape[0], 8, 4, 4))
        return result


@pytest.mark.wide
def test_any_batch_of_what_no_argument_begins_with() -> None:
    model = Upsampling()
    function = compiled(model, cache=False)
    for batch in (2, 3, 1, 4):
        codes = torch.randn(batch, 16)
        # Sums of 16 and of at most 32 products.
        assert fallbacks(check, model, function, codes) == []


@pytest.mark.wide
def test_a_program_for_any_batch_that_is_slower_than_eager_becomes_one_for_each(
    compilations: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Network()
    function = compiled(model, cache=False)
    check(model, function, torch.randn(2, 3, 12, 12))
    images = torch.randn(3, 3, 12, 12)
    with monkeypatch.context() as patch:
        patch.setattr(measured_function, "_RATIO", 0)
        patch.setattr(measured_function, "_SECONDS", -1e9)
        for _ in range(1 + measured_function._MOST_CALLS):
            check(model, function, images)
    # One for the first batch, one for any, one for this.
    for batch, count in ((3, 3), (4, 4), (3, 4)):
        assert fallbacks(check, model, function, torch.randn(batch, 3, 12, 12)) == []
        assert len(compilations) == count


@pytest.mark.usefixtures("static_programs")
@pytest.mark.wide
def test_numbers_that_change_are_seen() -> None:
    class Scaled(Network):
        def forward(self, image: torch.Tensor, scale: float = 1.0, times: int = 1) -> torch.Tensor:
            return self.block(self.stem(image) * scale).repeat(1, times, 1, 1)

    model = Scaled()
    function = compiled(model, dynamic=True, cache=False, sizes=2, fallback="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        for scale, times in ((0.5, 2), (0.75, 3), (0.5, 2), (2.0, 4)):
            image = torch.randn(2, 3, 12, 10)
            result, exact = function(image, scale, times), model(image, scale, times)
            # Of 27 and of 72 products.
            bound = 10 * 100 * UNIT_ROUNDOFF * float(exact.abs().max())
            torch.testing.assert_close(result, exact, rtol=0, atol=bound)


def test_batches_of_no_images() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten())
    function = compiled(model, cache=False)
    for batch in (2, 0, 3):
        images = torch.randn(batch, 3, 6, 6)
        assert fallbacks(function, images) == []
        result, expected = function(images), model(images)
        assert result.shape == expected.shape and result.stride() == expected.stride()
        # Sums of 27 products.
        torch.testing.assert_close(result, expected, rtol=0, atol=10 * 30 * UNIT_ROUNDOFF)


@pytest.mark.wide
def test_control_flow_stays_between_parts() -> None:
    class Branching(Network):
        def between(self, features: torch.Tensor) -> torch.Tensor:
            return torch.cond(features.sum() > 0, torch.sin, torch.cos, (features,))

    model = Branching()
    function = compiled(model, cache=False, fallback="eager")
    (message,) = fallbacks(check, model, function, torch.randn(2, 3, 12, 12))
    assert message.startswith("left to eager: cond (")


@pytest.mark.parametrize(
    ("model", "traced"),
    [(Decoder(scale_factor=2.0), 2), *wide_combinations([(Network(), 1)])],
    ids=["Decoder", "Network"],
)
def test_a_graph_of_any_size_that_is_one_program_is_called_without_a_wrapper(
    model: torch.nn.Module, traced: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its weights change; also one that computes sizes, which its program reads from shapes."""
    called: list[WholeGraph] = []
    call = WholeGraph.__call__

    def note(whole: WholeGraph, *arguments: Any) -> Any:
        called.append(whole)
        return call(whole, *arguments)

    monkeypatch.setattr(WholeGraph, "__call__", note)
    function = compiled(model, dynamic=True, measured=False, cache=False)
    for size in ((12, 14), (10, 16), (40, 8)):
        check(model, function, torch.randn(2, 3, *size))
    assert len(called) == 3 and len(set(map(id, called))) <= traced
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    for size in ((12, 14), (10, 16)):
        check(model, function, torch.randn(2, 3, *size))
