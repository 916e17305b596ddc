"""peft and mergekit beside `ckpt merge`, on models of random weights that are made here: time and memory of whole processes.

    python benches/peers/merges.py --ckpt target/release/ckpt [--mergekit PYTHON] [--gib 1] [--rounds 3] [--scratch DIRECTORY]
        [--readme]

The files are made in DIRECTORY (memory: /dev/shm), which needs four times the bytes. The packages are those of
tests/interop/requirements-quantized.txt; mergekit has its own, those of requirements-mergekit.txt, and the Python that has them is
PYTHON. In each round all programs of a job run once, in turn; a round that is not counted comes first, and what it makes is
compared: no number differs by more than two roundings.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

import harness
import model_sources
import report
import words

RANK = 16
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
# The options of `ckpt merge`, and what a recipe of mergekit says in their place.
METHODS = {
    "linear": (["a=0.5", "b=0.5"], {}),
    "task": (["--base", "base", "a=0.5", "b=0.5"], {"merge_method": "task_arithmetic"}),
    "slerp": (["a=0.5", "b=0.5"], {"base_model": "a", "parameters": {"t": 0.5}}),
    "ties": (["--base", "base", "--parameter", "density=0.2", "a=0.5", "b=0.5"], {"parameters": {"density": 0.2}}),
}


def make(folder: pathlib.Path, gib: float) -> None:
    """A base of bf16 as Hugging Face stores it, an adapter of all its linear layers, and two models to merge with it."""
    import numpy
    import safetensors.numpy

    count = gib * words.GIB / 2
    model_sources.write(folder / "base", count, "bfloat16")
    for name in ("a", "b"):
        # Other numbers of the same kind: the same ones, moved.
        shutil.copytree(folder / "base", folder / name)
        for path in (folder / name).glob("*.safetensors"):
            moved(path, numpy, 1000 + ord(name))
    noise = numpy.random.default_rng(3)
    factors = {}
    for shard in model_sources.shapes(model_sources.width(count)):
        for name, shape in shard.items():
            if any(target in name for target in TARGETS):
                module = f"base_model.model.{name.removesuffix('.weight')}"
                factors[f"{module}.lora_A.weight"] = noise.standard_normal((RANK, shape[1]), dtype="f4") * numpy.float32(0.02)
                factors[f"{module}.lora_B.weight"] = noise.standard_normal((shape[0], RANK), dtype="f4") * numpy.float32(0.02)
    (folder / "adapter").mkdir()
    safetensors.numpy.save_file(factors, folder / "adapter" / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": 2 * RANK, "target_modules": list(TARGETS),
              "base_model_name_or_path": "base", "bias": "none", "lora_dropout": 0.0, "inference_mode": True}
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(config))


def moved(path: pathlib.Path, numpy, by: int) -> None:
    """Moves the numbers of a safetensors file by so many places, in its place."""
    data = numpy.memmap(path, "u1", "r+")
    start = 8 + int.from_bytes(bytes(data[:8]), "little")
    numbers = data[start:].view("<u2")
    numbers[:] = numpy.roll(numbers, by)
    data.flush()


def merge_adapter(folder: pathlib.Path, out: pathlib.Path) -> None:
    """As peft's guide does it."""
    import peft
    import transformers

    base = transformers.AutoModelForCausalLM.from_pretrained(folder / "base", dtype="bfloat16")
    peft.PeftModel.from_pretrained(base, folder / "adapter").merge_and_unload().save_pretrained(out)


def merge_models(folder: pathlib.Path, out: pathlib.Path, method: str) -> None:
    """mergekit, in 32-bit floats on two processors."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import MergeOptions, run_merge

    options, stated = METHODS[method]
    own = {} if "base_model" in stated else {"parameters": {"weight": 0.5}}
    recipe = {"merge_method": method, "models": [{"model": str(folder / name)} | own for name in ("a", "b")],
              "dtype": "float32", "out_dtype": "bfloat16"} | stated
    if "--base" in options or "base_model" in stated:
        recipe["base_model"] = str(folder / stated.get("base_model", "base"))
    options = MergeOptions(quiet=True, write_model_card=False, copy_tokenizer=False, lazy_unpickle=True)
    run_merge(MergeConfiguration.model_validate(recipe), str(out), options)


def programs(ckpt: str, mergekit: str | None, folder: pathlib.Path) -> dict[str, list[harness.Program]]:
    """What each job is called, and its programs: in Python, and `ckpt`."""
    out = folder / "made"

    def python(name: str, interpreter: str, *way: str) -> harness.Program:
        return harness.Program(name, [interpreter, __file__, "--way", str(folder), str(out), *way], out)

    def own(*arguments: object) -> harness.Program:
        # Below its folder, where the names of METHODS are.
        command = ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), ckpt, "merge", *map(str, arguments), "-j", "2", "--no-sync", f"{out}/"]
        return harness.Program("ckpt", command, out)

    copy = harness.Program("cp", ["cp", "-r", str(folder / "base"), str(out)], out)
    jobs = {f"LoRA of rank {RANK}": [copy, python("peft", sys.executable, "adapter"), own("base", "--lora", "adapter")]}
    for method, (options, _) in METHODS.items() if mergekit else ():
        jobs[f"`{method}`"] = [copy, python("mergekit", mergekit, method), own("--method", method, *options)]
    return jobs


def compare(left: pathlib.Path, right: pathlib.Path) -> None:
    """Whether two directories have the same tensors: two roundings to bf16 of numbers and of what is added to them."""
    import safetensors.torch

    tensors = [{}, {}]
    for found, directory in zip(tensors, (left, right)):
        for path in sorted(directory.glob("*.safetensors")):
            found |= safetensors.torch.load_file(path)
    one, other = tensors
    if "lm_head.weight" not in other:
        one.pop("lm_head.weight", None)
    if one.keys() != other.keys():
        sys.exit(f"other tensors: {sorted(one.keys() ^ other.keys())[:5]}")
    for name, tensor in one.items():
        off = (tensor.float() - other[name].float()).abs()
        if bool((off > other[name].float().abs() * 2.0**-6 + 2.0**-12).any()):
            sys.exit(f"{name}: off by {float(off.max())}")


def run(ckpt: str, mergekit: str | None, gib: float, rounds: int, folder: pathlib.Path) -> dict:
    here = harness.machine(ckpt, folder)
    make(folder, gib)
    rows = []
    for job, group in programs(ckpt, mergekit, folder).items():
        costs = {program.name: [] for program in group}
        for number in range(rounds + 1):
            for program in group:
                cost = harness.measured(program)
                if number:
                    costs[program.name].append(cost)
                elif program.name not in ("cp", "ckpt"):
                    program.output.rename(folder / "theirs")
                    continue
                elif program.name == "ckpt":
                    compare(folder / "theirs", program.output)
                    shutil.rmtree(folder / "theirs")
                shutil.rmtree(program.output)
        rows.append(row(job, costs))
        harness.log(str(rows[-1]))
    said = f"{words.rounds(rounds)} of {words.size(gib * words.GIB)} of bf16 {words.on(here)}; `ckpt` with two threads."
    return {"merges": {"said": said, "rows": rows}}


def row(job: str, costs: dict[str, list[harness.Cost]]) -> dict[str, str]:
    copy, peer, own = costs.values()
    walls = [[cost.wall for cost in each] for each in (copy, peer, own)]
    processors = [[cost.processor for cost in each] for each in (peer, own)]
    return {
        "job": job, "in Python": list(costs)[1], "time": words.time(statistics.median(walls[1])),
        "`ckpt`": words.time(statistics.median(walls[2])), "times as fast (least–most)": words.spread(words.ratio(walls[1], walls[2])),
        "of the processor's time": f"1/{words.ratio(*processors)[0]:.1f}", "`ckpt`, × `cp`": words.spread(words.ratio(walls[2], walls[0])),
        "peak RSS, MiB: Python": words.memory(max(cost.mib for cost in peer)),
        "MiB: `ckpt`": words.memory(max(cost.mib for cost in own)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", help="the program, of a release build")
    parser.add_argument("--mergekit", metavar="PYTHON", help="the Python that has mergekit; without it, adapters alone are measured")
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/dev/shm"), help="where the files are made")
    parser.add_argument("--readme", action="store_true", help="results go into the repository, and into its pages")
    parser.add_argument("--way", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        folder, out, way = arguments.way
        if way == "adapter":
            merge_adapter(pathlib.Path(folder), pathlib.Path(out))
        else:
            merge_models(pathlib.Path(folder), pathlib.Path(out), way)
        return
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        results = run(str(pathlib.Path(arguments.ckpt).resolve()), arguments.mergekit, arguments.gib, arguments.rounds,
                      pathlib.Path(folder))
    report.finish(results, arguments.readme)


if __name__ == "__main__":
    main()
