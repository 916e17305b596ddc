"""GGUF files, and the experts of a mixture stacked. gguf-py makes every source, and is the peer."""

import pathlib
import shutil
from collections.abc import Callable

import sources
from checks import expect
from harness import Program, log
from jobs import LAYERS, Bench, run_python, table

EXPERTS = 256
EXPERT = "model.layers.0.experts.{}.weight"
STACK = """[[rule]]
from = "{layer:path}.experts.{expert:int}.weight"
to = "{layer}.experts.weight"
stack = "expert"
"""
# Of the large tensors, those that gguf-py's quantizer gets: it takes a minute for all.
ENCODED_LAYERS = LAYERS // 8


def measure(bench: Bench, flat: pathlib.Path) -> dict[str, dict]:
    """Tables for the tensors of the safetensors file `flat`; no more than two copies of them exist at a time."""
    return half(bench, flat) | decoded(bench, flat) | encoded(bench, flat) | experts(bench, flat)


def agrees(name: str, *paths: pathlib.Path) -> Callable[[], None]:
    """Whether gguf-py and the safetensors package read the same numbers."""
    return lambda: run_python("python_way.py", name, *paths)


def half(bench: Bench, flat: pathlib.Path) -> dict[str, dict]:
    source, made = flat.with_name("half.gguf"), bench.out(".safetensors")
    log("making a GGUF file of f16")
    run_python("gguf_sources.py", "half", flat, source)
    result = table("gguf", "From a GGUF file of f16", bench.rounds, [
        bench.copy(source),
        *bench.jobs("GGUF of f16 to safetensors", source, made.suffix, (), agrees("compare_gguf", source, made)),
    ])
    source.unlink()
    return result


def decoded(bench: Bench, flat: pathlib.Path) -> dict[str, dict]:
    source, made = flat.with_name("blocks.gguf"), bench.out(".safetensors")
    log("making a GGUF file of Q8_0")
    run_python("gguf_sources.py", "blocks", flat, source, "q8_0")
    right = agrees("compare_gguf", source, made)
    jobs = bench.jobs("GGUF of Q8_0 to safetensors of f32", source, made.suffix, (), right)
    programs = [bench.copy(flat), *jobs]
    if bench.peers:
        programs.append(bench.in_python("gguf-py dequantize, safetensors save_file", "gguf_to_safetensors", source,
                                        made.suffix, made.name, jobs[-1].name, right))
    result = table("gguf-decoded", "Blocks of Q8_0 as f32, beside cp of the f32", bench.rounds, programs)
    source.unlink()
    return result


def encoded(bench: Bench, flat: pathlib.Path) -> dict[str, dict]:
    source, made = flat.with_name("part.safetensors"), bench.out(".gguf")
    run_python("gguf_sources.py", "part", flat, source, ENCODED_LAYERS)
    programs = [bench.copy(source)]
    for name in ("Q8_0", "Q4_0"):
        kind = name.lower()
        right = agrees(f"compare_{kind}", source, made)
        options = ("--set", f"type={kind}", "--allow", "quantized")
        jobs = bench.jobs(f"an eighth of the safetensors to GGUF of {name}", source, made.suffix, options, right)
        programs += jobs
        if bench.peers:
            programs.append(bench.in_python(f"gguf-py quantize to {name}", f"safetensors_to_{kind}", source, made.suffix,
                                            made.name, jobs[-1].name, right))
    result = table("gguf-encoded", f"Encoding blocks of GGUF, {ENCODED_LAYERS} of the {LAYERS} tensors",
                   bench.peer_rounds, programs, large=False)
    source.unlink()
    return result


def experts(bench: Bench, flat: pathlib.Path) -> dict[str, dict]:
    """Both programs read the same files and write the same values to one: only the header differs."""
    whole, folder, mapping = (flat.with_name(name) for name in ("experts.safetensors", "experts", "experts.toml"))
    folder.mkdir()
    run_python("gguf_sources.py", "experts", flat, whole, EXPERTS)
    bench.ckpt.run("convert", whole, folder / "model.safetensors", "--shard-size", whole.stat().st_size // 4)
    whole.unlink()
    mapping.write_text(STACK)
    made = bench.out(".safetensors")
    command = [bench.ckpt.path, "convert", "--no-sync", "-j2", str(folder), str(made)]
    title = f"ckpt convert of {EXPERTS} experts in 4 files to one file"
    result = table("experts", "Experts", bench.rounds, [
        Program(title, command, made, bench.ckpt.same(folder, made), source=folder),
        Program(f"{title}, stacked", [*command, "--map", str(mapping)], made, stacks(folder, made), source=folder),
    ], large=False)
    shutil.rmtree(folder)
    return result


def stacks(folder: pathlib.Path, made: pathlib.Path) -> Callable[[], None]:
    """Whether NumPy finds the experts in the stack, in the order of their numbers."""

    def check() -> None:
        before: dict[str, object] = {}
        for path in sorted(folder.glob("*.safetensors")):
            before |= sources.arrays_of_safetensors(path)
        (stack,) = sources.arrays_of_safetensors(made).values()
        expect(len(before) == len(stack) == EXPERTS, made, f"{len(stack)} experts of {len(before)}")
        for number, found in enumerate(stack):
            expect((found == before[EXPERT.format(number)]).all(), made, f"expert {number} is another one")

    return check
