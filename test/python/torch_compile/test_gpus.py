"""What precedes the GPU itself where the tensors of a model are on one."""

import copy
import json
import warnings
from functools import partial
from pathlib import Path

import iree.winograd as winograd
import pytest
import torch
from iree.winograd.importers.torch_operators import attention
from iree.winograd.importers.torch_operators.table import decompositions
from iree.winograd.torch_compile.division import divide
from iree.winograd.torch_compile.loaded_part import LoadedPart
from iree.winograd.torch_compile.part_device import PartDevice, part_device
from iree.winograd.torch_compile.training_division import divide_training
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from wide import wide_combinations


@pytest.mark.parametrize(
    ("architecture", "type_"),
    [("sm_80", torch.float32), *wide_combinations([("sm_90a", torch.float32), ("sm_90a", torch.bfloat16)])],
)
def test_parts_on_a_gpu_are_lowered_for_it(architecture: str, type_: torch.dtype) -> None:
    """What precedes the GPU itself: fake tensors need none."""

    def convolution(image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
        sums = torch.ops.aten.convolution.default(image, filters, None, [1], [1], [1], False, [0], 1)
        return torch.relu(sums)

    with FakeTensorMode():
        image, filters = (torch.empty(2, 4, size, dtype=type_, device="cuda:0") for size in (12, 3))
        graph = make_fx(convolution)(image, filters)
    names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
    known = {names[1]: torch.randn(2, 4, 3, dtype=type_)}
    device = part_device(torch.device("cuda", 0), f"cuda:{architecture}")
    division = divide(graph, known, device.torch, 1, True, lambda part: False)
    assert (division.rejections, division.rest, device.uri) == ((), (), "cuda://0")
    (part,) = division.parts
    assert part.model is not None and part.program.signature.device == device.torch
    assert winograd.compile(part.model, target=device.target, strict=True)


def step_graph(type_: torch.dtype) -> GraphModule:
    """A convolution and its gradients on a GPU; fake tensors need none."""

    def step(image: torch.Tensor, filters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        window = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        outputs = torch.ops.aten.convolution.default(image, filters, None, *window)
        backward = torch.ops.aten.convolution_backward.default
        return backward(outputs, image, filters, None, *window, [True, True, False])[:2]

    with FakeTensorMode():
        shapes = (2, 8, 12, 12), (8, 8, 3, 3)
        image, filters = (torch.empty(shape, dtype=type_, device="cuda:0") for shape in shapes)
        return make_fx(step)(image, filters)


@pytest.fixture
def cuda_graph() -> GraphModule:
    return step_graph(torch.float32)


@pytest.mark.parametrize(
    ("architecture", "type_"),
    [("sm_90a", torch.float16), *wide_combinations([("sm_80", torch.float16), ("sm_90a", torch.bfloat16)])],
)
def test_half_precision_is_multiplied_as_it_is_in_training(
    architecture: str, type_: torch.dtype, tmp_path: Path
) -> None:
    """Both gradients, too: by one product on matrix units, and nothing is converted by kernels of its own."""
    device = part_device(torch.device("cuda", 0), f"cuda:{architecture}")
    division = divide_training(
        step_graph(type_), device.torch, (), lambda part: False, lambda part: None, fuses_rest=False
    )
    assert division.rejections == ()
    name = {torch.float16: "f16", torch.bfloat16: "bf16"}[type_]
    for part in division.parts:
        assert part.model is not None and part.program.signature.device == device.torch
        report = tmp_path / f"{part.name}.json"
        program = tmp_path / f"{part.name}.vmfb"
        winograd.compile(part.model, target=device.target, strict=True, output=program, report=report)
        (layer,) = json.loads(report.read_text())["layers"]
        assert layer["types"]["operands"] == name, str(part.role)


def test_steps_of_training_are_lowered_for_a_gpu(cuda_graph: GraphModule) -> None:
    device = part_device(torch.device("cuda", 0), "cuda:sm_90a")
    with torch.backends.cudnn.flags(allow_tf32=False):
        division = divide_training(
            cuda_graph, device.torch, (), lambda part: False, lambda part: None, fuses_rest=False
        )
    assert division.rejections == ()
    assert [part.role and part.role.gradient for part in division.parts] == [None, "input", "weight"]
    for part in division.parts:
        assert part.model is not None and part.program.signature.device == device.torch
        assert winograd.compile(part.model, target=device.target, strict=True)


def test_torch_trains_in_tf32_unless_told_not_to(cuda_graph: GraphModule) -> None:
    """Which is its default, and faster than products of single precision."""
    device = torch.device("cuda", 0)
    with torch.backends.cudnn.flags(allow_tf32=True):
        division = divide_training(
            cuda_graph, device, (), lambda part: False, lambda part: None, fuses_rest=False
        )
    assert division.parts == ()
    (rejection,) = division.rejections
    assert len(rejection.operators) == 3 and "TF32" in rejection.reason


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


def attended(type_: torch.dtype, image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    """A convolution whose pixels attend to each other, by the operator that torch has for GPUs."""
    image = torch.ops.aten.convolution.default(image, filters, None, [1], [1], [1], False, [0], 1)
    heads = image.reshape(2, 2, 4, -1).transpose(-2, -1)
    if type_ == torch.float32:
        efficient = torch.ops.aten._scaled_dot_product_efficient_attention.default
        return efficient(heads, heads, heads, None, False)[0]
    return torch.ops.aten._scaled_dot_product_flash_attention.default(heads, heads, heads)[0]


@pytest.mark.parametrize("type_", [torch.float32, torch.float16])
def test_attention_of_gpus_is_part_of_a_program(type_: torch.dtype) -> None:
    with FakeTensorMode():
        image, filters = (torch.empty(*shape, dtype=type_) for shape in ((2, 4, 12), (8, 4, 3)))
        graph = make_fx(partial(attended, type_), decomposition_table=decompositions())(image, filters)
    division = divide(graph, {}, torch.device("cpu"), 1, True, lambda part: False)
    assert (division.rejections, division.rest, len(division.parts)) == ((), (), 1)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("operator", ["efficient", "flash", "cudnn"])
def test_attention_of_gpus_is_that_of_torch(operator: str, is_causal: bool) -> None:
    query, key, value = (torch.randn(2, 3, 8, 4) for _ in range(3))
    given = {"is_causal": is_causal, "scale": 0.7}
    if operator == "flash":
        output, sums, *_ = attention.flash(query, key, value, **given)
        scores = 0.7 * query.double() @ key.double().transpose(-2, -1)
        if is_causal:
            scores = scores.masked_fill(~torch.ones(8, 8, dtype=torch.bool).tril(), -torch.inf)
        torch.testing.assert_close(sums.double(), torch.logsumexp(scores, -1), rtol=1e-5, atol=1e-5)
    else:
        output, *_ = getattr(attention, operator)(query, key, value, None, False, **given)
    exact = torch.nn.functional.scaled_dot_product_attention(
        query.double(), key.double(), value.double(), **given
    )
    torch.testing.assert_close(output.double(), exact, rtol=1e-5, atol=1e-5)
    assert output.transpose(1, 2).is_contiguous()


def test_attention_that_drops_scores_stays() -> None:
    tensors = [torch.randn(1, 1, 4, 4) for _ in range(3)]
    assert attention.efficient(*tensors, None, False, 0.5) is NotImplemented
    assert attention.efficient(*tensors, None, True) is NotImplemented
    assert attention.flash(*tensors, 0.5) is NotImplemented
    assert attention.cudnn(*tensors, None, True) is NotImplemented


@pytest.mark.matrix_units
def test_calls_are_launched_as_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU: in turn on two streams, with images in either layout, and results that are kept."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("kernels were launched one by one")

    monkeypatch.setattr(LoadedPart, "__call__", refuse)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 48, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Conv2d(48, 16, 1),
    ).eval()
    exact = copy.deepcopy(model).double()
    model.cuda()
    images = [torch.randn(2, 3, 40, 36) for _ in range(4)]
    images[1] = images[1].contiguous(memory_format=torch.channels_last)
    images[2] = torch.randn(2, 3, 40, 72)[..., ::2]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="winograd", dynamic=False, options={"measured": False})
        kept = []
        for number, image in enumerate(images):
            on_device = image.cuda()
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream() if number % 2 else torch.cuda.current_stream()):
                kept.append(compiled(on_device))
        torch.cuda.synchronize()
        # Each layer's sums of so many products are off by as many roundings at most.
        roundings = 9 * 3 + 9 * 32 + 48
        for image, result in zip(images, kept, strict=True):
            expected = exact(image.double())
            error = (result.cpu().double() - expected).abs().max()
            assert error <= roundings * 2**-24 * expected.abs().max()


@pytest.mark.matrix_units
def test_a_caller_may_capture_a_cuda_graph() -> None:
    """After a first call: its kernels are the graph's then, and calls beside it are as before."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 16, 3, stride=2)).eval().cuda()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="winograd", dynamic=False, options={"measured": False})
        images = [torch.randn(2, 3, 30, 36, device="cuda") for _ in range(3)]
        expected = [compiled(image) for image in images]
        given, graph = images[0].clone(), torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            captured = compiled(given)
        for image, result in zip(images, expected, strict=True):
            given.copy_(image)
            graph.replay()
            assert torch.equal(captured, result)
            assert torch.equal(compiled(image), result)


@pytest.mark.matrix_units
def test_programs_are_called_on_tensors_of_the_gpu() -> None:
    """Which stay there; sizes that only a call knows are computed by way of the host."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU()).eval()
    images = torch.randn(2, 8, 20, 20)
    with torch.no_grad():
        expected = copy.deepcopy(model).double()(images.double())
    bound = 9 * 8 * 2**-24 * expected.abs().max()
    for dynamic_batch in (False, True):
        imported = winograd.import_torch(model, images, dynamic_batch=dynamic_batch)
        program = winograd.load(winograd.compile(imported, target="cuda:sm_90a", strict=True), "cuda")
        for given in (images.cuda(), images.cuda().contiguous(memory_format=torch.channels_last)):
            result = program(given)
            assert result.device == given.device
            assert (result.cpu().double() - expected).abs().max() <= bound
        with pytest.raises(winograd.CallError, match="argument 0 of main must be"):
            program(images.cuda()[:, :4])
        with pytest.raises(winograd.CallError, match="argument 0 of main must be"):
            program(images.cuda().double())
