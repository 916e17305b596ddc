#!/usr/bin/env python3
"""Compares tokenizers that `ckpt` converted with llama.cpp, `tokenizers` and SentencePiece, on 200 lines in ten scripts.

    cargo build -p ckpt-tokenizers --example tokenizer
    python tests/interop/tokenizer_files.py --program target/debug/examples/tokenizer  (packages: requirements-transformers.txt)

llama.cpp's libraries are downloaded to a cache: see llama_packages.py. The tokenizers are the fixtures of `crates/tokenizers`,
and one with each name of a pre-tokenizer. The last line counts: `interop: 97 passed, 0 failed`.
"""

import argparse
import base64
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import gguf
import sentencepiece
import tokenizers
from llama_library import Library
from llama_packages import libraries

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "crates/tokenizers/tests/fixtures"
KINDS = [("bpe_gpt2", "bpe"), ("bpe_llama3", "bpe"), ("roberta", "bpe"), ("sentence_piece", "sentencepiece"),
         ("llama_bpe", "llama-bpe"), ("llama_bpe", "ranked-bpe"), ("unigram", "unigram"), ("word_piece", "wordpiece")]
# llama.cpp takes away every mark of a letter before WordPiece, not only accents. So these scripts have other ids there.
MARKED = {"Devanagari", "Bengali", "Hangul", "Thai", "Hebrew", "Arabic", "Japanese"}
# Names under which llama.cpp has other expressions than the tokenizers of that name.
SIMPLIFIED = {
    **dict.fromkeys(["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "tekken"], "letters are split from their marks"),
    "deepseek-llm": "digits are not single; its vocabulary has single ones alone",
    "falcon": "numbers keep the space before them; its vocabulary has none with a space",
    "superbpe": "only digits of ASCII are grouped",
}
SENTENCES = {
    "Latin": "The miller's cat isn't far: 12 miles, 345 yards & 6789 feet (x+1)=y_2! It'LL sleep; we'VE seen it…",
    "Cyrillic": "Мельник мелет муку, а кошка спит. Это было в 2024 году?",
    "Greek": "Ο μυλωνάς αλέθει το αλεύρι, και η γάτα κοιμάται.",
    "Han": "磨坊主磨面粉，猫在阳光下睡觉。一共123只！",
    "Japanese": "水車小屋は川のそばに立っています。ネコもいる。",
    "Hangul": "방앗간 주인이 밀가루를 빻고 고양이는 잔다 12345.",
    "Arabic": "الطحان يطحن الدقيق، والقطة تنام! ١٢٣٤",
    "Hebrew": "הטוחן טוחן קמח, והחתול ישן?",
    "Devanagari": "चक्कीवाला आटा पीसता है १२३, और बिल्ली सोती है।",
    "Bengali": "মিলার ময়দা পিষে, আর বিড়াল ঘুমায়।",
    "Thai": "คนโม่แป้งโม่แป้งและแมวนอนหลับ",
}
MORE = ["  two spaces\tand a tab", "def f(x):\n    return x**2  # comment\n\n\n", "trailing  ", "🚀 👨‍👩‍👧 ✅✅", "======= ''''``\"\"...", "\r\nend\r\n"]


def lines(scripts) -> list[str]:
    """200 lines: each sentence, and mixtures of words of all."""
    chosen = random.Random(1)
    whole = [SENTENCES[script] for script in scripts] + MORE
    words = " ".join(whole).split(" ")
    return whole + [" ".join(chosen.choices(words, k=chosen.randint(1, 12))) for _ in range(200 - len(whole))]


def run(program, *arguments) -> str:
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_gguf(path: pathlib.Path, keys: dict) -> None:
    """A file with a vocabulary alone."""
    kinds = {"$u32": gguf.GGUFValueType.UINT32, "$i32": gguf.GGUFValueType.INT32, "$f32": gguf.GGUFValueType.FLOAT32}
    writer = gguf.GGUFWriter(path, "llama")
    for key in ("context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"):
        writer.add_uint32(f"llama.{key}", 8)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    for key, value in keys.items():
        if isinstance(value, dict) and "$bytes" in value:
            writer.add_array(key, base64.b64decode(value["$bytes"]))
        elif isinstance(value, dict):
            (tag, number), = value.items()
            writer.add_key_value(key, number, kinds[tag])
        elif isinstance(value, list):
            tag = next(iter(value[0])) if isinstance(value[0], dict) else None
            plain = [element[tag] for element in value] if tag else value
            writer.add_key_value(key, plain, gguf.GGUFValueType.ARRAY, sub_type=kinds.get(tag))
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        else:
            writer.add_string(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def reference(folder: pathlib.Path, texts) -> list[list[int]]:
    """The ids by the library that made the tokenizer."""
    for name in ("tokenizer.model", "spiece.model"):
        if (folder / name).exists():
            return sentencepiece.SentencePieceProcessor(model_file=str(folder / name)).encode(texts)
    return by_tokenizers(folder, texts)


def by_tokenizers(folder: pathlib.Path, texts) -> list[list[int]]:
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def compare(what: str, texts, found, expected) -> bool:
    """Prints how many lines are equal, and the first that is not."""
    same = sum(ids == others for ids, others in zip(found, expected))
    print(f"{what}: {same} of {len(texts)} lines")
    for text, ids, others in zip(texts, found, expected):
        if ids != others:
            print(f"    {text!r}\n    found    {ids}\n    expected {others}")
            break
    return same == len(texts)


def try_names(program, library) -> list[bool]:
    """Whether llama.cpp splits under each name by the rules that `ckpt` has for it. Merges cross the ends of words everywhere."""
    table = (ROOT / "crates/tokenizers/src/pre/table.rs").read_text()
    names = re.findall(r'(?:merging|ignoring)\("([^"]+)"\)', table)
    texts = lines(SENTENCES)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=3000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    keys = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "", "tokenizer.ggml.tokens": list(model["vocab"]),
            "tokenizer.ggml.token_type": [{"$i32": 1}] * len(model["vocab"]), "tokenizer.ggml.merges": list(map(" ".join, model["merges"])),
            "tokenizer.ggml.bos_token_id": {"$u32": 0}, "tokenizer.ggml.eos_token_id": {"$u32": 0}}
    keys["tokenizer.ggml.tokens"].sort(key=model["vocab"].get)
    results = []
    for name in names:
        keys["tokenizer.ggml.pre"] = name
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            (work / "keys.json").write_text(json.dumps(keys))
            write_gguf(work / "vocabulary.gguf", keys)
            run(program, "files", work / "keys.json", work / "files")
            found = library.tokenize(work / "vocabulary.gguf", texts, special=False)
            expected = by_tokenizers(work / "files", texts)
        if name in SIMPLIFIED:
            print(f"{name}: {SIMPLIFIED[name]}")
            results.append(found != expected)
        else:
            results.append(compare(name, texts, found, expected))
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="the example `tokenizer` of the crate")
    arguments = parser.parse_args()
    try:
        library = Library(libraries())
    except OSError as error:
        print(f"skipped: llama.cpp's libraries can't be downloaded or loaded: {error}")
        return 0
    results = []
    for name, kind in KINDS:
        scripts = [script for script in SENTENCES if kind != "wordpiece" or script not in MARKED]
        texts, folder = lines(scripts), FIXTURES / name
        expected = reference(folder, texts)
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            keys = run(arguments.program, "keys", kind, folder)
            (work / "keys.json").write_text(keys)
            write_gguf(work / "vocabulary.gguf", json.loads(keys))
            run(arguments.program, "files", work / "keys.json", work / "files")
            # Without scores, llama.cpp merges in another order.
            if kind != "llama-bpe":
                found = library.tokenize(work / "vocabulary.gguf", texts, special=False)
                results.append(compare(f"{name}, {kind}: llama.cpp", texts, found, expected))
            results.append(compare(f"{name}, {kind}: files made again", texts, by_tokenizers(work / "files", texts), expected))
    results += try_names(arguments.program, library)
    print(f"interop: {sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
