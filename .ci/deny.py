"""What cargo-deny would check of the dependencies, as far as that needs no program to be built first: licences, sources and
bans as deny.toml says them, and the advisories of RustSec where their database can be had.

    python3 .ci/deny.py [--advisories DIRECTORY]
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

DATABASE = "https://github.com/RustSec/advisory-db"
MANIFESTS = ("Cargo.toml", "fuzz/Cargo.toml")
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--advisories", type=pathlib.Path, help="a checkout of RustSec's database")
    arguments = parser.parse_args()
    rules = tomllib.loads(pathlib.Path("deny.toml").read_text())
    packages = {(package["name"], package["version"]): package for manifest in MANIFESTS for package in locked(manifest)}
    problems = [
        f"{name} {version}: {what}"
        for (name, version), package in packages.items()
        for what in breaches(package, rules)
    ]
    problems += repeated(packages, rules["bans"])
    with tempfile.TemporaryDirectory() as fetched:
        database = arguments.advisories or fetch(pathlib.Path(fetched))
        if database:
            problems += advised(packages, database, rules["advisories"])
    for problem in sorted(problems):
        print(f"error: {problem}", file=sys.stderr)
    print(f"{len(packages)} packages, {len(problems)} problems")
    return 1 if problems else 0


def locked(manifest: str) -> list[dict]:
    """The packages that are not of this repository."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features", "--manifest-path", manifest]
    packages = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["packages"]
    packages = [package for package in packages if package["source"]]
    assert packages, f"{manifest} has no dependency"
    return packages


def breaches(package: dict, rules: dict) -> list[str]:
    found = []
    if package["source"] != CRATES_IO:
        found.append(f"it comes from {package['source']}, not from crates.io")
    exceptions = {entry["crate"]: entry["allow"] for entry in rules["licenses"]["exceptions"]}
    allowed = {*rules["licenses"]["allow"], *exceptions.get(package["name"], [])}
    licence = package["license"]
    if not licence or not holds(licence, allowed):
        found.append(f"its licence, {licence or 'a file'}, is not among those that deny.toml allows")
    if package["name"] in {entry["crate"] for entry in rules["bans"]["deny"]}:
        found.append("deny.toml forbids it")
    return found


def holds(expression: str, allowed: set[str]) -> bool:
    """Whether the allowed licences satisfy an SPDX expression. `/` is how it was said before; AND binds tighter than OR.

    >>> [holds(text, {"MIT"}) for text in ("MIT", "MIT/GPL-3.0", "GPL-3.0 OR MIT AND ISC", "(MIT OR ISC) AND MIT")]
    [True, True, False, True]
    >>> holds("Apache-2.0 WITH LLVM-exception OR ISC", {"Apache-2.0"})
    False
    """
    words = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def alternatives() -> bool:
        value = together()
        while words[:1] == ["OR"]:
            words.pop(0)
            value = together() or value
        return value

    def together() -> bool:
        value = one()
        while words[:1] == ["AND"]:
            words.pop(0)
            value = one() and value
        return value

    def one() -> bool:
        word = words.pop(0)
        if word == "(":
            value = alternatives()
            assert words.pop(0) == ")", expression
            return value
        if words[:1] == ["WITH"]:
            words.pop(0)
            word = f"{word} WITH {words.pop(0)}"
        return word in allowed

    value = alternatives()
    assert not words, expression
    return value


def repeated(packages, rules: dict) -> list[str]:
    """Crates in several versions must be those that deny.toml knows of."""
    known, versions = {entry["crate"] for entry in rules["skip"]}, {}
    for name, version in packages:
        versions.setdefault(name, []).append(version)
    several = {name: ", ".join(sorted(numbers)) for name, numbers in versions.items() if len(numbers) > 1}
    found = [f"{name} is there in several versions: {several[name]}" for name in several.keys() - known]
    return found + [f"{name} is there in one version, and deny.toml skips it" for name in known - several.keys()]


def fetch(directory: pathlib.Path) -> pathlib.Path | None:
    """RustSec's database; without a network the rest is checked all the same."""
    clone = ["git", "clone", "--quiet", "--depth", "1", DATABASE, directory]
    try:
        subprocess.run(clone, check=True, capture_output=True, timeout=60, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
        return directory
    except (OSError, subprocess.SubprocessError) as error:
        print(f"NOT checked: advisories, for {DATABASE} cannot be fetched ({type(error).__name__})")
        return None


def advised(packages, database: pathlib.Path, rules: dict) -> list[str]:
    found, read = [], 0
    for name, version in packages:
        for path in sorted((database / "crates" / name).glob("*.md")):
            entry, read = tomllib.loads(path.read_text().split("```")[1].removeprefix("toml\n")), read + 1
            advisory, versions = entry["advisory"], entry.get("versions", {})
            # What is no defect, but a crate that nobody maintains, say.
            known = {"withdrawn", "informational"} & advisory.keys() or advisory["id"] in rules["ignore"]
            safe = [*versions.get("patched", []), *versions.get("unaffected", [])]
            if not known and not any(matches(version, rule) for rule in safe):
                found.append(f"{name} {version}: {advisory['id']}")
    print(f"{read} advisories on {len(packages)} packages")
    return found


def matches(version: str, requirement: str) -> bool:
    """Cargo's requirements, as advisories use them.

    >>> [matches("1.4.0", rule) for rule in (">= 1.2.3, < 2", "^1.4.1", "^1.2", "~1.3", "=1.4.0", "< 1.4.0-rc.1", "^0.4")]
    [True, False, True, False, True, False, False]
    >>> [matches("0.4.3", rule) for rule in ("^0.4.1", "^0.3", ">=0.4.3-beta.1")]
    [True, False, True]
    """
    number = parts(version)

    def one(rule: str) -> bool:
        operator, text = re.fullmatch(r"(>=|<=|>|<|=|\^|~|)\s*(\S+)", rule.strip()).groups()
        wanted, given = parts(text), len(text.split("-")[0].split("."))
        if operator in ("^", "~", ""):
            fixed = 1 if operator == "~" and given == 1 else 2 if operator == "~" else first_nonzero(wanted)
            return number >= wanted and number[:fixed] == wanted[:fixed]
        return {">=": number >= wanted, "<=": number <= wanted, ">": number > wanted, "<": number < wanted,
                "=": number[:given] == wanted[:given]}[operator]

    return all(one(rule) for rule in requirement.split(","))


def first_nonzero(number: tuple) -> int:
    return next((k + 1 for k, part in enumerate(number[:3]) if part), 3)


def parts(version: str) -> tuple:
    """Numbers, and whether it is a release: one before it is less."""
    release, _, before = version.split("+")[0].partition("-")
    numbers = [int(part) for part in release.split(".")]
    return (*numbers, *[0] * (3 - len(numbers)), before == "")


if __name__ == "__main__":
    sys.exit(main())
