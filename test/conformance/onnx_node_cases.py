"""The cases that ONNX tests backends with, one operator each: as a program, what comes of some of them.

    python onnx_node_cases.py gridsample resize
    python onnx_node_cases.py --sample gridsample resize
    python onnx_node_cases.py --half attention einsum

runs those that the modules of these names make, a sample (see `sample`), or those of half precision, and
prints a line of JSON per case. A case that ends the process is among the last that it started. Where a case
has the sizes, scales or axes of its operator as arguments, it is run with constants in their place as well,
since no model that is exported computes them.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias
from unittest.mock import patch

import iree.winograd
import numpy as np
import numpy.typing as npt
import onnx
import onnx.compose
from iree.winograd.errors import ModelImportError
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case import node as operators
from onnx.backend.test.case.test_case import TestCase

Array: TypeAlias = npt.NDArray[Any]

# What a result may be off by, relative to the largest one: some roundings of its type.
ROUNDINGS = {"float16": 2.0**-9, "bfloat16": 2.0**-6}
DEFAULT_ROUNDINGS = 2.0**-20
# What these compute depends on the values of their arguments.
WITH_PARAMETERS = frozenset(("Expand", "Pad", "Resize", "Slice", "Squeeze", "Tile", "Unsqueeze", "Upsample"))

# What these compute is another each time.
RANDOM = frozenset(("Bernoulli", "RandomUniformLike"))

SAMPLE, HALF = "--sample", "--half"
SHARE, EXPANDED_SHARE = 32, 128
TOGETHER = 12

NAMED = re.compile(
    r"the operator \w|the input '\w+' has elements of type|ONNX can't tell the rank of what \w"
)


def cases(modules: Sequence[str]) -> list[TestCase]:
    """The cases that these modules make, without those of all others."""
    with warnings.catch_warnings(), patch.object(operators, "import_recursive"):
        # Some divide by zero when they are made.
        warnings.simplefilter("ignore")
        for name in modules:
            import_module(f"{operators.__name__}.{name}")
        return [case for case in operators.collect_testcases(None) if case.model is not None]


def sample(found: Sequence[TestCase]) -> list[TestCase]:
    """The first case of each operator, and by their names one in `SHARE` of the others.

    Of those in which a function of ONNX's is expanded to operators that have cases themselves, one in
    `EXPANDED_SHARE`.
    """
    seen: set[str] = set()
    chosen = []
    for case in found:
        operator = case.model.graph.node[0].op_type
        is_expanded = "_expanded" in case.name
        is_first = not is_expanded and operator not in seen
        if is_first:
            seen.add(operator)
        if is_first or zlib.crc32(case.name.encode()) % (EXPANDED_SHARE if is_expanded else SHARE) == 0:
            chosen.append(case)
    return chosen


def of_half_precision(found: Sequence[TestCase]) -> list[TestCase]:
    """Those that take or give numbers of f16 or bf16, without expanded functions."""
    return [
        case
        for case in found
        if "_expanded" not in case.name
        and any(
            value.type.tensor_type.elem_type in (TensorProto.BFLOAT16, TensorProto.FLOAT16)
            for value in (*case.model.graph.input, *case.model.graph.output)
        )
    ]


@dataclass(frozen=True)
class Form:
    """A case as a model, and its arguments for each set of results."""

    name: str
    case: TestCase
    model: ModelProto
    arguments: Sequence[Sequence[Any]]

    @property
    def operators(self) -> tuple[tuple[str, int], ...]:
        """The versions of the sets that its operators are of."""
        return tuple((each.domain, each.version) for each in self.model.opset_import)


def forms(case: TestCase) -> Iterator[Form]:
    """A case as it is, and with constant parameters."""
    yield Form(case.name, case, case.model, [list(arguments) for arguments, _ in case.data_sets])
    has_parameters = any(
        node.op_type in WITH_PARAMETERS or node.op_type.startswith("Reduce") for node in case.model.graph.node
    )
    if has_parameters and len(case.model.graph.input) > 1:
        name = f"{case.name}, constant parameters"
        yield Form(name, case, with_constant_parameters(case), [list(case.data_sets[0][0][:1])])


def outcomes(found: Sequence[TestCase]) -> Iterator[tuple[str, str]]:
    """The names of forms, and that each is `right` or `refused`, or else what is wrong with it.

    Each is imported alone, and compiled with others of the same set of operators.
    """
    imported: dict[tuple[tuple[str, int], ...], list[Form]] = {}
    for form in (form for case in found for form in forms(case)):
        print(json.dumps({"started": form.name}), flush=True)
        try:
            iree.winograd.import_onnx(form.model)
        except Exception:
            yield form.name, outcome(form)
        else:
            if len(form.arguments) == 1:
                imported.setdefault(form.operators, []).append(form)
            else:
                yield form.name, outcome(form)
    for alike in imported.values():
        for start in range(0, len(alike), TOGETHER):
            group = alike[start : start + TOGETHER]
            print(json.dumps({"started": ", ".join(form.name for form in group)}), flush=True)
            try:
                compute_together(group)
            except Exception as error:
                # Which of them it is, if it is one by itself.
                alone = []
                for form in group:
                    print(json.dumps({"started": form.name}), flush=True)
                    alone.append((form.name, outcome(form)))
                yield from alone
                if all(text == "right" for _, text in alone):
                    yield ", ".join(name for name, _ in alone), f"together {type(error).__name__}: {error}"
            else:
                yield from ((form.name, "right") for form in group)


def compute_together(group: Sequence[Form]) -> None:
    """Raises where one program of all isn't right."""
    models = [onnx.compose.add_prefix(form.model, f"case_{number}_") for number, form in enumerate(group)]
    graphs = [model.graph for model in models]
    graph = onnx.helper.make_graph(
        [node for graph in graphs for node in graph.node],
        "together",
        [value for graph in graphs for value in graph.input],
        [value for graph in graphs for value in graph.output],
        [value for graph in graphs for value in graph.initializer],
    )
    model = onnx.helper.make_model(graph, opset_imports=models[0].opset_import)
    model.ir_version = max(each.ir_version for each in models)
    compiled = iree.winograd.compile(iree.winograd.import_onnx(model), target="cpu", threads=1)
    program = iree.winograd.load(compiled, device="local-sync")
    results = program(*(argument(value) for form in group for value in form.arguments[0]))
    remaining = iter(results if isinstance(results, tuple) else (results,))
    for form in group:
        _, expected = form.case.data_sets[0]
        for exact in expected:
            expect_agreement(form.case, np.asarray(next(remaining)), array(exact))
    assert not list(remaining)


def outcome(form: Form) -> str:
    """What comes of a form by itself, with all of its arguments."""
    case = form.case
    try:
        compiled = iree.winograd.compile(iree.winograd.import_onnx(form.model), target="cpu", threads=1)
        program = iree.winograd.load(compiled, device="local-sync")
        for given, (_, expected) in zip(form.arguments, case.data_sets, strict=False):
            results = program(*map(argument, given))
            results = results if isinstance(results, tuple) else (results,)
            for actual, exact in zip(results, expected, strict=True):
                expect_agreement(case, np.asarray(actual), array(exact))
    except ModelImportError as error:
        return "refused" if NAMED.search(str(error)) else f"no operator is named: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "right"


def with_constant_parameters(case: TestCase) -> ModelProto:
    """The model of a case with the values of all its arguments but the first."""
    model = ModelProto()
    model.CopyFrom(case.model)
    for value, given in list(zip(model.graph.input, case.data_sets[0][0], strict=True))[1:]:
        model.graph.initializer.append(numpy_helper.from_array(array(given), value.name))
        model.graph.input.remove(value)
    return model


def array(value: Any) -> Array:
    """A tensor of a case, which is a message for types that numpy doesn't have."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def argument(value: Any) -> Any:
    """An argument of a case, which may be a sequence of tensors."""
    return [argument(each) for each in value] if isinstance(value, list) else array(value)


def expect_agreement(case: TestCase, actual: Array, exact: Array) -> None:
    """Raises AssertionError where a result isn't what ONNX expects, within its tolerance."""
    assert actual.shape == exact.shape, f"shape {actual.shape}, expected {exact.shape}"
    if actual.dtype != exact.dtype and actual.dtype.itemsize == exact.dtype.itemsize:
        # IREE's integers have no signs.
        actual = actual.view(exact.dtype)
    if any(node.op_type in RANDOM for node in case.model.graph.node):
        assert actual.dtype == exact.dtype, f"type {actual.dtype}, expected {exact.dtype}"
        return
    if onnx.helper.np_dtype_to_tensor_dtype(exact.dtype) not in FLOATS:
        np.testing.assert_array_equal(actual, exact)
        return
    wide = exact.astype(np.float64)
    largest = np.abs(wide[np.isfinite(wide)]).max(initial=0)
    roundings = ROUNDINGS.get(exact.dtype.name, DEFAULT_ROUNDINGS) * largest
    atol = max(case.atol, roundings)
    np.testing.assert_allclose(actual.astype(np.float64), wide, rtol=case.rtol, atol=atol)


FLOATS = (TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    names = [each for each in sys.argv[1:] if each not in (SAMPLE, HALF)]
    found = cases(names)
    if SAMPLE in sys.argv:
        found = sample(found)
    if HALF in sys.argv:
        found = of_half_precision(found)
    for name, text in outcomes(found):
        print(json.dumps({"name": name, "outcome": text}), flush=True)
