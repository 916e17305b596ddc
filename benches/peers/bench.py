#!/usr/bin/env python3
"""Measures ckpt beside `cp` and beside TensorFlow + safetensors, on two TensorFlow checkpoints made here.

    python benches/peers/bench.py --ckpt target/release/ckpt --scratch SCRATCH_DIR [--rounds 5] [--gib 2] [--quick]

`large`: 32 matrices, 2 GiB together, and the same as safetensors and as a .nn file. `small`: 20,000 tensors of 1 KiB.
Every round runs each program once, in turn, so that a slow moment of the machine falls on all; the tables give medians.
Output is removed and the disk synced between runs; in the first round, which is not counted, each output is checked
against its source. Needs GNU time (/usr/bin/time) and the packages of tests/interop/requirements.txt.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

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


def write_checkpoint(folder: pathlib.Path, count: int, size: int, shape: list[int]) -> None:
    """`count` tensors of `size` bytes of f32. Each begins with bytes of its own; the rest repeats a chunk of random numbers
    of magnitudes from 1/128 to 2, such as weights have."""
    folder.mkdir(parents=True)
    own = min(size, 1024)
    chunk = bytes(b & 0x83 | 0x3C if n % 4 == 3 else b for n, b in enumerate(os.urandom(min(size, CHUNK))))
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
            entries.append((name, entry_proto(DTYPES["f32"], shape, 0, offset, size, masked(crc))))
            offset += size
    (folder / "model.index").write_bytes(table(entries))


@dataclasses.dataclass
class Program:
    """What is measured: a command that makes `output`, and how it is told that what it made is right."""

    name: str
    command: list[str]
    output: pathlib.Path
    check: Callable[[], None] = lambda: None


def measure(program: Program) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds, peak resident MiB."""
    report = program.output.parent / "time.txt"
    start = time.perf_counter()
    done = subprocess.run(["/usr/bin/time", "-v", "-o", report, *program.command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    wall = time.perf_counter() - start
    text = report.read_text()
    if done.returncode != 0:
        sys.exit(f"{program.name}\n{' '.join(program.command)}\n{done.stdout}{done.stderr}{text}")
    cpu = sum(float(re.search(rf"{kind} time \(seconds\): ([\d.]+)", text)[1]) for kind in ("User", "System"))
    peak = int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", text)[1]) / 1024
    return wall, cpu, peak


def remove(output: pathlib.Path) -> None:
    """The output, and what belongs to it: all files of one stem."""
    for path in output.parent.glob(f"{output.stem}.*"):
        path.unlink()


def table_of(title: str, programs: list[Program], rounds: int) -> None:
    """Runs every program once a round, in turn; the first round warms the page cache, checks, and is not counted."""
    runs = {program.name: [] for program in programs}
    for number in range(rounds + 1):
        for program in programs:
            result = measure(program)
            print(f"  round {number}: {program.name}: {result[0]:.3f} s", file=sys.stderr)
            if number > 0:
                runs[program.name].append(result)
            else:
                program.check()
            remove(program.output)
            os.sync()
    medians = {name: [statistics.median(column) for column in zip(*results)] for name, results in runs.items()}
    print(f"\n**{title}**, medians of {rounds} rounds\n")
    print("| program | wall, s | × cp | CPU, s | CPU × cp | peak RSS, MiB |\n|---|---:|---:|---:|---:|---:|")
    copied = medians["cp"]
    for name, (wall, cpu, peak) in medians.items():
        # A copy of little takes less than the clock of processor time can tell.
        ratio = f"{cpu / copied[1]:.2f}" if copied[1] else ""
        print(f"| {name} | {wall:.3f} | {wall / copied[0]:.2f} | {cpu:.2f} | {ratio} | {peak:.0f} |")
    sys.stdout.flush()


class Ckpt:
    """The program to measure, on one source."""

    def __init__(self, path: str, source: pathlib.Path, scratch: pathlib.Path):
        self.path, self.source, self.scratch = path, source, scratch

    def run(self, *arguments: object) -> str:
        done = subprocess.run([self.path, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"ckpt {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def convert(self, name: str, source: pathlib.Path, output: str, *options: str,
                check: Callable[[pathlib.Path], None] | None = None, threads: tuple[int, ...] = (1, 2)) -> list[Program]:
        """A program for each number of threads."""
        target = self.scratch / output
        check = check or (lambda made: self.is_same(made))
        command = [self.path, "convert", "--no-sync", *options, str(source), str(target)]
        return [Program(f"{name}, -j {count}", [*command, "-j", str(count)], target, lambda: check(target))
                for count in threads]

    def is_same(self, made: pathlib.Path) -> None:
        """Names, dtypes, shapes and values, whatever the format."""
        found, expected = self.run("hash", made).split()[0], self.run("hash", self.source).split()[0]
        assert found == expected, f"{made} has {found}, its source {expected}"

    def is_transposed(self, made: pathlib.Path) -> None:
        back = self.scratch / "back.safetensors"
        self.run("convert", "--no-sync", "--transform", "**/kernel: transpose", made, back)
        self.is_same(back)
        back.unlink()

    def is_close(self, bits: int) -> Callable[[pathlib.Path], None]:
        """Half a unit of a significand of so many bits; subnormal numbers by an absolute bound."""

        def check(made: pathlib.Path) -> None:
            back = self.scratch / "back.safetensors"
            self.run("convert", "--no-sync", "--dtype", "f32", made, back)
            self.run("diff", "--rtol", 2.0**-bits, "--atol", 1e-7, self.source, back)
            back.unlink()

        return check


def large(ckpt: str, scratch: pathlib.Path, gib: float, rounds: int, peers: bool) -> None:
    """32 square matrices."""
    count = 32
    side = int((gib * 2**30 / count / 4) ** 0.5) // 64 * 64
    folder, prefix = scratch / "large", scratch / "large" / "model"
    print(f"making {count} matrices of {side} x {side}", file=sys.stderr)
    write_checkpoint(folder, count, side * side * 4, [side, side])
    tool = Ckpt(ckpt, prefix, scratch)
    other, network, layers = folder / "model.safetensors", folder / "model.nn", folder / "layers.json"
    layers.write_text(json.dumps({"layers": [
        {"type": "dense", "weight": f"layer_{number:05}/kernel", "weight_axes": ["out", "in"], "activation": "relu"}
        for number in range(count)]}))
    tool.run("convert", "--no-sync", prefix, other)
    tool.run("convert", "--no-sync", "--arch", layers, "--set", "zero_bias=true", prefix, network)
    os.sync()
    data, output = f"{prefix}.data-00000-of-00001", scratch / "out.safetensors"
    of_network = Ckpt(ckpt, network, scratch)
    flip = ("--transform", "**/kernel: transpose")
    programs = [
        Program("cp", ["cp", data, str(output)], output),
        Program("cp, then sync of the copy", ["sh", "-c", 'cp "$0" "$1" && sync "$1"', data, str(output)], output),
        Program("tf2 to safetensors, synced", [ckpt, "convert", str(prefix), str(output)], output),
        *tool.convert("tf2 to safetensors", prefix, "out.safetensors"),
        *tool.convert("safetensors to tf2", other, "out.index", "--to", "tf2", check=lambda made: tool.is_same(made)),
        *tool.convert("tf2 to tf2 in 4 shards", prefix, "out.index", "--to", "tf2", "--set", "shards=4"),
        *of_network.convert("nn to safetensors", network, "out.safetensors"),
        *of_network.convert("safetensors to nn", other, "out.nn", "--arch", str(layers), "--set", "zero_bias=true"),
        *tool.convert("tf2 to safetensors, transposed", prefix, "out.safetensors", *flip, check=tool.is_transposed),
        *tool.convert("safetensors to tf2, transposed", other, "out.index", "--to", "tf2", *flip, check=tool.is_transposed),
        *tool.convert("f32 to f16", prefix, "out.safetensors", "--dtype", "f16", check=tool.is_close(11)),
        *tool.convert("f32 to bf16", prefix, "out.safetensors", "--dtype", "bf16", check=tool.is_close(8)),
    ]
    if peers:
        programs.append(Program("TensorFlow load_checkpoint + safetensors save_file",
                                [sys.executable, "-c", PEER, str(prefix), str(output)], output))
    table_of(f"{count} matrices of {side} x {side} f32", programs, rounds)
    shutil.rmtree(folder)


def small(ckpt: str, scratch: pathlib.Path, count: int, rounds: int, peers: bool) -> None:
    folder, prefix, output = scratch / "small", scratch / "small" / "model", scratch / "out.safetensors"
    write_checkpoint(folder, count, 1024, [256])
    os.sync()
    tool = Ckpt(ckpt, prefix, scratch)
    programs = [
        Program("cp", ["cp", f"{prefix}.data-00000-of-00001", str(output)], output),
        *tool.convert("tf2 to safetensors", prefix, "out.safetensors"),
        *tool.convert("tf2 to tf2", prefix, "out.index", "--to", "tf2"),
    ]
    if peers:
        programs.append(Program("TensorFlow load_checkpoint + safetensors save_file",
                                [sys.executable, "-c", PEER, str(prefix), str(output)], output))
    table_of(f"{count} tensors of 1 KiB", programs, rounds)
    shutil.rmtree(folder)


def verify(ckpt: str, scratch: pathlib.Path) -> None:
    """What is measured is right: TensorFlow reads both kinds, and the conversion has the same bytes."""
    import safetensors.numpy
    import tensorflow as tf

    for name, count, size in (("tiny_large", 3, 3 * CHUNK + 16384), ("tiny_small", 500, 1024)):
        write_checkpoint(scratch / name, count, size, [size // 4])
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
    parser.add_argument("--quick", action="store_true", help="for trying: 64 MiB, 2000 small tensors, one round")
    parser.add_argument("--no-peers", action="store_true", help="without TensorFlow")
    arguments = parser.parse_args()
    ckpt, scratch = str(pathlib.Path(arguments.ckpt).resolve()), arguments.scratch.resolve()
    gib, count, rounds = (1 / 16, 2000, 1) if arguments.quick else (arguments.gib, 20_000, arguments.rounds)
    scratch.mkdir(parents=True)
    try:
        if not arguments.no_peers:
            verify(ckpt, scratch)
        large(ckpt, scratch, gib, rounds, not arguments.no_peers)
        small(ckpt, scratch, count, rounds, not arguments.no_peers)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
