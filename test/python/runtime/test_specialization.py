"""Programs of their own for sizes that come often."""

import json
import sys
import time
from pathlib import Path
from threading import Thread

import iree.winograd as winograd
import numpy as np
import pytest
import torch
from iree.winograd.dialect.bindings import ir
from iree.winograd.errors import CompilationError, InvalidOptionError
from iree.winograd.importers.imported_model import ImportedModel
from iree.winograd.loading import call_counts
from iree.winograd.specializing.background import Background
from iree.winograd.specializing.compile_sizes import Job
from iree.winograd.specializing.known_sizes import fix_sizes
from iree.winograd.specializing.specialization import SpecialPrograms

_SECONDS = 600
"""Compilers are of the lowest priority, on a machine that may have other work."""
_UNIT_ROUNDOFF = 2.0**-24


class Joined(torch.nn.Module):
    """Convolves an image beside what it convolved it to, at half the size, and enlarges the result."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(11, 8, 3, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.second(torch.cat([torch.relu(self.first(image)), image], 1))
        return torch.nn.functional.interpolate(features, scale_factor=2.0)


@pytest.fixture(scope="module")
def network() -> Joined:
    return Joined().eval()


@pytest.fixture(scope="module")
def model(network: Joined) -> ImportedModel:
    sizes = {2: 2 * torch.export.Dim("height", min=2), 3: 2 * torch.export.Dim("width", min=2)}
    exported = torch.export.export(network, (torch.zeros(1, 3, 24, 32),), dynamic_shapes=(sizes,))
    return winograd.import_torch(exported)


@pytest.fixture(scope="module")
def program(model: ImportedModel) -> bytes:
    return winograd.compile(model, threads=1)


def test_known_sizes_are_those_of_all_tensors(model: ImportedModel) -> None:
    module = model.build(ir.Context())
    fix_sizes(module, model.entry, [(1, 3, 16, 20)])
    lines = module.operation.get_asm(large_elements_limit=4).splitlines()
    open_lines = [line for line in lines if "?" in line]
    # The function's, and of its result, whose type stays as it is.
    assert len(open_lines) == 3
    assert "tensor<1x3x16x20xf32>) -> tensor<1x8x?x?xf32>" in open_lines[0]


@pytest.mark.parametrize(
    ("target", "device"), [("cpu", "local-sync"), pytest.param("vulkan", "vulkan", marks=pytest.mark.wide)]
)
def test_sizes_that_come_often_have_programs_of_their_own(
    target: str,
    device: str,
    network: Joined,
    model: ImportedModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_counts, "CALLS_FOR_PROGRAM", 2)
    specialization = winograd.Specialization(model, sizes=1, target=target, cache_folder=tmp_path)
    program = winograd.compile(model, target=target)
    loaded = winograd.load(program, device, specialize=specialization)
    special = loaded.main.specialized
    assert special is not None
    first = np.random.default_rng(0).standard_normal((1, 3, 16, 20), np.float32)
    second = np.ascontiguousarray(first[..., :14, :])
    for number, image in enumerate((first, second)):
        last = time.monotonic() + _SECONDS
        while special([image]) is None and time.monotonic() < last:
            loaded(image)
            # Each call takes of the time of the compiler.
            time.sleep(0.2)
        function = special([image])
        assert function is not None and function.signature is not None
        assert function.signature.inputs[0].shape == image.shape
        check(network, loaded(image), image)
        assert len(list(tmp_path.glob("*.vmfb"))) == number + 1
    # The second took the place of the first, which is kept on disk.
    assert special([first]) is None


def check(network: Joined, result: np.ndarray, image: np.ndarray) -> None:
    """Sums of at most 99 products, of sums of 27, in tiles of at most four outputs."""
    with torch.no_grad():
        exact = network.double()(torch.from_numpy(image).double()).numpy()
    network.float()
    np.testing.assert_allclose(result, exact, rtol=0, atol=100 * 126 * _UNIT_ROUNDOFF * np.abs(exact).max())


def test_options_may_be_paths(model: ImportedModel) -> None:
    specialization = winograd.Specialization(model, options={"machine": Path("machine.json")})
    options = specialization.options
    job = Job("model", "main", [[1, 3, 8, 8]], "program", "report", "cpu", [], options)
    assert json.loads(job.command()[-1])["options"] == {"machine": "machine.json"}


def test_the_end_waits_for_no_compiler() -> None:
    background = Background()
    errors: list[str] = []

    def run() -> None:
        try:
            background.run([sys.executable, "-c", "import time; time.sleep(60)"])
        except CompilationError as error:
            errors.append(str(error))

    thread = Thread(target=run, daemon=True)
    background.start(thread)
    while background._process is None:
        time.sleep(0.001)
    begin = time.monotonic()
    background.close()
    assert time.monotonic() - begin < 10
    assert not thread.is_alive() and not background.folder.exists()
    assert errors == ["the compiler was ended"]


def test_failures_are_said_once(
    model: ImportedModel, program: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_counts, "CALLS_FOR_PROGRAM", 0)
    specialization = winograd.Specialization(model, cache_folder=tmp_path)
    loaded = winograd.load(program, "local-sync", specialize=specialization)

    commands = []

    def fail(self: Background, command: list[str]) -> None:
        commands.append(command)
        raise CompilationError("no space left")

    monkeypatch.setattr(Background, "run", fail)
    image = np.zeros((1, 3, 8, 8), np.float32)
    last = time.monotonic() + _SECONDS
    with pytest.warns(winograd.SpecializationWarning, match="8, 8.*: no space left") as said:
        while not said and time.monotonic() < last:
            loaded(image)
            time.sleep(0.001)
        for _ in range(10):
            loaded(image)
    assert len(said) == len(commands) == 1


def test_what_has_no_open_sizes_or_is_another_model_is_refused(
    model: ImportedModel, program: bytes, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOptionError, match="sizes must be positive"):
        winograd.Specialization(model, sizes=0)
    with pytest.raises(InvalidOptionError, match="'tile' is not known"):
        winograd.Specialization(model, options={"tile": 4})
    static = winograd.import_torch(torch.nn.Conv2d(3, 8, 3).eval(), torch.zeros(1, 3, 8, 8))
    with pytest.raises(InvalidOptionError, match="isn't compiled from this model"):
        winograd.load(program, specialize=winograd.Specialization(static, cache_folder=tmp_path))


def test_programs_end_what_they_began(model: ImportedModel, program: bytes, tmp_path: Path) -> None:
    specialization = winograd.Specialization(model, cache_folder=tmp_path)
    loaded = winograd.load(program, "local-sync", specialize=specialization)
    programs = loaded.main.specialized.__self__  # type: ignore[union-attr]
    assert isinstance(programs, SpecialPrograms)
    folder = programs._background.folder
    assert folder.exists()
    del loaded, programs
    assert not folder.exists()
