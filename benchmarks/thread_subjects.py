"""What `benchmarks.threads` times: layers and networks, as programs and in the other tools."""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import iree.winograd
import numpy.typing as npt
from iree.compiler import compile_file

from benchmarks.compiled import COMPILERS, DATA_TILED_FLAGS, PLAIN_FLAGS, compile_ours
from benchmarks.convolutions import ConvolutionLayer, resnet_layers
from benchmarks.timing import Contender

Array = npt.NDArray[Any]

_LAYERS = {
    f"{layer.height}x{layer.width}x{layer.channels}": number for number, layer in enumerate(resnet_layers(1))
}
_NETWORKS = ("resnet18", "resnet50", "mobilenetv2", "vgg16")
NAMES = (*_LAYERS, *_NETWORKS)


class ThreadSubject(ABC):
    """A layer or a network with one f32 `image`."""

    image: Array

    def compiled(self, folder: Path, name: str, compiler: str, threads: int) -> Path:
        """The file in `folder` with the program by one of `COMPILERS`, which is written if it isn't there.

        Beside ours is its report, a .json of that name.
        """
        path = folder / f"{name}-{compiler}-{threads if compiler == 'ours' else 'any'}.vmfb"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as unfinished:
                self._compile(compiler, threads, Path(unfinished, path.name))
                # The report first: a program that is there has one.
                for file in sorted(Path(unfinished).iterdir()):
                    os.replace(file, folder / file.name)
        return path

    @abstractmethod
    def peers(self, tool: str, threads: int) -> list[Contender]:
        """The ways in which another tool does it, on so many threads."""

    @abstractmethod
    def _compile(self, compiler: str, threads: int, path: Path) -> None: ...


def thread_subject(name: str, batch: int) -> ThreadSubject:
    """The subject of one of `NAMES`."""
    return (
        LayerSubject(resnet_layers(batch)[_LAYERS[name]]) if name in _LAYERS else NetworkSubject(name, batch)
    )


class LayerSubject(ThreadSubject):
    def __init__(self, layer: ConvolutionLayer) -> None:
        self._layer = layer
        self._operands = layer.random_operands()
        self.image = self._operands.image

    def peers(self, tool: str, threads: int) -> list[Contender]:
        from benchmarks.peers import layer_peers

        peers = layer_peers(tool, self._layer, self._operands, threads)
        return [Contender(peer.name, peer.run) for peer in peers if not peer.steady_state]

    def _compile(self, compiler: str, threads: int, path: Path) -> None:
        from benchmarks.programs import convolution_program

        program = convolution_program(self._layer, self._operands, "nhwc")
        if compiler == "ours":
            path.write_bytes(compile_ours(program, threads, path.with_suffix(".json")))
        else:
            path.write_bytes(COMPILERS[compiler](program, threads))


class NetworkSubject(ThreadSubject):
    def __init__(self, name: str, batch: int) -> None:
        import torch

        from benchmarks.networks.catalog import NETWORKS
        from benchmarks.subject import Subject

        torch.set_grad_enabled(False)
        # Many processes may prepare theirs at the same time.
        torch.set_num_threads(1)
        network = NETWORKS[name]
        self._subject = Subject(network.calibrated(), network.input(batch))
        self.image = self._subject.images.numpy()

    def peers(self, tool: str, threads: int) -> list[Contender]:
        from benchmarks.model_tools import TOOLS

        variants = ("torch", "torch-frozen") if tool == "torch" else (tool,)
        # torch is told at each turn how many threads to use: many that spin would hinder those that prepare.
        prepared_on = 1 if tool == "torch" else threads
        return [Contender(each, TOOLS[each](self._subject, prepared_on).run) for each in variants]

    def _compile(self, compiler: str, threads: int, path: Path) -> None:
        model = self._subject.imported.value
        if compiler == "iree-tiled":
            # A flag that IREE knows on its command line only.
            with tempfile.NamedTemporaryFile(suffix=".mlirbc") as program:
                model.save(program.name)
                compile_file(program.name, output_file=str(path), extra_args=list(DATA_TILED_FLAGS))
            return
        is_ours = compiler == "ours"
        iree.winograd.compile(
            model,
            output=path,
            flags=PLAIN_FLAGS,
            enable_winograd=is_ours,
            threads=threads,
            report=path.with_suffix(".json") if is_ours else None,
        )
