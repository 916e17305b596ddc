#!/usr/bin/env python3
"""Reads what coremltools writes, and lets it load what `ckpt` writes. Predictions need macOS: graphs are run beside PyTorch.

    python tests/interop/coreml_files.py --ckpt target/debug/ckpt     (packages: requirements-coreml.txt, PyTorch)
"""

import logging
import os
import sys
import warnings

os.environ.update(TQDM_DISABLE="1", TF_CPP_MIN_LOG_LEVEL="3")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import torch
from coremltools.converters.mil.frontend.milproto import load as milproto
from harness import assert_equal, check, ckpt, convert, load, main
from safetensors.numpy import save_file
from torch import nn

F16, F32 = ct.precision.FLOAT16, ct.precision.FLOAT32


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.depthwise, self.up = nn.Conv2d(8, 8, 3, groups=8, dilation=2, padding="same"), nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
        self.slopes, self.fc = nn.PReLU(4), nn.Linear(4 * 8 * 8, 40)
        self.norm.running_mean.normal_(), self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        x = torch.nn.functional.gelu(self.depthwise(torch.relu(self.norm(self.conv(x)))))
        x = nn.functional.avg_pool2d(self.slopes(self.up(x)), 2)
        x = nn.functional.max_pool2d(nn.functional.interpolate(x, scale_factor=2, mode="nearest"), 2)
        return torch.softmax(self.fc(x.flatten(1)), -1)


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        made, (_, cell) = self.lstm(x)
        return self.fc(made) + cell.sum()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm, self.qkv, self.out = nn.Embedding(50, 16), nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))

    def forward(self, ids):
        x = self.table(ids)
        batch, steps, width = x.shape
        q, k, v = (part.reshape(batch, steps, 4, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out((torch.softmax(q @ k.transpose(-1, -2) / 2, -1) @ v).transpose(1, 2).reshape(batch, steps, width))
        x = torch.cat([x[:, :1], x[:, 1:] * 2], 1) + self.mlp(x)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Elements(nn.Module):
    def forward(self, x):
        x = nn.functional.leaky_relu(nn.functional.pad(x, (1, 2, 0, 1), value=0.5), 0.2)
        x = torch.clamp(nn.functional.elu(x) * torch.sigmoid(x), -0.5, 0.7).permute(0, 2, 1)
        x = torch.stack([x, x * 2], 1).mean(1)
        x = torch.where(x > 0, torch.exp(x), torch.tanh(x))
        return (nn.functional.hardsigmoid(x) + nn.functional.softplus(x)).max(-1)[0][:, ::2].sqrt()


def nets():
    torch.manual_seed(0)
    return {"images": (Images(), torch.randn(2, 3, 16, 16)), "sequences": (Sequences(), torch.randn(5, 1, 3)),
            "attention": (Attention(), torch.randint(0, 50, (1, 6))), "elements": (Elements(), torch.randn(2, 4, 5))}


def converted(name, precision, target=ct.target.iOS16):
    net, x = nets()[name]
    net.eval()
    kind = {"dtype": np.int32} if x.dtype == torch.int64 else {}
    inputs = [ct.TensorType(name="x", shape=x.shape, **kind)]
    model = ct.convert(torch.jit.trace(net, x), inputs=inputs, convert_to="mlprogram", compute_precision=precision, minimum_deployment_target=target)
    return model, net, x


def numbers(path) -> dict[str, np.ndarray]:
    """The floats of all constants by coremltools' own loader, with those that it decompresses."""
    model = ct.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    program = milproto.load(spec, spec.specificationVersion, model.weights_dir)
    found = {}
    for operation in program.functions["main"].operations:
        if operation.op_type == "const":
            value = operation.val.val
        elif operation.op_type.startswith("constexpr_") and len(operation.outputs) == 1:
            value = operation.materialized_val_inference()
        else:
            continue
        if isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind == "f":
            found[operation.outputs[0].name] = np.asarray(value)
    return found


def assert_read(path, folder) -> None:
    """`ckpt` reads the numbers that coremltools computes, bit for bit."""
    convert(path, folder / "read.safetensors", "--force")
    expected, found = numbers(path), load(folder / "read.safetensors")
    assert_equal({name: found[name] for name in expected if name in found}, expected)


@check("images", "sequences", "attention")
def weights_are_those_that_coremltools_reads(folder, name):
    for precision in (F32, F16):
        converted(name, precision)[0].save(str(folder / f"{precision.name}.mlpackage"))
        assert_read(folder / f"{precision.name}.mlpackage", folder)
        convert(folder / f"{precision.name}.mlpackage", folder / f"again-{precision.name}.mlpackage")
        for path in (folder / f"{precision.name}.mlpackage").rglob("*"):
            again = folder / f"again-{precision.name}.mlpackage" / path.relative_to(folder / f"{precision.name}.mlpackage")
            assert path.is_dir() or path.read_bytes() == again.read_bytes(), f"{again} differs"


COMPRESSIONS = {
    "linear": (ct.target.iOS16, [("linear_quantize_weights", cto.OpLinearQuantizerConfig(mode="linear", weight_threshold=0))]),
    "int4 blocks": (ct.target.iOS18, [("linear_quantize_weights", cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int4", granularity="per_block", block_size=4, weight_threshold=0))]),
    "channels": (ct.target.iOS18, [("linear_quantize_weights", cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8", granularity="per_channel", weight_threshold=0))]),
    **{f"{bits} bits": (ct.target.iOS16, [("palettize_weights", cto.OpPalettizerConfig(mode="uniform", nbits=bits, weight_threshold=0))]) for bits in (1, 2, 4, 6, 8)},
    "3 bits": (ct.target.iOS18, [("palettize_weights", cto.OpPalettizerConfig(mode="uniform", nbits=3, weight_threshold=0))]),
    "groups": (ct.target.iOS18, [("palettize_weights", cto.OpPalettizerConfig(mode="uniform", nbits=4, granularity="per_grouped_channel", group_size=4, weight_threshold=0))]),
    "sparse": (ct.target.iOS16, [("prune_weights", cto.OpMagnitudePrunerConfig(target_sparsity=0.6, weight_threshold=0))]),
    "sparse palette": (ct.target.iOS18, [("prune_weights", cto.OpMagnitudePrunerConfig(target_sparsity=0.6, weight_threshold=0)), ("palettize_weights", cto.OpPalettizerConfig(mode="uniform", nbits=4, weight_threshold=0))]),
    "sparse int8": (ct.target.iOS18, [("prune_weights", cto.OpMagnitudePrunerConfig(target_sparsity=0.6, weight_threshold=0)), ("linear_quantize_weights", cto.OpLinearQuantizerConfig(mode="linear_symmetric", weight_threshold=0))]),
    "table of int8": (ct.target.iOS18, [("palettize_weights", cto.OpPalettizerConfig(mode="uniform", nbits=4, weight_threshold=0)), ("linear_quantize_weights", cto.OpLinearQuantizerConfig(mode="linear_symmetric", granularity="per_tensor", weight_threshold=0))]),
}


@check(*COMPRESSIONS)
def compressed_weights_are_the_numbers_that_coremltools_computes(folder, name):
    target, steps = COMPRESSIONS[name]
    model = converted("images", F16, target)[0]
    for at, (step, config) in enumerate(steps):
        model = getattr(cto, step)(model, cto.OptimizationConfig(global_config=config), **({"joint_compression": True} if at else {}))
    model.save(str(folder / "model.mlpackage"))
    decompressed = cto.decompress_weights(ct.models.MLModel(str(folder / "model.mlpackage"), skip_model_load=True))
    decompressed.save(str(folder / "dense.mlpackage"))
    convert(folder / "model.mlpackage", folder / "read.safetensors")
    found, expected = load(folder / "read.safetensors"), numbers(folder / "dense.mlpackage")
    weights = {own: value for own, value in expected.items() if value.size >= 10}
    assert len(weights) >= 4, sorted(expected)
    assert_equal({own: found[own] for own in weights if own in found}, weights)


@check("images", "attention")
def new_numbers_take_the_places_of_the_old_ones(folder, name):
    converted(name, F32)[0].save(str(folder / "old.mlpackage"))
    before = numbers(folder / "old.mlpackage")
    # Single numbers are scales and epsilons of operations, which keep theirs.
    new = {own: np.asarray(value * 2 + 1) for own, value in before.items() if value.size > 1}
    save_file(new, folder / "new.safetensors")
    convert(folder / "new.safetensors", folder / "new.mlpackage", "--set", f"like={folder / 'old.mlpackage'}")
    assert_equal(numbers(folder / "new.mlpackage"), before | new)
    assert_equal(numbers(folder / "old.mlpackage"), before)


@check()
def tensors_alone_are_a_package_that_coremltools_loads(folder):
    random = np.random.default_rng(0)
    tensors = {"model.layers.0/w": random.normal(size=(7, 5)).astype("f4"), "half": random.normal(size=12).astype("f2"), "scalar": np.float32(0.5)}
    save_file({own: np.asarray(value) for own, value in tensors.items()}, folder / "in.safetensors")
    convert(folder / "in.safetensors", folder / "out.mlpackage")
    assert_equal(numbers(folder / "out.mlpackage"), {own.replace(".", "_").replace("/", "_"): value for own, value in tensors.items()})
    convert(folder / "out.mlpackage", folder / "back.safetensors")
    assert_equal(load(folder / "back.safetensors"), tensors)


@check("images", "sequences", "attention", "elements")
def graphs_compute_what_pytorch_computes(folder, name):
    for precision, bound in ((F32, 2e-5), (F16, 2e-2)):
        model, net, x = converted(name, precision)
        path = folder / f"{precision.name}.mlpackage"
        model.save(str(path))
        np.savez(folder / "x.npz", x=x.numpy().astype(np.int32 if x.dtype == torch.int64 else np.float32))
        done = ckpt("run", path, "--input", f"x={folder / 'x.npz'}:x", "--output", folder / "y.npz", "--force")
        assert done.returncode == 0, done.stderr
        made = np.load(folder / "y.npz")
        found, expected = made[made.files[0]], net(x).detach().numpy()
        assert found.shape == expected.shape, f"{found.shape} instead of {expected.shape}"
        difference = np.abs(found - expected).max() / np.abs(expected).max()
        assert difference <= bound, f"{precision.name}: {difference} of the largest value"


if __name__ == "__main__":
    sys.exit(main(__doc__, ct, torch, np))
