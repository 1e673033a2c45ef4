"""The passes over memory of which muc.kernels.norm is made.

An image batch is a matrix here: a row is one pixel of one image, a column one channel, a group as many rows as any
other group, one after the other. Sums are made in two stages, without atomics: the same input gives the same bits.
"""

import triton
import triton.language as tl


@triton.jit
def _tile(start, end, group, rows, channels, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """-> (offsets, mask) of ROWS rows of a group."""
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    row = start + tl.arange(0, ROWS)
    place = group.to(tl.int64) * rows + row
    return place[:, None] * channels + column[None, :], (row < end)[:, None] & (column < channels)[None, :]


@triton.jit
def _scale_and_shift(mean, var, weight, bias, column, where, channels, eps, centre: tl.constexpr):
    """-> (scale, shift) that normalise: x * scale + shift; centred: the plain (x - mean) / deviation."""
    inside = column < channels
    scale = 1 / tl.sqrt(tl.load(var + where, mask=inside, other=1) + eps)
    m = tl.load(mean + where, mask=inside, other=0)
    if centre:
        return scale, -m * scale
    scale *= tl.load(weight + column, mask=inside, other=0)
    return scale, tl.load(bias + column, mask=inside, other=0) - m * scale


@triton.jit(do_not_specialize=["groups", "share"])
def sum_moments(
    x, pivot, sums, rows, groups, channels, share,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of x and x² over a share of a group's rows; less a pivot near the mean, so that no digits cancel."""
    part, group = tl.program_id(0), tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    shift = tl.load(pivot + column, mask=column < channels, other=0)[None, :]
    first = tl.zeros((ROWS, COLUMNS), tl.float32)
    second = tl.zeros((ROWS, COLUMNS), tl.float32)
    end = tl.minimum(part * share + share, rows)
    for start in range(part * share, end, ROWS):
        offset, mask = _tile(start, end, group, rows, channels, ROWS, COLUMNS)
        value = tl.where(mask, tl.load(x + offset, mask=mask, other=0).to(tl.float32) - shift, 0)
        first += value
        second += value * value
    _store_sums(sums, first, second, part, group, channels, COLUMNS)


@triton.jit
def _store_sums(sums, first, second, part, group, channels, COLUMNS: tl.constexpr):
    """sums: (groups, parts, 2, channels)."""
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    at = sums + ((group * tl.num_programs(0) + part) * 2).to(tl.int64) * channels + column
    tl.store(at, tl.sum(first, axis=0), mask=column < channels)
    tl.store(at + channels, tl.sum(second, axis=0), mask=column < channels)


@triton.jit
def _add_up(sums, group, parts, column, channels, PARTIALS: tl.constexpr, COLUMNS: tl.constexpr):
    """-> the two sums of a group, each (COLUMNS,)."""
    first = tl.zeros((PARTIALS, COLUMNS), tl.float32)
    second = tl.zeros((PARTIALS, COLUMNS), tl.float32)
    for start in range(0, parts, PARTIALS):
        part = start + tl.arange(0, PARTIALS)
        at = sums + ((group * parts + part) * 2)[:, None].to(tl.int64) * channels + column[None, :]
        mask = (part < parts)[:, None] & (column < channels)[None, :]
        first += tl.load(at, mask=mask, other=0)
        second += tl.load(at + channels, mask=mask, other=0)
    return tl.sum(first, axis=0), tl.sum(second, axis=0)


@triton.jit(do_not_specialize=["parts"])
def close_moments(sums, pivot, mean, var, parts, rows, channels, PARTIALS: tl.constexpr, COLUMNS: tl.constexpr):
    """A group's mean and variance, each (groups, channels)."""
    group = tl.program_id(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < channels
    first, second = _add_up(sums, group, parts, column, channels, PARTIALS, COLUMNS)
    m = first / rows
    tl.store(mean + group * channels + column, m + tl.load(pivot + column, mask=inside, other=0), mask=inside)
    tl.store(var + group * channels + column, tl.maximum(second / rows - m * m, 0), mask=inside)


@triton.jit
def _follow(mean, var, running_mean, running_var, count, rows, groups, channels, momentum, COLUMNS: tl.constexpr):
    """Move the running statistics of some columns towards the groups' average."""
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < channels
    means = tl.zeros((COLUMNS,), tl.float32)
    variances = tl.zeros((COLUMNS,), tl.float32)
    for group in range(groups):
        means += tl.load(mean + group * channels + column, mask=inside, other=0)
        variances += tl.load(var + group * channels + column, mask=inside, other=0)
    old_mean = tl.load(running_mean + column, mask=inside, other=0)
    old_var = tl.load(running_var + column, mask=inside, other=0)
    variances *= rows / (rows - 1.0)
    tl.store(running_mean + column, old_mean + momentum * (means / groups - old_mean), mask=inside)
    tl.store(running_var + column, old_var + momentum * (variances / groups - old_var), mask=inside)
    if tl.program_id(2) == 0:
        tl.store(count, tl.load(count) + 1)


@triton.jit(do_not_specialize=["groups"])
def normalise(
    x, residual, y, mean, var, weight, bias, running_mean, running_var, count,
    rows, groups, channels, momentum, eps,
    TRAIN: tl.constexpr, RESIDUAL: tl.constexpr, RELU: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    scale, shift = _scale_and_shift(mean, var, weight, bias, column, group * channels + column, channels, eps, False)
    offset, mask = _tile(tl.program_id(0) * ROWS, rows, group, rows, channels, ROWS, COLUMNS)
    value = tl.load(x + offset, mask=mask, other=0).to(tl.float32) * scale[None, :] + shift[None, :]
    if RESIDUAL:
        value += tl.load(residual + offset, mask=mask, other=0).to(tl.float32)
    if RELU:
        value = tl.maximum(value, 0)
    tl.store(y + offset, value.to(y.dtype.element_ty), mask=mask)
    if TRAIN and tl.program_id(0) + group == 0:  # one program for each tile of columns
        _follow(mean, var, running_mean, running_var, count, rows, groups, channels, momentum, COLUMNS)


@triton.jit(do_not_specialize=["groups", "share"])
def sum_gradients(
    dy, also, x, y, passed, sums, mean, var, weight, bias, rows, groups, channels, share, eps,
    RELU: tl.constexpr, RESIDUAL: tl.constexpr, ALSO: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums of g and g * (x - mean) / deviation, where g is what the ReLU lets through of dy (and also `also`).

    With a residual g is the residual's gradient too, and kept. The ReLU's mask then comes from y, otherwise from x.
    """
    part, group = tl.program_id(0), tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    where = group * channels + column
    scale, shift = _scale_and_shift(mean, var, weight, bias, column, where, channels, eps, False)
    plain_scale, plain_shift = _scale_and_shift(mean, var, weight, bias, column, where, channels, eps, True)
    first = tl.zeros((ROWS, COLUMNS), tl.float32)
    second = tl.zeros((ROWS, COLUMNS), tl.float32)
    end = tl.minimum(part * share + share, rows)
    for start in range(part * share, end, ROWS):
        offset, mask = _tile(start, end, group, rows, channels, ROWS, COLUMNS)
        value = tl.load(x + offset, mask=mask, other=0).to(tl.float32)
        gradient = tl.load(dy + offset, mask=mask, other=0).to(tl.float32)
        if ALSO:
            gradient += tl.load(also + offset, mask=mask, other=0).to(tl.float32)
        if RELU:
            if RESIDUAL:
                alive = tl.load(y + offset, mask=mask, other=0) > 0
            else:
                alive = value * scale[None, :] + shift[None, :] > 0
            gradient = tl.where(alive, gradient, 0)
        if RESIDUAL or ALSO:
            tl.store(passed + offset, gradient.to(passed.dtype.element_ty), mask=mask)
        first += gradient
        second += gradient * (value * plain_scale[None, :] + plain_shift[None, :])
    _store_sums(sums, first, second, part, group, channels, COLUMNS)


@triton.jit(do_not_specialize=["parts"])
def close_gradients(sums, means, parts, rows, channels, PARTIALS: tl.constexpr, COLUMNS: tl.constexpr):
    """A group's two sums divided by its rows, (groups, 2, channels)."""
    group = tl.program_id(1)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < channels
    first, second = _add_up(sums, group, parts, column, channels, PARTIALS, COLUMNS)
    at = means + group * 2 * channels + column
    tl.store(at, first / rows, mask=inside)
    tl.store(at + channels, second / rows, mask=inside)


@triton.jit(do_not_specialize=["groups"])
def spread_gradients(
    dy, x, dx, means, dweight, dbias, mean, var, weight, bias, rows, groups, channels, eps,
    RELU: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """dx = weight / deviation * (g - mean of g - z * mean of g z), z = (x - mean) / deviation.

    The gradients of weight and bias are the sums of g z and g over all groups.
    """
    group = tl.program_id(1)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    where, inside = group * channels + column, column < channels
    scale, shift = _scale_and_shift(mean, var, weight, bias, column, where, channels, eps, False)
    plain_scale, plain_shift = _scale_and_shift(mean, var, weight, bias, column, where, channels, eps, True)
    first = tl.load(means + group * 2 * channels + column, mask=inside, other=0)
    second = tl.load(means + (group * 2 + 1) * channels + column, mask=inside, other=0)
    offset, mask = _tile(tl.program_id(0) * ROWS, rows, group, rows, channels, ROWS, COLUMNS)
    value = tl.load(x + offset, mask=mask, other=0).to(tl.float32)
    gradient = tl.load(dy + offset, mask=mask, other=0).to(tl.float32)
    if RELU:
        gradient = tl.where(value * scale[None, :] + shift[None, :] > 0, gradient, 0)
    z = value * plain_scale[None, :] + plain_shift[None, :]
    result = scale[None, :] * (gradient - first[None, :] - z * second[None, :])
    tl.store(dx + offset, result.to(dx.dtype.element_ty), mask=mask)
    if tl.program_id(0) + group == 0:  # one program for each tile of columns
        first = tl.zeros((COLUMNS,), tl.float32)
        second = tl.zeros((COLUMNS,), tl.float32)
        for other in range(groups):
            first += tl.load(means + other * 2 * channels + column, mask=inside, other=0)
            second += tl.load(means + (other * 2 + 1) * channels + column, mask=inside, other=0)
        tl.store(dbias + column, first * rows, mask=inside)
        tl.store(dweight + column, second * rows, mask=inside)
