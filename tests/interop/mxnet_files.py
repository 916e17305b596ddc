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


if __name__ == "__main__":
    sys.exit(main(__doc__, mx, np))
