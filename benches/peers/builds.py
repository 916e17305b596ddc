"""Measures two builds of ckpt beside each other, in turn, on the same files: what a change of the build costs.

    python benches/peers/builds.py OLD NEW [--gib 1] [--rounds 7] [--scratch DIRECTORY] [--threads 2] [--only JOB …]

OLD and NEW are programs. For each job, each round runs both, in alternating order; a round that is not counted comes first.
It prints the median of the rounds' ratios, new : old, of wall time and of processor time, with the least and the most of the
former. The files are made in DIRECTORY (memory: /dev/shm), which needs three times their size. Needs nothing but Python.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

TENSORS = 32
COLUMNS = 2048
SMALL = 100_000


def matrices(path: pathlib.Path, size: int) -> None:
    """A safetensors file of 32 matrices of f32 that together have about so many bytes, with values between -2 and 2."""
    rows = max(1, size // TENSORS // COLUMNS // 4)
    each = rows * COLUMNS * 4
    draw = random.Random(1)
    noise = b"".join(
        (draw.getrandbits(23) | draw.choice((0x3F000000, 0xBF000000, 0x3F800000))).to_bytes(4, "little")
        for _ in range(1 << 16)
    )
    header = {
        f"layer_{number:02}.kernel": {
            "dtype": "F32", "shape": [rows, COLUMNS], "data_offsets": [number * each, (number + 1) * each]
        }
        for number in range(TENSORS)
    }
    write(path, header, noise, TENSORS * each)


def small_tensors(path: pathlib.Path, count: int) -> None:
    """A safetensors file of tensors of 64 bytes."""
    header = {
        f"model.layers.{number // 10}.part_{number % 10}": {
            "dtype": "F32", "shape": [16], "data_offsets": [number * 64, (number + 1) * 64]
        }
        for number in range(count)
    }
    write(path, header, bytes(1 << 16), count * 64)


def write(path: pathlib.Path, header: dict, noise: bytes, left: int) -> None:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        while left:
            left -= file.write(noise[: min(left, len(noise))])


def jobs(folder: pathlib.Path, threads: int) -> dict[str, tuple[list[str], int]]:
    """Arguments of each job, and how often it runs in one measurement."""
    plain, tf2, gguf = folder / "plain.safetensors", folder / "tf" / "model", folder / "model.gguf"
    many, few = folder / "many.safetensors", folder / "few.safetensors"

    def convert(source: pathlib.Path, made: str, *options: str) -> tuple[list[str], int]:
        return ["convert", str(source), str(folder / made), "--no-sync", "--force", "-q", "-j", str(threads), *options], 1

    return {
        "tf2 to safetensors": convert(tf2, "out.safetensors"),
        "safetensors to tf2": convert(plain, "out-model", "--to", "tf2"),
        "safetensors to npz": convert(plain, "out.npz"),
        "safetensors to torch": convert(plain, "out.pt"),
        "F32 to F16": convert(plain, "out.safetensors", "--dtype", "f16", "--allow", "rounded"),
        "F32 to BF16": convert(plain, "out.safetensors", "--dtype", "bf16"),
        "transposed": convert(plain, "out.safetensors", "--transform", "**: transpose"),
        "to GGUF, Q8_0": convert(plain, "out.gguf", "--set", "type=q8_0", "--allow", "quantized"),
        "from GGUF, Q8_0": convert(gguf, "out.safetensors", "--dtype", "f32"),
        "hash": (["hash", str(plain)], 1),
        "inspect --stats": (["inspect", str(plain), "--stats"], 1),
        "many tensors to safetensors": convert(many, "out.safetensors"),
        "many tensors to tf2": convert(many, "out-model", "--to", "tf2"),
        "inspect of a small file": (["inspect", str(few)], 50),
        "formats": (["formats"], 50),
    }


def measure(program: str, arguments: list[str], times: int) -> tuple[float, float]:
    """Wall seconds and processor seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for _ in range(times):
        done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            raise SystemExit(f"{program} {' '.join(arguments)}: {done.stderr.decode()}")
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall / times, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/dev/shm"))
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    programs = [os.path.abspath(arguments.old), os.path.abspath(arguments.new)]
    print(f"| job, {arguments.threads} threads | old ms | new ms | new : old | least–most | processor time |")
    print("|---|---:|---:|---:|---|---:|")
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        folder = pathlib.Path(name)
        matrices(folder / "plain.safetensors", int(arguments.gib * (1 << 30)))
        small_tensors(folder / "many.safetensors", SMALL)
        small_tensors(folder / "few.safetensors", 4)
        (folder / "tf").mkdir()
        make = [programs[0], "convert", "--no-sync", "-q", str(folder / "plain.safetensors")]
        subprocess.run([*make, str(folder / "tf" / "model"), "--to", "tf2"], check=True)
        subprocess.run([*make, str(folder / "model.gguf"), "--set", "type=q8_0", "--allow", "quantized"], check=True)
        for job, (command, times) in jobs(folder, arguments.threads).items():
            if arguments.only and job not in arguments.only:
                continue
            rounds = []
            for number in range(arguments.rounds + 1):
                order = (0, 1) if number % 2 else (1, 0)
                taken = {}
                for which in order:
                    for made in folder.glob("out*"):
                        shutil.rmtree(made) if made.is_dir() else made.unlink()
                    taken[which] = measure(programs[which], command, times)
                rounds.append(taken)
            rounds = rounds[1:]
            old, new = (statistics.median(taken[which][0] for taken in rounds) * 1000 for which in (0, 1))
            ratios = sorted(taken[1][0] / taken[0][0] for taken in rounds)
            processor = statistics.median(taken[1][1] / taken[0][1] for taken in rounds)
            print(f"| {job} | {old:.1f} | {new:.1f} | {statistics.median(ratios):.3f} | {ratios[0]:.2f}–{ratios[-1]:.2f} | "
                  f"{processor:.3f} |", flush=True)


if __name__ == "__main__":
    main()
