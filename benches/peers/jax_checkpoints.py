"""Orbax and safetensors beside `ckpt convert`, on a checkpoint that Orbax saves here: time and memory of whole processes.

    python benches/peers/jax_checkpoints.py --ckpt target/release/ckpt [--gib 2] [--rounds 5] [--scratch DIRECTORY] [--readme]

The files are made in DIRECTORY (memory: /dev/shm), which needs three times the bytes; Python takes twice as much beside. The
packages are those of tests/interop/requirements-orbax.txt. In each round both programs do a job once, in turn; a round that is
not counted comes first, and what it makes is checked: its tensors have the hash of the source's.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version

import harness
import report
import words

TENSORS = 32
COLUMNS = 2048
PACKAGES = ("orbax-checkpoint", "tensorstore", "jax", "safetensors")


def many(gib: float) -> int:
    """How many small arrays there are: few where everything is only tried."""
    return 20_000 if gib >= 0.5 else 500


def quiet():
    import logging

    logging.disable(logging.WARNING)
    import orbax.checkpoint

    return orbax.checkpoint


def make(folder: pathlib.Path, gib: float) -> None:
    """The checkpoints: as Orbax saves them by default, without compression, and one of many arrays."""
    import numpy
    import safetensors.numpy

    orbax = quiet()
    rows = int(gib * words.GIB) // TENSORS // COLUMNS // 4
    noise = numpy.random.default_rng(1)
    tree = {f"layer_{number:02}": noise.standard_normal((rows, COLUMNS), dtype="f4") for number in range(TENSORS)}
    safetensors.numpy.save_file(tree, folder / "in.safetensors")
    orbax.PyTreeCheckpointer().save(folder / "default", tree)
    orbax.Checkpointer(orbax.PyTreeCheckpointHandler(use_ocdbt=True, use_compression=False)).save(folder / "plain", tree)
    small = {f"layer_{number}": numpy.full((8, 16), number, "f4") for number in range(many(gib))}
    orbax.PyTreeCheckpointer().save(folder / "many", small)


def to_safetensors(source: pathlib.Path, target: pathlib.Path) -> None:
    import numpy
    import safetensors.numpy

    restored = quiet().PyTreeCheckpointer().restore(source)
    safetensors.numpy.save_file({name: numpy.asarray(array) for name, array in restored.items()}, target)


def from_safetensors(source: pathlib.Path, target: pathlib.Path) -> None:
    import safetensors.numpy

    with quiet().StandardCheckpointer() as checkpointer:
        checkpointer.save(target, safetensors.numpy.load_file(source))


def look(source: pathlib.Path, _: pathlib.Path) -> None:
    assert quiet().PyTreeCheckpointer().metadata(source).item_metadata.tree


WAYS = {"to": to_safetensors, "from": from_safetensors, "look": look}


def jobs(folder: pathlib.Path, gib: float) -> list[tuple[str, str, pathlib.Path, pathlib.Path, tuple[str, ...]]]:
    """What each job is called, how Python does it, what it reads and makes, and how `ckpt` is told."""
    made, size, count = folder / "made", words.size(gib * words.GIB), many(gib)
    return [
        (f"Orbax to safetensors, {size}", "to", folder / "default", made.with_suffix(".safetensors"), ("convert",)),
        (f"Orbax without compression to safetensors, {size}", "to", folder / "plain", made.with_suffix(".safetensors"), ("convert",)),
        (f"safetensors to Orbax, {size}", "from", folder / "in.safetensors", made, ("convert", "--to", "orbax")),
        (f"Orbax to safetensors, {count:,} arrays of 512 bytes", "to", folder / "many", made.with_suffix(".safetensors"), ("convert",)),
        (f"looking at {count:,} arrays", "look", folder / "many", made, ("inspect", "--depth", "1")),
    ]


def commands(ckpt: str, job: tuple) -> dict[str, list[str]]:
    _, way, source, target, options = job
    paths = [str(source)] if way == "look" else [str(source), str(target), "--no-sync"]
    return {"python": [sys.executable, __file__, "--way", way, str(source), str(target)], "ckpt": [ckpt, *options, *paths]}


def hashed(ckpt: str, path: pathlib.Path) -> str:
    return subprocess.run([ckpt, "hash", path], check=True, capture_output=True, text=True).stdout.split()[0]


def run(ckpt: str, gib: float, rounds: int, folder: pathlib.Path) -> dict:
    os.environ["JAX_PLATFORMS"] = "cpu"
    here = harness.machine(ckpt, folder)
    subprocess.run([sys.executable, __file__, "--make", str(folder), str(gib)], check=True)
    rows = []
    for job in jobs(folder, gib):
        title, way, source, target, _ = job
        found = {"python": [], "ckpt": []}
        for number in range(rounds + 1):
            for program, command in commands(ckpt, job).items():
                cost = harness.measured(harness.Program(title, command, target))
                if number:
                    found[program].append((cost.wall, cost.mib))
                elif way != "look" and hashed(ckpt, target) != hashed(ckpt, source):
                    sys.exit(f"{title}: {program} makes other tensors")
                shutil.rmtree(target, ignore_errors=True) if target.is_dir() else target.unlink(missing_ok=True)
        harness.log(f"{title}: {found}")
        seconds = {program: [cost[0] for cost in costs] for program, costs in found.items()}
        peaks = {program: max(cost[1] for cost in costs) for program, costs in found.items()}
        rows.append({
            "job": title, "Orbax": words.time(statistics.median(seconds["python"])),
            "`ckpt`": words.time(statistics.median(seconds["ckpt"])),
            "times as fast (least–most)": words.spread(words.ratio(seconds["python"], seconds["ckpt"])),
            "peak RSS, MiB: Orbax": words.memory(peaks["python"]), "MiB: `ckpt`": words.memory(peaks["ckpt"]),
        })
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return {"jax": {"said": f"{words.rounds(rounds)} {words.on(here)}; with {packages}.", "rows": rows}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", help="the program, of a release build")
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/dev/shm"), help="where the files are made")
    parser.add_argument("--readme", action="store_true", help="results go into the repository, and into its pages")
    parser.add_argument("--way", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        way, source, target = arguments.way
        WAYS[way](pathlib.Path(source), pathlib.Path(target))
    elif arguments.make:
        make(pathlib.Path(arguments.make[0]), float(arguments.make[1]))
    else:
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            results = run(str(pathlib.Path(arguments.ckpt).resolve()), arguments.gib, arguments.rounds, pathlib.Path(folder))
        report.finish(results, arguments.readme)


if __name__ == "__main__":
    main()
