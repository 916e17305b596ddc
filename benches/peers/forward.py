"""`ckpt run`, with sums in order and with fused ones, beside onnxruntime: the same models, inputs and threads, in turn."""

import os
import pathlib
import re
import statistics
import subprocess
import sys

import checks
import harness
import words
from harness import MIB, Program, log

NAMES = {"resnet50": "ResNet50, 8 images of 224 × 224", "bert-base": "BERT-base, 8 texts of 128 tokens",
         "gpt2": "GPT-2 small, 8 texts of 128 tokens"}
# Small ones: on one thread.
SMALL = {"voice": "voice detector, 1 s of sound", "pitch": "pitch, 8 frames", "reader": "reader of a line of text",
         "face": "face detector, 128 × 128", "denoiser": "denoiser, 2 s of sound", "keywords": "keyword spotting",
         "objects": "MobileNetV3 small, 224 × 224", "texts": "text classifier, 64 tokens",
         "segments": "segmentation, 96 × 96", "tables": "dense layers, 64 rows"}
PEER = "onnxruntime"
# In float32, for the longest sums of these networks: between two orders of summation.
CLOSE = 2e-4


def measure(ckpt: checks.Ckpt, scratch: pathlib.Path, here: dict, rounds: int, quick: bool,
            exported: pathlib.Path | None) -> dict:
    """A row for each network and number of threads."""
    folder = scratch / "networks"
    folder.mkdir()
    if exported:
        for path in exported.resolve().iterdir():
            (folder / path.name).symlink_to(path)
    else:
        log("exporting networks")
        script = pathlib.Path(__file__).with_name("networks.py")
        options = ["--small"] if quick else []
        subprocess.run([sys.executable, script, folder, *options], check=True, capture_output=True)
    rows = []
    for name, title in (NAMES | SMALL).items():
        needed = memory(folder / f"{name}.onnx")
        for threads in (1,) if name in SMALL else (1, 2):
            log(f"{title}, {threads} thread{'s' if threads > 1 else ''}")
            theirs, ours, fused = in_rounds(ckpt, folder / name, threads, rounds)
            rows.append({
                "network": title, "threads": str(threads), "onnxruntime": words.time(statistics.median(theirs["forward"])),
                "`ckpt`": words.time(statistics.median(ours["forward"])),
                "× (least–most)": words.spread(words.ratio(ours["forward"], theirs["forward"])),
                "`fast`": words.time(statistics.median(fused["forward"])),
                "× of `fast`": words.spread(words.ratio(fused["forward"], theirs["forward"])),
                "peak RSS, MiB: onnxruntime": words.memory(max(theirs["mib"])), "MiB: `ckpt`": words.memory(max(ours["mib"] + fused["mib"])),
                "weights and widest layer, MiB": f"{needed:.0f}",
            })
    return {"said": f"{words.rounds(rounds)} {words.on(here, 'onnxruntime', 'numpy')}.", "rows": rows}


def in_rounds(ckpt: checks.Ckpt, path: pathlib.Path, threads: int, rounds: int) -> list[dict[str, list[float]]]:
    """Seconds of the passes and memory of all programs, round by round. The first round compares the results, and is not counted unless it is the only one."""
    programs = [peer(path, threads), own(ckpt, path, threads, "f32"), own(ckpt, path, threads, "fast")]
    rows: list[dict[str, list[float]]] = [{"forward": [], "mib": []} for _ in programs]
    for number in range(0 if rounds > 1 else 1, rounds + 1):
        for program, row in zip(programs, rows):
            harness.warm(path.with_suffix(".onnx"))
            cost = harness.measured(program)
            seconds = forward_seconds(messages(program))
            log(f"  {f'round {number}' if number else 'check  '}: {program.name}: {seconds:.3f} of {cost.wall:.3f} s")
            if number > 0:
                row["forward"].append(seconds)
                row["mib"].append(cost.mib)
        if number < 2:
            for program in programs[1:]:
                compare(programs[0].output, program.output)
        for program in programs:
            program.output.unlink()
    return rows


def peer(path: pathlib.Path, threads: int) -> Program:
    script, made = pathlib.Path(__file__).with_name("onnxruntime_way.py"), path.with_name("peer.npz")
    command = [sys.executable, script, path.with_suffix(".onnx"), path.with_suffix(".npz"), made, threads]
    return pinned(PEER, command, made, threads)


def own(ckpt: checks.Ckpt, path: pathlib.Path, threads: int, arithmetic: str) -> Program:
    made = path.with_name(f"own-{arithmetic}.npz")
    command = [ckpt.path, "run", "--verbose", path.with_suffix(".onnx"), "--input", path.with_suffix(".npz"),
               "--arithmetic", arithmetic, "--output", made]
    return pinned(f"ckpt run {arithmetic}", command, made, threads)


def pinned(name: str, command: list[object], made: pathlib.Path, threads: int) -> Program:
    """On so many processors. What it prints on stderr is kept."""
    processors = ",".join(str(number) for number in sorted(os.sched_getaffinity(0))[:threads])
    command = ["taskset", "-c", processors, *map(str, command)]
    program = Program(name, [], made, threads=threads)
    program.command = ["sh", "-c", 'exec "$@" 2> "$0"', str(messages(program)), *command]
    return program


def messages(program: Program) -> pathlib.Path:
    return program.output.with_suffix(".txt")


def forward_seconds(path: pathlib.Path) -> float:
    """Of `ckpt`, with reading the weights, layer by layer; of onnxruntime without, which reads them before."""
    number, unit = re.search(r"running: .*?([\d.]+) (m?s)$", path.read_text(), re.MULTILINE).groups()
    return float(number) / (1000 if unit == "ms" else 1)


def compare(theirs: pathlib.Path, ours: pathlib.Path) -> None:
    """Within rounding: at most `CLOSE` of the greatest element."""
    import numpy

    (a,), (b,) = (tuple(numpy.load(path).values()) for path in (theirs, ours))
    distance = float(numpy.abs(a - b).max() / numpy.abs(a).max()) if a.shape == b.shape else float("inf")
    checks.expect(distance <= CLOSE, ours, f"not what onnxruntime computes: {distance:.2g} of the greatest element off")
    log(f"  the results differ by at most {distance:.1g} of the greatest element")


def memory(path: pathlib.Path) -> float:
    """MiB of the weights, and of what the layer with the largest values takes and makes."""
    import onnx

    model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True).graph
    weights = {tensor.name: len(tensor.raw_data) for tensor in model.initializer}

    def size(value: onnx.ValueInfoProto) -> int:
        count = 4
        for axis in value.type.tensor_type.shape.dim:
            count *= axis.dim_value
        return count

    values = {value.name: size(value) for value in [*model.value_info, *model.input, *model.output]}
    widest = max(sum(values.get(name, 0) for name in {*node.input, *node.output}) for node in model.node)
    return (sum(weights.values()) + widest) / MIB
