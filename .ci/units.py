"""Fails if `cargo test`, with or without `--workspace`, compiles again what `cargo run` compiled, which a newcomer would wait for.

Cargo lists what it would compile; nothing is compiled here. If this fails, a dependency of tests turns on a feature of a crate
that `cargo run` builds without it: turn it on in Cargo.toml, as it is done there for `getrandom`.
"""

import json
import os
import subprocess
import sys


def units(*command: str) -> dict[str, str]:
    """What a command compiles: a label for each unit, by all that decides how it is compiled."""
    arguments = ["cargo", *command, "-Z", "unstable-options", "--unit-graph"]
    environment = os.environ | {"RUSTC_BOOTSTRAP": "1"}
    done = subprocess.run(arguments, check=True, capture_output=True, text=True, env=environment)
    graph = json.loads(done.stdout)["units"]
    keys: dict[int, str] = {}
    sys.setrecursionlimit(10_000)

    def key(index: int) -> str:
        if index not in keys:
            unit = graph[index]
            own = [unit[field] for field in ("pkg_id", "target", "mode", "features", "platform")]
            own.append({name: value for name, value in unit["profile"].items() if name != "name"})
            keys[index] = str(hash(json.dumps([own, sorted(key(on["index"]) for on in unit["dependencies"])])))
        return keys[index]

    return {key(index): f"{unit['pkg_id']} {unit['features']}" for index, unit in enumerate(graph)}


def main() -> int:
    run, again = units("build", "--bin", "ckpt"), []
    # Not crates/remote: who builds its TLS builds what that turns on, and no plain `cargo test` does.
    for command in (("test",), ("test", "--workspace", "--exclude", "ckpt-remote")):
        test = units(*command)
        others = sorted(label for key, label in run.items() if key not in test)
        for label in others:
            print(f"compiled by 'cargo run', and otherwise by 'cargo {' '.join(command)}': {label}", file=sys.stderr)
        print(f"{len(run)} units of 'cargo run', {len(test)} of 'cargo {' '.join(command)}', {len(others)} compiled twice")
        again += others
    return 1 if again or not run else 0


if __name__ == "__main__":
    sys.exit(main())
