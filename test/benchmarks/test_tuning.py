"""What `benchmarks.tuning` reports."""

from __future__ import annotations

from xml.etree import ElementTree

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.cpu.backend import CpuBackend
from iree.winograd.pipelines.cpu.processor.target import CpuTarget
from iree.winograd.pipelines.selection.prediction import predict

from benchmarks.tuning import LayerResult, summary
from benchmarks.tuning_figure import speedup_figure

PROBLEM = ConvolutionProblem.parse(
    "1x56x56x64->64 kernel 3x3 stride 1x1 dilation 1x1 padding 1x1 1x1 groups 1 f32"
)
SPACE = CpuBackend(CpuTarget.of("znver5", "+avx512f,+fma")).search_space()
SVG = "{http://www.w3.org/2000/svg}"


TILED = {"fixed": predict(PROBLEM, SPACE, 2)[-1].implementation}
DIRECT = {"fixed": predict(PROBLEM, SPACE, 1)[-1].implementation}


def test_the_summary_has_geometric_means_and_the_worst_choice() -> None:
    results = [LayerResult(PROBLEM, "test", *seconds, TILED) for seconds in ((8, 4, 2), (8, 1, 1))]
    results.append(LayerResult(PROBLEM, "test", 1, 4, 1, DIRECT))
    assert summary(results) == (
        "3 layers: the choice takes 2.000 times as long as the faster of choice and tuned (geometric mean; "
        "worst 4.00)\n2 of them in tiles: over F(2) the choice is 4.00 times as fast, and the tuned 5.66 "
        "times (geometric means)"
    )


def test_the_figure_has_two_bars_per_layer_as_tall_as_their_speedups() -> None:
    document = ElementTree.fromstring(speedup_figure([(str(PROBLEM), 2.0, 4.0), (str(PROBLEM), 1.0, 1.0)]))
    bars = [bar for bar in document.iter(f"{SVG}rect") if bar.find(f"{SVG}title") is not None]
    heights = [float(bar.get("height", "0")) for bar in bars]
    assert [height / heights[2] for height in heights] == [2, 4, 1, 1]
    names = [text.text for text in document.iter(f"{SVG}text")]
    assert names.count("1x56x56x64->64 kernel 3x3") == 2
