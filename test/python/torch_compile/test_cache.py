"""Compiled parts on disk."""

import errno
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from iree.winograd import cli
from iree.winograd.compiling import program
from iree.winograd.importers import torch_lowering
from iree.winograd.torch_compile.fallback_warning import FallbackWarning
from iree.winograd.torch_compile.program_key import structure_key
from small_networks import Network, check, compiled


def test_compiled_parts_are_kept_within_a_size(
    images: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, folder = Network(), tmp_path / "cache"
    check(model, compiled(model, cache_folder=folder), images)
    (kept_program,) = folder.glob("*.vmfb")
    assert cli.main(["cache", "show", "--folder", str(folder)]) == 0
    assert "2 convolutions" in capsys.readouterr().out

    with monkeypatch.context() as patch:
        patch.setattr(program, "compile", None)
        patch.setattr(torch_lowering, "lower_graph", None)
        torch._dynamo.reset()
        check(model, compiled(model, cache_folder=folder), images)

    # Damaged files are replaced.
    kept_program.write_bytes(b"none")
    torch._dynamo.reset()
    with pytest.warns(FallbackWarning, match="kept is compiled anew"):
        check(model, compiled(model, cache_folder=folder), images)
    assert kept_program.stat().st_size > 4

    # Other weights are another program; with no room for both the one used last stays.
    with torch.no_grad():
        model.stem.weight.mul_(2)
    (folder / "padding.vmfb").write_bytes(bytes(2**20))
    torch._dynamo.reset()
    check(model, compiled(model, cache_folder=folder, cache_size=1), images)
    kept = {path.stem for path in folder.iterdir() if path.suffix != ".graph"}
    assert kept_program.stem in kept and len(kept) == 2

    assert cli.main(["cache", "clear", "--folder", str(folder)]) == 0
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_no_error(images: torch.Tensor, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    model = Network()
    with pytest.warns(FallbackWarning, match="aren't kept"):
        check(model, compiled(model, cache_folder=tmp_path / "file"), images)


def test_a_disk_that_is_full_is_no_error(
    images: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to eager for it."""
    write = program.atomic_file

    def write_elsewhere(path: str) -> AbstractContextManager[str]:
        if Path(path).parent == tmp_path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path)

    monkeypatch.setattr(program, "atomic_file", write_elsewhere)
    model = Network()
    with pytest.warns(FallbackWarning) as caught:
        check(model, compiled(model, cache_folder=tmp_path), images)
    (warning,) = (str(each.message) for each in caught)
    assert warning.startswith("compiled parts of models aren't kept: cannot write output file")
    assert not list(tmp_path.glob("*.vmfb"))


def test_programs_are_told_apart_by_types_that_torch_chose() -> None:
    """The default type is that of a quotient of integers."""

    def key(default: torch.dtype) -> str:
        graph = torch.fx.Graph()
        integers = graph.placeholder("integers")
        integers.meta["val"] = torch.ones(2, dtype=torch.int64)
        quotient = graph.call_function(torch.ops.aten.div.Tensor, (integers, 3))
        quotient.meta["val"] = torch.ones(2, dtype=default)
        graph.output((quotient,))
        return structure_key(graph, (), ())

    assert key(torch.float16) != key(torch.float32) == key(torch.float32)


PROCESS = """
import sys
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
compiled = torch.compile(model, backend="winograd", options={"cache_folder": sys.argv[1]})
with torch.no_grad():
    result = compiled(torch.ones(1, 3, 12, 12))
print(*sys.modules.keys() & {"iree.compiler", "torch_mlir.ir", "torch._inductor.compile_fx"})
if not sys.modules.keys() & {"iree.compiler"}:
    from iree.winograd import explain
    assert explain(torch.nn.Conv2d(3, 8, 3), torch.randn(1, 3, 16, 16)).graphs
"""


@pytest.mark.wide
def test_a_second_process_loads_no_compiler(tmp_path: Path) -> None:
    for loaded in ({"iree.compiler", "torch_mlir.ir"}, set()):
        command = [sys.executable, "-W", "ignore", "-c", PROCESS, str(tmp_path)]
        outcome = subprocess.run(command, capture_output=True, text=True, check=True)
        assert set(outcome.stdout.split()) == loaded
        # The runtime would say at the end which of its objects live on.
        assert outcome.stderr == ""
