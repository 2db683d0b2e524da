"""Configuration of lit: `lit test` runs every `.mlir` file with the tools of the Python that lit runs in."""

import os
import sys

import lit.formats

config.name = "winograd"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Output", "odd_programs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = getattr(
    config, "winograd_build_directory", os.path.join(config.test_source_root, "Output")
)

python = getattr(config, "winograd_python", sys.executable)
modules = {
    "filecheck": "filecheck",
    "iree-opt": "iree.compiler.tools.scripts.iree_opt",
    "iree-winograd": "iree.winograd.cli",
    "winograd-opt": "iree.winograd.command_line.opt",
}
# A tool's name counts where a command has it, not inside of a path.
config.substitutions += [
    (rf"(?<![\w/.-]){tool}(?![\w/.-])", f"{python} -m {module}") for tool, module in modules.items()
]
config.substitutions.append((r"%{python}", python))
# Machines that a user has calibrated would change what is chosen.
config.environment["XDG_DATA_HOME"] = os.path.join(config.test_exec_root, "data")
