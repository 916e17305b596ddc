"""An ONNX model whose weights lie beside it, as those of more than 2 GB must."""

import pathlib

from jobs import Bench, run_python, table



def measure(bench: Bench, flat: pathlib.Path) -> dict[str, dict]:
    """Tables for a model of the tensors of the safetensors file `flat`, whose bytes are its external data."""
    model, made = flat.with_suffix(".onnx"), bench.out(".safetensors")
    run_python("onnx_sources.py", flat, model)
    job, same = "ONNX with external data to safetensors", bench.ckpt.same(flat, made)
    programs = [bench.copy(flat), *bench.jobs(job, model, made.suffix, (), same)]
    if bench.peers:
        programs.append(bench.in_python("onnx.load, safetensors save_file", "onnx_to_safetensors", model, made.suffix,
                                        made.name, programs[-1].name, same))
    return table("onnx", "From an ONNX model with external data", bench.rounds, programs)
