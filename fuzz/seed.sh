#!/usr/bin/env bash
# Copies the corpus to where cargo fuzz looks for seeds: fuzz/corpus/TARGET/.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p fuzz/corpus/{bullet_read,cnn2_read,nn_read,npz_read,safetensors_read,tf2_read,tf2_entries,probe,mapping}
python3 - <<'PYTHON'
import pathlib, shutil, struct, sys

sys.path.insert(0, "corpus")
sys.dont_write_bytecode = True
import make_tf2

corpus, out = pathlib.Path("corpus"), pathlib.Path("fuzz/corpus")
for codec in ("bullet", "cnn2", "nn", "npz", "safetensors", "tf2"):
    for file in sorted(path for path in (corpus / codec).rglob("*") if path.is_file()):
        name = "-".join(file.relative_to(corpus / codec).parts)
        shutil.copyfile(file, out / "probe" / f"{codec}-{name}")
        if codec != "tf2":
            shutil.copyfile(file, out / f"{codec}_read" / name)
# tf2_read takes index and data in one: the length of the index, the index, the data.
for folder in sorted(path for path in (corpus / "tf2").glob("*/*") if path.is_dir()):
    index = folder / "m.index"
    data = b"".join(file.read_bytes() for file in sorted(folder.glob("m.data-*")))
    if index.exists():
        seed = struct.pack("<I", index.stat().st_size) + index.read_bytes() + data
        (out / "tf2_read" / f"{folder.parent.name}-{folder.name}").write_bytes(seed)
# tf2_entries takes the entries without the table around them.
for name, made in make_tf2.bundles().items():
    for key, value in made.sorted():
        assert len(key) < 255 and len(value) < 256, (name, key)
    entries = b"".join(bytes([len(key), len(value)]) + key + value for key, value in made.sorted())
    (out / "tf2_entries" / name).write_bytes(entries + b"\xff\0" + b"".join(made.data))
PYTHON
for file in schemas/mappings/*.toml examples/data/mapping/*.toml; do
    if [ -f "$file" ]; then cp "$file" fuzz/corpus/mapping/; fi
done
cat > fuzz/corpus/mapping/rules.toml <<'TOML'
[[rule]]
from = "model/h{layer:int}/attn/{part}"
to = "h.{layer}.{part}"
TOML
for folder in fuzz/corpus/*/; do
    echo "$(basename "$folder"): $(find "$folder" -type f | wc -l) seeds"
done
