"""The same jobs as people do them in Python: `python python_way.py JOB IN OUT`."""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


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


def compare_pt(path: str, out: str) -> None:
    """Not a job: whether PyTorch reads in a file what safetensors reads in the other, whatever way it loads the file."""
    import torch
    from safetensors.torch import load_file

    expected = load_file(path)
    for mmap in (True, False):
        found = torch.load(out, weights_only=True, mmap=mmap)
        assert found.keys() == expected.keys() and found
        assert all(found[name].view(torch.int32).equal(expected[name].view(torch.int32)) for name in found)


JOBS = {job.__name__: job for job in (tf2_to_safetensors, safetensors_to_tf2, transpose, f16, compare, pt_to_safetensors,
                                      safetensors_to_pt, onnx_to_safetensors, compare_pt)}

if __name__ == "__main__":
    JOBS[sys.argv[1]](*sys.argv[2:])
