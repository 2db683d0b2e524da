"""`iree-winograd calibrate`: measures a machine and keeps what the cost models need to know of it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iree.winograd.atomic_file import atomic_file
from iree.winograd.errors import WinogradError
from iree.winograd.targets import TARGET_OF_DRIVER, driver_name

if TYPE_CHECKING:
    from iree.winograd.pipelines.machines.model import CpuMachine, GpuMachine, Machine

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DRIVERS = {driver: target for driver, target in TARGET_OF_DRIVER.items() if driver != "local-sync"}
"""The drivers that use all that a machine offers, and the targets for them."""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Adds the subcommand; its parsed options have `run`, which takes them and returns an exit status."""
    parser = subparsers.add_parser(
        "calibrate",
        help="measure this machine for the cost models",
        description="Measures what the cost models need to know of a machine, and stores it for all later "
        "compilations for the same target. The machine should have nothing else to do meanwhile.",
    )
    parser.add_argument(
        "--device",
        default="local-task",
        metavar="DEVICE",
        help=f"{', '.join(DRIVERS)}, as a URI of IREE's runtime: cuda://1, say; by default local-task, this "
        "machine's CPU",
    )
    parser.add_argument(
        "--target",
        help="the target that is compiled for, e.g. cuda:sm_80; by default cpu, which is the processor that "
        "this runs on, or what IREE takes for the driver",
    )
    parser.add_argument(
        "--threads", type=int, help="threads of a CPU to measure with; all that it offers by default"
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="time to measure for, about; 10 by default"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write the machine to a file, for --iree-winograd-machine; by default it is stored for the user",
    )
    parser.set_defaults(run=lambda options: run(options, parser))
    return parser


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Runs the subcommand. Impossible options end the process through `parser.error`."""
    driver = driver_name(options.device)
    if driver not in DRIVERS:
        parser.error(f"--device must be one of {', '.join(DRIVERS)}, not {options.device}")
    is_cpu = DRIVERS[driver] == "cpu"
    if options.threads is not None and (not is_cpu or options.threads < 1):
        parser.error("--threads must be at least 1, and is for CPUs only")
    processors = os.cpu_count()
    if options.threads is not None and processors is not None and options.threads > processors:
        parser.error(f"--threads must be at most {processors}, the processors of this machine")
    if options.target is not None and is_cpu:
        parser.error("--target is for GPUs only: a CPU is measured by programs for itself")
    if not options.seconds > 0:
        parser.error(f"--seconds must be positive, not {options.seconds}")
    try:
        machine = _measure(options, driver)
        if options.output is None and not machine.name:
            parser.error("the target has no name to store its machine by: give --output")
        _write(machine, options.output)
    except WinogradError as error:
        print(f"iree-winograd: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"iree-winograd: error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _measure(options: argparse.Namespace, driver: str) -> Machine:
    # Other subcommands need neither the compiler nor the runtime.
    if DRIVERS[driver] == "cpu":
        from iree.winograd.calibration.cpu import measure_cpu
        from iree.winograd.pipelines.machines.host import available_processors

        return measure_cpu(options.threads or available_processors(), options.seconds, _show_progress)
    from iree.winograd.calibration.gpu import measure_gpu

    return measure_gpu(options.device, options.target or DRIVERS[driver], options.seconds, _show_progress)


def _write(machine: Machine, output: str | None) -> None:
    from iree.winograd.pipelines.machines.model import machine_to_json
    from iree.winograd.pipelines.machines.store import machine_path

    path = machine_path(machine.name) if output is None else Path(output)
    if output is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(str(path)) as temporary:
        Path(temporary).write_text(machine_to_json(machine), encoding="utf-8")
    print(describe(machine))
    print(f"stored in {path}" if output is None else f"written to {path}")


def describe(machine: Machine) -> str:
    """The figures of a machine, one per line, with their units; of a GPU beside those it had by default."""
    from iree.winograd.pipelines.machines.defaults import default_gpu_machine
    from iree.winograd.pipelines.machines.model import CpuMachine

    if isinstance(machine, CpuMachine):
        return _aligned(machine.name, [list(row) for row in _cpu_figures(machine)])
    default = dict(_gpu_figures(default_gpu_machine(machine.name)))
    rows = [[name, figure, default.get(name, "")] for name, figure in _gpu_figures(machine)]
    return _aligned(machine.name, [["", "measured", "by default"], *rows])


def _aligned(name: str, rows: Sequence[Sequence[str]]) -> str:
    width = max(len(row[0]) for row in rows)
    lines = ("".join((f"  {row[0]:{width}}", *(f"  {cell:>14}" for cell in row[1:]))) for row in rows)
    return "\n".join([name, *lines])


def _cpu_figures(machine: CpuMachine) -> Iterator[tuple[str, str]]:
    from iree.winograd.pipelines.machines.units import KIBIBYTE

    yield "f32 operations in registers", _operations(machine.flops)
    yield "clock", f"{machine.clock / 1e9:.2f} GHz"
    for number, level in enumerate(machine.caches, 1):
        yield f"cache {number}, {level.size // KIBIBYTE} KiB", _bandwidth(level.bandwidth)
    yield "memory, one core", _bandwidth(machine.memory_bandwidth)
    yield "memory, all cores", _bandwidth(machine.shared_memory_bandwidth)
    yield "dispatch", _duration(machine.dispatch_seconds)
    yield "waking a thread", _duration(machine.wake_seconds)
    yield "cores that gain from each other", str(machine.cores)


def _gpu_figures(machine: GpuMachine) -> Iterator[tuple[str, str]]:
    from iree.winograd.pipelines.machines.units import KIBIBYTE

    yield "f32 operations in registers", _operations(machine.flops)
    yield "multiprocessors", str(machine.multiprocessors)
    yield "last-level cache", f"{machine.cache_size // KIBIBYTE} KiB"
    yield "bandwidth of that cache", _bandwidth(machine.cache_bandwidth)
    yield "memory", _bandwidth(machine.memory_bandwidth)
    yield "launch", _duration(machine.launch_seconds)


def _operations(rate: float) -> str:
    return f"{rate / 1e9:.0f} GFLOP/s"


def _bandwidth(rate: float) -> str:
    return f"{rate / 1e9:.1f} GB/s"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us"


def _show_progress(done: float) -> None:
    """A line on a terminal, rewritten as time goes by."""
    if sys.stderr.isatty():
        print(f"\rmeasuring: {done:4.0%}", end="\n" if done >= 1 else "", file=sys.stderr, flush=True)
