"""The Python package beside safetensors' own, in the same run: each measurement in a process of its own, in turn.

    python benches/peers/python.py [--gib 2] [--rounds 7] [--json FILE]

It needs both packages: the wheel of a release build, and safetensors with NumPy. Files are warm: both read what the system
has in memory. Seconds are those of the calls, without importing; memory is what the process took beyond its imports.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

PACKAGES = {"ckpt": "ckpt.safetensors.numpy", "safetensors": "safetensors.numpy"}
TENSORS = 32
MANY = 20_000


def load(module, path: pathlib.Path) -> float:
    started = time.perf_counter()
    loaded = module.load_file(path)
    seconds = time.perf_counter() - started
    assert loaded
    return seconds


def save(module, path: pathlib.Path) -> float:
    import numpy

    size = int(path.with_suffix(".size").read_text())
    rows = size // TENSORS // 4096
    tensors = {f"layer.{number}": numpy.full((rows, 1024), number, "f4") for number in range(TENSORS)}
    target = path.with_suffix(".saved")
    target.unlink(missing_ok=True)
    started = time.perf_counter()
    module.save_file(tensors, target)
    seconds = time.perf_counter() - started
    target.unlink()
    return seconds


def row(module, path: pathlib.Path) -> float:
    """One row of the largest tensor, of a file that is open: the median of a hundred."""
    package = importlib.import_module(module.__name__.rpartition(".")[0])
    times = []
    with package.safe_open(path, "np") as file:
        part = file.get_slice("large")
        for number in range(100):
            started = time.perf_counter()
            assert part[number * 7 : number * 7 + 1].shape[0] == 1
            times.append(time.perf_counter() - started)
    return statistics.median(times)


JOBS = {"load": load, "save": save, "many": load, "row": row}


def measure(job: str, package: str, path: pathlib.Path) -> None:
    module = importlib.import_module(PACKAGES[package])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = JOBS[job](module, path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "mib": (peak - before) / 1024}))


def prepare(folder: pathlib.Path, gib: float) -> dict[str, pathlib.Path]:
    import numpy
    from safetensors.numpy import save_file

    size = int(gib * (1 << 30))
    files = {name: folder / name for name in ("load", "save", "many", "row")}
    rows = size // TENSORS // 4096
    save_file({f"layer.{number}": numpy.full((rows, 1024), number, "f4") for number in range(TENSORS)}, files["load"])
    files["save"].with_suffix(".size").write_text(str(size))
    save_file({f"layer.{number}": numpy.full((8, 16), number, "f4") for number in range(MANY)}, files["many"])
    save_file({"large": numpy.ones((size // 2 // 4096, 1024), "f4")}, files["row"])
    return files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=2, help="bytes of the large file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scratch", type=pathlib.Path, help="where the files are made")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures are written, too")
    parser.add_argument("--measure", nargs=3, metavar=("JOB", "PACKAGE", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        job, package, path = arguments.measure
        measure(job, package, pathlib.Path(path))
        return 0
    figures: dict[str, dict[str, dict[str, list[float]]]] = {}
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        for job, path in prepare(pathlib.Path(folder), arguments.gib).items():
            found = {package: {"seconds": [], "mib": []} for package in PACKAGES}
            for _ in range(arguments.rounds):
                for package in PACKAGES:
                    command = [sys.executable, __file__, "--measure", job, package, str(path)]
                    ran = subprocess.run(command, check=True, capture_output=True, text=True)
                    for key, value in json.loads(ran.stdout).items():
                        found[package][key].append(value)
            figures[job] = found
            show(job, found)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def show(job: str, found: dict[str, dict[str, list[float]]]) -> None:
    medians = {package: statistics.median(each["seconds"]) for package, each in found.items()}
    ratios = [theirs / ours for ours, theirs in zip(found["ckpt"]["seconds"], found["safetensors"]["seconds"])]
    memory = {package: statistics.median(each["mib"]) for package, each in found.items()}
    print(
        f"{job:5} ckpt {medians['ckpt']:.6f} s, {memory['ckpt']:.0f} MiB; "
        f"safetensors {medians['safetensors']:.6f} s, {memory['safetensors']:.0f} MiB; "
        f"{statistics.median(ratios):.2f}x as fast ({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
