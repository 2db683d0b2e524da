"""Configuration of lit: `lit test` runs every `.mlir` file with the tools of the Python that lit runs in."""

import os
import sys

import lit.formats

config.name = "winograd"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = getattr(config, "winograd_build_dir", os.path.join(config.test_source_root, "Output"))

python = getattr(config, "winograd_python", sys.executable)
config.substitutions += [
    (r"\bwinograd-opt\b", f"{python} -m iree.winograd.opt"),
    (r"\biree-winograd\b", f"{python} -m iree.winograd.cli"),
    (r"\bfilecheck\b", f"{python} -m filecheck"),
    (r"\biree-opt\b", f"{python} -m iree.compiler.tools.scripts.iree_opt"),
]
