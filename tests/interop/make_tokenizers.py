#!/usr/bin/env python3
"""Makes the fixtures of `crates/tokenizers`: small tokenizers of each kind, and the keys that llama.cpp's converter writes for them.

    PYTHONPATH=llama.cpp/gguf-py python tests/interop/make_tokenizers.py      (packages: requirements-tokenizers.txt)

The tokenizers are trained by `tokenizers` and `sentencepiece`; each run gives others. The keys come from gguf-py in the sources of
llama.cpp 0.5.0, because the package of this name is older: its class `SpecialVocab` decides special tokens, and the functions below
fill the vocabulary as the converter's `set_vocab` of each kind does.
"""

import base64
import json
import pathlib
import shutil
import tempfile

import gguf
import sentencepiece
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "crates/tokenizers/tests/fixtures"
TEXT = [
    "The old mill stands by the river, and the miller's cat sleeps in the sun.",
    "It isn't far: 12 miles, 345 yards and 6789 feet.",
    "Der Müller mahlt das Mehl, und die Katze schläft.",
    "Мельник мелет муку, а кошка спит на солнце.",
    "def mill(x):\n    return x + 1\n\n\nprint(mill(41))",
    "水車小屋は川のそばに立っています。",
    "the miller and the mill and the river and the cat",
] * 3
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
TEMPLATE = "{% for m in messages %}<|start|>{{ m.content }}<|end|>\n{% endfor %}"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def write(folder: pathlib.Path, name: str, value) -> None:
    (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


# The tokenizers.


def bytes_bpe(folder, pre_tokenizer, processor, special, config, more=()):
    """Byte-pair encoding over bytes, with an embedding of 330 rows."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=310, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(list(more))
    tokenizer.post_processor = processor(tokenizer)
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder, "tokenizer_config.json", config)
    write(folder, "config.json", {"vocab_size": 330, "eos_token_id": 311, "pad_token_id": None})


def bpe_llama3(folder):
    split = pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated")
    rules = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    begin = "<|begin|>"

    def processor(tokenizer):
        template = processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A {begin} $B:1", special_tokens=[(begin, tokenizer.token_to_id(begin))])
        return processors.Sequence([processors.ByteLevel(trim_offsets=False), template])

    bytes_bpe(folder, rules, processor, [begin, "<|end|>"], {"bos_token": begin, "eos_token": {"content": "<|end|>"}})
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def bpe_gpt2(folder):
    more = [tokenizers.AddedToken("<pad>"), tokenizers.AddedToken("<tool>"), tokenizers.AddedToken("<▁x▁>")]
    config = {"bos_token": "<|end|>", "eos_token": "<|end|>", "pad_token": "<pad>", "unk_token": None,
              "chat_template": [{"name": "default", "template": TEMPLATE}, {"name": "tool-use", "template": "{{ tools }}"}]}
    bytes_bpe(folder, pre_tokenizers.ByteLevel(add_prefix_space=False), lambda _: processors.ByteLevel(), ["<|end|>"], config, more)


def roberta(folder):
    rules = pre_tokenizers.ByteLevel(add_prefix_space=False)

    def processor(tokenizer):
        return processors.RobertaProcessing(("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")))

    config = {"bos_token": "<s>", "eos_token": "</s>", "mask_token": {"content": "<mask>"}, "unk_token": "<unk>"}
    bytes_bpe(folder, rules, processor, ["<s>", "</s>", "<unk>", "<mask>"], config)


def train(folder, kind, **options):
    """A model of SentencePiece."""
    from sentencepiece import sentencepiece_model_pb2

    with tempfile.TemporaryDirectory() as work:
        corpus = pathlib.Path(work) / "corpus.txt"
        corpus.write_text("\n".join(line for text in TEXT for line in text.split("\n")))
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=f"{work}/model", model_type=kind, minloglevel=2, num_threads=1, **options)
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString((pathlib.Path(work) / "model.model").read_bytes())
    # Paths of the machine that trains.
    for field in ("input", "model_prefix"):
        model.trainer_spec.ClearField(field)
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    return model.SerializeToString()


def sentence_piece(folder):
    model = train(folder, "bpe", vocab_size=340, byte_fallback=True, normalization_rule_name="identity",
                  remove_extra_whitespaces=False, character_coverage=0.98, user_defined_symbols=["<sep>"])
    (folder / "tokenizer.model").write_bytes(model)
    write(folder, "added_tokens.json", {"<tool>": 340, "<|end|>": 341})
    decoder = {"0": ("<unk>", True), "1": ("<s>", True), "2": ("</s>", True), "341": ("<|end|>", False), "342": ("<▁x▁>", False)}
    write(folder, "tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False, "add_prefix_space": True, "bos_token": "<s>", "eos_token": "</s>",
        "unk_token": "<unk>", "chat_template": TEMPLATE,
        "added_tokens_decoder": {id: {"content": text, "special": special} for id, (text, special) in decoder.items()}})
    write(folder, "config.json", {"vocab_size": 350, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 400})


def llama_bpe(folder):
    """What is left if `tokenizer.model` is lost."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False))
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["id"] < 3]
    content["added_tokens"].append({**content["added_tokens"][0], "id": 400, "content": "<tool>", "special": False})
    content["post_processor"] = json.loads(processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]).__getstate__())
    write(folder, "tokenizer.json", content)
    write(folder, "tokenizer_config.json", {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_eos_token": False})
    write(folder, "config.json", {"vocab_size": 401})


def unigram(folder):
    # Wide letters become narrow ones: the usual table has 240 kB.
    table = folder / "table.tsv"
    table.write_text("FF21\t41\nFF22\t42\n")
    model = train(folder, "unigram", vocab_size=100, normalization_rule_tsv=str(table), bos_id=-1, pad_id=0, eos_id=1, unk_id=2)
    table.unlink()
    (folder / "spiece.model").write_bytes(model)
    write(folder, "tokenizer_config.json", {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"})
    write(folder, "added_tokens.json", {"<extra_id_0>": 100})
    write(folder, "config.json", {"vocab_size": 104, "eos_token_id": 1, "pad_token_id": 0})


def word_piece(folder):
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder, "tokenizer_config.json", {
        "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"})
    write(folder, "config.json", {"vocab_size": tokenizer.get_vocab_size(), "pad_token_id": 0})


# The keys.


def looks_special(text):
    return (text in ("<pad>", "<mask>", "<2mass>", "[@BOS@]") or text.startswith("<|") and text.endswith("|>")
            or text.startswith("<｜") and text.endswith("｜>") or text.startswith("<unused") and text.endswith(">"))


def vocab_base(folder):
    """`get_vocab_base`."""
    content, size = json.loads((folder / "tokenizer.json").read_text()), config(folder)["vocab_size"]
    texts = {id: text for text, id in tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab().items()}
    added = {token["id"]: token for token in content["added_tokens"]}
    tokens, types = [], []
    for id in range(size):
        if id not in texts:
            tokens.append(f"[PAD{id}]")
            types.append(UNUSED)
        elif id not in added:
            tokens.append(texts[id])
            types.append(NORMAL)
        elif added[id]["special"] or looks_special(texts[id]):
            tokens.append(texts[id])
            types.append(CONTROL)
        else:
            tokens.append(texts[id].replace("▁", " "))
            types.append(USER_DEFINED)
    return tokens, types


def config(folder):
    return json.loads((folder / "config.json").read_text())


def bpe_keys(folder, writer, pre):
    tokens, types = vocab_base(folder)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    gguf.SpecialVocab(folder, load_merges=True).add_to_gguf(writer, quiet=True)


def pieces(folder, name):
    """The part of `_create_vocab_sentencepiece` that reads the model and `added_tokens.json`."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
    size = config(folder)["vocab_size"]
    tokens = [(f"[PAD{id}]", -10000.0, UNUSED) for id in range(size)]
    for id in range(model.vocab_size()):
        queries = [(model.IsUnknown, UNKNOWN), (model.IsControl, CONTROL), (model.IsUnused, UNUSED), (model.IsByte, BYTE)]
        kind = next((kind for query, kind in queries if query(id)), NORMAL)
        tokens[id] = (model.IdToPiece(id), model.GetScore(id), kind)
    for text, id in json.loads((folder / "added_tokens.json").read_text()).items():
        tokens[id] = (text, -1000.0, USER_DEFINED)
    return tokens


def add_scored(writer, model, tokens):
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre("default")
    texts, scores, types = zip(*tokens)
    writer.add_token_list(texts)
    writer.add_token_scores(scores)
    writer.add_token_types(types)


def sentence_piece_keys(folder, writer, _):
    tokens = pieces(folder, "tokenizer.model")
    stated = json.loads((folder / "tokenizer_config.json").read_text())
    for id, token in stated["added_tokens_decoder"].items():
        text, special = token["content"], token["special"] or looks_special(token["content"])
        tokens[int(id)] = (text, -1000.0, CONTROL) if special else (text.replace("▁", " "), -1000.0, USER_DEFINED)
    writer.add_add_space_prefix(stated["add_prefix_space"])
    add_scored(writer, "llama", tokens)
    gguf.SpecialVocab(folder, n_vocab=len(tokens)).add_to_gguf(writer, quiet=True)


def llama_bpe_keys(folder, writer, _):
    content = json.loads((folder / "tokenizer.json").read_text())
    stated = json.loads((folder / "tokenizer_config.json").read_text())
    special = {text for text in stated.values() if isinstance(text, str)}
    tokens = []
    for text in sorted(content["model"]["vocab"], key=content["model"]["vocab"].get):
        is_byte = text.startswith("<0x") and len(text) == 6
        tokens.append((text, -1000.0, BYTE if is_byte else CONTROL if text in special else NORMAL))
    tokens += [(token["content"], -1000.0, USER_DEFINED) for token in content["added_tokens"] if token["id"] >= len(tokens)]
    add_scored(writer, "llama", tokens)
    gguf.SpecialVocab(folder, n_vocab=len(tokens)).add_to_gguf(writer, quiet=True)


def unigram_keys(folder, writer, _):
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString((folder / "spiece.model").read_bytes())
    tokens = pieces(folder, "spiece.model")
    add_scored(writer, "t5", tokens)
    writer.add_add_space_prefix(model.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(model.normalizer_spec.remove_extra_whitespaces)
    writer.add_precompiled_charsmap(model.normalizer_spec.precompiled_charsmap)
    gguf.SpecialVocab(folder, n_vocab=len(tokens)).add_to_gguf(writer, quiet=True)


def word_piece_keys(folder, writer, pre):
    tokens, types = vocab_base(folder)
    words = [text if kind == CONTROL else text[2:] if text.startswith("##") else "▁" + text for text, kind in zip(tokens, types)]
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(words)
    writer.add_token_types(types)
    gguf.SpecialVocab(folder, n_vocab=len(tokens)).add_to_gguf(writer, quiet=True)


def plain(value, kind):
    """A value in the JSON form of `ckpt`'s metadata."""
    names = {gguf.GGUFValueType.UINT32: "$u32", gguf.GGUFValueType.INT32: "$i32", gguf.GGUFValueType.FLOAT32: "$f32"}
    if kind == gguf.GGUFValueType.ARRAY and isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if kind == gguf.GGUFValueType.ARRAY:
        return [plain(element, gguf.GGUFValueType.get_type(element)) for element in value]
    return {names[kind]: value} if kind in names else value


FIXTURE = {
    bpe_llama3: (bpe_keys, "llama-bpe"),
    bpe_gpt2: (bpe_keys, "gpt-2"),
    roberta: (bpe_keys, "gpt-2"),
    sentence_piece: (sentence_piece_keys, None),
    llama_bpe: (llama_bpe_keys, None),
    unigram: (unigram_keys, None),
    word_piece: (word_piece_keys, "jina-v2-en"),
}


def make(root: pathlib.Path) -> None:
    assert hasattr(gguf.SpecialVocab, "_parse_normalizer"), "gguf-py is older than llama.cpp 0.5.0: see above"
    shutil.rmtree(root, ignore_errors=True)
    for tokenizer, (keys, pre) in FIXTURE.items():
        folder = root / tokenizer.__name__
        folder.mkdir(parents=True)
        tokenizer(folder)
        writer = gguf.GGUFWriter(None, "llama")
        keys(folder, writer, pre)
        stated = writer.kv_data[0].items()
        write(folder, "keys.json", {key: plain(value.value, value.type) for key, value in stated if key.startswith("tokenizer.")})
        print(folder.name)


if __name__ == "__main__":
    make(FIXTURES)
