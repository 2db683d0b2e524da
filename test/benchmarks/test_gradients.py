import pytest
from iree.winograd.tuning.measuring.outcome import Timing
from wide import wide_combinations

from benchmarks.gradients import GRADIENTS, GradientLayer, Programs, contenders, speedups

LAYER = GradientLayer("test", batch=2, size=6, channels=4, filters=8)


def test_speedups_are_over_the_faster_layout_of_torch() -> None:
    medians = {"torch-nchw": 4.0, "torch-nhwc": 3.0, "ours-nchw": 2.0, "ours-nhwc": 1.5}
    timings = {name: Timing((median,)) for name, median in medians.items()}
    assert speedups(timings) == {"ours-nchw": 1.5, "ours-nhwc": 2.0}


@pytest.mark.parametrize(
    ("gradient", "layer"),
    [
        *wide_combinations((gradient, LAYER) for gradient in GRADIENTS),
        ("weight", GradientLayer("test", batch=2, size=7, channels=16, filters=16, stride=2, groups=16)),
    ],
    ids=["image", "weight", "depthwise weight"],
)
def test_all_contenders_compute_the_gradient(gradient: str, layer: GradientLayer) -> None:
    found, errors = contenders(gradient, layer, Programs())
    assert [each.name for each in found] == ["torch-nchw", "torch-nhwc", "ours-nchw", "ours-nhwc"]
    assert max(errors.values()) < 4e-6
    for each in found:
        each.run()
