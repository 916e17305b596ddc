#!/usr/bin/env bash
# Builds the page into a folder that any static server can serve: web/build.sh [FOLDER], web/dist if left out.
# Needs rustup's target wasm32-unknown-unknown, and Node.js.
set -euo pipefail
out="$(realpath -m "${1:-"$(dirname "$0")/dist"}")"
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

# Every browser since 2023 has 128-bit SIMD. The stack is what the program's first thread has.
RUSTFLAGS="-C target-feature=+simd128 -C link-arg=-zstack-size=8388608" \
    cargo build --quiet --locked --profile web --target wasm32-unknown-unknown --package ckpt-web
cargo build --quiet --locked --release --manifest-path web/bind/Cargo.toml

rm -rf "$out"
mkdir -p "$out"
"$CARGO_TARGET_DIR/release/ckpt-web-bind" "$CARGO_TARGET_DIR/wasm32-unknown-unknown/web/ckpt_web.wasm" "$out"
node web/assemble.mjs "$out"
