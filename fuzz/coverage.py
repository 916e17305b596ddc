#!/usr/bin/env python3
"""What fuzz/coverage.sh measured: of each parser's file the lines that were reached, and those that nothing reached.

    python3 fuzz/coverage.py LCOV        (uncovered lines to standard output, the table to standard error)
"""

import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What reads the bytes of strangers. Lines that only writing needs are in other files, or in these and count.
PARSERS = {
    "codecs/tf2/src": "read format round_trip table cursor wire index slices string_slices strings ordered_code object_graph state_file locate key_text format/entry format/entry_fields format/dtype naming/per_tensor",
    "codecs/tf2/src/describe": "mod objects saved_model functions ops chain object_layers keras_metadata optimizers roles names axes",
    "codecs/nn/src": "read description dialect",
    "codecs/bullet/src": "read records architecture layout preset propose step",
    "codecs/cnn2/src": "read walk",
    "codecs/gguf/src": "header read split value",
    "codecs/hdf5/src": "datatype",
    "codecs/hdf5/src/read": "mod arrays attribute chunks dataset group header heap message space superblock tree1 tree2",
    "codecs/keras/src/read": "mod describe files index optimizer part",
    "codecs/npz/src": "read header",
    "codecs/onnx/src/format": "wire",
    "codecs/onnx/src/read": "mod model tensor kept graph/fold graph/linear graph/ops graph/recurrent graph/shapes graph/windows",
    "codecs/safetensors/src": "read/mod read/tensor format carried",
    "codecs/torch/src/container": "mod zip legacy storage",
    "codecs/torch/src/object": "children counts walk values",
    "codecs/torch/src/read": "mod file set",
    "codecs/torch/src/roles": "pickled",
    "codecs/torch/src/tensor": "call rebuild layout",
    "crates/containers/src/pickle": "machine feed text tree/mod names numpy",
    "codecs/api/src": "zip/archive architecture/file architecture/layers architecture/fields architecture/bind",
    "crates/engine/src/mapping": "file parse pattern matching check relation inverse",
}


def lines(lcov: str) -> dict[str, dict[int, int]]:
    """Of each file the lines with code, and how often each ran."""
    found, file = collections.defaultdict(dict), ""
    for line in pathlib.Path(lcov).read_text().splitlines():
        kind, _, rest = line.partition(":")
        if kind == "SF":
            file = rest
        elif kind == "DA":
            number, count = rest.split(",")[:2]
            found[file][int(number)] = max(int(count), found[file].get(int(number), 0))
    return found


def main() -> None:
    measured = lines(sys.argv[1])
    for folder, names in PARSERS.items():
        total = reached = 0
        for name in names.split():
            path = ROOT / folder / f"{name}.rs"
            counts = measured.get(str(path), {})
            source = path.read_text().splitlines()
            missed = sorted(number for number, count in counts.items() if count == 0)
            total, reached = total + len(counts), reached + len(counts) - len(missed)
            print(f"{folder}/{name}.rs: {len(counts) - len(missed)} of {len(counts)} lines")
            for number in missed:
                print(f"  {number}: {source[number - 1]}")
            if missed:
                share = 100 * (1 - len(missed) / len(counts))
                print(f"  {share:5.1f} % of {len(counts):4} lines  {folder}/{name}.rs", file=sys.stderr)
        # A group that the targets named do not contain was not measured.
        if total > 0:
            print(f"{100 * reached / total:7.1f} % of {total:4} lines  {folder}", file=sys.stderr)


main()
