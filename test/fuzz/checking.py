"""Compiles and runs a program, and compares it with what it should compute."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import iree.winograd
import numpy as np
import numpy.typing as npt
import operations as o
import program as p
from bounded import Bounded
from building import build
from configuration import TARGETS, Configuration, chosen_implementations
from evaluation import evaluate, public_name
from guarded import Edge
from guarded_call import call_guarded
from guest_process import GuestEndedError, GuestProgram, load_in_guest
from iree.compiler import api
from iree.winograd.compiling.compilation import Compilation
from iree.winograd.compiling.phases import Stages
from iree.winograd.compiling.program import compilation_error, open_session, open_source
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.algebra.numerics import Accumulation, predicted_error, predicted_errors_of
from iree.winograd.dialect.algebra.transforms import transforms
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.selection.decision import Decision
from iree.winograd.pipelines.selection.options import WinogradOptions
from number_types import NUMBER_TYPES, NumberType
from open_size import at, in_numbers, is_open
from tensors import InvalidProgramError, Tensor

_IREE_DEFECTS = (
    "circular dependency: input operation uses partition output",
    "operation's operand is unlinked",
)
"""What IREE 3.13 says of its own partitions of some programs, rewritten or not."""
_IREE_OVERLAP = "source and target ranges overlap within the same buffer"
"""What its runtime says where IREE 3.13 moves a slice within an argument, with or without this project."""
_PRODUCT_KERNEL = re.compile(rb"winograd_batch_matmul_\w+")
"""The names of kernels of products, of which equal products have one."""
INFORMATIVE = 0.05
"""Bounds beyond this share of a result's root mean square say little of it."""

Array = npt.NDArray[Any]


class FindingError(Exception):
    """Something is wrong with how a program is compiled or runs."""

    kind = "finding"


class PassFailedError(FindingError):
    """The program compiles without this project only."""

    kind = "pass"


class StockFailedError(FindingError):
    """IREE fails on the program without this project."""

    kind = "stock"


class WrongResultError(FindingError):
    kind = "result"


class StockWrongError(FindingError):
    """IREE without this project computes something else, too: a defect of it, or of what we expect."""

    kind = "stock result"


class UnequalRunsError(FindingError):
    kind = "runs differ"


class OutOfBoundsError(FindingError):
    kind = "out of bounds"


class CallFailedError(FindingError):
    kind = "call"


class CrashedError(FindingError):
    """A program has ended the process of an emulator."""

    kind = "crash"


def check(program: p.Program, configuration: Configuration, with_stock: bool) -> Counter[str]:
    """Check `program`; returns counts of what it held. Raises FindingError.

    `with_stock` says whether IREE alone has to agree as well; where something is wrong, it always is asked.
    """
    if not p.convolutions(program):
        # IREE computes it, in half precision with sums in that.
        configuration = in_single_precision(configuration)
    counts: Counter[str] = Counter(programs=1)
    counts[f"programs of {configuration.numbers}"] += 1
    with chosen_implementations(configuration) as decisions:
        compiled = _compile(program, configuration)
    errors = {}
    for decision in decisions:
        for name in decision.names:
            errors[name] = max(errors.get(name, 0.0), _predicted_error(decision))
        chosen = decision.chosen
        kernel = type(chosen.implementation.schedule).__name__ if chosen else f"left: {decision.reason}"
        counts[f"{configuration.target}: {kernel}"] += 1
    counts["kernels"] += len({_kernel(decision) for decision in decisions if decision.chosen is not None})
    for convolution in p.convolutions(program):
        counts["convolutions"] += 1
        counts[f"convolutions for {configuration.target}"] += 1
        counts[f"convolutions {''.join(sorted(set(convolution.layouts[1])))}"] += 1
    counts["products"] += len(p.products(program))
    counts["products by a kernel"] += len(set(_PRODUCT_KERNEL.findall(compiled)))
    # In half precision it sums in that, and can't compile all.
    with_stock = with_stock and configuration.number_type.is_computed
    stock = _compile_stock(program, configuration) if with_stock else None
    for number, function in enumerate(program.functions):
        counts["functions of open sizes"] += any(Tensor(each.shape).is_open for each in function.inputs)
        for run in _runs(function):
            try:
                expected = _check_results(run, number, errors, configuration, compiled)
            except FindingError as wrong:
                _blame_stock(program, run, number, errors, configuration, wrong)
                raise
            for result in expected:
                counts["results"] += 1
                counts["uninformative results"] += not _is_informative(result)
            if stock is not None:
                counts["results compared with IREE alone"] += len(expected)
                try:
                    _check_results(run, number, errors, configuration, stock)
                except FindingError as wrong:
                    raise StockWrongError(str(wrong)) from None
    return counts


def _runs(function: p.Function) -> Iterator[p.Function]:
    """A function in the run that it is written in, and in others, with the sizes that it has there."""
    yield in_numbers(function)
    for sizes in function.other_runs:
        run = at(function, dict(sizes))
        # Smaller programs aren't defined in all runs of those that they are parts of.
        with suppress(InvalidProgramError):
            p.function_types(run)
            yield in_numbers(run)


def in_single_precision(configuration: Configuration) -> Configuration:
    """The same for the program in f32."""
    return replace(configuration, numbers="f32")


def _check_results(
    function: p.Function,
    number: int,
    errors: dict[str, float],
    configuration: Configuration,
    compiled: bytes,
) -> list[Bounded]:
    """What `function` should compute in this run, which what it computes is compared with."""
    numbers = configuration.number_type
    arguments = function_arguments(function, numbers)
    expected = expected_results(function, number, arguments, errors, numbers)
    results = _run(compiled, function, number, arguments, configuration)
    compare([numbers.numbers(each) for each in results], expected, number, numbers.largest)
    return expected


def _blame_stock(
    program: p.Program,
    run: p.Function,
    number: int,
    errors: dict[str, float],
    configuration: Configuration,
    wrong: FindingError,
) -> None:
    """Raise StockWrongError where IREE alone goes wrong on the program in f32, too."""
    configuration = in_single_precision(configuration)
    try:
        stock = _compile_stock(program, configuration)
    except StockFailedError:
        return
    try:
        _check_results(run, number, errors, configuration, stock)
    except FindingError as also:
        raise StockWrongError(f"{also}; with this project: {wrong.kind}: {wrong}") from None


def check_stock(program: p.Program, configuration: Configuration) -> Counter[str]:
    """Check `program`, in f32, as IREE alone compiles it."""
    configuration = in_single_precision(configuration)
    compiled = _compile_stock(program, configuration)
    for number, function in enumerate(program.functions):
        for run in _runs(function):
            _check_results(run, number, {}, configuration, compiled)
    return Counter()


def bytecode(program: p.Program, numbers: NumberType) -> bytes:
    with ir.Context() as context:
        file = io.BytesIO()
        build(program, context, numbers).operation.write_bytecode(file)
        return file.getvalue()


def function_arguments(function: p.Function, numbers: NumberType) -> list[Array]:
    generator = np.random.default_rng(0)
    return [numbers.stored(generator.standard_normal(each.shape)) for each in function.inputs]


def expected_results(
    function: p.Function,
    number: int,
    arguments: Sequence[Array],
    errors: dict[str, float],
    numbers: NumberType,
) -> list[Bounded]:
    def error_of(label: str, convolution: o.Convolution, filter_shape: Sequence[int]) -> float:
        sizes = dict(zip(convolution.layouts[1], filter_shape, strict=True))
        taps = [size for letter, size in sizes.items() if letter.isdigit()]
        direct = _direct_error(len(taps), sizes.get("c", 1) * int(np.prod(taps)))
        # Of equal convolutions IREE keeps one, with its name.
        return max(errors.get(label, max(errors.values(), default=0.0)), direct)

    given = list(map(numbers.numbers, arguments))
    return evaluate(function, public_name(number), given, error_of, numbers)


def _kernel(decision: Decision) -> object:
    """The same for convolutions that are computed alike, but for what is fused with them."""
    assert decision.chosen is not None
    implementation = decision.chosen.implementation
    return decision.problem, implementation.algorithm, implementation.schedule


@cache
def _direct_error(rank: int, terms: int) -> float:
    return predicted_error((1,) * rank, (1,) * rank, terms)


def _predicted_error(decision: Decision) -> float:
    """Of a tile's least accurate output, and of one sum over all channels: the least accurate order."""
    if decision.chosen is None or decision.problem is None:
        return 0.0
    algorithm, problem = decision.chosen.implementation.algorithm, decision.problem
    found = [
        transforms(tile, part) for tile, part in zip(algorithm.output_tile, algorithm.part_size, strict=True)
    ]
    accumulation = Accumulation(problem.group_inputs * algorithm.decompose(problem).view_count)
    errors = predicted_errors_of(found, accumulation, exact_filter=not problem.runtime_filter)
    return float(errors.max())


def _most_open_sizes(program: p.Program) -> int:
    """Of an argument: a hint of more numbers is an error."""
    arguments = (each for function in program.functions for each in function.inputs)
    return max((sum(map(is_open, each.shape)) for each in arguments), default=0)


def _compile(program: p.Program, configuration: Configuration) -> bytes:
    options = WinogradOptions(
        strict=True,
        threads=configuration.threads,
        output_tile=configuration.output_tile,
        fold_filters=configuration.fold_filters,
        size_hint=configuration.size_hint[-_most_open_sizes(program) or None :],
    )
    try:
        return _compile_with(bytecode(program, configuration.number_type), configuration, options)
    except iree.winograd.CompilationError as error:
        _compile_stock(program, configuration)
        if any(defect in str(error) for defect in _IREE_DEFECTS):
            raise StockFailedError(str(error)) from None
        raise PassFailedError(str(error)) from None


def _compile_stock(program: p.Program, configuration: Configuration) -> bytes:
    """The program in f32 by IREE alone, which can't compile all in half precision."""
    try:
        return _compile_with(bytecode(program, NUMBER_TYPES["f32"]), configuration, None)
    except iree.winograd.CompilationError as error:
        raise StockFailedError(str(error)) from None


def _compile_with(source: bytes, configuration: Configuration, options: WinogradOptions | None) -> bytes:
    """As `iree.winograd.compile` does, but for IREE's verifier, which follows the configuration."""
    diagnostics: list[Diagnostic] = []
    flags = (*iree.winograd.target_flags(TARGETS[configuration.target]), *configuration.flags)
    session = open_session(flags, options)
    stages = Stages(verify=configuration.verifies)
    with Compilation(session, options, stages, report=diagnostics.append) as compilation:
        invocation = compilation.compile(open_source(compilation, source))
        if invocation is None:
            raise compilation_error(diagnostics)
        with api.Output.open_membuffer() as output:
            invocation.output_vm_bytecode(output)
            return bytes(output.map_memory())


def compare(
    runs: Sequence[Array],
    expected: Sequence[Bounded],
    number: int,
    most: float = NUMBER_TYPES["f32"].largest,
) -> None:
    """`most` is the largest number that a result may be. Raises WrongResultError."""
    for index, (actual, bounded) in enumerate(zip(runs, expected, strict=True)):
        if actual.shape != bounded.value.shape:
            raise WrongResultError(f"result {index} has shape {actual.shape}, not {bounded.value.shape}")
        with np.errstate(invalid="ignore"):
            near = np.abs(actual - bounded.value) <= bounded.error
        # Where what is computed may overflow, a bound says nothing; in float64 it may be NaN then.
        wrong = ~near & (np.abs(bounded.value) + bounded.error <= most)
        if wrong.any():
            place = tuple(map(int, np.argwhere(wrong)[0]))
            raise WrongResultError(
                f"function {number}, result {index}: {wrong.sum()} of {wrong.size} elements, first "
                f"{place}: {actual[place]} is not {bounded.value[place]} within {bounded.error[place]:.1e}"
            )


def _is_informative(result: Bounded) -> bool:
    if not result.value.size:
        return True
    size = np.sqrt(np.mean(result.value**2))
    return bool(result.error.max() <= INFORMATIVE * max(float(size), 1e-3))


def _run(
    compiled: bytes,
    function: p.Function,
    number: int,
    arguments: Sequence[Array],
    configuration: Configuration,
) -> list[Array]:
    """The results of the first run; others, elsewhere in memory and on more threads, have to be the same."""
    given = [*arguments, *_outputs(function, configuration.number_type)]
    if not configuration.is_cpu:
        loaded = iree.winograd.load(compiled, configuration.target)
        with _named_failures():
            results = getattr(loaded, f"f{number}")(*given)
        return [np.array(result) for result in (results if isinstance(results, tuple) else (results,))]
    first = _run_guarded(compiled, "local-sync", None, number, given, len(arguments), "end", configuration)
    for device, threads, edge in OTHER_RUNS:
        other = _run_guarded(compiled, device, threads, number, given, len(arguments), edge, configuration)
        for index, (one, two) in enumerate(zip(first, other, strict=True)):
            if one.tobytes() != two.tobytes():
                raise UnequalRunsError(
                    f"function {number}, result {index} on {device} with {threads} threads: "
                    f"{(one != two).sum()} of {one.size} elements differ from those of one thread"
                )
    return first


OTHER_RUNS: Sequence[tuple[str, int | None, Edge]] = (
    ("local-sync", None, "start"),
    ("local-task", 2, "end"),
    ("local-task", 16, "start"),
)


def _outputs(function: p.Function, numbers: NumberType) -> list[Array]:
    """The memory for a result that its caller hands over, if it does."""
    if not function.output_argument:
        return []
    return [numbers.stored(np.full(p.function_types(function)[0].shape, np.nan))]


def _run_guarded(
    compiled: bytes,
    device: str,
    threads: int | None,
    number: int,
    given: Sequence[Array],
    inputs: int,
    edge: Edge,
    configuration: Configuration,
) -> list[Array]:
    """The results; the first `inputs` of what is given are no memory for them."""
    with _named_failures():
        if configuration.emulated is None:
            loaded = _load(compiled, device, threads)
            call = call_guarded(getattr(loaded, f"f{number}"), given, edge)
        else:
            guest_program = _load_in_guest(configuration.emulated, compiled, device, threads)
            call = guest_program.call(f"f{number}", given, edge)
    for index in call.overrun:
        raise OutOfBoundsError(f"function {number} writes beyond argument {index}")
    for index in call.changed:
        if index < inputs:
            raise OutOfBoundsError(f"function {number} changes argument {index}")
    return list(call.results)


@contextmanager
def _named_failures() -> Iterator[None]:
    """Has what fails in a call be a finding."""
    try:
        yield
    except iree.winograd.CallError as error:
        kind = StockWrongError if _IREE_OVERLAP in str(error) else CallFailedError
        raise kind(str(error)) from None
    except GuestEndedError as error:
        _load_in_guest.cache_clear()
        raise CrashedError(str(error)) from None


@lru_cache(maxsize=len(OTHER_RUNS) + 1)
def _load(compiled: bytes, device: str, threads: int | None) -> iree.winograd.LoadedProgram:
    return iree.winograd.load(compiled, device, threads=threads)


@lru_cache(maxsize=len(OTHER_RUNS) + 1)
def _load_in_guest(processor: str, compiled: bytes, device: str, threads: int | None) -> GuestProgram:
    return load_in_guest(processor, compiled, device, threads=threads)
