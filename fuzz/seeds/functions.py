"""SavedModels: which function serves, what it computes, and what is wrong with it."""

import struct

from bundle import message, varint
from messages import (
    ANY_IMAGE,
    IMAGE,
    MATRIX,
    Objects,
    Parts,
    ROOT,
    VARIABLES,
    WINDOW,
    body,
    called,
    child,
    const,
    field,
    flag,
    function,
    ints,
    kind,
    model,
    node,
    number,
    numbers,
    serving,
    shape,
    single,
    stated,
    text,
)


def cases() -> dict[str, Parts]:
    return functions() | steps() | gelus() | graphs() | loops()


def functions() -> dict[str, Parts]:
    """Which function serves, and how values come through calls."""
    objects, takes_all = Objects().bytes(), ("x", *(f"r_{key}" for key in VARIABLES))
    dense = function("f", node("m", "MatMul", "x", "dense:value:0"), "m:product:0", message(7, shape(-1, 6)))
    of = lambda *functions, **more: (objects, model(*functions, **more), b"")
    inner = function("inner", node("m", "MatMul", "x", "dense:value:0"), "m:product:0")
    through = lambda op, function, result="c:output:0", **more: (
        node("c", op, *takes_all, f=called(function), **more) if function else node("c", op, *takes_all, **more),
        result,
    )
    outer = lambda nodes, result: function("f", nodes, result)
    bare, several = message(8, text(1, "f")), message(6, text(1, "f") + text(1, "g"))
    only = message(6, text(1, "f"))
    calls = {
        "call": of(outer(*through("PartitionedCall", "inner")), inner),
        "call_stateful": of(outer(*through("StatefulPartitionedCall", "inner")), inner),
        "call_of_none": of(outer(*through("PartitionedCall", "gone")), inner),
        "call_without_function": of(outer(*through("PartitionedCall", ""))),
        "call_of_no_function": of(outer(node("c", "PartitionedCall", "x", f=field(3, 1)), "c:output:0")),
        "call_of_itself": of(outer(*through("PartitionedCall", "f"))),
        "call_with_few": of(outer(node("c", "PartitionedCall", f=called("inner")), "c:output:0"), inner),
        "call_second_result": of(outer(*through("PartitionedCall", "inner", "c:output:1")), inner),
        "identities": of(
            outer(
                node("i", "IdentityN", "x", "x")
                + node("s", "StopGradient", "i:output:1")
                + node("m", "MatMul", "s:output:0", "dense:value:0"),
                "m:product:0",
            )
        ),
        "identity_circle": of(outer(node("i", "Identity", "i:output:0"), "i:output:0")),
        "identity_of_none": of(outer(node("i", "Identity"), "i:output:0")),
        "identities_of_none": of(outer(node("i", "IdentityN", "x"), "i:output:1")),
        "refers_to_none": of(outer(b"", "gone:output:0")),
        "second_result": of(outer(node("s", "Split", "x"), "s:output:1")),
        "statistics": of(outer(node("n", "FusedBatchNormV3", "x"), "n:batch_mean:0")),
        "control_input": of(outer(node("m", "MatMul", "^x"), "m:product:0")),
        "two_results": of(message(1, text(1, "f") + message(3, text(1, "a")) * 2)),
        "no_returned": of(message(1, text(1, "f") + message(3, text(1, "a")))),
        "no_signature": of(message(3, text(1, "n"))),
        "list_argument": of(
            message(1, text(1, "f") + message(2, text(1, "x") + text(5, "N")) + message(3, text(1, "a")))
        ),
        "returns_a_variable": of(outer(b"", "dense:value:0")),
        "no_variable_bound": of(dense, bound=()),
        "table_bound": of(dense, bound=[99] * ROOT),
        "negative_bound": of(dense, bound=[-1] * ROOT),
    }
    through_all = b"".join(node(f"r{n}", "Relu", f"r{n - 1}:y:0" if n else "x") for n in range(64))
    stacked = b"".join(
        node(f"c{n}", "PartitionedCall", f"c{n - 1}:y:0" if n else "x", f=called("relus")) for n in range(65)
    )
    relus = function("relus", through_all, "r63:y:0", arguments=("x",))
    first = node("m", "MatMul", "c64:y:0", "dense:value:0")
    calls["more_steps_than_any_chain"] = of(function("f", stacked + first, "m:product:0"), relus)
    signature = {
        "serves_bare": bare,
        "serves_one": only,
        "serves_several": several,
        "serves_a_variable": message(7, b""),
        "serves_nothing": b"",
    }
    served = {name: of(dense, objects=serving(function)) for name, function in signature.items()}
    more = child(ROOT + 3, "call")
    two = serving(bare, "train", more=child(ROOT + 3, "other"), objects=(message(8, text(1, "g")),))
    served |= {
        "serves_by_name": of(dense, objects=serving(b"", more=more, objects=(only,))),
        "serves_alone": of(dense, objects=serving(bare, "train")),
        "serves_two": of(dense, objects=two),
        "serves_a_negative": of(dense, objects=serving(b"", more=child(-1, "other"))),
        "serves_no_objects": of(dense, objects=b""),
    }
    whole = model(dense)
    shapes = {
        "shape_plain": message(7, shape(-1, 6)),
        "shape_unknown": message(7, field(3, 1)),
        "shape_list_empty": message(1, b""),
        "shape_other": field(3, 1),
        "shape_none": b"",
    }
    made = {
        name: body(node("m", "MatMul", "x", "dense:value:0"), "m:product:0", takes) for name, takes in shapes.items()
    }
    return (
        calls
        | served
        | made
        | {
            "model_cut": (objects, whole[:-9], b""),
            "model_empty_parts": (objects, message(2, b"") + whole, b""),
            "model_without_functions": (objects, message(2, b""), b""),
            "objects_cut": (objects[:-3], whole, b""),
            "objects_without_variables": (message(1, child(5, "x")), whole, b""),
        }
    )


def steps() -> dict[str, Parts]:
    """Operations of a chain, and those that are none."""
    dense = node("m", "MatMul", "x", "dense:value:0")
    unary = ("Relu", "Relu6", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Elu", "Softplus", "LeakyRelu")
    chain, last = dense + node("b", "BiasAdd", "m:product:0", "bias:value:0"), "b"
    for op in unary:
        chain, last = chain + node(op, op, f"{last}:y:0"), op
    chain += node("leaky", "LeakyRelu", f"{last}:y:0", alpha=single(0.25))
    chain += node("next2", "MatMul", "leaky:y:0", "next:value:0", transpose_b=flag(True))
    chain += node("sum", "AddV2", "bias:value:0", "next2:product:0")
    half = node("h", "Cast", "x", DstT=kind(19)) + node("w", "Cast", "dense:value:0", DstT=kind(14))
    half += node("m", "MatMul", "h:y:0", "w:y:0") + node("y", "Cast", "m:product:0", DstT=kind(1))
    whole = node("h", "Cast", "x", DstT=kind(3)) + node("m", "MatMul", "h:y:0", "dense:value:0")
    reshaped = dense + numbers("s", 1, 4) + node("r", "Reshape", "bias:value:0", "s:output:0")
    reshaped += node("q", "Squeeze", "r:output:0") + node("a", "AddV2", "m:product:0", "q:output:0")
    odd_shape = dense + numbers("s", 4, 1) + node("r", "Reshape", "bias:value:0", "s:output:0")
    odd_shape += node("a", "AddV2", "m:product:0", "r:output:0")
    dense_of = lambda **attributes: node("m", "MatMul", "x", "dense:value:0", **attributes)
    conv = lambda name="c", of="x", **more: node(name, "Conv2D", of, "conv:value:0", **(WINDOW | more))
    pool = lambda op, of, **more: node("p", op, of, ksize=ints(1, 2, 2, 1), **(WINDOW | more))
    valid = {"padding": text(2, "VALID")}
    normal = lambda *roles, **more: node(
        "n", "FusedBatchNormV3", "c:output:0", *(f"{role}:value:0" for role in roles), **more
    )
    roles, off = ("gamma", "beta", "moving_mean", "moving_variance"), {"is_training": flag(False)}
    mean = lambda axes, **more: numbers("axes", *axes) + node("g", "Mean", "c:output:0", "axes:output:0", **more)
    flat = lambda *dims: numbers("s", *dims) + node("f", "Reshape", "x", "s:output:0")
    after = node("m", "MatMul", "f:output:0", "dense:value:0")
    cases = {
        "chain": (chain, "sum:z:0", MATRIX),
        "half": (half, "y:y:0", MATRIX),
        "whole_cast": (whole, "m:product:0", MATRIX),
        "bias_reshaped": (reshaped, "a:z:0", MATRIX),
        "bias_as_column": (odd_shape, "a:z:0", MATRIX),
        "bias_of_input": (node("a", "BiasAdd", "x", "bias:value:0"), "a:z:0", MATRIX),
        "bias_of_another": (dense + node("a", "BiasAdd", "m:product:0", "x"), "a:z:0", MATRIX),
        "bias_too_long": (dense + node("a", "BiasAdd", "m:product:0", "next:value:0"), "a:z:0", MATRIX),
        "bias_channels_first": (
            node("a", "BiasAdd", "x", "bias:value:0", data_format=text(2, "NCHW")),
            "a:z:0",
            MATRIX,
        ),
        "sum_of_two": (dense + node("a", "AddV2", "m:product:0", "x"), "a:z:0", MATRIX),
        "weight_of_input": (node("m", "MatMul", "x", "x"), "m:product:0", MATRIX),
        "weight_made": (node("e", "Exp", "dense:value:0") + node("m", "MatMul", "x", "e:y:0"), "m:product:0", MATRIX),
        "weight_is_whole": (
            node("c", "Cast", "dense:value:0", DstT=kind(3)) + node("m", "MatMul", "x", "c:y:0"),
            "m:product:0",
            MATRIX,
        ),
        "transposed_input": (dense_of(transpose_a=flag(True)), "m:product:0", MATRIX),
        "transposed": (dense_of(transpose_b=flag(True)), "m:product:0", stated(-1, 4)),
        "dense_of_image": (dense, "m:product:0", IMAGE),
        "dense_of_others": (dense, "m:product:0", stated(-1, 7)),
        "dense_of_kernel": (node("m", "MatMul", "x", "conv:value:0"), "m:product:0", MATRIX),
        "dense_twice": (dense + node("k", "MatMul", "m:product:0", "dense:value:0"), "k:product:0", MATRIX),
        "unknown_operation": (node("e", "Exp", "x"), "e:y:0", MATRIX),
        "only_activations": (node("r", "Relu", "x"), "r:activations:0", MATRIX),
        "relu_first": (
            node("r", "Relu", "x") + node("m", "MatMul", "r:activations:0", "dense:value:0"),
            "m:product:0",
            b"",
        ),
        "conv": (
            conv() + node("b", "BiasAdd", "c:output:0", "bias:value:0") + node("s", "Softmax", "b:y:0"),
            "s:y:0",
            IMAGE,
        ),
        "conv_unstated": (conv(), "c:output:0", b""),
        "conv_any_size": (conv(), "c:output:0", ANY_IMAGE),
        "conv_valid": (conv(**valid), "c:output:0", IMAGE),
        "conv_valid_any_size": (conv(**valid), "c:output:0", ANY_IMAGE),
        "conv_too_large": (conv(**valid), "c:output:0", stated(-1, 2, 2, 2)),
        "conv_groups": (conv(), "c:output:0", stated(-1, 5, 5, 4)),
        "conv_odd_channels": (conv(), "c:output:0", stated(-1, 5, 5, 3)),
        "conv_of_rows": (conv(), "c:output:0", MATRIX),
        "conv_of_matrix": (node("c", "Conv2D", "x", "dense:value:0", **WINDOW), "c:output:0", IMAGE),
        "conv_dilated": (conv(dilations=ints(1, 2, 2, 1), strides=ints(1, 1, 1, 1)), "c:output:0", IMAGE),
        "conv_bad_dilations": (conv(dilations=field(3, 1)), "c:output:0", IMAGE),
        "conv_stride_0": (conv(strides=ints(1, 0, 0, 1)), "c:output:0", IMAGE),
        "conv_stride_huge": (conv(strides=ints(1, 2**63 - 1, 1, 1)), "c:output:0", IMAGE),
        "conv_stride_channels": (conv(strides=ints(1, 1, 1, 2)), "c:output:0", IMAGE),
        "conv_stride_negative": (conv(strides=ints(1, -1, 1, 1)), "c:output:0", IMAGE),
        "conv_explicit": (conv(padding=text(2, "EXPLICIT")), "c:output:0", IMAGE),
        "conv_padding_number": (conv(padding=field(3, 1)), "c:output:0", IMAGE),
        "conv_channels_first": (conv(data_format=text(2, "NCHW")), "c:output:0", IMAGE),
        "max_pool": (conv() + pool("MaxPool", "c:output:0"), "p:output:0", IMAGE),
        "average_pool": (conv() + pool("AvgPool", "c:output:0", **valid), "p:output:0", IMAGE),
        "pool_of_rows": (dense + pool("MaxPool", "m:product:0"), "p:output:0", MATRIX),
        "pool_first": (pool("MaxPool", "x") + conv(of="p:output:0"), "c:output:0", b""),
        "pool_0": (conv() + node("p", "MaxPool", "c:output:0", ksize=ints(1, 0, 0, 1), **WINDOW), "p:output:0", IMAGE),
        "pool_channels": (
            conv() + node("p", "MaxPool", "c:output:0", ksize=ints(1, 2, 2, 2), **WINDOW),
            "p:output:0",
            IMAGE,
        ),
        "mean": (conv() + mean([1, 2]), "g:output:0", IMAGE),
        "mean_kept": (
            conv() + mean([1, 2], keep_dims=flag(True)) + node("s", "LogSoftmax", "g:output:0"),
            "s:y:0",
            IMAGE,
        ),
        "mean_kept_flat": (
            conv()
            + mean([1, 2], keep_dims=flag(True))
            + numbers("t", -1, 4)
            + node("f", "Reshape", "g:output:0", "t:output:0"),
            "f:output:0",
            IMAGE,
        ),
        "mean_of_channels": (conv() + mean([3]), "g:output:0", IMAGE),
        "mean_of_rows": (
            dense + numbers("axes", 1, 2) + node("g", "Mean", "m:product:0", "axes:output:0"),
            "g:output:0",
            MATRIX,
        ),
        "flat": (flat(-1, 6) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_unstated": (flat(-1, 6) + after, "m:product:0", b""),
        "flat_rest": (flat(-1, -1) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_other": (flat(-1, 3) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_0": (flat(-1, 0) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_batch": (flat(2, 3) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_conv": (
            conv() + numbers("s", -1, 36) + node("f", "Reshape", "c:output:0", "s:output:0"),
            "f:output:0",
            IMAGE,
        ),
        "flat_by_a_value": (node("f", "Reshape", "x", "x") + after, "m:product:0", MATRIX),
        "fused": (conv() + normal(*roles, epsilon=single(0.001), **off), "n:y:0", IMAGE),
        "fused_plain": (conv() + normal(*roles, **off), "n:y:0", IMAGE),
        "fused_training": (conv() + normal(*roles), "n:y:0", IMAGE),
        "fused_channels_first": (conv() + normal(*roles, data_format=text(2, "NCHW")), "n:y:0", IMAGE),
        "fused_of_too_few": (conv() + normal("gamma"), "n:y:0", IMAGE),
        "fused_of_input": (conv() + node("n", "FusedBatchNormV3", "c:output:0", *["x"] * 4, **off), "n:y:0", IMAGE),
        "fused_misfit": (conv() + normal("gamma", "beta", "dense", "moving_variance", **off), "n:y:0", IMAGE),
        "fused_first": (
            node("n", "FusedBatchNormV3", "x", *(f"{role}:value:0" for role in roles), **off)
            + node("m", "MatMul", "n:y:0", "next:value:0"),
            "m:product:0",
            stated(-1, 4),
        ),
        "variable_is_whole": (node("m", "MatMul", "x", "iterations:value:0"), "m:product:0", MATRIX),
    }
    return {name: body(*case) for name, case in cases.items()} | packs() | normalizations()


def packs() -> dict[str, Parts]:
    """Reshapings by a shape that is put together."""
    after = node("f", "Reshape", "x", "p:output:0") + node("m", "MatMul", "f:output:0", "dense:value:0")
    zero, one, features = numbers("z", 0), numbers("o", 1), numbers("n", 6)
    own = node("s", "Shape", "x") + zero + one + features
    sliced = node("d", "StridedSlice", "s:output:0", "z:output:0", "o:output:0", "o:output:0")
    pack = lambda first="d:output:0", second="n:output:0", **more: node(
        "p", "Pack", first, second, **({"N": field(3, 2)} | more)
    )
    cases = {
        "pack": own + sliced + pack(),
        "pack_of_3": own + sliced + pack(N=field(3, 3)),
        "pack_of_minus_1": numbers("d", -1) + features + pack(),
        "pack_of_input": features + pack("x"),
        "pack_of_a_slice": features + node("d", "StridedSlice", "x") + pack(),
        "pack_of_another_shape": node("r", "Relu", "x")
        + node("s", "Shape", "r:activations:0")
        + zero
        + one
        + features
        + sliced
        + pack(),
        "pack_of_the_second": own
        + node("d", "StridedSlice", "s:output:0", "o:output:0", "o:output:0", "o:output:0")
        + pack(),
        "pack_of_unknown": own + sliced + pack(second="x"),
        "pack_of_one": own + sliced + node("p", "Pack", "d:output:0"),
    }
    return {name: body(nodes + after, "m:product:0", stated(-1, 2, 3)) for name, nodes in cases.items()}


def normalizations() -> dict[str, Parts]:
    """Batch normalisation spelt out, and what only looks like it."""
    order = ("e", "sum", "root", "scale", "scaled", "moved", "shift", "y")
    right = {
        "e": number("e", 0.001),
        "sum": node("sum", "AddV2", "moving_variance:value:0", "e:output:0"),
        "root": node("root", "Rsqrt", "sum:z:0"),
        "scale": node("scale", "Mul", "root:y:0", "gamma:value:0"),
        "scaled": node("scaled", "Mul", "m:product:0", "scale:z:0"),
        "moved": node("moved", "Mul", "moving_mean:value:0", "scale:z:0"),
        "shift": node("shift", "Sub", "beta:value:0", "moved:z:0"),
        "y": node("y", "AddV2", "scaled:z:0", "shift:z:0"),
    }
    wrong = {
        "sum": node("sum", "Sub", "moving_variance:value:0", "e:output:0"),
        "root": node("root", "Sqrt", "sum:z:0"),
        "scale": node("scale", "RealDiv", "root:y:0", "gamma:value:0"),
        "shift": node("shift", "AddV2", "beta:value:0", "moved:z:0"),
        "moved": node("moved", "RealDiv", "moving_mean:value:0", "scale:z:0"),
        "scaled": node("scaled", "Sub", "m:product:0", "scale:z:0"),
        "moved_otherwise": node("moved", "Mul", "moving_mean:value:0", "root:y:0"),
        "mean_of_input": node("moved", "Mul", "x", "scale:z:0"),
        "e": numbers("e", 1, 2),
    }
    changed = {"mean_of_input": "moved", "moved_otherwise": "moved"}
    dense = node("m", "MatMul", "x", "dense:value:0")
    cases = {"normalized": right} | {
        f"normalized_{name}": right | {changed.get(name, name): made} for name, made in wrong.items()
    }
    return {
        name: body(dense + b"".join(parts[step] for step in order), "y:z:0", MATRIX) for name, parts in cases.items()
    }


def gelus() -> dict[str, Parts]:
    """Gelu spelt out in each way, and what only looks like it; constants of each kind."""
    x, root = "m:product:0", 0.5**0.5
    dense = node("m", "MatMul", "x", "dense:value:0") + number("half", 0.5) + number("one", 1.0)
    half = node("h", "Mul", "half:output:0", x)
    gate = lambda nodes, of: nodes + half + node("g", "Mul", "h:z:0", of)
    erfc = (
        node("n", "Neg", x) + number("r", root) + node("u", "Mul", "n:y:0", "r:output:0") + node("e", "Erfc", "u:z:0")
    )
    scaled = number("r", root) + node("u", "Mul", x, "r:output:0") + node("e", "Erf", "u:z:0")
    divided = number("r", 2**0.5) + node("u", "RealDiv", x, "r:output:0") + node("e", "Erf", "u:z:0")
    by_x = node("u", "RealDiv", x, x) + node("e", "Erf", "u:z:0")
    plus_one = node("s", "AddV2", "one:output:0", "e:y:0")
    one_plus = node("s", "Add", "e:y:0", "one:output:0")

    def tanh(cube: bytes, sum: bytes | None = None, factor=0.797_884_6, little=0.044_715, one=plus_one) -> bytes:
        sum = node("sum", "AddV2", x, "k:z:0") if sum is None else sum
        nodes = cube + number("l", little) + node("k", "Mul", "l:output:0", "cube:z:0") + sum
        return (
            nodes + number("r", factor) + node("u", "Mul", "r:output:0", "sum:z:0") + node("e", "Tanh", "u:z:0") + one
        )

    power = number("three", 3.0) + node("cube", "Pow", x, "three:output:0")
    product = node("square", "Mul", x, x) + node("cube", "Mul", "square:z:0", x)
    cases = {
        "erfc": gate(erfc, "e:y:0"),
        "erf": gate(scaled + plus_one, "s:z:0"),
        "erf_divided": gate(divided + one_plus, "s:z:0"),
        "erf_by_itself": gate(by_x + plus_one, "s:z:0"),
        "erf_of_input": gate(node("e", "Erf", "x") + plus_one, "s:z:0"),
        "erfc_of_input": gate(node("e", "Erfc", "x"), "e:y:0"),
        "no_gate": gate(b"", "x"),
        "other_gate": gate(node("e", "Exp", x), "e:y:0"),
        "gate_without_one": gate(node("s", "AddV2", x, x), "s:z:0"),
        "gate_of_another": gate(node("s", "AddV2", "one:output:0", x), "s:z:0"),
        "pow": gate(tanh(power), "s:z:0"),
        "cube": gate(tanh(product, one=one_plus), "s:z:0"),
        "cube_first": gate(tanh(product, node("sum", "AddV2", "k:z:0", x)), "s:z:0"),
        "square": gate(tanh(node("cube", "Mul", x, x)), "s:z:0"),
        "other_power": gate(tanh(number("three", 2.0) + node("cube", "Pow", x, "three:output:0")), "s:z:0"),
        "tanh_factor": gate(tanh(power, factor=1.0), "s:z:0"),
        "tanh_little": gate(tanh(power, little=1.0), "s:z:0"),
        "tanh_of_input": gate(node("e", "Tanh", "x") + plus_one, "s:z:0"),
        "tanh_of_a_difference": gate(tanh(power, node("sum", "Sub", x, "k:z:0")), "s:z:0"),
        "tanh_of_a_square": gate(tanh(power, node("sum", "Mul", x, x)), "s:z:0"),
        "tanh_of_two_cubes": gate(tanh(power, node("sum", "AddV2", "k:z:0", "k:z:0")), "s:z:0"),
        "tanh_of_inputs": gate(tanh(power, node("sum", "AddV2", "x", "x")), "s:z:0"),
        "quarter": number("q", 0.25) + node("h", "Mul", "q:output:0", x) + erfc + node("g", "Mul", "h:z:0", "e:y:0"),
        "alone": half + node("g", "Identity", "h:z:0"),
        "long_product": b"".join(node("h" if n == 0 else f"h{n}", "Mul", x, f"h{n + 1}:z:0") for n in range(20))
        + node("g", "Relu", "h:z:0"),
    }
    half_of = lambda name, made: (f"half_{name}", dense.replace(number("half", 0.5), made) + gate(erfc, "e:y:0"))
    values = struct.pack("<f", 0.5)
    constants = dict(
        [
            half_of("raw", const("half", 1, message(4, values))),
            half_of("double", const("half", 2, message(6, struct.pack("<d", 0.5)))),
            half_of("unpacked", const("half", 1, varint(5 << 3 | 5) + values)),
            half_of("raw_int", const("half", 3, message(4, struct.pack("<i", 1)))),
            half_of("int64", const("half", 9, message(10, varint(1)))),
            half_of("large_int64", const("half", 9, message(10, varint(1 << 40)))),
            half_of("text", const("half", 7, b"")),
            half_of("nothing", const("half", 1, b"")),
            half_of("nine", const("half", 1, message(5, values), 9)),
            half_of("too_many", const("half", 1, message(5, values * 3), 2)),
            half_of("repeated", const("half", 1, message(5, values), 2)),
            half_of("negative_shape", const("half", 1, message(5, values), -2)),
            half_of("huge_shape", const("half", 1, message(5, values), 1 << 40, 1 << 40)),
            half_of("shapeless", node("half", "Const", value=message(8, field(1, 1) + message(5, values)))),
            half_of("no_tensor", node("half", "Const", value=field(3, 1))),
            half_of("no_value", node("half", "Const")),
        ]
    )
    made = {name: body(dense + nodes, "g:z:0", MATRIX) for name, nodes in cases.items()}
    return {f"gelu_{name}": case for name, case in made.items()} | {
        name: body(nodes, "g:z:0", MATRIX) for name, nodes in constants.items()
    }


def graphs() -> dict[str, Parts]:
    """Operations of graphs that are no chains."""
    first = {"data_format": text(2, "NCHW"), "strides": ints(1, 1, 2, 2), "padding": text(2, "SAME")}
    scalar = lambda name, *values: numbers(name, *values)
    cases = {
        "sum_of_branches": (
            node("m", "MatMul", "x", "dense:value:0") + node("r", "Relu", "m:product:0")
            + node("s", "AddV2", "m:product:0", "r:activations:0"),
            "s:z:0",
            MATRIX,
        ),
        "channels_first": (
            node("c", "Conv2D", "x", "conv:value:0", **first)
            + node("p", "MaxPool", "c:output:0", ksize=ints(1, 1, 2, 2), **first),
            "p:output:0",
            stated(-1, 2, 5, 5),
        ),
        "cubic": (
            scalar("s", 3, 7) + node("r", "ResizeBicubic", "x", "s:output:0", half_pixel_centers=flag(True)),
            "r:resized_images:0",
            IMAGE,
        ),
        "area": (scalar("s", 3, 7) + node("r", "ResizeArea", "x", "s:output:0"), "r:resized_images:0", IMAGE),
        "one_hot": (
            scalar("d", 3) + number("on", 1.0) + number("off", 0.0)
            + node("h", "OneHot", "x", "d:output:0", "on:output:0", "off:output:0"),
            "h:output:0",
            MATRIX,
        ),
        "band": (
            scalar("a", 1) + scalar("b", 0) + node("t", "MatrixBandPart", "x", "a:output:0", "b:output:0"),
            "t:band:0",
            stated(-1, 4, 6),
        ),
    }
    return {f"graph_{name}": body(*case) for name, case in cases.items()}


def loops() -> dict[str, Parts]:
    """Loops that count: to a few, to many, and in themselves."""
    objects = Objects().bytes()
    count = numbers("one", 1) + node("n", "AddV2", "i", "one:output:0", T=kind(3))
    again = node("n", "While", "i", body=called("count"), cond=called("test"))
    outer = numbers("zero", 0) + node("w", "While", "zero:output:0", body=called("count"), cond=called("test"))
    outer += node("c", "Cast", "w:output:0", SrcT=kind(3), DstT=kind(1)) + node("y", "AddV2", "x", "c:y:0")
    made = {}
    for name, step, result, bound in (
        ("few", count, "n:z:0", 5), ("many", count, "n:z:0", 1 << 30), ("itself", again, "n:output:0", 3)
    ):
        test = numbers("top", bound) + node("l", "Less", "i", "top:output:0")
        functions = (
            function("f", outer, "y:z:0", MATRIX),
            function("count", step, result, arguments=("i",)),
            function("test", test, "l:z:0", arguments=("i",)),
        )
        made[f"loop_{name}"] = (objects, model(*functions), b"")
    return made
