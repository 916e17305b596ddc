"""How cost grows with the size of a checkpoint and with the number of its tensors."""

import math
import os
import pathlib
import shutil

import checks
import sources
from harness import GIB, MIB, Program, in_rounds, log, room
from sources import Tensor
from words import memory, size, time

ROUNDS = 3
LARGE = 2 * GIB  # from here on one round, which is not rehearsed


def grow(ckpt: checks.Ckpt, scratch: pathlib.Path, quick: bool) -> dict:
    sizes = [size * MIB for size in ((4, 16, 64) if quick else (64, 256, 1024, 4096, 8192))]
    counts = (10, 100, 1000) if quick else (10, 100, 1000, 10_000, 20_000, 100_000, 200_000)
    rounds = 1 if quick else ROUNDS
    by_size = [{"size": size(each), **cells(rows)} for each in sizes if (rows := of_size(ckpt, scratch, each, rounds))]
    by_count = [{"tensors": f"{count:,}", **cells(of_count(ckpt, scratch, count, rounds))} for count in counts]
    return {"size": {"said": "", "rows": by_size}, "tensors": {"said": "", "rows": by_count}}


def cells(rows: list[dict]) -> dict[str, str]:
    return {f"{row['name']}: time, MiB": f"{time(row['wall'])}, {row['mib']:.1f}" for row in rows}


def of_size(ckpt: checks.Ckpt, scratch: pathlib.Path, size: int, rounds: int) -> list[dict]:
    """32 tensors; output flushed, for what the kernel may hold back is less than the largest of these."""
    if room(scratch) < 2 * size / GIB + 1:
        log(f"{size // MIB} MiB are left out: there is no room for two of them")
        return []
    log(f"{size // MIB} MiB")
    prefix, out = scratch / f"grown{size}" / "model", scratch / "out.safetensors"
    tensors = [Tensor(f"layer_{number:02}/kernel", (size // 32 // 4,)) for number in range(32)]
    data = sources.write_checkpoint(prefix, tensors)
    flushed = ["sh", "-c", 'cp "$0" "$1" && sync "$1"', str(data), str(out)]
    small = size < LARGE
    programs = [Program("cp and sync", flushed, out),
                *(conversion(ckpt, f"to safetensors, {threads} thread{'s' if threads > 1 else ''}", prefix, out, threads,
                             each=small) for threads in (1, 2))]
    os.sync()
    rows = in_rounds(programs, rounds) if small else in_rounds(programs, 1, rehearsed=False, output=size)
    shutil.rmtree(prefix.parent)
    return rows


def of_count(ckpt: checks.Ckpt, scratch: pathlib.Path, count: int, rounds: int) -> list[dict]:
    prefix, out = scratch / f"many{count}" / "model", scratch / "out.safetensors"
    data = sources.write_checkpoint(prefix, [Tensor(f"layer_{number:06}/kernel", (256,)) for number in range(count)])
    log(f"{count} tensors")
    listing = ["sh", "-c", '"$0" inspect "$1" > "$2"', ckpt.path, str(prefix), str(out)]
    options = ("--no-sync", "--max-memory", "2g")  # the 256 MiB of the default do not limit what is held
    programs = [Program("cp", ["cp", str(data), str(out)], out),
                conversion(ckpt, "to safetensors, 2 threads", prefix, out, 2, *options),
                conversion(ckpt, "to tf2, 2 threads", prefix, out.with_suffix(".index"), 2, *options, "--to", "tf2"),
                Program("inspect", listing, out)]
    rows = in_rounds(programs, rounds)
    shutil.rmtree(prefix.parent)
    return rows


def conversion(ckpt: checks.Ckpt, name: str, prefix: pathlib.Path, out: pathlib.Path, threads: int,
               *options: str, each: bool = True) -> Program:
    command = [ckpt.path, "convert", *options, str(prefix), str(out), "-j", str(threads)]
    return Program(name, command, out, ckpt.same(prefix, out, each), threads=threads)


def huge(ckpt: checks.Ckpt, scratch: pathlib.Path, quick: bool) -> dict:
    """Peak memory for large inputs: of zeros that take no room, because it is not speed that is measured."""
    peaks: dict[str, dict[str, str]] = {}
    for gib in (0.125, 0.25) if quick else (2, 16):
        if room(scratch) < gib + 1:
            log(f"{gib} GiB are left out: there is no room for the output")
            continue
        log(f"{gib} GiB of zeros")
        prefix, out = scratch / f"huge{gib}" / "model", scratch / "out.safetensors"
        side = math.isqrt(int(gib * GIB) // 32 // 4)
        sources.write_sparse_checkpoint(prefix, [Tensor(f"layer_{n:02}/kernel", (side, side)) for n in range(32)])
        command = [ckpt.path, "convert", "--no-sync", str(prefix), str(out), "-j", "2"]
        flip = ["--transform", "**/kernel: transpose"]
        # Zeros transposed are the same zeros.
        programs = [
            Program(f"{name}, 2 threads", [*command, *options], out, ckpt.same(prefix, out, each=False))
            for name, options in (("tf2 to safetensors", []), ("tf2 to safetensors, transposed", flip))
        ]
        for row in in_rounds(programs, 1, rehearsed=False):
            peaks.setdefault(row["name"], {})[size(gib * GIB)] = memory(row["mib"])
        shutil.rmtree(prefix.parent)
    return {"said": "", "rows": [{"peak RSS, MiB": name, **found} for name, found in peaks.items()]}
