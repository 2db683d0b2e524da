"""`torch.compile` with the backend `winograd`, on networks small enough to be compiled in a second."""

import copy
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd import cli, program, torch_lowering
from iree.winograd.errors import InvalidOptionError
from iree.winograd.pipelines.selection.tuning_database import TuningDatabase
from iree.winograd.torch_compile import backend, fallback, graph_compiler
from iree.winograd.torch_compile.division import divide
from iree.winograd.torch_compile.fallback import FallbackWarning
from iree.winograd.torch_compile.part_device import PartDevice, part_device
from iree.winograd.torch_compile.program_key import structure_key
from iree.winograd.torch_compile.settings import read_settings
from iree.winograd.tuning import tuner
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor import cpp_builder
from torch._inductor.exc import InvalidCxxCompiler
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves
from wide import wide

UNIT_ROUNDOFF = 2.0**-24
THREADS = {"threads": 1}


class Network(torch.nn.Module):
    """Two convolutions, batch normalization, a shortcut and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.normalization = torch.nn.BatchNorm2d(8)
        self.block = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.classifier = torch.nn.Linear(8, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.normalization(self.stem(image)))
        features = features + self.between(self.block(features))
        result: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return result

    def between(self, features: torch.Tensor) -> torch.Tensor:
        """What subclasses compute in the middle."""
        return features


class BesselNetwork(Network):
    """With an operator that torch-mlir doesn't know."""

    def between(self, features: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(features)


class ImageNetwork(torch.nn.Module):
    """Gives an image, and where it is largest."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, stride=2)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.convolution(image)
        return features, features.argmax(dim=1)


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch.no_grad():
        yield


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(2, 3, 12, 12)


def compiled(model: torch.nn.Module, dynamic: bool | None = None, **options: Any) -> Callable[..., Any]:
    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return backend.winograd(graph, inputs, options={**THREADS, **options})

    return torch.compile(model.eval(), backend=compile_graph, dynamic=dynamic)


def check(model: torch.nn.Module, function: Callable[..., Any], images: torch.Tensor) -> None:
    """Compares with float64: no value depends on more than 72 + 72 + 8 products and 144 sums for the mean."""
    exact = copy.deepcopy(model).double()(images.double())
    result = function(images)
    # The transforms of small tiles enlarge errors by less than ten.
    torch.testing.assert_close(
        result, exact.float(), rtol=0, atol=10 * 300 * UNIT_ROUNDOFF * float(exact.abs().max())
    )


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("freezing", [True, False])
def test_results_and_their_strides_are_those_of_eager(
    images: torch.Tensor, memory_format: torch.memory_format, freezing: bool
) -> None:
    model = ImageNetwork().to(memory_format=memory_format)  # type: ignore[call-overload]
    images = images.to(memory_format=memory_format)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        features, largest = compiled(model, freezing=freezing)(images)
    expected, expected_largest = model(images)
    assert features.stride() == expected.stride() and largest.stride() == expected_largest.stride()
    check(model.convolution, lambda _: features, images)
    assert torch.equal(largest, features.argmax(dim=1))


def test_means_of_images_are_sums_of_sums() -> None:
    """In one running sum none of the elements would count that are half a roundoff of the first."""

    class Mean(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.copy = torch.nn.Conv2d(1, 4, 1, bias=False)
            torch.nn.init.ones_(self.copy.weight)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.copy(image)).mean((2, 3))

    size = 64
    image = torch.full((1, 1, size, size), UNIT_ROUNDOFF / 2)
    image[0, 0, 0, 0] = 1
    exact = float(image.double().mean())
    result = compiled(Mean())(image).double()
    # Two sums of so many elements, and two divisions.
    assert float((result - exact).abs().max()) < 2 * (size + 1) * UNIT_ROUNDOFF * exact


def test_no_layer_errs_more_than_networks_may(images: torch.Tensor) -> None:
    wide = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3), torch.nn.ReLU())
    image = torch.randn(1, 64, 30, 30)
    errors = []
    for options in ({}, {"max_relative_error": 2e-6}):
        (graph,) = winograd.explain(wide, image, options={**THREADS, **options}).graphs
        errors.append(graph.parts[0].convolutions[0].predicted_error)
        torch._dynamo.reset()
    assert errors[0] is not None and errors[1] is not None
    assert errors[0] <= 4e-7 < errors[1]


def test_changed_weights_are_seen(images: torch.Tensor) -> None:
    model = Network()
    function = compiled(model)
    check(model, function, images)
    model.load_state_dict(Network().state_dict())
    check(model, function, images)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    check(model, function, images)


def test_weights_whose_memory_is_replaced_are_seen(images: torch.Tensor) -> None:
    model = Network()
    function = compiled(model)
    function(images)
    model.stem.weight.data = model.stem.weight.data * 2
    check(model, function, images)


@pytest.mark.parametrize("rest", ["eager", *wide(["inductor"])])
def test_a_part_that_cannot_take_its_weights_is_left_to_the_fallback(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise winograd.CompilationError("out of luck")

    model = Network()
    function = compiled(model, fallback=rest, cache=False)
    check(model, function, images)
    monkeypatch.setattr(program, "compile", fail)
    for expected in ([f"left to {rest}, since weights changed: a part of the model (out of luck)"], []):
        model.load_state_dict(Network().state_dict())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check(model, function, images)
        assert [str(each.message) for each in caught if each.category is FallbackWarning] == expected


def test_any_batch_is_compiled_once(images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Network()
    function = compiled(model, dynamic=True)
    check(model, function, images)
    monkeypatch.setattr(program, "compile", None)
    for batch in (3, 5):
        check(model, function, torch.randn(batch, 3, 12, 12))


@pytest.mark.parametrize("rest", ["inductor", "eager"])
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
    fallback.warn_once.cache_clear()
    model = BesselNetwork()
    with pytest.warns(FallbackWarning, match=r"C\+\+ compiler"):
        check(model, compiled(model), images)
    fallback.warn_once.cache_clear()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thread": 1}, "option 'thread' is not known"),
        ({"threads": 0}, "threads must be None or a positive integer"),
        ({"target": "vulkan"}, "target must be cpu or cuda"),
        ({"fallback": "onnx"}, "fallback must be inductor or eager"),
        ({"tuning_database": "missing.db"}, "missing.db"),
    ],
)
def test_options_are_checked(images: torch.Tensor, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BackendCompilerFailed, match=message) as failure:
        compiled(Network(), **options)(images)
    assert isinstance(failure.value.inner_exception, InvalidOptionError)


def test_compiled_parts_are_kept_within_a_size(
    images: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, folder = Network(), tmp_path / "cache"
    check(model, compiled(model, cache_folder=folder), images)
    (kept_program,) = folder.glob("*.vmfb")
    assert cli.main(["cache", "show", "--folder", str(folder)]) == 0
    assert "2 convolutions" in capsys.readouterr().out

    with monkeypatch.context() as patch:
        patch.setattr(program, "compile", None)
        patch.setattr(torch_lowering, "lower_graph", None)
        torch._dynamo.reset()
        check(model, compiled(model, cache_folder=folder), images)

    # Damaged files are replaced.
    kept_program.write_bytes(b"none")
    torch._dynamo.reset()
    check(model, compiled(model, cache_folder=folder), images)
    assert kept_program.stat().st_size > 4

    # Other weights are another program; with no room for both the one used last stays.
    with torch.no_grad():
        model.stem.weight.mul_(2)
    (folder / "padding.vmfb").write_bytes(bytes(2**20))
    torch._dynamo.reset()
    check(model, compiled(model, cache_folder=folder, cache_size=1), images)
    kept = {path.stem for path in folder.iterdir() if path.suffix != ".graph"}
    assert kept_program.stem in kept and len(kept) == 2

    assert cli.main(["cache", "clear", "--folder", str(folder)]) == 0
    assert list(folder.iterdir()) == []


class ManyOutputs(torch.nn.Module):
    """Gives results in another order than it computes them, one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, stride=2)
        self.normalization = torch.nn.BatchNorm2d(8)

    def forward(self, image: torch.Tensor, offset: torch.Tensor) -> dict[str, Any]:
        features = self.normalization(self.convolution(image + offset))
        largest = features.argmax(dim=1)
        return {"largest": largest, "all": [features * 2, features, largest]}


@contextmanager
def no_functional_graphs() -> Iterator[None]:
    """What is called in it has no graph made functional, divided or compiled."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((graph_compiler, "aot_autograd"), (program, "compile")):
            patch.setattr(module, name, None)
        yield


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_kept_graph_is_found_as_torch_traces_it(
    images: torch.Tensor, tmp_path: Path, memory_format: torch.memory_format
) -> None:
    model = ManyOutputs().to(memory_format=memory_format)  # type: ignore[call-overload]
    images, offset = images.to(memory_format=memory_format), torch.ones(3, 1, 1)
    first = compiled(model, cache_folder=tmp_path)(images, offset)
    torch._dynamo.reset()
    function = compiled(model, cache_folder=tmp_path)
    with no_functional_graphs():
        second = function(images, offset)
        torch.testing.assert_close(second, first, rtol=0, atol=0)
        strides = [each.stride() for each in tree_leaves(second)]
        assert strides == [each.stride() for each in tree_leaves(model(images, offset))]
        # Other arguments are no weights.
        twice = function(images, 2 * offset)
        assert not torch.equal(twice["all"][1], second["all"][1])

    with torch.no_grad():
        model.convolution.weight.mul_(2)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            exact = copy.deepcopy(model).double()(images.double(), offset.double())
            # 27 products are summed.
            torch.testing.assert_close(
                function(images, offset)["all"][1],
                exact["all"][1].float(),
                rtol=0,
                atol=10 * 30 * UNIT_ROUNDOFF * float(exact["all"][1].abs().max()),
            )


def test_functions_of_numpy_are_not_kept(images: torch.Tensor, tmp_path: Path) -> None:
    """Torch traces a call of an object whose text doesn't say which function it is."""

    class Rooted(Network):
        def between(self, features: torch.Tensor) -> torch.Tensor:
            return features * torch.as_tensor(np.sqrt(torch.ones(1).numpy()))

    model = Rooted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        check(model, compiled(model, cache_folder=tmp_path, fallback="eager"), images)
    assert not list(tmp_path.glob("*.graph"))


def test_a_graph_is_not_taken_for_another(images: torch.Tensor, tmp_path: Path) -> None:
    """For one that differs in a constant, in options, or in what it does to its arguments."""

    class Scaled(Network):
        scale = 1.0

        def between(self, features: torch.Tensor) -> torch.Tensor:
            return features * self.scale

    class Counted(Network):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def between(self, features: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return features * self.calls

    model, other = Scaled(), Scaled()
    other.load_state_dict(model.state_dict())
    other.scale = 2.0
    counted = Counted()
    for _ in range(2):
        for each in (model, other):
            torch._dynamo.reset()
            check(each, compiled(each, cache_folder=tmp_path), images)
        torch._dynamo.reset()
        before = counted.calls.item()
        compiled(counted, cache_folder=tmp_path)(images)
        assert counted.calls.item() == before + 1
    torch._dynamo.reset()
    explained = winograd.explain(model, images, options={"cache_folder": str(tmp_path), **THREADS})
    with no_functional_graphs():
        torch._dynamo.reset()
        again = winograd.explain(model, images, options={"cache_folder": str(tmp_path), **THREADS})
    assert again == explained
    torch._dynamo.reset()
    denied = {"cache_folder": str(tmp_path), "deny": ("stem",), **THREADS}
    assert "the layer patterns exclude it" in str(winograd.explain(model, images, options=denied))


def test_a_target_that_the_tensors_are_not_on_is_named(images: torch.Tensor) -> None:
    model = Network()
    with pytest.warns(FallbackWarning, match="its tensors are on cpu, not cuda"):
        check(model, compiled(model, target="cuda", fallback="eager"), images)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_parts_on_a_gpu_are_lowered_for_it(architecture: str) -> None:
    """What precedes the GPU itself: fake tensors need none."""

    def convolution(image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
        sums = torch.ops.aten.convolution.default(image, filters, None, [1], [1], [1], False, [0], 1)
        return torch.relu(sums)

    with FakeTensorMode():
        image, filters = (torch.empty(2, 4, size, device="cuda:0") for size in (12, 3))
        graph = make_fx(convolution)(image, filters)
    names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
    known = {names[1]: torch.randn(2, 4, 3)}
    device = part_device(torch.device("cuda", 0), f"cuda:{architecture}")
    division = divide(graph, known, device.torch, 1, True, lambda part: False)
    assert (division.rejections, division.rest, device.uri) == ((), (), "cuda://0")
    (part,) = division.parts
    assert part.model is not None and part.program.signature.device == device.torch
    assert winograd.compile(part.model, target=device.target, strict=True)


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((7, 5), "cuda:sm_75"),
        ((8, 6), "cuda:sm_86"),
        ((8, 7), "cuda:sm_86"),
        # Hopper's own products are code that no other GPU runs.
        ((9, 0), "cuda:sm_90a"),
        ((12, 0), "cuda:sm_89"),
    ],
)
def test_code_is_for_the_gpu_of_the_tensors(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], target: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    gpu = torch.device("cuda", 1)
    assert part_device(gpu, None) == part_device(gpu, "cuda") == PartDevice(gpu, target)
    assert part_device(gpu, "cuda:sm_80") == PartDevice(gpu, "cuda:sm_80")


@pytest.mark.wide
def test_tuned_parts_are_measured_once(
    images: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, options = Network(), {"tuning_budget": 20.0, "cache_folder": tmp_path}
    check(model, compiled(model, **options), images)
    with TuningDatabase(tmp_path / "tuning.db", report=print, read_only=True) as database:
        layers = {entry.problem for entry in database.entries()}
    assert any("3->8 kernel 3x3" in layer for layer in layers)
    monkeypatch.setattr(tuner, "tune", None)
    monkeypatch.setattr(program, "compile", None)
    torch._dynamo.reset()
    check(model, compiled(model, **options), images)


def test_modes_of_torch_stand_for_options() -> None:
    assert read_settings("default", None).tuning_budget is None
    assert read_settings("max-autotune", None).tuning_budget == 60
    with pytest.raises(InvalidOptionError, match=r"mode must be one of 'default', 'max-autotune'"):
        read_settings("reduce-overhead", None)


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


def test_programs_are_told_apart_by_types_that_torch_chose() -> None:
    """The default type is that of a quotient of integers."""

    def key(default: torch.dtype) -> str:
        graph = torch.fx.Graph()
        integers = graph.placeholder("integers")
        integers.meta["val"] = torch.ones(2, dtype=torch.int64)
        quotient = graph.call_function(torch.ops.aten.div.Tensor, (integers, 3))
        quotient.meta["val"] = torch.ones(2, dtype=default)
        graph.output((quotient,))
        return structure_key(graph, (), ())

    assert key(torch.float16) != key(torch.float32) == key(torch.float32)


PROCESS = """
import sys
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
compiled = torch.compile(model, backend="winograd", options={"cache_folder": sys.argv[1]})
with torch.no_grad():
    result = compiled(torch.ones(1, 3, 12, 12))
print(*sys.modules.keys() & {"iree.compiler", "torch_mlir.ir", "torch._inductor.compile_fx"})
"""


@pytest.mark.wide
def test_a_second_process_loads_no_compiler(tmp_path: Path) -> None:
    for loaded in ({"iree.compiler", "torch_mlir.ir"}, set()):
        command = [sys.executable, "-W", "ignore", "-c", PROCESS, str(tmp_path)]
        outcome = subprocess.run(command, capture_output=True, text=True, check=True)
        assert set(outcome.stdout.split()) == loaded
        # The runtime would say at the end which of its objects live on.
        assert outcome.stderr == ""


ENDING = """
import atexit
import builtins
import functools
import sys
import torch

@atexit.register
def call_once_more():
    # After the hooks of what is imported below.
    with torch.no_grad():
        builtins.last = second(image)

from iree.runtime._binding import create_hal_driver
from iree.winograd import device
from iree.winograd.torch_compile import compiled_part

if sys.argv[2] == "_open_sharing_gpu":
    # In place of one for CUDA: a device with the same cache, opened the same way.
    @functools.cache
    def open_sharing(uri):
        hal = create_hal_driver("local-sync").create_default_device(allocators=["caching"])
        return device.Device(uri, hal, in_host_memory=False, crowded=False)

    device._open_sharing_gpu = open_sharing
    compiled_part.PartCompiler._open_device = lambda compiler: device.open_sharing_gpu("cuda://0")

image = torch.ones(1, 3, 12, 12)
torch.set_num_threads(1)

def run(channels):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, channels, 3), torch.nn.ReLU()).eval()
    compiled = torch.compile(model, backend="winograd", options={"cache_folder": sys.argv[1]})
    with torch.no_grad():
        return compiled, compiled(image)

first, builtins.first = run(4)
second, result = run(8)
# The interpreter frees what `builtins` holds, modules and their globals in an order of its own.
builtins.view = result[:, 1:].detach()
del result
# Only programs keep the device.
atexit.register(getattr(device, sys.argv[2]).cache_clear)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="has glibc overwrite freed memory")
@pytest.mark.parametrize("opening", ["_open_host_device", "_open_sharing_gpu"])
def test_results_may_outlive_the_device(tmp_path: Path, opening: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", ENDING, str(tmp_path), opening]
    environment = {**os.environ, "MALLOC_PERTURB_": "165"}
    outcome = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (outcome.returncode, outcome.stderr) == (0, "")


def test_a_folder_that_cannot_be_written_to_is_no_error(images: torch.Tensor, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    model = Network()
    with pytest.warns(FallbackWarning, match="aren't kept"):
        check(model, compiled(model, cache_folder=tmp_path / "file"), images)


def test_explanation_says_what_each_convolution_became(images: torch.Tensor) -> None:
    model = BesselNetwork().train()
    with pytest.warns(FallbackWarning):
        explanation = winograd.explain(
            model, images, options={**THREADS, "fallback": "eager", "deny": ["block"]}
        )
    assert model.stem.training
    (graph,) = explanation.graphs
    (part,) = graph.parts
    stem, block = part.convolutions
    assert stem.layer == "stem" and stem.algorithm is not None
    assert stem.predicted_error is not None and 0 < stem.predicted_error < 1e-5
    assert block.algorithm is None and "patterns exclude it" in block.reason
    assert any("special_bessel_j0" in str(rejection) for rejection in graph.rejections)
    text = str(explanation)
    assert stem.algorithm in text and "left to eager: aten.special_bessel_j0.default (torch-mlir: " in text


def test_explanation_of_bad_options_is_an_error_of_ours(images: torch.Tensor) -> None:
    with pytest.raises(winograd.InvalidOptionError, match="threads"):
        winograd.explain(Network(), images, options={"threads": 0})


def test_statistics_and_arguments_that_a_model_changes(images: torch.Tensor) -> None:
    """Training without gradients; what takes the dynamic batch as a number is left to the fallback."""

    class Changing(Network):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            features = self.normalization(self.stem(image))
            image.add_(1)
            return features

    model = Changing()
    function = compiled(model, dynamic=True, fallback="eager")
    model.train()
    for _ in range(2):
        reference, given, expected_given = copy.deepcopy(model), images.clone(), images.clone()
        result, expected = function(given), reference(expected_given)
        # Sums of 27 products, and of the 288 elements of a channel.
        bound = {"rtol": 2 * 315 * UNIT_ROUNDOFF, "atol": 2 * 315 * UNIT_ROUNDOFF}
        torch.testing.assert_close(result, expected, **bound)
        torch.testing.assert_close(
            model.normalization.running_var, reference.normalization.running_var, **bound
        )
        assert torch.equal(given, expected_given)
