#!/usr/bin/env bash
# llama.cpp as llama-cpp-python 0.3.36 ships it: convert_lora_to_gguf.py states the wrong scale for rsLoRA and alpha_pattern.
#
# Expected  a file whose products llama.cpp scales as the training did: by lora_alpha / sqrt(r) with use_rslora, and by a module's
#           own alpha / r with alpha_pattern. llama.cpp multiplies by `adapter.lora.alpha` / r, so the first is alpha * sqrt(r).
# Happens   the script writes lora_alpha, and reads neither use_rslora nor alpha_pattern. There is no warning.
# Seen      below: the scale of the training of both modules, and that of the file.
# Matters   an adapter of rank 64 with rsLoRA has an eighth of its effect in llama.cpp.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir \
    torch==2.15.0 transformers==4.57.6 safetensors==0.8.0 numpy==2.4.6 pyyaml==6.0.4 sentencepiece==0.2.3
cd "$folder"
curl --silent --show-error --fail --location --output sources.tar.gz \
    https://files.pythonhosted.org/packages/ec/e9/e7de2b0463ea3ffbf0ede6cb21b58c1258a8f6521aae45ca773a59fe7cf3/llama_cpp_python-0.3.36.tar.gz
echo "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e  sources.tar.gz" | sha256sum --check --quiet
tar --extract --gzip --file sources.tar.gz --strip-components 3 --wildcards \
    '*/vendor/llama.cpp/conversion/*' '*/vendor/llama.cpp/gguf-py/gguf/*' '*/vendor/llama.cpp/convert_lora_to_gguf.py'
cat >make.py <<'PYTHON'
import json, pathlib, subprocess, sys
import torch
from safetensors.torch import save_file

sys.path.insert(0, "gguf-py")
import gguf

base = pathlib.Path("base")
base.mkdir()
base.joinpath("config.json").write_text(json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 8,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 8,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 8, "rope_theta": 10000.0}))
for title, own, scales in [
    ("plain", {}, (4.0, 4.0)),
    ("use_rslora", {"use_rslora": True}, (8.0, 8.0)),
    ("alpha_pattern", {"alpha_pattern": {"v_proj": 2}}, (4.0, 0.5)),
]:
    folder = pathlib.Path(title)
    folder.mkdir()
    folder.joinpath("adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "lora_alpha": 16, **own}))
    module = "base_model.model.model.layers.0.self_attn"
    save_file({f"{module}.{name}.lora_{half}.weight": torch.ones((4, 8) if half == "A" else (8, 4))
               for name in ["q_proj", "v_proj"] for half in "AB"}, folder / "adapter_model.safetensors")
    subprocess.run([sys.executable, "convert_lora_to_gguf.py", title, "--base", "base", "--outfile", f"{title}.gguf"],
                   check=True, capture_output=True)
    reader = gguf.GGUFReader(f"{title}.gguf")
    alpha = reader.fields["adapter.lora.alpha"].contents()
    factors = {tensor.name: tensor.data for tensor in reader.tensors}
    assert len(factors) == 4 and all((data == 1).all() for data in factors.values())
    print(f"{title}: training {scales}, file {(alpha / 4, alpha / 4)}")
PYTHON
venv/bin/python make.py >seen
diff seen - <<'SEEN'
plain: training (4.0, 4.0), file (4.0, 4.0)
use_rslora: training (8.0, 8.0), file (4.0, 4.0)
alpha_pattern: training (4.0, 0.5), file (4.0, 4.0)
SEEN
