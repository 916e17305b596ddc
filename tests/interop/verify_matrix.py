#!/usr/bin/env python3
"""Converts healthy checkpoints of every format to every format with `--verify`, and fails on what a conversion must never give.

    python tests/interop/verify_matrix.py --ckpt target/debug/ckpt [--runs 6000]     (no packages)

Sources are the files of the corpus and, if CKPT_CASES names their folder, those of other programs that `ckpt inspect` reads and
that are smaller than 3 MB. Each is converted to every target as it is, and to f32, f16 and bf16 where the target has a choice, and
every loss is allowed. `--runs` bounds the number of conversions: of each format's sources in the order of their size, every N-th
is taken, the same ones each time, and formats with few sources give all; 0 takes every source.

A conversion may be refused (1, 2, 3). Exit code 4 (the output and the source differ), 70 (a defect), a signal and a timeout fail;
5 (corrupt) fails unless the conversion without `--verify` finds the same. The last line counts the runs.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# An output of each format that `ckpt` writes; Keras has three kinds of files.
TARGETS = {
    "keras": ("o.keras", "o.h5", "o.weights.h5"),
    "onnx": ("o.onnx",),
    "torch": ("o.pt",),
    "safetensors": ("o.safetensors",),
    "tf2": ("o",),
    "nnue": ("o.nnue",),
    "npz": ("o.npz",),
    "gguf": ("o.gguf",),
    "nn": ("o.nn",),
    "bullet": ("o",),
    "cnn2": ("o.bin",),
    "orbax": ("o",),
    "flax": ("o.msgpack",),
    "tfjs": ("o",),
    "tflite": ("o.tflite",),
    "coreml": ("o.mlpackage",),
    "caffe": ("o.caffemodel",),
    "darknet": ("o.weights",),
    "mxnet": ("o.params",),
    "paddle": ("o.pdparams", "o.pdiparams"),
}
# Formats that state the types of their numbers themselves.
FIXED_TYPES = {"bullet", "cnn2", "gguf", "nn"}
TYPES = ((), ("--dtype", "f32"), ("--dtype", "f16"), ("--dtype", "bf16"))
ENDINGS = (
    ".bin", ".caffemodel", ".ckpt", ".gguf", ".h5", ".hdf5", ".keras", ".mlmodel", ".msgpack", ".nn", ".nnue", ".npy", ".npz", ".onnx",
    ".params", ".pb", ".pdiparams", ".pdopt", ".pdparams", ".pt", ".pth", ".safetensors", ".safetensors.index.json", ".t7", ".tflite",
    ".weights",
)
# A directory that holds one of these may be a checkpoint: a SavedModel, PyTorch's distributed one, Orbax's, TensorFlow.js's, Core ML's.
MARKERS = {"saved_model.pb", ".metadata", "_METADATA", "manifest.ocdbt", "model.json", "Manifest.json"}
MOST_BYTES = 3_000_000
SECONDS = 120


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True, type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=6000)
    arguments = parser.parse_args()
    ckpt = arguments.ckpt.resolve()
    check_targets(ckpt)
    roots = [ROOT / "corpus"]
    if cases := os.environ.get("CKPT_CASES"):
        roots.append(pathlib.Path(cases))
    else:
        print("CKPT_CASES is not set: the corpus alone gives sources")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = [path for root in roots for path in candidates(root)]
        formats = pool.map(lambda path: format_of(ckpt, path), paths)
        readable = [(path, found) for path, found in zip(paths, formats) if found]
        sources = chosen(readable, arguments.runs)
        by_format = collections.Counter(found for _, found in sources)
        print(f"{len(sources)} of {len(readable)} sources:", ", ".join(f"{n} {name}" for name, n in sorted(by_format.items())))
        jobs = [(path, *run) for path, _ in sources for run in runs_of_each()]
        exits = collections.Counter()
        failures = 0
        for code, failure in pool.map(lambda job: convert(ckpt, *job), jobs):
            exits[code] += 1
            if failure:
                failures += 1
                print(failure, flush=True)
    listed = ", ".join(f"{n} × {code}" for code, n in sorted(exits.items(), key=lambda item: str(item[0])))
    print(f"verify_matrix: {len(jobs)} runs, exit codes {listed}; {failures} failed")
    return 1 if failures or not jobs else 0


def check_targets(ckpt):
    """A format that is written is a target here."""
    listed = subprocess.run([ckpt, "formats", "--format", "json"], capture_output=True, check=True).stdout
    written = {one["id"] for one in json.loads(listed) if one["writes"]}
    missing = written - TARGETS.keys()
    if missing:
        sys.exit(f"formats without a target in {__file__}: {', '.join(sorted(missing))}")


def candidates(root):
    """Files and directories that may be checkpoints, in one order everywhere."""
    for folder, folders, files in os.walk(root):
        folders.sort()
        folder = pathlib.Path(folder)
        if MARKERS.intersection(files):
            yield folder
        for name in sorted(files):
            path = folder / name
            if path.is_symlink() or path.stat().st_size >= MOST_BYTES:
                continue
            if name.endswith(".index"):
                yield path.with_suffix("")
            elif name.endswith(ENDINGS):
                yield path


def format_of(ckpt, path):
    """The format of a checkpoint that can be read; None for others."""
    result = run(ckpt, ["inspect", path, "--format", "json"])
    try:
        return json.loads(result.stdout)["format"] if result and result.returncode == 0 else None
    except (KeyError, ValueError):
        return None


def chosen(readable, most):
    """Sources that give at most so many runs: of each format every N-th by size."""
    each = sum(1 for _ in runs_of_each())
    groups = collections.defaultdict(list)
    for path, found in readable:
        groups[found].append(path)
    for paths in groups.values():
        paths.sort(key=lambda path: (size(path), str(path)))
    longest = max(map(len, groups.values()), default=0)
    for most_of_one in range(longest, 0, -1):
        picked = []
        for found, paths in sorted(groups.items()):
            step = -(-len(paths) // most_of_one)
            picked += [(path, found) for path in paths[::step]]
        if not most or len(picked) * each <= most:
            return picked
    return []


def size(path):
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size if path.exists() else path.with_name(path.name + ".index").stat().st_size


def runs_of_each():
    for target, outputs in TARGETS.items():
        for output in outputs:
            for types in TYPES[:1] if target in FIXED_TYPES else TYPES:
                yield target, output, types


def convert(ckpt, path, target, output, types):
    """The exit code, and what is wrong if it is one that must not be."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, output)
        command = ["convert", path, out, "--to", target, "--allow", "all", "--no-sync", "-q", "--max-memory", "300m", *types]
        result = run(ckpt, [*command, "--verify"])
        code = result.returncode if result else "timeout"
        if code in (0, 1, 2, 3):
            return code, None
        if code == 5:
            plain = run(ckpt, [*command, "--force"])
            if plain and plain.returncode == 5:
                return code, None
        said = result.stderr.decode("utf-8", "replace").strip() if result else f"no end after {SECONDS} s"
        shown = shlex.join(map(str, ["ckpt", "convert", path, output, "--to", target, "--allow", "all", *types, "--verify"]))
        return code, f"$ {shown}\nexit code {code}: {said}\n"


def run(ckpt, arguments):
    try:
        return subprocess.run([ckpt, *arguments], capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    sys.exit(main())
