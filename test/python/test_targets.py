"""Names of machines to compile for, as IREE takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from iree.compiler import ir
from iree.winograd.command_line.flags import parse_command_line
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.phases import REWRITE_PHASE, Stages
from iree.winograd.compiling.program import open_session
from iree.winograd.pipelines.problems.executable_target import executable_targets
from iree.winograd.targets import spelled_out, target_flags

HOPPER = target_flags("cuda:sm_90a")


@pytest.mark.parametrize(
    ("flags", "architecture"),
    [
        (HOPPER, "sm_90a"),
        (("-iree-hal-target-device=cuda", "--iree-cuda-target=sm_80", "-iree-cuda-target=sm_90a"), "sm_90a"),
        ((*HOPPER, "--iree-cuda-target=sm_86"), "sm_86"),
    ],
)
def test_programs_are_for_the_chip_that_flags_name_last(flags: tuple[str, ...], architecture: str) -> None:
    with Compilation(
        open_session(flags, None), None, Stages(compile_to=REWRITE_PHASE), report=print
    ) as compilation:
        with compilation.context, ir.Location.unknown():
            module = ir.Module.create()
        invocation = compilation.compile(module.operation)
        assert invocation is not None
        (target,) = executable_targets(invocation.export_module())
    assert target.field("arch") == architecture


@pytest.mark.parametrize(
    ("name", "architecture"),
    [("neoverse-v1", "aarch64"), ("cortex-a76", "aarch64"), ("apple-m1", "arm64"), ("haswell", None)],
)
def test_arms_processors_come_with_their_triple(name: str, architecture: str | None) -> None:
    flags = target_flags(f"cpu:{name}")
    triples = [flag.partition("=")[2] for flag in flags if flag.startswith("--iree-llvmcpu-target-triple=")]
    assert [triple.partition("-")[0] for triple in triples] == ([architecture] if architecture else [])


def test_what_iree_knows_stays_as_it_is() -> None:
    for flags in (target_flags("cuda:sm_80"), target_flags("cpu"), ("--iree-cuda-target=sm_90a",)):
        assert spelled_out(flags) == flags


def test_the_command_line_takes_the_same_names(tmp_path: Path) -> None:
    line = parse_command_line([*HOPPER, "--iree-enable-winograd", str(tmp_path / "model.mlir")])
    assert line.library == spelled_out(HOPPER)
    # What is left to the stock tool is as it was given.
    assert set(HOPPER) <= set(line.stock)
