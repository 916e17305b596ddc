#!/usr/bin/env bash
# Writes seeds to DIRECTORY/TARGET/: fuzz/seed.sh [DIRECTORY], by default fuzz/corpus, where fuzz/run.sh looks for them.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-fuzz/corpus}"
# What the repository's files are, in the forms that the targets take.
cargo run --quiet --example seeds -- "$out"
# Cases that the corpus does not have.
for script in fuzz/seeds.py fuzz/seeds/operators.py fuzz/seeds/tf2.py; do
    PYTHONPATH=corpus python3 -B "$script" "$out"
done
for folder in "$out"/*/; do
    echo "$(basename "$folder"): $(find "$folder" -type f | wc -l) seeds"
done
