"""Runs programs in turn, round after round, and notes what they cost."""

import contextlib
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from words import GIB, MIB, ratio

# Whether runs start from memory that a virtual machine's host has backed: see `back`.
backing = True


@dataclass
class Program:
    """A command that makes `output`, and how it is told that what it made is right."""

    name: str
    command: list[str]
    output: pathlib.Path
    check: Callable[[], None] = lambda: None
    before: Callable[[], None] = lambda: None
    job: str = ""  # programs of one job must write the same bytes
    threads: int | None = None
    beside: str | None = None  # the program that does the same job
    reads: int = 0  # bytes that come from the disk, and so need memory as the output does
    # What the page cache must have when it starts: a file, a directory of files, or a checkpoint's prefix.
    source: pathlib.Path | None = None


@dataclass
class Cost:
    wall: float  # seconds
    mib: float  # of memory, at its peak
    processor: float  # seconds that all processors worked for it


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measured(program: Program) -> Cost:
    """One run under GNU time: a small program, so that what it forks does not begin with this interpreter's memory."""
    report = program.output.parent / "time.txt"
    start = time.perf_counter()
    done = subprocess.run(["/usr/bin/time", "-f", "%M %U %S", "-o", report, *program.command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    wall = time.perf_counter() - start
    text = report.read_text()
    if done.returncode != 0:
        sys.exit(f"{program.name}\n{' '.join(program.command)}\n{done.stdout}{done.stderr}{text}")
    peak, user, system = map(float, text.split())
    return Cost(wall, peak / 1024, user + system)


def back(size: int) -> None:
    """Touches twice so much memory in a child process that ends. On a virtual machine, memory that was given back is no
    longer backed by the host's: who touches it next pays for that, whatever the program, and after a large one that is all
    of it. Twice, because the next program is not given first what this one gave back last: after 2 GiB, a `cp` of 2 GiB
    took 1 to 5 seconds, after 4 GiB always 1. At most a third of the machine's, so that the sources stay in the page
    cache."""
    size = min(2 * size, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 3)
    if backing and size > 0:
        touch = f"mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)"
        subprocess.run([sys.executable, "-I", "-S", "-c", f"import mmap; {touch}"], check=True)


def warm(source: pathlib.Path | None) -> None:
    """Reads the source. That the run before has read it does not suffice where the system takes back what was not used for
    seconds, as some do that share a machine with others."""
    if source is None:
        return
    buffer = bytearray(MIB)
    for path in files(source) if source.exists() else source.parent.glob(f"{source.name}.*"):
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def spawned(command: list[str]) -> float:
    """Seconds of a short run, without anything between: too short for GNU time's clock."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    _, status = os.waitpid(child, 0)
    wall = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    return wall


def in_rounds(programs: list[Program], rounds: int, rehearsed: bool = True, output: int = 0) -> list[dict]:
    """The figures of each program. Every round runs each once, in turn, so that a slow moment of the machine falls on all;
    in the first, outputs are checked. Unless it is the rehearsal of the others, which warms the page cache and is not
    counted, `output` says how many bytes are written. Output is removed before the disk is synced, so that no run pays for
    what another wrote."""
    costs: list[list[Cost]] = [[] for _ in programs]
    touched = [output] * len(programs)
    right: dict[str, str] = {}
    for number in range(0 if rehearsed else 1, rounds + 1):
        for place, program in enumerate(programs):
            program.before()
            back(touched[place])
            warm(program.source)
            cost = measured(program)
            log(f"  {f'round {number}' if number else 'check  '}: {program.name}: {cost.wall:.3f} s")
            written = sum(path.stat().st_size for output in outputs(program.output) for path in files(output))
            touched[place] = written + program.reads + int(cost.mib * MIB)
            if number > 0:
                costs[place].append(cost)
            if number == (0 if rehearsed else 1):
                checked(program, right)
            remove(program.output)
            os.sync()
    walls = {program.name: [cost.wall for cost in own] for program, own in zip(programs, costs)}
    return [figures(program, walls, own) for program, own in zip(programs, costs)]


def figures(program: Program, walls: dict[str, list[float]], costs: list[Cost]) -> dict:
    """The median of its times, their ratios to those of the first program and of the one that it stands beside, and its peak
    of memory."""
    first, own = next(iter(walls)), walls[program.name]
    kept = {"name": program.name, "job": program.job, "threads": program.threads, "beside": program.beside,
            "wall": round(statistics.median(own), 6),
            "ratio": ratio(own, walls[first]) if program.name != first else None,
            "slower": ratio(own, walls[program.beside])[0] if program.beside else None,
            "mib": round(max(cost.mib for cost in costs), 2)}
    return {key: value for key, value in kept.items() if value}


def checked(program: Program, right: dict[str, str]) -> None:
    """What another number of threads made must have the same bytes; those of the first were checked."""
    if not program.job:
        return program.check()
    found = digest(program.output)
    if program.job not in right:
        program.check()
        right[program.job] = found
    elif right[program.job] != found:
        sys.exit(f"{program.name}: not the bytes that another number of threads gives")


def digest(output: pathlib.Path) -> str:
    total = hashlib.sha256()
    for path in (path for made in outputs(output) for path in files(made)):
        total.update(f"{path.name} {path.stat().st_size}\n".encode())
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                total.update(chunk)
    return total.hexdigest()


def outputs(output: pathlib.Path) -> list[pathlib.Path]:
    """The output, and what belongs to it: all files of one stem."""
    found = sorted(output.parent.glob(f"{output.stem}.*"))
    if not found:
        sys.exit(f"{output}: nothing was written")
    return found


def files(path: pathlib.Path) -> list[pathlib.Path]:
    """The file, or all files of a directory."""
    return [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if inner.is_file())


def remove(output: pathlib.Path) -> None:
    for path in outputs(output):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def many(name: str, command: list[str], times: int, scratch: pathlib.Path) -> dict:
    """The figures of a program that takes milliseconds: many runs, and its memory from one more."""
    command = [shutil.which(command[0]) or command[0], *command[1:]]
    spawned(command)
    runs = [spawned(command) for _ in range(times)]
    mib = measured(Program(name, command, scratch / "none")).mib
    log(f"  {name}: {statistics.median(runs) * 1000:.2f} ms")
    return {"name": name, "wall": round(statistics.median(runs), 6), "mib": round(mib, 2)}


def evictor(paths: list[pathlib.Path], warm: list[str]) -> tuple[str, Callable[[], None]]:
    """How files leave the page cache, and what makes them leave it. Programs in `warm` are brought back."""
    drop = pathlib.Path("/proc/sys/vm/drop_caches")

    def by_advice():
        for path in paths:
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def by_kernel():
        os.sync()
        drop.write_text("1")
        for program in warm:
            subprocess.run([program, "--version"], capture_output=True, check=True)

    with contextlib.suppress(OSError):
        by_kernel()
        return "the page cache dropped by /proc/sys/vm/drop_caches", by_kernel
    return "the source's pages dropped by posix_fadvise", by_advice


def machine(ckpt: str, scratch: pathlib.Path) -> dict:
    """What has to be known to compare figures."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", info)
    flags = set((re.search(r"flags\s*: (.*)", info) or ["", ""])[1].split())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    where = subprocess.run(["df", "--output=fstype", scratch], capture_output=True, text=True).stdout.split()
    load = os.getloadavg()[0]
    if load > 0.5:
        log(f"something else runs here (load {load:.1f}): ratios will be off")
    versions = {}
    for package in ("tensorflow", "tensorflow-cpu", "torch", "safetensors", "numpy", "onnx", "onnxruntime"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package.removesuffix("-cpu")] = importlib.metadata.version(package)
    first = lambda command: subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]  # noqa: E731
    return {
        "processor": model[1] if model else platform.machine(), "processors": os.cpu_count(),
        "vectors": [name for name in ("avx2", "avx512f", "asimd") if name in flags],
        "memory_gib": round(memory, 1), "kernel": platform.release(), "filesystem": where[-1] if where else "unknown",
        "load": round(load, 2), "ckpt": first([ckpt, "--version"]), "cp": first(["cp", "--version"]),
        "python": platform.python_version(), "packages": versions,
    }


def room(scratch: pathlib.Path) -> float:
    """Free GiB."""
    return shutil.disk_usage(scratch).free / 2**30
