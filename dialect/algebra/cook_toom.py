"""Cook-Toom: the matrices of a minimal filtering algorithm F(m, r), exact, from its interpolation points.

`m` outputs of an `r`-tap correlation of `alpha = m + r - 1` inputs are `A^T [(G g) . (B^T d)]`. The
convolution is the transpose of a polynomial product of degree `alpha - 1`, which is known from its values
at `alpha` distinct points (Winograd, Arithmetic complexity of computations, 1980; Mazaheri et al.,
EuroSys'20, section 2.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from iree.winograd.dialect.algebra.point import INFINITY, Infinity, Point
from iree.winograd.dialect.algebra.points import points_for

Matrix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class CookToom:
    """F(m, r): `output` is A^T (m x alpha), `filter` is G (alpha x r), `input` is B^T (alpha x alpha)."""

    m: int
    r: int
    points: tuple[Point, ...]
    output: Matrix
    filter: Matrix
    input: Matrix

    def __post_init__(self) -> None:
        check_size(self.m, self.r)
        for name, matrix, rows, columns in (
            ("output", self.output, self.m, self.alpha),
            ("filter", self.filter, self.alpha, self.r),
            ("input", self.input, self.alpha, self.alpha),
        ):
            if len(matrix) != rows or any(len(row) != columns for row in matrix):
                raise ValueError(f"the {name} matrix of F({self.m}, {self.r}) must be {rows} x {columns}")

    @property
    def alpha(self) -> int:
        """Inputs of a tile, and multiplications: `m + r - 1`."""
        return self.m + self.r - 1


def check_size(m: int, r: int) -> None:
    """Raises ValueError unless F(m, r) exists."""
    if m < 1:
        raise ValueError(f"an output tile needs at least one output, but m = {m}")
    if r < 1:
        raise ValueError(f"a filter needs at least one tap, but r = {r}")


def cook_toom(
    m: int,
    r: int,
    points: Sequence[Point] | None = None,
    *,
    output_scale: Sequence[Fraction] | None = None,
    input_scale: Sequence[Fraction] | None = None,
) -> CookToom:
    """F(m, r) from `alpha = m + r - 1` distinct points, in exact rational arithmetic.

    Without `points` it uses the shipped set for alpha; F(m, 1) and F(1, r) need no interpolation and get
    the matrices of zeros and ones. Unscaled, the columns of A^T are the powers of the points and the rows
    of B^T are monic. `output_scale` multiplies the columns of A^T and `input_scale` the rows of B^T, one
    factor per point; G is divided by both, which leaves the algorithm exact. Scales that are powers of
    two leave floating point errors unchanged.

    Raises ValueError when m or r is not positive, the points are too few, too many or repeated, or a
    scale is zero.
    """
    check_size(m, r)
    alpha = m + r - 1
    if points is None:
        if m == 1 or r == 1:
            return _scaled(_without_interpolation(m, r), output_scale, input_scale)
        points = points_for(alpha)
    points = tuple(points)
    _check_points(m, r, points)
    finite = [point for point in points if point is not INFINITY]
    output_columns, filter_rows, input_rows = [], [], []
    for point in points:
        others = [other for other in finite if other != point]
        monic = _polynomial_with_roots(others)
        # The Lagrange polynomial is the monic one divided by its value at the point; G takes the division.
        value_there = Fraction(1) if point is INFINITY else _evaluate(monic, point)
        output_columns.append(_powers(point, m))
        filter_rows.append(tuple(power / value_there for power in _powers(point, r)))
        input_rows.append((*monic, *[Fraction(0)] * (alpha - len(monic))))
    unscaled = CookToom(
        m, r, points, tuple(zip(*output_columns, strict=True)), tuple(filter_rows), tuple(input_rows)
    )
    return _scaled(unscaled, output_scale, input_scale)


def _check_points(m: int, r: int, points: tuple[Point, ...]) -> None:
    alpha = m + r - 1
    if len(points) != alpha:
        raise ValueError(
            f"F({m}, {r}) needs {alpha} points (with infinity, where used), but {len(points)} were given"
        )
    repeated = sorted({str(point) for point in points if points.count(point) > 1})
    if repeated:
        raise ValueError(f"interpolation points must be distinct, but {', '.join(repeated)} is repeated")


def _without_interpolation(m: int, r: int) -> CookToom:
    """F(m, 1), an elementwise product, and F(1, r), a dot product."""
    alpha = m + r - 1
    ones = (Fraction(1),) * alpha
    identity = tuple(tuple(Fraction(int(i == j)) for j in range(alpha)) for i in range(alpha))
    output = (ones,) if m == 1 else identity
    filter_matrix = tuple((one,) for one in ones) if r == 1 else identity
    return CookToom(m, r, (), output, filter_matrix, identity)


def _scaled(
    algorithm: CookToom, output_scale: Sequence[Fraction] | None, input_scale: Sequence[Fraction] | None
) -> CookToom:
    if output_scale is None and input_scale is None:
        return algorithm
    ones = (Fraction(1),) * algorithm.alpha
    output_scale = ones if output_scale is None else tuple(output_scale)
    input_scale = ones if input_scale is None else tuple(input_scale)
    for name, scale in (("output", output_scale), ("input", input_scale)):
        if len(scale) != algorithm.alpha:
            raise ValueError(f"{algorithm.alpha} {name} scales are needed, but {len(scale)} were given")
        if any(factor == 0 for factor in scale):
            raise ValueError(f"an {name} scale of zero would lose a point")
    return CookToom(
        algorithm.m,
        algorithm.r,
        algorithm.points,
        tuple(
            tuple(entry * a for entry, a in zip(row, output_scale, strict=True)) for row in algorithm.output
        ),
        tuple(
            tuple(entry / (a * b) for entry in row)
            for row, a, b in zip(algorithm.filter, output_scale, input_scale, strict=True)
        ),
        tuple(tuple(entry * b for entry in row) for row, b in zip(algorithm.input, input_scale, strict=True)),
    )


def _powers(point: Point, count: int) -> tuple[Fraction, ...]:
    """The monomials 1, x, ..., x^(count-1) at the point."""
    if isinstance(point, Infinity):
        return (*[Fraction(0)] * (count - 1), Fraction(1))
    return tuple(point**exponent for exponent in range(count))


def _polynomial_with_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Coefficients, from the constant up, of the monic polynomial with these roots."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [
            high - root * low for high, low in zip(shifted, [*coefficients, Fraction(0)], strict=True)
        ]
    return tuple(coefficients)


def _evaluate(coefficients: Sequence[Fraction], point: Fraction) -> Fraction:
    value = Fraction(0)
    for coefficient in reversed(coefficients):
        value = value * point + coefficient
    return value
