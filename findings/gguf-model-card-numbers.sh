#!/usr/bin/env bash
# gguf 0.19.0: a model card whose version or tags look like numbers, dates or truth values has no GGUF file.
#
# Expected  the text of the card as a key: `general.version`, `general.tags`.
# Happens   `Metadata.load` reads the card with YAML 1.1, in which 1.0, 2024-05-01 and `on` are no texts, and hands them to
#           `GGUFWriter` as they are. Only the item `no` of a list is put in quotes first. The writer checks nothing until it
#           writes: then it fails with a TypeError or ValueError of its own, or writes a key of another type.
# Seen      below: the line of the card, and what becomes of it.
# Matters   a converter that is byte for byte that of llama.cpp on other cards has to choose here: a text is what the card
#           shows, and what llama.cpp reads the key as.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check gguf==0.19.0 numpy==2.4.6 pyyaml==6.0.3
cd "$folder"
venv/bin/python >seen - <<'PYTHON'
from pathlib import Path
from gguf import GGUFReader, GGUFWriter, Metadata

for line in ["version: v1.0", "version: 1.0", "version: 2024-05-01", "tags: [text, 2024]", "language: ['no', on]", "language: [on]"]:
    Path("model").mkdir(exist_ok=True)
    Path("model/README.md").write_text(f"---\n{line}\n---\n")
    metadata = Metadata.load(model_path=Path("model"))
    writer = GGUFWriter("m.gguf", "llama")
    try:
        metadata.set_gguf_meta_model(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        key = {"version": "version", "tags": "tags", "language": "languages"}[line.split(":")[0]]
        field = GGUFReader("m.gguf").fields[f"general.{key}"]
        print(f"{line}: {[kind.name for kind in field.types]} {field.contents()}")
    except (TypeError, ValueError, AttributeError) as error:
        print(f"{line}: {type(error).__name__}: {error}")
PYTHON
diff seen - <<'SEEN'
version: v1.0: ['STRING'] v1.0
version: 1.0: TypeError: object of type 'float' has no len()
version: 2024-05-01: TypeError: object of type 'datetime.date' has no len()
tags: [text, 2024]: ValueError: All items in a GGUF array should be of the same type
language: ['no', on]: ValueError: All items in a GGUF array should be of the same type
language: [on]: ['ARRAY', 'BOOL'] [True]
SEEN
