"""A program that gunicorn loads before it forks its workers, as `gunicorn --preload` does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

SERVER = """
import os
import numpy as np
import iree.winograd as winograd

program = winograd.load(os.environ["PROGRAM"], threads=2)
loaded_by = os.getpid()

def application(environment, start_response):
    x = np.frombuffer(environment["wsgi.input"].read(4 * 64 * 4), np.float32).reshape(4, 64)
    headers = [("X-Loaded-By", str(loaded_by)), ("X-Called-By", str(os.getpid()))]
    start_response("200 OK", headers)
    return [program.main(x).tobytes()]
"""


class UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def listens(path: Path) -> bool:
    """Whether somebody does, a moment after the path is there."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def wait_for(path: Path, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while not listens(path):
        assert server.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.wide
def test_workers_call_what_was_loaded_before_they_were_forked(
    vmfb: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The path of a socket has a hundred characters at most.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.vmfb").write_bytes(vmfb)
    (tmp_path / "server.py").write_text(SERVER)
    path = Path("socket")
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2"]
        server = subprocess.Popen(
            [*command, "--bind", f"unix:{path}", "server:application"],
            env={**os.environ, "PROGRAM": str(tmp_path / "program.vmfb")},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
        try:
            wait_for(path, server)
            for number in range(8):
                x = np.full((4, 64), number, np.float32)
                connection = UnixConnection(path)
                connection.request("POST", "/", body=x.tobytes())
                response = connection.getresponse()
                result = np.frombuffer(response.read(), np.float32).reshape(4, 64)
                np.testing.assert_array_equal(result, 2 * x)
                assert response.headers["X-Loaded-By"] == str(server.pid) != response.headers["X-Called-By"]
                connection.close()
        finally:
            server.send_signal(signal.SIGTERM)
            status = server.wait(timeout=60)
    said = (tmp_path / "log").read_text()
    assert status == 0, said
    assert "Traceback" not in said, said
