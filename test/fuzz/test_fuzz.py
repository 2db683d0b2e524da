"""Random programs that `make test` checks, those that found something, and the checks themselves."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import expressions as e
import numpy as np
import pytest
from campaign import EXAMPLES_PER_ROUND, STOCK_KINDS, may_compile_for_ever
from checker_process import Checker, OutOfTimeError
from configuration import Configuration, configurations
from found_programs import ACCUMULATION, FOUND, PREDICTED, RACING
from guest import Guest, NoGuestError
from host import HAS_AVX512
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from number_types import NUMBER_TYPES
from open_size import at, named
from operations import (
    Collapse,
    Constant,
    Convolution,
    Elementwise,
    Fill,
    Input,
    Pad,
    Product,
    Resizing,
    Transposition,
)
from program import Function, Program, convolutions
from shrinking import shrink
from strategies import BETWEEN, functions, programs
from wide import sampled, wide

RUNNABLE = ["avx512", "amx", "avx2", "sse"] if HAS_AVX512 else ["avx2", "sse"]


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Checker() as checker:
        yield checker


@pytest.mark.parametrize("name", sampled(FOUND, [next(iter(FOUND)), RACING]))
def test_what_was_found_is_mended(name: str, checker: Checker) -> None:
    assert checker.check(*FOUND[name], with_stock=False).finding is None


@pytest.mark.parametrize(("numbers", "roundoff"), [("f16", 2.0**-11), ("bf16", 2.0**-8)])
def test_numbers_of_half_precision_are_rounded_to_the_nearest(numbers: str, roundoff: float) -> None:
    type_ = NUMBER_TYPES[numbers]
    values = [1 + roundoff, 1 + 3 * roundoff, -1 / 3, np.inf, np.nan, type_.largest, 3e38]
    nearest = type_.nearest(values)
    # Ties go to the even one.
    np.testing.assert_array_equal(nearest[:2], [1, 1 + 4 * roundoff])
    assert 0 < abs(nearest[2] + 1 / 3) <= roundoff / 3
    np.testing.assert_array_equal(nearest[3:6], values[3:6])
    assert type_.nearest(nearest[6]) == nearest[6]


@pytest.mark.parametrize("numbers", [*wide(["f16"]), "bf16"])
def test_programs_of_half_precision_are_checked(numbers: str, checker: Checker) -> None:
    """With sums of that type, and of f32."""
    operands = (Input((1, 5, 6)), Constant((3, 6, 4), 7), Constant((1, 3, 4), 8))
    convolution = Convolution(0, 1, 2, ("n0c", "0cf", "n0f"), (1,), (1,), named=True)
    function = Function((*operands, convolution), (3,))
    configuration = replace(PREDICTED, numbers=numbers)
    outcome = checker.check(Program((function, function)), configuration, with_stock=True)
    assert outcome.finding is None
    assert outcome.counts[f"programs of {numbers}"] == 1 and outcome.counts["uninformative results"] == 0


@pytest.mark.wide
def test_programs_for_aarch64_are_checked_in_an_emulator(checker: Checker) -> None:
    program, configuration = FOUND["a padded pointwise convolution of groups"]
    try:
        Guest.find("cortex-a72")
    except NoGuestError as error:
        pytest.skip(str(error))
    outcome = checker.check(program, replace(configuration, target="neon"), with_stock=True)
    assert outcome.finding is None
    assert outcome.counts["convolutions for neon"] > 0


def test_a_check_ends_with_the_time() -> None:
    with (
        Checker(deadline=time.monotonic()) as checker,
        pytest.raises(OutOfTimeError, match="the time was over"),
    ):
        checker.check(Program((ACCUMULATION,)), PREDICTED, with_stock=False)


def test_programs_that_iree_may_compile_for_ever_are_left_out() -> None:
    operations = (
        Input((1, 1, 49)),
        Input((1, 49, 33)),
        Fill(0.0, (1, 1, 33)),
        Product(0, 1, 2, ("bmk", "bkn", "bmn"), named=True),
    )
    program = Program((Function(operations, (3,)),))
    assert may_compile_for_ever(program, replace(PREDICTED, target="sve"))
    assert not may_compile_for_ever(program, replace(PREDICTED, target="neon"))
    assert not may_compile_for_ever(Program((ACCUMULATION,)), replace(PREDICTED, target="sve"))


@pytest.mark.wide
def test_products_and_resized_images_are_checked(checker: Checker) -> None:
    """Keys as torch-mlir transposes them, and pixels as it repeats them; products of one kernel."""
    outcome = checker.check(
        Program(
            (
                Function(
                    (
                        Input((2, 5, 7, 9)),
                        Resizing(0, (2, 5, 14, 9), in_floats=True),
                        Resizing(1, (2, 5, 14, 5), in_floats=False),
                        Collapse(2, 1),
                        Transposition(3, (0, 2, 1)),
                        Fill(0.0, (2, 70, 70)),
                        Product(3, 4, 5, ("bmk", "bkn", "bmn"), named=True),
                        Product(3, 3, 5, ("bmk", "bnk", "bmn"), named=True),
                        Product(3, 3, 5, ("bmk", "bnk", "bmn"), named=False),
                    ),
                    (6, 7, 8),
                ),
            )
        ),
        PREDICTED,
        with_stock=True,
    )
    assert outcome.finding is None
    # With AVX-512 IREE's own code is predicted to be faster for one more.
    by_a_kernel = 1 if HAS_AVX512 else 2
    assert (outcome.counts["products"], outcome.counts["products by a kernel"]) == (3, by_a_kernel)


def test_the_command_starts() -> None:
    """Without what pytest adds to the path of imports."""
    command = [sys.executable, str(Path(__file__).parent), "--help"]
    subprocess.run(command, check=True, capture_output=True)


def _is_quick(program: Program) -> bool:
    """Whether checking it takes seconds, as compiling each of many kernels takes one."""
    return sum(len(function.operations) for function in program.functions) <= 300


@pytest.mark.wide
def test_a_campaign_that_is_ended_says_what_it_found(tmp_path: Path) -> None:
    output = tmp_path / "findings.json"
    command = [sys.executable, Path(__file__).parent, "--seconds=10min", f"--output={output}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "1 jobs for 600 s\n"
        process.terminate()
        text, _ = process.communicate()
    assert "0 findings" in text and process.returncode == 0
    assert json.loads(output.read_text())["campaign"]["seconds"] == 600


@pytest.mark.parametrize("only_open", [False, True])
@settings(
    max_examples=2,
    # Hypothesis would compile hundreds of programs to shrink one.
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data(), configuration=configurations(RUNNABLE))
@pytest.mark.wide
def test_random_programs(
    only_open: bool, data: st.DataObject, configuration: Configuration, checker: Checker
) -> None:
    program = data.draw(programs(only_open).filter(_is_quick))
    finding = checker.check(program, configuration, with_stock=False).finding
    assume(finding is None or finding.kind not in STOCK_KINDS)
    assert finding is None


@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_layers_between_convolutions_on_a_gpu(data: st.DataObject, checker: Checker) -> None:
    """A program of one function for a GPU with what lies between convolutions."""
    function = data.draw(functions(only_open=False, kinds=BETWEEN))
    program = Program((function,))
    # Of programs without convolutions IREE alone computes most.
    assume(_is_quick(program) and convolutions(program))
    configuration = data.draw(configurations(["vulkan"], ["f32"]))
    finding = checker.check(program, configuration, with_stock=False).finding
    assume(finding is None or finding.kind not in STOCK_KINDS)
    assert finding is None


@pytest.mark.wide
@pytest.mark.parametrize("only_open", [False, True])
@pytest.mark.parametrize("number", range(6))
def test_more_layers_between_convolutions_on_a_gpu(number: int, only_open: bool, checker: Checker) -> None:
    """One program each, the last one of a round: the first ones of all rounds are nearly the same."""
    drawn: list[Program] = []

    @hypothesis_seed(number)
    @settings(
        max_examples=EXAMPLES_PER_ROUND,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        program = Program((data.draw(functions(only_open=only_open, kinds=BETWEEN, repeats=False)),))
        assume(convolutions(program))
        drawn.append(program)

    draw()
    # With any other schedule Mesa's compiler may take minutes for one kernel.
    finding = checker.check(drawn[-1], replace(PREDICTED, target="vulkan"), with_stock=False).finding
    assert finding is None or finding.kind in STOCK_KINDS


OPEN = Function(
    (
        Input((named("batch", 2), 3, named("height", 5), 6)),
        Pad(0, (0, 0, 1, 1), (0, 0, 1, 1), 0.0),
        Constant((4, 3, 3, 3), 7),
        Fill(0.0, (named("batch", 2), 4, (named("height", 5) - 1) // 2 + 1, 6)),
        Convolution(1, 2, 3, ("nc01", "fc01", "nf01"), (2, 1), (1, 1), named=True),
    ),
    (4,),
    other_runs=((("batch", 1), ("height", 17)), (("batch", 0), ("height", 1))),
)


@pytest.mark.parametrize("sizes_of_arguments", [False, True])
def test_all_runs_are_checked(sizes_of_arguments: bool, checker: Checker) -> None:
    function = replace(OPEN, sizes_of_arguments=sizes_of_arguments)
    outcome = checker.check(Program((function,)), PREDICTED, with_stock=False)
    assert outcome.finding is None
    assert (outcome.counts["results"], outcome.counts["kernels"]) == (3, 1)


def test_a_run_with_a_finding_is_kept() -> None:
    def is_tall(program: Program) -> bool:
        return any(("height", 17) in run for function in program.functions for run in function.other_runs)

    (left,) = shrink(Program((OPEN, replace(OPEN, output_argument=False))), is_tall).functions
    assert left.other_runs == OPEN.other_runs[:1]


def test_sizes_that_are_the_same_in_all_runs_are_equal() -> None:
    height = named("height", 9)
    assert (height + 2 - 3) // 2 + 1 == (height + 1) // 2 and (2 * height + 3) // 2 == height + 1
    assert height - height == 0 and (height + 7) - height == 7
    assert height // 2 != named("height", 9) // 3 and height != 9 and height > 8
    size = (height * 3 // 4 + 2) // 5 - 1
    assert eval(repr(size)) == size and pickle.loads(pickle.dumps(size)) == size
    for other in (0, 1, 8, 31):
        assert int(at(size, {"height": other})) == (other * 3 // 4 + 2) // 5 - 1


def test_a_wrong_result_is_found_and_shrunk() -> None:
    """As if multiplications were wrong: what is left is one of them."""
    double = Elementwise((0,), ((0, 1),), (e.Apply("mul", (e.Argument(0), e.Number(2.0))),), (2, 3))
    third = e.Apply("mul", (e.Argument(0), e.Number(3.0)))
    function = Function(
        (
            Input((2, 3)),
            double,
            Elementwise((1,), ((0, 1),), (e.Apply("neg", (e.Argument(0),)),), (2, 3)),
            Elementwise((2,), ((0, 1),), (e.Apply("add", (third, e.Number(1.0))),), (2, 3)),
        ),
        (3, 2),
    )

    def multiplies(program: Program) -> bool:
        return any("mul" in repr(operation) for f in program.functions for operation in f.operations)

    smallest = shrink(Program((function, function)), multiplies)
    (left,) = smallest.functions
    assert [type(operation) for operation in left.operations] == [Input, Elementwise]
