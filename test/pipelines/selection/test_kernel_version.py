"""Which sources the version of the kernels follows."""

from __future__ import annotations

from iree.winograd.pipelines.selection import kernel_version


def test_the_version_follows_what_determines_kernels() -> None:
    sources = kernel_version.kernel_sources()
    for name in (
        "dialect/algebra/recipes.json",
        "dialect/decomposition.py",
        "pipelines/cpu/kernels/gemm.py",
        "pipelines/cpu/lowering.py",
        "pipelines/emission/index.py",
        "pipelines/gpu/kernels/matrix_products/gemm.py",
        "pipelines/gpu/lowering.py",
    ):
        assert name in sources
    choosing = ("/choice/", "selection/", "machines/defaults")
    assert not [name for name in sources if any(word in name for word in choosing)]
