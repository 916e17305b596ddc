"""What the groups of jobs share: how a job becomes programs, what it may cost, and the table of its rows."""

import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import checks
from harness import Program, in_rounds, log

LAYERS = 32
BOTH = (1, 2)  # threads


@dataclass
class Bench:
    """What the groups share."""

    ckpt: checks.Ckpt
    scratch: pathlib.Path
    side: int  # rows and columns of each matrix
    small: int  # tensors of 1 KiB
    list_bytes: int  # of a pickle of plain lists
    rounds: int
    peer_rounds: int
    peers: bool

    def jobs(self, name: str, source: pathlib.Path, output: str, options: Iterable[object], check: Callable[[], None],
             threads: Iterable[int] = BOTH, sync: bool = False, before: Callable[[], None] = lambda: None,
             reads: int = 0) -> list[Program]:
        """The same conversion with each number of threads."""
        command = ["convert", *([] if sync else ["--no-sync"]), *options, source, self.out(output)]
        return [
            Program(f"{name}, {count} thread{'s' if count > 1 else ''}",
                    [self.ckpt.path, *map(str, command), "-j", str(count)], self.out(output), check, before,
                    name, count, reads=reads, source=None if reads else source)
            for count in threads
        ]

    def out(self, name: str) -> pathlib.Path:
        return self.scratch / f"out{name}"

    def copy(self, source: pathlib.Path) -> Program:
        return Program("cp", ["cp", "-r", str(source), str(self.out(".copy"))], self.out(".copy"), source=source)

    def printed(self, name: str, command: tuple[object, ...], source: pathlib.Path) -> Program:
        """A command whose output is what it prints."""
        made = self.out(".txt")
        script = ["sh", "-c", 'exec "$@" > "$0"', str(made), self.ckpt.path, *map(str, command)]
        return Program(name, script, made, source=source)

    def in_python(self, name: str, job: str, source: pathlib.Path, output: str, given: str, beside: str,
                  check: Callable[[], None]) -> Program:
        script = str(pathlib.Path(__file__).with_name("python_way.py"))
        command = [sys.executable, script, job, str(source), str(self.scratch / given)]
        return Program(name, command, self.out(output), check, beside=beside, source=source)


def table(key: str, title: str, rounds: int, programs: list[Program], of: str = "", large: bool = True) -> dict[str, dict]:
    """Measures programs beside the first of them. `of` follows the names of their jobs in the pages; the README tells what the
    large ones take."""
    log(title)
    kept = {"rounds": rounds, "of": of, "large": large, "rows": in_rounds(programs, rounds)}
    return {key: {name: value for name, value in kept.items() if value}}


def run_python(script: str, *arguments: object) -> None:
    """In a process of its own, whose memory is no longer there when programs are measured."""
    command = [sys.executable, pathlib.Path(__file__).with_name(script), *arguments]
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
