#!/usr/bin/env python3
"""Reads what MXNet saves, lets it load what `ckpt` writes, and compares what symbols compute.

    python tests/interop/mxnet_files.py --ckpt target/debug/ckpt     (packages: requirements-mxnet.txt; Python below 3.12)
"""

import os
import sys
import warnings

# Its fused kernels crash on some processors.
os.environ.setdefault("MXNET_MKLDNN_ENABLED", "0")
os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")
os.environ.setdefault("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "0")
warnings.filterwarnings("ignore")

import mxnet as mx
import numpy as np
import safetensors.numpy
from harness import assert_equal, check, ckpt, convert, load, main
from mxnet.gluon import nn

DTYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]


def values(shape, dtype="float32", start=0):
    numbers = (np.arange(np.prod(shape, dtype=int)) * 37 + start) % 120 - (0 if np.dtype(dtype).kind in "ub" else 60)
    return numbers.reshape(shape).astype(dtype)


@check()
def every_dtype_that_mxnet_saves_is_read_and_comes_back(folder):
    given = {dtype: values((3, 5), dtype) for dtype in DTYPES}
    mx.nd.save(str(folder / "m.params"), {name: mx.nd.array(value, dtype=value.dtype) for name, value in given.items()})
    convert(folder / "m.params", folder / "m.safetensors")
    assert_equal(load(folder / "m.safetensors"), given)
    convert(folder / "m.params", folder / "n.params")
    assert (folder / "m.params").read_bytes() == (folder / "n.params").read_bytes()


@check()
def sparse_arrays_are_read_dense(folder):
    matrix = values((6, 4)) * (values((6, 4)) % 3 == 0)
    rows = matrix * np.array([1, 0, 0, 1, 1, 0])[:, None].astype("float32")
    given = {"csr": mx.nd.array(matrix).tostype("csr"), "rows": mx.nd.array(rows).tostype("row_sparse"),
             "none": mx.nd.sparse.zeros("row_sparse", (3, 2)), "zeros": mx.nd.sparse.zeros("csr", (3, 2))}
    # MXNet computes later than it says, and may save a sparse array before it knows how many rows it has.
    expected = {name: value.asnumpy() for name, value in given.items()}
    mx.nd.save(str(folder / "m.params"), given)
    convert(folder / "m.params", folder / "m.safetensors")
    assert_equal(load(folder / "m.safetensors"), expected)


@check()
def arrays_with_numpy_shapes_are_read(folder):
    with mx.util.np_shape(True):
        given = {"scalar": mx.nd.array(np.array(3, "float32")), "none": mx.nd.zeros((0, 3)), "w": mx.nd.ones((2, 2))}
        mx.nd.save(str(folder / "m.params"), given)
        expected = {name: value.asnumpy() for name, value in given.items()}
    convert(folder / "m.params", folder / "m.safetensors")
    assert_equal(load(folder / "m.safetensors"), expected)


@check()
def what_is_written_loads(folder):
    given = {dtype: values((3, 5), dtype) for dtype in DTYPES} | {"empty": np.zeros((0, 3), "float32")}
    safetensors.numpy.save_file(given | {"scalar": np.array(0.5, "float32"), "short": values((4,), "int16")}, folder / "m.safetensors")
    convert(folder / "m.safetensors", folder / "m.params")
    loaded = {name: value.asnumpy() for name, value in mx.nd.load(str(folder / "m.params")).items()}
    assert_equal(loaded, given | {"scalar": np.array([0.5], "float32"), "short": values((4,), "int32")})


def runs_alike(folder, x, expected):
    np.savez(folder / "x.npz", data=x)
    done = ckpt("run", folder / "m-0001.params", "--input", f"data={folder / 'x.npz'}:data", "--output", folder / "y.npz")
    assert done.returncode == 0, done.stderr
    (found,) = np.load(folder / "y.npz").values()
    assert found.shape == expected.shape and np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@check()
def an_export_of_gluon_computes_the_same(folder):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 3, activation="relu"), nn.BatchNorm(), nn.PReLU(), nn.MaxPool2D(2, 2, ceil_mode=True), nn.Conv2DTranspose(4, 3, strides=2),
            nn.Swish(), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(8, activation="tanh"), nn.LayerNorm(), nn.Dropout(0.3), nn.Dense(3))
    net.initialize(mx.init.Normal(0.3))
    net.hybridize()
    x = mx.nd.array(values((2, 3, 12, 12)) / 60)
    expected = net(x).asnumpy()
    net.export(str(folder / "m"), epoch=1)
    runs_alike(folder, x.asnumpy(), expected)


@check()
def a_module_computes_the_same(folder):
    x = mx.sym.Pooling(mx.sym.Convolution(mx.sym.var("data"), num_filter=4, kernel=(3, 3), name="conv"), kernel=(2, 2), stride=(2, 2))
    x = mx.sym.FullyConnected(mx.sym.BatchNorm(x, name="bn"), num_hidden=3, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(x, name="softmax"), label_names=["softmax_label"])
    module.bind(data_shapes=[("data", (2, 3, 8, 8))], label_shapes=[("softmax_label", (2,))], for_training=False)
    # Gamma counts as 1, for fix_gamma is true by default.
    module.init_params(mx.init.Normal(0.3))
    given = values((2, 3, 8, 8)) / 60
    expected = module.predict(mx.io.NDArrayIter(given, np.zeros(2), batch_size=2)).asnumpy()
    module.save_checkpoint(str(folder / "m"), 1)
    runs_alike(folder, given, expected)


IMAGES = (2, 4, 7, 6)
WINDOW = {"kernel": (3, 3), "stride": (2, 2)}
S = mx.sym
OPERATORS = {
    "relu": (IMAGES, lambda x: S.Activation(x, act_type="relu")),
    "softrelu": (IMAGES, lambda x: S.Activation(x, act_type="softrelu")),
    "gelu": (IMAGES, lambda x: S.LeakyReLU(x, act_type="gelu")),
    "prelu": (IMAGES, lambda x: S.LeakyReLU(x, act_type="prelu")),
    "softmax": (IMAGES, lambda x: S.softmax(x, axis=1, temperature=2.5)),
    "softmax-instance": (IMAGES, lambda x: S.SoftmaxActivation(x)),
    "softmax-channel": (IMAGES, lambda x: S.SoftmaxActivation(x, mode="channel")),
    "make_loss": ((3, 5), lambda x: S.make_loss(x)),
    "dropout": (IMAGES, lambda x: S.Dropout(x)),
    "sum": (IMAGES, lambda x: S.sum(x)),
    "norm": (IMAGES, lambda x: S.norm(x)),
    "mean-others": (IMAGES, lambda x: S.mean(x, axis=1, exclude=True)),
    "squeeze": ((2, 3), lambda x: S.squeeze(S.sum(x, keepdims=True))),
    "reshape": (IMAGES, lambda x: S.reshape(x, shape=(0, -4, 2, -1, -3))),
    "reshape-reverse": (IMAGES, lambda x: S.reshape(x, shape=(-1, 0, 0), reverse=True)),
    "slice": (IMAGES, lambda x: S.slice(x, begin=(None, 3), end=(None, None), step=(1, -2))),
    "split": (IMAGES, lambda x: S.split(x, num_outputs=2, axis=1)),
    "split_v2-parts": (IMAGES, lambda x: S.split_v2(x, 4, axis=1, squeeze_axis=True)),
    "split_v2-indices": (IMAGES, lambda x: S.split_v2(x, (1, 3), axis=1)),
    "stack": ((2, 3, 4), lambda x: S.stack(x, x * 2, axis=1)),
    "pad": (IMAGES, lambda x: S.pad(x, mode="reflect", pad_width=(0, 0, 0, 0, 1, 2, 3, 1))),
    "upsampling": (IMAGES, lambda x: S.UpSampling(x, scale=2, sample_type="nearest")),
    "scalars": (IMAGES, lambda x: 0.7 / (x + 3) + 1.5 ** x - x * 0.1),
    "broadcast": (IMAGES, lambda x: S.broadcast_mul(x, S.var("w", shape=(1, 4, 1, 1)))),
    "batch_dot": ((2, 3, 5), lambda x: S.batch_dot(x, x, transpose_b=True)),
    "dense": (IMAGES, lambda x: S.FullyConnected(x, num_hidden=5, flatten=False)),
    "convolution": (IMAGES, lambda x: S.Convolution(x, num_filter=4, num_group=2, dilate=(2, 2), **WINDOW)),
    "deconvolution": (IMAGES, lambda x: S.Deconvolution(x, num_filter=4, pad=(1, 1), adj=(1, 1), no_bias=False, **WINDOW)),
    "batch-norm": (IMAGES, lambda x: S.BatchNorm(x, fix_gamma=False, axis=3)),
    "layer-norm": (IMAGES, lambda x: S.LayerNorm(x)),
    "instance-norm": (IMAGES, lambda x: S.InstanceNorm(x)),
    "group-norm": (IMAGES, lambda x: S.GroupNorm(x, num_groups=2)),
    "lrn": (IMAGES, lambda x: S.LRN(x, nsize=3, alpha=0.1)),
    "l2-norm": (IMAGES, lambda x: S.L2Normalization(x, mode="channel")),
    "max-full": (IMAGES, lambda x: S.Pooling(x, pool_type="max", pooling_convention="full", pad=(1, 1), **WINDOW)),
    "mean-full": (IMAGES, lambda x: S.Pooling(x, pool_type="avg", pooling_convention="full", pad=(1, 1), **WINDOW)),
    "mean-inside": (IMAGES, lambda x: S.Pooling(x, pool_type="avg", pad=(1, 1), count_include_pad=False, **WINDOW)),
    "sum-padded": (IMAGES, lambda x: S.Pooling(x, pool_type="sum", pad=(1, 1), **WINDOW)),
    "old-max": (IMAGES, lambda x: S.Pooling_v1(x, pool_type="max", pooling_convention="full", **WINDOW)),
    "old-mean": (IMAGES, lambda x: S.Pooling_v1(x, pool_type="avg", pad=(1, 1), **WINDOW)),
}
# What MXNet computes of them has no graph.
REFUSED = {
    "old-max-padded": (IMAGES, lambda x: S.Pooling_v1(x, pool_type="max", pad=(1, 1), **WINDOW)),
    "old-mean-full": (IMAGES, lambda x: S.Pooling_v1(x, pool_type="avg", pooling_convention="full", **WINDOW)),
    "always-dropped": (IMAGES, lambda x: S.Dropout(x, mode="always")),
}


def run_operator(folder, shape, build):
    """Runs an operator on its own; returns what MXNet computes, by name, and the run of ckpt."""
    random, x = np.random.RandomState(1), values(shape) / 60
    symbol = build(S.var("data", shape=shape))
    shapes, _, states = symbol.infer_shape(data=shape)
    arguments = {name: mx.nd.array(random.randn(*own)) for name, own in zip(symbol.list_arguments(), shapes) if name != "data"}
    auxiliary = {name: mx.nd.array(abs(random.randn(*own)) + 0.1) for name, own in zip(symbol.list_auxiliary_states(), states)}
    executor = symbol.bind(mx.cpu(), arguments | {"data": mx.nd.array(x)}, aux_states=auxiliary, grad_req="null")
    expected = [value.asnumpy() for value in executor.forward(is_train=False)]
    saved = {f"arg:{name}": value for name, value in arguments.items()} | {f"aux:{name}": value for name, value in auxiliary.items()}
    mx.nd.save(str(folder / "m-0001.params"), saved or {"none": mx.nd.ones((1,))})
    symbol.save(str(folder / "m-symbol.json"))
    np.savez(folder / "x.npz", data=x.astype("float32"))
    done = ckpt("run", folder / "m-0001.params", "--input", f"data={folder / 'x.npz'}:data", "--output", folder / "y.npz")
    return dict(zip(symbol.list_outputs(), expected)), done


@check(*OPERATORS)
def an_operator_computes_the_same(folder, name):
    expected, done = run_operator(folder, *OPERATORS[name])
    assert done.returncode == 0, done.stderr
    found = np.load(folder / "y.npz")
    assert set(found.files) == set(expected), (found.files, list(expected))
    for output, value in expected.items():
        assert found[output].shape == value.shape, (output, found[output].shape, value.shape)
        np.testing.assert_allclose(found[output], value, rtol=1e-5, atol=1e-5)


@check(*REFUSED)
def an_operator_without_a_graph_is_refused_by_name(folder, name):
    _, done = run_operator(folder, *REFUSED[name])
    assert done.returncode == 2 and "not supported" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(main(__doc__, mx, np))
