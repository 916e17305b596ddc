"""An independent reader of `.nn` files, and their forward pass with a bound on the difference to 32-bit arithmetic."""

import json
import struct

import numpy as np

EPSILON = float(np.finfo(np.float32).eps)


def read(data: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """The JSON block and the tensors by name."""
    at = 16
    magic, version, size = struct.unpack_from("<8sII", data)
    assert (magic, version) == (b"DATACODE", 1)
    header = json.loads(data[at : at + size])
    (count,) = struct.unpack_from("<I", data, at + size)
    at, tensors = at + size + 4, {}
    for _ in range(count):
        (size,) = struct.unpack_from("<I", data, at)
        name = data[at + 4 : at + 4 + size].decode()
        (rank,) = struct.unpack_from("<I", data, at + 4 + size)
        shape = struct.unpack_from(f"<{rank}I", data, at + 8 + size)
        at += 8 + size + 4 * rank
        tensors[name] = np.frombuffer(data, "<f4", int(np.prod(shape)), at).reshape(shape)
        at += tensors[name].nbytes
    assert at == len(data), "bytes after the last tensor"
    return header, tensors


def write(header: dict, tensors: dict[str, np.ndarray]) -> bytes:
    """A file of this JSON block and these tensors."""
    text = json.dumps(header).encode()
    data = struct.pack("<8sII", b"DATACODE", 1, len(text)) + text + struct.pack("<I", len(tensors))
    for name, tensor in tensors.items():
        data += struct.pack("<I", len(name)) + name.encode()
        data += struct.pack(f"<{tensor.ndim + 1}I", tensor.ndim, *tensor.shape) + tensor.astype("<f4").tobytes()
    return data


def forward(header: dict, tensors: dict[str, np.ndarray], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The output in float64, and how far an evaluation in float32 may be from it.

    The bound, to first order: a sum of n products in any order errs by (n + 2) eps Σ|w||x|; errors of the input pass
    through |w|, and through an activation by its greatest slope; an activation adds 8 eps of its own.
    """
    y, error, linear = x.astype(np.float64), np.zeros(x.shape), 0
    for layer in header["layers"]:
        match layer["type"]:
            case "Linear":
                weight = tensors[f"layer{linear}.weight"].astype(np.float64)
                bias = tensors[f"layer{linear}.bias"].astype(np.float64)
                assert weight.shape == (layer["out_features"], layer["in_features"]) and bias.ndim == 1
                size = np.abs(y) @ np.abs(weight.T) + np.abs(bias)
                error = error @ np.abs(weight.T) + (weight.shape[1] + 2) * EPSILON * size
                y, linear = y @ weight.T + bias, linear + 1
            case "ReLU":
                y = np.maximum(y, 0)
            case "Sigmoid":
                y, error = 1 / (1 + np.exp(-y)), error / 4 + 8 * EPSILON
            case "Tanh":
                y, error = np.tanh(y), error + 8 * EPSILON
            case "Softmax":
                power = np.exp(y - y.max(axis=1, keepdims=True))
                y = power / power.sum(axis=1, keepdims=True)
                error = np.broadcast_to(error.max(axis=1, keepdims=True) / 2 + 8 * EPSILON, y.shape)
            case "Flatten":
                y, error = y.reshape(len(y), -1), error.reshape(len(y), -1)
            case other:
                raise AssertionError(f"unknown layer {other}")
    assert 2 * linear == len(tensors), "tensors that no layer uses"
    return y, error
