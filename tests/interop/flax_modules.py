#!/usr/bin/env python3
"""Converts modules of Flax to PyTorch and back with `--map flax-to-torch`, and compares outputs and trees.

    python tests/interop/flax_modules.py --ckpt target/debug/ckpt     (packages: requirements-flax.txt and requirements.txt)

Each module of Linen or nnx has random weights, saved as a file of Flax or a folder of Orbax. PyTorch's module loads what `ckpt`
makes of them, strictly, and computes the same; the way back gives the same tree, bit for bit.
"""

import dataclasses
import functools
import logging
import os
import sys
import typing
import warnings

os.environ["JAX_PLATFORMS"] = "cpu"
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import safetensors.torch
import torch
from flax import nnx
from flax.serialization import msgpack_restore, msgpack_serialize, to_state_dict
from flax.training.train_state import TrainState
from flax.traverse_util import flatten_dict
from harness import check, convert, main
from torch import nn as tnn
from torch.nn import functional as F

FEWEST = 20
WORST = 1e-5
SEEN = set()
T = torch.Tensor


class Net(tnn.Module):
    """Modules and parameters by their names, and what they compute together."""

    def __init__(self, forward, **members):
        super().__init__()
        for name, member in members.items():
            setattr(self, name, member)
        self.run = forward

    def forward(self, *inputs):
        return self.run(self, *inputs)


@dataclasses.dataclass
class Case:
    """A tree that is saved, inputs, Flax's output, and PyTorch's module with what it is called with."""

    tree: typing.Any
    inputs: tuple
    output: np.ndarray
    torch: tnn.Module
    settings: tuple = ()
    says: tuple = ()
    options: tuple = ()


def drawn(tree):
    """The same tree with random weights; variances are positive."""
    draws = np.random.default_rng(7)

    def draw(path, leaf):
        leaf = np.asarray(leaf)
        if leaf.dtype.kind != "f":
            return leaf
        values = draws.normal(size=leaf.shape).astype(leaf.dtype) * np.float32(0.5)
        return np.abs(values) + np.float32(0.5) if "var" in jax.tree_util.keystr(path) else values

    return jax.tree_util.tree_map_with_path(draw, tree)


def linen(module, inputs, made, *, settings=(), says=(), options=(), state=lambda variables: variables):
    variables = drawn(module.init(jax.random.PRNGKey(0), *inputs))
    output = np.asarray(module.apply(variables, *inputs))
    return Case(state(variables), inputs, output, made, settings, says, options)


def of_nnx(module, inputs, made, *, settings=(), says=()):
    graph, state = nnx.split(module)
    state = jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else drawn_leaf(path, leaf), state)
    module = nnx.merge(graph, state)
    module.eval()
    output = np.asarray(module(*inputs))
    return Case(nnx.state(module, nnx.Not(nnx.RngState)), inputs, output, made, settings, says)


def drawn_leaf(path, leaf):
    if leaf.dtype.kind != "f":
        return leaf
    draws = np.random.default_rng(sum(map(ord, jax.tree_util.keystr(path))))
    values = draws.normal(size=leaf.shape).astype(leaf.dtype) * np.float32(0.5)
    return jnp.asarray(np.abs(values) + np.float32(0.5) if "var" in jax.tree_util.keystr(path) else values)


def some(*shape):
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def tokens(*shape):
    return np.random.default_rng(3).integers(0, 9, shape).astype(np.int32)


def channels_first(x: T) -> T:
    return x.movedim(-1, 1)


def channels_last(x: T) -> T:
    return x.movedim(1, -1)


# Linen: layers by themselves, and as part of a model.


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(nn.gelu(nn.Dense(8)(x)))
        return nn.Dense(3, use_bias=False)(x) * self.param("factor", nn.initializers.normal(), (3,))


def mlp_in_torch():
    return Net(lambda own, x: own.Dense_1(own.LayerNorm_0(F.gelu(own.Dense_0(x), approximate="tanh"))) * own.factor,
               Dense_0=tnn.Linear(6, 8), LayerNorm_0=tnn.LayerNorm(8, eps=1e-6), Dense_1=tnn.Linear(8, 3, bias=False),
               factor=tnn.Parameter(torch.zeros(3)))


def mlp():
    return linen(Mlp(), (some(4, 6),), mlp_in_torch(), says=["eps=1e-6", "LayerNorm_0", "params.factor"])


def train_state():
    """The whole state of a training: the optimizer's is left out."""

    def state(variables):
        return TrainState.create(apply_fn=Mlp().apply, params=variables["params"], tx=optax.adam(1e-3))

    return linen(Mlp(), (some(4, 6),), mlp_in_torch(), state=state)


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        x = nn.BatchNorm(use_running_average=not train)(nn.Conv(4, (3, 3), use_bias=False)(x))
        x = nn.max_pool(nn.relu(x), (2, 2), (2, 2))
        x = nn.BatchNorm(use_running_average=not train, use_scale=False)(nn.Conv(6, (3, 2), (2, 1), padding="VALID")(x))
        return nn.Dense(3)(x.mean((1, 2)))


def cnn():
    def forward(own, x):
        x = F.max_pool2d(F.relu(own.BatchNorm_0(own.Conv_0(channels_first(x)))), 2)
        return own.Dense_0(own.BatchNorm_1(own.Conv_1(x)).mean((2, 3)))

    second = tnn.BatchNorm2d(6)
    second.weight = None
    made = Net(forward, Conv_0=tnn.Conv2d(3, 4, 3, padding=1, bias=False), BatchNorm_0=tnn.BatchNorm2d(4),
               Conv_1=tnn.Conv2d(4, 6, (3, 2), (2, 1)), BatchNorm_1=second, Dense_0=tnn.Linear(6, 3))
    return linen(Cnn(), (some(2, 10, 8, 3),), made, says=["momentum=0.01"])


class Groups(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.GroupNorm(2)(nn.Conv(8, (3, 3), feature_group_count=2, kernel_dilation=2)(x))
        return nn.Conv(16, (2, 2), feature_group_count=8, padding="VALID", name="depthwise_conv")(x)


def groups():
    made = Net(lambda own, x: channels_last(own.depthwise_conv(own.GroupNorm_0(own.Conv_0(channels_first(x))))),
               Conv_0=tnn.Conv2d(4, 8, 3, padding="same", groups=2, dilation=2), GroupNorm_0=tnn.GroupNorm(2, 8, eps=1e-6),
               depthwise_conv=tnn.Conv2d(8, 16, 2, groups=8))
    return linen(Groups(), (some(2, 7, 6, 4),), made)


class Alone(nn.Module):
    """One layer, under the name of its class."""

    layer: typing.Callable

    @nn.compact
    def __call__(self, *inputs):
        return self.layer()(*inputs)


def alone(layer, inputs, made, **options):
    return linen(Alone(layer), inputs, made, **options)


def conv1d():
    return alone(lambda: nn.Conv(5, (3,), padding="CAUSAL"), (some(2, 9, 4),),
                 Net(lambda own, x: channels_last(own.Conv_0(F.pad(channels_first(x), (2, 0)))), Conv_0=tnn.Conv1d(4, 5, 3)))


def conv3d():
    return alone(lambda: nn.Conv(5, (3, 2, 1), padding="VALID"), (some(2, 5, 4, 3, 2),),
                 Net(lambda own, x: channels_last(own.Conv_0(channels_first(x))), Conv_0=tnn.Conv3d(2, 5, (3, 2, 1))))


def transposed(layer, x, own, name="ConvTranspose_0", **options):
    made = Net(lambda net, x: channels_last(getattr(net, name)(channels_first(x))), **{name: own})
    return alone(layer, (x,), made, **options)


def conv_transpose():
    return transposed(lambda: nn.ConvTranspose(5, (3, 2), (2, 2), padding="VALID"), some(2, 5, 4, 3),
                      tnn.ConvTranspose2d(3, 5, (3, 2), 2))


def conv_transpose_1d():
    return transposed(lambda: nn.ConvTranspose(3, (4,), (2,), padding="VALID"), some(2, 5, 3), tnn.ConvTranspose1d(3, 3, 4, 2),
                      says=["transpose_kernel"])


def conv_transpose_3d():
    return transposed(lambda: nn.ConvTranspose(5, (3, 2, 2), padding="VALID"), some(2, 4, 3, 2, 3),
                      tnn.ConvTranspose3d(3, 5, (3, 2, 2)))


def transpose_kernel():
    return transposed(lambda: nn.ConvTranspose(5, (3, 2), (2, 2), padding="VALID", transpose_kernel=True), some(2, 5, 4, 3),
                      tnn.ConvTranspose2d(3, 5, (3, 2), 2))


class Words(nn.Module):
    @nn.compact
    def __call__(self, x):
        embed = nn.Embed(9, 6)
        return embed.attend(nn.RMSNorm(epsilon=1e-5)(embed(x)))


def words():
    made = Net(lambda own, x: own.RMSNorm_0(own.Embed_0(x.long())) @ own.Embed_0.weight.T,
               Embed_0=tnn.Embedding(9, 6), RMSNorm_0=tnn.RMSNorm(6, eps=1e-5))
    return linen(Words(), (tokens(2, 5),), made)


def instances():
    class Instances(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.PReLU()(nn.InstanceNorm()(x))

    made = Net(lambda own, x: channels_last(own.PReLU_0(own.InstanceNorm_0(channels_first(x)))),
               InstanceNorm_0=tnn.InstanceNorm2d(4, eps=1e-6, affine=True), PReLU_0=tnn.PReLU())
    return linen(Instances(), (some(2, 5, 4, 4),), made)


def flat_images():
    """Flax flattens images with their channels last."""

    class Flat(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Conv(4, (3, 3))(x)
            return nn.Dense(3)(x.reshape((x.shape[0], -1)))

    made = Net(lambda own, x: own.Dense_0(channels_last(own.Conv_0(channels_first(x))).flatten(1)),
               Conv_0=tnn.Conv2d(2, 4, 3, padding=1), Dense_0=tnn.Linear(5 * 6 * 4, 3))
    return linen(Flat(), (some(2, 5, 6, 2),), made, options=["--allow", "convention"])


def attention():
    made = Net(lambda own, x: own.MultiHeadDotProductAttention_0(x, x, x, need_weights=False)[0],
               MultiHeadDotProductAttention_0=tnn.MultiheadAttention(8, 2, batch_first=True))
    return alone(lambda: nn.MultiHeadDotProductAttention(2), (some(2, 5, 8),), made,
                 says=["nn.MultiheadAttention(8, 2, batch_first=True)"])


def cross_attention():
    own = tnn.MultiheadAttention(8, 4, kdim=6, vdim=6, bias=False, batch_first=True)
    made = Net(lambda net, q, kv: net.MultiHeadDotProductAttention_0(q, kv, kv, need_weights=False)[0],
               MultiHeadDotProductAttention_0=own)
    return alone(lambda: nn.MultiHeadDotProductAttention(4, use_bias=False), (some(2, 5, 8), some(2, 3, 6)), made,
                 says=["kdim=6"])


def narrow_attention():
    """Heads that are narrower together than the inputs: PyTorch's module has no such projections."""

    def forward(own, x):
        q, k, v = (part(x).unflatten(-1, (2, 3)).transpose(1, 2) for part in (own.query, own.key, own.value))
        return own.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    own = Net(forward, query=tnn.Linear(8, 6), key=tnn.Linear(8, 6), value=tnn.Linear(8, 6), out=tnn.Linear(6, 5))
    return alone(lambda: nn.MultiHeadDotProductAttention(2, qkv_features=6, out_features=5), (some(2, 4, 8),),
                 Net(lambda net, x: net.MultiHeadDotProductAttention_0(x), MultiHeadDotProductAttention_0=own))


class General(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.DenseGeneral((2, 3))(x)
        return nn.DenseGeneral((4,), axis=(-2, -1))(x)


def dense_general():
    made = Net(lambda own, x: own.DenseGeneral_1(own.DenseGeneral_0(x)),
               DenseGeneral_0=tnn.Linear(5, 6), DenseGeneral_1=tnn.Linear(6, 4))
    return linen(General(), (some(3, 5),), made)


class Rnn(nn.Module):
    cell: typing.Callable

    def setup(self):
        self.rnn = nn.RNN(self.cell())
        self.out = nn.Dense(2)

    def __call__(self, x):
        return self.out(self.rnn(x))


def rnn(cell, own):
    return linen(Rnn(cell), (some(2, 6, 5),), Net(lambda net, x: net.out(net.rnn(x)[0]), rnn=own, out=tnn.Linear(4, 2)))


def lstm():
    return rnn(lambda: nn.LSTMCell(4), tnn.LSTM(5, 4, batch_first=True))


def optimized_lstm():
    return rnn(lambda: nn.OptimizedLSTMCell(4), tnn.LSTM(5, 4, batch_first=True))


def gru():
    return rnn(lambda: nn.GRUCell(4), tnn.GRU(5, 4, batch_first=True))


def simple_rnn():
    return rnn(lambda: nn.SimpleCell(4), tnn.RNN(5, 4, batch_first=True))


def bidirectional():
    class Both(nn.Module):
        def setup(self):
            self.both = nn.Bidirectional(nn.RNN(nn.LSTMCell(4)), nn.RNN(nn.LSTMCell(4)))

        def __call__(self, x):
            return self.both(x)

    made = Net(lambda own, x: own.both(x)[0], both=tnn.LSTM(5, 4, batch_first=True, bidirectional=True))
    return linen(Both(), (some(2, 6, 5),), made, says=["bidirectional=True"])


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        x = x + nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x))
        x = x + nn.Dense(8)(nn.silu(nn.Dense(12)(nn.RMSNorm()(x))))
        return x, None


def block_in_torch():
    def forward(own, x):
        h = own.LayerNorm_0(x)
        x = x + own.MultiHeadDotProductAttention_0(h, h, h, need_weights=False)[0]
        return x + own.Dense_0(F.silu(own.Dense_1(own.RMSNorm_0(x))))

    return Net(forward, LayerNorm_0=tnn.LayerNorm(8, eps=1e-6), RMSNorm_0=tnn.RMSNorm(8, eps=1e-6),
               MultiHeadDotProductAttention_0=tnn.MultiheadAttention(8, 2, batch_first=True),
               Dense_0=tnn.Linear(12, 8), Dense_1=tnn.Linear(8, 12))


class Scanned(nn.Module):
    block: typing.Callable

    @nn.compact
    def __call__(self, x):
        scan = nn.scan(self.block, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return nn.Dense(2, name="head")(scan(name="layers")(x, None)[0])


def scanned():
    def forward(own, x):
        for layer in own.layers:
            x = layer(x)
        return own.head(x)

    made = Net(forward, layers=tnn.ModuleList([block_in_torch() for _ in range(3)]), head=tnn.Linear(8, 2))
    return linen(Scanned(Block), (some(2, 4, 8),), made)


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return x + nn.RNN(nn.GRUCell(8))(x), None


def scanned_rnn():
    def forward(own, x):
        for layer in own.layers:
            x = x + layer.GRUCell_0(x)[0]
        return own.head(x)

    layers = [Net(None, GRUCell_0=tnn.GRU(8, 8, batch_first=True)) for _ in range(3)]
    return linen(Scanned(Recurrent), (some(2, 4, 8),), Net(forward, layers=tnn.ModuleList(layers), head=tnn.Linear(8, 2)))


# nnx: modules are called as their attributes are.


def nnx_mlp():
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(6, 8, rngs=rngs)
            self.norm = nnx.LayerNorm(8, rngs=rngs)
            self.dropout = nnx.Dropout(0.3, rngs=rngs)
            self.last = nnx.Linear(8, 3, use_bias=False, rngs=rngs)

        def __call__(self, x):
            return self.last(self.dropout(self.norm(nnx.relu(self.first(x)))))

    made = Net(lambda own, x: own.last(own.norm(F.relu(own.first(x)))), first=tnn.Linear(6, 8),
               norm=tnn.LayerNorm(8, eps=1e-6), last=tnn.Linear(8, 3, bias=False))
    return of_nnx(Model(nnx.Rngs(0)), (some(4, 6),), made)


def nnx_cnn():
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.stem = nnx.Conv(3, 4, (3, 3), rngs=rngs)
            self.norm = nnx.BatchNorm(4, rngs=rngs)
            self.head = nnx.LinearGeneral((4, 4), (2, 3), axis=(-2, -1), rngs=rngs)

        def __call__(self, x):
            return self.head(nnx.relu(self.norm(self.stem(x))).mean(1))

    made = Net(lambda own, x: own.head(channels_last(F.relu(own.norm(own.stem(channels_first(x))))).mean(1).flatten(1)).unflatten(1, (2, 3)),
               stem=tnn.Conv2d(3, 4, 3, padding=1), norm=tnn.BatchNorm2d(4), head=tnn.Linear(16, 6))
    return of_nnx(Model(nnx.Rngs(0)), (some(2, 5, 4, 3),), made, says=["taken for a convolution's", "stem"])


def nnx_up():
    """A transposed convolution that only its user knows."""

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.up = nnx.ConvTranspose(3, 3, (2, 3), (2, 2), padding="VALID", rngs=rngs)

        def __call__(self, x):
            return self.up(x)

    made = Net(lambda own, x: channels_last(own.up(channels_first(x))), up=tnn.ConvTranspose2d(3, 3, (2, 3), 2))
    return of_nnx(Model(nnx.Rngs(0)), (some(2, 5, 4, 3),), made, settings=["up=conv_transpose"])


class Transformer(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(9, 8, rngs=rngs)
        self.attention = [nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs) for _ in range(2)]
        self.norm = nnx.RMSNorm(8, rngs=rngs)

    def __call__(self, x):
        x = self.embed(x)
        for layer in self.attention:
            x = x + layer(x)
        return self.norm(x)


def nnx_attention():
    def forward(own, x):
        x = own.embed(x.long())
        for layer in own.attention:
            x = x + layer(x, x, x, need_weights=False)[0]
        return own.norm(x)

    layers = tnn.ModuleList([tnn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2)])
    made = Net(forward, embed=tnn.Embedding(9, 8), attention=layers, norm=tnn.RMSNorm(8, eps=1e-6))
    return of_nnx(Transformer(nnx.Rngs(0)), (tokens(2, 5),), made)


def nnx_rnn(cell, own):
    class Model(nnx.Module):
        def __init__(self, rngs):
            self.rnn = nnx.RNN(cell(5, 4, rngs=rngs), rngs=rngs)

        def __call__(self, x):
            return self.rnn(x)

    return of_nnx(Model(nnx.Rngs(0)), (some(2, 6, 5),), Net(lambda net, x: net.rnn(x)[0], rnn=own))


def nnx_lstm():
    return nnx_rnn(nnx.LSTMCell, tnn.LSTM(5, 4, batch_first=True))


def nnx_optimized_lstm():
    return nnx_rnn(nnx.OptimizedLSTMCell, tnn.LSTM(5, 4, batch_first=True))


def nnx_gru():
    return nnx_rnn(nnx.GRUCell, tnn.GRU(5, 4, batch_first=True))


MODELS = [mlp, train_state, cnn, groups, conv1d, conv3d, conv_transpose, conv_transpose_1d, conv_transpose_3d, transpose_kernel,
          words, instances, flat_images, attention, cross_attention, narrow_attention, dense_general, lstm, optimized_lstm, gru,
          simple_rnn, bidirectional, scanned, scanned_rnn, nnx_mlp, nnx_cnn, nnx_up, nnx_attention, nnx_lstm,
          nnx_optimized_lstm, nnx_gru]


def saved(case, folder, kind):
    """Saves the tree as a file of Flax or a folder of Orbax."""
    if kind == "flax":
        path = folder / "model.msgpack"
        tree = case.tree.to_pure_dict() if isinstance(case.tree, nnx.State) else case.tree
        path.write_bytes(msgpack_serialize(jax.tree.map(np.asarray, to_state_dict(tree))))
        return path
    path = folder / "model"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, jax.tree.map(jnp.asarray, case.tree))
    return path


def leaves(path, kind):
    """The arrays of a tree by name."""
    tree = msgpack_restore(path.read_bytes()) if kind == "flax" else ocp.PyTreeCheckpointer().restore(path)
    named = flatten_dict(to_state_dict(tree))
    return {".".join(map(str, name)): np.asarray(value) for name, value in named.items() if value is not None}


def is_of_training(name: str) -> bool:
    return name.startswith("opt_state") or name == "step"


@check(*[f"{model.__name__}-{kind}" for model in MODELS for kind in ("flax", "orbax")])
def a_module_computes_in_torch_what_it_does_in_flax_and_comes_back(folder, name):
    model, kind = name.rsplit("-", 1)
    case = globals()[model]()
    source, out, back = saved(case, folder, kind), folder / "model.safetensors", folder / "back"
    mapping = ["--map", ",".join(["flax-to-torch", *case.settings])]
    whole = folder / "whole.safetensors"
    if kind == "orbax" and model in UNPACKED:
        # Orbax compresses its chunks, and parts of a compressed tensor cannot be reordered in place.
        convert(source, whole)
        assert "convert without this mapping first" in convert(source, out, *mapping, fails=True)
    else:
        whole = source
    if case.options:
        assert "--allow convention" in convert(whole, out, *mapping, fails=True)
    told = convert(whole, out, *mapping, *case.options)
    missing = [words for words in case.says if words not in told]
    assert missing == [], f"{missing} is not in\n{told}"
    case.torch.load_state_dict(safetensors.torch.load_file(out))
    case.torch.eval()
    with torch.no_grad():
        found = case.torch(*[torch.from_numpy(np.array(x)) for x in case.inputs]).numpy()
    assert found.shape == case.output.shape, f"{found.shape} instead of {case.output.shape}"
    worst = float(np.abs(found - case.output).max())
    assert worst <= WORST, f"outputs differ by {worst}"
    convert(out, back, "--to", kind, *mapping, "--inverse", "--arch", source)
    expected = {name: value for name, value in leaves(source, kind).items() if not is_of_training(name)}
    again = leaves(back, kind)
    assert again.keys() == expected.keys(), f"{sorted(again.keys() ^ expected.keys())}"
    for leaf, value in expected.items():
        assert again[leaf].dtype == value.dtype and again[leaf].tobytes() == value.tobytes(), leaf
    SEEN.add(model)


# What has pixels that are reversed, or several scanned tensors that become one.
UNPACKED = ["conv_transpose", "conv_transpose_1d", "conv_transpose_3d", "nnx_up", "scanned", "scanned_rnn"]


@check()
def a_tree_with_random_states_loads_without_them(folder):
    case = nnx_mlp()
    module = nnx.Dropout(0.3, rngs=nnx.Rngs(0))
    tree = case.tree.to_pure_dict()
    key = np.asarray(jax.random.key_data(module.rngs.default.key.value))
    tree["dropout"] = {"rngs": {"default": {"key": key, "count": np.uint32(3)}}}
    source, out, back = folder / "m.msgpack", folder / "m.safetensors", folder / "back.msgpack"
    source.write_bytes(msgpack_serialize(jax.tree.map(np.asarray, tree)))
    assert "random generators" in convert(source, out, "--map", "flax-to-torch")
    case.torch.load_state_dict(safetensors.torch.load_file(out))
    convert(out, back, "--to", "flax", "--map", "flax-to-torch", "--inverse", "--arch", source)
    assert leaves(back, "flax").keys() == {name for name in leaves(source, "flax") if "rngs" not in name}


@check()
def the_way_back_is_refused_for_weights_of_another_model(folder):
    case = mlp()
    source, other = saved(case, folder, "flax"), folder / "other.safetensors"
    safetensors.torch.save_file({name: value.clone() for name, value in case.torch.state_dict().items() if name != "factor"}, other)
    told = convert(other, folder / "back.msgpack", "--map", "flax-to-torch", "--inverse", "--arch", source, fails=True)
    assert "factor" in told, told


@check()
def enough_modules_were_seen(_):
    assert len(SEEN) >= FEWEST, f"{len(SEEN)} modules"


if __name__ == "__main__":
    sys.exit(main(__doc__, jax, flax, torch))
