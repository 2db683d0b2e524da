"""The order of all passes, in one function."""

from __future__ import annotations

from iree.winograd.passes.convert_conv import ConvertConv
from iree.winograd.passes.fold_filter import FoldFilter
from iree.winograd.passes.fold_scale import FoldScale
from iree.winograd.passes.fuse_epilogue import FuseEpilogue
from iree.winograd.passes.fuse_pad import FusePad
from iree.winograd.passes.normalize_layout import NormalizeLayout
from iree.winograd.passes.options import WinogradOptions
from iree.winograd.passes.registry import Pass
from iree.winograd.passes.select_algorithm import SelectAlgorithm
from iree.winograd.passes.split_transposed import SplitTransposed

from .lower_to_dispatch import LowerToDispatch


def compile_pipeline(options: WinogradOptions) -> list[Pass]:
    """The passes that rewrite a program between IREE's `preprocessing` and the rest of it, in order."""
    return [
        SplitTransposed(),
        NormalizeLayout(),
        SelectAlgorithm(output_tile=options.output_tile, allow=options.allow, deny=options.deny),
        ConvertConv(),
        FusePad(),
        FuseEpilogue(),
        FoldScale(),
        FoldFilter(fold_filters=options.fold_filters),
        LowerToDispatch(),
    ]
