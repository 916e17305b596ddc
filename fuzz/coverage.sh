#!/usr/bin/env bash
# How many lines of the parsers the fuzzers' inputs reach: fuzz/coverage.sh [TARGET...], after fuzz/seed.sh and some fuzzing.
#
# Runs each target (all where none is named) once over fuzz/corpus/TARGET and prints a table of the files that read what
# strangers made; the lines that nothing reached are listed in fuzz/target/coverage/uncovered.txt. Needs a nightly
# toolchain with llvm-tools.
set -euo pipefail
cd "$(dirname "$0")/.."

out="$PWD/fuzz/target/coverage"
host="$(rustc +nightly -vV | sed -n 's/^host: //p')"
tools="$(rustc +nightly --print sysroot)/lib/rustlib/$host/bin"
[ -x "$tools/llvm-cov" ] || { echo "no llvm-cov: rustup component add llvm-tools --toolchain nightly" >&2; exit 1; }
targets=("$@")
if [ $# = 0 ]; then
    mapfile -t targets < <(basename -s .rs -a fuzz/targets/src/target/*.rs | grep -vx mod)
fi
for target in "${targets[@]}"; do
    [ -d "fuzz/corpus/$target" ] || { echo "no fuzz/corpus/$target: run fuzz/seed.sh first" >&2; exit 1; }
done
rm -rf "$out/raw"
mkdir -p "$out/raw"

# Named, the host is a target like any other, and build scripts are not measured.
CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_OPT_LEVEL=0 RUSTFLAGS="-C instrument-coverage" \
    cargo +nightly build --release --config 'profile.release.debug="line-tables-only"' --target "$host" \
    --manifest-path fuzz/Cargo.toml --target-dir "$out/build"
binary="$out/build/$host/release/fuzz"
for target in "${targets[@]}"; do
    FUZZ_TARGET="$target" LLVM_PROFILE_FILE="$out/raw/$target.profraw" "$binary" -runs=0 -max_len=131072 \
        -artifact_prefix="$out/" "fuzz/corpus/$target" 2>"$out/$target.log" || { cat "$out/$target.log"; exit 1; }
done
"$tools/llvm-profdata" merge --sparse "$out"/raw/*.profraw -o "$out/merged.profdata"
"$tools/llvm-cov" export --format=lcov --instr-profile="$out/merged.profdata" "$binary" >"$out/lines.lcov"
python3 fuzz/coverage.py "$out/lines.lcov" >"$out/uncovered.txt"
