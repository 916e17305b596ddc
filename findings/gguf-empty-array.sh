#!/usr/bin/env bash
# gguf 0.19.0: `GGUFWriter.add_array` with an empty list writes no key at all.
#
# Expected  a key whose value is an array of no elements, which the format can hold, or an error.
# Happens   the key is missing in the file, and nothing says so.
# Seen      below: the keys of the file, of which "test.none" was added between the other two.
# Matters   metadata does not survive a round trip through gguf-py: a reader that needs the key fails, or takes its default.
#           A converter that compares metadata must tell an empty array from a missing key, and say which of them it wrote.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check gguf==0.19.0 numpy==2.4.6
cd "$folder"
venv/bin/python >seen - <<'PYTHON'
from gguf import GGUFReader, GGUFWriter

writer = GGUFWriter("model.gguf", "llama")
writer.add_array("test.some", [1, 2])
writer.add_array("test.none", [])
writer.add_uint32("test.after", 3)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
print([key for key in GGUFReader("model.gguf").fields if not key.startswith("GGUF.")])
PYTHON
diff seen - <<'SEEN'
['general.architecture', 'test.some', 'test.after']
SEEN
