#!/usr/bin/env python3
"""Writes the corpus: small files that each codec must accept or refuse, and manifest.toml that says which.

    python corpus/generate.py [--check]     (pure Python; replaces accept/ and reject/ of each codec)

The output is the same on every run. What other programs wrote (outside.py) stays as it is. `tests/it/corpus.rs` replays it.
"""

import hashlib
import pathlib
import shutil
import sys

import make_bullet
import make_caffe
import make_cnn2
import make_coreml
import make_darknet
import make_gguf
import make_keras
import make_mxnet
import make_nn
import make_nnue
import make_npz
import make_onnx
import make_orbax
import make_outside
import make_paddle
import make_safetensors
import make_tf1
import make_tf2
import make_tfjs
import make_tflite
import make_torch
import make_torch7
import make_torch_directories
from common import Case, digest

ROOT = pathlib.Path(__file__).resolve().parent
MAKERS = {
    "bullet": [make_bullet], "caffe": [make_caffe], "cnn2": [make_cnn2], "coreml": [make_coreml], "darknet": [make_darknet], "flax": [make_orbax.Flax], "gguf": [make_gguf], "keras": [make_keras], "mxnet": [make_mxnet], "nn": [make_nn], "nnue": [make_nnue], "npz": [make_npz],
    "onnx": [make_onnx], "orbax": [make_orbax], "paddle": [make_paddle], "safetensors": [make_safetensors], "tf1": [make_tf1], "tf2": [make_tf2], "tfjs": [make_tfjs], "tflite": [make_tflite], "torch": [make_torch, make_torch_directories], "torch7": [make_torch7],
}
HEAD = """\
# Made by generate.py: what each file of the corpus is, and what reading it must give.
# Paths are relative to this file. `path` is a file, or a folder in which `entry` is what the user names ("" = all of it).
# `told = false` where the content does not tell the format, so that the user has to.
# `digest` of the accepted: see `digest` in common.py. `kind` of the refused: the error's kind.
"""


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def add(codec: str, case: Case, files: dict[str, bytes]) -> str:
    """Adds the files of one case and returns its part of the manifest."""
    outcome = "reject" if case.tensors is None else "accept"
    alone = list(case.files) == [case.entry] and case.entry.startswith(f"{case.name}.")
    folder = f"{codec}/{outcome}/" + ("" if alone else f"{case.name}/")
    lines = ["[[case]]", f'codec = "{codec}"', f'outcome = "{outcome}"', f"why = {quoted(case.why)}"]
    lines.append(f"path = {quoted(folder + case.entry if alone else folder[:-1])}")
    if not alone:
        lines.append(f"entry = {quoted(case.entry)}")
    if case.options:
        lines.append(f"options = [{', '.join(map(quoted, case.options))}]")
    if not case.told:
        lines.append("told = false")
    lines.append(f'kind = "{case.kind}"' if case.tensors is None else f'digest = "{digest(case.tensors)}"')
    lines.append("[case.sha256]")
    for name, data in sorted(case.files.items()):
        assert folder + name not in files, folder + name
        files[folder + name] = data
        lines.append(f'{quoted(name)} = "{hashlib.sha256(data).hexdigest()}"')
    return "\n".join(lines) + "\n"


def main() -> None:
    files, parts = {}, [HEAD]
    for codec, makers in MAKERS.items():
        accepted = [case for maker in makers for case in maker.accepted()] + make_outside.accepted(codec)
        rejected = [case for maker in makers for case in maker.rejected()]
        parts += [add(codec, case, files) for case in accepted + rejected]
        print(f"{codec}: {len(accepted)} accepted, {len(rejected)} refused")
    files["manifest.toml"] = "\n".join(parts).encode()
    if sys.argv[1:] == ["--check"]:
        check(files)
    else:
        write(files)


def write(files: dict[str, bytes]) -> None:
    for codec in MAKERS:
        shutil.rmtree(ROOT / codec, ignore_errors=True)
    for name, data in files.items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_bytes(data)


def check(files: dict[str, bytes]) -> None:
    there = {str(path.relative_to(ROOT)) for codec in MAKERS for path in (ROOT / codec).rglob("*") if path.is_file()}
    wrong = there ^ (set(files) - {"manifest.toml"})
    wrong |= {name for name in set(files) - wrong if (ROOT / name).read_bytes() != files[name]}
    if wrong:
        sys.exit(f"not what generate.py writes: {sorted(wrong)}")
    print(f"{len(files)} files are as generate.py writes them")


if __name__ == "__main__":
    main()
