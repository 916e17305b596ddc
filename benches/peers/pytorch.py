"""PyTorch's checkpoints: files, and directories of `torch.distributed.checkpoint`. PyTorch makes every source."""

import pathlib
import shutil
from collections.abc import Callable

from harness import log, many
from jobs import Bench, run_python, table

SHARDS = (2, 8)
TO_SAFETENSORS, TO_PT = "torch.load, safetensors save_file", "safetensors load_file, torch.save"


def measure(bench: Bench, flat: pathlib.Path) -> dict[str, dict]:
    """Tables for the tensors of the safetensors file `flat`; no more than two copies of them exist at a time."""
    folder = flat.parent
    saved = folder / "model.pt"
    log("making a PyTorch file")
    run_python("python_way.py", "safetensors_to_pt", flat, saved)
    tables = files(bench, flat, saved)
    if bench.peers:
        tables |= files_in_python(bench, flat, saved)
    saved.unlink()
    for shards in SHARDS:
        tables |= distributed(bench, flat, shards)
    return tables


def opens(bench: Bench, flat: pathlib.Path, made: pathlib.Path) -> Callable[[], None]:
    """Whether the file has the hash of the tensors, and PyTorch reads them in it."""
    same = bench.ckpt.same(flat, made)

    def check() -> None:
        same()
        run_python("python_way.py", "compare_pt", flat, made)

    return check


def files(bench: Bench, flat: pathlib.Path, saved: pathlib.Path) -> dict[str, dict]:
    made = bench.out(".safetensors")
    reads = {"hash of a PyTorch file": ("hash", saved),
             "diff of a PyTorch file with a safetensors file": ("diff", saved, flat)}
    return table("torch", "From and to a PyTorch file, every checksum verified and computed", bench.rounds, [
        bench.copy(saved),
        *bench.jobs("PyTorch to safetensors", saved, made.suffix, (), bench.ckpt.same(flat, made)),
        *bench.jobs("safetensors to PyTorch", flat, ".pt", (), opens(bench, flat, bench.out(".pt"))),
        *(bench.printed(f"ckpt {name}", command, saved) for name, command in reads.items()),
    ])


def files_in_python(bench: Bench, flat: pathlib.Path, saved: pathlib.Path) -> dict[str, dict]:
    made, packed = bench.out(".safetensors"), bench.out(".pt")
    _, flatten = bench.jobs("PyTorch to safetensors", saved, made.suffix, (), bench.ckpt.same(flat, made))
    _, pack = bench.jobs("safetensors to PyTorch", flat, packed.suffix, (), bench.ckpt.same(flat, packed))
    return table("torch-python", "PyTorch files, beside Python", bench.peer_rounds, [
        bench.copy(saved),
        flatten,
        bench.in_python(TO_SAFETENSORS, "pt_to_safetensors", saved, made.suffix, made.name, flatten.name,
                        bench.ckpt.same(flat, made)),
        pack,
        bench.in_python(TO_PT, "safetensors_to_pt", flat, packed.suffix, packed.name, pack.name,
                        bench.ckpt.same(flat, packed)),
    ])


def distributed(bench: Bench, flat: pathlib.Path, shards: int) -> dict[str, dict]:
    source, made = flat.with_name(f"sharded-{shards}"), bench.out(".safetensors")
    title = f"distributed PyTorch checkpoint of {shards} shards"
    log(f"making a {title}")
    run_python("pytorch_sources.py", "sharded", flat, source, shards)
    result = table(f"distributed-{shards}", f"From a {title}", bench.rounds, [
        bench.copy(source),
        *bench.jobs(f"{title} to safetensors", source, made.suffix, (), bench.ckpt.same(flat, made)),
    ])
    shutil.rmtree(source)
    return result


def small(bench: Bench) -> dict[str, dict]:
    folder = bench.scratch / "small-torch"
    folder.mkdir()
    flat, saved = folder / "model.safetensors", folder / "model.pt"
    made, packed = bench.out(".safetensors"), bench.out(".pt")
    run_python("pytorch_sources.py", "many", bench.small, flat, saved)
    flatten = bench.jobs("PyTorch to safetensors", saved, made.suffix, (), bench.ckpt.same(flat, made))
    pack = bench.jobs("safetensors to PyTorch", flat, packed.suffix, (), opens(bench, flat, packed))
    title = f"{bench.small:,} tensors of 1 KiB"
    tables = table("small-torch", f"PyTorch, {title}", bench.rounds, [bench.copy(saved), *flatten, *pack], f", {title}", large=False)
    if bench.peers:
        (_, flatten), (_, pack) = flatten, pack
        tables |= table("small-torch-python", f"PyTorch, {title}, beside Python", bench.peer_rounds, [
            bench.copy(saved),
            flatten,
            bench.in_python(TO_SAFETENSORS, "pt_to_safetensors", saved, made.suffix, made.name, flatten.name,
                            bench.ckpt.same(flat, made)),
            pack,
            bench.in_python(TO_PT, "safetensors_to_pt", flat, packed.suffix, packed.name, pack.name,
                            bench.ckpt.same(flat, packed)),
        ], f", {title}", large=False)
    shutil.rmtree(folder)
    return tables | opened(bench)


def opened(bench: Bench) -> dict[str, dict]:
    """Opening a file of many tensors, and one whose pickle is large."""
    times = 25 if bench.rounds > 1 else 1
    folder = bench.scratch / "opened"
    folder.mkdir()
    saved, lists = folder / "model.pt", folder / "lists.pt"
    run_python("pytorch_sources.py", "many", bench.small, folder / "model.safetensors", saved)
    run_python("pytorch_sources.py", "lists", bench.list_bytes, lists)
    size = lists.stat().st_size
    rows = [
        many(f"ckpt inspect of a PyTorch file with {bench.small:,} tensors", [bench.ckpt.path, "inspect", str(saved)],
             times, bench.scratch),
        many(f"ckpt inspect of a PyTorch file with {size / 1e6:.0f} MB of plain lists",
             [bench.ckpt.path, "inspect", str(lists)], min(times, 5), bench.scratch),
    ]
    shutil.rmtree(folder)
    return {"instant-torch": {"rounds": times, "rows": rows}}
