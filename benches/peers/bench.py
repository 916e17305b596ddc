#!/usr/bin/env python3
"""Measures ckpt beside `cp` and beside TensorFlow + safetensors, on two TensorFlow checkpoints made here.

    python benches/peers/bench.py --ckpt target/release/ckpt --scratch SCRATCH_DIR [--rounds 5] [--gib 2]

`large`: 32 tensors, 2 GiB together. `small`: 20,000 tensors of 1 KiB. Every round runs each program once, in turn, so
that a slow moment of the machine falls on all; the table gives medians. Output is removed and the disk synced between
runs. Needs GNU time (/usr/bin/time) and the packages of tests/interop/requirements.txt.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "corpus"))

from bundle import DTYPES, HEADER, entry_proto, table  # noqa: E402
from common import crc32c, masked  # noqa: E402

PEER = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import safetensors.numpy, tensorflow as tf
reader = tf.train.load_checkpoint(sys.argv[1])
tensors = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
safetensors.numpy.save_file(tensors, sys.argv[2])
"""
CHUNK = 1 << 20


def crc_shift(length: int):
    """What `length` zero bytes do to a CRC-32C register, as the images of its 32 bits: built by squaring."""

    def apply(operator, crc):
        out, bit = 0, 0
        while crc:
            if crc & 1:
                out ^= operator[bit]
            crc, bit = crc >> 1, bit + 1
        return out

    step = [0x82F63B78] + [1 << bit for bit in range(31)]  # one zero bit
    operator, bits = [1 << bit for bit in range(32)], 8 * length
    while bits:
        if bits & 1:
            operator = [apply(step, value) for value in operator]
        step, bits = [apply(step, value) for value in step], bits >> 1
    return lambda crc: apply(operator, crc)


def write_checkpoint(folder: pathlib.Path, count: int, size: int) -> None:
    """`count` tensors of `size` bytes of f32. Each begins with bytes of its own; the rest repeats a random chunk."""
    folder.mkdir(parents=True)
    own = min(size, 1024)
    chunk = bytes(b & 0x7F if n % 4 == 3 else b for n, b in enumerate(os.urandom(min(size, CHUNK))))  # no NaN
    repeats, rest = divmod(size - own, len(chunk))
    shift, chunk_crc = crc_shift(len(chunk)), crc32c(chunk) if repeats else 0
    entries, offset = [(b"", HEADER)], 0
    with open(folder / "model.data-00000-of-00001", "wb") as data:
        for number in range(count):
            first = number.to_bytes(4, "little") + chunk[4:own]
            data.write(first)
            crc = crc32c(first)
            for _ in range(repeats):
                data.write(chunk)
                crc = shift(crc) ^ chunk_crc
            data.write(chunk[:rest])
            crc = crc32c(chunk[:rest], crc)
            name = f"layer_{number:05}/kernel".encode()
            shape = [size // 4] if size < 1 << 16 else [4096, size // 4 // 4096]
            entries.append((name, entry_proto(DTYPES["f32"], shape, 0, offset, size, masked(crc))))
            offset += size
    (folder / "model.index").write_bytes(table(entries))


def measure(command: list[str], output: pathlib.Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds, peak resident MiB."""
    report = output.parent / "time.txt"
    start = time.perf_counter()
    done = subprocess.run(["/usr/bin/time", "-v", "-o", report, *command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    wall = time.perf_counter() - start
    text = report.read_text()
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}{text}")
    cpu = sum(float(re.search(rf"{kind} time \(seconds\): ([\d.]+)", text)[1]) for kind in ("User", "System"))
    peak = int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", text)[1]) / 1024
    if output.is_dir():
        shutil.rmtree(output)
    else:
        output.unlink()
    os.sync()
    return wall, cpu, peak


def compare(ckpt: str, scratch: pathlib.Path, name: str, count: int, size: int, rounds: int, peers: bool) -> None:
    source, output = scratch / name, scratch / "out.safetensors"
    print(f"making {name}: {count} tensors of {size} bytes", file=sys.stderr)
    write_checkpoint(source, count, size)
    os.sync()
    prefix = str(source / "model")
    data = f"{prefix}.data-00000-of-00001"
    programs = {
        "cp": ["cp", data, str(output)],
        "cp, then sync of the copy": ["sh", "-c", 'cp "$0" "$1" && sync "$1"', data, str(output)],
        "ckpt convert": [ckpt, "convert", "--from", "tf2", "--to", "safetensors", prefix, str(output)],
        "ckpt convert --no-sync": [ckpt, "convert", "--no-sync", "--from", "tf2", "--to", "safetensors", prefix, str(output)],
    }
    if "--no-sync" not in subprocess.run([ckpt, "convert", "--help"], capture_output=True, text=True).stdout:
        del programs["ckpt convert --no-sync"]
    if peers:
        programs["TensorFlow load_checkpoint + safetensors save_file"] = [sys.executable, "-c", PEER, prefix, str(output)]
    runs = {program: [] for program in programs}
    for number in range(rounds + 1):  # the first round warms the page cache and is not counted
        for program, command in programs.items():
            result = measure(command, output)
            print(f"  round {number}: {program}: {result[0]:.3f} s", file=sys.stderr)
            if number > 0:
                runs[program].append(result)
    shutil.rmtree(source)
    medians = {program: [statistics.median(column) for column in zip(*results)] for program, results in runs.items()}
    print(f"\n**{name}**: {count} tensors of {size} bytes, medians of {rounds} rounds\n")
    print("| program | wall, s | × cp | CPU, s | peak RSS, MiB |\n|---|---:|---:|---:|---:|")
    for program, (wall, cpu, peak) in medians.items():
        ratio = wall / medians["cp"][0]
        print(f"| {program} | {wall:.3f} | {ratio:.2f} | {cpu:.2f} | {peak:.0f} |")
    sys.stdout.flush()


def verify(ckpt: str, scratch: pathlib.Path) -> None:
    """What is measured is right: TensorFlow reads both kinds, and the conversion has the same bytes."""
    import safetensors.numpy
    import tensorflow as tf

    for name, count, size in (("tiny_large", 3, 3 * CHUNK + 16384), ("tiny_small", 500, 1024)):
        write_checkpoint(scratch / name, count, size)
        prefix, output = str(scratch / name / "model"), scratch / "out.safetensors"
        reader = tf.train.load_checkpoint(prefix)
        expected = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
        subprocess.run([ckpt, "convert", "--from", "tf2", "--to", "safetensors", prefix, output], check=True,
                       stdin=subprocess.DEVNULL, capture_output=True)
        found = safetensors.numpy.load_file(output)
        assert found.keys() == expected.keys() and len(found) == count
        assert all(found[key].tobytes() == expected[key].tobytes() for key in expected)
        output.unlink()
        shutil.rmtree(scratch / name)
    print("TensorFlow reads the checkpoints, and the conversions have the same bytes", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True, help="the program to measure: a release build")
    parser.add_argument("--scratch", required=True, type=pathlib.Path, help="a folder to create on the disk to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gib", type=float, default=2, help="size of the large checkpoint")
    parser.add_argument("--no-peers", action="store_true", help="without TensorFlow")
    arguments = parser.parse_args()
    ckpt, scratch = str(pathlib.Path(arguments.ckpt).resolve()), arguments.scratch.resolve()
    scratch.mkdir(parents=True)
    try:
        if not arguments.no_peers:
            verify(ckpt, scratch)
        large = int(arguments.gib * 2**30) // 32 // 16384 * 16384
        compare(ckpt, scratch, "large", 32, large, arguments.rounds, not arguments.no_peers)
        compare(ckpt, scratch, "small", 20_000, 1024, arguments.rounds, not arguments.no_peers)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
