"""DataCode `.nn` files of both dialects, and broken ones."""

import json
import struct

from common import Tensor, accept, f32, ramp, reject

UNSET = dict.fromkeys(("accuracy_history", "epochs", "loss", "loss_history", "optimizer"))
UNSET |= {"stages": [], "val_accuracy_history": None, "val_loss_history": None}


def linear(name: str, inputs, outputs, trainable=True) -> dict:
    return {"in_features": inputs, "name": name, "out_features": outputs, "trainable": trainable, "type": "Linear"}


def other(name: str, kind: str) -> dict:
    return {"name": name, "type": kind}


def stage(dialect="b", **changes) -> dict:
    histories = {"accuracy_history": [0.5, 0.75], "loss_history": [0.6931471824645996, 0.25]}
    plain = {"epochs": 2, "frozen_layers": [], "frozen_params": 0, "loss": "cross_entropy", "trainable_params": 17}
    optimiser = {"optimizer_params": {"lr": 0.0010000000474974513}, "optimizer_type": "SGD"}
    rate = {"lr_history": None} if dialect == "b" else {}
    unset = {"val_accuracy_history": None, "val_loss_history": None}
    return histories | plain | optimiser | rate | unset | changes


def header(layers, training=UNSET, device="cpu") -> bytes:
    document = {"device": device, "layers": layers, "training": training}
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def tensor_bytes(name: bytes, dims, data: bytes) -> bytes:
    return struct.pack("<I", len(name)) + name + struct.pack(f"<{len(dims) + 1}I", len(dims), *dims) + data


def file(text: bytes, tensors, magic=b"DATACODE", version=1, count=None) -> bytes:
    out = magic + struct.pack("<II", version, len(text)) + text
    out += struct.pack("<I", len(tensors) if count is None else count)
    return out + b"".join(tensor_bytes(name.encode(), dims, data) for name, dims, data in tensors)


def expected(tensors) -> list[Tensor]:
    return [Tensor(name, "f32", list(dims), data) for name, dims, data in tensors]


def pair(index: int, weight, bias, start=0.0):
    count = weight[0] * weight[1]
    return [
        (f"layer{index}.weight", weight, ramp(count, start)),
        (f"layer{index}.bias", bias, ramp(bias[-1], start + 1)),
    ]


# Dialect B: weights [out, in], Linear layers counted on their own. A: [in, out], all layers counted.
ONE = [linear("layer0", 3, 2)]
ONE_TENSORS = pair(0, (2, 3), (2,))
B_MLP = [linear("layer0", 4, 3), other("layer1", "ReLU"), linear("layer1", 3, 2)]
B_TENSORS = pair(0, (3, 4), (3,)) + pair(1, (2, 3), (2,), 5)
A_MLP = [linear("layer0", 4, 3), other("layer1", "ReLU"), linear("layer2", 3, 2)]
A_TENSORS = pair(0, (4, 3), (1, 3)) + pair(2, (3, 2), (1, 2), 5)


def accepted():
    def case(name, why, layers, tensors, training=UNSET, device="cpu"):
        data = file(header(layers, training, device), tensors)
        return accept(name, why, {f"{name}.nn": data}, f"{name}.nn", expected(tensors))

    yield case("b_single", "dialect B: one Linear layer", ONE, ONE_TENSORS)
    yield case("b_mlp", "dialect B: a layer's name may occur twice", B_MLP, B_TENSORS)
    yield case("a_mlp", "dialect A: [in, out], bias [1, out], N counts all layers", A_MLP, A_TENSORS, device="metal")
    flat = pair(0, (4, 3), (3,)) + pair(2, (3, 2), (2,), 5)
    yield case("a_flat_bias", "dialect A with a bias of [out]: told by the weights' shapes", A_MLP, flat)
    a_stages = UNSET | {"stages": [stage("a"), stage("a", optimizer_type="adam")], "epochs": 4}
    yield case("a_stages", "dialect A: stages without lr_history", A_MLP, A_TENSORS, a_stages, "cuda")
    adamw = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "lr": 0.0010000000474974513, "weight_decay": 0.01}
    stages = [stage(optimizer_type="AdamW", optimizer_params=adamw, lr_history=[0.001, 0.0005])]
    yield case("b_adamw", "AdamW's parameters, a learning-rate history", B_MLP, B_TENSORS, UNSET | {"stages": stages})
    legacy = UNSET | {"optimizer": "Adam", "loss": "mse", "epochs": 7, "accuracy_history": [0.1, 0.2]}
    yield case("b_legacy_training", "the legacy fields of `training`", B_MLP, B_TENSORS, legacy)
    kinds = ["Flatten", "Sigmoid", "Tanh", "ReLU", "Softmax"]
    every = [linear("layer0", 3, 2)] + [other(f"layer{n + 1}", kind) for n, kind in enumerate(kinds)]
    yield case("b_every_layer", "every type of layer", every, ONE_TENSORS)
    odd = struct.pack("<6I", 0x7FC00001, 0x7F800000, 0xFF800000, 0x80000000, 1, 0xFFFFFFFF)
    special = [("layer0.weight", (2, 3), odd), ("layer0.bias", (2,), f32(-0.0, 3.4e38))]
    yield case("b_special_values", "NaN payloads, infinities, negative zero and denormals are kept", ONE, special)
    square = [linear("layer0", 2, 2), other("layer1", "ReLU"), linear("layer1", 2, 2)]
    tensors = pair(0, (2, 2), (2,)) + pair(1, (2, 2), (2,))
    yield case("b_square", "square layers: told apart by N and lr_history", square, tensors,
               UNSET | {"stages": [stage()]})
    pretty = json.dumps(json.loads(header(B_MLP)), indent=2).encode() + b"\n"
    yield accept("b_pretty_json", "JSON with white space", {"b_pretty_json.nn": file(pretty, B_TENSORS)},
                 "b_pretty_json.nn", expected(B_TENSORS))
    square = [linear("layer0", 2, 2)]
    tensors = pair(0, (2, 2), (2,))
    yield case("b_only_bias", "a square layer: only the bias of [out] speaks for B", square, tensors)
    data = {"given_as_a.nn": file(header(square), tensors)}
    yield accept("given_as_a", "a square layer, with the dialect given", data, "given_as_a.nn", expected(tensors),
                 ["dialect=a"])


def rejected():
    def case(name, why, data, kind="corrupt"):
        return reject(name, why, {f"{name}.nn": data}, f"{name}.nn", kind)

    good = file(header(ONE), ONE_TENSORS)
    text = header(ONE)
    weight, bias = ONE_TENSORS

    def with_layers(layers, tensors=ONE_TENSORS):
        return file(header(layers), tensors)

    def with_json(text: bytes):
        return file(text, ONE_TENSORS)

    yield case("empty", "no byte at all", b"")
    yield case("short_magic", "half a magic number", good[:5])
    yield case("bad_magic", "another magic number", b"DATACODF" + good[8:])
    yield case("version_2", "a version that is unknown", file(text, ONE_TENSORS, version=2), "unsupported")
    yield case("header_past_end", "the header is longer than the file", good[:12] + b"\xff\xff\0\0" + good[16:])
    yield case("header_4_gib", "the header claims 4 GiB", good[:12] + b"\xff\xff\xff\xff" + good[16:])
    yield case("header_not_utf8", "the header is no UTF-8", with_json(b'{"device":"\xff","layers":[]}'))
    yield case("header_not_json", "the header is no JSON", with_json(text[:-1]))
    yield case("header_array", "the header is no object", with_json(b"[]"))
    yield case("header_deep", "100,000 nested arrays", with_json(b'{"layers":' + b"[" * 100_000))
    yield case("layers_missing", "no layers", with_json(b'{"device":"cpu","training":null}'))
    yield case("layers_empty", "an empty list of layers", with_layers([]))
    yield case("layer_unknown", "a type of layer that does not exist", with_layers([*ONE, other("layer1", "LSTM")]),
               "unsupported")
    yield case("layer_untyped", "a layer without a type", with_layers([*ONE, {"name": "layer1"}]))
    yield case("features_float", "in_features is no integer", with_layers([linear("layer0", 3.5, 2)]))
    yield case("features_missing", "no out_features", with_layers([{"in_features": 3, "name": "x", "type": "Linear"}]))
    yield case("features_negative", "a negative in_features", with_layers([linear("layer0", -3, 2)]))
    yield case("count_too_big", "more tensors are claimed than are there", file(text, ONE_TENSORS, count=3))
    yield case("count_4_billion", "2^32 - 1 tensors are claimed", file(text, ONE_TENSORS, count=2**32 - 1))
    yield case("count_missing", "the file ends after the header", good[: 16 + len(text)])
    name_past = file(text, []).removesuffix(bytes(4)) + struct.pack("<II", 1, 2**32 - 1) + b"layer0.weight"
    yield case("name_past_end", "a name of 4 GiB", name_past)
    not_utf8 = file(text, [])[:-4] + struct.pack("<I", 1) + tensor_bytes(b"layer0.w\xff\xfe", (2, 3), weight[2])
    yield case("name_not_utf8", "a name that is no UTF-8", not_utf8)
    yield case("name_unknown", "a name that is no layer's", file(text, [weight, ("layer0.gamma", (2,), bias[2])]))
    yield case("name_beyond_layers", "a tensor of a layer that is not there",
               file(text, [weight, bias, ("layer9.bias", (2,), bias[2])]))
    yield case("rank_0", "a tensor without dimensions", file(text, [("layer0.weight", (), f32(1)), bias]))
    ranks = file(text, [])[:-4] + struct.pack("<I", 1) + struct.pack("<I", 13) + b"layer0.weight" + b"\xff" * 4
    yield case("rank_4_billion", "a rank of 2^32 - 1", ranks)
    yield case("dimension_0", "a dimension of zero", file(text, [("layer0.weight", (0, 3), b""), bias]))
    huge = ("layer0.weight", (2**32 - 1, 2**32 - 1, 2**32 - 1), weight[2])
    yield case("dimensions_overflow", "a product of dimensions beyond 64 bits", file(text, [huge]))
    large = ("layer0.weight", (2**31, 2**31), weight[2])
    yield case("dimensions_large", "a tensor larger than the file", file(text, [large]))
    yield case("cut_in_data", "the last float is cut", good[:-1])
    yield case("trailing_bytes", "bytes after the last tensor", good + b"\0")
    yield case("tensor_twice", "the same tensor twice", file(text, [weight, bias, bias]))
    yield case("tensor_missing", "a layer without its weight", file(text, [bias]))
    yield case("weight_shape", "a weight of another shape than the layer's",
               file(text, [("layer0.weight", (2, 4), ramp(8)), bias]))
    yield case("bias_shape", "a bias longer than the layer's outputs", file(text, [weight, ("layer0.bias", (3,), ramp(3))]))
    mixed = [linear("layer0", 4, 3), other("layer1", "ReLU"), linear("layer1", 3, 2)]
    yield case("dialect_conflict", "one layer speaks for dialect A and one for B",
               file(header(mixed), pair(0, (4, 3), (1, 3)) + pair(1, (2, 3), (2,))))
