"""The Python package beside safetensors' own, in the same run: each measurement in a process of its own, in turn.

    python benches/peers/python.py [--gib 2] [--rounds 7] [--readme]

It needs both packages: the wheel of a release build, and safetensors with NumPy. Files are warm: both read what the system
has in memory. Seconds are those of the calls, without importing; memory is what the process took beyond its imports.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import harness
import report
import words

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
    # safetensors imports NumPy at once, ckpt when an array is made.
    importlib.import_module("numpy")
    module = importlib.import_module(PACKAGES[package])
    # The peak begins anew: it is that of the process that started this one.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    seconds = JOBS[job](module, path)
    print(json.dumps({"seconds": seconds, "mib": status("VmHWM") - before}))


def status(key: str) -> float:
    """MiB of memory that the process has, or had at most."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{key}:"))


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


def titles(gib: float) -> dict[str, str]:
    return {
        "load": f"`load_file`, {words.size(gib * words.GIB)} in {TENSORS} tensors",
        "save": f"`save_file`, {words.size(gib * words.GIB)} in {TENSORS} tensors",
        "many": f"`load_file`, {MANY:,} tensors of 512 bytes",
        "row": f"`get_slice(…)[n:n + 1]`, one row of {words.size(gib / 2 * words.GIB)}",
    }


def run(gib: float, rounds: int, folder: pathlib.Path) -> dict:
    """Every job in rounds, each package once a round; a round that is not counted comes first."""
    here = harness.machine(str(pathlib.Path(sys.executable).with_name("ckpt")), folder)
    arrays = {"load": gib * 1024, "save": gib * 1024, "many": MANY * 512 / (1 << 20), "row": 0}
    rows = []
    for job, path in prepare(folder, gib).items():
        found = {package: {"seconds": [], "mib": []} for package in PACKAGES}
        for number in range(rounds + 1):
            for package in PACKAGES:
                harness.back(int(arrays[job] * (1 << 20)))
                harness.warm(path)
                command = [sys.executable, __file__, "--measure", job, package, str(path)]
                ran = subprocess.run(command, check=True, capture_output=True, text=True)
                for key, value in json.loads(ran.stdout).items() if number else ():
                    found[package][key].append(round(value, 7))
        harness.log(f"{job}: {found}")
        own, its = found["ckpt"], found["safetensors"]
        rows.append({
            "function": titles(gib)[job], "safetensors": words.time(statistics.median(its["seconds"])),
            "`ckpt`": words.time(statistics.median(own["seconds"])),
            "times as fast (least–most)": words.spread(words.ratio(its["seconds"], own["seconds"])),
            "memory beyond the arrays, MiB: safetensors": f"{max(0, max(its['mib']) - arrays[job]):.0f}",
            "MiB: `ckpt`": f"{max(0, max(own['mib']) - arrays[job]):.0f}",
        })
    said = f"{words.rounds(rounds)} with Python {here['python']} {words.on(here, 'safetensors', 'numpy')}."
    return {"python": {"said": said, "rows": rows}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=2, help="bytes of the large file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scratch", type=pathlib.Path, help="where the files are made")
    parser.add_argument("--readme", action="store_true", help="results go into the repository, and into its pages")
    parser.add_argument("--measure", nargs=3, metavar=("JOB", "PACKAGE", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        job, package, path = arguments.measure
        measure(job, package, pathlib.Path(path))
        return
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        results = run(arguments.gib, arguments.rounds, pathlib.Path(folder))
    report.finish(results, arguments.readme)


if __name__ == "__main__":
    main()
