"""Makes GGUF files with gguf-py, and experts: `python gguf_sources.py KIND ARGUMENTS`."""

import json
import sys
from collections.abc import Iterator

import gguf
import numpy
from safetensors import safe_open


def arrays(flat: str) -> Iterator[tuple[str, numpy.ndarray]]:
    with safe_open(flat, "np") as file:
        for name in file.keys():
            yield name, file.get_tensor(name)


def half(flat: str, out: str) -> None:
    """As many bytes of f16: each matrix, and under it the same with other signs."""
    write(out, ((name, numpy.concatenate([array, -array]).astype(numpy.float16), None) for name, array in arrays(flat)))


def blocks(flat: str, out: str, name: str) -> None:
    """The matrices as gguf-py's quantizer gives them."""
    kind = gguf.GGMLQuantizationType[name.upper()]
    write(out, ((name, gguf.quantize(array, kind), kind) for name, array in arrays(flat)))


def write(out: str, tensors: Iterator[tuple[str, numpy.ndarray, gguf.GGMLQuantizationType | None]]) -> None:
    writer = gguf.GGUFWriter(out, "llama")
    for name, array, kind in tensors:
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def part(flat: str, out: str, count: str) -> None:
    """The first matrices as a safetensors file."""
    from safetensors.numpy import save_file

    save_file({name: array for (name, array), _ in zip(arrays(flat), range(int(count)))}, out)


def experts(flat: str, out: str, count: str) -> None:
    """The same bytes as so many tensors, each of equally many rows: number 0 first, in the order of the file."""
    with open(flat, "rb") as source, open(out, "wb") as made:
        header = json.loads(source.read(int.from_bytes(source.read(8), "little")))
        header.pop("__metadata__", None)
        columns = next(iter(header.values()))["shape"][1]
        total = max(entry["data_offsets"][1] for entry in header.values())
        each, rest = divmod(total, int(count))
        assert rest == 0 and each % (4 * columns) == 0, "the experts have no whole rows"
        text = json.dumps({
            f"model.layers.0.experts.{number}.weight": {
                "dtype": "F32", "shape": [each // (4 * columns), columns],
                "data_offsets": [each * number, each * (number + 1)]}
            for number in range(int(count))})
        made.write((len(text) + -len(text) % 8).to_bytes(8, "little") + text.encode() + b" " * (-len(text) % 8))
        while chunk := source.read(1 << 20):
            made.write(chunk)


KINDS = {kind.__name__: kind for kind in (half, blocks, part, experts)}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
