"""Measures conversions that share blocks with their source, beside `cp --reflink=never`, on XFS.

    python benches/peers/cloning.py --ckpt target/release/ckpt [--gib 2] [--rounds 5] [--scratch DIRECTORY] [--readme]

It makes an image in DIRECTORY (memory, so that no disk is measured: /dev/shm), and mounts it: for that it must be root, and have
`mkfs.xfs`; elsewhere it says so, and measures nothing. All programs run in turn, round after round; the disk that an output takes is what `df` says before and after. Outputs are
compared with copies that share nothing. Needs nothing else but Python.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import harness
import report
import safetensors_file
import words

TENSORS = 32
JOBS = {
    "tf2 to safetensors": (["tf"], ["out.safetensors"]),
    "tf2 to safetensors, `--no-check`": (["tf"], ["out.safetensors", "--no-check"]),
    "safetensors to tf2": (["in.safetensors"], ["out/m", "--to", "tf2"]),
    "safetensors to safetensors, `--no-check`": (["in.safetensors"], ["out.safetensors", "--no-check"]),
}


@contextlib.contextmanager
def xfs(scratch: pathlib.Path, size: int) -> Iterator[pathlib.Path]:
    """An empty file system of so many bytes, mounted."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        image, mounted = pathlib.Path(folder, "image"), pathlib.Path(folder, "mounted")
        mounted.mkdir()
        image.touch()
        os.truncate(image, size)
        try:
            subprocess.run(["mkfs.xfs", "-q", image], check=True)
            subprocess.run(["mount", "-o", "loop", image, mounted], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"shared blocks were NOT measured: {error}")
            sys.exit(0)
        try:
            yield mounted
        finally:
            subprocess.run(["umount", mounted], check=True)


def used(folder: pathlib.Path) -> int:
    os.sync()
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def remove(folder: pathlib.Path) -> None:
    for name in ("copy", "out.safetensors"):
        (folder / name).unlink(missing_ok=True)
    for path in (folder / "out").iterdir():
        path.unlink()


def compared(program: str, folder: pathlib.Path, output: str) -> None:
    """Whether the output holds what the source does."""
    found = folder / output
    subprocess.run([program, "diff", found.parent if output.startswith("out/") else found, folder / "in.safetensors"],
                   check=True, stdout=subprocess.DEVNULL)


def measure(program: str, gib: float, rounds: int, folder: pathlib.Path) -> dict:
    source = folder / "in.safetensors"
    each = int(gib * words.GIB) // TENSORS // 4096 * 4096
    safetensors_file.write(source, {f"layer.{number:02}": each for number in range(TENSORS)}, "F32")
    for name in ("tf", "out"):
        (folder / name).mkdir()
    subprocess.run([program, "convert", source, folder / "tf/m", "--to", "tf2", "--clone", "never", "-q"], check=True)
    data = next(path for path in (folder / "tf").iterdir() if ".data-" in path.name)
    copy = harness.Program("cp", ["cp", "--reflink=never", data, folder / "copy"], folder / "copy")
    copies: list[float] = []
    walls: dict[str, list[float]] = {name: [] for name in JOBS}
    disk: dict[str, list[int]] = {name: [] for name in JOBS}
    for number in range(rounds + 1):
        remove(folder)
        os.sync()
        seconds = harness.measured(copy).wall
        remove(folder)
        if number:
            copies.append(seconds)
        for name, (inputs, options) in JOBS.items():
            command = [program, "convert", folder / inputs[0], folder / options[0], *options[1:], "--clone", "always", "--no-sync", "-q"]
            before = used(folder)
            cost = harness.measured(harness.Program(name, list(map(str, command)), folder / "any"))
            grown = max(0, used(folder) - before)
            if number == rounds:
                compared(program, folder, options[0])
            remove(folder)
            if number:
                walls[name].append(cost.wall)
                disk[name].append(grown)
    size = source.stat().st_size
    rows = [{"job": "cp --reflink=never", "time": words.time(statistics.median(copies)), "× cp (least–most)": "1.00",
             "more disk": "100 %"}]
    rows += [{"job": name, "time": words.time(statistics.median(found)),
              "× cp (least–most)": words.spread(words.ratio(found, copies)), "more disk": f"{max(disk[name]) / size:.2%}"}
             for name, found in walls.items()]
    here = words.on(harness.machine(program, folder))
    return {"said": f"{words.rounds(rounds)} of {words.size(size >> 20 << 20)} {here} (XFS on a loop device in memory).",
            "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--gib", type=float, default=2, help="bytes of the source")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/dev/shm"), help="where the image is made")
    parser.add_argument("--readme", action="store_true", help="results go into the repository, and into its pages")
    arguments = parser.parse_args()
    # The source twice, and a copy.
    size = max(int(4 * arguments.gib * words.GIB), 512 << 20)
    with xfs(arguments.scratch, size) as folder:
        results = {"cloning": measure(arguments.ckpt, arguments.gib, arguments.rounds, folder)}
    report.finish(results, arguments.readme)


if __name__ == "__main__":
    main()
