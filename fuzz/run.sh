#!/usr/bin/env bash
# Fuzzes one target: fuzz/run.sh TARGET [OPTION OF LIBFUZZER...], after fuzz/seed.sh.
#
# Inputs come from and go to fuzz/corpus/TARGET, findings go to fuzz/artifacts/TARGET, and words come from
# fuzz/dictionaries/TARGET.dict if there is such a file. FUZZ_CARGO (cargo +nightly) is the cargo of a toolchain that has
# AddressSanitizer.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${1:-}"
targets="$(basename -s .rs -a fuzz/targets/src/target/*.rs | grep -vx mod)"
if ! grep -qxF -e "$target" <<<"$targets"; then
    # Words.
    # shellcheck disable=SC2086
    echo "usage: fuzz/run.sh TARGET [OPTION...]; targets:" $targets >&2
    exit 2
fi
shift
if [ ! -d "fuzz/corpus/$target" ]; then
    echo "no fuzz/corpus/$target: run fuzz/seed.sh first" >&2
    exit 2
fi
mkdir -p "fuzz/artifacts/$target"
options=("-artifact_prefix=fuzz/artifacts/$target/")
[ ! -f "fuzz/dictionaries/$target.dict" ] || options+=("-dict=fuzz/dictionaries/$target.dict")
read -ra cargo <<<"${FUZZ_CARGO:-cargo +nightly}"
# Each crate in parts that all processors compile: cargo-fuzz makes one of it, and one processor waits for minutes.
FUZZ_TARGET="$target" exec "${cargo[@]}" fuzz run --codegen-units=16 fuzz "fuzz/corpus/$target" -- "${options[@]}" "$@"
