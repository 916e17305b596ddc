"""Makes PyTorch's checkpoints with PyTorch: `python pytorch_sources.py KIND ARGUMENTS`."""

import os
import sys
from collections import OrderedDict
from datetime import timedelta

import safetensors
import torch


def many(count: str, flat: str, out: str) -> None:
    """So many tensors of 1 KiB, each with its own values, as a safetensors file and as PyTorch's."""
    from safetensors.torch import save_file

    values = torch.rand(int(count), 256)
    tensors = OrderedDict((f"layer_{number:05}/kernel", values[number].clone()) for number in range(int(count)))
    save_file(tensors, flat)
    torch.save(tensors, out)


def lists(size: str, out: str) -> None:
    """A tensor beside lists of 100 integers, whose pickle has about `size` bytes."""
    torch.save({"weight": torch.zeros(3), "data": [list(range(100)) for _ in range(int(size) // 208)]}, out)


def sharded(flat: str, folder: str, ranks: str) -> None:
    """What so many processes save, each of which holds its rows of every tensor."""
    children = []
    for rank in range(int(ranks)):
        child = os.fork()
        if child == 0:
            save_as(rank, int(ranks), flat, folder)
            os._exit(0)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    assert not failed, f"{len(failed)} ranks failed"


def save_as(rank: int, ranks: int, flat: str, folder: str) -> None:
    from torch import distributed
    from torch.distributed import checkpoint
    from torch.distributed.tensor import DTensor, Shard, init_device_mesh

    torch.set_num_threads(1)
    # A file instead of a port, which another program might have.
    distributed.init_process_group("gloo", init_method=f"file://{folder}.ranks", rank=rank, world_size=ranks,
                                   timeout=timedelta(minutes=5))
    mesh = init_device_mesh("cpu", (ranks,))
    state = {}
    with safetensors.safe_open(flat, "pt") as file:
        for name in file.keys():
            own = file.get_slice(name)
            rows = own.get_shape()[0] // ranks
            part = own[rank * rows : (rank + 1) * rows].clone()
            state[name] = DTensor.from_local(part, mesh, [Shard(0)], run_check=False)
    checkpoint.save(state, checkpoint_id=folder)
    distributed.destroy_process_group()


KINDS = {kind.__name__: kind for kind in (many, lists, sharded)}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
