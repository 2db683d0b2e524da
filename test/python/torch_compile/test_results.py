"""What `torch.compile` with the backend `winograd` gives, beside eager in double precision."""

import copy
import warnings
from pathlib import Path
from typing import Any

import iree.winograd as winograd
import pytest
import torch
from iree.winograd.compiling import program
from iree.winograd.torch_compile.compiled_part import PartCompiler
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from iree.winograd.torch_compile.part_program import PartProgram
from small_networks import THREADS, UNIT_ROUNDOFF, BesselNetwork, ImageNetwork, Network, check, compiled
from wide import wide, wide_combinations


@pytest.mark.parametrize(
    ("memory_format", "freezing"), [(torch.contiguous_format, True), (torch.channels_last, False)]
)
def test_results_and_their_strides_are_those_of_eager(
    images: torch.Tensor, memory_format: torch.memory_format, freezing: bool
) -> None:
    model = ImageNetwork().to(memory_format=memory_format)  # type: ignore[call-overload]
    images = images.to(memory_format=memory_format)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        features, largest = compiled(model, freezing=freezing)(images)
    expected, expected_largest = model(images)
    assert features.stride() == expected.stride() and largest.stride() == expected_largest.stride()
    check(model.convolution, lambda _: features, images)
    assert torch.equal(largest, features.argmax(dim=1))


@pytest.mark.wide
def test_weights_made_in_inference_mode_are_read_in_each_call(images: torch.Tensor) -> None:
    with torch.inference_mode():
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
        call = compiled(model)
        with pytest.warns(FallbackWarning, match=r"made in torch.inference_mode\(\) are passed in each call"):
            check(model, call, images)
        model[0].weight.mul_(-2)
        check(model, call, images)


@pytest.mark.parametrize("named", [True, *wide([False])])
def test_weights_made_in_inference_mode_may_be_said_to_stay(named: bool, images: torch.Tensor) -> None:
    """They are in the program. What takes their place is seen, and writes to other weights."""
    with torch.inference_mode():
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU())
    if named:
        model.insert(1, torch.nn.Conv2d(4, 4, 1))
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        call = compiled(model, fixed_inference_weights=True)
        check(model, call, images)
        with torch.no_grad():
            before = call(images).clone()
            model[0].weight.zero_()
            assert torch.equal(call(images), before)
        model[0].weight = torch.nn.Parameter(torch.full_like(model[0].weight, 0.5), requires_grad=False)
        check(model, call, images)


def test_means_of_images_are_sums_of_sums() -> None:
    """In one running sum none of the elements would count that are half a roundoff of the first."""

    class Mean(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.copy = torch.nn.Conv2d(1, 4, 1, bias=False)
            torch.nn.init.ones_(self.copy.weight)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.copy(image)).mean((2, 3))

    size = 64
    image = torch.full((1, 1, size, size), UNIT_ROUNDOFF / 2)
    image[0, 0, 0, 0] = 1
    exact = float(image.double().mean())
    result = compiled(Mean())(image).double()
    # Two sums of so many elements, and two divisions.
    assert float((result - exact).abs().max()) < 2 * (size + 1) * UNIT_ROUNDOFF * exact


@pytest.mark.wide
def test_no_layer_errs_more_than_networks_may() -> None:
    wide = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3), torch.nn.ReLU())
    image = torch.randn(1, 64, 58, 58)
    errors = []
    for options in ({}, {"max_relative_error": 1e-4}):
        (graph,) = winograd.explain(wide, image, options={**THREADS, **options}).graphs
        errors.append(graph.parts[0].convolutions[0].predicted_error)
        torch._dynamo.reset()
    assert errors[0] is not None and errors[1] is not None
    assert errors[0] <= 4e-7 < errors[1]


def test_changed_weights_are_seen(images: torch.Tensor) -> None:
    model = Network()
    function = compiled(model)
    check(model, function, images)
    model.load_state_dict(Network().state_dict())
    check(model, function, images)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    check(model, function, images)
    model.stem.weight.data = model.stem.weight.data * 2
    check(model, function, images)


@pytest.mark.parametrize(
    ("network", "is_open"), [(Network, False), *wide_combinations([(Network, True), (BesselNetwork, False)])]
)
def test_models_of_a_class_have_programs_that_hold_their_weights(
    network: type[Network],
    is_open: bool,
    images: torch.Tensor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch traces the class once. Filters that are passed in each call would be transformed in it."""
    models = [network().eval() for _ in range(2)]
    # What averages a model's weights begins as a copy of it.
    models.append(copy.deepcopy(models[0]))
    held: list[int] = []
    load = PartCompiler.load

    def note(compiler: PartCompiler, program: PartProgram, *lowered: Any) -> Any:
        held.append(len(program.weights))
        return load(compiler, program, *lowered)

    monkeypatch.setattr(PartCompiler, "load", note)
    options = {**THREADS, "cache_folder": tmp_path}
    if is_open:
        for dimension in (2, 3):
            torch._dynamo.mark_dynamic(images, dimension)
    calls = [torch.compile(model, backend="winograd", options=options) for model in models]
    for _ in range(2):
        for model, call in zip(models, calls, strict=True):
            check(model, call, images)
    parts = len(held) // len(models)
    assert len(held) == len(models) * parts
    assert held == len(models) * held[:parts] and all(held)


def test_any_batch_is_compiled_once(images: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Network()
    function = compiled(model)
    torch._dynamo.mark_dynamic(images, 0)
    check(model, function, images)
    monkeypatch.setattr(program, "compile", None)
    for batch in (3, 5):
        check(model, function, torch.randn(batch, 3, 12, 12))


@pytest.mark.wide
def test_statistics_and_arguments_that_a_model_changes(images: torch.Tensor) -> None:
    """Training without gradients; what takes the dynamic batch as a number is left to the fallback."""

    class Changing(Network):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            features = self.normalization(self.stem(image))
            image.add_(1)
            return features

    model = Changing()
    function = compiled(model, dynamic=True, fallback="eager")
    model.train()
    for _ in range(2):
        reference, given, expected_given = copy.deepcopy(model), images.clone(), images.clone()
        result, expected = function(given), reference(expected_given)
        # Sums of 27 products, and of the 288 elements of a channel.
        bound = {"rtol": 2 * 315 * UNIT_ROUNDOFF, "atol": 2 * 315 * UNIT_ROUNDOFF}
        torch.testing.assert_close(result, expected, **bound)
        torch.testing.assert_close(
            model.normalization.running_var, reference.normalization.running_var, **bound
        )
        assert torch.equal(given, expected_given)


@pytest.mark.wide
def test_channels_last_images_are_pooled_to_one_pixel(images: torch.Tensor) -> None:
    """Torch reads the means by strides of their own."""

    class Pooled(Network):
        def between(self, features: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.adaptive_avg_pool2d(features, 1)

    model = Pooled().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = images.to(memory_format=torch.channels_last)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        function = compiled(model, fallback="eager", cache=False)
        for batch in (images, torch.cat([images, images[:1]])):
            check(model, function, batch)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_rolled_images_have_the_order_of_eager(
    images: torch.Tensor, memory_format: torch.memory_format
) -> None:
    """Torch's own rule for their type has channels-last ones row-major."""

    class Rolled(ImageNetwork):
        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
            rolled = torch.roll(self.convolution(image), (1, -2), (2, 3))
            read = torch.as_strided(rolled.contiguous(), (4, 6), (6, 1))
            return read.clone(), rolled, torch.roll(rolled, 3)

    model = Rolled().to(memory_format=memory_format)  # type: ignore[call-overload]
    images = images.to(memory_format=memory_format)
    results, expected = compiled(model, fallback="eager", cache=False)(images), model(images)
    for result, reference in zip(results, expected, strict=True):
        assert result.stride() == reference.stride()
        # Sums of 27 products on both sides.
        bound = 2 * 10 * 30 * UNIT_ROUNDOFF * float(reference.abs().max())
        torch.testing.assert_close(result, reference, rtol=0, atol=bound)
