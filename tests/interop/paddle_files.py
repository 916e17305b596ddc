#!/usr/bin/env python3
"""Reads what PaddlePaddle saves, lets it load what `ckpt` writes, and compares what models compute.

    python tests/interop/paddle_files.py --ckpt target/debug/ckpt     (packages: requirements-paddle.txt, and PyTorch)
"""

import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import ml_dtypes
import numpy as np
import paddle
import safetensors.numpy
import torch
from harness import assert_equal, check, ckpt, convert, load, main
from paddle import nn

DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64"]
paddle.seed(0)


def values(shape, dtype="float32", start=0):
    numbers = (np.arange(np.prod(shape, dtype=int)) * 37 + start) % 120 - (0 if np.dtype(dtype).kind in "ub" else 60)
    return numbers.reshape(shape).astype(dtype)


def network():
    """Layers of every kind that the mapping knows."""
    net = nn.Sequential(nn.Conv2D(3, 6, 3, padding=1), nn.BatchNorm2D(6), nn.PReLU(6), nn.Conv2DTranspose(6, 4, 2, stride=2),
                        nn.InstanceNorm2D(4), nn.MaxPool2D(2), nn.Flatten(), nn.Linear(4 * 8 * 8, 5), nn.LayerNorm(5), nn.Linear(5, 3, bias_attr=False))
    net[1]._mean.set_value(paddle.to_tensor(values([6]) / 60))
    net[1]._variance.set_value(paddle.to_tensor(abs(values([6])) / 60 + 0.5))
    net.eval()
    return net


def twin():
    """The same in PyTorch."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.BatchNorm2d(6), torch.nn.PReLU(6), torch.nn.ConvTranspose2d(6, 4, 2, stride=2),
        torch.nn.InstanceNorm2d(4, affine=True), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(4 * 8 * 8, 5), torch.nn.LayerNorm(5),
        torch.nn.Linear(5, 3, bias=False)).eval()


def arrays(state) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in state.items()}


@check(2, 3, 4)
def every_dtype_that_paddle_saves_is_read(folder, protocol):
    given = {dtype: values((3, 5), dtype) for dtype in DTYPES} | {"scalar": np.array(0.5, "float32"), "empty": np.zeros((0, 3), "float32")}
    paddle.save({name: paddle.to_tensor(value) for name, value in given.items()}, str(folder / "m.pdparams"), protocol=protocol)
    convert(folder / "m.pdparams", folder / "m.safetensors")
    assert_equal(load(folder / "m.safetensors"), given)


@check()
def a_training_checkpoint_is_read(folder):
    net = network()
    optimizer = paddle.optimizer.Adam(parameters=net.parameters())
    net(paddle.to_tensor(values((1, 3, 8, 8)) / 60)).sum().backward()
    optimizer.step()
    paddle.save({"model": net.state_dict(), "epoch": 3, "rates": [paddle.ones([2])]}, str(folder / "m.pdparams"))
    paddle.save(optimizer.state_dict(), str(folder / "m.pdopt"))
    convert(folder / "m.pdparams", folder / "m.safetensors")
    expected = {f"model.{name}": value for name, value in arrays(net.state_dict()).items()} | {"rates.0": np.ones(2, "float32")}
    assert_equal(load(folder / "m.safetensors"), expected)
    convert(folder / "m.pdopt", folder / "o.safetensors")
    state = {name: value.numpy() for name, value in optimizer.state_dict().items() if isinstance(value, paddle.Tensor)}
    assert state and load(folder / "o.safetensors").keys() == state.keys()


@check()
def what_is_written_loads_and_sets_the_state(folder):
    net, other = network(), network()
    safetensors.numpy.save_file(arrays(net.state_dict()), folder / "m.safetensors")
    convert(folder / "m.safetensors", folder / "m.pdparams")
    missing, unexpected = other.set_state_dict(paddle.load(str(folder / "m.pdparams")))
    assert not missing and not unexpected
    assert_equal(arrays(other.state_dict()), arrays(net.state_dict()))


@check()
def bf16_is_stored_as_paddle_stores_it(folder):
    given = {"weight": values((4, 3)).astype(ml_dtypes.bfloat16), "bias": values((3,)).astype(ml_dtypes.bfloat16)}
    torch_given = {name: torch.from_numpy(value.view("int16")).view(torch.bfloat16) for name, value in given.items()}
    torch.save(torch_given, folder / "m.pt")
    convert(folder / "m.pt", folder / "m.pdparams")
    layer = nn.Linear(4, 3).to(dtype="bfloat16")
    missing, unexpected = layer.set_state_dict(paddle.load(str(folder / "m.pdparams")))
    assert not missing and not unexpected
    assert all(np.array_equal(value.view("uint16"), layer.state_dict()[name].numpy().view("uint16")) for name, value in given.items())
    convert(folder / "m.pdparams", folder / "back.safetensors")
    assert_equal(load(folder / "back.safetensors"), given)
    paddle.save(layer.state_dict(), str(folder / "own.pdparams"))
    convert(folder / "own.pdparams", folder / "own.safetensors", "--from-set", "bf16=true")
    assert_equal(load(folder / "own.safetensors"), given)


@check()
def an_inference_model_computes_the_same(folder):
    net, x = network(), values((2, 3, 8, 8)) / 60
    paddle.jit.save(net, str(folder / "m"), input_spec=[paddle.static.InputSpec([None, 3, 8, 8], "float32", name="x")])
    np.savez(folder / "x.npz", x=x)
    done = ckpt("run", folder / "m.pdiparams", "--input", f"x={folder / 'x.npz'}:x", "--output", folder / "y.npz")
    assert done.returncode == 0, done.stderr
    (found,), expected = np.load(folder / "y.npz").values(), net(paddle.to_tensor(x)).numpy()
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
    convert(folder / "m.pdiparams", folder / "n.pdiparams")
    assert (folder / "m.pdiparams").read_bytes() == (folder / "n.pdiparams").read_bytes()


@check()
def pytorch_computes_the_same_with_the_mapping_and_the_way_back_is_exact(folder):
    net, other, x = network(), twin(), values((2, 3, 8, 8)) / 60
    paddle.save(net.state_dict(), str(folder / "m.pdparams"))
    convert(folder / "m.pdparams", folder / "m.safetensors", "--map", "paddle-to-torch")
    state = {name: torch.from_numpy(value.copy()) for name, value in load(folder / "m.safetensors").items()}
    other.load_state_dict(state)
    expected = net(paddle.to_tensor(x)).numpy()
    found = other(torch.from_numpy(x.astype("float32"))).detach().numpy()
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
    convert(folder / "m.safetensors", folder / "back.pdparams", "--to", "paddle", "--map", "paddle-to-torch", "--inverse", "--arch", folder / "m.pdparams")
    assert_equal(arrays(paddle.load(str(folder / "back.pdparams"))), arrays(net.state_dict()))


F, IMAGES = nn.functional, [4, 7, 6]


def weights(*shape):
    return lambda layer: layer.create_parameter(list(shape), default_initializer=nn.initializer.Normal())


def module(build):
    """A layer whose parameters are no longer all 0 or 1."""

    def built(_):
        layer = build()
        for parameter in layer.parameters():
            parameter.set_value(paddle.randn(parameter.shape))
        return layer

    return built


# By name: the shape of an input without the batch, a function, and what else that takes.
OPERATIONS = {
    "gelu": (IMAGES, lambda x: F.gelu(x, approximate=True)),
    "hardsigmoid": (IMAGES, lambda x: F.hardsigmoid(x, 0.3, 0.1)),
    "log_sigmoid": (IMAGES, F.log_sigmoid),
    "softmax": (IMAGES, lambda x: F.softmax(x, axis=1)),
    "scale": (IMAGES, lambda x: paddle.scale(x, 0.3, 0.7, bias_after_scale=False)),
    "pow": (IMAGES, lambda x: paddle.pow(paddle.abs(x) + 1, 1.5)),
    "argmax": (IMAGES, lambda x: paddle.argmax(x, axis=1, keepdim=True).astype("float32")),
    "integers": (IMAGES, lambda x: (x * 10).astype("int32").astype("float32")),
    "sum-of-parts": (IMAGES, lambda x: paddle.add_n(paddle.split(x, 2, axis=1))),
    "part-that-remains": (IMAGES, lambda x: paddle.split(x, [1, -1], axis=1)[1]),
    "squeeze": ([1, 3, 1], lambda x: paddle.squeeze(x, axis=[1, 2])),
    "squeeze-all": ([1, 3, 1], paddle.squeeze),
    "slice": (IMAGES, lambda x: x[:, ::2, -1]),
    "reshape": (IMAGES, lambda x: paddle.reshape(x, [0, 2, 2, -1])),
    "stack": ([3, 4], lambda x: paddle.stack([x, x * 2], axis=1)),
    "pad": (IMAGES, lambda x: F.pad(x, [1, 2, 2, 1], mode="reflect")),
    "nearest": (IMAGES, lambda x: F.interpolate(x, scale_factor=1.5, mode="nearest")),
    "bilinear": (IMAGES, lambda x: F.interpolate(x, size=[13, 4], mode="bilinear", align_mode=1)),
    "pixel_shuffle": ([8, 3, 3], lambda x: F.pixel_shuffle(x, 2)),
    "bmm": ([3, 5], lambda x: paddle.bmm(x, paddle.transpose(x, [0, 2, 1]))),
    "matmul": ([3, 5], lambda x, w: paddle.matmul(x, w, transpose_y=True), weights(4, 5)),
    "tied": ([5], lambda x, w: paddle.matmul(paddle.matmul(x, w), w, transpose_y=True), weights(5, 4)),
    "biases": ([5], lambda x, v, w, b, c: (lambda one, two: (one + b) * (two + c))(paddle.matmul(x, v), paddle.matmul(x, w)),
               weights(5, 4), weights(5, 4), weights(4), weights(4)),
    "prelu": (IMAGES, lambda x, layer: layer(x), module(lambda: nn.PReLU(4))),
    "layer-norm": ([3, 5], lambda x, layer: layer(x), module(lambda: nn.LayerNorm([3, 5]))),
    "group-norm": (IMAGES, lambda x, layer: layer(x), module(lambda: nn.GroupNorm(2, 4))),
    "conv": (IMAGES, lambda x, layer: layer(x), module(lambda: nn.Conv2D(4, 6, 3, groups=2, padding=[[0, 0], [0, 0], [1, 2], [0, 1]]))),
    "conv-same": (IMAGES, lambda x, layer: layer(x), module(lambda: nn.Conv2D(4, 3, 3, stride=2, padding="SAME"))),
    "conv1d": ([4, 9], lambda x, layer: layer(x), module(lambda: nn.Conv1D(4, 3, 3, stride=2, padding=1))),
    "conv1d-transposed": ([4, 9], lambda x, layer: layer(x), module(lambda: nn.Conv1DTranspose(4, 3, 3, stride=2))),
    "conv-transposed": (IMAGES, lambda x, layer: layer(x), module(lambda: nn.Conv2DTranspose(4, 3, 3, stride=2, padding=1, output_padding=1))),
    "max-ceil": (IMAGES, lambda x: F.max_pool2d(x, 3, 2, [1, 0, 0, 1], ceil_mode=True)),
    "max-same": (IMAGES, lambda x: F.max_pool2d(x, 3, 2, "SAME")),
    "max-3d": ([2, 5, 5, 4], lambda x: F.max_pool3d(x, 2, 2)),
    "mean-3d": ([2, 5, 5, 4], lambda x: F.avg_pool3d(x, 2, 2, 1)),
    "mean-ceil": (IMAGES, lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
    "mean-counting": (IMAGES, lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False)),
    "mean-counting-before": (IMAGES, lambda x: F.avg_pool2d(x, 3, 2, [1, 0, 1, 0], exclusive=False)),
    "adaptive": (IMAGES, lambda x: F.adaptive_avg_pool2d(x, [7, 3])),
    "attention": ([5, 8], lambda x, layer: layer(x), lambda _: nn.MultiHeadAttention(8, 2)),
}
# What Paddle computes of them has no graph.
REFUSED = {
    "prelu-last": (IMAGES, lambda x, layer: layer(x), module(lambda: nn.PReLU(6, data_format="NHWC"))),
    "group-norm-last": (IMAGES, lambda x, layer: layer(x), module(lambda: nn.GroupNorm(2, 6, data_format="NHWC"))),
    "nearest-last": (IMAGES, lambda x: F.interpolate(x, scale_factor=2, mode="nearest", data_format="NHWC")),
    "pad-last": (IMAGES, lambda x: F.pad(x, [1, 2, 2, 1], data_format="NHWC")),
    "mean-counting-behind": (IMAGES, lambda x: F.avg_pool2d(x, 3, 2, [0, 1, 1, 1], exclusive=False)),
    "mean-counting-same": (IMAGES, lambda x: F.avg_pool2d(x, 2, 2, "SAME", exclusive=False)),
}


class Model(nn.Layer):
    """A model of one function, and a parameter: without one, nothing is saved."""

    def __init__(self, function, *others):
        super().__init__()
        self.function, self.count = function, len(others)
        for at, build in enumerate(others):
            setattr(self, f"other{at}", build(self))
        self.factor = self.create_parameter([1], default_initializer=nn.initializer.Constant(2.0))

    def forward(self, x):
        return self.function(x, *[getattr(self, f"other{at}") for at in range(self.count)]) * self.factor


def run_operation(folder, shape, function, *others):
    """Runs a model of one operation; returns what Paddle computes, and the run of ckpt."""
    model, x = Model(function, *others), (values((2, *shape)) / 60).astype("float32")
    model.eval()
    paddle.jit.save(model, str(folder / "m"), input_spec=[paddle.static.InputSpec([None, *shape], "float32", name="x")])
    np.savez(folder / "x.npz", x=x)
    done = ckpt("run", folder / "m.pdiparams", "--input", f"x={folder / 'x.npz'}:x", "--output", folder / "y.npz")
    return model(paddle.to_tensor(x)).numpy(), done


@check(*OPERATIONS)
def an_operation_computes_the_same(folder, name):
    expected, done = run_operation(folder, *OPERATIONS[name])
    assert done.returncode == 0, done.stderr
    (found,) = np.load(folder / "y.npz").values()
    assert found.shape == expected.shape, (found.shape, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@check(*REFUSED)
def an_operation_without_a_graph_is_refused_by_name(folder, name):
    _, done = run_operation(folder, *REFUSED[name])
    assert done.returncode == 2 and "not supported" in done.stderr, done.stderr


@check()
def recurrent_layers_of_an_inference_model_have_names(folder):
    model = nn.LSTM(8, 4)
    model.eval()
    paddle.jit.save(model, str(folder / "m"), input_spec=[paddle.static.InputSpec([None, 5, 8], "float32", name="x")])
    convert(folder / "m.pdiparams", folder / "m.safetensors")
    assert_equal(load(folder / "m.safetensors"), {parameter.name: parameter.numpy() for parameter in model.parameters()})


if __name__ == "__main__":
    sys.exit(main(__doc__, paddle, np, torch))
