"""ONNX's checker accepts what `ckpt` writes, and ONNX Runtime computes the same with it; registers its checks."""

import pathlib

import keras
import numpy as np
import onnx
import onnxruntime
import tensorflow as tf
from harness import assert_equal, check, ckpt, convert
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANDOM = np.random.default_rng(7)
# Of the largest number of an output.
BOUND = 1e-5


def tensor(name: str, *shape: int, scale: float = 0.5) -> onnx.TensorProto:
    return numpy_helper.from_array((RANDOM.standard_normal(shape) * scale).astype(np.float32), name)


def ints(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(nodes, tensors, inputs, outputs, opset: int = 17) -> onnx.ModelProto:
    def values(named):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in named.items()]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    return made


def node(op: str, inputs: str, outputs: str, **attributes) -> onnx.NodeProto:
    split = lambda names: ["" if name == "_" else name for name in names.split()]
    return helper.make_node(op, split(inputs), split(outputs), **attributes)


def dense(opset: int = 17):
    nodes = [node("MatMul", "x w1", "p"), node("Add", "p b1", "h"), node("Relu", "h", "r"),
             node("Gemm", "r w2 b2", "z", transB=1, alpha=0.5), node("Softmax", "z", "y", axis=1)]
    tensors = [tensor("w1", 6, 8), tensor("b1", 8), tensor("w2", 3, 8), tensor("b2", 3)]
    return model(nodes, tensors, {"x": ["N", 6]}, {"y": ["N", 3]}, opset)


def convolution():
    nodes = [
        node("Conv", "x k b", "c", pads=[1, 1, 1, 1], strides=[2, 1], group=2),
        node("BatchNormalization", "c scale shift mean variance", "n", epsilon=1e-3),
        node("LeakyRelu", "n", "l", alpha=0.2),
        node("AveragePool", "l", "a", kernel_shape=[2, 2], strides=[1, 1], count_include_pad=1, pads=[0, 0, 1, 1]),
        node("Pad", "a pads", "q"), node("MaxPool", "q", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", "m", "g"), node("Flatten", "g", "f"), node("Gemm", "f w", "y"),
    ]
    variance = numpy_helper.from_array(np.abs(RANDOM.standard_normal(6)).astype(np.float32) + 0.5, "variance")
    tensors = [tensor("k", 6, 2, 3, 3), tensor("b", 6), tensor("scale", 6), tensor("shift", 6), tensor("mean", 6), variance,
               ints("pads", 0, 0, 1, 0, 0, 0, 0, 1), tensor("w", 6, 5)]
    return model(nodes, tensors, {"x": ["N", 4, 8, 8]}, {"y": ["N", 5]})


def shapes():
    """Shapes that are computed from the input's, with a free batch."""
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "t", axis=0), node("Reshape", "x t", "r"), node("Transpose", "r", "p", perm=[0, 2, 1]),
        node("Slice", "p starts ends axes steps", "c"), node("Split", "c", "u v", axis=2), node("Concat", "v u", "w", axis=-1),
        node("ReduceMean", "w", "m", axes=[1], keepdims=0), node("Clip", "m low _", "y"),
    ]
    low = numpy_helper.from_array(np.array(-0.1, np.float32), "low")
    tensors = [ints("zero"), ints("axis", 0), ints("rest", 4, 6), ints("starts", 1), ints("ends", 1 << 40), ints("axes", 1),
               ints("steps", 2), low]
    tensors[0] = numpy_helper.from_array(np.array(0, np.int64), "zero")
    return model(nodes, tensors, {"x": ["N", 24]}, {"y": ["N", 4]})


def attention():
    nodes = [
        node("LayerNormalization", "x g b", "n", axis=-1), node("MatMul", "n q", "Q"), node("MatMul", "n k", "K"),
        node("MatMul", "n v", "V"), node("Transpose", "K", "T", perm=[0, 2, 1]), node("MatMul", "Q T", "S"),
        node("Mul", "S scale", "Z"), node("Softmax", "Z", "A", axis=-1), node("MatMul", "A V", "O"), node("Add", "O x", "R"),
        node("Erf", "R", "E"), node("Add", "E one", "P"), node("Mul", "P R", "y"),
    ]
    scale = numpy_helper.from_array(np.array(0.25, np.float32), "scale")
    one = numpy_helper.from_array(np.array([1], np.float32), "one")
    tensors = [tensor("g", 16), tensor("b", 16), tensor("q", 16, 16), tensor("k", 16, 16), tensor("v", 16, 16), scale, one]
    return model(nodes, tensors, {"x": ["N", 5, 16]}, {"y": ["N", 5, 16]})


def places():
    """Elements that are found and updated by their places, and tests of elements."""
    nodes = [
        node("GatherND", "x one", "a", batch_dims=1), node("GatherElements", "a each", "b", axis=1),
        node("ScatterND", "x rows b", "c", reduction="add"), node("ScatterElements", "c each b", "d", axis=2, reduction="mul"),
        node("Div", "d divisors", "e"), node("IsInf", "e", "f", detect_negative=0), node("IsNaN", "e", "g"),
        node("Or", "f g", "h"), node("IsInf", "e", "i"), node("Or", "h i", "j"), node("Where", "j d e", "y"),
    ]
    index = lambda name, values: numpy_helper.from_array(np.array(values, np.int64), name)
    tensors = [
        index("one", [[[1], [-1]], [[0], [1]], [[2], [-3]]]), index("each", [[[0, 1, -1, 1]], [[1, 1, 0, -2]], [[0, 0, 0, 1]]]),
        index("rows", [[[0, -1]], [[2, 1]], [[0, 2]]]), numpy_helper.from_array(np.array([0, 1, 0, 2], np.float32), "divisors"),
    ]
    return model(nodes, tensors, {"x": [3, 3, 4]}, {"y": [3, 3, 4]}, 18)


def free_axes():
    """A token that is repeated along the batch, positions up to the number of tokens, and first states of zeros."""
    zero = numpy_helper.from_array(np.zeros(1, np.float32), "")
    nodes = [
        node("Shape", "x", "s"), node("Slice", "s zero one", "n"), node("Slice", "s one two", "len"),
        node("Concat", "n ones width", "t", axis=0), node("Expand", "token t", "repeated"), node("Identity", "b", "c"),
        node("Slice", "table zero len", "places"), node("Add", "x places", "placed"), node("Squeeze", "len", "count"),
        node("Range", "first count step", "range"), node("Cast", "range", "numbers", to=1),
        node("Unsqueeze", "numbers one", "column"), node("Add", "placed column", "p"),
        node("Concat", "repeated p", "q", axis=1), node("Transpose", "q", "steps", perm=[1, 0, 2]),
        node("Concat", "one n two", "st", axis=0), node("ConstantOfShape", "st", "h", value=zero),
        node("LSTM", "steps w r biases _ h h", "states", hidden_size=2), node("Squeeze", "states one", "y1"),
        node("MatMul", "y1 v", "m"), node("Add", "m b", "d"), node("Add", "d c", "e"), node("Transpose", "e", "y", perm=[1, 0, 2]),
    ]
    scalar = lambda name, value: numpy_helper.from_array(np.array(value, np.int64), name)
    tensors = [ints("zero", 0), ints("one", 1), ints("two", 2), ints("ones", 1), ints("width", 6), scalar("first", 0),
               scalar("step", 1), tensor("token", 1, 1, 6), tensor("table", 20, 6), tensor("b", 6), tensor("w", 1, 8, 6),
               tensor("r", 1, 8, 2), tensor("biases", 1, 16), tensor("v", 2, 6)]
    return model(nodes, tensors, {"x": ["N", "L", 6]}, {"y": ["N", None, 6]})


def within(nodes, inputs, outputs, tensors=(), types=None):
    """A graph within a node."""
    types = types or {}

    def values(names):
        # Only integers and truth values have a shape that is known.
        known = [(name, types.get(name)) for name in names.split()]
        return [helper.make_tensor_value_info(name, type or TensorProto.FLOAT, [] if type else None) for name, type in known]

    return helper.make_graph(nodes, "within", values(inputs), values(outputs), list(tensors))


def branches():
    """A branch within a branch, with weights of their own and values from around them."""
    inner = node("If", "c2", "u", then_branch=within([node("MatMul", "h w2", "t2")], "", "t2"),
                 else_branch=within([node("Neg", "h", "e2")], "", "e2"))
    last = within([node("Mul", "x k", "s"), node("Gemm", "s w1", "t")], "", "t", [tensor("k", 6), tensor("w1", 6, 8)])
    nodes = [
        node("MatMul", "x w", "h"), node("ReduceSum", "h", "sum", keepdims=0), node("Greater", "sum zero", "c"),
        node("Less", "sum ten", "c2"), node("Not", "c2", "c3"),
        node("If", "c", "a", then_branch=last, else_branch=within([inner, node("Tanh", "u", "e")], "", "e")),
        node("If", "yes", "b", then_branch=within([node("Relu", "h", "r")], "", "r"),
             else_branch=within([node("Flatten", "x", "f")], "", "f")),
        node("If", "c3", "d", then_branch=within([node("Identity", "h", "i")], "", "i"),
             else_branch=within([node("Add", "h two", "j")], "", "j")),
        node("Sum", "a b d", "y"),
    ]
    number = lambda name, value: numpy_helper.from_array(np.array(value), name)
    tensors = [tensor("w", 6, 8), tensor("w2", 8, 8), number("zero", np.float32(0)), number("ten", np.float32(1)),
               number("yes", np.bool_(True)), number("two", np.float32(2))]
    return model(nodes, tensors, {"x": ["N", 6]}, {"y": ["N", 8]}, 18)


def loops():
    """Loops that end after so many iterations, or by their condition; one stacks what its iterations make."""
    types = {"i": TensorProto.INT64, "c": TensorProto.BOOL, "again": TensorProto.BOOL, "j": TensorProto.INT64,
             "d": TensorProto.BOOL, "more": TensorProto.BOOL}
    counted = within([
        node("Identity", "c", "again"), node("MatMul", "before w", "p"), node("Cast", "i", "r", to=TensorProto.FLOAT),
        node("Add", "p r", "q"), node("Tanh", "q", "after"), node("ReduceMean", "after", "part", keepdims=0)],
        "i c before", "again after part", types=types)
    half = node("If", "small", "scaled", then_branch=within([node("Mul", "v third", "s1")], "", "s1"),
                else_branch=within([node("Mul", "v half", "s2")], "", "s2"))
    ended = within([
        node("Abs", "v", "abs"), node("ReduceMax", "abs", "max", keepdims=0), node("Less", "max one", "small"), half,
        node("Abs", "scaled", "abs2"), node("ReduceMax", "abs2", "max2", keepdims=0), node("Greater", "max2 tenth", "more")],
        "j d v", "more scaled", types=types)
    nodes = [node("Loop", "five _ x", "a all", body=counted), node("Loop", "_ yes a", "b", body=ended),
             node("ReduceSum", "all", "total", keepdims=0), node("Add", "b total", "y")]
    number = lambda name, value: numpy_helper.from_array(np.array(value), name)
    tensors = [tensor("w", 4, 4), number("five", np.int64(5)), number("yes", np.bool_(True)), number("one", np.float32(1)),
               number("half", np.float32(0.5)), number("third", np.float32(0.25)), number("tenth", np.float32(0.1))]
    return model(nodes, tensors, {"x": ["N", 4]}, {"y": ["N", 4]}, 18)


def sixteen_bits():
    """Numbers that are rounded to 16 bits, of both kinds, and to which a type that another value has rounds them."""
    nodes = [
        node("Cast", "x", "a", to=TensorProto.FLOAT16), node("Cast", "a", "b", to=TensorProto.FLOAT),
        node("Cast", "x", "c", to=TensorProto.BFLOAT16), node("Cast", "c", "d", to=TensorProto.FLOAT),
        node("Mul", "x large", "e"), node("CastLike", "e a", "f"), node("Cast", "f", "g", to=TensorProto.FLOAT),
        node("Clip", "g least most", "h"), node("Mul", "x small", "i"), node("Cast", "i", "j", to=TensorProto.FLOAT16),
        node("Cast", "j", "k", to=TensorProto.DOUBLE), node("Cast", "k", "l", to=TensorProto.FLOAT), node("Mul", "l large", "m"),
        node("Concat", "b d h m", "y", axis=1),
    ]
    number = lambda name, value: numpy_helper.from_array(np.array(value, np.float32), name)
    tensors = [number("large", 6e4), number("small", 2e-6), number("least", -1e5), number("most", 1e5)]
    return model(nodes, tensors, {"x": ["N", 40]}, {"y": ["N", 160]}, 19)


def quantized():
    """Integers of 8 bits with a scale for each place of an axis, and with one for all."""
    array = lambda name, values, dtype: numpy_helper.from_array(np.array(values, dtype), name)
    nodes = [
        node("QuantizeLinear", "x s z", "q", axis=1), node("DequantizeLinear", "q s z", "d", axis=1),
        node("QuantizeLinear", "d one_s one_z", "q2"), node("DequantizeLinear", "q2 one_s one_z", "d2"),
        node("DequantizeLinear", "w ws", "m", axis=1), node("MatMul", "d2 m", "y"),
    ]
    weights = RANDOM.integers(-127, 128, (4, 6))
    tensors = [array("s", [0.01, 0.02, 0.005], np.float32), array("z", [3, -7, 0], np.int8), array("one_s", 0.015, np.float32),
               array("one_z", 128, np.uint8), array("w", weights, np.int8), array("ws", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], np.float32)]
    return model(nodes, tensors, {"x": ["N", 3, 4]}, {"y": ["N", 3, 6]}, 19)


def trigonometry():
    """Trigonometric and hyperbolic functions, and their inverses, where they are defined."""
    nodes = [
        node("Clip", "x low high", "u"), node("Exp", "x", "e"), node("Add", "e one", "v"),
        node("Tan", "u", "y0"), node("Asin", "u", "y1"), node("Acos", "u", "y2"), node("Atan", "x", "y3"), node("Sinh", "x", "y4"),
        node("Cosh", "x", "y5"), node("Asinh", "x", "y6"), node("Acosh", "v", "y7"), node("Atanh", "u", "y8"),
        node("Concat", " ".join(f"y{number}" for number in range(9)), "y", axis=1),
    ]
    number = lambda name, value: numpy_helper.from_array(np.array(value, np.float32), name)
    tensors = [number("low", -0.9), number("high", 0.9), number("one", 1)]
    return model(nodes, tensors, {"x": ["N", 12]}, {"y": ["N", 108]})


def powers():
    """Integers as exponents of real numbers."""
    nodes = [node("Pow", "x two", "a"), node("Pow", "x each", "b"), node("Add", "a b", "y")]
    return model(nodes, [ints("two", 2), ints("each", 0, 1, 2, 3)], {"x": ["N", 4]}, {"y": ["N", 4]})


MODELS = {
    "dense": dense, "dense_opset_9": lambda: dense(9), "dense_opset_13": lambda: dense(13), "convolution": convolution,
    "shapes": shapes, "attention": attention, "places": places, "free_axes": free_axes, "branches": branches,
    "loops": loops, "sixteen_bits": sixteen_bits, "quantized": quantized, "trigonometry": trigonometry, "powers": powers,
}


def outputs(path: pathlib.Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys(), f"{found.keys()} instead of {expected.keys()}"
    for name, value in expected.items():
        error = np.abs(found[name].astype(np.float64) - value).max() / np.abs(value).max()
        assert found[name].shape == value.shape and error <= BOUND, f"{name}: {error:.1e}"


def computed(folder: pathlib.Path, names: list[str]):
    """Each model with random inputs, as a file, and what onnxruntime computes."""
    for name in names:
        built = globals()[name]()
        source = folder / f"{name}.onnx"
        onnx.save(built[0] if isinstance(built, tuple) else built, source)
        session = onnxruntime.InferenceSession(source)
        random, given = np.random.default_rng(5), []
        for value in session.get_inputs():
            shape = [size if isinstance(size, int) else 2 for size in value.shape]
            array = random.integers(0, 3, shape) if "int" in value.type else random.normal(size=shape).astype(np.float32)
            given.append(array.astype(np.float16) if "float16" in value.type else array)
        yield name, source, given, session.run(None, {value.name: array for value, array in zip(session.get_inputs(), given)})


def made(folder: pathlib.Path, name: str):
    """A model, an input, and what ONNX Runtime computes."""
    built = MODELS[name]()
    path = folder / "in.onnx"
    onnx.save(built, path)
    shape = [3 if dim.dim_param else dim.dim_value for dim in built.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": RANDOM.standard_normal(shape).astype(np.float32)}
    return path, feeds, outputs(path, feeds)


@check(*MODELS)
def an_unmodified_onnx_model_comes_back_byte_for_byte(folder, name):
    path, _, _ = made(folder, name)
    convert(path, folder / "out.onnx")
    assert path.read_bytes() == (folder / "out.onnx").read_bytes()


@check(*MODELS)
def an_onnx_model_computes_what_onnxruntime_computes(folder, name):
    path, feeds, expected = made(folder, name)
    np.savez(folder / "x.npz", **feeds)
    done = ckpt("run", path, "--input", f"x={folder / 'x.npz'}:x", "-o", folder / "y.npz")
    assert done.returncode == 0, done.stderr
    assert_close(dict(np.load(folder / "y.npz")), expected)


@check(*MODELS)
def a_new_onnx_model_is_accepted_and_computes_the_same(folder, name):
    path, feeds, expected = made(folder, name)
    # The names and bytes of the tensors alone, and the graph of the model.
    convert(path, folder / "w.npz")
    convert(folder / "w.npz", folder / "new.onnx", "--arch", path)
    onnx.checker.check_model(str(folder / "new.onnx"), full_check=True)
    assert_close(outputs(folder / "new.onnx", feeds), expected)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(folder / "new.onnx").graph.initializer}
    given = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}
    assert_equal({name: stored[name] for name in given}, given)


@check()
def external_data_of_onnx_models_is_read_and_written(folder):
    path, feeds, expected = made(folder, "attention")
    convert(path, folder / "out.onnx", "--set", "external_data=256")
    assert (folder / "out.onnx.data").stat().st_size >= 3 * 16 * 16 * 4
    onnx.checker.check_model(str(folder / "out.onnx"), full_check=True)
    assert_close(outputs(folder / "out.onnx", feeds), expected)
    (folder / "b").mkdir()
    convert(folder / "out.onnx", folder / "b" / "out.onnx")
    for name in ("out.onnx", "out.onnx.data"):
        assert (folder / name).read_bytes() == (folder / "b" / name).read_bytes(), name


@check()
def a_saved_model_becomes_an_onnx_model(folder):
    convert(ROOT / "examples" / "data" / "digits_saved_model", folder / "digits.onnx")
    onnx.checker.check_model(str(folder / "digits.onnx"), full_check=True)
    done = ckpt("verify", ROOT / "examples" / "data" / "digits_saved_model", folder / "digits.onnx")
    assert done.returncode == 0, done.stdout + done.stderr
    session = onnxruntime.InferenceSession(str(folder / "digits.onnx"))
    (given,) = session.get_inputs()
    (found,) = session.run(None, {given.name: RANDOM.standard_normal((3, 64)).astype(np.float32)})
    assert found.shape == (3, 10) and np.allclose(found.sum(axis=1), 1, atol=1e-5)


@check()
def a_function_without_weights_becomes_an_onnx_model(folder):
    module = tf.Module()
    module.f = tf.function(lambda x: tf.nn.relu(x) * 2.0 + 1.0, input_signature=[tf.TensorSpec([None, 3], tf.float32, "x")])
    tf.saved_model.save(module, str(folder / "source"), signatures=module.f)
    convert(folder / "source", folder / "target.onnx", "--verify")
    onnx.checker.check_model(str(folder / "target.onnx"), full_check=True)
    x = RANDOM.standard_normal((4, 3)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(folder / "target.onnx"))
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    assert_equal({"y": found}, {"y": module.f(x).numpy()})


def recurrent(layer: str):
    layers = keras.layers
    return {
        "LSTM": lambda: [layers.LSTM(4, return_sequences=True, bias_initializer="normal"), layers.LSTM(3, go_backwards=True)],
        "LSTM without bias": lambda: [layers.LSTM(4, use_bias=False)],
        "GRU": lambda: [layers.GRU(4, bias_initializer="normal")],
        "GRU reset before": lambda: [layers.GRU(4, reset_after=False, bias_initializer="normal")],
        "Bidirectional": lambda: [layers.Bidirectional(layers.LSTM(4, bias_initializer="normal"))],
        "SimpleRNN": lambda: [layers.SimpleRNN(4, bias_initializer="normal")],
    }[layer]()


@check("LSTM", "LSTM without bias", "GRU", "GRU reset before", "Bidirectional", "SimpleRNN")
def a_recurrent_saved_model_becomes_an_onnx_model(folder, name):
    network = keras.Sequential([keras.Input((7, 5)), *recurrent(name), keras.layers.Dense(2)])
    network.export(str(folder / "source"), verbose=False)
    convert(folder / "source", folder / "target.onnx", "--verify")
    onnx.checker.check_model(str(folder / "target.onnx"), full_check=True)
    x = RANDOM.standard_normal((3, 7, 5)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(folder / "target.onnx"))
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    assert_close({"y": found}, {"y": network(x).numpy()})
    done = ckpt("verify", folder / "source", folder / "target.onnx")
    assert done.returncode == 0, done.stdout + done.stderr


@check()
def resized_images_of_a_keras_file_run_in_onnxruntime(folder):
    layers = keras.layers
    network = keras.Sequential([keras.Input((6, 5, 3)), layers.Resizing(9, 7), layers.Conv2D(2, 3),
                                layers.Resizing(3, 4, interpolation="nearest")])
    network.save(folder / "source.keras")
    convert(folder / "source.keras", folder / "target.onnx", "--verify")
    onnx.checker.check_model(str(folder / "target.onnx"), full_check=True)
    x = RANDOM.standard_normal((3, 6, 5, 3)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(folder / "target.onnx"))
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    assert_close({"y": found}, {"y": network(x).numpy()})
