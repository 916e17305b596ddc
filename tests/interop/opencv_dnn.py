#!/usr/bin/env python3
"""Compares models of Darknet and Caffe with what OpenCV 4.11 makes of them: weights bit for bit, outputs within 1e-5 of the
largest value. The models are random, and have the layers of YOLO, ResNet and SSD.

    python tests/interop/opencv_dnn.py --ckpt target/debug/ckpt     (packages: requirements-opencv.txt)
"""

import struct
import sys

import cv2
import numpy as np
from harness import check, ckpt, convert, load, main

LARGEST_ERROR = 1e-5


def run(folder, model, x, *options) -> dict[str, np.ndarray]:
    """What `ckpt run` computes."""
    np.savez(folder / "x.npz", data=x)
    done = ckpt("run", model, "--input", f"data={folder / 'x.npz'}:data", "-o", folder / "y.npz", "--force", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(np.load(folder / "y.npz"))


def assert_close(found, expected) -> None:
    assert found.shape == expected.shape, f"{found.shape} instead of {expected.shape}"
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error <= LARGEST_ERROR, f"differs by {error:e} of the largest value"


def opencv(net, x, names=None) -> dict[str, np.ndarray]:
    """The outputs, computed layer by layer: fused ones are rounded otherwise."""
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    net.setInput(x)
    names = names or list(net.getUnconnectedOutLayersNames())
    return dict(zip(names, net.forward(names)))


# Darknet

def section(name, **options) -> str:
    return "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in options.items()), "", ""])


def conv(filters, size=3, stride=1, norm=1, activation="leaky", **more) -> tuple[str, dict]:
    options = {"batch_normalize": norm, "filters": filters, "size": size, "stride": stride, "pad": 1,
               "activation": activation, **more}
    return "convolutional", {key: value for key, value in options.items() if (key, value) != ("batch_normalize", 0)}


def darknet(folder, side, layers, seed, classes=None):
    """Writes a model, and returns its files and tensors. Shapes are computed here, as Darknet's loader does."""
    random = np.random.default_rng(seed)
    shapes, tensors, data = [], {}, [struct.pack("<3iQ", 0, 2, 5, 32013312)]
    channels = 3

    def tensor(index, kind, part, value):
        value = value.astype("<f4")
        tensors[f"{index:03}.{kind}.{part}"] = value
        data.append(value.tobytes())

    for index, (kind, options) in enumerate(layers):
        if kind == "convolutional":
            filters, size = options["filters"], options["size"]
            inputs = channels // options.get("groups", 1)
            tensor(index, kind, "bias", random.normal(0, 0.1, filters))
            if options.get("batch_normalize"):
                tensor(index, kind, "scale", random.uniform(0.5, 1.5, filters))
                tensor(index, kind, "mean", random.normal(0, 0.1, filters))
                tensor(index, kind, "variance", random.uniform(0.5, 1.5, filters))
            spread = 1 / np.sqrt(inputs * size * size)
            tensor(index, kind, "weight", random.normal(0, spread, (filters, inputs, size, size)))
            channels = filters
        elif kind == "route":
            sources = [int(number) for number in str(options["layers"]).split(",")]
            channels = sum(shapes[number if number >= 0 else index + number] for number in sources) // options.get("groups", 1)
        elif kind == "reorg":
            channels *= options["stride"] ** 2
        shapes.append(channels)
    cfg = section("net", batch=1, width=side, height=side, channels=3)
    cfg += "".join(section(kind, **options) for kind, options in layers)
    (folder / "m.cfg").write_text(cfg)
    (folder / "m.weights").write_bytes(b"".join(data))
    x = random.uniform(0, 1, (1, 3, side, side)).astype("f4")
    return folder / "m.cfg", folder / "m.weights", tensors, x


def yolov3_tiny():
    pool = ("maxpool", {"size": 2, "stride": 2})
    layers = [conv(4), pool, conv(8), pool, conv(16), pool, conv(32), pool, conv(32), pool, conv(48),
              ("maxpool", {"size": 2, "stride": 1}), conv(64), conv(24, 1), conv(48), conv(21, 1, norm=0, activation="linear")]
    anchors = "10,14, 23,27, 37,58, 81,82, 135,169, 344,319"
    yolo = {"anchors": anchors, "classes": 2, "num": 6}
    layers += [("yolo", {"mask": "3,4,5", **yolo}), ("route", {"layers": "-4"}), conv(12, 1), ("upsample", {"stride": 2}),
               ("route", {"layers": "-1,8"}), conv(32), conv(21, 1, norm=0, activation="linear"),
               ("yolo", {"mask": "0,1,2", **yolo})]
    return 160, layers


def yolov4_tiny():
    """Halves of channels, mish and swish, and centers that reach beyond their cells."""
    layers = [conv(8, stride=2), conv(16, activation="mish"), ("route", {"layers": -1, "groups": 2, "group_id": 1}),
              conv(8), conv(8, activation="swish"), ("route", {"layers": "-1,-2"}), conv(16, 1),
              ("route", {"layers": "-6,-1"}), ("maxpool", {"size": 5, "stride": 1}),
              conv(21, 1, norm=0, activation="linear"),
              ("yolo", {"mask": "0,1,2", "anchors": "10,14, 23,27, 37,58", "classes": 2, "num": 3, "scale_x_y": 1.05})]
    return 32, layers


def yolov2():
    """Channels of places, and classes that exclude each other."""
    layers = [conv(8), ("maxpool", {"size": 2, "stride": 2}), conv(16), conv(4, 1), ("maxpool", {"size": 2, "stride": 2}),
              conv(16), ("route", {"layers": "-3"}), ("reorg", {"stride": 2}), ("route", {"layers": "-1,-3"}),
              conv(16, activation="linear", norm=0),
              ("region", {"anchors": "1.3,1.7, 3.2,4.0", "classes": 3, "coords": 4, "num": 2, "softmax": 1, "thresh": 0.01})]
    return 32, layers


def darknet_resnet():
    layers = [conv(8, stride=2)]
    for filters in (8, 8):
        layers += [conv(filters // 2, 1), conv(filters), ("shortcut", {"from": -3, "activation": "linear"})]
    layers += [conv(16, stride=2), conv(8, 1), conv(16, groups=2), ("shortcut", {"from": -3, "activation": "leaky"}),
               ("avgpool", {}), conv(7, 1, norm=0, activation="linear"), ("softmax", {"groups": 1})]
    return 32, layers


DARKNET = {"yolov3_tiny": yolov3_tiny, "yolov4_tiny": yolov4_tiny, "yolov2": yolov2, "resnet": darknet_resnet}


@check(*DARKNET)
def networks_of_darknet_compute_what_opencv_computes(folder, name):
    cfg, weights, _, x = darknet(folder, *DARKNET[name](), seed=7)
    net = cv2.dnn.readNetFromDarknet(str(cfg), str(weights))
    expected = opencv(net, x)
    found = run(folder, weights, x)
    assert found.keys() == expected.keys(), (found.keys(), expected.keys())
    for output, value in expected.items():
        if name == "yolov2":
            # OpenCV removes boxes that overlap: their scores are 0.
            kept = value[:, 5:] != 0
            assert kept.any() and np.array_equal(found[output][:, 5:] != 0, kept | (found[output][:, 5:] != 0))
            found[output][:, 5:] *= kept
        assert_close(found[output], value)


@check(*DARKNET)
def weights_of_darknet_are_those_that_were_written(folder, name):
    cfg, weights, tensors, _ = darknet(folder, *DARKNET[name](), seed=8)
    convert(weights, folder / "m.safetensors")
    found = load(folder / "m.safetensors")
    assert found.keys() == tensors.keys()
    assert all(np.array_equal(found[own], value) for own, value in tensors.items())
    net = cv2.dnn.readNetFromDarknet(str(cfg), str(weights))
    convolutions = [own for own in tensors if own.endswith("convolutional.weight")]
    for own in convolutions:
        assert np.array_equal(net.getParam(f"conv_{int(own[:3])}", 0), found[own]), own
    assert len(convolutions) > 3


@check("yolov3_tiny")
def weights_of_darknet_come_back(folder, name):
    cfg, weights, _, x = darknet(folder, *DARKNET[name](), seed=9)
    convert(weights, folder / "again.weights")
    assert (folder / "again.weights").read_bytes() == weights.read_bytes()
    assert (folder / "again.cfg").read_bytes() == cfg.read_bytes()
    # By way of a format that keeps names and values alone.
    convert(weights, folder / "m.npz", "--allow", "graph-dropped")
    convert(folder / "m.npz", folder / "third.weights", "--set", f"cfg={cfg}")
    assert (folder / "third.weights").read_bytes()[20:] == weights.read_bytes()[20:]
    net = cv2.dnn.readNetFromDarknet(str(folder / "third.cfg"), str(folder / "third.weights"))
    for output, value in opencv(net, x).items():
        assert_close(run(folder, weights, x)[output], value)


# Caffe

def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def blob(value: np.ndarray) -> bytes:
    """As Caffe writes it: fields by their numbers."""
    return field(5, value.astype("<f4").tobytes()) + field(7, field(1, b"".join(map(varint, value.shape))))


class Caffe:
    """Layers as text, and their blobs."""

    def __init__(self, shape, seed):
        self.random = np.random.default_rng(seed)
        dims = " ".join(f"dim: {length}" for length in shape)
        self.text = [f'name: "random"\nlayer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}']
        self.layers, self.tensors, self.shape = [], {}, shape

    def add(self, name, kind, bottoms, options="", blobs=(), tops=None) -> str:
        bottoms = [bottoms] if isinstance(bottoms, str) else bottoms
        wires = "".join(f' bottom: "{bottom}"' for bottom in bottoms) + "".join(f' top: "{top}"' for top in tops or [name])
        self.text.append(f'layer {{ name: "{name}" type: "{kind}"{wires} {options} }}')
        blobs = [np.asarray(value, "f4") for value in blobs]
        self.layers.append(field(100, field(1, name.encode()) + field(2, kind.encode()) + b"".join(field(7, blob(own)) for own in blobs)))
        self.tensors |= {f"{name}/{number}": value for number, value in enumerate(blobs)}
        return name

    def normal(self, *shape) -> np.ndarray:
        return self.random.normal(0, 1 / np.sqrt(max(1, np.prod(shape[1:]))), shape)

    def conv(self, name, bottom, inputs, outputs, size=3, options="pad: 1", bias=True, group=1) -> str:
        own = f"convolution_param {{ num_output: {outputs} kernel_size: {size} group: {group} bias_term: {str(bias).lower()} {options} }}"
        blobs = [self.normal(outputs, inputs // group, size, size)] + [self.random.normal(0, 0.1, outputs)] * bias
        return self.add(name, "Convolution", bottom, own, blobs)

    def norm(self, name, bottom, channels, factor=999.98) -> str:
        statistics = [self.random.normal(0, 0.1, channels) * factor, self.random.uniform(0.5, 1.5, channels) * factor, [factor]]
        self.add(name, "BatchNorm", bottom, "", statistics)
        return self.add(f"{name}_scale", "Scale", name, "scale_param { bias_term: true }",
                        [self.random.uniform(0.5, 1.5, channels), self.random.normal(0, 0.1, channels)])

    def write(self, folder):
        (folder / "m.prototxt").write_text("\n".join(self.text) + "\n")
        (folder / "m.caffemodel").write_bytes(field(1, b"random") + b"".join(self.layers))
        x = self.random.uniform(-1, 1, self.shape).astype("f4")
        return folder / "m.prototxt", folder / "m.caffemodel", x


def caffe_resnet(seed):
    net = Caffe((1, 3, 33, 31), seed)
    net.conv("conv1", "data", 3, 8, 7, "pad: 3 stride: 2", bias=False)
    last = net.add("relu1", "ReLU", net.norm("bn1", "conv1", 8))
    last = net.add("pool1", "Pooling", last, "pooling_param { pool: MAX kernel_size: 3 stride: 2 }")
    inputs = 8
    for block, (outputs, stride) in enumerate([(8, 1), (16, 2)]):
        short = last
        if stride > 1:
            net.conv(f"s{block}", last, inputs, outputs, 1, f"stride: {stride}", bias=False)
            short = net.norm(f"sbn{block}", f"s{block}", outputs, 1)
        net.conv(f"a{block}", last, inputs, outputs, 3, f"pad: 1 stride: {stride}", bias=False)
        net.add(f"ar{block}", "ReLU", net.norm(f"abn{block}", f"a{block}", outputs))
        net.conv(f"b{block}", f"ar{block}", outputs, outputs, 3, bias=False)
        sum_ = net.add(f"sum{block}", "Eltwise", [short, net.norm(f"bbn{block}", f"b{block}", outputs)])
        last, inputs = net.add(f"r{block}", "ReLU", sum_), outputs
    last = net.add("mean", "Pooling", last, "pooling_param { pool: AVE global_pooling: true }")
    net.add("fc", "InnerProduct", last, "inner_product_param { num_output: 10 }", [net.normal(10, 16), net.random.normal(0, 0.1, 10)])
    net.add("prob", "Softmax", "fc")
    return net


def caffe_ssd(seed):
    net = Caffe((1, 3, 38, 38), seed)
    net.add("r1", "ReLU", net.conv("conv1", "data", 3, 8))
    net.add("pool1", "Pooling", "r1", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }")
    net.add("r2", "ReLU", net.conv("conv2", "pool1", 8, 16))
    net.add("norm", "Normalize", "r2", "norm_param { across_spatial: false channel_shared: false }", [net.random.uniform(10, 20, 16)])
    net.add("pool2", "Pooling", "r2", "pooling_param { pool: MAX kernel_size: 3 stride: 1 pad: 1 }")
    net.add("r3", "ReLU", net.conv("conv3", "pool2", 16, 16, 3, "pad: 6 dilation: 6"))
    net.add("r4", "ReLU", net.conv("conv4", "r3", 16, 12, 3, "stride: 2 pad: 1"))
    parts = {"loc": [], "conf": []}
    for source, inputs in [("norm", 16), ("r4", 12)]:
        for part, outputs in [("loc", 4 * 4), ("conf", 4 * 3)]:
            own = net.conv(f"{source}_{part}", source, inputs, outputs)
            own = net.add(f"{own}_perm", "Permute", own, "permute_param { order: 0 order: 2 order: 3 order: 1 }")
            parts[part].append(net.add(f"{own}_flat", "Flatten", own, "flatten_param { axis: 1 }"))
    net.add("mbox_loc", "Concat", parts["loc"], "concat_param { axis: 1 }")
    net.add("mbox_conf", "Concat", parts["conf"], "concat_param { axis: 1 }")
    net.add("reshaped", "Reshape", "mbox_conf", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }")
    net.add("softmax", "Softmax", "reshaped", "softmax_param { axis: 2 }")
    net.add("flat", "Flatten", "softmax", "flatten_param { axis: 1 }")
    return net


def caffe_alexnet(seed):
    """Responses of neighbors (OpenCV ignores their `k`), groups, and means that reach over the end of the image."""
    net = Caffe((1, 3, 30, 29), seed)
    net.add("r1", "ReLU", net.conv("conv1", "data", 3, 8, 5, "stride: 2"))
    net.add("lrn1", "LRN", "r1", "lrn_param { local_size: 5 alpha: 0.3 beta: 0.75 }")
    net.add("pool1", "Pooling", "lrn1", "pooling_param { pool: AVE kernel_size: 3 stride: 2 }")
    net.add("r2", "ReLU", net.conv("conv2", "pool1", 8, 12, 3, "pad: 1", group=2), "relu_param { negative_slope: 0.2 }")
    net.add("pool2", "Pooling", "r2", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }")
    net.add("fc6", "InnerProduct", "pool2", "inner_product_param { num_output: 20 }", [net.normal(20, 12 * 4 * 4), net.normal(20)])
    net.add("drop6", "Dropout", "fc6", "dropout_param { dropout_ratio: 0.5 }")
    net.add("fc7", "InnerProduct", "drop6", "inner_product_param { num_output: 6 }", [net.normal(6, 20), net.normal(6)])
    net.add("prob", "Softmax", "fc7")
    return net


def caffe_others(seed):
    """The other layers, one after the other."""
    net = Caffe((1, 4, 12, 10), seed)
    net.add("prelu", "PReLU", "data", "", [net.random.uniform(0, 1, 4)])
    net.add("up", "Deconvolution", "prelu", "convolution_param { num_output: 6 kernel_size: 4 stride: 2 pad: 1 group: 2 }",
            [net.normal(4, 3, 4, 4), net.normal(6)])
    net.add("crop", "Crop", ["up", "data"], "crop_param { axis: 2 offset: 3 offset: 5 }")
    net.add("slice", "Slice", "crop", "slice_param { axis: 1 slice_point: 2 }", tops=["first", "rest"])
    net.add("tanh", "TanH", "first")
    net.add("sigmoid", "Sigmoid", "rest")
    net.add("join", "Concat", ["sigmoid", "tanh"])
    net.add("power", "Power", "join", "power_param { power: 2 scale: 0.5 shift: 1.5 }")
    net.add("abs", "AbsVal", "join")
    net.add("elu", "ELU", "join")
    net.add("most", "Eltwise", ["abs", "elu"], "eltwise_param { operation: MAX }")
    net.add("product", "Eltwise", ["most", "power"], "eltwise_param { operation: PROD }")
    net.add("sum", "Eltwise", ["product", "join"], "eltwise_param { coeff: 0.5 coeff: -2 }")
    net.add("bnll", "BNLL", "sum")
    net.add("end", "Reshape", "bnll", "reshape_param { shape { dim: 0 dim: 3 dim: -1 } }")
    return net


CAFFE = {"resnet": caffe_resnet, "ssd": caffe_ssd, "alexnet": caffe_alexnet, "others": caffe_others}


@check(*CAFFE)
def networks_of_caffe_compute_what_opencv_computes(folder, name):
    text, model, x = CAFFE[name](7).write(folder)
    expected = opencv(cv2.dnn.readNetFromCaffe(str(text), str(model)), x)
    found = run(folder, model, x)
    assert found.keys() == expected.keys(), (found.keys(), expected.keys())
    for output, value in expected.items():
        assert_close(found[output], value)


@check(*CAFFE)
def blobs_of_caffe_are_those_that_were_written(folder, name):
    net = CAFFE[name](8)
    text, model, _ = net.write(folder)
    convert(model, folder / "m.safetensors")
    found = load(folder / "m.safetensors")
    assert found.keys() == net.tensors.keys()
    assert all(np.array_equal(found[own], value) for own, value in net.tensors.items())
    other = cv2.dnn.readNetFromCaffe(str(text), str(model))
    weights = [own for own in net.tensors if own.endswith("/0") and net.tensors[own].ndim == 4 and not own.startswith("up")]
    for own in weights:
        assert np.array_equal(other.getParam(own[:-2], 0), found[own]), own


@check("resnet")
def models_of_caffe_come_back_and_take_other_values(folder, name):
    net = CAFFE[name](9)
    text, model, x = net.write(folder)
    convert(model, folder / "again.caffemodel")
    assert (folder / "again.caffemodel").read_bytes() == model.read_bytes()
    assert (folder / "again.prototxt").read_bytes() == text.read_bytes()
    other = folder / "other"
    other.mkdir()
    changed = CAFFE[name](10)
    _, wanted, _ = changed.write(other)
    np.savez(folder / "values.npz", **changed.tensors)
    convert(folder / "values.npz", folder / "new.caffemodel", "--set", f"like={model}")
    assert (folder / "new.caffemodel").read_bytes() == wanted.read_bytes()
    expected = opencv(cv2.dnn.readNetFromCaffe(str(text), str(folder / "new.caffemodel")), x)
    for output, value in expected.items():
        assert_close(run(folder, wanted, x)[output], value)


@check()
def halves_that_opencv_writes_are_read(folder):
    net = CAFFE["alexnet"](11)
    _, model, _ = net.write(folder)
    cv2.dnn.shrinkCaffeModel(str(model), str(folder / "half.caffemodel"))
    convert(folder / "half.caffemodel", folder / "half.safetensors")
    found = load(folder / "half.safetensors")
    halves = [own for own in found if found[own].dtype == np.float16]
    assert found.keys() == net.tensors.keys() and len(halves) >= 4
    for own in halves:
        assert np.array_equal(found[own], net.tensors[own].astype("f2")), own


if __name__ == "__main__":
    sys.exit(main(__doc__, cv2, np))
