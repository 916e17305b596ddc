"""Makes safetensors files. Needs nothing but Python."""

import json
import pathlib
import random

NOISE = 1 << 20
SIZES = {"U8": 1, "F32": 4}


def write(path: pathlib.Path, tensors: dict[str, int], dtype: str = "U8") -> None:
    """A file of tensors with one axis, of so many bytes each, in this order. The bytes repeat after a MiB."""
    header, end = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": dtype, "shape": [size // SIZES[dtype]], "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    noise = random.Random(1).randbytes(NOISE)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        while end:
            end -= file.write(noise[: min(end, NOISE)])
