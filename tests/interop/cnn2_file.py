"""CNN2 files with numpy, written from the specification and from nothing else."""

import struct

import numpy as np

ACTIVATIONS = {
    "none": lambda x: x, "clamp": lambda x: np.clip(x, 0, 1), "relu": lambda x: np.maximum(x, 0), "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
BORDERS = {"zero": "constant", "clamp": "edge"}
STATIC = 8


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


def write(layers: list[np.ndarray]) -> bytes:
    """A file of version 1 of weights `[out, in, ky, kx]`."""
    table, offset = b"", 0
    for weight in layers:
        outputs, inputs, kernel, _ = weight.shape
        table += struct.pack("<5I", kernel, inputs, outputs, offset, weight.size)
        offset += weight.size
    weights = np.concatenate([weight.ravel() for weight in layers]).astype("<f2").tobytes()
    return struct.pack("<4s3I", b"CNN2", 1, len(layers), offset) + table + weights + bytes(len(weights) % 4)


def static_features(image: np.ndarray) -> np.ndarray:
    """Red, green, blue and depth `[..., H, W, 4]`, then what follows from where a pixel's centre is."""
    height, width = image.shape[-3:-1]
    u = np.broadcast_to((np.arange(width) + 0.5) / width, image.shape[:-1])
    v = np.broadcast_to(((np.arange(height) + 0.5) / height)[:, None], image.shape[:-1])
    return np.concatenate([image, np.stack([u, v, np.sin(10 * u), np.ones_like(u)], -1)], -1)


def forward(data: bytes, image: np.ndarray, activations: list[str], border: str = "zero") -> np.ndarray:
    """`image` is `[..., H, W, C]`, the static features first, and so is the result.

    A layer takes what the layer before it made, and the static features after that where it has channels for them."""
    x = image.astype(np.float64)
    static = x[..., :STATIC]
    for weight, activation in zip(read(data), activations, strict=True):
        if weight.shape[1] == x.shape[-1] + STATIC:
            x = np.concatenate([x, static], -1)
        pad = weight.shape[2] // 2
        padded = np.pad(x, [(0, 0)] * (x.ndim - 3) + [(pad, pad), (pad, pad), (0, 0)], BORDERS[border])
        height, width = x.shape[-3:-1]
        x = sum(padded[..., ky:ky + height, kx:kx + width, :] @ weight[:, :, ky, kx].astype(np.float64).T
                for ky in range(weight.shape[2]) for kx in range(weight.shape[3]))
        x = ACTIVATIONS[activation](x)
    return x
