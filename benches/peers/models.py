"""A directory of Hugging Face to GGUF, beside llama.cpp's converter and quantizer."""

import filecmp
import pathlib
import shutil
from collections.abc import Callable

from checks import expect
from harness import Program, log
from jobs import LAYERS, Bench, run_python, table

# The types of the matrices, the job that makes the same file, and who does it.
TYPES = {
    "f16": ("hf_to_f16", "llama.cpp's converter, f16"),
    "q8_0": ("hf_to_q8_0", "llama.cpp's converter, q8_0"),
    "q4_k_m": ("hf_to_q4_k_m", "llama.cpp's converter, bf16, then its quantizer with 2 threads, Q4_K_M"),
}


def measure(bench: Bench) -> dict[str, dict]:
    folder = bench.scratch / "models"
    folder.mkdir()
    source, plain = folder / "model", folder / "model.gguf"
    log("making a model like Llama")
    run_python("model_sources.py", source, bench.side**2 * LAYERS, "bfloat16")
    programs = [bench.copy(source)]
    for kind, (job, peer) in TYPES.items():
        programs += beside(bench, f"Hugging Face bf16 to GGUF {kind}", source, kind, job, peer)
    tables = table("models", "A directory of Hugging Face to GGUF", bench.peer_rounds, programs, large=False)
    bench.ckpt.run("convert", source, plain)
    shutil.rmtree(source)
    programs = [bench.copy(plain)]
    for kind in ("q4_0", "q3_k_m", "q4_k_m", "q6_k"):
        peer = f"llama.cpp's quantizer with 2 threads, {kind}"
        programs += beside(bench, f"GGUF bf16 to {kind}", plain, kind, f"gguf_to_{kind}", peer)
    tables |= table("models-quantized", "A GGUF file of bf16, quantized", bench.peer_rounds, programs, large=False)
    shutil.rmtree(folder)
    return tables


def beside(bench: Bench, name: str, source: pathlib.Path, kind: str, job: str, peer: str) -> list[Program]:
    """A conversion, and the same by llama.cpp, which runs in Python."""
    made = bench.out(".gguf")
    right = same(bench, source, made, job, in_order=kind != "q4_0")
    jobs = bench.jobs(name, source, made.suffix, ("--set", f"type={kind}", "--allow", "all"), right)
    if bench.peers:
        jobs.append(bench.in_python(peer, job, source, made.suffix, made.name, jobs[-1].name, right))
    return jobs


def same(bench: Bench, source: pathlib.Path, made: pathlib.Path, job: str, in_order: bool) -> Callable[[], None]:
    """Whether the file has the bytes that llama.cpp writes, or the same keys and tensors in another order. Without llama.cpp,
    nothing is known beyond what two numbers of threads give."""
    reference = made.with_name("reference.gguf")

    def check() -> None:
        run_python("python_way.py", job, source, reference)
        if in_order:
            expect(filecmp.cmp(reference, made, shallow=False), made, "not the file that llama.cpp writes")
        else:
            run_python("python_way.py", "compare_models", reference, made)
        reference.unlink()

    return check if bench.peers else lambda: None
