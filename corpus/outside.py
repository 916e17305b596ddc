#!/usr/bin/env python3
"""Writes the cases of the corpus that other programs make, and outside.json, which has their tensors.

    python corpus/outside.py [CODEC...]     (packages: tests/interop/requirements*.txt; for ZeRO, deepspeed 0.19.8, too)

Unlike generate.py, it needs the programs, so no check runs it. generate.py keeps its files and lists them in the manifest. The
expected tensors are those that are given to the writer, or for ZeRO what DeepSpeed's own tools make of its files.
"""

import base64
import importlib.metadata
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1")
sys.modules["triton"] = None  # torch does without it

import ml_dtypes
import numpy as np

from outside_zero import ZERO, zero

SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c"}
CASES = {}


def dtype_name(dtype) -> str:
    name = np.dtype(dtype).name
    known = {"bool": "bool", "bfloat16": "bf16", "int4": "i4", "uint4": "u4", "float4_e2m1fn": "f4_e2m1", "object": "string"}
    if name in known:
        return known[name]
    if name.startswith("float8_"):
        return name.replace("float8_", "f8_").replace("e4m3fn", "e4m3" if name == "float8_e4m3fn" else "e4m3fn")
    kind = name.rstrip("0123456789")
    return SHORT[kind] + name[len(kind) :]


def described(array) -> dict:
    array = np.asarray(array)
    values = array.ravel().tolist() if array.dtype == object else [np.ascontiguousarray(array).tobytes()]
    values = [base64.b64encode(value).decode() for value in values]
    return {"dtype": dtype_name(array.dtype), "shape": list(array.shape), "values": values if array.dtype == object else values[0]}


def case(codec, name, why, *packages):
    """Registers a writer. It is given a folder and returns what the user names in it, and the tensors."""

    def register(function):
        CASES.setdefault(codec, []).append((name, why, packages, function))
        return function

    return register


def ramp(*shape, dtype=np.float32) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) / 4 - 1).astype(dtype)


@case("safetensors", "outside_torch", "every dtype that PyTorch has", "safetensors", "torch")
def safetensors_torch(folder):
    import safetensors.torch
    import torch

    names = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8", "uint8", "bool"]
    arrays = {name: ramp(2, 3, dtype=name if hasattr(np, name) else getattr(ml_dtypes, name)) for name in names if name != "bool"}
    arrays |= {"bool": np.array([True, False]), "scalar": np.float32(1.5), "none": np.zeros((0, 3), np.float32)}
    tensors = {name: torch.frombuffer(bytearray(np.ascontiguousarray(array).tobytes()), dtype=getattr(torch, name, torch.float32))
               .reshape(array.shape) if array.size else torch.zeros(array.shape) for name, array in arrays.items()}
    safetensors.torch.save_file(tensors, folder / "outside_torch.safetensors", {"format": "pt"})
    return "outside_torch.safetensors", arrays


ARRAYS = {"w": ramp(2, 3), "t": np.asfortranarray(ramp(3, 2, dtype="f8")), "big": ramp(4, dtype=">f4"), "n": np.int64(7),
          "none": np.zeros((0, 2), "f2"), "flags": np.array([True, False]), "complex": ramp(2, dtype="c8")}


def native(arrays):
    return {name: np.asarray(array).astype(np.asarray(array).dtype.newbyteorder("<")) for name, array in arrays.items()}


@case("npz", "outside_savez", "arrays in both orders of axes and bytes", "numpy")
def savez(folder):
    np.savez(folder / "outside_savez.npz", **ARRAYS)
    return "outside_savez.npz", native(ARRAYS)


@case("npz", "outside_compressed", "compressed arrays", "numpy")
def savez_compressed(folder):
    np.savez_compressed(folder / "outside_compressed.npz", **ARRAYS)
    return "outside_compressed.npz", native(ARRAYS)


def gguf_file(path, endian):
    from gguf import GGUFWriter

    arrays = {"f32": ramp(2, 3), "f16": ramp(4, dtype="f2"), "i32": ramp(3, dtype="i4"), "f64": ramp(2, dtype="f8"), "i64": ramp(2, dtype="i8")}
    writer = GGUFWriter(path, "test", endianess=endian)
    writer.add_uint32("test.block_count", 1)
    writer.add_array("test.names", ["a", "b"])
    writer.add_array("test.numbers", [1, -2, 3])
    writer.add_float64("test.epsilon", 1e-5)
    for name, array in arrays.items():
        writer.add_tensor(name, array.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.name, arrays


@case("gguf", "outside_little", "keys and tensors", "gguf")
def gguf_little(folder):
    from gguf import GGUFEndian

    return gguf_file(folder / "outside_little.gguf", GGUFEndian.LITTLE)


@case("gguf", "outside_big", "keys and tensors of a big-endian machine", "gguf")
def gguf_big(folder):
    from gguf import GGUFEndian

    return gguf_file(folder / "outside_big.gguf", GGUFEndian.BIG)


def onnx_model(arrays):
    from onnx import TensorProto, helper, numpy_helper

    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


@case("onnx", "outside_dtypes", "dtypes of four, eight and more bits", "onnx")
def onnx_dtypes(folder):
    import onnx

    small = {name: ramp(2, 4, dtype=getattr(ml_dtypes, name)) for name in
             ("int4", "uint4", "float4_e2m1fn", "float8_e4m3fn", "float8_e5m2", "bfloat16")}
    arrays = {"w": ramp(2, 3), "half": ramp(3, dtype="f2"), "i64": ramp(3, dtype="i8"), "bool": np.array([True, False])} | small
    onnx.save(onnx_model(arrays), folder / "outside_dtypes.onnx")
    return "outside_dtypes.onnx", arrays


@case("onnx", "outside_external", "tensors in a file beside the model", "onnx")
def onnx_external(folder):
    import onnx

    arrays = {"w": ramp(2, 3), "v": ramp(5, dtype="f2")}
    onnx.save(onnx_model(arrays), folder / "model.onnx", save_as_external_data=True, location="weights.data", size_threshold=0)
    return "model.onnx", arrays


def keras_model():
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(3, activation="relu", name="first"), keras.layers.BatchNormalization(name="norm"), keras.layers.Dense(2, name="last")]
    model = keras.Sequential([keras.Input((4,)), *layers], name="net")
    return model, layers


def keras_weights(layers, name):
    return {name(layer, number, variable): np.asarray(variable.numpy()) for layer in layers for number, variable in enumerate(layer.weights)}


def by_place(layer, number, _):
    place = {"first": "dense", "norm": "batch_normalization", "last": "dense_1"}
    return f"layers/{place[layer.name]}/vars/{number}"


@case("keras", "outside_weights", "weights", "keras", "h5py")
def keras_weights_file(folder):
    model, layers = keras_model()
    model.save_weights(folder / "outside_weights.weights.h5")
    return "outside_weights.weights.h5", keras_weights(layers, by_place)


@case("keras", "outside_model", "a model in one file", "keras", "h5py")
def keras_archive(folder):
    import zipfile

    from keras.src.saving import saving_lib, serialization_lib

    model, layers = keras_model()
    patch, numbers = unittest.mock.patch.object, {}
    # The date twice, and the address of an object, which tells those apart that layers share.
    with (
        patch(saving_lib, "datetime") as dates,
        patch(zipfile.time, "time", lambda: 400_000_000),
        patch(serialization_lib, "id", lambda obj: numbers.setdefault(id(obj), len(numbers)), create=True),
    ):
        dates.datetime.now().strftime.return_value = "1982-09-04@15:06:40"
        model.save(folder / "outside_model.keras")
    return "outside_model.keras", keras_weights(layers, by_place)


@case("keras", "outside_legacy", "a model in HDF5", "keras", "h5py")
def keras_legacy(folder):
    model, layers = keras_model()
    model.save(folder / "outside_legacy.h5")
    return "outside_legacy.h5", keras_weights(layers, lambda layer, _, variable: f"model_weights/{layer.name}/net/{variable.path.split('net/')[-1]}")


@case("tf2", "outside_slices", "variables in slices, texts, and other dtypes", "tensorflow")
def tf2_slices(folder):
    import tensorflow as tf

    whole = ramp(4, 3)
    others = {"half": ramp(3, dtype="f2"), "brain": ramp(2, dtype=ml_dtypes.bfloat16), "step": np.int64(7), "flags": np.array([True, False])}
    texts = np.array([b"", b"one", "zwölf".encode()], object)
    names = ["dense/kernel", "dense/kernel", "texts", *others]
    slices = ["4 3 0,3:0,3", "4 3 3,1:0,3", "", *[""] * len(others)]
    tf.raw_ops.SaveV2(prefix=str(folder / "m"), tensor_names=names, shape_and_slices=slices,
                      tensors=[tf.constant(whole[:3]), tf.constant(whole[3:]), tf.constant(texts), *map(tf.constant, others.values())])
    return "m.index", {"dense/kernel": whole, "texts": texts} | others


@case("tf1", "outside_frozen", "a frozen graph of two layers", "tensorflow")
def tf1_frozen(folder):
    import tensorflow as tf

    weights = {"kernel": ramp(4, 3), "bias": ramp(3), "twos": np.full((3, 2), 2, "f4")}
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder("float32", [1, 4], "x")
        hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, tf.constant(weights["kernel"], name="kernel")), tf.constant(weights["bias"], name="bias")))
        tf.matmul(hidden, tf.constant(weights["twos"], name="twos"), name="y")
    (folder / "outside_frozen.pb").write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
    return "outside_frozen.pb", weights


@case("tf1", "outside_v1", "a V1 checkpoint with a variable in two slices", "tensorflow")
def tf1_checkpoint(folder):
    import tensorflow as tf

    whole, step = ramp(4, 3), np.array([-7, 300], "int64")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        initial = lambda shape, dtype, partition_info: whole[partition_info.var_offset[0] :][: shape[0]]  # noqa: E731
        sliced = tf.compat.v1.get_variable("kernel", [4, 3], initializer=initial, partitioner=tf.compat.v1.fixed_size_partitioner(2), use_resource=False)
        plain = tf.compat.v1.get_variable("step", initializer=tf.constant(step), use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver([*sliced, plain], write_version=1).save(session, str(folder / "outside_v1.ckpt"), write_meta_graph=False, write_state=False)
    return "outside_v1.ckpt", {"kernel": whole, "step": step}


def torch_state():
    import torch

    arrays = {"w": ramp(2, 3), "t": ramp(3, 2), "half": ramp(4, dtype="f2"), "n": np.int64(7), "none": np.zeros((0, 2), "f4")}
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    tensors["t"] = torch.from_numpy(ramp(3, 2).T.copy()).t()
    return tensors, arrays


@case("torch", "outside_zip", "tensors, one of them a view", "torch")
def torch_zip(folder):
    import torch

    tensors, arrays = torch_state()
    torch.save(tensors, folder / "outside_zip.pt")
    return "outside_zip.pt", arrays


@case("torch", "outside_legacy", "two views, as before PyTorch 1.6", "torch")
def torch_legacy(folder):
    import torch

    numbers, path = torch.from_numpy(ramp(7)), folder / "outside_legacy.pt"
    tensors = {"w": numbers[1:].reshape(2, 3), "t": numbers[:6].reshape(2, 3).t()}
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    # The storage's key is its address.
    key = str(numbers.untyped_storage()._cdata).encode()
    path.write_bytes(path.read_bytes().replace(key, b"1".rjust(len(key), b"0")))
    return path.name, {"w": ramp(7)[1:].reshape(2, 3), "t": ramp(7)[:6].reshape(2, 3).T}


@case("torch", "outside_dcp", "a distributed checkpoint", "torch")
def torch_dcp(folder):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import StorageMeta

    class Writer(dcp.FileSystemWriter):
        def storage_meta(self):
            return StorageMeta(checkpoint_id="outside_dcp", save_id="0")

    tensors, arrays = torch_state()
    dcp.save({"model": tensors, "epoch": 3}, storage_writer=Writer(folder))
    return "", {f"model.{name}": array for name, array in arrays.items()}


def coreml_program(precision):
    import coremltools as ct
    from coremltools.converters.mil import Builder as mb

    arrays = {"kernel": ramp(4, 3, 2, 2), "bias": ramp(4), "weight": ramp(3, 4)}

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3, 5, 5))], opset_version=ct.target.iOS16)
    def program(x):
        weight, bias = mb.const(val=arrays["kernel"], name="kernel"), mb.const(val=arrays["bias"], name="bias")
        y = mb.reduce_mean(x=mb.conv(x=x, weight=weight, bias=bias, name="conv"), axes=[2, 3], keep_dims=False, name="mean")
        return mb.linear(x=y, weight=mb.const(val=arrays["weight"], name="weight"), name="y")

    return ct.convert(program, compute_precision=precision, minimum_deployment_target=ct.target.iOS16), arrays


def coreml_package(folder, make, arrays, name):
    make.save(str(folder / "model.mlpackage"))
    for path in list((folder / "model.mlpackage").iterdir()):
        shutil.move(path, folder / path.name)
    (folder / "model.mlpackage").rmdir()
    return "", arrays


@case("coreml", "outside_program", "a convolution and a linear layer", "coremltools")
def coreml_floats(folder):
    import coremltools as ct

    model, arrays = coreml_program(ct.precision.FLOAT32)
    return coreml_package(folder, model, arrays | {"y_bias_0": np.zeros(3, "f4")}, "program")


@case("coreml", "outside_palette", "weights of 2 bits with a table", "coremltools")
def coreml_palette(folder):
    import coremltools as ct
    import coremltools.optimize.coreml as cto

    model, arrays = coreml_program(ct.precision.FLOAT16)
    config = cto.OptimizationConfig(global_config=cto.OpPalettizerConfig(mode="uniform", nbits=2, weight_threshold=0))
    model = cto.palettize_weights(model, config)
    dense = cto.decompress_weights(model)._mil_program.functions["main"].operations
    found = {op.name: op.val.val for op in dense if op.op_type == "const" and getattr(op.val.val, "dtype", None) == np.float16}
    return coreml_package(folder, model, found, "palette")


for name, why, *options in ZERO:
    case("torch", name, why, "deepspeed", "torch")(lambda folder, options=options: ("", zero(folder, *options)))


def main() -> None:
    path = ROOT / "outside.json"
    listed = json.loads(path.read_text()) if path.exists() else {}
    for codec in sys.argv[1:] or CASES:
        listed[codec] = []
        for name, why, packages, write in CASES[codec]:
            with tempfile.TemporaryDirectory() as folder:
                entry, arrays = write(pathlib.Path(folder))
                files = sorted(str(file.relative_to(folder)) for file in pathlib.Path(folder).rglob("*") if file.is_file())
                into = ROOT / codec / "accept"
                into /= "" if files == [entry] else name
                for file in files:
                    (into / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(pathlib.Path(folder) / file, into / file)
            versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
            tensors = {name: described(array) for name, array in sorted(arrays.items())}
            listed[codec].append({"name": name, "why": f"by {versions}: {why}", "entry": entry, "files": files, "tensors": tensors})
            print(codec, name, files)
    path.write_text(json.dumps(listed, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
