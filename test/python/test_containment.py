"""A failure of a pass on one convolution, or one fusion, costs that one, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from agreement import expect_within
from iree.winograd.compiling import compilation
from iree.winograd.compiling.attempts import Attempts
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.ir_dumps import IRDumps
from iree.winograd.compiling.pass_pipeline import run_passes
from iree.winograd.compiling.phases import REWRITE_PHASE, TRANSLATION_PHASE, StagedProgram, Stages
from iree.winograd.compiling.program import open_session, open_source
from iree.winograd.dialect.bindings import ir
from iree.winograd.passes import concat_in_place, drop_unit_dimensions, normalize_layout
from iree.winograd.passes.infrastructure.containment import Containment, RewriteFailure
from iree.winograd.passes.infrastructure.registry import Pass, pass_name
from iree.winograd.passes.infrastructure.unit import Unit
from iree.winograd.passes.match.navigation import walk
from iree.winograd.passes.rewrite import channels_last, grouped
from iree.winograd.pipelines.cpu import lowering
from iree.winograd.pipelines.emission.dispatch import emit_executable
from iree.winograd.pipelines.on_program import note_writes
from iree.winograd.pipelines.selection import assign_schedule
from iree.winograd.pipelines.selection.layer_filter import location_names
from iree.winograd.targets import target_flags
from small_programs import ADD, CONVOLUTION, INSERTION
from wide import sampled
from work_for_passes import FOR_ANNOTATIONS, FOR_CALLED, FOR_OTHERS, PASSES, PIPELINE, network, two_layers

pytestmark = pytest.mark.xdist_group("containment")

CONVERTING_PASSES = (
    "winograd-convert-matmul",
    "winograd-convert-conv",
    "winograd-convert-weight-gradient",
    "winograd-lower-to-dispatch",
)
"""Without which a layer that was chosen for has no kernel."""
# Kernels take time to emit: most tests stop before they are.
EMITTING = PASSES.index("winograd-lower-to-dispatch")
FIRST = Unit("winograd-fuse-pad", "input transform", 0)
# The network's largest error is that of one sum of 72 products in float32, relative to the largest output.
TOLERANCE = 1e-5


@cache
def prepared() -> tuple[Compilation, ir.Operation]:
    """The network as our passes get it, for Haswell."""
    compilation = Compilation(
        open_session(target_flags("cpu:haswell"), None),
        None,
        Stages(compile_to=REWRITE_PHASE),
        report=lambda diagnostic: None,
    )
    invocation = compilation.compile(open_source(compilation, network()[0]))
    assert invocation is not None
    return compilation, invocation.export_module()


@cache
def prepared_for(name: str) -> ir.Operation:
    """The network as the pass of this name gets it."""
    _, original = prepared()
    module = original.clone()
    run_passes(module, PIPELINE[: PASSES.index(name)], IRDumps(), Containment())
    return module


def rewritten(passes: Sequence[Pass]) -> tuple[Counter[str], tuple[RewriteFailure, ...]]:
    """How many operations of each name the network has after `passes`, and what they failed on.

    They may begin with any of the pipeline's.
    """
    original = prepared_for(pass_name(passes[0]))
    attempts = Attempts(passes)

    def attempt(containment: Containment) -> Counter[str]:
        module = original.clone()
        run_passes(module, passes, IRDumps(), containment)
        return Counter(operation.name for operation in walk(module))

    return attempts.run(attempt), attempts.failures


@cache
def units() -> dict[Unit, str]:
    """All that passes rewrite in the network, in order, and the names of the operations."""
    found = {}
    contain = Containment.contain

    def record(
        self: Containment, unit: Unit, operation: ir.Operation, culprit: Unit, rewrite: Callable[[], None]
    ) -> None:
        found[unit] = operation.name
        contain(self, unit, operation, culprit, rewrite)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Containment, "contain", record)
        rewritten(PIPELINE)
    return found


def inject(patch: pytest.MonkeyPatch, failing: Collection[Unit], error: BaseException | None = None) -> None:
    """Make the rewrites of these units fail after their work is done: all of it has to be avoided."""
    contain = Containment.contain
    # When a convolution is left out, others have the numbers that it and they had.
    culprits = {unit: left_out_for(unit) for unit in failing}

    def inject_failure(
        self: Containment, unit: Unit, operation: ir.Operation, culprit: Unit, rewrite: Callable[[], None]
    ) -> None:
        def fail() -> None:
            rewrite()
            raise KeyError("an oversight") if error is None else error

        is_same = culprits.get(unit) == culprit
        contain(self, unit, operation, culprit, fail if is_same else rewrite)

    patch.setattr(Containment, "contain", inject_failure)


def left_out_for(unit: Unit) -> Unit:
    """What a failure on `unit` leaves out: a convolution that isn't lowered can only be left to IREE."""
    if unit.pass_name not in CONVERTING_PASSES:
        return unit
    chosen = [each for each in units() if each.pass_name == "winograd-select-algorithm"]
    gradients = [each for each in chosen if each.kind == "weight gradient"]
    if unit.kind in ("weight gradient", "filter gradient"):
        return gradients[unit.number]
    chosen = [each for each in chosen if each not in gradients]
    return [each for each in chosen if unit.kind != "matmul" or each.kind == "matmul"][unit.number]


def count_kernels(names: Counter[str], emits: bool) -> int:
    """Dispatches, or before there are some, ops that end what becomes one or several."""
    return (
        names["flow.dispatch"]
        if emits
        else names["winograd.output_transform"] + names["winograd.filter_gradient"]
    )


def kernels_lost(failure: RewriteFailure, emits: bool) -> int:
    """Without a fold or a fusion a convolution keeps its kernel; one that isn't split into phases is one.

    One whose phases aren't merged has a kernel for each of the 16.

    A weight gradient of so few outputs is one kernel, and one that makes its image channels last.
    """
    assert failure.left_out is not None
    if failure.rewrite == "winograd-merge-phases":
        return 1 - 16 if "synthesis" in location_names(failure.location) else 0
    if failure.rewrite == "winograd-split-transposed":
        return 3 if "up" in location_names(failure.location) else 0
    if failure.left_out.pass_name != "winograd-select-algorithm":
        return 0
    return 2 if emits and failure.left_out.kind == "weight gradient" else 1


QUICK_PASSES = ("winograd-fuse-epilogue",)
SELECTION = "winograd-select-algorithm"
WORKING_PASSES = [name for name in PASSES if name not in FOR_OTHERS]
SAMPLED_PASSES = sampled(dict.fromkeys((*QUICK_PASSES, SELECTION, *WORKING_PASSES[::4])), QUICK_PASSES)


def test_the_network_has_work_for_every_pass() -> None:
    assert set(PASSES) - FOR_OTHERS == {unit.pass_name for unit in units()}
    assert len(PASSES) == len(set(PASSES)), "a unit is known by the name of its pass"
    assert "linalg.yield" not in units().values(), "what is inside of an operation goes with it"


@pytest.mark.parametrize("name", SAMPLED_PASSES)
def test_a_failure_costs_one_unit(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Injected in turn into the first operation of each name, and into one in nine other convolutions.

    Which of them these are, differs by pass.
    """
    emits = name in PASSES[EMITTING:]
    failing = [unit for unit in units() if unit.pass_name == name]
    # What is before doesn't depend on it.
    first = min(PASSES.index(unit.pass_name) for each in failing for unit in (each, left_out_for(each)))
    passes = PIPELINE[first:] if emits else PIPELINE[first:EMITTING]
    complete, none = rewritten(passes)
    assert not none
    tried: set[str] = set()
    for unit in failing:
        operation = units()[unit]
        is_another_layer = "conv" in operation or not unit.kind.endswith("operation")
        is_sampled = is_another_layer and (unit.number + PASSES.index(name)) % 9 == 0
        if operation in tried and not is_sampled:
            continue
        tried.add(operation)
        with monkeypatch.context() as patch:
            inject(patch, [unit])
            names, (failure,) = rewritten(passes)
        assert str(failure).startswith(f"{name} failed on {unit}")
        assert failure.reason == "KeyError: 'an oversight'"
        assert failure.left_out == left_out_for(unit)
        assert count_kernels(names, emits) == count_kernels(complete, emits) - kernels_lost(failure, emits)


def test_an_annotated_convolution_that_gets_no_schedule_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assign_schedule, "assigned_schedule", fail)
    annotation = "winograd.algorithm = {output_tile = array<i64: 1, 1>, part_size = array<i64: 1, 1>}"
    annotated = CONVOLUTION.replace("{dilations", f"{{{annotation}, dilations")
    with pytest.warns(winograd.RewriteWarning, match=f"{FOR_ANNOTATIONS} failed on product 0 of") as caught:
        winograd.compile(annotated)
    (warning,) = (str(each.message) for each in caught)
    assert "convolution 0 was left as it is" in warning


CALLED = """\
func.func private @two(%x: tensor<1x8x8x16xf32>) -> (tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>)
    attributes {noinline} {
  %doubled = arith.addf %x, %x : tensor<1x8x8x16xf32>
  %squared = arith.mulf %x, %x : tensor<1x8x8x16xf32>
  return %doubled, %squared : tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>
}
func.func private @one(%x: tensor<1x8x8x16xf32>) -> tensor<1x6x6x16xf32> {
  %filter = arith.constant dense<0.25> : tensor<3x3x16x16xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x6x6x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x6x6x16xf32>) -> tensor<1x6x6x16xf32>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %filter : tensor<1x8x8x16xf32>, tensor<3x3x16x16xf32>)
    outs(%zeros : tensor<1x6x6x16xf32>) -> tensor<1x6x6x16xf32>
  return %y : tensor<1x6x6x16xf32>
}
func.func @main(%x: tensor<1x8x8x16xf32>) -> (tensor<1x6x6x16xf32>, tensor<1x6x6x16xf32>) {
  %r:2 = call @two(%x) : (tensor<1x8x8x16xf32>) -> (tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>)
  %a = call @one(%r#0) : (tensor<1x8x8x16xf32>) -> tensor<1x6x6x16xf32>
  %b = call @one(%r#1) : (tensor<1x8x8x16xf32>) -> tensor<1x6x6x16xf32>
  return %a, %b : tensor<1x6x6x16xf32>, tensor<1x6x6x16xf32>
}
"""


@pytest.mark.parametrize("name", FOR_CALLED)
def test_a_failure_on_a_called_function_leaves_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    inject(monkeypatch, [Unit(name, "function", 0)])
    with pytest.warns(winograd.RewriteWarning, match=f"{name} failed on function 0"):
        vmfb = winograd.compile(CALLED, threads=1)
    image = np.ones((1, 8, 8, 16), np.float32)
    # Sums of 144 equal products of powers of two.
    for result, expected in zip(winograd.load(vmfb, device="local-sync")(image), (72.0, 36.0), strict=True):
        expect_within(result, np.full_like(result, expected), TOLERANCE * expected)


@pytest.mark.parametrize(
    ("module", "step", "kind"),
    [
        (channels_last, "match_elementwise", "operation"),
        (grouped, "match_convolution", "grouped convolution"),
        (normalize_layout, "transposed", "rewritten operation"),
        (drop_unit_dimensions, "match_convolution", "convolution"),
        (concat_in_place, "defining_operation", "concatenation"),
    ],
)
def test_a_failure_of_one_step_costs_one_unit(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str, kind: str
) -> None:
    """Passes fail while they look for what to rewrite, and when they replace it, as well."""
    original, calls = getattr(module, step), count()

    def fail_first(*arguments: object) -> object:
        if next(calls) == 0:
            raise KeyError("an oversight")
        return original(*arguments)

    monkeypatch.setattr(module, step, fail_first)
    _, (failure,) = rewritten(PIPELINE[:EMITTING])
    assert failure.left_out is not None
    assert (failure.left_out.pass_name, failure.left_out.kind) == (failure.rewrite, kind)


@pytest.mark.parametrize("name", sampled((*QUICK_PASSES, SELECTION), QUICK_PASSES))
def test_results_are_right_whatever_fails(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Of two passes: the test above has seen that no more is left out after others fail."""
    imported, image, expected = network()
    failing = [unit for unit in units() if unit.pass_name == name]
    inject(monkeypatch, failing)
    with pytest.warns(
        winograd.RewriteWarning, match=f"{name} failed on .*KeyError: 'an oversight'"
    ) as caught:
        vmfb = winograd.compile(imported)
    assert {warning.filename for warning in caught} == {__file__}
    result = winograd.load(vmfb, device="local-sync")(image)
    expect_within(result, expected, TOLERANCE * np.abs(expected).max())


def test_the_warning_names_layer_pass_and_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inject(monkeypatch, [Unit("winograd-lower-to-dispatch", "output transform", 0)])
    report = tmp_path / "report.json"
    with pytest.warns(winograd.RewriteWarning) as caught:
        winograd.compile(two_layers()[0], report=report)
    (warning,) = (str(each.message) for each in caught)
    assert (
        "warning: stem: winograd-lower-to-dispatch failed on output transform 0 of convolution 0" in warning
    )
    assert "convolution 0 was left as it is; compile with --iree-winograd-strict" in warning
    written = json.loads(report.read_text())
    (failure,) = written["failures"]
    assert (failure["names"][0], failure["left_out"]) == ("stem", "convolution 0")
    assert written["totals"]["failures"] == 1
    assert written["totals"]["rewritten"] == written["totals"]["layers"] - 1
    assert "winograd-lower-to-dispatch failed" in written["layers"][0]["reason"]


def test_strict_makes_it_an_error_with_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, [Unit("winograd-fuse-pad", "input transform", 1)])
    with pytest.raises(
        winograd.CompilationError, match="winograd-fuse-pad failed on input transform 1"
    ) as raised:
        winograd.compile(two_layers()[0], strict=True)
    error, note = raised.value.diagnostics
    assert (error.severity, note.severity) == ("error", "note")
    assert note.message.startswith("Traceback")
    assert "in fail" in note.message


@pytest.mark.parametrize("stops_others", [False, True])
def test_a_rewrite_that_breaks_the_program_is_found(
    monkeypatch: pytest.MonkeyPatch, stops_others: bool
) -> None:
    """Which pass, and then which rewrite, takes other attempts, whether or not a later pass fails on it."""
    broken = Unit("winograd-fuse-epilogue", "output transform", 2)
    contain = Containment.contain
    breaking: list[Containment] = []

    def break_program(
        self: Containment, unit: Unit, operation: ir.Operation, culprit: Unit, rewrite: Callable[[], None]
    ) -> None:
        def rewrite_wrongly() -> None:
            rewrite()
            if stops_others and breaking[-1:] == [self] and unit.pass_name != broken.pass_name:
                raise KeyError("a consequence")
            if unit == broken:
                breaking.append(self)
                other = next(each for each in walk(self._module) if each.name == "tensor.empty")
                with ir.InsertionPoint(other):
                    ir.Operation.create("tensor.empty", [ir.IndexType.get()])

        contain(self, unit, operation, culprit, rewrite_wrongly)

    monkeypatch.setattr(Containment, "contain", break_program)
    _, (failure,) = rewritten(PIPELINE[:EMITTING])
    assert failure.left_out == broken
    assert "InvalidRewriteError" in failure.reason


def test_a_kernel_that_iree_cannot_compile_costs_its_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    def emit_wrongly(module: ir.Operation, name: str, *arguments: Any) -> ir.Operation:
        *before, body, bindings = arguments

        def emit(function: Any) -> None:
            if name == "winograd_f4x4_3x3_20x24x8_from_4":
                # It stays as it is up to the translation to LLVM, of all kernels at once.
                ir.Operation.create("gpu.barrier")
            body(function)

        return emit_executable(module, name, *before, emit, bindings)

    monkeypatch.setattr(lowering, "emit_executable", emit_wrongly)
    imported, image, expected = two_layers()
    with pytest.warns(winograd.RewriteWarning) as caught:
        vmfb = winograd.compile(imported, output_tile=4)
    (warning,) = (str(each.message) for each in caught)
    assert "right: IREE's compilation of @winograd_f4x4_3x3_20x24x8_from_4 failed on convolution" in warning
    result = winograd.load(vmfb, device="local-sync")(image)
    expect_within(result, expected, TOLERANCE * np.abs(expected).max())


def test_kernels_that_their_translation_breaks_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run_to = StagedProgram.run_to

    def run_wrongly(program: StagedProgram, phase: str, *, verify: bool = True) -> bool:
        is_done = run_to(program, phase, verify=verify)
        if phase == TRANSLATION_PHASE:
            invocation = program.invocation
            module = invocation.export_module()
            invocation.import_module(module)
            next(each for each in walk(module) if each.name == "llvm.return").erase()
        return is_done

    monkeypatch.setattr(StagedProgram, "run_to", run_wrongly)
    imported, image, expected = two_layers()
    with pytest.warns(
        winograd.RewriteWarning, match="failed on the rewritten program: .*(empty|no terminator)"
    ):
        # Of one thread no workgroups are shared, and IREE translates kernels in one phase with what follows.
        vmfb = winograd.compile(imported, output_tile=4, threads=2)
    result = winograd.load(vmfb, device="local-sync")(image)
    expect_within(result, expected, TOLERANCE * np.abs(expected).max())


def fail(*arguments: object, **keywords: object) -> None:
    raise KeyError("an oversight")


def test_failures_around_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "take_kernel_users", fail)
    with pytest.warns(winograd.RewriteWarning, match="'an oversight'; the program was compiled without"):
        winograd.compile(ADD)
    with pytest.raises(winograd.CompilationError, match="'an oversight'"):
        winograd.compile(ADD, strict=True)


@pytest.mark.parametrize("enabled", [True, False])
def test_arguments_are_copied_where_writes_are_not_known(
    monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    monkeypatch.setattr(note_writes, "note_numbers", fail)
    with pytest.warns(
        winograd.RewriteWarning, match="winograd-note-writes failed on .*'an oversight'"
    ) as caught:
        vmfb = winograd.compile(INSERTION, enable_winograd=enabled)
    assert {warning.filename for warning in caught} == {__file__}
    target = torch.zeros(4, 64)
    result = winograd.load(vmfb, device="local-sync")(torch.ones(1, 64), target)
    assert result.sum() == 64
    assert target.sum() == 0


def test_a_report_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("iree.winograd.report.decisions.decision_report", fail)
    with pytest.raises(winograd.CompilationError, match=r"cannot make report '.*': KeyError"):
        winograd.compile(ADD, report=tmp_path / "report.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_limits_of_the_machine_are_contained(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    inject(monkeypatch, [FIRST], error())
    _, (failure,) = rewritten(PIPELINE[:EMITTING])
    assert (failure.left_out, failure.reason) == (FIRST, error.__name__)


def test_an_interrupt_ends_the_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    inject(monkeypatch, [FIRST], KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        rewritten(PIPELINE[:EMITTING])
