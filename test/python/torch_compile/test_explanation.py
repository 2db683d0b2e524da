"""`iree.winograd.explain`."""

import iree.winograd as winograd
import pytest
import torch
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from small_networks import THREADS, BesselNetwork, Network


def test_explanation_says_what_each_convolution_became(images: torch.Tensor) -> None:
    model = BesselNetwork().train()
    with pytest.warns(FallbackWarning):
        explanation = winograd.explain(
            model, images, options={**THREADS, "fallback": "eager", "deny": ["block"]}
        )
    assert model.stem.training
    (graph,) = explanation.graphs
    (part,) = graph.parts
    stem, block = part.convolutions
    assert stem.layer == "stem" and stem.algorithm is not None
    assert stem.predicted_error is not None and 0 < stem.predicted_error < 1e-5
    assert block.algorithm is None and "patterns exclude it" in block.reason
    assert any("special_bessel_j0" in str(rejection) for rejection in graph.rejections)
    text = str(explanation)
    assert stem.algorithm in text and "left to eager: aten.special_bessel_j0.default (torch-mlir: " in text


def test_explanation_of_bad_options_is_an_error_of_ours(images: torch.Tensor) -> None:
    with pytest.raises(winograd.InvalidOptionError, match="threads"):
        winograd.explain(Network(), images, options={"threads": 0})
