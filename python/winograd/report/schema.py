"""The form of a report on decisions, as it is written to a JSON file: docs/command-line.md describes it.

Times are in seconds, sizes in elements unless a name says bytes, and a fused multiply-add is two operations.
A batch known only at run time counts as `dynamic_batch` of the report in all counts and times.
"""

from __future__ import annotations

from typing import Any, TypedDict

SCHEMA_VERSION = 3
"""Grows when a field changes its meaning or goes, not when one is added."""


class ProblemReport(TypedDict):
    """The sizes of a convolution, `N x H... x C` to `N x OH... x K`."""

    text: str
    """What the tuning database knows it by."""
    batch: int | None
    """None where it is known only at run time."""
    input_size: list[int]
    output_size: list[int]
    input_channels: int
    output_channels: int
    kernel_size: list[int]
    strides: list[int]
    dilations: list[int]
    padding_low: list[int]
    padding_high: list[int]
    groups: int
    element_type: str


class CandidateReport(TypedDict):
    """A way to compute a convolution."""

    algorithm: str
    """For readers, e.g. "F(4x4, 3x3)"."""
    output_tile: list[int]
    part_size: list[int]
    schedule: dict[str, int | str]
    """The kind of kernel, "iree" for IREE's own code, and what the kernel may vary."""
    operations: int
    """Of the products; those of the transforms aren't counted."""
    stage_seconds: dict[str, float]
    """Predicted."""
    predicted_seconds: float | None
    """None for IREE's own code, which always has a measurement."""
    predicted_error: float
    """Relative to the output, in the 1-norm."""
    measured_seconds: float | None


class ConvolutionReport(TypedDict):
    """What was decided of a convolution."""

    number: int
    """From 0 in program order."""
    names: list[str]
    problem: ProblemReport | None
    """None for a form that isn't supported."""
    direct_operations: int | None
    """Of the convolution as it is defined."""
    least_bytes: int | None
    """Input, filter and output, each moved once."""
    candidates: list[CandidateReport]
    chosen: int | None
    """An index of `candidates`; None for a convolution that is left to IREE without a measurement of it."""
    reason: str
    tuned: bool
    """Whether the choice rests on measured times."""


class BandwidthReport(TypedDict):
    """A level of the memory hierarchy."""

    name: str
    bytes_per_second: float


class LimitsReport(TypedDict):
    """What the machine can reach with the threads that the program is compiled for."""

    operations_per_second: float
    bandwidths: list[BandwidthReport]
    """From the innermost level on."""


class FailureReport(TypedDict):
    """An oversight of this project's, and what it cost."""

    rewrite: str
    """The name of the pass, or who else failed."""
    subject: str
    """What it failed on."""
    names: list[str]
    """Those in the location of the subject."""
    reason: str
    left_out: str | None
    """What was left as it is, or a pass; None for the program: then nothing of the report was applied."""


class TotalsReport(TypedDict):
    """Sums over the convolutions."""

    convolutions: int
    rewritten: int
    """Those that aren't left to IREE, to which the other fields are confined."""
    predicted_seconds: float
    direct_operations: int
    operations: int
    failures: int


class DecisionReport(TypedDict):
    """What was decided of the convolutions of a program."""

    schema_version: int
    target: str | None
    """None for a program without convolutions, as the next two are."""
    machine: dict[str, Any] | None
    """The model that times are predicted by: the fields of `CpuMachine` or `GpuMachine`."""
    limits: LimitsReport | None
    dynamic_batch: int
    failures: list[FailureReport]
    """What the program goes without because a pass failed."""
    totals: TotalsReport
    convolutions: list[ConvolutionReport]


def choice(convolution: ConvolutionReport) -> CandidateReport | None:
    """How a convolution is computed; None when it is left to IREE without a measurement of it."""
    chosen = convolution["chosen"]
    return None if chosen is None else convolution["candidates"][chosen]


def is_left_to_iree(convolution: ConvolutionReport) -> bool:
    """Whether a convolution stays as it is."""
    chosen = choice(convolution)
    return chosen is None or chosen["schedule"]["kind"] == "iree"


def best_known_seconds(candidate: CandidateReport) -> float:
    """The measured time, or the predicted one where nothing was measured."""
    measured, predicted = candidate["measured_seconds"], candidate["predicted_seconds"]
    known = predicted if measured is None else measured
    assert known is not None, "neither measured nor predicted"
    return known


def is_direct(candidate: CandidateReport) -> bool:
    """Whether nothing is transformed."""
    return set(candidate["output_tile"]) == set(candidate["part_size"]) == {1}


def attained_rate(convolution: ConvolutionReport) -> float | None:
    """Operations of the definition per second of the choice; None where there is no choice."""
    chosen, operations = choice(convolution), convolution["direct_operations"]
    return None if chosen is None or operations is None else operations / best_known_seconds(chosen)
