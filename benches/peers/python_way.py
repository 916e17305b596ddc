"""The same jobs as people do them in Python: `python python_way.py JOB IN OUT`."""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
# What knows llama.cpp's packages.
sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "tests", "interop"))


def tf2_to_safetensors(prefix: str, out: str) -> None:
    import safetensors.numpy
    import tensorflow as tf

    reader = tf.train.load_checkpoint(prefix)
    tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    safetensors.numpy.save_file(tensors, out)


def safetensors_to_tf2(path: str, prefix: str) -> None:
    import safetensors.numpy
    import tensorflow as tf

    tensors = safetensors.numpy.load_file(path)
    names = sorted(tensors)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tf.constant(tensors[name]) for name in names])


def transpose(path: str, out: str) -> None:
    import numpy
    import safetensors.numpy

    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file({name: numpy.ascontiguousarray(array.T) for name, array in tensors.items()}, out)


def f16(path: str, out: str) -> None:
    import numpy
    import safetensors.numpy

    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file({name: array.astype(numpy.float16) for name, array in tensors.items()}, out)


def compare(prefix: str, path: str) -> None:
    """Not a job: whether TensorFlow reads in one what safetensors reads in the other."""
    import safetensors.numpy
    import tensorflow as tf

    reader, found = tf.train.load_checkpoint(prefix), safetensors.numpy.load_file(path)
    names = reader.get_variable_to_shape_map().keys()
    assert found.keys() == names and names
    assert all(found[name].tobytes() == reader.get_tensor(name).tobytes() for name in names)


def pt_to_safetensors(path: str, out: str) -> None:
    import torch
    from safetensors.torch import save_file

    save_file(torch.load(path, weights_only=True), out)


def safetensors_to_pt(path: str, out: str) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(path), out)


def onnx_to_safetensors(path: str, out: str) -> None:
    import onnx
    import safetensors.numpy

    model = onnx.load(path)
    safetensors.numpy.save_file({tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}, out)


def gguf_to_safetensors(path: str, out: str) -> None:
    import gguf
    import safetensors.numpy

    read = gguf.GGUFReader(path).tensors
    safetensors.numpy.save_file({each.name: gguf.dequantize(each.data, each.tensor_type) for each in read}, out)


def safetensors_to_q8_0(path: str, out: str) -> None:
    to_blocks(path, out, "Q8_0")


def safetensors_to_q4_0(path: str, out: str) -> None:
    to_blocks(path, out, "Q4_0")


def to_blocks(path: str, out: str, name: str) -> None:
    import gguf
    import safetensors.numpy

    kind, writer = gguf.GGMLQuantizationType[name], gguf.GGUFWriter(out, "llama")
    for name, array in safetensors.numpy.load_file(path).items():
        writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare_gguf(path: str, out: str) -> None:
    """Not a job: whether gguf-py reads in a file what safetensors reads in the other: the halves, or the f32 of blocks."""
    import gguf
    import numpy
    from safetensors import safe_open

    read = gguf.GGUFReader(path).tensors
    with safe_open(out, "np") as file:
        assert {each.name for each in read} == set(file.keys()) and read
        for each in read:
            is_half = each.tensor_type == gguf.GGMLQuantizationType.F16
            expected = each.data if is_half else gguf.dequantize(each.data, each.tensor_type)
            assert numpy.array_equal(file.get_tensor(each.name), expected), each.name


def compare_q8_0(path: str, out: str) -> None:
    """Not a job: whether a GGUF file has the blocks that gguf-py's quantizer gives for a safetensors file."""
    compare_blocks(path, out, "Q8_0")


def compare_q4_0(path: str, out: str) -> None:
    """Not a job: see `compare_q8_0`."""
    compare_blocks(path, out, "Q4_0")


def compare_blocks(path: str, out: str, name: str) -> None:
    import gguf
    import numpy
    from safetensors.numpy import load_file

    kind, expected = gguf.GGMLQuantizationType[name], load_file(path)
    read = gguf.GGUFReader(out).tensors
    assert {each.name for each in read} == expected.keys() and read
    for each in read:
        assert each.tensor_type == kind and numpy.array_equal(each.data, gguf.quantize(expected[each.name], kind)), each.name


def compare_pt(path: str, out: str) -> None:
    """Not a job: whether PyTorch reads in a file what safetensors reads in the other, whatever way it loads the file."""
    import torch
    from safetensors.torch import load_file

    expected = load_file(path)
    for mmap in (True, False):
        found = torch.load(out, weights_only=True, mmap=mmap)
        assert found.keys() == expected.keys() and found
        assert all(found[name].view(torch.int32).equal(expected[name].view(torch.int32)) for name in found)


def hf_to_f16(folder: str, out: str) -> None:
    by_converter(folder, out, "f16")


def hf_to_q8_0(folder: str, out: str) -> None:
    by_converter(folder, out, "q8_0")


def hf_to_q4_k_m(folder: str, out: str) -> None:
    plain = f"{out}.bf16"
    by_converter(folder, plain, "bf16")
    by_quantizer(plain, out, "Q4_K_M")
    os.unlink(plain)


def gguf_to_q4_0(path: str, out: str) -> None:
    by_quantizer(path, out, "Q4_0")


def gguf_to_q3_k_m(path: str, out: str) -> None:
    by_quantizer(path, out, "Q3_K_M")


def gguf_to_q4_k_m(path: str, out: str) -> None:
    by_quantizer(path, out, "Q4_K_M")


def gguf_to_q6_k(path: str, out: str) -> None:
    by_quantizer(path, out, "Q6_K")


def by_converter(folder: str, out: str, kind: str) -> None:
    import runpy

    import llama_packages

    root = llama_packages.converter()
    sys.path[:0] = [str(root), str(root / "gguf-py")]
    sys.argv = ["convert_hf_to_gguf.py", folder, "--outfile", out, "--outtype", kind]
    runpy.run_path(str(root / sys.argv[0]), run_name="__main__")


def by_quantizer(path: str, out: str, mix: str) -> None:
    import llama_library
    import llama_packages

    llama_library.Library(llama_packages.libraries()).quantize(path, out, mix, threads=2)


def compare_models(path: str, out: str) -> None:
    """Not a job: whether two GGUF files have the same keys and tensors, in any order."""
    import gguf

    files = [gguf.GGUFReader(each) for each in (path, out)]
    keys = [{key: field.contents() for key, field in file.fields.items() if not key.startswith("GGUF.")} for file in files]
    tensors = [{each.name: (each.tensor_type, each.data.tobytes()) for each in file.tensors} for file in files]
    assert keys[0] == keys[1] and tensors[0] == tensors[1] and tensors[0]


JOBS = {job.__name__: job for job in (
    tf2_to_safetensors, safetensors_to_tf2, transpose, f16, compare, pt_to_safetensors, safetensors_to_pt,
    onnx_to_safetensors, compare_pt, gguf_to_safetensors, safetensors_to_q8_0, safetensors_to_q4_0, compare_gguf,
    compare_q8_0, compare_q4_0, compare_models, hf_to_f16, hf_to_q8_0, hf_to_q4_k_m, gguf_to_q4_0, gguf_to_q3_k_m, gguf_to_q4_k_m, gguf_to_q6_k)}

if __name__ == "__main__":
    JOBS[sys.argv[1]](*sys.argv[2:])
