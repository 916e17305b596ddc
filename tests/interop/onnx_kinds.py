#!/usr/bin/env python3
"""Kinds of models as PyTorch's exporter writes them: run, written to Keras, and as PyTorch code.

    python tests/interop/onnx_kinds.py --ckpt target/debug/ckpt     (packages: requirements-transformers.txt, onnxscript)

For each kind: PyTorch exports a model with a free batch, and often with a free length. `ckpt run` computes what ONNX
Runtime computes. `--map graph-to-torch` writes a program of PyTorch that loads the weights strictly and computes the same,
for another length, too. Keras loads what is written for it, and computes the same. What Keras or the program cannot have is
refused by name, and listed here. The last line counts the checks.
"""

import functools
import importlib.util
import os
import pathlib
import sys
import tempfile
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
from harness import check, ckpt, convert, main
from torch import nn

# Of the largest number of an output.
BOUND = 1e-4


class Vad(nn.Module):
    """Voice activity: frames of a signal, convolutions, an LSTM with a state; another path for short signals."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, 16, stride=8)
        self.lstm = nn.LSTM(8, 12)
        self.head = nn.Linear(12, 1)

    def forward(self, x, h, c):
        y = F.relu(self.conv(F.pad(x.unsqueeze(1), (8, 8))))
        y, (h, c) = self.lstm(y.permute(2, 0, 1), (h, c))
        return torch.sigmoid(self.head(y[-1])), h, c


class Reader(nn.Module):
    """A reader of text: columns of an image as steps, bidirectional, a reshape of steps and batch."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d((4, 2)))
        self.lstm = nn.LSTM(24, 10, bidirectional=True)
        self.head = nn.Linear(20, 11)

    def forward(self, x):
        y = self.conv(x)
        y = y.permute(3, 0, 1, 2).flatten(2)
        y, _ = self.lstm(y)
        steps, batch, features = y.shape
        return self.head(y.reshape(steps * batch, features)).reshape(steps, batch, -1).log_softmax(-1)


class Detector(nn.Module):
    """Boxes at anchors that follow from the size of the image."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.SiLU())
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        y = self.conv(x)
        rows, columns = y.shape[2], y.shape[3]
        at = torch.stack(torch.meshgrid(torch.arange(columns) + 0.5, torch.arange(rows) + 0.5, indexing="xy"))
        near, far = self.boxes(y).chunk(2, 1)
        boxes = torch.cat([at - near, at + far], 1) * 4
        return torch.cat([boxes, self.scores(y).sigmoid()], 1).flatten(2)


class Denoiser(nn.Module):
    """Gains for the bands of frames, by a GRU whose state is an input."""

    def __init__(self):
        super().__init__()
        self.dense, self.gru, self.gain = nn.Linear(16, 12), nn.GRU(12, 12, batch_first=True), nn.Linear(12, 16)

    def forward(self, x, h):
        y, h = self.gru(torch.tanh(self.dense(x)), h)
        return x * torch.sigmoid(self.gain(y)), h


class Keyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 8, (3, 3), padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.b(F.relu(self.a(x))))).mean((2, 3))).softmax(-1)


class Pitch(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(1, 8, 9, 2, 4), nn.Conv1d(8, 8, 9, 2, 4)])
        self.head = nn.Linear(8, 20)

    def forward(self, x):
        y = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
        for conv in self.convs:
            y = F.max_pool1d(F.leaky_relu(conv(y), 0.1), 2)
        return self.head(y.transpose(1, 2)).sigmoid()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        batch, steps, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, steps, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = ((q @ k.transpose(-1, -2)) / 2).softmax(-1) @ v
        return self.norm(x + self.out(y.transpose(1, 2).reshape(batch, steps, 16)))


class Causal(nn.Module):
    """A decoder of tokens, with a mask that follows from the number of steps."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(30, 16), nn.Embedding(64, 16)
        self.attention, self.head = Attention(), nn.Linear(16, 30)

    def forward(self, x):
        steps = x.shape[1]
        y = self.tokens(x) + self.places(torch.arange(steps))
        mask = torch.full((steps, steps), -1e4).triu(1)
        q, k, v = self.attention.qkv(y).chunk(3, -1)
        y = y + ((q @ k.transpose(-1, -2)) / 4 + mask).softmax(-1) @ v
        return self.head(y)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.Conv2d(8, 8, 3, 1, 1, bias=False)
        self.na, self.nb, self.head = nn.BatchNorm2d(8), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x):
        y = F.relu(self.na(self.a(x)))
        y = F.relu(y + self.nb(self.b(y)))
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.up, self.out = nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(11, 2, 1)

    def forward(self, x):
        y = F.elu(self.middle(F.elu(self.down(x))))
        return self.out(torch.cat([self.up(y), x], 1))


class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3, padding=1)

    def forward(self, x):
        y = F.pixel_shuffle(self.b(F.relu(self.a(x))), 2)
        return y + F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


class Mobile(nn.Module):
    """Inverted bottleneck with squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(4, 8, 1), nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Conv2d(8, 4, 1)
        self.s, self.e = nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)

    def forward(self, x):
        y = F.hardswish(self.b(F.hardswish(self.a(x))))
        y = y * F.hardsigmoid(self.e(F.relu(self.s(y.mean((2, 3), keepdim=True)))))
        return x + self.c(y)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 8), nn.PReLU(), nn.Linear(8, 3))

    def forward(self, x):
        return self.net(x).log_softmax(-1)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items, self.head = nn.Embedding(20, 8), nn.Embedding(30, 8), nn.Linear(16, 1)

    def forward(self, user, item):
        u, i = self.users(user), self.items(item)
        return (u * i).sum(-1) + self.head(torch.cat([u, i], -1)).squeeze(-1)


class Encoder(nn.Module):
    """Tokens with a mask of padding, and a pooled result."""

    def __init__(self):
        super().__init__()
        self.tokens, self.attention = nn.Embedding(40, 16), Attention()

    def forward(self, x, mask):
        y = self.attention(self.tokens(x))
        share = mask.unsqueeze(-1).float()
        return F.normalize((y * share).sum(1) / share.sum(1).clamp(min=1e-9), dim=-1)


class Separable(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Conv1d(4, 4, 5, padding=2, groups=4), nn.Conv1d(4, 8, 1), nn.GroupNorm(2, 8)

    def forward(self, x):
        a, b = self.norm(self.b(self.a(x))).chunk(2, 1)
        return a * torch.sigmoid(b)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(64, 6), nn.Linear(6, 64)

    def forward(self, x):
        return torch.sigmoid(self.up(torch.tanh(self.down(x.flatten(1))))).unflatten(1, (1, 8, 8))


class Dilated(nn.Module):
    """Causal convolutions, padded on one side."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv1d(4, 4, 3, dilation=d) for d in (1, 2, 4)])

    def forward(self, x):
        for conv in self.convs:
            d = conv.dilation[0]
            x = x + torch.tanh(conv(F.pad(x, (2 * d, 0))))
        return x


class Statistics(nn.Module):
    """Pooling of mean and deviation over a free length, as embeddings of speakers have it."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(8, 12, 3), nn.Linear(24, 6)

    def forward(self, x):
        y = F.relu(self.conv(x))
        mean = y.mean(-1)
        deviation = ((y - mean.unsqueeze(-1)) ** 2).mean(-1).add(1e-6).sqrt()
        return F.normalize(self.head(torch.cat([mean, deviation], 1)))


class Decibels(nn.Module):
    """A spectrum in decibels, cut below the loudest."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Parameter(torch.rand(16, 8))

    def forward(self, x):
        y = 10 * torch.log10((x * x @ self.filters).clamp(min=1e-10))
        return torch.maximum(y, y.amax((1, 2), keepdim=True) - 80)


class Gates(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 12, batch_first=True, num_layers=2), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Tagger(nn.Module):
    """Tags of the words of a sentence of fixed length, by layers that read it both ways."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 12, batch_first=True, num_layers=2, bidirectional=True)
        self.gru, self.head = nn.GRU(24, 6, batch_first=True, bidirectional=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.gru(self.lstm(x)[0])[0])


def real(*shape):
    return torch.randn(shape)


def whole(limit, *shape):
    return torch.randint(0, limit, shape)


# Name: the module, its inputs for a batch and a length, and the axes of its inputs that are free.
B, T = "batch", "length"
KINDS = {
    "vad": (Vad, lambda b, t: [real(b, 8 * t), real(1, b, 12), real(1, b, 12)], [{0: B, 1: T}, {1: B}, {1: B}]),
    "reader": (Reader, lambda b, t: [real(b, 1, 16, 2 * t)], [{0: B, 3: T}]),
    "detector": (Detector, lambda b, t: [real(b, 3, 16, 4 * t)], [{0: B, 3: T}]),
    "denoiser": (Denoiser, lambda b, t: [real(b, t, 16), real(1, b, 12)], [{0: B, 1: T}, {1: B}]),
    "keyword": (Keyword, lambda b, t: [real(b, 1, 10, 12)], [{0: B}]),
    "pitch": (Pitch, lambda b, t: [real(b, 1, 128)], [{0: B}]),
    "attention": (Attention, lambda b, t: [real(b, t, 16)], [{0: B, 1: T}]),
    "causal": (Causal, lambda b, t: [whole(30, b, t)], [{0: B, 1: T}]),
    "residual": (Residual, lambda b, t: [real(b, 3, 16, 16)], [{0: B}]),
    "segmenter": (Segmenter, lambda b, t: [real(b, 3, 16, 16)], [{0: B}]),
    "upscaler": (Upscaler, lambda b, t: [real(b, 3, 8, 8)], [{0: B}]),
    "mobile": (Mobile, lambda b, t: [real(b, 4, 8, 8)], [{0: B}]),
    "mlp": (Mlp, lambda b, t: [real(b, 6)], [{0: B}]),
    "recommender": (Recommender, lambda b, t: [whole(20, b), whole(30, b)], [{0: B}, {0: B}]),
    "encoder": (Encoder, lambda b, t: [whole(40, b, t), whole(2, b, t)], [{0: B, 1: T}, {0: B, 1: T}]),
    "separable": (Separable, lambda b, t: [real(b, 4, 24)], [{0: B}]),
    "autoencoder": (Autoencoder, lambda b, t: [real(b, 1, 8, 8)], [{0: B}]),
    "dilated": (Dilated, lambda b, t: [real(b, 4, 20)], [{0: B}]),
    "statistics": (Statistics, lambda b, t: [real(b, 8, 20)], [{0: B}]),
    "decibels": (Decibels, lambda b, t: [real(b, t, 16)], [{0: B, 1: T}]),
    "gates": (Gates, lambda b, t: [real(b, 8, 8)], [{0: B}]),
    "tagger": (Tagger, lambda b, t: [real(b, 7, 8)], [{0: B}]),
}

# What is refused, and the word of its message that names why.
NOT_KERAS = {
    "causal": "a constant in place of a value",
    "detector": "a constant in place of a value",
    "reader": "a constant in place of a value",
}


EXPORTED = tempfile.TemporaryDirectory()


@functools.cache
def made(name):
    """The model, exported once for all checks, and inputs for two batches and lengths."""
    make, inputs, free = KINDS[name]
    torch.manual_seed(7)
    model, path = make().eval(), pathlib.Path(EXPORTED.name, name, "model.onnx")
    path.parent.mkdir()
    names = [f"in{at}" for at in range(len(free))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, tuple(inputs(2, 6)), path, input_names=names, dynamo=True, verbose=False,
                          dynamic_shapes=[{axis: torch.export.Dim.DYNAMIC for axis in axes} for axes in free])
    return path, [dict(zip(names, [value.numpy() for value in inputs(*size)])) for size in [(2, 6), (3, 8)]]


def expected(path, values):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [output.name for output in session.get_outputs()], session.run(None, values)


def assert_near(found, wanted):
    assert len(found) == len(wanted), f"{len(found)} outputs instead of {len(wanted)}"
    for got, want in zip(found, wanted):
        got = np.asarray(got)
        assert got.shape == want.shape, f"{got.shape} instead of {want.shape}"
        worst = np.abs(got.astype(np.float64) - want).max() / max(np.abs(want).max(), 1e-6)
        assert worst <= BOUND, f"off by {worst} of the largest number"


def refused(done, word):
    assert done.returncode in (1, 2, 3), f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    assert word in done.stderr, done.stderr


@check(*KINDS)
def a_kind_is_run_as_onnxruntime_runs_it(folder, name):
    path, all_values = made(name)
    for at, values in enumerate(all_values):
        names, wanted = expected(path, values)
        np.savez(folder / "in.npz", **values)
        out = folder / f"{at}.npz"
        done = ckpt("run", path, "--input", folder / "in.npz", "--output", out)
        assert done.returncode == 0, done.stderr
        found = np.load(out)
        assert_near([found[output] for output in names], wanted)


@check(*KINDS)
def a_kind_as_code_computes_the_same_in_pytorch(folder, name):
    path, all_values = made(name)
    out = folder / "weights.pt"
    done = ckpt("convert", path, out, "--map", "graph-to-torch", "--set", "code=model.py")
    assert done.returncode == 0, done.stderr
    spec = importlib.util.spec_from_file_location("model", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    classes = [item for item in vars(module).values() if isinstance(item, type) and issubclass(item, nn.Module)]
    model = classes[0]().eval()
    model.load_state_dict(torch.load(out, weights_only=True), strict=True)
    for values in all_values:
        _, wanted = expected(path, values)
        with torch.no_grad():
            found = model(*[torch.from_numpy(value) for value in values.values()])
        assert_near(found if isinstance(found, tuple) else [found], wanted)


@check(*KINDS)
def a_kind_is_written_to_keras_and_computes_the_same(folder, name):
    path, (values, _) = made(name)
    out = folder / "model.keras"
    done = ckpt("convert", path, out)
    if name in NOT_KERAS:
        return refused(done, NOT_KERAS[name])
    assert done.returncode == 0, done.stderr
    model = keras.saving.load_model(out, compile=False)
    _, wanted = expected(path, values)
    found = model([values[key] for key in sorted(values)] if len(values) > 1 else next(iter(values.values())))
    found = found if isinstance(found, (list, tuple)) else [found]
    assert_near([keras.ops.convert_to_numpy(value) for value in found], wanted)


if __name__ == "__main__":
    sys.exit(main(__doc__, keras, torch, np, onnxruntime))
