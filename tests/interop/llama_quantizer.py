#!/usr/bin/env python3
"""Compares the blocks and the files that `ckpt` quantizes with those of llama.cpp's own library.

    python tests/interop/llama_quantizer.py --ckpt target/debug/ckpt      (packages: gguf, numpy, safetensors, ml_dtypes)

The library is that of an npm package: see llama_packages.py. If it can't be downloaded, or the system can't load it, the
script says so and checks nothing.
"""

import ctypes
import pathlib
import sys

import gguf
import numpy as np
from harness import check, convert, main
from llama_library import MIXES, Library
from llama_packages import libraries

# The types with an encoder: the elements of a block.
TYPES = {
    "Q4_0": 32, "Q4_1": 32, "Q5_0": 32, "Q5_1": 32, "Q8_0": 32, "Q2_K": 256, "Q3_K": 256, "Q4_K": 256, "Q5_K": 256,
    "Q6_K": 256, "IQ4_NL": 32, "IQ4_XS": 256, "IQ3_S": 256, "TQ1_0": 256, "TQ2_0": 256, "MXFP4": 32,
}  # fmt: skip
ROWS = 4608


def rows() -> np.ndarray:
    """Rows of 256 numbers, of nine distributions."""
    random = np.random.default_rng(1)
    x = random.standard_normal((ROWS, 256)).astype(np.float32)
    parts = np.split(np.arange(ROWS), 9)
    like = [(len(part), 256) for part in parts]
    x[parts[1]] *= 10.0 ** random.integers(-12, 3, (len(parts[1]), 1))
    x[parts[2]] = np.abs(x[parts[2]]) + random.random((len(parts[2]), 1)) * 5
    x[parts[3]] = -np.abs(x[parts[3]])
    x[parts[4]] = np.where(random.random(like[4]) < 0.02, x[parts[4]] * 100, x[parts[4]] * 0.01)
    x[parts[5]] = random.integers(-8, 9, like[5])
    x[parts[6]] = np.where(random.random(like[6]) < 0.03, x[parts[6]], 0)
    x[parts[7]] = (x[parts[7]] * 0.02).astype(np.float16)
    x[parts[8]] = np.clip(random.standard_t(2, like[8]), -1000, 1000) * 0.05
    x[:3] = [[0], [1], [-1]]
    return x


def blocks(kind: str, x: np.ndarray) -> bytes:
    """The blocks that the library makes."""
    own = gguf.GGMLQuantizationType[kind]
    elements, size = gguf.GGML_QUANT_SIZES[own]
    out = np.zeros(x.size // elements * size, np.uint8)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, out)]
    counts = [ctypes.c_int64(count) for count in (0, len(x), x.shape[1])]
    BASE.ggml_quantize_chunk(ctypes.c_int(own), *pointers, *counts, None)
    return out.tobytes()


def write(path, architecture: str, keys: dict, tensors: dict) -> None:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_file_type(1)
    for name, value in keys.items():
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"{architecture}.{name}", value)
    writer.add_string("tokenizer.ggml.model", "none")
    for name, (array, kind) in tensors.items():
        if kind == "BF16":
            data = gguf.quantize(array, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(name, array.astype({"F32": np.float32, "F16": np.float16}[kind]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# The library looks at names, at the lengths of rows and at keys: four rows are enough.
def model(path, architecture="llama", layers=10, width=256, heads=8, kv=2, inner=512, experts=0, tied=False, kind="F16") -> None:
    random = np.random.default_rng(layers + width)
    tensors = {}

    def add(name, columns, *more):
        shape = (*more, 4, columns) if "norm" not in name else (columns,)
        own = "F32" if "norm" in name or "gate_inp" in name else kind
        tensors[name] = (random.standard_normal(shape).astype(np.float32) * 0.05, own)

    add("token_embd.weight", width)
    for layer in range(layers):
        prefix = f"blk.{layer}."
        for name in ["attn_q", "attn_k", "attn_v", "attn_output", "attn_norm", "ffn_norm"]:
            add(f"{prefix}{name}.weight", width)
        suffix, more = ("_exps", (experts,)) if experts else ("", ())
        if experts:
            add(prefix + "ffn_gate_inp.weight", width)
        for name, columns in [("gate", width), ("up", width), ("down", inner)]:
            add(f"{prefix}ffn_{name}{suffix}.weight", columns, *more)
    add("output_norm.weight", width)
    if not tied:
        add("output.weight", width)
    keys = {
        "vocab_size": 320, "block_count": layers, "context_length": 128, "embedding_length": width,
        "feed_forward_length": inner, "attention.head_count": heads, "attention.head_count_kv": kv,
        "rope.dimension_count": width // heads, "attention.layer_norm_rms_epsilon": 1e-5,
    }
    if experts:
        keys |= {"expert_count": experts, "expert_used_count": 2, "expert_feed_forward_length": inner}
    write(path, architecture, keys, tensors)


MODELS = {
    "shared values": {},
    "tied": {"layers": 17, "kv": 8, "tied": True, "kind": "BF16"},
    "rows of 64 and 96": {"layers": 3, "width": 64, "heads": 4, "kv": 4, "inner": 96, "kind": "F32"},
    "rows of 288": {"layers": 8, "width": 288, "heads": 9, "kv": 3, "inner": 512, "tied": True},
    "rows of 40": {"layers": 2, "width": 40, "heads": 2, "kv": 1, "inner": 256},
    "eight experts": {"layers": 9, "experts": 8, "inner": 256, "kv": 4},
    "four experts": {"architecture": "qwen3moe", "layers": 16, "experts": 4, "inner": 256, "kv": 1},
    "qwen2": {"architecture": "qwen2", "layers": 5, "kv": 1},
}  # fmt: skip


def quantize(source, target, mix: str) -> bytes:
    """The file that the library makes."""
    LIBRARY.quantize(source, target, mix)
    return target.read_bytes()


@check(*TYPES)
def blocks_are_those_of_llama_cpp(folder, kind):
    x = rows()
    write(folder / "in.gguf", "llama", {}, {"w.weight": (x, "F32")})
    (folder / "rules.toml").write_text(f'[[rules]]\npattern = "w.*"\ntype = "{kind.lower()}"\n')
    convert(folder / "in.gguf", folder / "out.gguf", "--set", f"types={folder}/rules.toml", "--allow", "all")
    found = np.array(gguf.GGUFReader(folder / "out.gguf").tensors[0].data).tobytes()
    expected = blocks(kind, x)
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    pairs = [np.frombuffer(own, np.uint8).reshape(-1, size) for own in (found, expected)]
    different = int((pairs[0] != pairs[1]).any(1).sum())
    assert not different, f"{different} of {len(pairs[1])} blocks differ"


@check(*MODELS)
def files_are_those_of_llama_quantize(folder, name):
    model(folder / "in.gguf", **MODELS[name])
    wrong = []
    for mix in MIXES:
        convert(folder / "in.gguf", folder / f"{mix}.gguf", "--set", f"type={mix}", "--allow", "all")
        if (folder / f"{mix}.gguf").read_bytes() != quantize(folder / "in.gguf", folder / "expected.gguf", mix):
            wrong.append(mix)
    assert not wrong, f"{len(MIXES) - len(wrong)} of {len(MIXES)} files are equal, not {', '.join(wrong)}"


@check("Q4_K_M", "IQ4_XS", "Q2_K")
def quantized_files_are_quantized_again(folder, first):
    model(folder / "in.gguf", layers=4)
    quantize(folder / "in.gguf", folder / "source.gguf", first)
    for mix in ["Q3_K_M", "Q6_K", "Q4_K_M"]:
        convert(folder / "source.gguf", folder / f"{mix}.gguf", "--set", f"type={mix}", "--allow", "all")
        expected = quantize(folder / "source.gguf", folder / "expected.gguf", mix)
        assert (folder / f"{mix}.gguf").read_bytes() == expected, mix


def start() -> int:
    global BASE, LIBRARY
    try:
        BASE = ctypes.CDLL(str(libraries() / "libggml-base.so"))
        LIBRARY = Library(libraries())
    except OSError as error:
        print(f"skipped: llama.cpp's library can't be downloaded or loaded: {error}")
        return 0
    return main(__doc__, np)


if __name__ == "__main__":
    sys.exit(start())
