"""The samples that PyTorch tests its operators with, beside a convolution: as a program, what comes of some.

    python torch_operator_cases.py 3 8

runs two samples of every eighth operator from the third on, some operators in a process of their own, and
prints a line of JSON per case. Each is imported alone, and compiled with others.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import iree.winograd
import numpy as np
import numpy.typing as npt
import torch
from iree.winograd.dialect.algebra.numerics import UNIT_ROUNDOFF
from iree.winograd.errors import LoadError, ModelImportError
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

Array: TypeAlias = npt.NDArray[Any]

LARGEST_SAMPLE = 20000
TOGETHER = 10
SECONDS = 300

# What they compute is chance, or memory as it happens to be; attention drops out in some samples.
RANDOM = re.compile(
    r"bernoulli|multinomial|rand|normal(?!ize)|uniform|dropout|empty|exponential|cauchy|geometric|rrelu|scaled_dot"
)
# They call a compiler of CUDA; what isn't in a byte's range is whatever the processor makes of it.
FOREIGN = re.compile(r"jiterator|^byte$")

NAMED = re.compile(
    r"the operator \w+\.\w|what \w+\.\w\S* returns|could not trace|must be tensors|aten\.as_strided reads"
)
NO_ARRAY = re.compile(r"result 1 is \S+, and no array has elements of type")

IMAGE = torch.linspace(-1, 1, 2 * 36).reshape(1, 2, 6, 6)


@dataclass(frozen=True)
class Case:
    """One call of an operator: its arguments in a row, of which some are tensors."""

    name: str
    function: Callable[..., Any]
    arguments: Sequence[Any]
    structure: pytree.TreeSpec

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [each for each in self.arguments if isinstance(each, torch.Tensor)]

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Any:
        remaining = iter(tensors)
        arguments = [next(remaining) if isinstance(each, torch.Tensor) else each for each in self.arguments]
        positional, named = pytree.tree_unflatten(arguments, self.structure)
        return self.function(*positional, **named)


class BesideConvolution(torch.nn.Module):
    """A convolution of the first argument, and the cases of those that follow."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, image: torch.Tensor, *tensors: torch.Tensor) -> list[Any]:
        results, start = [self.convolution(image)], 0
        for case in self.cases:
            end = start + len(case.tensors)
            results.append(case(tensors[start:end]))
            start = end
        return results


def cases(operation: OpInfo) -> list[Case]:
    """The first sample of an operator and one from the middle."""
    torch.manual_seed(0)
    samples = list(operation.sample_inputs("cpu", torch.float32, requires_grad=False))
    found = []
    for index in sorted({0, len(samples) // 2}) if samples else ():
        sample = samples[index]
        arguments, structure = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        case = Case(f"{name(operation)} {index}", operation.op, arguments, structure)
        if case.tensors and all(each.numel() <= LARGEST_SAMPLE for each in case.tensors):
            found.append(case)
    return found


def name(operation: OpInfo) -> str:
    """As PyTorch's own tests are named."""
    return ".".join(filter(None, (operation.name, operation.variant_test_name)))


def outcomes(group: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """The name of each case, and that it is `right` or `refused`, or else what is wrong with it."""
    imported = []
    for case in group:
        print(json.dumps({"started": case.name}), flush=True)
        text = import_outcome(case)
        if text == "right":
            imported.append(case)
        elif text != "no model":
            yield case.name, text
    try:
        yield from compiled_outcomes(imported)
    except Exception:
        for case in imported:
            print(json.dumps({"started": case.name}), flush=True)
            try:
                yield from compiled_outcomes([case])
            except LoadError as error:
                yield case.name, "refused" if NO_ARRAY.search(str(error)) else f"LoadError: {error}"
            except Exception as error:
                yield case.name, f"{type(error).__name__}: {error}"


def import_outcome(case: Case) -> str:
    """Whether it is imported."""
    model = BesideConvolution([case])
    arguments = [IMAGE, *case.tensors]
    try:
        with torch.no_grad():
            model(*copies(arguments))
    except Exception:
        return "no model"
    try:
        iree.winograd.import_torch(model, *copies(arguments))
    except ModelImportError as error:
        return "refused" if NAMED.search(str(error)) else f"no operator is named: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "right"


def compiled_outcomes(group: Sequence[Case]) -> list[tuple[str, str]]:
    """What comes of the results of one program of them all."""
    model = BesideConvolution(group)
    arguments = [IMAGE, *(tensor for case in group for tensor in case.tensors)]
    imported = iree.winograd.import_torch(model, *copies(arguments))
    compiled = iree.winograd.compile(imported, target="cpu", threads=1)
    results = iree.winograd.load(compiled, device="local-sync")(*copies(arguments))
    remaining = iter(results if isinstance(results, tuple) else (results,))
    next(remaining)
    found = [(case.name, agreement(case, remaining)) for case in group]
    assert not list(remaining), "there are more results than the model has"
    return found


def agreement(case: Case, results: Iterator[Any]) -> str:
    """Whether the next results are those of a case."""
    with torch.no_grad():
        expected = pytree.tree_leaves(case(copies(case.tensors)))
    exact = in_double(case, 1.0, expected)
    beside = in_double(case, 1 + 2 * UNIT_ROUNDOFF["float32"], exact)
    computed = [as_array(each) for each in islice(results, len(expected))]
    try:
        for index, values in enumerate(zip(computed, expected, exact, beside, strict=True)):
            expect_agreement(*values, f"result {index}")
    except AssertionError as error:
        return str(error)
    return "right"


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Operators may write to their arguments."""
    return [tensor.clone() for tensor in tensors]


def in_double(case: Case, scale: float, otherwise: Sequence[Any]) -> Sequence[Any]:
    """The results in float64 of arguments times `scale`; `otherwise` for operators of other types only."""
    wide = [scale * each.double() if each.is_floating_point() else each.clone() for each in case.tensors]
    try:
        with torch.no_grad():
            results = pytree.tree_leaves(case(wide))
    except Exception:
        return otherwise
    shapes = [[tuple(np.shape(each)) for each in values] for values in (results, otherwise)]
    return results if shapes[0] == shapes[1] else otherwise


def expect_agreement(actual: Array, expected: Any, exact: Any, beside: Any, name: str) -> None:
    """Within ten times torch's own error, some roundings, and what rounding an argument makes `beside`."""
    expected, exact, beside = map(as_array, (expected, exact, beside))
    if actual.dtype.kind not in "biufc":
        actual = actual.astype(np.float32)
    assert actual.shape == expected.shape, f"{name}: shape {actual.shape}, not {expected.shape}"
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(actual.astype(expected.dtype), expected, err_msg=name)
        return
    largest = np.abs(exact[np.isfinite(exact)]).max(initial=1)
    with np.errstate(invalid="ignore"):
        own, moved = np.abs(expected - exact), np.abs(beside - exact)
        error = np.abs(actual - exact)
    is_exact = (actual == exact) | (np.isnan(actual) & np.isnan(exact))
    bound = 2.0**-16 * largest + 10 * own[np.isfinite(own)].max(initial=0) + np.nan_to_num(moved)
    is_wrong = ~is_exact & ~(error <= bound)
    assert not is_wrong.any(), f"{name}: {actual[is_wrong]}, not {exact[is_wrong]}"


def as_array(value: Any) -> Array:
    """A result of torch's, those of types that numpy doesn't have as wider ones."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.detach()
    return np.asarray(value.float() if value.dtype == torch.bfloat16 else value)


def report(group: Sequence[OpInfo]) -> None:
    """Prints the outcomes of some operators."""
    for case, text in outcomes([case for operation in group for case in cases(operation)]):
        print(json.dumps({"name": case, "outcome": text}), flush=True)


def operations() -> list[OpInfo]:
    """Those that take float32 and always compute the same."""
    return [
        each
        for each in op_db
        if torch.float32 in each.dtypes and not RANDOM.search(each.name) and not FOREIGN.search(each.name)
    ]


def run(group: Sequence[OpInfo]) -> None:
    """Prints the outcomes of some operators, also of those that end their process or never end."""
    processes = multiprocessing.get_context("fork")
    for start in range(0, len(group), TOGETHER):
        together = group[start : start + TOGETHER]
        process = processes.Process(target=report, args=(together,))
        process.start()
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        if process.exitcode:
            text = f"their process ended with {process.exitcode}, or was ended after {SECONDS} s"
            print(json.dumps({"name": ", ".join(map(name, together)), "outcome": text}), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # What an import loads, is loaded once.
    iree.winograd.import_torch(BesideConvolution([]), IMAGE)
    first, step = map(int, sys.argv[1:])
    run(operations()[first::step])
