"""Trains a few steps with DeepSpeed on two ranks, and saves what it has: for outside.py."""

import os
import pathlib
import socket
import subprocess
import sys

# Name, what it is, stage, whether in bfloat16, whether a weight is frozen.
ZERO = [
    ("outside_zero_1", "ZeRO, stage 1, in bfloat16", 1, True, False),
    ("outside_zero_2", "ZeRO, stage 2, a frozen weight", 2, False, True),
    ("outside_zero_3", "ZeRO, stage 3, in bfloat16, a frozen weight", 3, True, True),
]


def train(rank: int, port: int, folder: str, stage: int, half: bool, freeze: bool) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    import deepspeed
    import torch
    from torch import nn

    # It is faster, and has to be compiled.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    # Padding would have whatever was in memory.
    torch.empty = lambda *shape, memory_format=None, **more: torch.zeros(*shape, **more)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = nn.Embedding(7, 4), nn.LayerNorm(5)
            self.a, self.head = nn.Linear(4, 5), nn.Linear(5, 7, bias=False)
            self.register_buffer("shift", torch.arange(5.0))
            self.a.weight.requires_grad = not freeze

        def forward(self, x):
            return self.head(self.norm(self.a(self.embed(x))) + self.shift.to(self.a.bias.dtype))

    torch.manual_seed(0)
    model = Net()
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    groups = [{"params": [parameter for name, parameter in trained if ("norm" in name) == norm], "weight_decay": decay}
              for norm, decay in ((False, 0.1), (True, 0.0))]
    config = {
        "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": half}, "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}, "zero_force_ds_cpu_optimizer": False,
    }
    deepspeed.init_distributed(dist_backend="gloo")
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups, lr=0.01), config=config)
    for step in range(2):
        engine.backward(engine((torch.arange(4) + step + rank) % 7).float().square().sum())
        engine.step()
    engine.save_checkpoint(folder, tag="step")
    torch.distributed.barrier()


def zero(folder: pathlib.Path, stage: int, half: bool, freeze: bool) -> dict:
    """Returns the tensors as DeepSpeed's tools read them: the weights merged, and the optimizer's of a universal checkpoint."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = [str(port), str(folder), str(stage), str(int(half)), str(int(freeze))]
    ranks = [subprocess.Popen([sys.executable, __file__, str(rank), *given]) for rank in range(2)]
    assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
    for script in folder.glob("*.py"):
        script.unlink()

    import torch
    from deepspeed.checkpoint import ds_to_universal
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    tensors = {name: value.contiguous() for name, value in get_fp32_state_dict_from_zero_checkpoint(str(folder)).items()}
    universal = folder / "universal"
    options = ["--input_folder", str(folder / "step"), "--output_folder", str(universal), "--inject_missing_state"]
    sys.argv = ["ds_to_universal", *options, "--num_extract_workers", "1", "--num_merge_workers", "1"]
    ds_to_universal.main(ds_to_universal.parse_arguments())
    for path in universal.glob("zero/*/exp_avg*.pt"):
        value = torch.load(path, weights_only=False)
        value = value["param"] if isinstance(value, dict) else value
        name = path.parent.name
        tensors[f"optimizer.state.{name}.{path.stem}"] = value.reshape(tensors[name].shape).contiguous()
    subprocess.run(["rm", "-r", str(universal)], check=True)
    for path in folder.glob("latest_universal"):
        path.unlink()
    first = torch.load(min(folder.glob("step/*optim_states.pt")), weights_only=False)["optimizer_state_dict"]
    states = (first.get("base_optimizer_state") or first["optimizer_state_dict"])["state"]
    tensors["optimizer.state.step"] = states[0]["step"]
    return {name: array(value.detach()) for name, value in tensors.items()}


def array(value):
    import ml_dtypes
    import torch

    return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if value.dtype == torch.bfloat16 else value.numpy()


if __name__ == "__main__":
    train(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5] == "1", sys.argv[6] == "1")
