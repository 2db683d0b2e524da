"""Has the Python tools of IREE run our `iree-compile`, in processes of this environment and no others.

They look for the compiler in the folders of the environment variable IREE_TOOL_PATH, then in their own
package. A variable would be inherited by processes of other environments, which would then compile with the
IREE of this one. So where it is unset, our folder is added within the process, when the module that looks is
imported. `iree_winograd.pth` runs `install` at every start of Python, which is why that imports nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_SEARCH = "iree.compiler.tools.binaries"


def install() -> None:
    """Have our folder searched as soon as the module that searches is imported."""
    sys.meta_path.insert(0, _SearchFinder())


class _SearchFinder:
    """Finds the one module as everybody else would, and adds to it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != _SEARCH:
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_add(module: ModuleType) -> None:
                execute(module)
                _add_tools(module)

            spec.loader.exec_module = execute_and_add
        return spec


def _add_tools(search: ModuleType) -> None:
    import os
    from importlib.util import find_spec

    package = find_spec("iree.winograd")
    if package is None or package.origin is None:
        # Half of it was removed.
        return
    tools = os.path.join(os.path.dirname(package.origin), "tools")
    os.environ["IREE_WINOGRAD_PYTHON"] = sys.executable
    folders_of_variable = search.get_tool_path

    def get_tool_path() -> list[str]:
        return folders_of_variable() if "IREE_TOOL_PATH" in os.environ else [tools]

    search.get_tool_path = get_tool_path
