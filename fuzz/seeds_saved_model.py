"""Seeds of tf2_saved_model: what lies beside a few variables, in the messages that say it; `seeds_tf2.py` writes them."""

import json
import struct

from bundle import message, varint

# As in fuzz/src/saved_model.rs.
VARIABLES = ("dense", "next", "conv", "bias", "gamma", "beta", "moving_mean", "moving_variance", "iterations")


def seeds() -> dict[str, bytes]:
    prefixed = lambda part: struct.pack("<I", len(part)) + part
    cases = functions() | steps() | gelus() | models() | object_graphs() | optimizers() | metadata()
    return {name: b"\0" + prefixed(parts[0]) + prefixed(parts[1]) + parts[2] for name, parts in cases.items()}


def text(tag: int, value: str) -> bytes:
    return message(tag, value.encode())


def field(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value)


# The object graph.


class Objects:
    """The root, which holds the variables but those `apart`, and more."""

    def __init__(self, full_names: dict[str, str] | None = None, apart: tuple[str, ...] = ()):
        self.nodes = [b""] * (1 + len(VARIABLES))
        for id, key in enumerate(VARIABLES, 1):
            if key not in apart:
                self.link(0, key, id)
            self.store(id, (full_names or {}).get(key, ""), key)

    def child(self, parent: int, name: str) -> int:
        self.nodes.append(b"")
        return self.link(parent, name, len(self.nodes) - 1)

    def link(self, parent: int, name: str, child: int) -> int:
        self.nodes[parent] += message(1, field(1, child) + text(2, name))
        return child

    def hold(self, parent: int, name: str, **children: str) -> int:
        """A child that holds variables."""
        child = self.child(parent, name)
        for edge, key in children.items():
            self.link(child, edge, 1 + VARIABLES.index(key))
        return child

    def list(self, parent: int, name: str, *keys: str) -> int:
        return self.hold(parent, name, **{str(place): key for place, key in enumerate(keys)})

    def store(self, id: int, full_name: str, key: str, attribute="VARIABLE_VALUE") -> None:
        self.nodes[id] += message(2, text(1, attribute) + text(2, full_name) + text(3, key))

    def slot(self, optimizer: int, variable: str, name: str, slot: str) -> None:
        original, stored = (1 + VARIABLES.index(key) for key in (variable, slot))
        self.nodes[optimizer] += message(3, field(1, original) + text(2, name) + field(3, stored))

    def bytes(self) -> bytes:
        return b"".join(message(1, node) for node in self.nodes)


# Functions.


def node(name: str, op: str, *inputs: str, **attributes: bytes) -> bytes:
    attr = b"".join(message(5, text(1, key) + message(2, value)) for key, value in attributes.items())
    return message(3, text(1, name) + text(2, op) + b"".join(text(3, name) for name in inputs) + attr)


def flag(value: bool) -> bytes:
    return field(5, value)


def kind(dtype: int) -> bytes:
    return field(6, dtype)


def ints(*values: int) -> bytes:
    return message(1, message(3, b"".join(map(varint, values))))


def single(value: float) -> bytes:
    return varint(4 << 3 | 5) + struct.pack("<f", value)


def called(name: str) -> bytes:
    return message(10, text(1, name))


def shape(*dims: int) -> bytes:
    return b"".join(message(2, field(1, dim)) for dim in dims)


def const(name: str, dtype: int, values: bytes, *dims: int, **more: bytes) -> bytes:
    return node(name, "Const", value=message(8, field(1, dtype) + message(2, shape(*dims)) + values), **more)


def numbers(name: str, *values: int) -> bytes:
    return const(name, 3, message(7, b"".join(map(varint, values))), len(values))


def number(name: str, value: float) -> bytes:
    return const(name, 1, message(5, struct.pack("<f", value)))


def function(name: str, nodes: bytes, result: str, takes: bytes = b"", arguments: tuple[str, ...] | None = None) -> bytes:
    """Of x and the variables, each of which is read under its own name; `takes`: the attribute that says x's shape."""
    arguments = ("x", *(f"r_{key}" for key in VARIABLES)) if arguments is None else arguments
    reads = b"".join(node(key, "ReadVariableOp", f"r_{key}") for key in VARIABLES)
    signature = text(1, name) + b"".join(message(2, text(1, argument)) for argument in arguments) + message(3, text(1, "out"))
    attributes = message(7, field(1, 0) + message(2, message(1, text(1, "_output_shapes") + message(2, takes))))
    return message(1, signature) + reads + nodes + message(4, text(1, "out") + text(2, result)) + attributes


ROOT = len(VARIABLES)


def model(*functions: bytes, objects: bytes | None = None, served="f", bound=range(1, ROOT + 1)) -> bytes:
    library = b"".join(message(1, function) for function in functions)
    concrete = message(2, text(1, served) + message(2, message(2, b"".join(map(varint, bound)))))
    objects = serving(message(8, text(1, served))) if objects is None else objects
    return message(2, message(2, message(2, library)) + message(7, objects + concrete))


def child(id: int, name: str) -> bytes:
    return message(1, field(1, id) + text(2, name))


def serving(function: bytes, signature="serving_default", more: bytes = b"", objects: tuple[bytes, ...] = ()) -> bytes:
    """The SavedModel's objects: the root with its variables and `more`, the signatures, what serves, and `objects`."""
    variables = b"".join(child(id, key) for id, key in enumerate(VARIABLES, 1))
    nodes = [variables + child(ROOT + 1, "signatures") + more, *[message(7, b"")] * ROOT, child(ROOT + 2, signature)]
    return b"".join(message(1, node) for node in [*nodes, function, *objects])


def body(nodes: bytes, result: str, takes: bytes = b"") -> tuple[bytes, bytes, bytes]:
    return Objects().bytes(), model(function("f", nodes, result, takes)), b""


def stated(*dims: int) -> bytes:
    return message(1, message(7, shape(*dims)))


MATRIX, IMAGE, ANY_IMAGE = stated(-1, 6), stated(-1, 5, 5, 2), stated(-1, -1, -1, 2)
WINDOW = {"strides": ints(1, 2, 2, 1), "padding": text(2, "SAME")}


def functions() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Which function serves, and how values come through calls."""
    objects, takes_all = Objects().bytes(), ("x", *(f"r_{key}" for key in VARIABLES))
    dense = function("f", node("m", "MatMul", "x", "dense:value:0"), "m:product:0", message(7, shape(-1, 6)))
    of = lambda *functions, **more: (objects, model(*functions, **more), b"")
    inner = function("inner", node("m", "MatMul", "x", "dense:value:0"), "m:product:0")
    through = lambda op, function, result="c:output:0", **more: (
        node("c", op, *takes_all, f=called(function), **more) if function else node("c", op, *takes_all, **more), result)
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
        "identities": of(outer(node("i", "IdentityN", "x", "x") + node("s", "StopGradient", "i:output:1")
                               + node("m", "MatMul", "s:output:0", "dense:value:0"), "m:product:0")),
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
        "list_argument": of(message(1, text(1, "f") + message(2, text(1, "x") + text(5, "N")) + message(3, text(1, "a")))),
        "returns_a_variable": of(outer(b"", "dense:value:0")),
        "no_variable_bound": of(dense, bound=()),
        "table_bound": of(dense, bound=[99] * ROOT),
        "negative_bound": of(dense, bound=[-1] * ROOT),
    }
    through_all = b"".join(node(f"r{n}", "Relu", f"r{n - 1}:y:0" if n else "x") for n in range(64))
    stacked = b"".join(node(f"c{n}", "PartitionedCall", f"c{n - 1}:y:0" if n else "x", f=called("relus")) for n in range(65))
    relus = function("relus", through_all, "r63:y:0", arguments=("x",))
    first = node("m", "MatMul", "c64:y:0", "dense:value:0")
    calls["more_steps_than_any_chain"] = of(function("f", stacked + first, "m:product:0"), relus)
    signature = {
        "serves_bare": bare, "serves_one": only, "serves_several": several, "serves_a_variable": message(7, b""),
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
        "shape_plain": message(7, shape(-1, 6)), "shape_unknown": message(7, field(3, 1)), "shape_list_empty": message(1, b""),
        "shape_other": field(3, 1), "shape_none": b"",
    }
    made = {name: body(node("m", "MatMul", "x", "dense:value:0"), "m:product:0", takes) for name, takes in shapes.items()}
    return calls | served | made | {
        "model_cut": (objects, whole[:-9], b""),
        "model_empty_parts": (objects, message(2, b"") + whole, b""),
        "model_without_functions": (objects, message(2, b""), b""),
        "objects_cut": (objects[:-3], whole, b""),
        "objects_without_variables": (message(1, child(5, "x")), whole, b""),
    }


def steps() -> dict[str, tuple[bytes, bytes, bytes]]:
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
    normal = lambda *roles, **more: node("n", "FusedBatchNormV3", "c:output:0", *(f"{role}:value:0" for role in roles), **more)
    roles, off = ("gamma", "beta", "moving_mean", "moving_variance"), {"is_training": flag(False)}
    mean = lambda axes, **more: numbers("axes", *axes) + node("g", "Mean", "c:output:0", "axes:output:0", **more)
    flat = lambda *dims: numbers("s", *dims) + node("f", "Reshape", "x", "s:output:0")
    after = node("m", "MatMul", "f:output:0", "dense:value:0")
    cases = {
        "chain": (chain, "sum:z:0", MATRIX), "half": (half, "y:y:0", MATRIX), "whole_cast": (whole, "m:product:0", MATRIX),
        "bias_reshaped": (reshaped, "a:z:0", MATRIX), "bias_as_column": (odd_shape, "a:z:0", MATRIX),
        "bias_of_input": (node("a", "BiasAdd", "x", "bias:value:0"), "a:z:0", MATRIX),
        "bias_of_another": (dense + node("a", "BiasAdd", "m:product:0", "x"), "a:z:0", MATRIX),
        "bias_too_long": (dense + node("a", "BiasAdd", "m:product:0", "next:value:0"), "a:z:0", MATRIX),
        "bias_channels_first": (node("a", "BiasAdd", "x", "bias:value:0", data_format=text(2, "NCHW")), "a:z:0", MATRIX),
        "sum_of_two": (dense + node("a", "AddV2", "m:product:0", "x"), "a:z:0", MATRIX),
        "weight_of_input": (node("m", "MatMul", "x", "x"), "m:product:0", MATRIX),
        "weight_made": (node("e", "Exp", "dense:value:0") + node("m", "MatMul", "x", "e:y:0"), "m:product:0", MATRIX),
        "weight_is_whole": (node("c", "Cast", "dense:value:0", DstT=kind(3)) + node("m", "MatMul", "x", "c:y:0"), "m:product:0", MATRIX),
        "transposed_input": (dense_of(transpose_a=flag(True)), "m:product:0", MATRIX),
        "transposed": (dense_of(transpose_b=flag(True)), "m:product:0", stated(-1, 4)),
        "dense_of_image": (dense, "m:product:0", IMAGE),
        "dense_of_others": (dense, "m:product:0", stated(-1, 7)),
        "dense_of_kernel": (node("m", "MatMul", "x", "conv:value:0"), "m:product:0", MATRIX),
        "dense_twice": (dense + node("k", "MatMul", "m:product:0", "dense:value:0"), "k:product:0", MATRIX),
        "unknown_operation": (node("e", "Exp", "x"), "e:y:0", MATRIX),
        "only_activations": (node("r", "Relu", "x"), "r:activations:0", MATRIX),
        "relu_first": (node("r", "Relu", "x") + node("m", "MatMul", "r:activations:0", "dense:value:0"), "m:product:0", b""),
        "conv": (conv() + node("b", "BiasAdd", "c:output:0", "bias:value:0") + node("s", "Softmax", "b:y:0"), "s:y:0", IMAGE),
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
        "pool_channels": (conv() + node("p", "MaxPool", "c:output:0", ksize=ints(1, 2, 2, 2), **WINDOW), "p:output:0", IMAGE),
        "mean": (conv() + mean([1, 2]), "g:output:0", IMAGE),
        "mean_kept": (conv() + mean([1, 2], keep_dims=flag(True)) + node("s", "LogSoftmax", "g:output:0"), "s:y:0", IMAGE),
        "mean_kept_flat": (conv() + mean([1, 2], keep_dims=flag(True)) + numbers("t", -1, 4)
                           + node("f", "Reshape", "g:output:0", "t:output:0"), "f:output:0", IMAGE),
        "mean_of_channels": (conv() + mean([3]), "g:output:0", IMAGE),
        "mean_of_rows": (dense + numbers("axes", 1, 2) + node("g", "Mean", "m:product:0", "axes:output:0"), "g:output:0", MATRIX),
        "flat": (flat(-1, 6) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_unstated": (flat(-1, 6) + after, "m:product:0", b""),
        "flat_rest": (flat(-1, -1) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_other": (flat(-1, 3) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_0": (flat(-1, 0) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_batch": (flat(2, 3) + after, "m:product:0", stated(-1, 2, 3)),
        "flat_conv": (conv() + numbers("s", -1, 36) + node("f", "Reshape", "c:output:0", "s:output:0"), "f:output:0", IMAGE),
        "flat_by_a_value": (node("f", "Reshape", "x", "x") + after, "m:product:0", MATRIX),
        "fused": (conv() + normal(*roles, epsilon=single(0.001), **off), "n:y:0", IMAGE),
        "fused_plain": (conv() + normal(*roles, **off), "n:y:0", IMAGE),
        "fused_training": (conv() + normal(*roles), "n:y:0", IMAGE),
        "fused_channels_first": (conv() + normal(*roles, data_format=text(2, "NCHW")), "n:y:0", IMAGE),
        "fused_of_too_few": (conv() + normal("gamma"), "n:y:0", IMAGE),
        "fused_of_input": (conv() + node("n", "FusedBatchNormV3", "c:output:0", *["x"] * 4, **off), "n:y:0", IMAGE),
        "fused_misfit": (conv() + normal("gamma", "beta", "dense", "moving_variance", **off), "n:y:0", IMAGE),
        "fused_first": (node("n", "FusedBatchNormV3", "x", *(f"{role}:value:0" for role in roles), **off)
                        + node("m", "MatMul", "n:y:0", "next:value:0"), "m:product:0", stated(-1, 4)),
        "variable_is_whole": (node("m", "MatMul", "x", "iterations:value:0"), "m:product:0", MATRIX),
    }
    return {name: body(*case) for name, case in cases.items()} | packs() | normalizations()


def packs() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Reshapings by a shape that is put together."""
    after = node("f", "Reshape", "x", "p:output:0") + node("m", "MatMul", "f:output:0", "dense:value:0")
    zero, one, features = numbers("z", 0), numbers("o", 1), numbers("n", 6)
    own = node("s", "Shape", "x") + zero + one + features
    sliced = node("d", "StridedSlice", "s:output:0", "z:output:0", "o:output:0", "o:output:0")
    pack = lambda first="d:output:0", second="n:output:0", **more: node("p", "Pack", first, second, **({"N": field(3, 2)} | more))
    cases = {
        "pack": own + sliced + pack(), "pack_of_3": own + sliced + pack(N=field(3, 3)),
        "pack_of_minus_1": numbers("d", -1) + features + pack(), "pack_of_input": features + pack("x"),
        "pack_of_a_slice": features + node("d", "StridedSlice", "x") + pack(),
        "pack_of_another_shape": node("r", "Relu", "x") + node("s", "Shape", "r:activations:0") + zero + one + features + sliced + pack(),
        "pack_of_the_second": own + node("d", "StridedSlice", "s:output:0", "o:output:0", "o:output:0", "o:output:0") + pack(),
        "pack_of_unknown": own + sliced + pack(second="x"),
        "pack_of_one": own + sliced + node("p", "Pack", "d:output:0"),
    }
    return {name: body(nodes + after, "m:product:0", stated(-1, 2, 3)) for name, nodes in cases.items()}


def normalizations() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Batch normalisation spelt out, and what only looks like it."""
    order = ("e", "sum", "root", "scale", "scaled", "moved", "shift", "y")
    right = {
        "e": number("e", 0.001), "sum": node("sum", "AddV2", "moving_variance:value:0", "e:output:0"),
        "root": node("root", "Rsqrt", "sum:z:0"), "scale": node("scale", "Mul", "root:y:0", "gamma:value:0"),
        "scaled": node("scaled", "Mul", "m:product:0", "scale:z:0"), "moved": node("moved", "Mul", "moving_mean:value:0", "scale:z:0"),
        "shift": node("shift", "Sub", "beta:value:0", "moved:z:0"), "y": node("y", "AddV2", "scaled:z:0", "shift:z:0"),
    }
    wrong = {
        "sum": node("sum", "Sub", "moving_variance:value:0", "e:output:0"), "root": node("root", "Sqrt", "sum:z:0"),
        "scale": node("scale", "RealDiv", "root:y:0", "gamma:value:0"), "shift": node("shift", "AddV2", "beta:value:0", "moved:z:0"),
        "moved": node("moved", "RealDiv", "moving_mean:value:0", "scale:z:0"), "scaled": node("scaled", "Sub", "m:product:0", "scale:z:0"),
        "moved_otherwise": node("moved", "Mul", "moving_mean:value:0", "root:y:0"),
        "mean_of_input": node("moved", "Mul", "x", "scale:z:0"), "e": numbers("e", 1, 2),
    }
    changed = {"mean_of_input": "moved", "moved_otherwise": "moved"}
    dense = node("m", "MatMul", "x", "dense:value:0")
    cases = {"normalized": right} | {f"normalized_{name}": right | {changed.get(name, name): made} for name, made in wrong.items()}
    return {name: body(dense + b"".join(parts[step] for step in order), "y:z:0", MATRIX) for name, parts in cases.items()}


def gelus() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Gelu spelt out in each way, and what only looks like it; constants of each kind."""
    x, root = "m:product:0", 0.5**0.5
    dense = node("m", "MatMul", "x", "dense:value:0") + number("half", 0.5) + number("one", 1.0)
    half = node("h", "Mul", "half:output:0", x)
    gate = lambda nodes, of: nodes + half + node("g", "Mul", "h:z:0", of)
    erfc = node("n", "Neg", x) + number("r", root) + node("u", "Mul", "n:y:0", "r:output:0") + node("e", "Erfc", "u:z:0")
    scaled = number("r", root) + node("u", "Mul", x, "r:output:0") + node("e", "Erf", "u:z:0")
    divided = number("r", 2**0.5) + node("u", "RealDiv", x, "r:output:0") + node("e", "Erf", "u:z:0")
    by_x = node("u", "RealDiv", x, x) + node("e", "Erf", "u:z:0")
    plus_one = node("s", "AddV2", "one:output:0", "e:y:0")
    one_plus = node("s", "Add", "e:y:0", "one:output:0")

    def tanh(cube: bytes, sum: bytes | None = None, factor=0.797_884_6, little=0.044_715, one=plus_one) -> bytes:
        sum = node("sum", "AddV2", x, "k:z:0") if sum is None else sum
        nodes = cube + number("l", little) + node("k", "Mul", "l:output:0", "cube:z:0") + sum
        return nodes + number("r", factor) + node("u", "Mul", "r:output:0", "sum:z:0") + node("e", "Tanh", "u:z:0") + one

    power = number("three", 3.0) + node("cube", "Pow", x, "three:output:0")
    product = node("square", "Mul", x, x) + node("cube", "Mul", "square:z:0", x)
    cases = {
        "erfc": gate(erfc, "e:y:0"), "erf": gate(scaled + plus_one, "s:z:0"), "erf_divided": gate(divided + one_plus, "s:z:0"),
        "erf_by_itself": gate(by_x + plus_one, "s:z:0"), "erf_of_input": gate(node("e", "Erf", "x") + plus_one, "s:z:0"),
        "erfc_of_input": gate(node("e", "Erfc", "x"), "e:y:0"), "no_gate": gate(b"", "x"), "other_gate": gate(node("e", "Exp", x), "e:y:0"),
        "gate_without_one": gate(node("s", "AddV2", x, x), "s:z:0"), "gate_of_another": gate(node("s", "AddV2", "one:output:0", x), "s:z:0"),
        "pow": gate(tanh(power), "s:z:0"), "cube": gate(tanh(product, one=one_plus), "s:z:0"),
        "cube_first": gate(tanh(product, node("sum", "AddV2", "k:z:0", x)), "s:z:0"),
        "square": gate(tanh(node("cube", "Mul", x, x)), "s:z:0"), "other_power": gate(tanh(number("three", 2.0) + node("cube", "Pow", x, "three:output:0")), "s:z:0"),
        "tanh_factor": gate(tanh(power, factor=1.0), "s:z:0"), "tanh_little": gate(tanh(power, little=1.0), "s:z:0"),
        "tanh_of_input": gate(node("e", "Tanh", "x") + plus_one, "s:z:0"),
        "tanh_of_a_difference": gate(tanh(power, node("sum", "Sub", x, "k:z:0")), "s:z:0"),
        "tanh_of_a_square": gate(tanh(power, node("sum", "Mul", x, x)), "s:z:0"),
        "tanh_of_two_cubes": gate(tanh(power, node("sum", "AddV2", "k:z:0", "k:z:0")), "s:z:0"),
        "tanh_of_inputs": gate(tanh(power, node("sum", "AddV2", "x", "x")), "s:z:0"),
        "quarter": number("q", 0.25) + node("h", "Mul", "q:output:0", x) + erfc + node("g", "Mul", "h:z:0", "e:y:0"),
        "alone": half + node("g", "Identity", "h:z:0"),
        "long_product": b"".join(node("h" if n == 0 else f"h{n}", "Mul", x, f"h{n + 1}:z:0") for n in range(20)) + node("g", "Relu", "h:z:0"),
    }
    half_of = lambda name, made: (f"half_{name}", dense.replace(number("half", 0.5), made) + gate(erfc, "e:y:0"))
    values = struct.pack("<f", 0.5)
    constants = dict([
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
    ])
    made = {name: body(dense + nodes, "g:z:0", MATRIX) for name, nodes in cases.items()}
    return {f"gelu_{name}": case for name, case in made.items()} | {name: body(nodes, "g:z:0", MATRIX) for name, nodes in constants.items()}


# Object graphs without a SavedModel.


def models() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Keras models of which nothing but the object graph is there."""
    made: dict[str, Objects] = {}

    def start(name: str) -> Objects:
        made[name] = Objects({"dense": "net/dense/kernel", "bias": "net/dense/bias"})
        return made[name]

    def keras3(name: str) -> tuple[Objects, int]:
        objects = start(name)
        operations = objects.child(objects.child(0, "_functional"), "_operations")
        objects.child(operations, "0")
        return objects, operations

    def keras2(name: str, **layers: dict[str, str]) -> Objects:
        objects = start(name)
        for place, held in layers.items():
            objects.link(0, "layer_with_weights-" + place[1:], objects.hold(0, "layer-" + place[1:], **held))
        return objects

    objects, operations = keras3("keras3")
    objects.hold(operations, "1", _kernel="dense", bias="bias")
    objects.hold(operations, "2", _kernel="next")
    objects, operations = keras3("keras3_activation")
    objects.hold(operations, "1", _kernel="dense")
    objects.child(operations, "2")
    objects, operations = keras3("keras3_conv")
    objects.hold(operations, "1", _kernel="conv", bias="bias")
    objects, operations = keras3("keras3_normalization")
    objects.hold(operations, "1", gamma="gamma", beta="beta")
    objects, operations = keras3("keras3_more")
    objects.hold(operations, "1", _kernel="dense", bias="bias", gamma="gamma")
    objects, operations = keras3("keras3_within")
    layer = objects.hold(operations, "1", _kernel="dense")
    objects.link(objects.hold(layer, "inner", b="bias"), "again", layer)
    objects.hold(layer, "other", k="dense")
    objects, operations = keras3("keras3_optimizer_within")
    layer = objects.hold(operations, "1", _kernel="dense")
    objects.hold(layer, "optimizer", iter="iterations")
    objects, operations = keras3("keras3_lacks")
    layer = objects.child(operations, "1")
    objects.store(objects.child(layer, "_kernel"), "gone", "gone")
    objects, operations = keras3("keras3_many")
    layer = objects.child(operations, "1")
    for number in range(70):
        objects.store(objects.child(layer, f"v{number}"), "", f"v{number}")
    objects, operations = keras3("keras3_bias_misfit")
    objects.hold(operations, "1", _kernel="dense", bias="next")
    objects, operations = keras3("keras3_misfit")
    objects.hold(operations, "1", _kernel="next")
    objects.hold(operations, "2", _kernel="dense")
    objects, operations = keras3("keras3_names")
    objects.hold(operations, "1", _kernel="dense")
    objects.hold(operations, "2", _kernel="next")
    objects.hold(operations, "3", _kernel="next")
    made["keras3_listed"] = objects = Objects({"dense": "net/0", "next": "net/1", "bias": "net/2"})
    operations = objects.child(objects.child(0, "_functional"), "_operations")
    for place, key in enumerate(("dense", "next", "next")):
        objects.hold(operations, str(place), _kernel=key)
    objects = start("functional")
    operations = objects.child(0, "_operations")
    objects.child(operations, "0")
    objects.hold(operations, "1", _kernel="dense", bias="bias")
    keras2("keras2", l0={"kernel": "dense", "bias": "bias"}, l1={"kernel": "next"})
    objects = keras2("keras2_input", l1={"kernel": "dense"})
    objects.child(0, "layer-0")
    objects.link(0, "layer_with_weights-0", 1)
    objects = start("nested")
    outer = objects.child(0, "layer-0")
    objects.link(0, "layer_with_weights-0", outer)
    objects.link(outer, "layer_with_weights-0", objects.hold(outer, "layer-0", kernel="dense"))
    start("unordered").hold(0, "d", kernel="dense")
    objects, operations = keras3("twice_itself")
    objects.link(operations, "1", 0)
    objects.link(operations, "2", 0)
    objects, operations = keras3("once_itself")
    objects.link(operations, "1", 0)
    return {name: (objects.bytes(), b"", b"") for name, objects in made.items()}


def object_graphs() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Names, roles and axes: what objects hold and variables are called."""
    made: dict[str, Objects] = {}

    def start(name: str, **full_names: str) -> Objects:
        made[name] = Objects(full_names)
        return made[name]

    names = {"dense": "net/d/kernel", "next": "net/r/recurrent_kernel", "conv": "net/c/kernel", "bias": "net/d/bias"}
    start("named", **names)
    start("named_alike", dense="net/w", next="net/w", conv="bias")
    start("depthwise", conv="net/c/depthwise_kernel", dense="net/e/embeddings")
    start("pointwise", conv="net/c/pointwise_kernel")
    start("transposed", **(names | {"conv": "net/conv2d_transpose/kernel"})).hold(0, "c", kernel="conv", bias="bias")
    start("convolution", **names).hold(0, "c", _kernel="conv", bias="bias")
    start("convolution2", **names).hold(0, "c", kernel="conv")
    start("contradicted", **names).hold(0, "c", _kernel="dense", bias="next")
    start("random_state", iterations="dropout/seed_generator_state")
    start("counted", iterations="iteration").hold(0, "o", _iterations="iterations")
    made["metric"] = Objects(names, apart=("gamma", "iterations"))
    made["metric"].hold(0, "_loss_tracker", total="gamma", count="iterations")
    objects = start("exported", **names)
    objects.list(0, "variables", "dense", "bias")
    copies = objects.child(0, "_all_variables")
    for place, (key, full_name) in enumerate([("next", "net/d/kernel"), ("beta", "net/d/bias")]):
        objects.store(objects.child(copies, str(place)), full_name, key)
    objects = start("exported_twice")
    objects.list(0, "variables", "gamma", "beta")
    copies = objects.child(0, "_all_variables")
    for place, key in enumerate(["bias", "moving_mean", "moving_variance"]):
        objects.store(objects.child(copies, str(place)), "", key)
    objects.child(copies, "x")
    objects.store(objects.child(copies, "7"), "", "gone")
    objects.child(copies, "8")
    objects = start("values_of_a_table", **names)
    objects.store(objects.child(0, "table"), "table", "beta", "table-keys")
    objects = start("references_to_nothing", **names)
    objects.link(0, "gone", 99)
    objects.nodes[0] += message(1, field(1, 2**64 - 1) + text(2, "negative"))
    objects.nodes[0] += message(3, field(1, 99) + text(2, "m") + field(3, 1))
    objects.link(0, "dense", 2)
    return {name: (objects.bytes(), b"", b"") for name, objects in made.items()} | {
        "no_objects": (b"", b"", b""), "objects_of_another_kind": (field(8, 1), b"", b""), "objects_garbage": (b"\x0a\xff", b"", b""),
        "objects_of_other_fields": (message(7, b"x") + varint(6 << 3 | 1) + bytes(8) + varint(6 << 3 | 5) + bytes(4)
                                    + field(8, 1) + Objects().bytes(), b"", b""),
        "objects_group": (Objects().bytes() + b"\x0b", b"", b""),
        "objects_short_fixed": (Objects().bytes() + b"\x09\0", b"", b""),
        "objects_long_number": (Objects().bytes() + b"\xff" * 12, b"", b""),
    }


def optimizers() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Slots of each kind of optimiser."""
    made: dict[str, Objects] = {}

    def start(name: str, edge="optimizer", **full_names: str) -> tuple[Objects, int]:
        made[name] = objects = Objects(full_names)
        return objects, objects.hold(0, edge, _iterations="iterations", _learning_rate="iterations")

    def lists(name: str, *edges: str, trained: tuple[str, ...] | None = ("bias",)) -> None:
        objects, id = start(name, bias="net/d/bias")
        if trained is not None:
            objects.list(id, "_trainable_variables", *trained)
        for edge, key in zip(edges, ("gamma", "beta", "moving_mean", "moving_variance")):
            objects.list(id, edge, key)

    lists("adam", "_momentums", "_velocities", "_velocity_hats")
    lists("sgd", "momentums")
    lists("sgd3", "_momentums")
    lists("rms_prop", "_velocities", "_momentums", "_average_gradients")
    lists("adadelta", "_accumulated_grads", "_velocities")
    lists("of_another_length", "_momentums", trained=("bias", "gamma"))
    objects, id = start("by_name", bias="net/d/bias", gamma="Adam/m/net/d/bias", beta="adam/net_d_bias_momentum",
                        moving_mean="adam/net_d_bias_velocity_hat", moving_variance="adam/none")
    objects.list(id, "_momentums", "gamma", "beta", "moving_mean", "moving_variance", "dense")
    objects.child(objects.child(id, "_velocities"), "0")
    objects, id = start("by_name_of_two", bias="net/w", next="net/w", gamma="adam/net_w_momentum", beta="adam/net_w_velocity")
    objects.list(id, "_momentums", "gamma", "beta")
    objects, id = start("slots", "_optimizer", bias="net/d/bias", gamma="net/g")
    objects.slot(id, "bias", "m", "beta")
    objects.slot(id, "bias", "v", "gamma")
    objects.slot(id, "moving_mean", "v", "moving_variance")
    objects.nodes[id] += message(3, field(1, 0) + text(2, "m") + field(3, 1))
    objects.store(objects.child(0, "away"), "", "gone")
    objects.nodes[id] += message(3, field(1, 4) + text(2, "m") + field(3, len(objects.nodes) - 1))
    objects, id = start("numbers")
    for edge in ("beta_1", "beta_2", "decay", "momentum", "rho", "epsilon", "other"):
        objects.link(id, edge, len(VARIABLES))
    objects.link(id, "learning_rate", 1)
    objects.child(id, "iter")
    objects = made["legacy"] = Objects()
    objects.hold(0, "o", iter="iterations", learning_rate="iterations", beta_1="iterations")
    objects.hold(0, "p", _trainable_variables_indices="iterations")
    objects = made["many_optimizers"] = Objects()
    for number in range(18):
        objects.list(objects.hold(0, f"o{number}", iter="iterations", learning_rate="iterations"), "_m", "gamma")
    return {f"optimizer_{name}": (objects.bytes(), b"", b"") for name, objects in made.items()}


# Keras 2's metadata.


def layer(kind: str, name: str = "", inbound=None, **config) -> dict:
    described = {"class_name": kind, "name": name, "config": {"name": name} | config}
    return described if inbound is None else described | {"inbound_nodes": inbound}


def saved_object(path: str, description) -> bytes:
    described = description if isinstance(description, str) else json.dumps(description)
    return message(1, text(3, path) + text(5, described))


def metadata() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Layers by their classes, and what is wrong with them."""
    objects = Objects()
    held = {
        "d": {"kernel": "dense", "bias": "bias"}, "e": {"kernel": "next", "bias": "bias"}, "c": {"kernel": "conv", "bias": "bias"},
        "n": {"gamma": "gamma", "beta": "beta", "moving_mean": "moving_mean", "moving_variance": "moving_variance"},
    }
    for name, variables in held.items():
        objects.hold(0, name, **variables)
    objects.link(0, "twin", 1)
    named = b"".join(saved_object(f"root.{name}", {"config": {"name": name}}) for name in held)
    named += saved_object("root.twin", {"name": "d2"}) + saved_object("root.d", {"name": "d2"})
    named += saved_object("root.none", {}) + saved_object("other.d", {}) + saved_object("root.e", "no JSON") + saved_object("root.c", {})
    root = lambda layers, kind="Sequential", **config: {"class_name": kind, "config": {"name": "net", "layers": layers} | config}
    of = lambda layers, **more: (objects.bytes(), b"", saved_object("root", root(layers, **more)) + named)
    tuple_of = lambda *items: {"class_name": "__tuple__", "items": list(items)}
    rows, images = layer("InputLayer", "i", batch_input_shape=[None, 6]), layer("InputLayer", "i", batch_input_shape=tuple_of(None, 5, 5, 2))
    dense = lambda name="d", **config: layer("Dense", name, **({"activation": "relu"} | config))
    window = {"strides": [2, 2], "padding": "same", "activation": "linear"}
    conv = lambda **config: layer("Conv2D", "c", **(window | config))
    pool = lambda kind="MaxPooling2D", **config: layer(kind, "p", **({"pool_size": 2, "strides": tuple_of(2, 2), "padding": "valid"} | config))
    normal = lambda **config: layer("BatchNormalization", "n", **({"axis": [3], "epsilon": 0.001} | config))
    around = lambda *layers: of([rows, dense(), *layers])
    after = lambda *layers: of([images, conv(), *layers])
    chain = lambda *names: [layer("Dense" if name != "i" else "InputLayer", name, inbound=inbound, batch_input_shape=[None, 6])
                            for name, inbound in names]
    functional = lambda layers, output="e", kind="Functional": of(layers, kind=kind, output_layers=output)
    step = lambda before, *more: [[[before, 0, 0, *more]]]
    two = ("i", []), ("d", step("i"))
    return {
        "keras_dense": around(dense("e", use_bias=False)), "keras_first_shape": of([dense(batch_input_shape=[None, 6])]),
        "keras_no_shape": of([dense()]), "keras_second_input": around(rows, dense("e")),
        "keras_images": after(layer("Flatten", "f")), "keras_channels_first": after(layer("Flatten", "f", data_format="channels_first")),
        "keras_pool": after(pool()), "keras_average_pool": after(pool("AveragePooling2D")),
        "keras_pool_of_none": after(pool(pool_size=None)), "keras_pool_of_three": after(pool(pool_size=[1, 2, 3])),
        "keras_pool_padding": after(pool(padding="other")), "keras_pool_dilated": after(pool(dilation_rate=[2, 2])),
        "keras_conv_padding": of([images, conv(padding=1)]), "keras_conv_dilation": of([images, conv(dilation_rate="x")]),
        "keras_conv_strides": of([images, conv(strides=[None, 1])]),
        "keras_global_pool": after(layer("GlobalAveragePooling2D", "g")),
        "keras_global_pool_kept": after(layer("GlobalAveragePooling2D", "g", keepdims=True), layer("Flatten", "f")),
        "keras_normal": after(normal()), "keras_normal_axis": after(normal(axis=3)), "keras_normal_other_axis": after(normal(axis=1)),
        "keras_normal_no_axis": after(normal(axis=[1, 2])), "keras_normal_no_epsilon": after(normal(epsilon=None)),
        "keras_normal_unknown": after(layer("BatchNormalization", "d", axis=3, epsilon=0.1)),
        "keras_dropout": around(layer("Dropout", "o"), layer("GaussianNoise", "g")),
        "keras_activation": around(layer("Activation", "a", activation="softmax")),
        "keras_activation_unknown": around(layer("Activation", "a", activation="mine")),
        "keras_activation_object": around(layer("Activation", "a", activation={"class_name": "Mine"})),
        "keras_relu": around(layer("ReLU", "a", negative_slope=0.0)), "keras_relu6": around(layer("ReLU", "a", max_value=6)),
        "keras_leaky": around(layer("LeakyReLU", "a", alpha=0.20000000298023224)), "keras_leaky_of_none": around(layer("LeakyReLU", "a")),
        "keras_elu": around(layer("ELU", "a", alpha={"value": 1.1})), "keras_softmax": around(layer("Softmax", "a", axis=-1)),
        "keras_softmax_of_columns": around(layer("Softmax", "a", axis=1)), "keras_unknown": around(layer("Embedding", "a")),
        "keras_no_class": around({}), "keras_no_variable": of([rows, dense("n")]), "keras_no_name": of([rows, dense("gone")]),
        "keras_two_names": of([rows, dense("d2")]), "keras_nothing": of([]),
        "keras_nested": of([rows, {"class_name": "Sequential", "config": {"layers": [dense()]}}, dense("e")]),
        "keras_nested_unlisted": of([rows, {"class_name": "Model", "config": {}}]),
        "keras_functional": functional(chain(*two, ("e", step("d"))), [["e", 0, 0]]),
        "keras_functional_flat": functional(chain(*two, ("e", [["d", 0, 0]])), ["e", 0, 0], "Model"),
        "keras_functional_keywords": functional(chain(*two, ("e", step("d", {}))), [["e", 0, 0]]),
        "keras_functional_arguments": functional(chain(*two, ("e", step("d", {"training": True}))), [["e", 0, 0]]),
        "keras_functional_two_inputs": functional(chain(*two, ("e", [[["d", 0, 0], ["i", 0, 0]]])), [["e", 0, 0]]),
        "keras_functional_twice": functional(chain(*two, ("e", [*step("d"), *step("i")])), [["e", 0, 0]]),
        "keras_functional_circle": functional(chain(("d", step("e")), ("e", step("d"))), [["e", 0, 0]]),
        "keras_functional_rest": functional(chain(*two, ("e", step("d"))), [["d", 0, 0]]),
        "keras_functional_no_output": functional(chain(*two), None), "keras_functional_empty_output": functional(chain(*two), []),
        "keras_functional_odd_output": functional(chain(*two), [7]),
        "keras_subclassed": (objects.bytes(), b"", saved_object("root", {"class_name": "Mine", "config": {}})),
        "keras_no_root": (objects.bytes(), b"", named), "keras_no_json": (objects.bytes(), b"", saved_object("root", "{")),
        "keras_garbage": (objects.bytes(), b"", b"\xff"), "keras_and_model": (*body(node("m", "MatMul", "x", "dense:value:0"), "m:product:0")[:2], b"\xff"),
    }
