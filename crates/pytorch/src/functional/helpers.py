def divided(a, b):
    """The quotient; of integers, it is rounded towards zero."""
    is_real = a.is_floating_point() or b.is_floating_point()
    return a / b if is_real else torch.div(a, b, rounding_mode="trunc")


def largest(*values):
    for other in values[1:]:
        values = (torch.maximum(values[0], other),)
    return values[0]


def smallest(*values):
    for other in values[1:]:
        values = (torch.minimum(values[0], other),)
    return values[0]


def reduced(x, function, axes, keeps):
    """Sums and the like over axes; all of them if none are named."""
    axes = tuple(range(x.dim())) if axes is None else tuple(axis % x.dim() for axis in axes)
    if not axes:
        return function(x.unsqueeze(-1), (x.dim(),), False)
    return function(x, axes, keeps)


def product(x, axes, keeps):
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keeps)
    return x


def sliced(x, starts, ends, axes, steps):
    """The elements from starts to before ends in steps; ends beyond an axis are its end."""
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps):
        places = range(x.shape[axis])[start:end:step]
        if step < 0 and end < -x.shape[axis]:
            places = range(x.shape[axis])[start::step]
        if step > 0:
            x = x.narrow(axis, places.start if len(places) else 0, places.stop - places.start if len(places) else 0)
            x = x[(slice(None),) * (axis % x.dim()) + (slice(None, None, step),)] if step > 1 else x
        else:
            x = x.index_select(axis, torch.tensor(list(places), dtype=torch.long))
    return x


def reshaped(x, shape, keeps=True):
    """The elements in another shape, in which 0 keeps a length."""
    return x.reshape([x.shape[axis] if keeps and len == 0 else len for axis, len in enumerate(shape)])


def unsqueezed(x, axes):
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def expanded(x, shape):
    shape = [1 if len == -1 else len for len in shape]
    return x.expand(torch.broadcast_shapes(x.shape, shape))


def split(x, lens, count, axis):
    """Parts along an axis; the last of equal ones may be shorter."""
    if lens is None:
        part = -(-x.shape[axis] // count)
        lens = [max(min(part, x.shape[axis] - at * part), 0) for at in range(count)]
    return torch.split(x, lens, axis)


def padded(x, pads, mode, value):
    """Numbers around a value: all begins before all ends."""
    rank = len(pads) // 2
    if mode == "constant":
        flat = [pads[at] for axis in reversed(range(rank)) for at in (axis, axis + rank)]
        return F.pad(x, flat, value=value)
    for axis in range(rank):
        begin, end, len = pads[axis], pads[axis + rank], x.shape[axis]
        places = torch.arange(-begin, len + end)
        if mode == "edge":
            places = places.clamp(0, len - 1)
        elif mode == "reflect":
            places = (places + len - 1).remainder(2 * max(len - 1, 1)).sub(len - 1).abs()
        else:
            places = places.remainder(len)
        x = x.index_select(axis, places)
    return x


def same(x, kernel, strides, dilations, lower, value=0.0):
    """Pads the sides so that a window moves over all of them."""
    flat = []
    for len, size, stride, dilation in reversed(list(zip(x.shape[2:], kernel, strides, dilations))):
        reach = (size - 1) * dilation + 1
        total = max((-(-len // stride) - 1) * stride + reach - len, 0)
        small, large = total // 2, total - total // 2
        flat += [large, small] if lower else [small, large]
    return F.pad(x, flat, value=value)


def mean_pooled(x, kernel, strides, pads, rounds_up, counts_padding):
    """The mean over windows, of which some reach beyond the sides by other lengths before than behind."""
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    flat = [pads[at] for axis in reversed(range(len(kernel))) for at in (axis, axis + len(kernel))]
    sums = pool(F.pad(x, flat), kernel, strides, ceil_mode=rounds_up, count_include_pad=False)
    if counts_padding:
        return sums
    ones = pool(F.pad(torch.ones_like(x), flat), kernel, strides, ceil_mode=rounds_up, count_include_pad=False)
    return sums / ones


def taken(x, places, axis):
    """Elements by their place on an axis."""
    places = torch.where(places < 0, places + x.shape[axis], places)
    axis %= x.dim()
    picked = x.index_select(axis, places.reshape(-1).long())
    return picked.reshape(x.shape[:axis] + places.shape + x.shape[axis + 1 :])


def taken_nd(x, places, batch):
    """Slices by their place along the axes after those of the batch."""
    if batch:
        parts = [taken_nd(own, at, batch - 1) for own, at in zip(x, places)]
        return torch.stack(parts)
    return x[tuple(places.long().unbind(-1))]


def on_axis(x, places, axis):
    return torch.where(places < 0, places + x.shape[axis], places).long()


def put_nd(x, places, values, reduction):
    """Slices that are replaced, one after the other."""
    x = x.clone()
    places = places.long().reshape(-1, places.shape[-1])
    values = values.reshape((places.shape[0],) + x.shape[places.shape[1] :])
    for place, value in zip(places.tolist(), values):
        place = tuple(place)
        x[place] = combined(x[place], value, reduction)
    return x


def put_elements(x, places, values, axis, reduction):
    """Elements that are replaced, by their place on an axis."""
    places = on_axis(x, places, axis)
    if reduction == "none":
        return x.scatter(axis, places, values)
    names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return x.scatter_reduce(axis, places, values, names[reduction])


def combined(own, other, reduction):
    if reduction == "add":
        return own + other
    if reduction == "mul":
        return own * other
    if reduction == "max":
        return torch.maximum(own, other)
    return torch.minimum(own, other) if reduction == "min" else other


def summed_up(x, axis, exclusive, reverse):
    x = x.flip(axis) if reverse else x
    sums = x.cumsum(axis)
    sums = sums - x if exclusive else sums
    return sums.flip(axis) if reverse else sums


def place_of(x, function, axis, keeps, last):
    if not last:
        return function(x, axis, keepdim=keeps)
    return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=keeps)


def to_space(x, size, mode):
    n, c, h, w = x.shape
    if mode == "CRD":
        return x.reshape(n, c // size**2, size, size, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, -1, h * size, w * size)
    return x.reshape(n, size, size, c // size**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, -1, h * size, w * size)


def to_depth(x, size, mode):
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // size, size, w // size, size)
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    return parts.permute(order).reshape(n, c * size**2, h // size, w // size)


def resized(x, sizes, scales, mode, transformation, rounding):
    """An image of other lengths, axis by axis, by the rules of ONNX."""
    for axis in range(x.dim()):
        own = x.shape[axis]
        size = own if sizes is not None and sizes[axis] < 1 else sizes[axis] if sizes is not None else int(own * scales[axis])
        scale = scales[axis] if sizes is None else size / own
        if size == own and scale == 1:
            continue
        place = torch.arange(size, dtype=torch.float64)
        if transformation == "half_pixel":
            place = (place + 0.5) / scale - 0.5
        elif transformation == "pytorch_half_pixel":
            place = (place + 0.5) / scale - 0.5 if size > 1 else place * 0
        elif transformation == "align_corners":
            place = place * ((own - 1) / (size - 1) if size > 1 else 0.0)
        else:
            place = place / scale
        if mode == "nearest":
            near = {
                "floor": place.floor(),
                "ceil": place.ceil(),
                "round_prefer_floor": (place - 0.5).ceil(),
                "round_prefer_ceil": (place + 0.5).floor(),
            }[rounding]
            x = x.index_select(axis, near.clamp(0, own - 1).long())
            continue
        place = place.clamp(0, own - 1)
        low = place.floor()
        share = (place - low).to(x.dtype).reshape([-1] + [1] * (x.dim() - 1 - axis))
        high = (low + 1).clamp(0, own - 1)
        x = x.index_select(axis, low.long()) * (1 - share) + x.index_select(axis, high.long()) * share
    return x


def recurrent(kind, x, weights, states, direction, gates, batch_first, linear_before_reset, clip):
    """A recurrent layer; weights are [directions, gates, units, inputs], their biases [directions, gates, units]."""
    w, r, b, rb = weights
    x = x.transpose(0, 1) if batch_first else x
    units = r.shape[-1]
    every, last, cells = [], [], []
    for at in range(w.shape[0]):
        backwards = direction == "reverse" or at == 1
        of = lambda tensor, gate: tensor[at, gates.index(gate)]
        first = lambda state: x.new_zeros(x.shape[1], units) if state is None else (state[:, at] if batch_first else state[at])
        bound = (lambda v: v.clamp(-clip, clip)) if clip else (lambda v: v)
        h, c = first(states[0]), first(states[1])
        steps = []
        for step in reversed(range(x.shape[0])) if backwards else range(x.shape[0]):
            own = lambda gate: x[step] @ of(w, gate).T + of(b, gate)
            before = lambda gate: h @ of(r, gate).T + of(rb, gate)
            both = lambda gate: bound(own(gate) + before(gate))
            if kind == "LSTM":
                i, o, f, g = torch.sigmoid(both("i")), torch.sigmoid(both("o")), torch.sigmoid(both("f")), torch.tanh(both("c"))
                c = f * c + i * g
                h = o * torch.tanh(c)
            elif kind == "GRU":
                z, gate = torch.sigmoid(both("z")), torch.sigmoid(both("r"))
                inner = gate * before("h") if linear_before_reset else (gate * h) @ of(r, "h").T + of(rb, "h")
                h = (1 - z) * torch.tanh(bound(own("h") + inner)) + z * h
            else:
                h = torch.tanh(both("h"))
            steps.append(h)
        every.append(torch.stack(steps[::-1] if backwards else steps))
        last.append(h)
        cells.append(c)
    axis = 1 if batch_first else 0
    every = torch.stack(every, 1)
    every = every.permute(2, 0, 1, 3) if batch_first else every
    return every, torch.stack(last, axis), torch.stack(cells, axis)
