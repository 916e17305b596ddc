"""Runs the sections of the check that a change can break, two at a time, and the others in turn.

    .ci/run              the sections that always run, those whose area changed, and those whose turn it is today
    .ci/run SECTION...   these sections, one after the other
    .ci/run --choose     what `.ci/run` would run, and why
    .ci/run --all        every section; a call that runs out of time says so, and the next goes on with the rest

A section has passed at a commit, which the cache folder records; its area changed if a file of it differs from that commit.
What passed today waits for its next turn. Without a record, the comparison is with the last commit that is older than a day, or
else with the first parent of the newest merge; CKPT_CI_BASE names another one. What did not run is listed with the time at which
it last passed.

CKPT_CI_CACHE (~/.cache/ckpt-ci) is the cache folder: compiled dependencies and virtual environments, found again by a hash of
what they are made from. CKPT_CI_CACHE_GB (24) bounds it. CI_SECONDS (5280) ends the whole, SECTION_SECONDS (4500) a section
that hangs, FUZZ_SECONDS (6) each fuzz target.
"""

import atexit
import contextlib
import datetime
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import uuid
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = pathlib.Path(os.environ.get("CKPT_CI_CACHE") or pathlib.Path.home() / ".cache" / "ckpt-ci")
PASSED = CACHE / "passed.json"
DAYS = 6
# Pages whose examples the sections run.
GUIDE_OF_PYTHON = ("docs/src/cluster.md", "docs/src/python")
MANIFESTS = ("Cargo.toml", *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("*/*/Cargo.toml"))))


# The modules of the contract that Miri runs.
MIRI_OF_API = ("checksum", "metadata", "mostly_one", "name", "scattered")
# Code that is another one on another platform.
PLATFORMS = ("codecs/api/src/errors", "codecs/api/src/io/", "crates/containers/src/decoders", "crates/engine/", "crates/plugin/",
             "crates/remote/", "forward/core/src/cpu/", "src/")
# What other programs are compared with: `.ci/sections` chooses the scripts of each.
INTEROP = ("codecs/", "crates/architectures/", "crates/families/", "crates/merge/", "crates/pytorch/", "crates/quantized/",
           "crates/tokenizers/", "data/", "forward/core/", "tests/interop/")


@dataclass(frozen=True)
class Section:
    """A function `section_NAME` of `.ci/sections`."""

    name: str
    # Path prefixes whose change makes it run. With neither areas nor a day, it always runs.
    areas: tuple[str, ...] = ()
    # The day of the rotation on which it runs in any case.
    day: int | None = None
    # Sections that come first if they run at all.
    after: tuple[str, ...] = ()
    # It runs if a section that comes after it does.
    for_others: bool = False


# In the order in which they start: the longest chains first. Those that always run compile, lint and test all crates, with the
# seeds of the fuzz targets and the files of other programs: what they find of a change needs no other section. The others have
# an area that only they try, and a day.
SECTIONS = (
    Section("tools"),
    Section("test", after=("tools",)),
    Section("peers", after=("tools",), for_others=True),
    Section("clippy", after=("tools",)),
    Section("fmt", after=("tools",)),
    Section("circles", after=("tools",)),
    Section("corpus", after=("tools",)),
    Section("deny", after=("tools",)),
    Section("fuzz", ("fuzz/Cargo.toml", "fuzz/src/"), 1, ("tools",)),
    Section("features", ("src/", *MANIFESTS), 2, ("clippy",)),
    Section("platforms", (*PLATFORMS, *MANIFESTS), 4, ("features",)),
    Section("docs", after=("platforms",)),
    Section("miri", (*(f"codecs/api/src/{name}" for name in MIRI_OF_API), "crates/engine/src/transform/simd"), 5, ("tools",)),
    Section("examples", after=("test",)),
    Section("readme", after=("examples",)),
    Section("python", ("python/", "schemas/", "benches/peers/python.py", "benches/peers/cluster.py", *GUIDE_OF_PYTHON), 4, ("peers", "readme")),
    Section("interop", INTEROP, 0, ("peers", "readme")),
    # Its packages have gigabytes of their own.
    Section("merges", day=4, after=("readme",)),
    Section("matrix", ("crates/verify/", "tests/interop/verify_matrix.py"), 3, ("readme",)),
    Section("bench", ("benches/",), 2, ("peers", "readme")),
    Section("gpu", ("forward/core/", "forward/wgpu/"), 3, ("readme",)),
    Section("cuda", ("forward/core/", "forward/cuda/"), 3, ("readme",)),
    Section(
        "remote",
        ("crates/engine/src/store/", "crates/remote/", "tests/it/remote", "tests/interop/object", "tests/interop/azurite/",
         "tests/interop/requirements-remote.txt", "benches/peers/remote.py"),
        2,
        ("readme", "python"),
    ),
    # Both compile the program's crates once more, for WebAssembly.
    Section("web", day=3, after=("readme",)),
    Section("plugins", day=5, after=("readme",)),
)
NAMES = [section.name for section in SECTIONS]


def before(name: str) -> set[str]:
    """What comes before a section, directly or not: also through sections that do not run."""
    direct = next(section.after for section in SECTIONS if section.name == name)
    return set(direct).union(*map(before, direct))


def main() -> int:
    arguments = sys.argv[1:]
    if arguments in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    os.chdir(ROOT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # What a shell starts in the background ignores Ctrl-C; tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    atexit.register(end_sections)
    if arguments == ["--choose"]:
        Choice.made().show()
        return 0
    everything = arguments == ["--all"]
    unknown = [name for name in arguments if name not in NAMES]
    if unknown and not everything:
        print(f"no section '{unknown[0]}'; there are: {' '.join(NAMES)}", file=sys.stderr)
        return 2
    with Cache() as cache:
        os.environ.update(cache.environment())
        if arguments and not everything:
            return one_after_the_other(arguments)
        choice = Choice.made(everything)
        choice.show()
        run = Run(choice)
        run.all()
        return run.summary()


def one_after_the_other(names: list[str]) -> int:
    """Runs sections that a person named, and shows what they print as they print it."""
    failed, before = [], tree()
    for name in names:
        if not run_section(name, None, limit()).passed:
            failed.append(name)
        elif before and before == tree():
            record(name, None)
    print(f"FAILED: {' '.join(failed)}" if failed else "passed")
    return 1 if failed else 0


def time_left() -> float:
    return int(os.environ.get("CI_SECONDS", "5280")) - time.monotonic() + STARTED


def limit() -> float:
    return max(1.0, min(time_left(), int(os.environ.get("SECTION_SECONDS", "4500"))))


STARTED = time.monotonic()
# Seconds that a section must have left to begin.
LEAST = 60.0


RUNNING: set[int] = set()


def end_sections() -> None:
    """Ends what sections that still run have started: each is a process group."""
    for group in list(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


@dataclass(frozen=True)
class Result:
    """What running a section came to."""

    passed: bool
    # Of wall time, and of the processors.
    seconds: float
    processor: float


def run_section(name: str, log, limit: float, changed: str | None = None) -> Result:
    """Runs one section; what it prints goes to `log`, or is shown at once."""
    environment = os.environ | ({"CKPT_CI_CHANGED": changed} if changed else {})
    stream = {"stdout": log, "stderr": subprocess.STDOUT} if log else {}
    started = time.monotonic()
    process = subprocess.Popen(["bash", ".ci/sections", name], stdin=subprocess.DEVNULL, start_new_session=True,
                               env=environment, **stream)
    RUNNING.add(process.pid)
    try:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        while not ended and time.monotonic() - started < limit:
            time.sleep(0.2)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if not ended:
            (log or sys.stdout.buffer).write(f"ended, for it took more than {limit:.0f} s\n".encode())
    finally:
        # What it left running goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        RUNNING.discard(process.pid)
    passed = bool(ended) and os.waitstatus_to_exitcode(status) == 0
    process.returncode = 0
    return Result(passed, time.monotonic() - started, usage.ru_utime + usage.ru_stime)


class Choice:
    """Which sections run, and why."""

    def __init__(self, reasons: dict[str, str], changed: dict[str, list[str] | None]):
        self.reasons = reasons
        # The files that changed since a section passed; None: all count as changed.
        self.changed = changed

    @classmethod
    def made(cls, everything: bool = False) -> "Choice":
        passed, now, day = read_passed(), tree(), datetime.datetime.now(datetime.timezone.utc).date()
        bases = {name: base(passed.get(name)) for name in NAMES}
        changed = {name: changed_since(commit) for name, commit in bases.items()}
        reasons = {}
        for section in SECTIONS:
            is_due = section.day == day.toordinal() % DAYS and not passed.get(section.name, {}).get("time", "").startswith(str(day))
            reason = cls.reason(section, changed[section.name], bases[section.name], is_due)
            if everything:
                before = passed.get(section.name, {}).get("tree")
                reason = None if before and before == now else "--all"
            if reason:
                reasons[section.name] = reason
        needed = {name for section in SECTIONS if section.name in reasons for name in section.after}
        others = {section.name for section in SECTIONS if section.for_others}
        return cls({name: why for name, why in reasons.items() if name in needed or name not in others}, changed)

    @staticmethod
    def reason(section: Section, changed: list[str] | None, commit: str | None, is_due: bool) -> str | None:
        if not section.areas and section.day is None:
            return "others need it" if section.for_others else "always"
        if changed is None and section.areas:
            return "nothing is known to have passed"
        if path := next((path for path in changed or () if path.startswith(section.areas)), None):
            return f"{path} changed"
        if section.areas and ".ci/sections" in (changed or ()) and functions(commit).get(section.name) != functions(None)[section.name]:
            return "its commands changed"
        return "its turn" if is_due else None

    def show(self) -> None:
        passed = read_passed()
        for name, reason in self.reasons.items():
            print(f"-- {name}: {reason}")
        for name in NAMES:
            if name not in self.reasons:
                print(f"-- not run today: {name}, which last passed here {last(passed.get(name))}")
        sys.stdout.flush()


def last(record: dict | None) -> str:
    return f"at {record['time']} ({record['commit'][:12]})" if record else "never"


def read_passed() -> dict[str, dict]:
    try:
        return json.loads(PASSED.read_text())
    except (OSError, ValueError):
        return {}


def git(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def base(record: dict | None) -> str | None:
    """The commit to compare with."""
    if given := os.environ.get("CKPT_CI_BASE"):
        return git("rev-parse", given)
    if record and git("cat-file", "-e", f"{record['commit']}^{{commit}}") is not None:
        return record["commit"]
    # Of the line of landings: a commit that was merged later counts as a change.
    head, day_ago = git("rev-parse", "HEAD"), git("rev-list", "-1", "--first-parent", "--before=1 day ago", "HEAD")
    if day_ago and day_ago != head:
        return day_ago
    merge = git("rev-list", "-1", "--first-parent", "--merges", "HEAD")
    return git("rev-parse", f"{merge}^1") if merge else None


@functools.cache
def changed_since(commit: str | None) -> list[str] | None:
    """The files that differ between a commit and the working tree; None if that cannot be known."""
    if commit is None:
        return None
    tracked = git("diff", "--name-only", "--no-renames", "-z", commit)
    untracked = git("ls-files", "--others", "--exclude-standard", "-z")
    if tracked is None or untracked is None:
        return None
    return sorted({*tracked.split("\0"), *untracked.split("\0")} - {""})


# What chooses parts of a section is none of its commands.
CHOOSE = frozenset({"fuzz_targets", "interop_scripts"})


@functools.cache
def functions(commit: str | None) -> dict[str, str]:
    """What each section runs: its function in `.ci/sections`, and those that it calls; None: of the working tree."""
    text = (ROOT / ".ci/sections").read_text() if commit is None else git("show", f"{commit}:.ci/sections") or ""
    bodies = dict(re.findall(r"^(\w+)\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL))

    def whole(name: str, seen: frozenset[str]) -> str:
        called = [other for other in bodies if other not in CHOOSE | seen and re.search(rf"\b{other}\b", bodies[name])]
        return bodies[name] + "".join(whole(other, seen | {other}) for other in called)

    return {name.removeprefix("section_"): whole(name, frozenset({name})) for name in bodies if name.startswith("section_")}


def tree() -> str | None:
    """The tree of HEAD; None if the working tree differs from it."""
    return None if git("status", "--porcelain") else git("rev-parse", "HEAD^{tree}")


class Run:
    """The chosen sections, several at a time."""

    def __init__(self, choice: Choice):
        self.left = [section for section in SECTIONS if section.name in choice.reasons]
        self.choice = choice
        self.running: set[str] = set()
        self.results: dict[str, Result] = {}
        self.changed = threading.Condition()
        self.logs = pathlib.Path(tempfile.mkdtemp(prefix="ckpt-ci-"))
        self.tree = tree()

    def all(self) -> None:
        # One more than processors: one crate at a time is compiled for much of a section.
        workers = [threading.Thread(target=self.work, daemon=True) for _ in range((os.cpu_count() or 2) + 1)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        shutil.rmtree(self.logs)

    def work(self) -> None:
        while section := self.next():
            result = Result(False, 0.0, 0.0)
            with (self.logs / section.name).open("w+b") as log:
                try:
                    result = run_section(section.name, log, limit(), self.changed_file(section.name))
                finally:
                    self.ended(section, result, log)

    def names_left(self) -> list[str]:
        return [section.name for section in self.left]

    def changed_file(self, name: str) -> str | None:
        """A file with the paths that changed; None if all count as changed."""
        changed = self.choice.changed[name]
        if changed is None or self.choice.reasons[name] in ("--all", "its turn"):
            return None
        path = self.logs / f"{name}.changed"
        path.write_text("".join(f"{path}\n" for path in changed))
        return str(path)

    def next(self) -> Section | None:
        """The first section whose predecessors have ended; waits for one."""
        with self.changed:
            while self.left and time_left() > LEAST:
                waiting = {section.name for section in self.left} | self.running
                ready = (section for section in self.left if waiting.isdisjoint(before(section.name)))
                if section := next(ready, None):
                    self.left.remove(section)
                    self.running.add(section.name)
                    print(f"-- {section.name} begins after {time.monotonic() - STARTED:.0f} s", flush=True)
                    return section
                self.changed.wait()
            return None

    def ended(self, section: Section, result: Result, log) -> None:
        with self.changed:
            self.results[section.name] = result
            self.running.remove(section.name)
            self.changed.notify_all()
            log.seek(0)
            text = log.read()
            print(f"== {section.name}", flush=True)
            sys.stdout.buffer.write(text)
            print(f"== {section.name}: {'passed' if result.passed else 'FAILED'} after {result.seconds:.0f} s", flush=True)
            if result.passed and self.tree and self.tree == tree():
                narrowed = b" NOT " in text or (section.name in ("fuzz", "interop") and self.changed_file(section.name))
                record(section.name, None if narrowed else self.tree)

    def summary(self) -> int:
        print("        wall  processor  section")
        for name, result in self.results.items():
            print(f"{'passed' if result.passed else 'FAILED'} {result.seconds:4.0f} s {result.processor:8.0f} s  {name}")
        failed = [name for name, result in self.results.items() if not result.passed]
        failed += [name for name in self.choice.reasons if name not in self.results and name not in self.names_left()]
        print(f"== all: {time.monotonic() - STARTED:.0f} s, {len(self.results)} sections")
        if self.left:
            goes_on = ".ci/run --all goes on with them" if self.tree else "commit first, and .ci/run --all can go on with them"
            print(f"NO TIME for {' '.join(self.names_left())}: {goes_on}")
            failed += self.names_left()
        if failed:
            print(f"FAILED: {' '.join(failed)}")
            return 1
        print("everything that was chosen passed")
        return 0


class Cache:
    """The cache folder, for one run at a time: another one, beside it, has a folder of its own in `target`."""

    def __init__(self):
        self.folder = CACHE
        self.lock = None

    def __enter__(self) -> "Cache":
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = (self.folder / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.folder = ROOT / "target" / "ci-cache"
            self.folder.mkdir(parents=True, exist_ok=True)
            print(f"another check uses {CACHE}: this one uses {self.folder}", flush=True)
        self.target = self.folder / f"target-{compiled_from()}"
        self.target.mkdir(exist_ok=True)
        (self.target / "used").touch()
        self.bound()
        self.forget_other_clones()
        return self

    def __exit__(self, *_):
        self.lock.close()

    def environment(self) -> dict[str, str]:
        return {"CKPT_CI_CACHE": str(self.folder), "CKPT_CI_TARGET": str(self.target)}

    def forget_other_clones(self) -> None:
        """Removes what was compiled of another clone's crates: dependencies stay."""
        # Not by its path alone: containers may have different clones at the same path.
        identity = ROOT / "target" / "ci-clone"
        if not identity.exists():
            identity.parent.mkdir(exist_ok=True)
            identity.write_text(f"{ROOT} {uuid.uuid4()}")
        owner, own = self.target / "clone", identity.read_text()
        if owner.exists() and owner.read_text() != own:
            removed = 0
            for record in self.target.glob("**/deps/*.d"):
                if record.exists() and "/registry/src/" not in record.read_text(errors="replace"):
                    for path in record.parent.glob(f"*{record.stem.removeprefix('lib')}*"):
                        removed += path.lstat().st_size
                        path.unlink(missing_ok=True)
            print(f"removed {removed >> 20} MiB that another clone compiled", flush=True)
        owner.write_text(own)

    def bound(self) -> None:
        """Removes what was not used for longest until the folder fits its bound, and the disk has room for a run."""
        limit, room = int(os.environ.get("CKPT_CI_CACHE_GB", "24")) << 30, 12 << 30
        own = [*self.folder.glob("target-*"), *self.folder.glob("venv-*")]
        entries = [path for path in own if path.is_dir() and not path.is_symlink()]
        sizes = {path: size(path) for path in entries}
        entries.sort(key=lambda path: (path / "used" if (path / "used").exists() else path).stat().st_mtime)
        for path in (path for path in entries if path != self.target):
            if sum(sizes.values()) <= limit and shutil.disk_usage(self.folder).free >= room:
                break
            print(f"removed {path.name}, {sizes.pop(path) >> 20} MiB, to make room", flush=True)
            shutil.rmtree(path)
        total = sum(sizes.values()) >> 20
        print(f"{total} MiB cached in {self.folder}, {shutil.disk_usage(self.folder).free >> 30} GiB free", flush=True)


def size(folder: pathlib.Path) -> int:
    """The bytes on disk below a folder."""
    return sum(os.lstat(os.path.join(path, name)).st_blocks * 512 for path, _, names in os.walk(folder) for name in names)


def compiled_from() -> str:
    """A hash of what decides how dependencies are compiled."""
    digest = hashlib.sha256()
    for toolchain in ("", "+nightly"):
        version = subprocess.run(["rustc", *toolchain.split(), "-vV"], capture_output=True)
        digest.update(version.stdout)
    for manifest in ("Cargo.toml", "fuzz/Cargo.toml"):
        profiles = tomllib.loads((ROOT / manifest).read_text())["profile"]
        locked = tomllib.loads((ROOT / manifest).with_suffix(".lock").read_text())["package"]
        # The crates of this repository change with each commit.
        others = [[package["name"], package["version"]] for package in locked if "source" in package]
        digest.update(json.dumps([profiles, others]).encode())
    return digest.hexdigest()[:12]


def record(name: str, at: str | None) -> None:
    """Records that a section passed at HEAD; with the tree if nothing of it was left out."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
    passed = read_passed() | {name: {"commit": git("rev-parse", "HEAD"), "tree": at, "time": now}}
    CACHE.mkdir(parents=True, exist_ok=True)
    made = PASSED.with_suffix(f".{os.getpid()}")
    made.write_text(json.dumps(passed, indent=1))
    made.replace(PASSED)


if __name__ == "__main__":
    sys.exit(main())
