#!/usr/bin/env python3
"""Measures ckpt beside `cp` and beside Python (TensorFlow, PyTorch, onnx, gguf, safetensors, NumPy), on checkpoints made here.

    python benches/peers/bench.py --ckpt target/release/ckpt --scratch SCRATCH_DIR
        [--quick] [--only GROUP …] [--growth] [--huge] [--forward] [--readme]

Tables go to stdout, what happens to stderr. Only ratios within one round mean something elsewhere. Every output is
checked against its source before anything is counted. Needs GNU time (/usr/bin/time), 6.5 GiB in SCRATCH_DIR, which must
not exist and is removed, and the packages of tests/interop/requirements-transformers.txt. benches/peers/README.md says what
each figure is.
"""

import argparse
import json
import pathlib
import shutil
import signal
import sys
from dataclasses import dataclass

import checks
import forward
import gguf_model
import growth
import harness
import models
import onnx_model
import pytorch
import report
import sources
import words
from harness import Program, evictor, log, machine, many, measured, remove, room
from jobs import LAYERS, Bench, table
from sources import Tensor

SCALE = 255


@dataclass
class Large:
    """32 square matrices: 2 GiB of f32."""

    prefix: pathlib.Path
    data: pathlib.Path
    safetensors: pathlib.Path
    tensors: list[Tensor]

    def arrays(self):
        return sources.arrays_of_data(self.data, self.tensors)


FLIP = ("--transform", "**/kernel: transpose")


def measure_jobs(bench: Bench, wanted: list[str]) -> dict[str, dict]:
    """The tables of these of `GROUPS`."""
    tables = of_large(bench, wanted) if {"tensorflow", *OF_SAFETENSORS} & set(wanted) else {}
    for name, group in OTHERS.items():
        if name in wanted:
            tables |= group(bench)
    return tables


def of_large(bench: Bench, wanted: list[str]) -> dict[str, dict]:
    folder = bench.scratch / "large"
    prefix = folder / "model"
    tensors = [Tensor(f"layer_{number:02}/kernel", (bench.side, bench.side)) for number in range(LAYERS)]
    log(f"making {LAYERS} matrices of {bench.side} x {bench.side}")
    large = Large(prefix, sources.write_checkpoint(prefix, tensors), folder / "model.safetensors", tensors)
    bench.ckpt.run("convert", large.prefix, large.safetensors)
    tables = tensorflow(bench, large) if "tensorflow" in wanted else {}
    for path in (large.data, prefix.with_name("model.index")):
        path.unlink()
    for name, group in OF_SAFETENSORS.items():
        if name in wanted:
            tables |= group(bench, large.safetensors)
    shutil.rmtree(folder)
    return tables


def tensorflow(bench: Bench, large: Large) -> dict[str, dict]:
    groups = [from_tf2, transposed, casts, cold, *([python_large] if bench.peers else []), from_safetensors, read]
    tables: dict[str, dict] = {}
    for group in groups:
        tables |= group(bench, large)
    return tables


def from_tf2(bench: Bench, large: Large) -> dict[str, dict]:
    return table("tf2", "From a TensorFlow checkpoint, every checksum verified", bench.rounds, [
        bench.copy(large.data),
        *bench.jobs("tf2 to safetensors", large.prefix, ".safetensors", (),
                    bench.ckpt.same(large.prefix, bench.out(".safetensors"))),
        *bench.jobs("tf2 to tf2, in 4 shards", large.prefix, ".index", ("--to", "tf2", "--set", "shards=4"),
                    bench.ckpt.same(large.prefix, bench.out(".index"))),
    ])


def transposed(bench: Bench, large: Large) -> dict[str, dict]:
    made = bench.out(".safetensors")
    return table("transposed", "Every matrix transposed", bench.rounds, [
        bench.copy(large.data),
        *bench.jobs("tf2 to safetensors, transposed", large.prefix, made.suffix, FLIP,
                    bench.ckpt.changed(large.arrays, made, checks.is_transposed)),
    ])


def casts(bench: Bench, large: Large) -> dict[str, dict]:
    made = bench.out(".safetensors")
    programs = [bench.copy(large.data)]
    for dtype, rule in (("f16", checks.is_f16), ("bf16", checks.is_bf16)):
        programs += bench.jobs(f"tf2 to safetensors, f32 to {dtype}", large.prefix, made.suffix, ("--dtype", dtype),
                               bench.ckpt.changed(large.arrays, made, rule))
    return table("casts", "Casts", bench.rounds, programs)


def cold(bench: Bench, large: Large) -> dict[str, dict]:
    how, evict = evictor([large.data], [bench.ckpt.path, "cp", "sync"])
    copy, reads = bench.out(".copy"), large.data.stat().st_size
    command = ["sh", "-c", 'cp "$0" "$1" && sync "$1"', str(large.data), str(copy)]
    return table("cold", f"From the disk to the disk: {how} before each run, output flushed", bench.rounds, [
        Program("cp, then sync of the copy", command, copy, before=evict, reads=reads),
        *bench.jobs("tf2 to safetensors, cold, flushed", large.prefix, ".safetensors", (),
                    bench.ckpt.same(large.prefix, bench.out(".safetensors")), sync=True, before=evict, reads=reads),
    ], large=False)


def from_safetensors(bench: Bench, large: Large) -> dict[str, dict]:
    source, made = large.safetensors, bench.out(".index")

    def arrays():
        return sources.arrays_of_safetensors(source).items()

    return table("safetensors", "To a TensorFlow checkpoint, every checksum computed", bench.rounds, [
        bench.copy(source),
        *bench.jobs("safetensors to tf2", source, ".index", ("--to", "tf2"), bench.ckpt.same(source, made)),
        *bench.jobs("safetensors to tf2, transposed", source, ".index", ("--to", "tf2", *FLIP),
                    bench.ckpt.changed(arrays, made, checks.is_transposed)),
    ])


def read(bench: Bench, large: Large) -> dict[str, dict]:
    """What reads every value and writes a few lines."""
    source = large.safetensors
    return table("read", "Reading every value", bench.rounds, [
        bench.copy(source),
        bench.printed("ckpt inspect --stats of a safetensors file", ("inspect", "--stats", source), source),
        bench.printed("ckpt hash of a safetensors file", ("hash", source), source),
    ], large=False)


def python_large(bench: Bench, large: Large) -> dict[str, dict]:
    """The Python ways read what ckpt reads, and write what ckpt writes."""
    made, bundle = bench.out(".safetensors"), bench.out(".index")
    same, changed = bench.ckpt.same, bench.ckpt.changed
    turned, halved = (changed(large.arrays, made, rule) for rule in (checks.is_transposed, checks.is_f16))
    _, to_safetensors = bench.jobs("tf2 to safetensors", large.prefix, made.suffix, (), same(large.prefix, made))
    _, to_tf2 = bench.jobs("safetensors to tf2", large.safetensors, ".index", ("--to", "tf2"),
                           same(large.safetensors, bundle))
    _, turn = bench.jobs("safetensors, transposed", large.safetensors, made.suffix, FLIP, turned)
    _, halve = bench.jobs("safetensors, f32 to f16", large.safetensors, made.suffix, ("--dtype", "f16"), halved)
    return table("python", "Beside Python", bench.peer_rounds, [
        bench.copy(large.data),
        to_safetensors,
        bench.in_python("TensorFlow load_checkpoint, safetensors save_file", "tf2_to_safetensors", large.prefix,
                        made.suffix, made.name, to_safetensors.name, same(large.prefix, made)),
        to_tf2,
        bench.in_python("safetensors load_file, TensorFlow SaveV2", "safetensors_to_tf2", large.safetensors, ".index",
                        "out", to_tf2.name, same(large.safetensors, bundle)),
        turn,
        bench.in_python("NumPy: load_file, transpose, save_file", "transpose", large.safetensors, made.suffix, made.name,
                        turn.name, turned),
        halve,
        bench.in_python("NumPy: load_file, astype(float16), save_file", "f16", large.safetensors, made.suffix, made.name,
                        halve.name, halved),
    ])


def networks(bench: Bench) -> dict[str, dict]:
    """A chain of dense layers with biases, for the formats that hold networks."""
    folder, side = bench.scratch / "network", bench.side
    prefix, flat, network = folder / "net", folder / "net.safetensors", folder / "net.nn"
    tensors = [Tensor(f"l{number}{kind}", shape) for number in range(LAYERS)
               for kind, shape in (("w", (side, side)), ("b", (side,)))]
    log(f"making a network of {LAYERS} layers of {side}")
    sources.write_checkpoint(prefix, tensors)
    layers, bullet = folder / "layers.json", folder / "bullet.json"
    layers.write_text(json.dumps({"layers": [
        {"type": "dense", "weight": f"l{number}w", "bias": f"l{number}b", "weight_axes": ["out", "in"], "activation": "relu"}
        for number in range(LAYERS)]}))
    bullet.write_text(json.dumps({
        "format": "bullet", "input": {"features": side, "perspectives": 1},
        "layers": [{"size": side, "activation": "relu"}] * LAYERS,
        "saved": [{"id": tensor.name, "type": "i16", "scale": SCALE, "round": True, "transpose": len(tensor.shape) == 2}
                  for tensor in tensors],
    }))
    bench.ckpt.run("convert", prefix, flat)
    for path in folder.glob("net.data*"):
        path.unlink()
    prefix.with_name("net.index").unlink()
    bench.ckpt.run("convert", "--arch", layers, flat, network)
    made, quantized = bench.out(".safetensors"), bench.out(".bin")

    def arrays():
        found = sources.arrays_of_safetensors(flat)
        return [(tensor.name, found[tensor.name]) for tensor in tensors]

    to_bullet = ("--to", "bullet", "--arch", bullet, "--set", "content=quantised", "--allow", "quantized")
    result = table("networks", f"Networks: {LAYERS} dense layers with biases", bench.rounds, [
        bench.copy(flat),
        *bench.jobs("nn to safetensors", network, made.suffix, (), bench.ckpt.same(network, made)),
        *bench.jobs("safetensors to nn", flat, ".nn", ("--arch", layers), bench.ckpt.same(network, bench.out(".nn"))),
        *bench.jobs("safetensors to bullet, f32 to i16 quantized", flat, ".bin", to_bullet,
                    checks.is_quantized(arrays, quantized, SCALE)),
    ])
    shutil.rmtree(folder)
    return result


def small(bench: Bench) -> dict[str, dict]:
    folder = bench.scratch / "small"
    prefix, made, bundle = folder / "model", bench.out(".safetensors"), bench.out(".index")
    data = sources.write_checkpoint(prefix, [Tensor(f"layer_{number:05}/kernel", (256,)) for number in range(bench.small)])
    flat = folder / "model.safetensors"
    bench.ckpt.run("convert", prefix, flat)
    same = bench.ckpt.same
    to_safetensors = bench.jobs("tf2 to safetensors", prefix, made.suffix, (), same(prefix, made))
    to_tf2 = bench.jobs("safetensors to tf2", flat, ".index", ("--to", "tf2"), same(flat, bundle))
    title = f"{bench.small:,} tensors of 1 KiB"
    tables = table("small", title, bench.rounds, [bench.copy(data), *to_safetensors, *to_tf2], f", {title}", large=False)
    if bench.peers:
        (_, flatten), (_, pack) = to_safetensors, to_tf2
        tables |= table("small-python", f"{title}, beside Python", bench.peer_rounds, [
            bench.copy(data),
            flatten,
            bench.in_python("TensorFlow load_checkpoint, safetensors save_file", "tf2_to_safetensors", prefix,
                            made.suffix, made.name, flatten.name, same(prefix, made)),
            pack,
            bench.in_python("safetensors load_file, TensorFlow SaveV2", "safetensors_to_tf2", flat, ".index", "out",
                            pack.name, same(flat, bundle)),
        ], f", {title}", large=False)
    shutil.rmtree(folder)
    return tables


def tiny(bench: Bench) -> dict[str, dict]:
    """What a tensor costs whose bytes cost nothing."""
    folder, count = bench.scratch / "tiny", 10 * bench.small
    prefix, flat = folder / "model", folder / "model.safetensors"
    made, bundle = bench.out(".safetensors"), bench.out(".index")
    sources.write_checkpoint(prefix, [Tensor(f"layer_{number:06}/kernel", (16,)) for number in range(count)])
    bench.ckpt.run("convert", prefix, flat)
    same = bench.ckpt.same
    result = table("tiny", f"{count:,} tensors of 64 bytes", bench.rounds, [
        bench.copy(flat),
        *bench.jobs("safetensors to safetensors", flat, made.suffix, (), same(flat, made)),
        *bench.jobs("safetensors to tf2", flat, ".index", ("--to", "tf2"), same(flat, bundle)),
        bench.printed(f"ckpt inspect of {count:,} tensors of 64 bytes", ("inspect", flat), flat),
    ], f", {count:,} tensors of 64 bytes", large=False)
    shutil.rmtree(folder)
    return result


def instant(bench: Bench) -> dict[str, dict]:
    """What takes milliseconds. Inspecting reads the index alone, so that the data need not take room."""
    prefix, tensors = bench.scratch / "many" / "model", 20_000 if bench.rounds > 1 else 2000
    shape = (2**31 // 4 // tensors,)
    sources.write_sparse_checkpoint(prefix, [Tensor(f"layer_{number:05}/kernel", shape) for number in range(tensors)])
    ckpt, times = bench.ckpt.path, 200 if bench.rounds > 1 else 5
    rows = [
        many("true", ["true"], times, bench.scratch),
        many("ckpt --version", [ckpt, "--version"], times, bench.scratch),
        many(f"ckpt inspect of a 2 GiB checkpoint with {tensors:,} tensors", [ckpt, "inspect", str(prefix)], 25,
             bench.scratch),
    ]
    shutil.rmtree(prefix.parent)
    return {"instant": {"rounds": 25, "rows": rows}}


# Groups of tables by their names: those of the large tensors as a safetensors file, and those that make their own.
OF_SAFETENSORS = {"pytorch": pytorch.measure, "gguf": gguf_model.measure, "onnx": onnx_model.measure}
OTHERS = {"networks": networks, "small": small, "tiny": tiny, "small-pytorch": pytorch.small,
          "models": models.measure, "instant": instant}
GROUPS = ("tensorflow", *OF_SAFETENSORS, *OTHERS)


def prove(bench: Bench) -> None:
    """What is measured is right: TensorFlow reads the checkpoints made here, and finds what ckpt converts them to."""
    prefix, made = bench.scratch / "tiny" / "model", bench.out(".safetensors")
    sources.write_checkpoint(prefix, [Tensor("a", (3, 500_000)), Tensor("b", (3,)), Tensor("c", ())])
    bench.ckpt.run("convert", prefix, made)
    measured(bench.in_python("compare", "compare", prefix, made.suffix, made.name, "", lambda: None))
    remove(made)
    shutil.rmtree(prefix.parent)
    log("TensorFlow reads the checkpoints, and the conversions have the same bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True, type=pathlib.Path, help="the program to measure: a release build")
    parser.add_argument("--scratch", required=True, type=pathlib.Path, help="a folder to create on the disk to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer-rounds", type=int, default=3, help="rounds of the tables with Python in them")
    parser.add_argument("--gib", type=float, help="size of the large checkpoint: 2 unless given")
    parser.add_argument("--quick", action="store_true", help="for trying: small sizes, one round")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help="these groups of tables")
    parser.add_argument("--no-peers", action="store_true", help="without Python's ways")
    parser.add_argument("--growth", action="store_true",
                        help="sizes to 8 GiB and numbers of tensors to 200,000, instead: 17 GiB of disk")
    parser.add_argument("--huge", action="store_true", help="memory for 16 GiB, instead: 17 GiB of disk")
    parser.add_argument("--forward", action="store_true",
                        help="`ckpt run` beside onnxruntime, instead; needs tests/interop/requirements-transformers.txt")
    parser.add_argument("--networks", type=pathlib.Path, help="a folder that networks.py has filled, for --forward")
    parser.add_argument("--no-warm", action="store_true", help="do not touch memory before each run")
    parser.add_argument("--results", type=pathlib.Path, help="a JSON file for every figure; what it has of others is kept")
    parser.add_argument("--readme", action="store_true", help="results go into the repository, and into its pages")
    arguments = parser.parse_args()
    scratch = arguments.scratch.resolve()
    scratch.mkdir(parents=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("ended"))  # so that the scratch folder goes
    harness.backing = not arguments.no_warm
    try:
        results = run(arguments, scratch)
    finally:
        shutil.rmtree(scratch)
    if arguments.results:
        report.save(arguments.results, results)
    report.finish(results, arguments.readme)


def run(arguments: argparse.Namespace, scratch: pathlib.Path) -> dict[str, dict]:
    """Results by what was asked for."""
    quick = arguments.quick
    ckpt = checks.Ckpt(str(arguments.ckpt.resolve()), scratch)
    here = machine(ckpt.path, scratch)
    results = {}
    if arguments.growth:
        results |= growth.grow(ckpt, scratch, quick)
    if arguments.huge:
        results["huge"] = growth.huge(ckpt, scratch, quick)
    if arguments.forward:
        rounds = 1 if quick else arguments.rounds
        results["forward"] = forward.measure(ckpt, scratch, here, rounds, quick, arguments.networks)
    if not results:
        gib = arguments.gib or (1 / 16 if quick else 2)
        if room(scratch) < 3.2 * gib:
            sys.exit(f"{scratch}: {3.2 * gib:.1f} GiB are needed, {room(scratch):.1f} are free")
        bench = Bench(ckpt, scratch, side=int((gib * 2**30 / LAYERS / 4) ** 0.5) // 64 * 64,
                      small=2000 if quick else 20_000, list_bytes=10**6 if quick else 10**8,
                      rounds=1 if quick else arguments.rounds, peer_rounds=1 if quick else arguments.peer_rounds,
                      peers=not arguments.no_peers)
        if bench.peers and {"tensorflow", "small"} & set(arguments.only):
            prove(bench)
        tables = measure_jobs(bench, arguments.only)
        if arguments.only != GROUPS:
            tables = {key: each | {"apart": words.on(here)} for key, each in tables.items()}
        results["jobs"] = {"said": report.described(here), "where": report.where(here), "gib": gib, "tables": tables}
    return results


if __name__ == "__main__":
    main()
