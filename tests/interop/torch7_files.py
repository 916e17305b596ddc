#!/usr/bin/env python3
"""Compares files of Torch7 with what OpenCV 4.11 and torchfile make of them: tensors bit for bit, outputs within 1e-5 of the
largest value. Torch7 itself has no package: `corpus/make_torch7.py` writes the files, as torch.save of Lua does.

    python tests/interop/torch7_files.py --ckpt target/debug/ckpt     (packages: requirements-opencv.txt)
"""

import pathlib
import sys

import cv2
import numpy as np
import torchfile
from harness import check, ckpt, convert, main

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "corpus"))
from make_torch7 import Function, Module, Storage, Tensor, empty, row_major, save  # noqa: E402

LARGEST_ERROR = 1e-5
DTYPES = {"uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
          "float32": "Float", "float64": "Double"}
MODES = {"binary": {}, "ascii": {"ascii": True}, "longs of 4 bytes": {"long": 4}, "no versions": {"versions": False}}


def tensor(array) -> Tensor:
    array = np.ascontiguousarray(array)
    return Tensor(Storage(DTYPES[array.dtype.name], array.ravel().tolist()), array.shape)


class Net:
    """Makes layers with random weights."""

    def __init__(self, seed=5):
        self.random = np.random.default_rng(seed)

    def weights(self, *shape, spread=None):
        spread = spread or 1 / np.sqrt(np.prod(shape[1:]) or 1)
        return tensor(self.random.normal(0, spread, shape).astype("f4"))

    def positive(self, *shape):
        return tensor(self.random.uniform(0.5, 1.5, shape).astype("f4"))

    def conv(self, inputs, outputs, size=3, stride=1, pad=0, kind="SpatialConvolution", bias=True, **more):
        shape = (outputs, inputs * size * size) if kind == "SpatialConvolutionMM" else (outputs, inputs, size, size)
        if kind == "SpatialFullConvolution":
            shape = (inputs, outputs, size, size)
        fields = {"nInputPlane": inputs, "nOutputPlane": outputs, "kW": size, "kH": size, "dW": stride, "dH": stride,
                  "padW": pad, "padH": pad, "weight": self.weights(*shape), **more}
        if bias:
            fields["bias"] = self.weights(outputs, spread=0.1)
        return Module(f"nn.{kind}", **fields)

    def linear(self, inputs, outputs):
        return Module("nn.Linear", weight=self.weights(outputs, inputs), bias=self.weights(outputs, spread=0.1))

    def norm(self, channels, kind="SpatialBatchNormalization", affine=True, std=False, eps=1e-3):
        fields = {"eps": eps, "nOutput": channels, "affine": affine, "running_mean": self.weights(channels, spread=0.2)}
        fields["running_std" if std else "running_var"] = self.positive(channels)
        if affine:
            fields |= {"weight": self.positive(channels), "bias": self.weights(channels, spread=0.2)}
        return Module(f"nn.{kind}", **fields)


def sequential(*layers) -> Module:
    return Module("nn.Sequential", modules=list(layers), train=False)


def plain(kind, **fields) -> Module:
    return Module(f"nn.{kind}", train=False, **fields)


def pool(kind, size, stride, pad=0, ceil=False, **more) -> Module:
    return Module(f"nn.Spatial{kind}Pooling", kW=size, kH=size, dW=stride, dH=stride, padW=pad, padH=pad, ceil_mode=ceil, **more)


def shaped(kind, *size, **more) -> Module:
    return Module(f"nn.{kind}", size=Storage("Long", size), **more)


def lenet(net):
    layers = [net.conv(1, 6, 5), plain("Tanh"), pool("Max", 2, 2), net.conv(6, 8, 3, kind="SpatialConvolutionMM"), plain("ReLU"),
              pool("Max", 3, 2, ceil=True), shaped("Reshape", 200, batchMode=True, nelement=200), net.linear(200, 20),
              plain("Sigmoid"), net.linear(20, 10), plain("LogSoftMax")]
    return sequential(*layers), (2, 1, 28, 28)


def view(net):
    layers = [net.conv(2, 3, pad=1, bias=False), plain("ELU", alpha=0.7), shaped("View", -1, 3 * 36, numElements=108), net.linear(108, 4),
              plain("SoftMax")]
    return sequential(*layers), (1, 2, 6, 6)


def resnet(net):
    def block(channels):
        inner = sequential(net.conv(channels, channels, pad=1), net.norm(channels), plain("ReLU"),
                           net.conv(channels, channels, pad=1, kind="SpatialConvolutionMM"), net.norm(channels, std=True))
        return [Module("nn.ConcatTable", modules=[inner, plain("Identity")]), plain("CAddTable"), plain("ReLU")]

    layers = [net.conv(3, 8, 3, 2, 1), net.norm(8, affine=False), plain("PReLU", nOutputPlane=8, weight=net.weights(8)),
              *block(8), pool("Max", 3, 2, 1), *block(8), pool("Average", 3, 2, 1, count_include_pad=True),
              plain("Dropout", p=0.3, v2=True), shaped("Reshape", 8 * 16, batchMode=True), net.linear(128, 5)]
    return sequential(*layers), (2, 3, 32, 32)


def inception(net):
    branches = [sequential(net.conv(4, 6, 1), plain("ReLU"), net.conv(6, 5, 3, pad=1)),
                sequential(pool("Max", 3, 1, 1), net.conv(4, 3, 1)),
                sequential(pool("Average", 3, 1, 1, count_include_pad=False), net.conv(4, 2, 1))]
    layers = [net.conv(3, 4, 3, 2), plain("SpatialCrossMapLRN", size=5, alpha=0.2, beta=0.75, k=1.0),
              Module("nn.Concat", dimension=2, modules=branches), plain("SpatialDropout", p=0.25),
              plain("PReLU", nOutputPlane=0, weight=net.weights(1)),
              Module("nn.ConcatTable", modules=[net.conv(10, 2, 1), sequential(net.conv(10, 3, 1), plain("Tanh"))]),
              plain("JoinTable", dimension=2, nInputDims=0)]
    return sequential(*layers), (2, 3, 19, 19)


def padded(net):
    pads = {"pad_l": 1, "pad_r": 2, "pad_t": 0, "pad_b": 3}
    layers = [plain("SpatialZeroPadding", **pads), net.conv(2, 4, 3, 2, pad=1), plain("SpatialReflectionPadding", **pads),
              net.conv(4, 4, 3, 1, 2, kind="SpatialDilatedConvolution", dilationW=2, dilationH=2),
              net.conv(4, 3, 3, 2, 1, kind="SpatialFullConvolution", adjW=1, adjH=1), plain("MulConstant", constant_scalar=0.5),
              plain("Square"), plain("Sqrt"), plain("Power", pow=2)]
    return sequential(*layers), (2, 2, 11, 13)


def ceil(net):
    """Windows that reach over the end, with padding and without."""
    layers = [net.conv(1, 2, 1), pool("Max", 3, 2, 1, ceil=True), pool("Average", 3, 2, 1, ceil=True, count_include_pad=True),
              pool("Average", 2, 2, ceil=True, count_include_pad=True), pool("Max", 2, 2, ceil=True)]
    return sequential(*layers), (2, 1, 31, 42)


def vectors(net):
    layers = [net.linear(12, 9), net.norm(9, "BatchNormalization"), plain("ReLU"), net.linear(9, 7),
              plain("PReLU", nOutputPlane=7, weight=net.weights(7)), net.linear(7, 3)]
    return sequential(*layers), (3, 12)


NETS = {"lenet": lenet, "view": view, "resnet": resnet, "inception": inception, "padded": padded, "ceil": ceil, "vectors": vectors}


def run(folder, model, x) -> dict[str, np.ndarray]:
    """What `ckpt run` computes."""
    np.savez(folder / "x.npz", x=x)
    done = ckpt("run", model, "--input", f"input={folder / 'x.npz'}:x", "-o", folder / "y.npz", "--force")
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(np.load(folder / "y.npz"))


def assert_close(found, expected) -> None:
    assert found.shape == expected.shape, f"{found.shape} instead of {expected.shape}"
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error <= LARGEST_ERROR, f"differs by {error:e} of the largest value"


@check(*[f"{net}, {mode}" for net in NETS for mode in ("binary", "ascii")])
def networks_compute_what_opencv_computes(folder, name):
    name, mode = name.split(", ")
    net, shape = NETS[name](Net())
    path = folder / "m.t7"
    path.write_bytes(save(net, **MODES[mode]))
    x = np.random.default_rng(3).uniform(-1, 1, shape).astype("f4")
    judge = cv2.dnn.readNetFromTorch(str(path), mode == "binary")
    # Fused layers are rounded otherwise.
    judge.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    judge.enableFusion(False)
    judge.enableWinograd(False)
    judge.setInput(x)
    expected = judge.forward()
    assert_close(run(folder, path, x)["output"], expected)


@check("LeakyReLU", "HardTanh", "ReLU6", "Threshold", "Dropout", "SoftSign", "SpatialUpSamplingNearest", "CSubTable", "CMaxTable", "ParallelTable",
       "SpatialReplicationPadding", "AddConstant")
def layers_that_opencv_lacks_compute_what_torch7_states(folder, name):
    net = Net()
    first = net.conv(2, 2, 1)
    weight, bias = (np.array(first.fields[field].storage.values, "f4") for field in ("weight", "bias"))
    x = np.random.default_rng(3).uniform(-4, 4, (2, 2, 3, 4)).astype("f4")
    y = np.einsum("oi,nihw->nohw", weight.reshape(2, 2).astype("f8"), x) + bias[:, None, None]
    both = Module("nn.ConcatTable", modules=[plain("Identity"), plain("Tanh")])
    layers, expected = {
        "LeakyReLU": ([plain("LeakyReLU", negval=0.2)], np.where(y < 0, 0.2 * y, y)),
        "HardTanh": ([plain("HardTanh", min_val=-0.5, max_val=2)], y.clip(-0.5, 2)),
        "ReLU6": ([plain("ReLU6")], y.clip(0, 6)),
        "Threshold": ([plain("Threshold", threshold=0, val=0)], y.clip(0)),
        "Dropout": ([plain("Dropout", p=0.25)], 0.75 * y),
        "SoftSign": ([plain("SoftSign")], y / (1 + np.abs(y))),
        "SpatialUpSamplingNearest": ([plain("SpatialUpSamplingNearest", scale_factor=2)], y.repeat(2, 2).repeat(2, 3)),
        "CSubTable": ([both, plain("CSubTable")], y - np.tanh(y)),
        "CMaxTable": ([both, plain("CMaxTable")], np.maximum(y, np.tanh(y))),
        "ParallelTable": ([both, Module("nn.ParallelTable", modules=[plain("Abs"), plain("Identity")]), plain("CMulTable")],
                          np.abs(y) * np.tanh(y)),
        "SpatialReplicationPadding": ([plain("SpatialReplicationPadding", pad_l=1, pad_r=0, pad_t=2, pad_b=1)],
                                      np.pad(y, ((0, 0), (0, 0), (2, 1), (1, 0)), "edge")),
        "AddConstant": ([plain("AddConstant", constant_scalar=1.5)], y + 1.5),
    }[name]
    path = folder / "m.t7"
    path.write_bytes(save(sequential(first, *layers)))
    assert_close(run(folder, path, x)["output"], expected)


def names(value, path, found, seen):
    """The arrays of what torchfile returns, by the names that `ckpt` gives them."""
    if isinstance(value, torchfile.TorchObject):
        value = value._obj
    if isinstance(value, np.ndarray):
        found[path] = value
        return
    if id(value) in seen:
        return
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value, 1)
    else:
        return
    seen.add(id(value))
    for key, own in pairs:
        key = key.decode() if isinstance(key, bytes) else str(key)
        names(own, f"{path}.{key}" if path else key, found, seen)


def arrays(folder, model) -> dict[str, np.ndarray]:
    """What `ckpt` converts to npz."""
    convert(model, folder / "o.npz", "--force")
    return dict(np.load(folder / "o.npz"))


def assert_same(found, expected) -> None:
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
    for name, value in expected.items():
        assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
        assert found[name].tobytes() == np.ascontiguousarray(value).tobytes(), f"{name}: other bits"


@check(*NETS)
def networks_have_the_tensors_that_torchfile_finds(folder, name):
    net, _ = NETS[name](Net())
    path = folder / "m.t7"
    path.write_bytes(save(net))
    expected = {}
    names(torchfile.load(str(path)), "", expected, set())
    # A storage of few longs is metadata.
    expected = {name: value for name, value in expected.items() if not name.endswith(".size")}
    assert len(expected) >= 2
    assert_same(arrays(folder, path), expected)


def everything() -> tuple[dict, dict[str, np.ndarray]]:
    """Tensors of every type, views, and what is beside them; and the arrays that they are."""
    random = np.random.default_rng(11)
    value, expected = {}, {}
    for dtype, element in DTYPES.items():
        array = random.integers(0, 100, (3, 4)).astype(dtype)
        if array.dtype.kind == "f":
            array = random.normal(0, 100, (3, 4)).astype(dtype)
            array[0, :3] = np.inf, -0.0, -np.inf
        for device in (False, True):
            name = f"{element}{'_device' if device else ''}"
            value[name] = Tensor(Storage(element, array.ravel().tolist(), device), array.shape)
            expected[name] = array
    base = random.normal(0, 1, 5000).astype("f4")
    storage = Storage("Float", base.tolist())
    for name, shape, strides, offset in [
        ("whole", [5000], [1], 0), ("row", [50, 100], [100, 1], 0), ("column", [100, 50], [1, 100], 0), ("part", [7, 300], [300, 1], 2000),
        ("box", [10, 5], [100, 1], 1203), ("steps", [3, 4, 2], [1000, 7, 400], 1), ("expanded", [3, 5], [0, 2], 4990),
        ("last", [1], [1], 4999), ("unit", [1, 6, 1], [77, 1, 5], 1023),
    ]:
        value[name] = Tensor(storage, shape, strides, offset)
        expected[name] = np.lib.stride_tricks.as_strided(base[offset:], shape, [4 * stride for stride in strides])
    value["empty"] = empty()
    expected["empty"] = np.empty(0, "f4")
    return value, expected


@check(*MODES)
def tensors_of_every_type_and_view_are_read_as_they_are(folder, mode):
    value, expected = everything()
    value |= {"f": Function(b"\x1bLua\0", [{"name": "_ENV", "value": None}]), "text": "a\nb", "number": 0.1, "list": [True, None, -3]}
    value["self"] = value
    path = folder / "m.t7"
    path.write_bytes(save(value, **MODES[mode]))
    if mode == "longs of 4 bytes":
        expected |= {name: expected[name].astype("i4") for name in ("Long", "Long_device")}
    assert_same(arrays(folder, path), expected)


@check("binary", "no versions")
def tensors_of_every_type_and_view_are_those_of_torchfile(folder, mode):
    value, expected = everything()
    # What torchfile lacks, or takes for another type.
    for name in ("Half", "Half_device", "Long_device"):
        del value[name], expected[name]
    path = folder / "m.t7"
    path.write_bytes(save(value, **MODES[mode]))
    found = {}
    names(torchfile.load(str(path)), "", found, set())
    found["empty"] = found["empty"].astype("f4")
    assert_same(found, expected)
    assert_same(arrays(folder, path), found)


@check("binary", "ascii")
def a_tensor_is_what_opencv_reads(folder, mode):
    array = np.random.default_rng(2).normal(0, 1, (2, 3, 4, 5)).astype("f4")
    path = folder / "m.t7"
    assert row_major(array.shape) == [60, 20, 5, 1]
    path.write_bytes(save(tensor(array), **MODES[mode]))
    blob = cv2.dnn.readTorchBlob(str(path), mode == "binary")
    assert blob.tobytes() == array.tobytes()
    assert_same(arrays(folder, path), {"value": blob.reshape(array.shape)})


if __name__ == "__main__":
    sys.exit(main(__doc__, cv2, np))
