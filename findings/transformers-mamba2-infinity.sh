#!/usr/bin/env bash
# transformers 4.57.6: `Mamba2Config.save_pretrained` writes a `config.json` that is no JSON.
#
# Expected  JSON, as the name of the file says: RFC 8259 has no number `Infinity`.
# Happens   the default `time_step_limit` of Mamba 2 is (0.0, inf), and Python's `json.dumps` writes the second number as
#           `Infinity` unless it is told not to. Python reads it again; strict parsers refuse the whole file.
# Seen      below: the line of the file, and what a strict parser (orjson 3.11.4) says of it.
# Matters   every directory of Mamba 2 that transformers saves has such a file. A converter outside Python finds no
#           configuration in it, or has to read more than JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check transformers==4.57.6 orjson==3.11.4
cd "$folder"
venv/bin/python >seen 2>errors - <<'PYTHON'
import orjson
from transformers import Mamba2Config

Mamba2Config().save_pretrained("model")
text = open("model/config.json").read()
print(*[line.strip() for line in text.splitlines() if "Infinity" in line], sep="\n")
try:
    orjson.loads(text)
    print("read")
except orjson.JSONDecodeError as error:
    print("refused:", str(error).split(":")[0])
PYTHON
diff seen - <<'SEEN'
Infinity
refused: unexpected character
SEEN
