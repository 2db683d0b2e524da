"""The arithmetic of programs on sizes that are known only in a call, as a list of launches has it."""

from itertools import product

import numpy as np
import pytest
from iree.winograd.pipelines.problems.launches import (
    Copy,
    Fill,
    Launch,
    LaunchList,
    Memory,
    Place,
    ResultPlace,
)
from iree.winograd.pipelines.problems.open_launches import CONSTANT, SIZE, OpenLaunches, Step

NUMBERS = (-(2**63), -(2**40) - 3, -7, -1, 1, 2, 7, 64, 2**31, 2**40 + 3, 2**63 - 1)


def computed(operation: str, *operands: int, bits: int = 64, result_bits: int = 64) -> int:
    """What a step makes of constants: where a buffer of so many bytes begins."""
    steps = [Step(CONSTANT, (each,), bits) for each in operands]
    steps.append(Step(operation, tuple(range(len(operands))), result_bits))
    return OpenLaunches(tuple(steps), LaunchList((), (len(operands),), ())).at(()).allocations[0]


@pytest.mark.parametrize(
    ("operation", "reference"),
    [
        ("arith.addi", np.add),
        ("arith.subi", np.subtract),
        ("arith.muli", np.multiply),
        ("arith.floordivsi", np.floor_divide),
        ("arith.minsi", np.minimum),
        ("arith.maxsi", np.maximum),
        ("arith.remsi", np.fmod),
    ],
)
def test_arithmetic_with_a_sign_is_that_of_64_bits(operation: str, reference: np.ufunc) -> None:
    with np.errstate(over="ignore"):
        for first, second in product(NUMBERS, NUMBERS):
            expected = reference(np.array([first]), np.array([second]))[0]
            assert computed(operation, first, second) == expected, (operation, first, second)


@pytest.mark.parametrize(
    ("operation", "reference"),
    [
        ("arith.divui", np.floor_divide),
        ("arith.remui", np.remainder),
        ("arith.minui", np.minimum),
        ("arith.maxui", np.maximum),
    ],
)
def test_arithmetic_without_a_sign_is_that_of_64_bits(operation: str, reference: np.ufunc) -> None:
    for first, second in product(NUMBERS, NUMBERS):
        operands = (np.array([each]).astype(np.uint64) for each in (first, second))
        expected = reference(*operands).astype(np.int64)[0]
        assert computed(operation, first, second) == expected, (operation, first, second)


def test_numbers_become_narrower_and_wider() -> None:
    for number in NUMBERS:
        narrow = int(np.array([number]).astype(np.int32)[0])
        assert computed("arith.trunci", number, result_bits=32) == narrow
        assert computed("arith.extsi", narrow, bits=32) == narrow
        assert computed("arith.extui", narrow, bits=32) == narrow % 2**32
        assert computed("arith.shrui", number, 32) == (number % 2**64) >> 32
    assert [computed("util.align", size, 64) for size in (0, 1, 64, 65)] == [0, 64, 64, 128]
    assert [computed("arith.ceildivui", size, 8) for size in (0, 1, 8, 9)] == [0, 1, 1, 2]


def test_comparisons_choose() -> None:
    def chosen(comparison: str, first: int, second: int) -> int:
        steps = [Step(CONSTANT, (each,), 64) for each in (first, second, 5, 6)]
        steps += [Step(f"arith.cmpi:{comparison}", (0, 1), 1), Step("arith.select", (4, 2, 3), 64)]
        return OpenLaunches(tuple(steps), LaunchList((), (5,), ())).at(()).allocations[0]

    assert [chosen("slt", -1, 1), chosen("ult", -1, 1), chosen("eq", 3, 3)] == [5, 6, 5]


def test_a_list_is_that_of_shapes() -> None:
    """A kernel of as many workgroups as elements, behind a fill; without elements nothing is launched."""
    memory = Memory("allocation", 0)
    steps = (
        Step(SIZE, (0, 1), 64),
        Step(CONSTANT, (4,), 64),
        Step("arith.muli", (0, 1), 64),
        Step(CONSTANT, (1,), 64),
        Step(CONSTANT, (-1,), 32),
    )
    places = Place(memory, 1), Place(Memory("constant", 3), 2)
    launches = OpenLaunches(
        steps,
        LaunchList(
            (
                (Fill(places[0], 2, 4, 4), Launch("kernel", (0, 3, 3), places, (4, 0))),
                (Copy(places[0], places[1], 2),),
            ),
            (2,),
            (ResultPlace(places[1], "f32", (3, 0)),),
        ),
    )
    text = launches.to_json()
    assert " " not in text and OpenLaunches.from_json(text) == launches and launches.is_open
    known = Place(memory, 4), Place(Memory("constant", 3), 28)
    assert launches.at([(2, 7)]) == LaunchList(
        (
            (Fill(known[0], 28, 2**32 - 1, 4), Launch("kernel", (7, 1, 1), known, (2**32 - 1, 7))),
            (Copy(known[0], known[1], 28),),
        ),
        (28,),
        (ResultPlace(known[1], "f32", (1, 7)),),
    )
    assert launches.at([(2, 0)]).stages == ()
    with pytest.raises(ValueError, match="not a list of launches"):
        OpenLaunches.from_json("{}")


def test_shapes_that_the_program_refuses_have_no_launches() -> None:
    steps = (
        Step(SIZE, (0, 0), 64),
        Step(SIZE, (0, 1), 64),
        Step("arith.cmpi:eq", (0, 1), 1),
        Step(CONSTANT, (1,), 64),
    )
    kernel = Launch("kernel", (3, 3, 3), (), ())
    open_launches = OpenLaunches(steps, LaunchList(((kernel,),), (0,), ()), asserted=(2,))
    assert OpenLaunches.from_json(open_launches.to_json()) == open_launches
    assert open_launches.at([(5, 5)]).stages == ((Launch("kernel", (1, 1, 1), (), ()),),)
    assert open_launches.at([(5, 4)]).stages == ()
