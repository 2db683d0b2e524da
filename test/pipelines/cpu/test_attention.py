"""Attention as torch's functions and layers have it, with and without masks, some of which hide all keys."""

from __future__ import annotations

from typing import Any

import iree.winograd
import numpy as np
import pytest
import torch
from iree.winograd.pipelines.cpu.tensor_dispatches import products
from torch.nn.functional import scaled_dot_product_attention
from wide import wide, wide_combinations

UNIT_ROUNDOFF = 2.0**-24
CHANNELS, HEADS, SIZE = 48, 2, (8, 5)
TOKENS, WIDTH = SIZE[0] * SIZE[1], CHANNELS // HEADS

Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


class Attention(torch.nn.Module):
    """Attention of pixels behind a convolution, whose results and those of projections are exact."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
        weights = torch.zeros(CHANNELS, CHANNELS, 1, 1)
        # Differences of neighbours.
        weights[range(CHANNELS), range(CHANNELS)] = 1
        weights[range(1, CHANNELS), range(CHANNELS - 1)] = -1
        self.convolution.weight = torch.nn.Parameter(weights, requires_grad=False)

    def tokens(self, image: torch.Tensor) -> torch.Tensor:
        """The pixels, as N x TOKENS x CHANNELS."""
        tokens: torch.Tensor = self.convolution(image).flatten(2).transpose(1, 2)
        return tokens

    def heads(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, as N x HEADS x TOKENS x WIDTH."""
        tokens = self.tokens(image).unflatten(2, (HEADS, WIDTH)).transpose(1, 2)
        return tokens, tokens.roll(1, 3), tokens.flip(3)


class Function(Attention):
    """By `scaled_dot_product_attention`."""

    def __init__(self, mask: torch.Tensor | None = None, is_causal: bool = False) -> None:
        super().__init__()
        self.mask, self.is_causal = mask, is_causal

    def forward(self, image: torch.Tensor) -> Result:
        mask = self.mask
        if mask is not None and mask.is_floating_point():
            mask = mask.to(image.dtype)
        return scaled_dot_product_attention(*self.heads(image), mask, is_causal=self.is_causal)


class Layer(Attention):
    """By `MultiheadAttention`, whose queries and values are tokens, keys their negatives."""

    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(CHANNELS, HEADS, batch_first=True, bias=False)
        one = torch.eye(CHANNELS)
        self.attention.in_proj_weight = torch.nn.Parameter(torch.cat([one, -one, one]), requires_grad=False)
        self.attention.out_proj.weight = torch.nn.Parameter(one, requires_grad=False)
        self.need_weights = need_weights

    def heads(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        tokens, *_ = super().heads(image)
        return tokens, -tokens, tokens

    def forward(self, image: torch.Tensor) -> Result:
        tokens = self.tokens(image)
        attended, weights = self.attention(tokens, tokens, tokens, need_weights=self.need_weights)
        return (attended, weights) if self.need_weights else attended


VISIBLE = torch.arange(TOKENS)[:, None] % 7 > torch.arange(TOKENS) % 5
"""Every seventh query sees no key."""
ADDED = torch.zeros(TOKENS, TOKENS).masked_fill(~VISIBLE, -torch.inf)

SAFE = {
    "no mask": Function(),
    "causal": Function(is_causal=True),
    "truth values": Function(VISIBLE),
    "minus infinity": Function(ADDED),
    "layer": Layer(need_weights=False),
}
MASKED = "causal", "truth values", "minus infinity"
UNSAFE = {"layer with weights": Layer(need_weights=True)}


def image() -> torch.Tensor:
    """Multiples of 1/8, whose differences are exact."""
    values = torch.randint(-12, 13, (1, CHANNELS, *SIZE), generator=torch.Generator().manual_seed(0))
    return values / 8


def largest_errors(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, added: float = 0, blocks: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds for each query: on the relative errors of weights, and on the errors of the mixtures of values.

    A score is a sum of products of numbers that were scaled, with two roundings each, once by a rounded
    number; then comes a mask. The exponential multiplies twice the largest error of a row's scores. Its
    difference is rounded, it is within 4 roundings; then come the sum of as many as there are tokens, the
    inverse and a product. Mixtures are sums of as many products.

    Masks up to `added` are two more roundings of their size and of the score's. For each further block of
    keys weights and sums are multiplied by an exponential of a difference of scores, and added.
    """
    width, tokens = keys.shape[-1], keys.shape[-2]
    magnitudes = (queries.abs() @ keys.abs().mT).amax(-1, keepdim=True) * width**-0.5
    masked = 2 * 2 * (magnitudes + 2 * added) if added else 0
    scores = 2 * (width + 8) * magnitudes + masked + 2 * (magnitudes + added)
    further = (blocks - 1) * 2 * (2 * (magnitudes + added) + 4 + 2)
    relative = 1.01 * UNIT_ROUNDOFF * (scores + further + 4 + 4 + tokens + 2)
    return relative, (relative + tokens * UNIT_ROUNDOFF) * values.abs().amax(-2, keepdim=True)


def check(model: Attention, result: Any) -> None:
    """Compares results with those of float64."""
    with torch.no_grad():
        exact = model.double()(image().double())
        relative, largest = largest_errors(*model.heads(image().double()))
        model.float()
    attended, exact_attended = (each[0] if isinstance(each, tuple) else each for each in (result, exact))
    if isinstance(model, Layer):
        largest = largest.transpose(1, 2).flatten(2)
    error = (torch.from_numpy(np.asarray(attended)).double() - exact_attended).abs()
    assert not exact_attended.isnan().any()
    assert (error <= largest).all()
    if isinstance(exact, tuple):
        error = (torch.from_numpy(np.asarray(result[1])).double() - exact[1]).abs()
        assert (error <= (relative.amax(1) + UNIT_ROUNDOFF) * exact[1]).all()


@pytest.mark.parametrize("name", ["causal", *wide(["no mask", "minus infinity", "layer with weights"])])
def test_attention_that_is_imported(name: str) -> None:
    model = {**SAFE, **UNSAFE}[name].eval()
    compiled = iree.winograd.compile(
        iree.winograd.import_torch(model, image()), target="cpu", threads=1, strict=True
    )
    assert (b"winograd_safe_softmax" in compiled) == (name == "no mask")
    assert (b"winograd_safe_masked_attention" in compiled) == (name in MASKED)
    assert (b"winograd_softmax" in compiled) == (name in UNSAFE)
    check(model, iree.winograd.load(compiled, threads=1)(image().numpy()))


class Written(Attention):
    """As models of windows write it: scaled queries, a bias that all batches share, and one of each."""

    FACTOR, LARGEST_BIAS = 0.25, 2.0

    def __init__(self) -> None:
        super().__init__()
        count = HEADS * TOKENS * TOKENS
        biases = (torch.arange(count) % 17 - 8) / 8
        self.register_buffer("shared", biases.view(1, HEADS, TOKENS, TOKENS))
        self.register_buffer("own", biases[: TOKENS * TOKENS].flip(0).view(1, 1, TOKENS, TOKENS))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        queries, keys, values = self.heads(image)
        scores = (queries * self.FACTOR) @ keys.mT + self.shared
        scores = scores.unflatten(0, (-1, 1)) + self.own
        return scores.flatten(0, 1).softmax(-1) @ values


@pytest.mark.parametrize(
    ("type_", "roundoff"), [(torch.float16, 2.0**-11), *wide_combinations([(torch.bfloat16, 2.0**-8)])]
)
def test_scores_of_half_precision_are_not_rounded(type_: torch.dtype, roundoff: float) -> None:
    """What is convolved, scaled and added is exact in these types, so only results are rounded to them."""
    model = Written().to(type_)
    compiled = iree.winograd.compile(
        iree.winograd.import_torch(model, image().to(type_)), target="cpu", threads=1, strict=True
    )
    assert b"winograd_masked_attention" in compiled
    result = iree.winograd.load(compiled, threads=1)(image().to(type_))
    model.double()
    exact = model(image().double())
    queries, keys, values = model.heads(image().double())
    scaled = queries * Written.FACTOR * WIDTH**0.5
    _, largest = largest_errors(scaled, keys, values, added=Written.LARGEST_BIAS)
    error = (torch.as_tensor(result).double() - exact).abs()
    assert (error <= largest + 1.01 * roundoff * exact.abs()).all()


class Agents(torch.nn.Module):
    """Queries attend to few agents, and these to all keys: Agent Attention (Han et al. 2023), section 3.2."""

    def forward(self, queries: torch.Tensor, agents: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return self.attended(queries, agents, self.attended(agents, queries, values))

    def attended(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.softmax(queries @ keys.mT * queries.shape[-1] ** -0.5, -1) @ values


def test_values_that_are_results_of_attention() -> None:
    """Weights of a row sum up to 1: it is off by what values are at most, beside its own error."""
    generator, model = torch.Generator().manual_seed(0), Agents()
    queries, agents, values = (torch.randn(6, rows, 16, generator=generator) for rows in (256, 128, 256))
    compiled = iree.winograd.compile(
        iree.winograd.import_torch(model, queries, agents, values), threads=1, strict=True
    )
    result = iree.winograd.load(compiled, threads=1)(queries, agents, values)
    exact_queries, exact_agents, exact_values = (each.double() for each in (queries, agents, values))
    between = model.attended(exact_agents, exact_queries, exact_values)
    _, before = largest_errors(exact_agents, exact_queries, exact_values)
    relative, own = largest_errors(exact_queries, exact_agents, between)
    largest = own + (1 + relative) * before.amax(-2, keepdim=True)
    error = (torch.as_tensor(result).double() - model(exact_queries, exact_agents, exact_values)).abs()
    assert (error <= largest).all()


@pytest.mark.wide
def test_attention_of_a_batch_known_at_run_time() -> None:
    model = SAFE["layer"].eval()
    imported = iree.winograd.import_torch(model, image(), dynamic_batch=True)
    compiled = iree.winograd.compile(imported, target="cpu", threads=1, strict=True)
    assert b"winograd_safe_softmax" in compiled
    check(model, iree.winograd.load(compiled, threads=1)(image().numpy()))


@pytest.mark.this_machine
@pytest.mark.parametrize("name", wide(["truth values", "layer with weights"]))
def test_attention_by_torch_compile(name: str) -> None:
    torch.compiler.reset()
    model = {**SAFE, **UNSAFE}[name].eval()
    compiled = torch.compile(model, backend="winograd", options={"measured": False})
    with torch.no_grad():
        result = compiled(image())
    check(model, result)


def operation(batch: str, mask: str | None) -> str:
    """MLIR of attention as iree-turbine exports it, of 19 queries and 21 keys of 24 elements."""
    tensors = {"q": "19x24xf32", "k": "21x24xf32", "v": "21x17xf32", "y": "19x17xf32"}
    q, k, v, y = (f"tensor<{batch}x{each}>" for each in tensors.values())
    masked = "" if mask is None else f"tensor<{batch}x19x21x{mask}>"
    maps = ["b, m, k", "b, n, k", "b, n, v", "", *(["b, m, n"] if mask else []), "b, m, v"]
    size = "%n" if batch == "?" else ""
    return f"""
    func.func @main(%q: {q}, %k: {k}, %v: {v}{", %m: " + masked if mask else ""}) -> {y} {{
      %scale = arith.constant 0.204124138 : f32
      %c0 = arith.constant 0 : index
      %n = tensor.dim %q, %c0 : {q}
      %e = tensor.empty({size}) : {y}
      %y = iree_linalg_ext.attention <indexing_maps = [
          {", ".join(f"affine_map<(b, m, v, k, n) -> ({each})>" for each in maps)}]>
        ins(%q, %k, %v, %scale{", %m" if mask else ""} : {q}, {k}, {v}, f32{", " + masked if mask else ""})
        outs(%e : {y}) {{
        ^bb0(%score: f32):
          iree_linalg_ext.yield %score : f32
      }} -> {y}
      return %y : {y}
    }}"""


@pytest.mark.parametrize(("batch", "mask"), [("?", "f32"), *wide_combinations([("3", None), ("3", "i1")])])
def test_attention_of_one_operation(batch: str, mask: str | None) -> None:
    compiled = iree.winograd.compile(operation(batch, mask), target="cpu", threads=1, strict=True)
    kernel = b"winograd_safe_masked_attention" if mask and batch != "?" else b"winograd_safe_softmax"
    assert kernel in compiled
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(3, *sizes) for sizes in ((19, 24), (21, 24), (21, 17)))
    # Of the first query of each image nothing is left.
    visible = (torch.rand(3, 19, 21) > 0.5) & (torch.arange(19) > 0)[:, None]
    added = {None: None, "f32": torch.zeros(3, 19, 21).masked_fill(~visible, -torch.inf), "i1": visible}[mask]
    arguments = [queries, keys, values, *([] if added is None else [added])]
    result = iree.winograd.load(compiled, threads=1)(*(each.numpy() for each in arguments))
    exact = scaled_dot_product_attention(
        queries.double(), keys.double(), values.double(), None if mask is None else visible
    )
    assert not exact.isnan().any()
    _, largest = largest_errors(queries.double(), keys.double(), values.double())
    assert ((torch.from_numpy(np.asarray(result)).double() - exact).abs() <= largest).all()


class Heads(torch.nn.Module):
    """Attention of heads that lie side by side in tokens."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def split(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        mixed = scaled_dot_product_attention(*map(self.split, (queries, keys, values)))
        return mixed.transpose(1, 2).flatten(2)


class Weighted(Heads):
    """With a softmax that isn't safe, as models write it themselves."""

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        left, right, mixed = map(self.split, (queries, keys, values))
        weights = (left @ right.mT * left.shape[-1] ** -0.5).softmax(-1)
        return (weights @ mixed).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("model", "batch", "queries", "keys", "width", "threads"),
    [
        (Heads(2), 1, 100, 77, 24, 2),
        *wide_combinations(
            [
                (Heads(3), 2, 48, 64, 16, 1),
                (Weighted(1), 1, 131, 33, 40, 2),
                (Heads(2), 1, 7, 19, 5, 1),
            ]
        ),
    ],
    ids=["rests of all", "whole blocks", "an unsafe softmax", "less than a block"],
)
def test_one_kernel_computes_attention_of_many_scores(
    model: Heads,
    batch: int,
    queries: int,
    keys: int,
    width: int,
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "_SCORES_IN_CACHE", 0)
    torch.manual_seed(0)
    tokens = [torch.randn(batch, count, model.heads * width) for count in (queries, keys, keys)]
    compiled = iree.winograd.compile(
        iree.winograd.import_torch(model, *tokens), target="cpu", threads=threads, strict=True
    )
    assert b"attention_" in compiled
    assert b"softmax" not in compiled
    result = iree.winograd.load(compiled, threads=threads)(*(each.numpy() for each in tokens))
    exact = model(*(each.double() for each in tokens))
    heads = [model.split(each.double()) for each in tokens]
    _, largest = largest_errors(*heads)
    error = (torch.from_numpy(np.asarray(result)).double() - exact).abs()
    assert (error <= largest.transpose(1, 2).flatten(2)).all()


class Windows(Heads):
    """As Swin has them: a bias for each head, and where windows are shifted a mask for each of them."""

    def __init__(self, heads: int, windows: int, tokens: int) -> None:
        super().__init__(heads)
        self.bias = torch.nn.Parameter(torch.randn(1, heads, tokens, tokens), requires_grad=False)
        hidden = torch.rand(windows, 1, tokens, tokens) > 0.7
        self.mask = torch.nn.Parameter(hidden * -100.0, requires_grad=False)

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        left, right, mixed = map(self.split, (queries, keys, values))
        scores = left @ right.mT / left.shape[-1] ** 0.5 + self.bias
        scores = (scores.unflatten(0, (-1, len(self.mask))) + self.mask).flatten(0, 1)
        return (scores.softmax(-1) @ mixed).transpose(1, 2).flatten(2)


class Hidden(Heads):
    """Whose keys a model hides by itself: of the first query all, which makes that NaN."""

    def __init__(self, heads: int, queries: int, keys: int) -> None:
        super().__init__(heads)
        self.register_buffer("hidden", torch.rand(queries, keys) > 0.7)
        self.hidden[0] = True

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        left, right, mixed = map(self.split, (queries, keys, values))
        scores = (left @ right.mT * left.shape[-1] ** -0.5).masked_fill(self.hidden, -torch.inf)
        return (scores.softmax(-1) @ mixed).transpose(1, 2).flatten(2)


class Padded(Heads):
    """Some keys of each batch hidden, as the program is told."""

    def forward(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, added: torch.Tensor
    ) -> torch.Tensor:
        mixed = scaled_dot_product_attention(*map(self.split, (queries, keys, values)), added)
        return mixed.transpose(1, 2).flatten(2)


def padding(batch: int, keys: int) -> torch.Tensor:
    """batch x 1 x 1 x keys, of one of which no key is left."""
    counts = torch.arange(batch) * (keys // 2)
    return torch.zeros(batch, keys).masked_fill(torch.arange(keys) >= counts[:, None], -torch.inf)[
        :, None, None
    ]


@pytest.mark.parametrize(
    ("kind", "batch", "queries", "keys", "width", "threads"),
    [
        ("hidden", 1, 30, 2100, 20, 1),
        *wide_combinations(
            [("windows", 4, 49, 49, 12, 2), ("padded", 3, 70, 1999, 33, 2), ("hidden", 2, 9, 37, 7, 1)]
        ),
    ],
)
def test_one_kernel_computes_masked_attention(
    kind: str, batch: int, queries: int, keys: int, width: int, threads: int
) -> None:
    torch.manual_seed(0)
    model = {
        "windows": lambda: Windows(3, batch // 2, queries),
        "hidden": lambda: Hidden(2, queries, keys),
        "padded": lambda: Padded(2),
    }[kind]()
    arguments = [torch.randn(batch, count, model.heads * width) for count in (queries, keys, keys)]
    heads = [model.split(each.double()) for each in arguments]
    arguments += [padding(batch, keys)] if kind == "padded" else []
    compiled = iree.winograd.compile(
        iree.winograd.import_torch(model, *arguments), target="cpu", threads=threads, strict=True
    )
    assert b"masked_attention_" in compiled
    assert b"softmax" not in compiled
    result = iree.winograd.load(compiled, threads=threads)(*(each.numpy() for each in arguments))
    exact = model.double()(*(each.double() for each in arguments))
    # A mask is added with a rounding, of numbers up to its own size, or by itself hides a key.
    added = 104.0 if kind == "windows" else 0.0
    _, largest = largest_errors(*heads, added, blocks=8)
    error = (torch.from_numpy(np.asarray(result)).double() - exact).abs()
    nothing = exact.isnan()
    assert bool(nothing.any()) == (kind == "hidden")
    assert (error.isnan() == nothing).all()
    assert ((error <= largest.transpose(1, 2).flatten(2)) | nothing).all()


@pytest.mark.wide
def test_few_scores_stay_in_the_cache_between_kernels() -> None:
    tokens = torch.randn(1, 32, 48)
    imported = iree.winograd.import_torch(Heads(2), tokens, tokens, tokens)
    compiled = iree.winograd.compile(imported, target="cpu", threads=1, strict=True)
    assert b"winograd_safe_softmax" in compiled


def test_attention_of_a_program_without_attention_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of bytes, for which IREE loads no more dialects than they name."""
    monkeypatch.setattr(products, "_SCORES_IN_CACHE", 0)
    tokens = torch.randn(1, 32, 48)
    program = iree.winograd.import_torch(Heads(2), tokens, tokens, tokens).program
    assert b"winograd_safe_attention" in iree.winograd.compile(program, target="cpu", threads=1, strict=True)
