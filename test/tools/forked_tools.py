"""Tools in Python that start at once: forks of one process, which has imported what they may need.

    python forked_tools.py SOCKET MODULE:FUNCTION ARGUMENTS...

calls the function with the arguments in `sys.argv`, as a console script does, in a fork of the process that
listens to the socket. A test of lit runs two tools or more, whose imports take far longer than their work,
and so do those of command lines.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_servers: list[object] = []


def command(python: str, entry_points: list[str], modules: list[str]) -> list[str]:
    """What an entry point and arguments come behind, as long as this process runs.

    `modules` are those that the tools import only when they come to need them, packages with all in them.
    Elsewhere than on Linux a fork of a process that has loaded libraries isn't safe: each tool imports anew.
    """
    address = _start(python, entry_points, modules) if sys.platform == "linux" else "-"
    return [python, *(["-I", "-S"] if address != "-" else []), os.path.abspath(__file__), address]


def _start(python: str, entry_points: list[str], modules: list[str]) -> str:
    """Start a process that imports those, and ends with this one; returns its socket."""
    import subprocess
    import tempfile

    address = os.path.join(tempfile.mkdtemp(prefix="lit-"), "tools")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        # Who connects before all is imported waits.
        listener.listen(socket.SOMAXCONN)
        descriptor = listener.fileno()
        arguments = f"{descriptor}, {address!r}, {entry_points!r}, {modules!r}"
        server = f"import forked_tools; forked_tools.serve({arguments})"
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
        process = subprocess.Popen(
            [python, "-c", server], stdin=subprocess.PIPE, pass_fds=[descriptor], env=environment
        )
    # As garbage it would close the input whose end is the server's.
    _servers.append(process)
    return address


def serve(descriptor: int, address: str, entry_points: list[str], modules: list[str]) -> None:
    """Fork for every connection to the socket `descriptor`, until standard input ends.

    Each is told the code that its fork exits with, as a shell states it.
    """
    import gc
    import select
    import shutil

    functions = {each: _imported(each) for each in entry_points}
    for module in modules:
        _import_all(module)
    # Forks share what they don't write to.
    gc.collect()
    gc.freeze()
    listener = socket.socket(fileno=descriptor)
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready, _, _ = select.select([listener, sys.stdin, *running], [], [])
        if sys.stdin in ready:
            break
        for ended in running.keys() & set(ready):
            process, connection = running.pop(ended)
            os.close(ended)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with connection, suppress(OSError):
                connection.sendall(bytes([code if code >= 0 else 128 - code]))
        if listener in ready:
            connection, _ = listener.accept()
            process = os.fork()
            if process == 0:
                listener.close()
                _run(connection, functions)
            running[os.pidfd_open(process)] = process, connection
    shutil.rmtree(os.path.dirname(address))


def _imported(entry_point: str) -> Callable[[], object]:
    import importlib

    module, _, function = entry_point.partition(":")
    return getattr(importlib.import_module(module), function)


def _import_all(name: str) -> None:
    """Import a module, and where it is a package all in it."""
    import importlib
    import pkgutil

    module = importlib.import_module(name)
    for each in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
        importlib.import_module(each.name)


def _run(connection: socket.socket, functions: dict[str, Callable[[], object]]) -> None:
    """Be the tool that is asked for; doesn't return."""
    import traceback

    data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while part := connection.recv(1 << 16):
        data += part
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Those that there are know of the files that they were opened for whether one can seek in them.
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    asked = json.loads(data)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[1:] = asked["arguments"]
    code: object = 1
    try:
        code = functions[asked["tool"]]()
    except SystemExit as end:
        code = end.code
        if not isinstance(code, int | None):
            print(code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing of this process outlives it that its end would have to put in order.
    os._exit(code if isinstance(code, int) else int(code is not None))


def _ask(address: str, tool: str, arguments: list[str]) -> int:
    """The exit code of a tool that has this process's input, output, folder and environment."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        asked = {
            "tool": tool,
            "arguments": arguments,
            "folder": os.getcwd(),
            "environment": dict(os.environ),
        }
        data = json.dumps(asked).encode()
        sent = socket.send_fds(connection, [data], [0, 1, 2])
        connection.sendall(data[sent:])
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(1)[0]


def run_text() -> None:
    """Do what Python does of `-c PROGRAM ARGUMENTS...`."""
    _, program, *arguments = sys.argv[1:]
    sys.argv[:] = ["-c", *arguments]
    exec(program, {"__name__": "__main__"})


def main() -> object:
    address, tool, *arguments = sys.argv[1:]
    if address != "-":
        return _ask(address, tool, arguments)
    sys.argv[1:] = arguments
    return _imported(tool)()


if __name__ == "__main__":
    sys.exit(main())  # type: ignore[arg-type]
