"""Makes a directory of Hugging Face with a model like Llama, of random weights: `python model_sources.py OUT WEIGHTS DTYPE`."""

import json
import pathlib
import sys

import numpy

LAYERS = 10
HEADS = 8
SHARDS = 2
# Of the width of the embeddings: the tokens, and the numbers inside of a feed-forward layer.
TOKENS, INNER = 16, 2.75
# The weights of a model whose embeddings have one number, as if their lengths were products.
WEIGHTS = TOKENS + LAYERS * (2 + 2 / HEADS + 3 * INNER)


def width(count: float) -> int:
    """That of the embeddings of a model with so many weights. K-quants have blocks of 256."""
    return max(256, int((count / WEIGHTS) ** 0.5) // 256 * 256)


def shapes(wide: int) -> list[dict[str, tuple[int, ...]]]:
    """The tensors of each shard."""
    inner, shared = int(INNER * wide), wide // HEADS
    shards: list[dict[str, tuple[int, ...]]] = [{} for _ in range(SHARDS)]
    shards[0]["model.embed_tokens.weight"] = (TOKENS * wide, wide)
    for layer in range(LAYERS):
        of_layer = {
            "self_attn.q_proj": (wide, wide), "self_attn.k_proj": (shared, wide), "self_attn.v_proj": (shared, wide),
            "self_attn.o_proj": (wide, wide), "mlp.gate_proj": (inner, wide), "mlp.up_proj": (inner, wide),
            "mlp.down_proj": (wide, inner), "input_layernorm": (wide,), "post_attention_layernorm": (wide,),
        }
        own = shards[layer * SHARDS // LAYERS]
        own |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    shards[-1]["model.norm.weight"] = (wide,)
    # As safetensors' own library sorts them.
    return [dict(sorted(tensors.items())) for tensors in shards]


def write(folder: pathlib.Path, count: float, dtype: str) -> None:
    folder.mkdir()
    wide = width(count)
    # A period that is prime: no two rows are alike.
    period = numpy.random.default_rng(7).standard_normal(1_000_003).astype(numpy.float32) * numpy.float32(0.02)
    numbers = period if dtype == "float32" else (period.view(numpy.uint32) >> 16).astype(numpy.uint16)
    files = {}
    for number, tensors in enumerate(shapes(wide), 1):
        name = f"model-{number:05}-of-{SHARDS:05}.safetensors"
        files |= dict.fromkeys(tensors, name)
        save(folder / name, tensors, numbers, {"float32": "F32", "bfloat16": "BF16"}[dtype])
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": dtype, "hidden_size": wide,
        "intermediate_size": int(INNER * wide), "num_hidden_layers": LAYERS, "num_attention_heads": 4 * HEADS,
        "head_dim": wide // (4 * HEADS),
        "num_key_value_heads": 4, "vocab_size": TOKENS * wide, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
    (folder / "tokenizer.model").write_bytes(pieces(TOKENS * wide))
    (folder / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": True, "add_eos_token": False}))


def save(path: pathlib.Path, tensors: dict[str, tuple[int, ...]], numbers: numpy.ndarray, dtype: str) -> None:
    """A safetensors file, written as it is made."""
    header, end = {}, 0
    for name, shape in tensors.items():
        start, end = end, end + int(numpy.prod(shape)) * numbers.itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
    with open(path, "wb") as file:
        file.write((len(text) + -len(text) % 8).to_bytes(8, "little") + text + b" " * (-len(text) % 8))
        place = 0
        for shape in tensors.values():
            left = int(numpy.prod(shape))
            while left:
                part = numbers[place:place + left]
                file.write(part)
                left, place = left - len(part), (place + len(part)) % len(numbers)


def pieces(count: int) -> bytes:
    """A model of SentencePiece with so many pieces: protocol buffers."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    def piece(text: str, score: float, kind: int) -> bytes:
        return field(1, field(1, text.encode()) + b"\x15" + numpy.float32(score).tobytes() + bytes([3 << 3, kind]))

    normal, unknown, control, byte = 1, 2, 3, 6
    made = [piece("<unk>", 0, unknown), piece("<s>", 0, control), piece("</s>", 0, control)]
    made += [piece(f"<0x{number:02X}>", 0, byte) for number in range(256)]
    made += [piece(f"▁{number:x}", -number, normal) for number in range(count - len(made))]
    byte_pairs = bytes([3 << 3, 2])
    falls_back_to_bytes = bytes([35 << 3 & 0x7F | 0x80, 35 >> 4, 1])
    keeps_spaces = bytes([4 << 3, 0])
    return b"".join(made) + field(2, byte_pairs + falls_back_to_bytes) + field(3, field(1, b"identity") + keeps_spaces)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
