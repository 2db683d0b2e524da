"""What stays in registers: the sums of products, and tiles while they are transformed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from math import prod
from pathlib import Path

import numpy as np
import pytest
from checked_programs import compile_rewritten
from convolution_program import Program
from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.pipelines.cpu.tiles.register_parts import register_parts
from wide import wide_combinations

FETCHED_WITH_EACH_LOAD = 2


@pytest.mark.parametrize(
    ("cpu", "size", "channels", "m", "is_channels_first"),
    [
        # In registers meanwhile: constants of transforms and the last block's sums, and indices of shuffles.
        ("emeraldrapids", 56, 64, 4, True),
        *wide_combinations([("haswell", 56, 128, 4, False)]),
    ],
)
def test_loops_of_products_have_all_registers(
    cpu: str, size: int, channels: int, m: int, is_channels_first: bool, tmp_path: Path
) -> None:
    """Sums are neither spilled nor moved."""
    program = Program((size,) * 2, channels, channels, (3, 3), (m, m), (3, 3), low=(1, 1), high=(1, 1))
    program = program.channels_first if is_channels_first else program
    filters = np.ones(program.filter_shape, np.float32)
    flags = [f"--iree-llvmcpu-target-cpu={cpu}", f"--iree-hal-dump-executable-files-to={tmp_path}"]
    compile_rewritten(program.text(filters), "cpu", flags, threads=1)
    (assembly,) = tmp_path.glob("*.s")
    loops = [loop for loop in innermost_loops(assembly) if sum(map(reads_one_element, loop)) > 3]
    assert loops
    for line in (line for loop in loops for line in loop):
        assert not ("mm" in line and "(%rsp" in line)
        assert not re.search(r"vmovap[sd]\s+%[yz]mm\d+, %[yz]mm\d+", line)


def reads_one_element(line: str) -> bool:
    """Whether all lanes of a vector are set to an element of a tile, and not to a constant."""
    return "vbroadcastss" in line and "%rip" not in line


def innermost_loops(assembly: Path) -> list[list[str]]:
    """The instructions of each loop without one in it: from a label to the jump back to it."""
    loops, labels, lines = [], {}, assembly.read_text().splitlines()
    for number, line in enumerate(lines):
        if label := re.match(r"(\.LBB\w+):", line):
            labels = {label[1]: number}
        jump = re.match(r"\s+j\w+\s+(\.LBB\w+)", line)
        if jump and jump[1] in labels:
            loops.append(lines[labels[jump[1]] + 1 : number])
    return loops


@pytest.mark.parametrize("tile", [(2, 2), (2, 4), (4, 4), (2, 2, 2)])
def test_a_tile_that_registers_hold_is_one_part(tile: tuple[int, ...]) -> None:
    recipes = tuple(transforms(m, 3).input for m in tile)
    elements = prod(recipe.inputs for recipe in recipes)
    assert register_parts(recipes, elements, FETCHED_WITH_EACH_LOAD) == (range(recipes[0].inputs),)


@pytest.mark.parametrize(("tile", "registers"), [((2, 4), 16), ((4, 4), 32), ((2, 2, 2), 32)])
def test_no_other_parts_as_long_as_these_share_more_operations(tile: tuple[int, ...], registers: int) -> None:
    """Rows 1 and 2 of B^T of F(4, 3) share some, as 3 and 4 do."""
    recipes = tuple(transforms(m, 3).input for m in tile)
    parts = register_parts(recipes, registers, FETCHED_WITH_EACH_LOAD)
    assert parts is not None
    count, longest = len(recipes[0].outputs), max(map(len, parts))

    def operations(divided: Iterable[range]) -> int:
        lines = [recipes[0].part(part) for part in divided]
        return sum(FETCHED_WITH_EACH_LOAD * len(read) + len(each.operations) for read, each in lines)

    for inner in itertools.combinations(range(1, count), len(parts) - 1):
        others = [range(*ends) for ends in itertools.pairwise((0, *inner, count))]
        assert max(map(len, others)) > longest or operations(parts) <= operations(others)


def test_parts_are_all_outputs_and_fit() -> None:
    for tile, registers in itertools.product(itertools.product(range(2, 7), repeat=2), (16, 32)):
        for recipes in zip(*((transforms(m, 3).input, transforms(m, 3).output) for m in tile), strict=True):
            parts = register_parts(recipes, registers, 1)
            if parts is None:
                continue
            first, second = recipes
            assert [output for part in parts for output in part] == list(range(len(first.outputs)))
            if len(parts) > 1:
                line = max(first.inputs, second.inputs)
                assert max(map(len, parts)) * second.inputs + line <= registers
