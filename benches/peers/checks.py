"""Whether what was measured is right: by `ckpt hash` and `ckpt diff`, and by NumPy, which shares no code with ckpt."""

import pathlib
import subprocess
import sys
from collections.abc import Callable

import sources


class Ckpt:
    """The program to measure, and its own comparisons."""

    def __init__(self, path: str, scratch: pathlib.Path):
        self.path, self.scratch = path, scratch
        self.hashes: dict[pathlib.Path, str] = {}

    def run(self, *arguments: object) -> str:
        done = subprocess.run([self.path, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"ckpt {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def hash(self, path: pathlib.Path) -> str:
        """Over names, dtypes, shapes and values, whatever the format."""
        return self.run("hash", path).split()[0]

    def same(self, source: pathlib.Path, made: pathlib.Path, each: bool = True) -> Callable[[], None]:
        """The same hash, and if `each`, no difference in any tensor."""

        def check() -> None:
            if source not in self.hashes:
                self.hashes[source] = self.hash(source)
            expect(self.hash(made) == self.hashes[source], made, "another hash than its source")
            if each:
                self.run("diff", source, made)  # fails where anything differs

        return check

    def changed(self, arrays: Callable[[], object], made: pathlib.Path, rule: Callable) -> Callable[[], None]:
        """`rule(before, after)`: whether NumPy makes the same of every tensor."""

        def check() -> None:
            path = made
            if made.suffix != ".safetensors":
                path = self.scratch / "back.safetensors"
                self.run("convert", "--no-sync", made, path)
            after, seen = sources.arrays_of_safetensors(path), 0
            for name, before in arrays():
                expect(rule(before, after[name]), made, f"{name} is not what NumPy makes of it")
                seen += 1
            expect(seen == len(after) > 0, made, f"{len(after)} tensors, and {seen} before")
            if path is not made:
                path.unlink()

        return check


def expect(holds: bool, made: pathlib.Path, what: str) -> None:
    if not holds:
        sys.exit(f"{made}: {what}")


def is_transposed(before, after) -> bool:
    """By squares that stay in the cache."""
    rows, columns = before.shape
    side = 512
    return after.shape == (columns, rows) and all(
        (after[j : j + side, i : i + side] == before[i : i + side, j : j + side].T).all()
        for i in range(0, rows, side) for j in range(0, columns, side))


def is_f16(before, after) -> bool:
    return after.dtype == "<f2" and (before.astype("<f2").view("<u2") == after.view("<u2")).all()


def is_bf16(before, after) -> bool:
    """Round to nearest even, on the bits: none of the numbers is NaN."""
    bits = before.view("<u4")
    return after.dtype == "<u2" and (((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2") == after).all()


def is_quantized(arrays: Callable[[], object], made: pathlib.Path, scale: int) -> Callable[[], None]:
    """A file of nothing but i16: round(scale * x), halves away from zero, one tensor behind the other; then a filler."""

    def check() -> None:
        import numpy

        offset, seen = 0, 0
        for name, before in arrays():
            scaled = before.ravel().astype("<f8") * scale
            expected = numpy.copysign(numpy.floor(numpy.abs(scaled) + 0.5), scaled).astype("<i2")
            found = numpy.fromfile(made, "<i2", expected.size, offset=offset)
            expect(found.shape == expected.shape and (found == expected).all(), made, f"{name} is not what NumPy makes of it")
            offset += expected.nbytes
            seen += 1
        expect(seen > 0 and made.stat().st_size - offset < 64, made, "more bytes than tensors have")

    return check
