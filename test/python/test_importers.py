import copy
import pickle
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import iree.compiler
import pytest
import torch
from iree.winograd.compiling.program import compile
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError, ModelImportError
from iree.winograd.importers.batch_warning import BatchWarning
from iree.winograd.importers.import_model import import_torch
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.importers.size_warning import SizeWarning
from iree.winograd.loading.runtime import LoadedProgram, load
from iree.winograd.loading.signatures import TensorSignature
from wide import wide_combinations

UNIT_ROUNDOFF = 2.0**-24


class Network(torch.nn.Module):
    """A convolution, batch normalization, a weight that is used twice, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.normalization = torch.nn.BatchNorm2d(8)
        self.scale = torch.nn.Parameter(torch.rand(8, 1, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.normalization(self.convolution(x)))
        return y * self.scale, y.mean(dim=(2, 3)) + self.scale[:, 0, 0]


def stock_compile(model: ImportedModel, path: Path) -> LoadedProgram:
    source, target = path / "model.mlirbc", path / "model.vmfb"
    model.save(source)
    iree.compiler.compile_file(
        str(source),
        output_file=str(target),
        extra_args=[
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host",
        ],
    )
    return load(target, "local-sync")


def operations(operation: ir.Operation) -> Iterator[ir.Operation]:
    for region in operation.regions:
        for block in region:
            for nested in block:
                yield nested.operation
                yield from operations(nested.operation)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(0)
    network = Network().eval()
    network.normalization.running_mean.normal_()
    network.normalization.running_var.uniform_(0.5, 2)
    return network


def test_results_are_torchs_for_any_batch(network: Network, tmp_path: Path) -> None:
    program = stock_compile(import_torch(network, torch.zeros(1, 3, 9, 7), dynamic_batch=True), tmp_path)
    network.double()
    for batch in (1, 2, 5):
        x = torch.randn(batch, 3, 9, 7)
        results = program(x)
        # Sums of 27 products, then of 63 values, with a few roundings before and after: 128 in all.
        for result, expected in zip(results, network(x.double()), strict=True):
            error = (result.double() - expected).abs().max() / expected.abs().max()
            assert error < 128 * UNIT_ROUNDOFF


def test_channels_last_weights() -> None:
    """Of 1x1 filters too, whose strides PyTorch leaves as they are when it makes them contiguous."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 5, 1)).eval()
    x = torch.randn(1, 3, 9, 7)
    expected = import_torch(network, x)
    imported = import_torch(network.to(memory_format=torch.channels_last), x)
    assert sorted(map(bytes, imported.weights.values())) == sorted(map(bytes, expected.weights.values()))


class Normalized(torch.nn.Module):
    """As in the blocks of diffusion U-Nets."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3)
        self.normalization = torch.nn.GroupNorm(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(self.normalization(self.convolution(x)))


def test_group_normalization_of_a_dynamic_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = Normalized().eval()
    program = stock_compile(import_torch(network, torch.zeros(1, 3, 9, 7), dynamic_batch=True), tmp_path)
    x = torch.randn(3, 3, 9, 7)
    result, exact = program(x), network.double()(x.double())
    # Sums of 27 products, then twice of the 70 values of a group, with a few roundings before and after.
    assert (result.double() - exact).abs().max() / exact.abs().max() < 256 * UNIT_ROUNDOFF


class PositionBias(torch.nn.Module):
    """Adds a weight for each pair of positions, as attention does in LeViT, Swin and MaxViT."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.rand(2, 7))
        positions = torch.arange(4)
        self.register_buffer("pair", positions[:, None] - positions[None, :] + 3, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.bias[:, self.pair]


def test_models_can_be_copied_and_sent_to_other_processes(network: Network) -> None:
    model = import_torch(network, torch.randn(2, 3, 12, 14))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert str(other.build(ir.Context())) == str(model.build(ir.Context()))
        assert (other.entry, other.inputs, other.outputs) == (model.entry, model.inputs, model.outputs)


def test_buffers_that_are_not_saved_are_indices(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = PositionBias(), torch.rand(1, 2, 4, 4)
    program = stock_compile(import_torch(model, x), tmp_path)
    # One addition, of the same numbers.
    assert torch.equal(torch.from_numpy(program(x.numpy())), model(x))


class ChannelsToRows(torch.nn.Module):
    """A fully connected layer on what isn't contiguous, as behind attention over channels in DaViT."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x.transpose(1, 2))
        return result


def test_fully_connected_layers_multiply_all_rows_at_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ChannelsToRows()
    imported = import_torch(model, torch.zeros(1, 6, 9), dynamic_batch=True)
    assert b"batch_matmul" not in imported.program
    x = torch.randn(3, 6, 9)
    result, exact = stock_compile(imported, tmp_path)(x), model.double()(x.double())
    # Sums of six products and a bias, whose parts are no larger than the sum of their magnitudes.
    magnitudes = x.double().abs().transpose(1, 2) @ model.linear.weight.abs().t() + model.linear.bias.abs()
    assert ((result.double() - exact).abs() <= 8 * UNIT_ROUNDOFF * magnitudes).all()


def test_signature(network: Network) -> None:
    model = import_torch(network, torch.zeros(2, 3, 9, 7), entry="forward")
    assert model.entry == "forward"
    assert model.inputs == (TensorSignature((2, 3, 9, 7), "f32", "x"),)
    assert model.outputs == (TensorSignature((2, 8, 9, 7), "f32"), TensorSignature((2, 8), "f32"))
    dynamic = import_torch(network, torch.zeros(1, 3, 9, 7), dynamic_batch=True)
    assert dynamic.inputs == (TensorSignature((None, 3, 9, 7), "f32", "x"),)
    assert dynamic.outputs == (TensorSignature((None, 8, 9, 7), "f32"), TensorSignature((None, 8), "f32"))


def test_weights_are_torchs_memory_and_not_in_the_program() -> None:
    model = torch.nn.Conv2d(64, 64, 3)
    imported = import_torch(model, torch.zeros(1, 64, 8, 8))
    assert {weight.ctypes.data for weight in imported.weights.values()} == {
        model.weight.data_ptr(),
        model.bias.data_ptr(),  # type: ignore[union-attr]
    }
    assert len(imported.program) < model.weight.nbytes / 8


def test_a_weight_used_twice_is_held_once(network: Network) -> None:
    imported = import_torch(network, torch.zeros(1, 3, 9, 7))
    pointers = [weight.ctypes.data for weight in imported.weights.values()]
    assert len(pointers) == len(set(pointers))


def test_compiling_keeps_no_weights(network: Network) -> None:
    imported = import_torch(network, torch.zeros(1, 3, 9, 7))
    before = {name: sys.getrefcount(weight) for name, weight in imported.weights.items()}
    for enable_winograd in (True, False):
        compile(imported, enable_winograd=enable_winograd)
        assert {name: sys.getrefcount(weight) for name, weight in imported.weights.items()} == before


def test_operations_carry_the_names_of_layers(network: Network) -> None:
    module = import_torch(network, torch.zeros(1, 3, 9, 7)).build(ir.Context())
    (convolution,) = (op for op in operations(module.operation) if op.name.startswith("linalg.conv_2d"))
    assert isinstance(convolution.location, ir.NameLoc)
    assert convolution.location.name_str == "convolution"
    line = convolution.location.child_loc
    assert isinstance(line, ir.FileLineColLoc)
    assert line.filename == __file__
    assert "self.convolution(x)" in Path(__file__).read_text().splitlines()[line.start_line - 1]


def test_evaluation_mode_is_used_and_undone(network: Network) -> None:
    network.train()
    network.convolution.eval()
    mean = network.normalization.running_mean.clone()
    import_torch(network, torch.randn(4, 3, 9, 7))
    assert torch.equal(network.normalization.running_mean, mean)
    assert network.training
    assert network.normalization.training
    assert not network.convolution.training


def test_exported_programs_are_imported(network: Network) -> None:
    exported = torch.export.export(network, (torch.zeros(2, 3, 9, 7),))
    assert import_torch(exported).inputs == (TensorSignature((2, 3, 9, 7), "f32", "x"),)
    with pytest.raises(ModelImportError, match="give neither them nor dynamic_batch"):
        import_torch(exported, torch.zeros(2, 3, 9, 7))


@pytest.mark.parametrize(
    "images, opened, hint",
    [
        (5, (0, 2, 3), (5, 9, 7)),
        (2, (0,), ()),
        *wide_combinations([(5, (0,), (5,)), (2, (0, 2, 3), (9, 7)), (5, (2, 3), (9, 7))]),
    ],
)
def test_sizes_of_an_example_are_expected(
    images: int, opened: tuple[int, ...], hint: tuple[int, ...], network: Network
) -> None:
    """Two images are what torch needs to leave the batch open."""
    sizes = {each: torch.export.Dim(f"size_{each}", min=4 if each else 1) for each in opened}
    exported = torch.export.export(network, (torch.zeros(images, 3, 9, 7),), dynamic_shapes=(sizes,))
    assert import_torch(exported).size_hint == hint


class DataDependent(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


class WithoutLowering(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x)


@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor | None = None


class Containers(torch.nn.Module):
    """Takes and gives what models of diffusers and transformers do."""

    def forward(
        self,
        pair: Pair,
        scale: float,
        *shifts: torch.Tensor,
        masks: dict[str, list[torch.Tensor]],
        power: int = 1,
        negate: bool = False,
    ) -> dict[str, object]:
        total = pair.first * scale**power + shifts[0]
        total = -total if negate else total
        masked = total * masks["inner"][0]
        return {"pair": Pair(total), "masked": (masked, masked - 1)}


def test_arguments_and_results_in_containers() -> None:
    first, shift = torch.tensor([8.0, -4, 2, 0, 1, 16]), torch.arange(6.0)
    mask = torch.tensor([1.0, 0, 2, 0, 1, 0.5])
    keywords = {"masks": {"inner": [mask]}, "power": 2, "negate": True}
    model = import_torch(Containers(), Pair(torch.zeros(6)), 0.5, torch.zeros(6), kwargs=keywords)
    assert [each.name for each in model.inputs] == ["pair_first", "shifts_0", "masks_inner_0"]
    assert [each.name for each in model.outputs] == ["pair.first", "masked.0", "masked.1"]
    program = load(compile(model), "local-sync")
    assert program.main.signature is not None
    assert program.main.signature.outputs == model.outputs
    # Sums and products of numbers that f32 holds.
    expected = torch.tensor([-2.0, 0, -2.5, -3, -4.25, -9])
    total, masked, less = program(first, masks_inner_0=mask, shifts_0=shift)
    torch.testing.assert_close(total, expected, rtol=0, atol=0)
    torch.testing.assert_close(masked, expected * mask, rtol=0, atol=0)
    torch.testing.assert_close(less, expected * mask - 1, rtol=0, atol=0)


class Upsampling(torch.nn.Module):
    """As those of diffusers: what it asks of its batch changes nothing in its results."""

    def forward(self, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        x = x.contiguous() if x.shape[0] >= 64 else x
        return torch.nn.functional.interpolate(x, scale_factor=2.0) * factor


def test_a_model_that_looks_at_its_batch() -> None:
    given = torch.zeros(1, 2, 3, 3), torch.tensor(1.0)
    with pytest.warns(BatchWarning, match="imported for .*batch <= 63") as record:
        model = import_torch(Upsampling(), *given, dynamic_batch=True)
    assert record[0].filename == __file__
    assert [each.shape for each in model.inputs] == [(None, 2, 3, 3), ()]
    image = torch.arange(5 * 18.0).reshape(5, 2, 3, 3)
    enlarged = load(compile(model), "local-sync")(image, torch.tensor(2.0))
    expected = 2 * image.repeat_interleave(2, 2).repeat_interleave(2, 3)
    torch.testing.assert_close(enlarged, expected, rtol=0, atol=0)


@pytest.mark.parametrize("size", [9, 10])
def test_a_program_that_is_exported_for_some_sizes(size: int) -> None:
    """Of 7 to 9 pixels a convolution computes a single one, by which torch has others broadcast."""
    image, any_size = torch.zeros(2, 3, size), torch.export.Dim.AUTO
    layers = torch.nn.Sequential(torch.nn.Conv1d(3, 4, 7, stride=3), torch.nn.Hardswish())
    exported = torch.export.export(layers.eval(), (image,), dynamic_shapes=({2: any_size},))
    if size == 10:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SizeWarning)
            assert import_torch(exported).outputs[0].shape == (2, 4, None)
    else:
        with pytest.warns(SizeWarning, match=r"for sizes at which .*input\.shape\[2\].* == 1: ") as record:
            import_torch(exported)
        assert record[0].filename == __file__


def test_a_model_for_one_batch() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.ones(2, 1)

    with pytest.raises(ModelImportError, match=r"(?s)could not trace Fixed.*constant \(2\)"):
        import_torch(Fixed(), torch.zeros(1, 3), dynamic_batch=True)


def test_a_model_that_cannot_be_traced() -> None:
    expected = r"torch\.export could not trace DataDependent: .*data-dependent"
    with pytest.raises(ModelImportError, match=expected):
        import_torch(DataDependent(), torch.zeros(3))


def test_an_operator_without_lowering() -> None:
    with pytest.raises(ModelImportError, match=r"torch-mlir could not lower the model: .*eig"):
        import_torch(WithoutLowering(), torch.zeros(3, 3))


def test_not_a_model() -> None:
    with pytest.raises(ModelImportError, match=r"expected a torch\.nn\.Module or ExportedProgram, got int"):
        import_torch(3, torch.zeros(3))  # type: ignore[arg-type]


class Written(torch.nn.Module):
    """Writes to its arguments, and returns one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.clamp_(0, 1)
        y += 1
        return x, self.convolution(x)


def test_arguments_that_are_written_are_no_results() -> None:
    torch.manual_seed(0)
    model, x, y = Written(), torch.randn(1, 3, 5, 6), torch.zeros(2)
    program = load(compile(import_torch(model, x.clone(), y.clone())))
    given = x.clone()
    clamped, convolved = program(given, y)
    assert torch.equal(given, x)
    exact = model.double()(x.double(), y.double())
    assert torch.equal(torch.as_tensor(clamped), x.clamp(0, 1))
    # Sums of 27 products of numbers up to 1, and a bias.
    assert (torch.as_tensor(convolved).double() - exact[1]).abs().max() < 28**2 * UNIT_ROUNDOFF


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * self.count


def test_what_a_model_keeps_from_call_to_call_is_refused() -> None:
    with pytest.raises(ModelImportError, match="reads its buffer 'count', and writes to it"):
        import_torch(Counting(), torch.zeros(3))


def test_double_precision_is_kept(network: Network) -> None:
    network.double()
    x = torch.randn(2, 3, 9, 7, dtype=torch.float64)
    model = import_torch(network, x)
    results = load(compile(model))(x)
    for result, expected in zip(results, network(x), strict=True):
        assert torch.as_tensor(result).dtype == torch.float64
        error = (torch.as_tensor(result) - expected).abs().max() / expected.abs().max()
        # As in single precision.
        assert error < 128 * 2.0**-53


INVALID_LATER = """
func.func @main(%image: tensor<1x8x7x7xf32>, %filter: tensor<8x8x3x3xf32>)
    -> (tensor<1x8x1x1xf32>, tensor<1x8x5x5xf32>) {
  %zero = arith.constant 0.0 : f32
  %window = tensor.empty() : tensor<4x4xf32>
  %one = tensor.empty() : tensor<1x8x1x1xf32>
  %sum = linalg.fill ins(%zero : f32) outs(%one : tensor<1x8x1x1xf32>) -> tensor<1x8x1x1xf32>
  %pooled = linalg.pooling_nchw_sum {dilations = dense<1> : vector<2xi64>, strides = dense<4> : vector<2xi64>}
    ins(%image, %window : tensor<1x8x7x7xf32>, tensor<4x4xf32>) outs(%sum : tensor<1x8x1x1xf32>)
    -> tensor<1x8x1x1xf32>
  %all = tensor.empty() : tensor<1x8x5x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%all : tensor<1x8x5x5xf32>) -> tensor<1x8x5x5xf32>
  %convolved = linalg.conv_2d_nchw_fchw ins(%image, %filter : tensor<1x8x7x7xf32>, tensor<8x8x3x3xf32>)
    outs(%init : tensor<1x8x5x5xf32>) -> tensor<1x8x5x5xf32>
  return %pooled, %convolved : tensor<1x8x1x1xf32>, tensor<1x8x5x5xf32>
}
"""
"""A single window of an image that has more pixels: IREE drops the loop over windows."""


@pytest.mark.parametrize("strict", [False, True])
def test_what_turns_out_invalid_behind_our_passes_is_reported_as_by_iree(strict: bool) -> None:
    with pytest.raises(CompilationError, match="inferred input/output operand") as stock:
        compile(INVALID_LATER, enable_winograd=False)
    with pytest.raises(CompilationError) as ours:
        compile(INVALID_LATER, strict=strict)
    assert str(ours.value) == str(stock.value)
