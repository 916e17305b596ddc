#!/usr/bin/env bash
# Builds the codecs of the program as plugins into a folder: build.sh FOLDER [NAME...]
set -euo pipefail
cd "$(dirname "$0")/../.."
folder="$1"
shift
[ $# -gt 0 ] || set -- caffe cnn2 darknet gguf mxnet nn nnue npz paddle safetensors torch7
mkdir -p "$folder"
built="$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')"
for name in "$@"; do
    cargo build --quiet --release --target wasm32-unknown-unknown --package ckpt-builtin-plugins --features "$name"
    cp "$built/wasm32-unknown-unknown/release/ckpt_builtin_plugins.wasm" "$folder/$name.wasm"
done
