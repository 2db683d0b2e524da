"""What `benchmarks.exhaustive` finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.selection.candidates import implementations
from iree.winograd.pipelines.selection.implementation import Implementation
from iree.winograd.pipelines.selection.prediction import predict
from iree.winograd.tuning.measuring.outcome import Outcome, Timing
from iree.winograd.tuning.schedulers.batch import Batch, MeasuringDevice
from iree.winograd.tuning.workloads import Workload

from benchmarks.exhaustive import BATCH_SIZE, LayerSearch

# A single tap: few enough implementations to measure all.
PROBLEM = ConvolutionProblem.parse(
    "1x14x14x64->64 kernel 1x1 stride 1x1 dilation 1x1 padding 0x0 0x0 groups 1 f32"
)
SPACE = CpuBackend(CpuTarget.of("znver5", "+avx512f,+fma")).search_space()
ALL = tuple(implementations(SPACE, PROBLEM))


class FakeScheduler:
    """Everything takes two milliseconds but for `fastest`, which takes one."""

    capacity = 1

    def __init__(self, fastest: Implementation) -> None:
        self.fastest = fastest

    def resolve_flags(self, flags: tuple[str, ...]) -> tuple[str, ...]:
        return flags

    def machine(self, device: str) -> str:
        return device

    def evaluate(
        self, batches: Sequence[Batch], deadline: float
    ) -> Iterator[tuple[Batch, dict[Implementation, Outcome]]]:
        for batch in batches:
            yield (
                batch,
                {each: Timing((1e-3 if each == self.fastest else 2e-3,)) for each in batch.implementations},
            )

    def close(self) -> None: ...


def search(fastest: Implementation) -> LayerSearch:
    (default, *_) = predict(PROBLEM, SPACE)
    workload = Workload(PROBLEM, SPACE, default, None)
    return LayerSearch(workload, ALL[0], FakeScheduler(fastest), (), MeasuringDevice("local-task", 1))


@pytest.mark.parametrize("fastest", [ALL[0], ALL[len(ALL) // 2], ALL[-1]])
def test_a_small_space_is_measured_whole(fastest: Implementation) -> None:
    result = search(fastest).run(promising=len(ALL) // 2, sampled=len(ALL))
    assert result.measured == result.space == len(ALL) > BATCH_SIZE
    assert result.implementation == fastest
    assert result.excess == (1 if fastest == ALL[0] else 2)


def test_a_large_one_is_sampled() -> None:
    result = search(ALL[0]).run(promising=5, sampled=7)
    assert 12 <= result.measured <= 13 < result.space
    assert result.implementation == ALL[0]
