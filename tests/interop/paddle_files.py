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


if __name__ == "__main__":
    sys.exit(main(__doc__, paddle, np, torch))
