"""The form of a report on decisions, as it is written to a JSON file.

docs/reference/report.md describes it.

Times are in seconds, sizes in elements unless a name says bytes, and a fused multiply-add is two operations.
A batch known only at run time counts as the images that its problem expects, or else as `dynamic_batch` of
the report, in all counts and times.
"""

from __future__ import annotations

from typing import Any, TypedDict

SCHEMA_VERSION = 4
"""Grows when a field changes its meaning or goes, not when one is added."""


class ProblemReport(TypedDict):
    """The sizes of a convolution, `N x H... x C` to `N x OH... x K`, or of the 1x1 one that a matmul is."""

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
    """A way to compute a layer."""

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
    """None for IREE's own code where there is no model of it; then it has a measurement."""
    predicted_error: float
    """Relative to the output, in the 1-norm."""
    measured_seconds: float | None
    limit_seconds: float | None
    """What its operations take at the peak rate of the units that multiply, or the least bytes of the layer
    at that of memory, whichever is longer; None where these rates aren't known, as on CPUs."""


class TypesReport(TypedDict):
    """The types of a layer's numbers, in MLIR's names."""

    operands: str
    """What surely holds the numbers of the input and of a constant filter."""
    filters: str
    """What filters are stored in."""
    domain: str
    """Of transformed inputs and filters."""
    products: str
    """Of both factors."""
    sums: str
    result: str
    """What all that reads the result rounds it to, or what it is in."""


class LayerReport(TypedDict):
    """What was decided of a convolution, or a product of rows and a matrix."""

    kind: str
    """"convolution", "matmul" or "weight gradient"."""
    number: int
    """From 0 among those of its kind, in program order."""
    names: list[str]
    problem: ProblemReport | None
    """None for a form that isn't supported."""
    direct_operations: int | None
    """Of the layer as it is defined."""
    least_bytes: int | None
    """Input, filter and output, each moved once."""
    candidates: list[CandidateReport]
    chosen: int | None
    """An index of `candidates`; None for a layer left to IREE of whose code nothing is known."""
    types: TypesReport | None
    """None for a layer that is left to IREE."""
    precision: str
    """What was asked for of it."""
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


class DispatchReport(TypedDict):
    """What a call of the program has run at once."""

    kernel: str
    """What profiles measure it by."""
    name: str
    """Of the layer or operation that it computes; empty where the model has none."""
    is_layer: bool
    """Whether it computes one of `layers`."""
    seconds: float | None
    """Measured: by `iree-winograd run --profile --report`."""


class TotalsReport(TypedDict):
    """Sums over the layers."""

    layers: int
    rewritten: int
    """Those that aren't left to IREE, to which the other fields are confined."""
    predicted_seconds: float
    direct_operations: int
    operations: int
    failures: int


class DecisionReport(TypedDict):
    """What was decided of the layers of a program."""

    schema_version: int
    model: str | None
    """The file that was compiled; None where it was none."""
    date: str
    """When, as ISO 8601 has it, in UTC."""
    versions: dict[str, str]
    """Of this package and of IREE's compiler."""
    target: str | None
    """None for a program without layers, as the next two are."""
    machine: dict[str, Any] | None
    """The model that times are predicted by: the fields of `CpuMachine` or `GpuMachine`."""
    limits: LimitsReport | None
    dynamic_batch: int
    folds_filters: str
    """When constant filters are transformed: "compile" or "load"."""
    failures: list[FailureReport]
    """What the program goes without because a pass failed."""
    totals: TotalsReport
    layers: list[LayerReport]
    """In program order."""
    dispatches: list[DispatchReport]
    """In the order of a call, of all public functions; none where no layer has a kernel of this project's."""


def types_text(types: TypesReport | None) -> str:
    """The types of a layer's numbers for readers; empty where all are f32.

    Filters and domain are left out where they are what factors and sums are.
    """
    if types is None or set(types.values()) == {"f32"}:
        return ""
    filters = "" if types["filters"] == types["products"] else f", filters {types['filters']}"
    domain = "" if types["domain"] == types["sums"] else f", domain {types['domain']}"
    multiplied = f"{types['operands']} as {types['products']}{filters}{domain}"
    return f"{multiplied}, sums {types['sums']}, result {types['result']}"


def convolutions(report: DecisionReport) -> list[LayerReport]:
    """Those of the layers that are convolutions."""
    return [layer for layer in report["layers"] if layer["kind"] == "convolution"]


def choice(layer: LayerReport) -> CandidateReport | None:
    """How a layer is computed; None when it is left to IREE of whose code nothing is known."""
    chosen = layer["chosen"]
    return None if chosen is None else layer["candidates"][chosen]


def is_left_to_iree(layer: LayerReport) -> bool:
    """Whether a layer stays as it is."""
    chosen = choice(layer)
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


def attained_rate(layer: LayerReport) -> float | None:
    """Operations of the definition per second of the choice; None where there is no choice."""
    chosen, operations = choice(layer), layer["direct_operations"]
    return None if chosen is None or operations is None else operations / best_known_seconds(chosen)


def anchor(layer: LayerReport) -> str:
    """What names a layer among all of a report, e.g. "convolution-3"."""
    return f"{layer['kind']}-{layer['number']}"
