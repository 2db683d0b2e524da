"""What loads and stores make of numbers of half precision, against torch's conversions, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd.calibration.programs import backend_of, compile_module
from iree.winograd.dialect.bindings import arith, func, ir
from iree.winograd.pipelines.cpu.lowering import translation
from iree.winograd.pipelines.emission.buffer import Buffer, copy_elements
from iree.winograd.pipelines.emission.control_flow import loop
from iree.winograd.pipelines.emission.dispatch import KernelFunction, emit_dispatch, emit_executable
from iree.winograd.pipelines.emission.index import Index
from iree.winograd.pipelines.emission.numbers.known import NUMBERS, number_of, numbers_of
from iree.winograd.pipelines.emission.signature import DispatchSignature
from iree.winograd.pipelines.emission.vectors import splat
from wide import wide_combinations

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture
def processor(request: pytest.FixtureRequest) -> str:
    """The target that programs run on: this machine, or what `--cpu` emulates."""
    emulated = request.config.getoption("--cpu")
    return "cpu" if emulated is None else f"cpu:{emulated}"


def copying_program(
    source: str,
    target: str,
    count: int,
    lanes: int = 16,
    processor: str = "cpu",
    copy_numbers: Callable[..., None] = copy_elements,
) -> bytes:
    """One that copies numbers by vectors of so many, and what is left one by one."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        read, written = (
            ir.RankedTensorType.get([count], ir.Type.parse(element)) for element in (source, target)
        )
        signature = DispatchSignature.of([read], written)

        def copy(function: KernelFunction[Buffer]) -> None:
            copy_numbers(function.buffers[0], Index(0), function.buffers[1], Index(0), Index(count), lanes)

        with ir.InsertionPoint(module.body):
            emit_executable(
                module.operation,
                "copy",
                signature,
                translation(),
                lambda _: (Index(1),),
                copy,
                signature.bindings(backend_of(processor).target.numbers),
            )
            function = func.FuncOp("copied", ([read], [written]))
            with ir.InsertionPoint(function.add_entry_block()):
                func.ReturnOp([emit_dispatch("copy", signature, list(function.arguments))])
        return compile_module(module, processor)


@pytest.mark.parametrize("limit", [0.25, 0.1])
def test_numbers_that_are_bf16_are_stored_as_they_are(limit: float) -> None:
    """The lesser of those that were loaded and of another one, which 0.1 isn't: it is rounded."""

    def copy_bounded(
        source: Buffer, first: Index, target: Buffer, place: Index, count: Index, lanes: int
    ) -> None:
        assert count.known is not None and count.known % lanes == 0
        with loop(count, lanes) as i:
            bound = splat(limit, lanes, source.computed)
            target.store(arith.minimumf(source.load(first + i, lanes), bound), place + i)

    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    numbers = bits.view(torch.bfloat16)
    program = copying_program("bf16", "bf16", len(numbers), copy_numbers=copy_bounded)
    result = torch.as_tensor(winograd.load(program).copied(numbers))
    expected = torch.minimum(numbers.float(), torch.tensor(limit)).bfloat16()
    normal = expected.float().abs() >= torch.finfo(torch.float32).tiny
    assert torch.equal(result[normal], expected[normal])
    assert torch.equal(result.isnan(), expected.isnan())


def copied(source: str, target: str, numbers: torch.Tensor, path, processor: str) -> torch.Tensor:
    path.write_bytes(copying_program(source, target, len(numbers), processor=processor))
    return torch.as_tensor(winograd.load(path).copied(numbers))


@pytest.mark.parametrize("name", TYPES)
def test_all_numbers_are_widened_exactly(name, processor, tmp_path):
    stored = torch.arange(2**16).to(torch.int32).to(torch.uint16).view(TYPES[name])
    result = copied(name, "f32", stored, tmp_path / "widen.vmfb", processor)
    np.testing.assert_array_equal(result.numpy(), stored.float().numpy())


@pytest.mark.parametrize("name", TYPES)
def test_numbers_are_rounded_to_the_nearest(name, processor, tmp_path):
    """Those halfway between two to the even one, what is beyond the largest to infinity; NaN stays NaN.

    A processor's instruction for bf16 takes numbers below the least normal one for zeros.
    """
    stored = torch.arange(2**16).to(torch.int32).to(torch.uint16).view(TYPES[name]).float()
    finite = stored[stored.isfinite()].sort().values
    halfway = (finite[1:].double() + finite[:-1].double()) / 2
    near = halfway.float()
    numbers = torch.cat(
        [near, near.nextafter(torch.tensor(torch.inf)), near.nextafter(torch.tensor(-torch.inf))]
    )
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 65519.99, 65520.0, 3.4e38, -1e-45])
    # A NaN all of whose bits are in what is cut off.
    quiet = torch.tensor([0x7F800001], dtype=torch.int32).view(torch.float32)
    numbers = torch.cat([numbers, special, quiet])
    result = copied("f32", name, numbers, tmp_path / "narrow.vmfb", processor)
    if name == "bf16" and backend_of(processor).target.rounds_bf16:
        is_normal = ~(numbers.abs() < torch.finfo(torch.float32).tiny)
        numbers = numbers.where(is_normal, torch.zeros(()).copysign(numbers))
    expected = numbers.to(TYPES[name])
    assert torch.equal(result.isnan(), expected.isnan())
    kept = ~expected.isnan()
    assert torch.equal(result.view(torch.int16)[kept], expected.view(torch.int16)[kept])


@pytest.mark.parametrize(
    ("most", "fused", "is_stored"),
    [
        (2.0**110, True, True),
        (np.inf, False, False),
        *wide_combinations(
            [
                (2.0**110, True, False),
                (2.0**110, False, False),
                (2.0**110, False, True),
                (np.inf, True, False),
            ]
        ),
    ],
)
def test_numbers_are_rounded_to_bf16_in_registers(most, fused, is_stored):
    """By sums to the nearest, halfway between two to the even one, as long as they aren't too large for that.

    What has no bounds may keep digits beyond 2^87, and moves by one more of f32 than to the nearest at most,
    unless it is to be stored.
    """
    number = numbers_of(rounds_bf16=False, fused_multiply_add=fused)["bf16"]

    def copy_rounded(
        source: Buffer, first: Index, target: Buffer, place: Index, count: Index, lanes: int
    ) -> None:
        assert count.known is not None and count.known % lanes == 0
        with loop(count, lanes) as i:
            loaded = source.load(first + i, lanes)
            narrowed = number.widened(number.narrowed_within(loaded, most)) if is_stored else None
            target.store(number.rounded(loaded, most) if narrowed is None else narrowed, place + i)

    stored = torch.arange(2**16).to(torch.int32).to(torch.uint16).view(torch.bfloat16).float()
    finite = stored[stored.isfinite() & (stored.abs() <= most)].sort().values
    near = ((finite[1:].double() + finite[:-1].double()) / 2).float()
    ends = [torch.tensor(end) for end in (torch.inf, -torch.inf)]
    beyond = [] if np.isfinite(most) else [torch.inf, -torch.inf, 3.4e38, -3.4e38]
    special = torch.tensor([0.0, -0.0, torch.nan, *beyond])
    dirty = torch.tensor([0x7FFFFFFF, -1, 0x7F800001], dtype=torch.int32).view(torch.float32)
    numbers = torch.cat([finite, near, *(near.nextafter(end) for end in ends), special, dirty])
    # Arithmetic may take those below the least normal one for zeros.
    numbers = numbers[~(numbers.abs() < torch.finfo(torch.float32).tiny) | (numbers == 0)]
    numbers = torch.cat([numbers, torch.zeros(-len(numbers) % 8)])
    program = copying_program("f32", "f32", len(numbers), 8, copy_numbers=copy_rounded)
    result = torch.as_tensor(winograd.load(program).copied(numbers))
    expected = numbers.to(torch.bfloat16).float()
    assert torch.equal(result.isnan(), expected.isnan())
    passing = (numbers.abs() >= 2.0**87) & numbers.isfinite() & (most == np.inf)
    kept = ~(expected.isnan() | passing)
    assert torch.equal(result[kept], expected[kept])
    moved, bound = ((each.double() - numbers).abs() for each in (result, expected))
    assert torch.all((moved <= bound + 2.0**-23 * numbers.abs())[passing])


@pytest.mark.parametrize("fused", [False, True])
def test_small_numbers_are_rounded_to_f16_in_registers(fused):
    """To the nearest, halfway between two to the even one; those below the least normal one may stay."""
    number = numbers_of(rounds_bf16=False, fused_multiply_add=fused)["f16"]

    def copy_rounded(
        source: Buffer, first: Index, target: Buffer, place: Index, count: Index, lanes: int
    ) -> None:
        assert count.known is not None and count.known % lanes == 0
        with loop(count, lanes) as i:
            target.store(number.rounded(source.load(first + i, lanes), 65504.0), place + i)

    stored = torch.arange(2**16).to(torch.int32).to(torch.uint16).view(torch.float16).float()
    finite = stored[stored.isfinite()].sort().values
    near = ((finite[1:].double() + finite[:-1].double()) / 2).float()
    ends = [torch.tensor(end) for end in (torch.inf, -torch.inf)]
    numbers = torch.cat([finite, near, *(near.nextafter(end) for end in ends), torch.tensor([torch.nan])])
    numbers = torch.cat([numbers, torch.zeros(-len(numbers) % 8)])
    program = copying_program("f32", "f32", len(numbers), 8, copy_numbers=copy_rounded)
    result = torch.as_tensor(winograd.load(program).copied(numbers))
    expected = numbers.half().float()
    assert torch.equal(result.isnan(), expected.isnan())
    is_normal = numbers.abs() >= torch.finfo(torch.float16).tiny
    assert torch.equal(result[is_normal], expected[is_normal])
    below = numbers[~is_normal & ~numbers.isnan()]
    moved = (result[~is_normal & ~numbers.isnan()] - below).abs()
    assert torch.all(moved <= 2.0**-11 * below.abs() + torch.finfo(torch.float32).tiny)


@pytest.mark.parametrize(
    ("processor", "lanes"),
    [("cpu:znver4", 16), *wide_combinations([("cpu:znver4", 1), ("cpu:sierraforest", 8)])],
)
def test_instructions_round_to_bf16(processor, lanes):
    """What no instruction converts would be a call of a function that IREE doesn't have."""
    assert backend_of(processor).target.rounds_bf16
    copying_program("f32", "bf16", 37, lanes, processor)


def test_two_vectors_are_rounded_together(processor, tmp_path):
    """What was rounded in registers before is rounded from what it was, once."""
    target = backend_of(processor).target
    by_one_instruction = target.rounds_bf16 and target.vector_width == 16

    def copy_two(
        source: Buffer, first: Index, target: Buffer, place: Index, count: Index, lanes: int
    ) -> None:
        assert target.number.narrows_two == by_one_instruction
        with loop(count, 2 * lanes) as i:
            one, other = (source.load(first + i + lane, lanes) for lane in (0, lanes))
            other = target.number.rounded(other)
            if by_one_instruction:
                target.store_two(one, other, place + i)
            else:
                target.store(one, place + i)
                target.store(other, place + i + lanes)

    numbers = torch.randn(64)
    path = tmp_path / "two.vmfb"
    path.write_bytes(copying_program("f32", "bf16", len(numbers), processor=processor, copy_numbers=copy_two))
    result = torch.as_tensor(winograd.load(path)(numbers))
    assert torch.equal(result, numbers.bfloat16())


@pytest.mark.parametrize("processor", ["cpu:haswell", "cpu:icelake-server"])
def test_processors_without_instructions_for_bf16(processor):
    assert not backend_of(processor).target.rounds_bf16


def test_numbers_that_only_lie_in_memory_are_as_they_are():
    with ir.Context():
        assert number_of(ir.IntegerType.get_signless(32)).computed.name == "i32"
        assert {name: number.computed.name for name, number in NUMBERS.items()} == dict.fromkeys(
            NUMBERS, "f32"
        )
