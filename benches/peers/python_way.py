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


JOBS = {job.__name__: job for job in (tf2_to_safetensors, safetensors_to_tf2, transpose, f16, compare)}

if __name__ == "__main__":
    JOBS[sys.argv[1]](*sys.argv[2:])
