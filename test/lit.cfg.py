"""Configuration of lit: `lit test` runs every `.mlir` file with the tools of the Python that lit runs in."""

import os
import sys

import lit.formats

sys.path.append(os.path.join(os.path.dirname(__file__), "tools"))
import forked_tools

config.name = "winograd"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Output", "odd_programs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = getattr(
    config, "winograd_build_directory", os.path.join(config.test_source_root, "Output")
)

python = getattr(config, "winograd_python", sys.executable)
tools = {
    "filecheck": "filecheck.main:main",
    "iree-opt": "iree.compiler.tools.scripts.iree_opt.__main__:main",
    "iree-winograd": "iree.winograd.cli:main",
    "winograd-opt": "iree.winograd.command_line.opt:main",
}
# MLIR imports the module of a dialect when it meets its first operation.
dialects = ["builtin", "flow", "gpu", "hal", "iree_codegen", "llvm", "math", "nvvm", "stream", "util"]
imported = ["iree.winograd.dialect", "iree.winograd.passes", "iree.winograd.pipelines"]
imported += [f"iree.compiler.dialects.{dialect}" for dialect in dialects]
# A tool's name counts where a command has it, not inside of a path.
run = " ".join(forked_tools.command(python, list(tools.values()), imported))
config.substitutions += [
    (rf"(?<![\w/.-]){tool}(?![\w/.-])", f"{run} {function}") for tool, function in tools.items()
]
config.substitutions.append((r"%{python}", python))
# Machines that a user has calibrated would change what is chosen.
config.environment["XDG_DATA_HOME"] = os.path.join(config.test_exec_root, "data")
