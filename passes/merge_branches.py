"""Make one convolution of several of the same image whose results are added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from iree.winograd.dialect.bindings import arith, ir, tensor
from iree.winograd.passes.build.constants import resource_constant
from iree.winograd.passes.build.generic import build_elementwise, build_sum
from iree.winograd.passes.build.groups import merged
from iree.winograd.passes.build.tensors import shape_of, zero_filled
from iree.winograd.passes.infrastructure.algorithm import ATTRIBUTE_NAME
from iree.winograd.passes.infrastructure.containment import rewrite_each
from iree.winograd.passes.infrastructure.registry import register_pass
from iree.winograd.passes.infrastructure.remarks import remark_applied, remark_left
from iree.winograd.passes.match.convolutions.branches import Branch, is_image_sum, match_branch, terms_of
from iree.winograd.passes.match.convolutions.convolution import Convolution
from iree.winograd.passes.match.navigation import only_user, walk
from iree.winograd.passes.match.no_match import NoMatch
from iree.winograd.passes.match.values.constants import Array, is_zero
from iree.winograd.passes.rewrite.erasure import erase_if_unused
from iree.winograd.passes.rewrite.similar_convolution import build_similar

PASS_NAME = "winograd-merge-branches"


@register_pass(PASS_NAME)
class MergeBranches:
    """Make one convolution of several of the same image whose results are added.

    A block of RepVGG's or MobileOne's adds a 3x3 convolution, a pointwise one and the image itself, each
    behind a batch norm of its own. Convolution is linear in the filter: a pointwise filter is the tap in the
    middle of a 3x3 one, the image times a factor per channel is a pointwise convolution with a group per
    channel, and factors per channel multiply filters. So the filters are added, in float64 and rounded once.
    A filter takes in those whose taps it has, strides and dilations considered, and whose groups lie within
    its own: it is left with as many taps as it had. Others stay, as a 3x1 beside a 1x3 filter does. An image
    that is added as it is stays, too: an epilogue adds it for nothing, and exactly. Rewritten are
    convolutions of channels-last images of f32 whose filters are constants, whose results nothing else
    reads, and that aren't annotated with an algorithm.

        %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0]
        %a = linalg.conv_2d_nhwc_hwcf ins(%p, %w : ..., tensor<3x3x8x8xf32>)
        %b = linalg.conv_2d_nhwc_hwcf ins(%x, %v : ..., tensor<1x1x8x8xf32>)
        %c = linalg.generic ins(%x, %scale) { arith.mulf }
        %r = %a + %b + %c, by two linalg.generic
      becomes, with u[i, j] = w[i, j] but for u[1, 1] = w[1, 1] + v + diagonal(scale),
        %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0]
        %r = linalg.conv_2d_nhwc_hwcf ins(%p, %u : ..., tensor<3x3x8x8xf32>)
    """

    def run(self, module: ir.Operation) -> None:
        rewrite_each("sum of images", list(_sums(module)), _merge)


@dataclass(frozen=True)
class _Merged:
    """Branches whose filters are added to that of the first one, that of a convolution."""

    convolution: Convolution
    branches: tuple[Branch, ...]
    filter: Array
    """R... x C/g x K in float64."""
    shift: Array

    @property
    def terms(self) -> list[ir.Value]:
        return [branch.term for branch in self.branches]


def _sums(module: ir.Operation) -> Iterator[ir.Operation]:
    """Those that aren't terms of another sum."""
    for operation in walk(module):
        if is_image_sum(operation):
            user = only_user(operation.results[0])
            if user is None or not is_image_sum(user) or user.operands[0] == user.operands[1]:
                yield operation


def _merge(total: ir.Operation) -> None:
    terms = terms_of(total)
    found = _merged_branches([branch for term in terms if (branch := _branch(term)) is not None])
    if not found:
        return
    with total.location, ir.InsertionPoint(total):
        results = {each.terms[0]: _build(each, total.results[0].type.rank) for each in found}
        others = {term for each in found for term in each.terms[1:]}
        kept = [results.get(term, term) for term in terms if term not in others]
        result = kept[0] if len(kept) == 1 else build_sum(kept)
    message = f"{len(results) + len(others)} of its terms became {len(found)}"
    remark_applied(total, PASS_NAME, message)
    total.results[0].replace_all_uses_with(result)
    erase_if_unused([total])


def _branch(term: ir.Value) -> Branch | None:
    branch = match_branch(term)
    if isinstance(branch, NoMatch):
        remark_left(PASS_NAME, branch)
        return None
    if branch is None or branch.convolution is None:
        return branch
    # One that a user annotated keeps its filter.
    return None if ATTRIBUTE_NAME in branch.convolution.operation.attributes else branch


def _merged_branches(branches: Sequence[Branch]) -> list[_Merged]:
    """The convolutions that take in other branches, those of the most taps first."""
    left = sorted(branches, key=_taps, reverse=True)
    found = []
    while left:
        first, *left = left
        inner = [branch for branch in left if first.contains(branch)]
        merged_ = _merged_filters(first, inner)
        if merged_ is not None:
            found.append(merged_)
            left = [branch for branch in left if branch not in inner]
    return found


def _taps(branch: Branch) -> int:
    return 0 if branch.convolution is None else prod(map(len, branch.taps))


def _merged_filters(first: Branch, inner: Sequence[Branch]) -> _Merged | None:
    """Of branches that the first one contains, if any; None where a filter isn't known, or overflows."""
    if first.convolution is None or first.filter is None or not inner:
        return None
    filters, shift = first.filter.copy(), first.affine.shift
    for branch in inner:
        if branch.filter is None:
            return None
        places = [
            [outer.index(tap) for tap in taps] for outer, taps in zip(first.taps, branch.taps, strict=True)
        ]
        filters[np.ix_(*places)] += _with_groups(branch.filter, branch.groups, first.groups)
        shift = shift + branch.affine.shift
    with np.errstate(over="ignore"):
        is_finite = all(np.isfinite(each.astype(np.float32)).all() for each in (filters, shift))
    return _Merged(first.convolution, (first, *inner), filters, shift) if is_finite else None


def _with_groups(filters: Array, groups: int, fewer: int) -> Array:
    """A filter R... x C/groups x K as one of `fewer` groups, R... x C/fewer x K, zeros elsewhere."""
    if groups == fewer:
        return filters
    *kernel, inputs, channels = filters.shape
    joined, outputs = groups // fewer, channels // groups
    whole = np.zeros((*kernel, joined * inputs, channels))
    for group in range(groups):
        begin, of_group = group % joined * inputs, slice(group * outputs, (group + 1) * outputs)
        whole[..., begin : begin + inputs, of_group] = filters[..., of_group]
    return whole


def _build(found: _Merged, rank: int) -> ir.Value:
    """The sum of all branches, of `rank` dimensions."""
    convolution = found.convolution
    shape = list(convolution.filter.type.shape)
    filters = resource_constant(found.filter.reshape(shape), "merged_filter")
    init = convolution.init
    if not is_zero(init):
        init = zero_filled(shape_of(init), convolution.element_type)
    with convolution.operation.location:
        result = build_similar(convolution, (convolution.input, filters, init))
        if result.type.rank != rank:
            result = merged(result, rank - 1)
    if not np.any(found.shift):
        return result
    channel = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)])
    reads = [
        (result, ir.AffineMap.get_identity(rank)),
        (resource_constant(found.shift, "merged_shift"), channel),
    ]
    empty = tensor.empty(shape_of(result), convolution.element_type)
    return build_elementwise(reads, empty, lambda elements: arith.addf(elements[0], elements[1]))
