import torch
from torch import nn

from benchmarks import torch_compile_sweep
from benchmarks.networks.network import Network
from benchmarks.networks.sweep import FAMILIES, SMALL_FAMILIES


def shapes(*layers: nn.Module) -> list[list[int]]:
    """Of what a network for images of 3 x 32 x 32 is called with."""
    model = nn.Sequential(*layers)
    network = Network(lambda: model, (3, 32, 32))
    return [list(each.shape) for each in torch_compile_sweep._inputs(network, model)]


def test_images_have_two_sizes_where_a_network_takes_them() -> None:
    assert shapes(nn.Conv2d(3, 4, 3)) == [[2, 3, 16, 16], [3, 3, 16, 16], [1, 3, 16, 16], [2, 3, 24, 24]]
    assert shapes(nn.Flatten(), nn.Linear(3 * 32 * 32, 5)) == [[batch, 3, 32, 32] for batch in (2, 3, 1)]


def test_what_goes_wrong_in_a_call_is_noted() -> None:
    model = nn.Conv2d(3, 4, 3)

    def fail(given: torch.Tensor) -> torch.Tensor:
        raise ValueError("out of luck")

    with torch.no_grad():
        images = torch.randn(2, 3, 8, 8)
        good = torch_compile_sweep._call(
            model, model.double(), lambda given: model(given.double()), images.double()
        )
        bad = torch_compile_sweep._call(model, model, fail, images.double())
    assert good["error"] == 0 and good["warnings"] == [] and "exception" not in good
    assert bad["exception"] == "ValueError: out of luck" and "error" not in bad


def test_networks_whose_steps_fail_are_among_the_families() -> None:
    assert set(SMALL_FAMILIES) < set(FAMILIES)
    assert len(set(SMALL_FAMILIES)) == 20
