"""Kernels for NVIDIA's GPUs as machine code: what drivers would otherwise make of them at load time.

IREE stores them as text (PTX), in a flatbuffer for each executable. Its own flags for an assembler have no
effect in 3.13.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from iree.winograd.cuda.early_launch import with_waits
from iree.winograd.cuda.executable import FORMAT, NoTextError, images, with_content
from iree.winograd.cuda.instruction_version import with_version
from iree.winograd.diagnostic import Diagnostic
from iree.winograd.dialect.bindings import ir
from iree.winograd.pipelines.problems.executable_target import ExecutableTarget, executable_targets

if TYPE_CHECKING:
    from concurrent.futures import Future

_TARGET = b".target "
_ON_ALL_PROCESSORS = "--split-compile=0"


class AssemblyError(Exception):
    """Kernels that can't be assembled; the text says why."""


def default_assembler(module: ir.Operation) -> str | None:
    """NVIDIA's assembler, if there is one, where `module` is for one architecture of GPUs and no later one.

    Text for others runs on all later GPUs, which machine code doesn't.
    """
    architectures = [target.field("arch") for target in _cuda_targets(module)]
    return installed_assembler() if any(each.endswith("a") for each in architectures) else None


def is_for_cuda(module: ir.Operation) -> bool:
    """Whether `module` is for NVIDIA's GPUs, among others."""
    return any(_cuda_targets(module))


def _cuda_targets(module: ir.Operation) -> Iterator[ExecutableTarget]:
    return (target for target in executable_targets(module) if target.format == FORMAT)


def installed_assembler() -> str | None:
    """The program `ptxas`: on the path, in NVIDIA's or Triton's package of PyPI or in their toolkit."""
    places = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")]
    for package, pattern in (("nvidia", "*/bin"), ("triton", "backends/nvidia/bin")):
        specification = importlib.util.find_spec(package)
        folders = [] if specification is None else specification.submodule_search_locations or []
        places = [*(place for folder in folders for place in sorted(Path(folder).glob(pattern))), *places]
    return shutil.which("ptxas") or next(
        (found for place in places if (found := shutil.which("ptxas", path=str(place))) is not None), None
    )


def finish_kernels(module: ir.Operation, ptxas: str | None, warn: Callable[[Diagnostic], None]) -> None:
    """Have all kernels for CUDA in `module` wait for those they depend on, and assemble them.

    `module` is a program after IREE's phase `hal`, `ptxas` NVIDIA's assembler, if there is one. What it fails
    on stays text, and `warn` is told.
    """
    binaries = list(_binaries(module))
    texts = [finished_text(_data(binary)) for binary in binaries]
    finished = texts
    if ptxas is not None:
        # Threads and temporary files take long to load, which others don't need.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            assemblies = [pool.submit(assemble, text, ptxas) for text in texts]
        finished = [_result(*each, warn) for each in zip(assemblies, texts, strict=True)]
    for binary, executable in zip(binaries, finished, strict=True):
        values = np.frombuffer(executable, np.int8)
        with binary.location:
            type_ = ir.VectorType.get([values.size], ir.IntegerType.get_signless(8))
            binary.attributes["data"] = ir.DenseElementsAttr.get(values, type=type_)


def _data(binary: ir.Operation) -> bytes:
    return np.array(ir.DenseIntElementsAttr(binary.attributes["data"]), np.int8).tobytes()


def _result(assembly: Future[bytes], text: bytes, warn: Callable[[Diagnostic], None]) -> bytes:
    try:
        return assembly.result()
    except AssemblyError as error:
        warn(Diagnostic("warning", f"kernels stay text, which drivers assemble when they load it: {error}"))
        return text


def _binaries(module: ir.Operation) -> Iterator[ir.Operation]:
    for executable in module.regions[0].blocks[0].operations:
        if executable.operation.name != "hal.executable":
            continue
        for binary in executable.operation.regions[0].blocks[0].operations:
            operation = binary.operation
            if operation.name == "hal.executable.binary" and _is_for_cuda(operation):
                yield operation


def _is_for_cuda(binary: ir.Operation) -> bool:
    return bool(ir.StringAttr(binary.attributes["format"]).value == FORMAT)


def finished_text(executable: bytes) -> bytes:
    """The flatbuffer of an executable whose kernels wait for those they depend on, where it has text.

    The text says the version that its instructions need.
    """
    try:
        return _rewritten(executable, lambda text: with_version(with_waits(text)))
    except NoTextError:
        return executable


def assemble(executable: bytes, ptxas: str) -> bytes:
    """The flatbuffer of an executable with machine code for its text.

    Raises `AssemblyError` where there is no text, or `ptxas` fails.
    """
    try:
        return _rewritten(executable, partial(_machine_code, ptxas=ptxas))
    except NoTextError as error:
        raise AssemblyError(str(error)) from None


def _rewritten(executable: bytes, rewrite: Callable[[bytes], bytes]) -> bytes:
    """The flatbuffer of an executable with what `rewrite` makes of each image. Raises `NoTextError`."""
    for number in range(len(images(executable))):
        # Where an image lies depends on those before.
        image = images(executable)[number]
        executable = with_content(executable, image, rewrite(image.content))
    return executable


def _machine_code(text: bytes, ptxas: str) -> bytes:
    _, _, target = text.partition(_TARGET)
    words = target.split(None, 1)
    if not words:
        raise AssemblyError("an executable's text has no architecture")
    return _assembled(text, words[0].rstrip(b",").decode(), ptxas)


@cache
def _options(ptxas: str) -> tuple[str, ...]:
    """What has an assembler use all processors, if it can: IREE has all kernels of a program in one text."""
    told = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=False)
    return (_ON_ALL_PROCESSORS,) if _ON_ALL_PROCESSORS.partition("=")[0] in told.stdout else ()


def _assembled(text: bytes, architecture: str, ptxas: str) -> bytes:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        source, target = Path(folder, "kernels.ptx"), Path(folder, "kernels.cubin")
        source.write_bytes(text)
        try:
            command = [ptxas, *_options(ptxas), f"-arch={architecture}", str(source), "-o", str(target)]
            completed = subprocess.run(command, capture_output=True, text=True, check=False)
            if completed.returncode != 0:
                raise AssemblyError(f"{ptxas}: {completed.stderr.strip()}")
            return target.read_bytes()
        except OSError as error:
            raise AssemblyError(f"{ptxas}: {error.strerror}") from None
