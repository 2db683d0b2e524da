"""Has the Python tools and API of IREE's compiler take our flags, in processes of this environment only.

The tools look for `iree-compile` in the folders of the environment variable IREE_TOOL_PATH, then in their own
package. A variable would be inherited by processes of other environments, which would then compile with the
IREE of this one. So where it is unset, our folder is added within the process, when the module that looks is
imported. Sessions of the API, which iree-turbine compiles with, get their flags as those of our
`iree-compile` when one of them is ours, and are IREE's own otherwise. `iree_winograd.pth` runs `install` at
every start of Python, which is why that imports nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_SEARCH = "iree.compiler.tools.binaries"
_WINDOWS_TOOL = "winograd-iree-compile.exe"
_API = "iree.compiler.api.ctypes_dl"


def install() -> None:
    """Have both modules changed as soon as they are imported; once, however often it is called."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds the two modules as everybody else would, and changes them."""

    def __init__(self) -> None:
        self._changes = {_SEARCH: _add_tools, _API: _add_flags}
        self._is_finding = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if self._is_finding or name not in self._changes:
            return None
        from importlib.util import find_spec

        self._is_finding = True
        try:
            spec = find_spec(name)
        finally:
            self._is_finding = False
        change = self._changes.pop(name)
        if not self._changes:
            sys.meta_path.remove(self)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module: ModuleType) -> None:
                execute(module)
                change(module)

            spec.loader.exec_module = execute_and_change
        return spec


def _add_tools(search: ModuleType) -> None:
    import os

    origin = _package_origin()
    if origin is None:
        return
    if sys.platform == "win32":
        _add_windows_tool(search)
        return
    tools = os.path.join(os.path.dirname(origin), "tools")
    os.environ["IREE_WINOGRAD_PYTHON"] = sys.executable
    folders_of_variable = search.get_tool_path

    def get_tool_path() -> list[str]:
        return folders_of_variable() if "IREE_TOOL_PATH" in os.environ else [tools]

    search.get_tool_path = get_tool_path


def _add_windows_tool(search: ModuleType) -> None:
    """Has the tools run the program that pip makes of our entry point: Windows runs no scripts of a shell."""
    import os
    import sysconfig

    tool_elsewhere = search.find_tool

    def find_tool(name: str) -> str:
        if name == "iree-compile" and "IREE_TOOL_PATH" not in os.environ:
            for scheme in ("nt", "nt_user"):
                ours = os.path.join(sysconfig.get_path("scripts", scheme), _WINDOWS_TOOL)
                if os.path.exists(ours):
                    return ours
        found: str = tool_elsewhere(name)
        return found

    search.find_tool = find_tool


def _add_flags(api: ModuleType) -> None:
    if _package_origin() is None:
        return
    set_flags, get_flags = api.Session.set_flags, api.Session.get_flags
    execute = api.Invocation.execute
    standard = api.PipelineType.IREE_COMPILER_PIPELINE_STD

    def set_flags_and_ours(session: Any, *flags: str) -> None:
        if not any("winograd" in flag for flag in flags):
            set_flags(session, *flags)
            return
        from iree.winograd.command_line.api_session import take_flags

        take_flags(session, flags, set_flags)

    def get_flags_and_ours(session: Any, non_default_only: bool = False) -> Sequence[str]:
        return [*get_flags(session, non_default_only), *getattr(session, "winograd_flags", ())]

    def execute_with_ours(invocation: Any, pipeline: Any = standard) -> bool:
        if not getattr(invocation.session, "winograd_flags", ()):
            return bool(execute(invocation, pipeline))
        from iree.winograd.command_line.api_session import compile_program

        return compile_program(invocation, pipeline, execute)

    api.Session.set_flags = set_flags_and_ours
    api.Session.get_flags = get_flags_and_ours
    api.Invocation.execute = execute_with_ours


def _package_origin() -> str | None:
    """The file of our package; None where half of it was removed."""
    from importlib.util import find_spec

    package = find_spec("iree.winograd")
    return None if package is None else package.origin
