#!/usr/bin/env python3
"""Plants faults, one at a time, and shows which section of the check finds each.

    python3 tests/planted/plant.py [FAULT …] [--list] [--choose] [--whole]

Each fault is planted in a clone of HEAD in a temporary folder, as a commit of its own. Two things must hold: a check that has
passed at HEAD chooses the fault's section because of what the commit changes, and the section fails with the fault's words.
`--choose` tries only the former. Of the section test, the program that finds the fault is run; with `--whole`, all are. The
check itself never runs this: all eleven take half an hour.
"""

import argparse
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = "corpus/nn/accept/b_square.nn"


@dataclass(frozen=True)
class Fault:
    """What is planted, and which section finds it by which words (a pattern)."""

    section: str
    plant: Callable[[pathlib.Path], None]
    words: str
    # Arguments of cargo test with which its section still finds it.
    test: str = ""


def replaced(path: str, old: str, new: str) -> Callable[[pathlib.Path], None]:
    """Replaces one text, which must be there once."""

    def plant(clone: pathlib.Path) -> None:
        text = (clone / path).read_text()
        assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
        (clone / path).write_text(text.replace(old, new))

    return plant


def appended(path: str, more: str) -> Callable[[pathlib.Path], None]:
    def plant(clone: pathlib.Path) -> None:
        with (clone / path).open("a") as file:
            file.write(more)

    return plant


def other_ptx(clone: pathlib.Path) -> None:
    """One instruction becomes another one."""
    path = clone / "forward/cuda/kernels/kernels.ptx.gz"
    text = gzip.decompress(path.read_bytes())
    assert b"add.rn.f32" in text
    path.write_bytes(gzip.compress(text.replace(b"add.rn.f32", b"sub.rn.f32", 1), mtime=0))


READ_JSON = "    let text = read_json(&mut cursor, limits)?;\n"
FAULTS = {
    "a parser panics on one file of the corpus": Fault(
        "test",
        replaced("codecs/nn/src/read.rs", READ_JSON,
                 f"    assert_ne!(file.len(), {(ROOT / SMALL).stat().st_size});\n{READ_JSON}"),
        r"panicked at codecs/nn/src/read\.rs", "--test it corpus::",
    ),
    "a codec has lost its cfg": Fault(
        "features", replaced("src/builtin/mod.rs", '#[cfg(feature = "nn")]', ""), r"unresolved.*ckpt_nn|ckpt_nn.*cannot find",
    ),
    "a link leads nowhere": Fault(
        "docs", appended("docs/src/introduction.md", "\n[Here](nowhere.md) is nothing.\n"), r"nowhere\.html",
    ),
    "a schema disagrees with the JSON": Fault(
        "test", replaced("schemas/verify.schema.json", '    "verdict",\n    "a",', '    "judgement",\n    "a",'), r"judgement",
        "--test it verify::command",
    ),
    "code for Windows does not compile": Fault(
        "platforms",
        appended("crates/engine/src/store/local/mod.rs", '\n#[cfg(windows)]\nfn planted() -> u32 {\n    "none"\n}\n'),
        r"mismatched types",
    ),
    "PTX is not what NVRTC makes": Fault("cuda", other_ptx, r"kernels\.ptx"),
    "a rewrite is not byte-identical": Fault(
        "test", replaced("codecs/npz/src/header.rs", "room + padding)", "room + padding + ALIGNMENT)"),
        r"test .*npz.*FAILED|panicked at codecs/npz", "-p ckpt-npz --test npz",
    ),
    "a seed takes quadratic time": Fault(
        "test",
        replaced("codecs/nn/src/read.rs", READ_JSON, READ_JSON + (
            "    let bytes = text.as_bytes();\n"
            "    let same = bytes.iter().map(|one| bytes.iter().filter(|other| std::hint::black_box(*other) == one).count());\n"
            "    std::hint::black_box(same.sum::<usize>());\n")),
        r"timeout: target nn_read", "-p ckpt-fuzz-targets --test smoke nn_read",
    ),
    "a Python stub is stale": Fault(
        "python", replaced("python/ckpt/_ckpt.pyi", "def formats(", "def formats_of_yesterday("), r"_ckpt.*formats",
    ),
    "a module depends on what uses it": Fault(
        "circles",
        appended("crates/engine/src/formats/mod.rs", "\n/// Planted.\npub(crate) fn planted(_: &crate::source::Source) {}\n"),
        r"formats -> source: .*Source",
    ),
    "an example of the documentation fails": Fault(
        "test", replaced("crates/engine/src/digest.rs", "/// assert_eq!(digest.sha256.len(), 64);", "/// assert_eq!(digest.sha256.len(), 65);"),
        r"test .*src/digest\.rs .*FAILED", "-p ckpt-engine --doc digest",
    ),
}


def run(clone: pathlib.Path, *command: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=clone, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env=os.environ | environment)
    return done.returncode, done.stdout


def planted(folder: pathlib.Path, name: str, only_choose: bool, whole: bool) -> str | None:
    """Plants one fault; what is wrong, if it was not found."""
    fault, clone = FAULTS[name], folder / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    fault.plant(clone)
    identity = ("-c", "user.name=planted", "-c", "user.email=planted@example.org")
    subprocess.run(["git", *identity, "commit", "--quiet", "--all", "-m", f"Plant: {name}"], cwd=clone, check=True)
    _, chosen = run(clone, "bash", ".ci/run", "--choose", CKPT_CI_BASE="HEAD^")
    if not (reason := re.search(rf"^-- {fault.section}: (.*)$", chosen, re.MULTILINE)) or reason[1] == "its turn":
        return f"the change does not make section {fault.section} run:\n{chosen}"
    print(f"{name}: {fault.section} runs, for {reason[1]}", flush=True)
    if only_choose:
        return None
    changed = folder / "changed"
    changed.write_text(run(clone, "git", "diff", "--name-only", "HEAD^")[1])
    narrow = {} if whole else {"CKPT_CI_CHANGED": str(changed), "CKPT_CI_TEST": fault.test}
    code, log = run(clone, "bash", ".ci/run", fault.section, **narrow)
    if code == 0 or not re.search(fault.words, log, re.IGNORECASE):
        return f"section {fault.section} ends with {code}, without {fault.words!r}:\n{log[-4000:]}"
    line = next(line for line in log.splitlines() if re.search(fault.words, line, re.IGNORECASE))
    print(f"{name}: {fault.section} fails: {line.strip()[:160]}", flush=True)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", nargs="*", help="words of the faults to plant; default: all")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--whole", action="store_true")
    arguments = parser.parse_args()
    names = [name for name in FAULTS if not arguments.fault or any(word in name for word in arguments.fault)]
    if arguments.list:
        print("\n".join(f"{FAULTS[name].section}: {name}" for name in names))
        return 0
    wrong = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if problem := planted(pathlib.Path(folder), name, arguments.choose, arguments.whole):
                print(f"{name}: NOT FOUND: {problem}", flush=True)
                wrong[name] = problem
    print(f"{len(names) - len(wrong)} of {len(names)} planted faults were found")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
