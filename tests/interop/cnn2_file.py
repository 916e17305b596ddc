"""CNN2 files with numpy, written from the specification and from nothing else."""

import struct

import numpy as np

ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x))}


def read(data: bytes) -> list[np.ndarray]:
    """The weights of each layer, `[out, in, ky, kx]`."""
    magic, version, layers, total = struct.unpack_from("<4s3I", data)
    assert magic == b"CNN2" and version in (1, 2)
    start = 16 if version == 1 else 20
    weights = np.frombuffer(data, "<f2", total, start + 20 * layers)
    assert len(data) == start + 20 * layers + 4 * ((total + 1) // 2), "the size is not the formula's"
    found = []
    for index in range(layers):
        kernel, inputs, outputs, offset, count = struct.unpack_from("<5I", data, start + 20 * index)
        found.append(weights[offset:offset + count].reshape(outputs, inputs, kernel, kernel))
    return found


def forward(data: bytes, image: np.ndarray, activations: list[str]) -> np.ndarray:
    """`image` is `[H, W, C]`, and so is the result; zeros lie beyond the border."""
    x = image.astype(np.float64)
    for weight, activation in zip(read(data), activations, strict=True):
        pad = weight.shape[2] // 2
        padded = np.pad(x, ((pad, pad), (pad, pad), (0, 0)))
        height, width = x.shape[:2]
        x = sum(padded[ky:ky + height, kx:kx + width] @ weight[:, :, ky, kx].astype(np.float64).T
                for ky in range(weight.shape[2]) for kx in range(weight.shape[3]))
        x = ACTIVATIONS[activation](x)
    return x
