"""Training through `torch.compile(backend="winograd")`: what gradients and optimizers make of a network."""

import copy
import math
from collections.abc import Callable
from typing import Any

import iree.winograd as winograd
import pytest
import torch
from iree.winograd.compiling import program
from iree.winograd.errors import ModelImportError
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.loading.device import Device
from iree.winograd.torch_compile import backend, gain, training_compiler, training_division
from iree.winograd.torch_compile.compiled_part import CompiledPart
from iree.winograd.torch_compile.division import Part, lower_program
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from iree.winograd.torch_compile.measured_part import CallTimes, arguments_of, reason_of
from iree.winograd.torch_compile.part_program import PartProgram
from wide import wide

UNIT_ROUNDOFF = 2.0**-24
OPTIONS = {"threads": 1, "fallback": "eager"}
BOUND = 10 * 2 * math.sqrt(72 + 72 + 27 + 576) * UNIT_ROUNDOFF
"""Of the gradients of `Network`: there and back, values are rounded in sums of as many products, and of as
many elements of a channel, by chance up and down. Transforms of tiles enlarge errors less than tenfold."""

pytestmark = pytest.mark.xdist_group("training")


class Network(torch.nn.Module):
    """Batch normalization in training mode, pooling, shortcuts, strides and a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.normalization = torch.nn.BatchNorm2d(8)
        self.block = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.reduction = torch.nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.shortcut = torch.nn.Conv2d(8, 8, 1, stride=2, bias=False)
        self.classifier = torch.nn.Linear(8, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.normalization(self.stem(images)))
        features = torch.nn.functional.max_pool2d(features, 2)
        features = torch.relu(features + self.block(features))
        features = torch.relu(self.reduction(features) + self.shortcut(features))
        result: torch.Tensor = self.classifier(features.mean(dim=(2, 3)))
        return result


@pytest.fixture(autouse=True)
def small_layers_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions of these sizes aren't worth a call."""
    monkeypatch.setattr(gain, "CALL_SECONDS", -math.inf)
    torch.manual_seed(0)
    torch._dynamo.reset()


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randn(4, 3, 12, 12)


def compiled(model: torch.nn.Module, **options: Any) -> Callable[..., Any]:
    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return backend.winograd(graph, inputs, options={**OPTIONS, **options})

    return torch.compile(model, backend=compile_graph)


def gradients(
    model: torch.nn.Module, function: Callable[..., Any], images: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Of the sum of the squares of all results, by the images and the parameters of `model`."""
    images = images.clone().requires_grad_()
    model.zero_grad()
    function(images).square().sum().backward()
    named = {"images": images, **dict(model.named_parameters())}
    return {name: value.grad for name, value in named.items() if value.grad is not None}


def check_gradients(model: torch.nn.Module, function: Callable[..., Any], images: torch.Tensor) -> None:
    """Compares `function`, which is `model` compiled, with float64 beside eager."""
    exact_model, eager_model = copy.deepcopy(model).double(), copy.deepcopy(model)
    exact = gradients(exact_model, exact_model, images.double())
    eager = gradients(eager_model, eager_model, images)
    ours = gradients(model, function, images)
    assert ours.keys() == exact.keys()
    for name, gradient in ours.items():
        assert gradient.stride() == eager[name].stride(), name
        assert error(gradient, exact[name]) <= max(2 * error(eager[name], exact[name]), BOUND), name
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(buffer, eager_model.get_buffer(name), rtol=BOUND, atol=BOUND)


def error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float((value - exact).abs().max() / exact.abs().max())


class Beginning(torch.nn.Module):
    """The first layers of `Network`, then a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.normalization = torch.nn.BatchNorm2d(8)
        self.reduction = torch.nn.Conv2d(8, 8, 3, stride=2, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.normalization(self.stem(images)))
        return torch.relu(self.reduction(features)).mean(dim=(2, 3))


@pytest.mark.parametrize("network", [Beginning, *wide([Network])])
def test_gradients_are_those_of_double_precision(
    network: type[torch.nn.Module], images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tensors are handed to programs and from one to the next in place.
    monkeypatch.setattr(Device, "copy_from_host", None)
    model = network()
    function = compiled(model)
    check_gradients(model, function, images)

    # Programs of both graphs are kept for other processes.
    monkeypatch.setattr(program, "compile", None)
    torch._dynamo.reset()
    check_gradients(model, compiled(model), images)


@pytest.mark.wide
def test_steps_are_those_of_eager(images: torch.Tensor) -> None:
    """With gradients accumulated over two batches; then the model is evaluated, and trained on."""

    def optimizer(values: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(values, lr=0.01, momentum=0.9)

    model = Network()
    eager = copy.deepcopy(model)
    models = [(model, compiled(model), optimizer(model.parameters()))]
    models.append((eager, eager, optimizer(eager.parameters())))
    for step in range(5):
        losses = []
        for each, function, steps in models:
            each.train()
            loss = function(images + step).square().mean()
            loss.backward()
            if step % 2:
                steps.step()
                steps.zero_grad()
            losses.append(float(loss.detach()))
            if step == 3:
                each.eval()
                with torch.no_grad():
                    losses.append(float(function(images).square().mean()))
        half = len(losses) // 2
        # Steps enlarge what gradients differ by.
        assert losses[:half] == pytest.approx(losses[half:], rel=10 * (step + 1) * BOUND)


@pytest.mark.wide
def test_frozen_layers_get_no_gradients(images: torch.Tensor) -> None:
    model = Network()
    model.stem.requires_grad_(False)
    model.block.requires_grad_(False)
    function = compiled(model)
    loss = function(images).square().sum()
    loss.backward()
    eager = copy.deepcopy(model)
    eager.zero_grad()
    eager(images).square().sum().backward()
    assert model.stem.weight.grad is None and model.block.weight.grad is None
    weight, expected = model.reduction.weight.grad, eager.reduction.weight.grad
    assert weight is not None and expected is not None and error(weight, expected) <= BOUND


@pytest.mark.wide
@pytest.mark.filterwarnings("error::iree.winograd.FallbackWarning")
def test_batches_and_images_may_have_other_sizes() -> None:
    """As the last of an epoch may: programs of all gradients are for any of them."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).to(
        memory_format=torch.channels_last  # type: ignore[call-overload]
    )
    function = compiled(model)
    for batch in (4, 3):
        images = torch.randn(batch, 3, 8, 8).contiguous(memory_format=torch.channels_last)
        check_gradients(model, function, images)
    for size in ((6, 10), (17, 9), (3, 31)):
        images = torch.randn(3, 3, *size).contiguous(memory_format=torch.channels_last)
        check_gradients(model, function, images)


@pytest.mark.wide
def test_what_is_not_taken_falls_back_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower_only_convolutions(graph: PartProgram) -> ImportedModel:
        if any("relu" in str(node.target) for node in graph.graph.nodes):
            raise ModelImportError("no lowering")
        return lower_program(graph)

    monkeypatch.setattr(training_division, "lower_program", lower_only_convolutions)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
    model, images = model.to(memory_format=torch.channels_last), torch.randn(2, 3, 8, 8)  # type: ignore[call-overload]
    images = images.contiguous(memory_format=torch.channels_last)
    with pytest.warns(FallbackWarning, match=r"relu.* \(no lowering\)"):
        check_gradients(model, compiled(model), images)
    torch._dynamo.reset()
    with pytest.warns(FallbackWarning, match=r"left to eager: 0 \(the layer patterns exclude it\)"):
        check_gradients(model, compiled(model, deny=["0"]), images)


@pytest.mark.filterwarnings("ignore::iree.winograd.FallbackWarning")
@pytest.mark.wide
def test_depthwise_and_grouped_gradients_are_right(images: torch.Tensor) -> None:
    """Those of filters, too."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.Conv2d(16, 16, 3, padding=1, groups=2),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 16, 3, padding=1, groups=16),
    )
    check_gradients(model, compiled(model), images)
    explanation = winograd.explain(model, images, options=OPTIONS, training=True)
    taken = {
        str(each.role) for graph in explanation.graphs for part in graph.parts for each in part.convolutions
    }
    gradients = {f"{kind} gradient of {layer}" for kind in ("weight", "input") for layer in (1, 3)}
    assert gradients <= taken


class UNet(torch.nn.Module):
    """Down, through a depthwise layer, up by a transposed one, and on beside what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.normalization = torch.nn.GroupNorm(2, 8)
        self.down = torch.nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.depthwise = torch.nn.Sequential(
            torch.nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False),
            torch.nn.BatchNorm2d(16),
            torch.nn.Hardswish(),
        )
        self.up = torch.nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = torch.nn.Conv2d(16, 5, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        silu = torch.nn.functional.silu
        features = silu(self.normalization(self.first(images)))
        lower = self.depthwise(silu(self.down(features)))
        result: torch.Tensor = self.last(torch.cat([features, self.up(lower)], dim=1))
        return result


@pytest.mark.filterwarnings("error::iree.winograd.FallbackWarning")
@pytest.mark.wide
def test_autocast_trains_as_accurately_as_torch(images: torch.Tensor) -> None:
    """All convolutions and gradients are taken; weights and their gradients stay float32."""
    type_ = torch.bfloat16
    model = UNet()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    function = compiled(model)

    def under_autocast(forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(images: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=type_):
                result: torch.Tensor = forward(images)
            assert result.dtype == type_
            return result.float()

        return call

    expected = gradients(exact, exact, images.double())
    theirs = gradients(eager, under_autocast(eager), images)
    ours = gradients(model, under_autocast(function), images)
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        off, eager_off = ((each[name] - value).norm() for each in (ours, theirs))
        assert ours[name].dtype == torch.float32 and ours[name].stride() == theirs[name].stride(), name
        # Both round where the program does, and torch at times once more.
        assert off <= 1.5 * eager_off + torch.finfo(type_).eps * value.norm(), name

    trained = (exact, exact, images.double()), (eager, under_autocast(eager), images)
    losses = [_losses(*each) for each in (*trained, (model, under_autocast(function), images))]
    for exact_loss, their_loss, our_loss in zip(*losses, strict=True):
        bound = 2 * abs(their_loss - exact_loss) + torch.finfo(type_).eps * exact_loss
        assert abs(our_loss - exact_loss) <= bound


def _losses(model: torch.nn.Module, function: Callable[..., Any], images: torch.Tensor) -> list[float]:
    """Of the first steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses = []
    for _ in range(3):
        loss = (function(images) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize(
    ("type_", "unit", "is_left"),
    [
        (torch.float32, "_is_amx_tile_supported", False),
        (torch.bfloat16, None, False),
        (torch.bfloat16, "_is_avx512_bf16_supported", False),
        (torch.bfloat16, "_is_amx_tile_supported", True),
        (torch.float16, "_is_amx_fp16_supported", True),
    ],
)
def test_layers_are_left_to_units_for_their_type(
    type_: torch.dtype, unit: str | None, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer that is computed in a third of the time of its multiply-adds in f32."""
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported", "_is_amx_fp16_supported"):
        # What has AMX for f16 has it for bf16.
        has_unit = name == unit or (unit == "_is_amx_fp16_supported" and name == "_is_amx_tile_supported")
        monkeypatch.setattr(torch.cpu, name, lambda has_unit=has_unit: has_unit)
    monkeypatch.setattr(gain, "CALL_SECONDS", 0.0)
    reason = gain.reason_to_leave(_decisions(3e9, 1), torch.device("cpu"), type_)
    assert (reason is not None) == is_left


def _decisions(direct_operations: float, least_bytes: float) -> Any:
    """Those of a layer that takes a second, of a processor of 10^9 operations and bytes per second."""
    chosen = {"schedule": {"kind": "winograd"}, "measured_seconds": None, "predicted_seconds": 1.0}
    layer = {
        "chosen": 0,
        "candidates": [chosen],
        "reason": "",
        "direct_operations": direct_operations,
        "least_bytes": least_bytes,
    }
    limits = {"operations_per_second": 1e9, "bandwidths": [{"name": "memory", "bytes_per_second": 1e9}]}
    return {"layers": [layer], "limits": limits}


@pytest.mark.parametrize(
    ("direct_operations", "least_bytes", "images", "is_left"),
    [
        # What is saved of an image is less than a call.
        (1.00005e9, 1, 1, True),
        (1.00005e9, 1, 8, False),
        # A direct convolution reads filters once, too.
        (0.5e9, 2e9, 1, False),
        (0.5e9, 2e9, 8, True),
    ],
)
def test_images_of_an_open_batch_count(
    direct_operations: float, least_bytes: float, images: int, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gain, "CALL_SECONDS", 1e-4)
    decisions = _decisions(direct_operations, least_bytes)
    reason = gain.reason_to_leave(decisions, torch.device("cpu"), torch.float32, images)
    assert (reason is not None) == is_left


def test_an_open_batch_is_expected_to_be_the_one_seen(
    images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = []

    def record(decisions: Any, device: torch.device, type_: torch.dtype, images: int) -> str:
        expected.append(images)
        return "left"

    monkeypatch.setattr(training_compiler, "reason_to_leave", record)
    model = torch.nn.Conv2d(3, 8, 3)
    for dynamic, count in ((True, len(images)), (False, 1)):
        torch._dynamo.reset()
        with pytest.warns(FallbackWarning):
            torch.compile(model, backend="winograd", dynamic=dynamic)(images).sum().backward()
        assert expected and set(expected) == {count}
        expected.clear()


@pytest.mark.parametrize(
    ("ours", "torchs", "is_left"),
    [
        (CallTimes(30e-6, 20e-6), CallTimes(40e-6, 20e-6), False),
        (CallTimes(50e-6, 20e-6), CallTimes(40e-6, 20e-6), True),
        # A step that waits for the host would take longer.
        (CallTimes(30e-6, 30e-6), CallTimes(40e-6, 15e-6), True),
        (CallTimes(30e-6, 20e-6), CallTimes(40e-6, 15e-6), False),
    ],
)
def test_what_a_gpu_takes_no_longer_for_is_taken(ours: CallTimes, torchs: CallTimes, is_left: bool) -> None:
    assert (reason_of(ours, torchs) is not None) == is_left


@pytest.mark.parametrize("network", [Beginning, *wide([Network])])
def test_parts_are_timed_on_tensors_like_those_of_a_step(
    network: type[torch.nn.Module], images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose sizes, types and strides they have."""
    timed = []

    def keep(compiler: Any, device: torch.device, measured: bool, part: Part) -> None:
        arguments = arguments_of(part)
        assert arguments is not None
        results = CompiledPart(part, compiler, freezing=False)(*arguments)
        expected = part.graph(*arguments)
        pairs = zip(*map(_as_tuple, (results, expected)), strict=True)
        timed.append(all(ours.shape == theirs.shape and ours.dtype == theirs.dtype for ours, theirs in pairs))

    monkeypatch.setattr(training_compiler, "_reason_to_leave", keep)
    model = network()
    compiled(model)(images).square().sum().backward()
    assert timed and all(timed)


def _as_tuple(results: Any) -> tuple[torch.Tensor, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_layers_that_gain_nothing_are_left(images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gain, "CALL_SECONDS", 1e-3)
    model = Network()
    function = compiled(model)
    with pytest.warns(FallbackWarning, match="stem, block, .*may be as fast"):
        loss = function(images).square().sum()
    with pytest.warns(FallbackWarning, match="input gradient of block.*may be as fast"):
        loss.backward()


@pytest.mark.wide
def test_explanation_shows_both_graphs(images: torch.Tensor) -> None:
    model = Network().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    explanation = winograd.explain(model, images, options=OPTIONS, training=True)
    forward, backward = explanation.graphs
    assert (forward.kind, backward.kind) == ("forward", "backward")
    layers = {str(each.role) for part in forward.parts for each in part.convolutions}
    assert layers == {"stem", "block", "reduction", "shortcut"}
    roles = [str(each.role) for part in backward.parts for each in part.convolutions]
    assert {"input gradient of block", "weight gradient of block", "weight gradient of reduction"} <= set(
        roles
    )
    assert "graph 1, backward: " in str(explanation)
    # The model is as it was.
    assert not model.training and model.stem.weight.grad is None
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.wide
def test_steps_of_which_nothing_is_taken_run_as_traced(
    monkeypatch: pytest.MonkeyPatch, images: torch.Tensor
) -> None:
    """From the second one on. Functional operators, whose gradients are traced, take longer."""
    monkeypatch.setattr(gain, "CALL_SECONDS", math.inf)
    calls: list[torch.Tensor] = []

    def compile(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graph.register_forward_hook(lambda *call: calls.append(call[-1]))
        function: Callable[..., Any] = backend.winograd(graph, inputs, options=OPTIONS)
        calls.clear()
        return function

    step = torch.compile(torch.nn.Conv2d(3, 4, 3), backend=compile)
    with pytest.warns(FallbackWarning, match="as fast as"):
        step(images).sum().backward()
    assert len(calls) == 0
    step(images).sum().backward()
    assert len(calls) > 0
