#!/usr/bin/env python3
"""Runs operators of `com.microsoft` and `ai.onnx.ml` with `ckpt run`, and compares with onnxruntime.

    python tests/interop/onnxruntime_operators.py --ckpt target/debug/ckpt     (packages: requirements.txt)

Each model is one operator as onnxruntime's quantizer, optimizer and exporters write it. Integers are equal; a quantized
sum of real numbers may be one step off where both programs round the same half in different ways.
"""

import sys

import numpy as np
import onnx
import onnxruntime
from harness import check, ckpt, main
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(7)
BOUND = 2e-5
TYPES = {np.dtype(name): number for name, number in
         (("float32", 1), ("uint8", 2), ("int8", 3), ("int32", 6), ("int64", 7), ("bool", 9))}


def reals(*shape) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def whole(low, high, *shape, dtype=np.int32) -> np.ndarray:
    return RANDOM.integers(low, high, shape).astype(dtype)


def weights(*shape) -> np.ndarray:
    """Integers of 7 bits: where the processor lacks VNNI, onnxruntime's sums of two products with larger ones saturate."""
    return whole(-64, 64, *shape, dtype=np.int8)


def scalar(value, dtype=np.float32) -> np.ndarray:
    return np.array(value, dtype)


def one(op, inputs, outputs, constants=(), domain="com.microsoft", **attributes):
    """A model of one node: arrays by name, of which `constants` are stored in the model; `None` is an input left out."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    node = helper.make_node(op, names, list(outputs), op, domain=domain, **attributes)
    given = {name: value for name, value in inputs.items() if value is not None}
    infos = [helper.make_tensor_value_info(name, TYPES[value.dtype], value.shape)
             for name, value in given.items() if name not in constants]
    stored = [numpy_helper.from_array(value, name) for name, value in given.items() if name in constants]
    made = [helper.make_tensor_value_info(name, number, None) for name, number in outputs.items()]
    graph = helper.make_graph([node], op, infos, made, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return model, {name: value for name, value in given.items() if name not in constants}


def attention(mask=None, past=False, **attributes):
    inputs = {"x": reals(2, 5, 16), "w": reals(16, 48) / 4, "b": reals(48), "mask": mask,
              "past": reals(2, 2, 4, 3, 4) if past else None}
    outputs = {"y": 1, "present": 1} if past else {"y": 1}
    return one("Attention", inputs, outputs, ("w", "b"), num_heads=4, **attributes)


def heads(mask=None, past=False, bias=True, products=False, **attributes):
    length = 7
    inputs = {"q": reals(2, 5, 16), "k": reals(2, length, 16), "v": reals(2, length, 16), "b": reals(48) if bias else None,
              "mask": mask, "products": reals(1, 4, 5, length + 3 * past) if products else None,
              "pk": reals(2, 4, 3, 4) if past else None, "pv": reals(2, 4, 3, 4) if past else None}
    outputs = {"y": 1, "k2": 1, "v2": 1} if past else {"y": 1}
    return one("MultiHeadAttention", inputs, outputs, ("b",), num_heads=4, **attributes)


def groups(past=0, rotary=False, rows=5, **attributes):
    total = past + rows
    inputs = {"q": reals(1, rows, 64), "k": reals(1, rows, 32), "v": reals(1, rows, 32),
              "pk": reals(1, 2, past, 16) if past else None, "pv": reals(1, 2, past, 16) if past else None,
              "last": scalar([total - 1], np.int32), "total": scalar(total, np.int32),
              "cos": np.cos(reals(16, 8)) if rotary else None, "sin": np.sin(reals(16, 8)) if rotary else None}
    constants = ("total", "cos", "sin")
    return one("GroupQueryAttention", inputs, {"y": 1, "k2": 1, "v2": 1}, constants, num_heads=4, kv_num_heads=2,
               do_rotary=int(rotary), **attributes)


def rotary(shape, places, **attributes):
    inputs = {"x": reals(*shape), "places": places, "cos": np.cos(reals(16, 4)), "sin": np.sin(reals(16, 4))}
    return one("RotaryEmbedding", inputs, {"y": 1}, ("cos", "sin"), **attributes)


def blocks(inner, columns, block, zeros=True, bits=4, bias=False):
    count, each = -(-inner // block), 8 // bits
    inputs = {"x": reals(3, inner), "b": whole(0, 256, columns, count, block // each, dtype=np.uint8),
              "s": np.abs(reals(columns * count)) / 8,
              "z": whole(0, 256, columns * -(-count // each), dtype=np.uint8) if zeros else None,
              "order": None, "bias": reals(columns) if bias else None}
    return one("MatMulNBits", inputs, {"y": 1}, ("b", "s", "z", "bias"), K=inner, N=columns, block_size=block, bits=bits)


def quantized(op, left, right, result, outputs=None, constants=(), **attributes):
    inputs = {}
    for name, array in (("a", left), ("b", right)):
        if array is not None:
            zero = scalar(array.min() // 2 + 3, array.dtype)
            inputs |= {name: array, f"{name}s": scalar(0.05 if name == "a" else 0.03), f"{name}z": zero}
    inputs |= {"ys": scalar(result), "yz": scalar(100, np.uint8)}
    return one(op, inputs, outputs or {"y": 2}, constants, **attributes)


def product(real, turned=False):
    a = whole(0, 256, 5, 8, dtype=np.uint8)
    inputs = {"a": a, "as": scalar(0.02), "az": scalar(120, np.uint8),
              "b": weights(*((6, 8) if turned else (8, 6))), "bs": scalar(0.03), "bz": scalar(0, np.int8),
              "c": whole(-500, 500, 6)}
    if not real:
        inputs |= {"ys": scalar(0.1), "yz": scalar(128, np.uint8)}
    return one("QGemm", inputs, {"y": 1 if real else 2}, ("b", "bs", "bz", "c"), transB=int(turned), alpha=0.5)


def joined():
    inputs = {"ys": scalar(0.05), "yz": scalar(100, np.uint8)}
    for name, scale in (("a", 0.03), ("b", 0.07)):
        inputs |= {name: whole(0, 256, 2, 3, 4, dtype=np.uint8), f"{name}s": scalar(scale), f"{name}z": scalar(90, np.uint8)}
    return one("QLinearConcat", inputs, {"y": 2}, axis=1)


def dynamic():
    inputs = {"x": reals(2, 5, 8), "w": weights(8, 6), "s": np.abs(reals(6)) / 50 + 0.01,
              "z": np.zeros(6, np.int8), "b": reals(6)}
    return one("DynamicQuantizeMatMul", inputs, {"y": 1}, ("w", "s", "z", "b"))


def to_float():
    inputs = {"a": whole(0, 256, 2, 5, 8, dtype=np.uint8), "w": weights(8, 6), "as": scalar(0.02),
              "ws": scalar(0.04), "az": scalar(100, np.uint8), "wz": scalar(0, np.int8), "b": reals(6)}
    return one("MatMulIntegerToFloat", inputs, {"y": 1}, ("w", "ws", "wz", "b"))


def sums(op, bias=True, **attributes):
    # So small that the default of epsilon decides.
    inputs = {"x": reals(2, 3, 8) * np.float32(1e-3), "skip": reals(2, 3, 8) * np.float32(1e-3), "gamma": reals(8)}
    if op == "SkipLayerNormalization":
        inputs["beta"] = reals(8)
    inputs["bias"] = reals(8) * np.float32(1e-3) if bias else None
    return one(op, inputs, {"y": 1}, ("gamma", "beta", "bias"), **attributes)


def embedding(segments=True):
    inputs = {"ids": whole(0, 11, 2, 5), "segments": whole(0, 2, 2, 5) if segments else None, "words": reals(11, 8),
              "places": reals(9, 8), "kinds": reals(2, 8) if segments else None, "gamma": reals(8), "beta": reals(8),
              "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)}
    return one("EmbedLayerNormalization", inputs, {"y": 1, "count": 6}, ("words", "places", "kinds", "gamma", "beta"))


def conv(activation, addend=False, **attributes):
    inputs = {"x": reals(2, 3, 7, 6), "w": reals(4, 3, 3, 3), "b": reals(4), "z": reals(2, 4, 7, 6) if addend else None}
    return one("FusedConv", inputs, {"y": 1}, ("w", "b"), activation=activation, pads=[1, 1, 1, 1], kernel_shape=[3, 3],
               **attributes)


MODELS = {
    "attention": attention, "attention_lengths": lambda: attention(scalar([3, 5], np.int32)),
    "attention_mask": lambda: attention(np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)),
    "attention_causal": lambda: attention(unidirectional=1), "attention_past": lambda: attention(past=True, unidirectional=1),
    "heads": heads, "heads_without_bias": lambda: heads(bias=False),
    "heads_mask": lambda: heads(np.array([[1] * 4 + [0] * 3, [1] * 7], np.int32)), "heads_past": lambda: heads(past=True),
    "heads_products": lambda: heads(products=True, scale=0.25),
    "groups": groups, "groups_rotary": lambda: groups(rotary=True), "groups_past": lambda: groups(past=4, rows=1),
    "groups_past_rotary": lambda: groups(past=6, rotary=True, rows=1), "groups_window": lambda: groups(local_window_size=2),
    "rotary": lambda: rotary((2, 3, 16), whole(0, 9, 2, 3, dtype=np.int64)),
    "rotary_first": lambda: rotary((2, 3, 16), scalar([2], np.int64), interleaved=1),
    "rotary_images": lambda: rotary((2, 2, 3, 8), whole(0, 9, 2, 3, dtype=np.int64)),
    "fused_product": lambda: one("FusedMatMul", {"a": reals(2, 5, 3), "b": reals(2, 4, 5)}, {"y": 1}, transA=1, transB=1, alpha=0.3),
    "fused_conv": lambda: conv("Relu"), "fused_conv_sum": lambda: conv("Relu", True),
    "fused_conv_leaky": lambda: conv("LeakyRelu", activation_params=[0.2]),
    "fused_conv_clip": lambda: conv("Clip", activation_params=[0.0, 1.0]),
    "gelu": lambda: one("Gelu", {"x": reals(3, 5)}, {"y": 1}),
    "bias_gelu": lambda: one("BiasGelu", {"x": reals(3, 5), "b": reals(5)}, {"y": 1}, ("b",)),
    "fast_gelu": lambda: one("FastGelu", {"x": reals(3, 5), "b": reals(5)}, {"y": 1}, ("b",)),
    "quick_gelu": lambda: one("QuickGelu", {"x": reals(3, 5)}, {"y": 1}),
    "skip_norm": lambda: sums("SkipLayerNormalization"), "skip_norm_plain": lambda: sums("SkipLayerNormalization", False),
    "skip_root_mean_square": lambda: sums("SkipSimplifiedLayerNormalization"),
    "root_mean_square": lambda: one("SimplifiedLayerNormalization", {"x": reals(2, 3, 8), "s": reals(8)}, {"y": 1}, ("s",), ""),
    "embedding": embedding, "embedding_words": lambda: embedding(False),
    "blocks_4": lambda: blocks(64, 6, 32), "blocks_rest": lambda: blocks(40, 5, 16, bias=True),
    "blocks_middle": lambda: blocks(64, 6, 32, False), "blocks_8": lambda: blocks(64, 6, 32, bits=8),
    "q_add": lambda: quantized("QLinearAdd", whole(0, 256, 2, 9, dtype=np.uint8), whole(0, 256, 2, 9, dtype=np.uint8), 0.09),
    "q_mul": lambda: quantized("QLinearMul", whole(0, 256, 2, 9, dtype=np.uint8), whole(0, 256, 9, dtype=np.uint8), 0.2),
    "q_sigmoid": lambda: quantized("QLinearSigmoid", whole(0, 256, 2, 9, dtype=np.uint8), None, 0.01),
    "q_leaky": lambda: quantized("QLinearLeakyRelu", whole(0, 256, 2, 9, dtype=np.uint8), None, 0.08, alpha=0.1),
    "q_pool": lambda: quantized("QLinearGlobalAveragePool", whole(0, 256, 2, 20, 5, 4, dtype=np.uint8), None, 0.05, channels_last=0),
    "q_joined": joined, "q_product": lambda: product(False), "q_product_turned": lambda: product(False, True),
    "q_product_real": lambda: product(True), "dynamic_product": dynamic, "product_to_float": to_float,
}


def expected(model, feeds) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def compare(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], name: str) -> None:
    assert found.keys() == wanted.keys(), f"{found.keys()} instead of {wanted.keys()}"
    for output, value in wanted.items():
        got = found[output]
        assert got.shape == value.shape, f"{output}: {got.shape} instead of {value.shape}"
        error = np.abs(got.astype(np.float64) - value)
        if np.issubdtype(value.dtype, np.integer):
            steps = 1 if name.startswith("q_") and "product" not in name else 0
            assert error.max() <= steps and (error > 0).mean() <= 0.1, f"{output}: {got.ravel()[:9]} instead of {value.ravel()[:9]}"
        else:
            assert error.max() <= BOUND * np.abs(value).max(), f"{output}: {error.max() / np.abs(value).max():.1e}"


def trees(op, kind, results, depth=4, number=7, mode="BRANCH_LEQ", tracks=False, one=False, positive=False, **attributes):
    """A random ensemble: full trees but for some early leaves, whose nodes are listed in any order."""
    lists = {name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}
    weights = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(number):
        open_nodes, next_id, rows = [(0, 0)], 1, []
        while open_nodes:
            node, level = open_nodes.pop()
            is_leaf = level == depth or level > 0 and RANDOM.random() < 0.2
            yes, no = (0, 0) if is_leaf else (next_id, next_id + 1)
            rows.append((node, 0 if is_leaf else RANDOM.integers(5), 0.0 if is_leaf else RANDOM.standard_normal(),
                         "LEAF" if is_leaf else mode, yes, no))
            if not is_leaf:
                open_nodes += [(yes, level + 1), (no, level + 1)]
                next_id += 2
                continue
            for result in [tree % results] if one or kind == "class" and results > 2 else range(results):
                weight = RANDOM.standard_normal()
                for name, value in zip(weights, (tree, node, result, abs(weight) / number if positive else weight)):
                    weights[name].append(int(value) if name != "weights" else float(value))
        # The root stays first: onnxruntime takes the first node of a tree for it.
        for row in [rows[0]] + [rows[at] for at in RANDOM.permutation(len(rows) - 1) + 1]:
            for name, value in zip(lists, (tree, *row)):
                lists[name].append(value if name == "modes" else float(value) if name == "values" else int(value))
    given = {f"nodes_{name}": values for name, values in lists.items()} | {f"{kind}_{name}": values for name, values in weights.items()}
    if tracks:
        given["nodes_missing_value_tracks_true"] = [int(value) for value in RANDOM.integers(0, 2, len(lists["modes"]))]
    if kind == "class":
        return learned(op, BOTH, **given, **attributes)
    return learned(op, Y, n_targets=results, **given, **attributes)


def classes(results, one=False, **attributes):
    labels = [int(label) for label in RANDOM.permutation(20)[:results]]
    return trees("TreeEnsembleClassifier", "class", 1 if one else results, one=one, classlabels_int64s=labels, **attributes)


def learned(op, outputs, x=None, **attributes):
    """A model of one node of `ai.onnx.ml` over rows of five numbers, some of which are none."""
    rows = reals(40, 5)
    rows[::6, 1] = np.nan
    x = rows if x is None else x
    node = helper.make_node(op, ["x"], list(outputs), op, domain="ai.onnx.ml", **attributes)
    info = helper.make_tensor_value_info("x", TYPES[x.dtype], [None, *x.shape[1:]])
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], op, [info], made), opset_imports=opsets, ir_version=8), {"x": x}


def coefficients(rows):
    return {"coefficients": reals(rows * 5).tolist(), "intercepts": reals(rows).tolist()}


Y, BOTH = {"y": 1}, {"label": 7, "scores": 1}
REGRESSOR = "TreeEnsembleRegressor"
MODELS |= {
    "trees": lambda: trees(REGRESSOR, "target", 1),
    "trees_targets": lambda: trees(REGRESSOR, "target", 3, base_values=[0.5, -1.0, 2.0]),
    "trees_mean": lambda: trees(REGRESSOR, "target", 1, aggregate_function="AVERAGE"),
    "trees_shares_of_targets": lambda: trees(REGRESSOR, "target", 2, post_transform="LOGISTIC"),
    "trees_least": lambda: trees(REGRESSOR, "target", 1, aggregate_function="MIN"),
    "trees_greatest": lambda: trees(REGRESSOR, "target", 1, mode="BRANCH_GT", aggregate_function="MAX"),
    "trees_missing": lambda: trees(REGRESSOR, "target", 1, mode="BRANCH_LT", tracks=True),
    "trees_flat": lambda: trees(REGRESSOR, "target", 1, depth=0),
    "trees_classes": lambda: classes(4, number=9, post_transform="SOFTMAX"),
    "trees_shares": lambda: classes(2, one=True, positive=True, post_transform="LOGISTIC"),
    "trees_logits": lambda: classes(2, one=True, post_transform="LOGISTIC", base_values=[0.125]),
    "trees_margins": lambda: classes(2, one=True),
    "linear": lambda: learned("LinearRegressor", Y, reals(6, 5), targets=2, **coefficients(2)),
    "linear_one": lambda: learned("LinearRegressor", Y, reals(6, 5), **coefficients(1)),
    "linear_classes": lambda: learned("LinearClassifier", BOTH, reals(6, 5), classlabels_ints=[3, 1, 8], post_transform="SOFTMAX", **coefficients(3)),
    "scaler": lambda: learned("Scaler", Y, reals(6, 5), offset=reals(5).tolist(), scale=reals(5).tolist()),
    "scaler_one": lambda: learned("Scaler", Y, whole(-9, 9, 6, 5, dtype=np.int64), offset=[0.5], scale=[2.0]),
    "norm_l1": lambda: learned("Normalizer", Y, reals(6, 5), norm="L1"),
    "norm_l2": lambda: learned("Normalizer", Y, np.concatenate([reals(6, 5), np.zeros((1, 5), np.float32)]), norm="L2"),
    "norm_max": lambda: learned("Normalizer", Y, np.abs(reals(6, 5)), norm="MAX"),
    "binarizer": lambda: learned("Binarizer", Y, reals(6, 5), threshold=0.25),
    "imputer": lambda: learned("Imputer", Y, imputed_value_floats=reals(5).tolist(), replaced_value_float=float("nan")),
    "encoder": lambda: learned("LabelEncoder", Y, whole(0, 6, 6, 5, dtype=np.int64), keys_int64s=[4, 1, 2],
                               values_floats=[0.5, 1.5, -2.0], default_float=9.0),
}


FUNCTIONS = """
<ir_version: 9, opset_import: ["": 18, "my": 1]>
net (float[N,4] x, float[4,5] w1, float[5,3] w2) => (float[N,3] y) {
    a, s = my.block <slope = 0.1> (x, w1)
    b, t = my.block <slope = 0.2> (a, w2)
    y = Add(b, t)
}
<domain: "my", opset_import: ["": 18, "my": 1]>
scaled <factor: float = 2.0> (x, w) => (r) {
    k = Constant <value = float[3,1] {0.5, 0.25, 1.5}> ()
    z = ReduceMax <keepdims = 1> (k)
    m = MatMul(x, w)
    f = Constant <value_float: float = @factor> ()
    p = Mul(m, f)
    r = Add(p, z)
}
<domain: "my", opset_import: ["": 18, "my": 1]>
block <slope> (x, w) => (r, y) {
    y = my.scaled <factor = 3.0> (x, w)
    l = LeakyRelu <alpha: float = @slope> (y)
    q = ReduceSum <keepdims = 0> (l)
    zero = Constant <value_float = 0.0> ()
    c = Greater(q, zero)
    r = If (c) <
        then_branch = first () => (kept) { kept = Identity(l) },
        else_branch = second () => (other) { n = my.scaled(x, w)  other = Neg(n) }
    >
}
"""


@check(*range(4))
def functions_of_a_model_compute_the_same(folder, number):
    """Functions that call each other, with attributes, constants and branches."""
    random = np.random.default_rng(number)
    model = onnx.parser.parse_model(FUNCTIONS)
    shapes = {"x": (2, 4), "w1": (4, 5), "w2": (5, 3)}
    feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "in.npz", **feeds)
    done = ckpt("run", folder / "m.onnx", "--input", folder / "in.npz", "-o", folder / "y.npz")
    assert done.returncode == 0, done.stderr
    with np.load(folder / "y.npz") as found:
        compare(dict(found), expected(model, feeds), "functions")


@check(*MODELS)
def an_operator_of_onnxruntime_computes_the_same(folder, name):
    model, feeds = MODELS[name]()
    onnx.save(model, folder / "m.onnx")
    command = []
    for input_name, value in feeds.items():
        np.save(folder / f"{input_name}.npy", value)
        command += ["--input", f"{input_name}={folder / f'{input_name}.npy'}"]
    done = ckpt("run", folder / "m.onnx", *command, "-o", folder / "y.npz")
    assert done.returncode == 0, done.stderr
    with np.load(folder / "y.npz") as found:
        compare(dict(found), expected(model, feeds), name)


if __name__ == "__main__":
    sys.exit(main(__doc__, onnx, onnxruntime))
