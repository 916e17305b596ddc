"""h5py and Keras read what `ckpt` writes, and the other way round; registers its checks."""

import itertools

import h5py
import keras
import numpy as np
from harness import assert_equal, check, convert

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
LIBVERS = {"earliest": "earliest", "latest": ("latest", "latest")}


def numbers(shape, dtype="float32") -> np.ndarray:
    count = int(np.prod(shape))
    return ((np.arange(count) * 2654435761 >> 7) % 251).astype(dtype).reshape(shape)


# Options of h5py by the name of the dataset: (shape, options).
LAYOUTS = {
    "contiguous": ((7, 5), {}),
    "scalar": ((), {}),
    "empty": ((0, 3), {}),
    "chunked": ((9, 7), {"chunks": (4, 3)}),
    "one_chunk": ((9, 7), {"chunks": (9, 7)}),
    "larger_chunk": ((3,), {"chunks": (5,), "maxshape": (None,)}),
    "gzip": ((30, 20), {"chunks": (7, 20), "compression": "gzip"}),
    "gzip_shuffle": ((30, 20), {"chunks": (30, 20), "compression": "gzip", "shuffle": True}),
    "lzf": ((30, 20), {"chunks": (8, 8), "compression": "lzf", "shuffle": True}),
    "fletcher": ((30, 20), {"chunks": (8, 8), "fletcher32": True}),
    "all_filters": ((30, 20), {"chunks": (8, 8), "fletcher32": True, "compression": "gzip", "shuffle": True}),
    # Indexes: fixed and extensible arrays with pages, B-trees of several levels.
    "fixed_pages": ((3000,), {"chunks": (1,), "maxshape": (4000,)}),
    "extensible": ((2, 3000), {"chunks": (2, 1), "maxshape": (2, None)}),
    "extensible_filtered": ((500, 3), {"chunks": (1, 3), "maxshape": (None, 3), "compression": "gzip"}),
    "tree": ((60, 50), {"chunks": (1, 2), "maxshape": (None, None)}),
    "tree_filtered": ((20, 30), {"chunks": (3, 4), "maxshape": (None, None), "compression": "gzip"}),
}


def every_layout(file) -> dict[str, np.ndarray]:
    tensors = {}
    for name, (shape, options) in LAYOUTS.items():
        tensors[name] = numbers(shape)
        file.create_dataset(name, data=tensors[name], **options)
    for dtype in DTYPES:
        tensors[f"dtypes/{dtype}"] = numbers((3, 4), dtype)
        file[f"dtypes/{dtype}"] = tensors[f"dtypes/{dtype}"]
        if dtype != "bool":
            big = numbers((3, 4), dtype)
            file[f"big/{dtype}"] = big.astype(big.dtype.newbyteorder(">"))
            tensors[f"big/{dtype}"] = big
    partly = file.create_dataset("filled", (9, 9), "f4", chunks=(4, 4), fillvalue=2.5)
    partly[:3, :3] = 1
    tensors["filled"] = partly[()]
    never = file.create_dataset("never", (5,), "i4", fillvalue=-7)
    tensors["never"] = never[()]
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    space = h5py.h5s.create_simple((4, 3))
    compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_FLOAT, space, plist)
    tensors["compact"] = numbers((4, 3))
    compact.write(h5py.h5s.ALL, h5py.h5s.ALL, tensors["compact"])
    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    early.set_chunk((2, 2))
    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    implicit = h5py.h5d.create(file.id, b"implicit", h5py.h5t.NATIVE_FLOAT, space, early)
    tensors["implicit"] = numbers((4, 3))
    implicit.write(h5py.h5s.ALL, h5py.h5s.ALL, tensors["implicit"])
    for number in range(40):
        tensors[f"many/{number}"] = numbers((number % 3,))
        file[f"many/{number}"] = tensors[f"many/{number}"]
        file["many"].attrs[f"attribute {number}"] = "x" * number
    return tensors


@check(*(f"{libver} {user} {order}" for libver, user, order in itertools.product(LIBVERS, (0, 1024), ("name", "creation"))))
def every_layout_of_h5py_is_read(folder, how):
    libver, user, order = how.split()
    with h5py.File(folder / "in.h5", "w", libver=LIBVERS[libver], userblock_size=int(user), track_order=order == "creation") as file:
        tensors = every_layout(file)
    convert(folder / "in.h5", folder / "out.npz", "--from", "keras")
    assert_equal(dict(np.load(folder / "out.npz")), tensors)


@check(*LIBVERS)
def what_h5py_wrote_without_chunks_comes_back_byte_for_byte(folder, libver):
    with h5py.File(folder / "in.h5", "w", libver=LIBVERS[libver]) as file:
        for number in range(300):
            file[f"layers/dense_{number}/vars/0"] = numbers((3, 4))
            file[f"layers/dense_{number}/vars"].attrs["name"] = f"layer {number}"
        file.attrs["names"] = ["a", "b" * 100]
    convert(folder / "in.h5", folder / "out.h5")
    assert (folder / "in.h5").read_bytes() == (folder / "out.h5").read_bytes()


@check()
def h5py_reads_what_is_written(folder):
    tensors = {f"g{number}/{dtype}": numbers((number, 3), dtype) for number in range(40) for dtype in DTYPES}
    np.savez(folder / "in.npz", **tensors)
    convert(folder / "in.npz", folder / "out.h5")
    found = {}
    with h5py.File(folder / "out.h5") as file:
        file.visititems(lambda name, own: found.update({name: own[()]}) if isinstance(own, h5py.Dataset) else None)
    assert_equal(found, tensors)


def models() -> dict:
    layers = keras.layers
    keras.utils.set_random_seed(7)
    images = keras.Input((8, 8, 3))
    conv = layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(images))
    branch = layers.DepthwiseConv2D(3, padding="same")(conv)
    cnn = keras.Model(images, layers.Dense(5)(layers.Flatten()(layers.Add()([conv, branch]))))
    inner = keras.Sequential([layers.Dense(6, activation="relu"), layers.Dense(4)])
    return {
        "dense": keras.Sequential([keras.Input((5,)), layers.Dense(7, activation="relu"), layers.Dense(3)]),
        "cnn": cnn,
        "lstm": keras.Sequential([keras.Input((6, 4)), layers.LSTM(5, return_sequences=True), layers.GRU(3)]),
        "nested": keras.Sequential([keras.Input((5,)), inner, layers.Dense(2)]),
        "bfloat16": keras.Sequential([keras.Input((5,)), layers.Dense(7, dtype="bfloat16")]),
    }


@check("dense", "cnn", "lstm", "nested", "bfloat16")
def keras_loads_what_is_written_and_computes_the_same(folder, name):
    model = models()[name]
    batch = np.random.default_rng(3).standard_normal((4, *model.input_shape[1:])).astype("float32")
    expected = np.asarray(model(batch), "float32")
    model.save(folder / "in.keras")
    convert(folder / "in.keras", folder / "same.keras")
    assert (folder / "in.keras").read_bytes() == (folder / "same.keras").read_bytes()
    # Without the bytes that are kept of the file, through another container.
    convert(folder / "in.keras", folder / "whole.h5")
    convert(folder / "in.keras", folder / "only.weights.h5")
    convert(folder / "whole.h5", folder / "fresh.keras")
    outputs = []
    for file in ["same.keras", "whole.h5", "fresh.keras"]:
        outputs.append(keras.saving.load_model(folder / file, compile=False)(batch))
    for variable in model.variables:
        variable.assign(np.zeros(variable.shape))
    model.load_weights(folder / "only.weights.h5")
    outputs.append(model(batch))
    for output in outputs:
        np.testing.assert_allclose(np.asarray(output, "float32"), expected, rtol=0, atol=1e-5)
