#!/usr/bin/env python3
"""Reads what Orbax and Flax write, and lets them restore what `ckpt` writes, bit for bit.

    python tests/interop/orbax_checkpoints.py --ckpt target/debug/ckpt     (packages: requirements-orbax.txt)
"""

import logging
import os
import pickle
import sys
import warnings

# Four devices on one processor, so that arrays are sharded.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_ENABLE_X64", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import flax
import flax.serialization
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import orbax.checkpoint as ocp
import orbax.checkpoint.experimental.v1 as v1
from flax import linen
from flax.training.train_state import TrainState
from harness import assert_equal, check, ckpt, convert, load, main

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "complex64", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def values(shape, dtype, start=0):
    numbers = (np.arange(np.prod(shape, dtype=int)) * 37 + start) % 120 - (0 if np.dtype(dtype).kind in "ub" else 60)
    return numbers.reshape(shape).astype(dtype)


def every_dtype():
    tree = {np.dtype(dtype).name: values((3, 5), dtype) for dtype in DTYPES}
    return {**tree, "scalar": np.array(0.1, "float32"), "large": values((300, 70), "float32"), "nested": {"a": {"b": values((7,), "int32")}}}


def lists():
    return {"l": [values((2,), "float32"), {"x": values((3,), "int8")}], "t": (values((4,), "float64"), values((), "int32")),
            "none": None, "empty": {}, "text": "some text"}


class Net(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Dense(5)(x)
        return linen.Dense(3)(linen.LayerNorm()(x))


def train_state():
    net = Net()
    params = net.init(jax.random.key(0), jnp.ones((2, 4)))["params"]
    state = TrainState.create(apply_fn=net.apply, params=params, tx=optax.adamw(1e-3))
    for step in range(3):
        state = state.apply_gradients(grads=jax.tree.map(lambda own: own * (step + 1), state.params))
    return state


def sharded():
    mesh = jax.make_mesh((2, 2), ("x", "y"))
    place = lambda value, *axes: jax.device_put(value, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)))
    w = values((8, 12), "float32")
    return {"rows": place(w, "x"), "columns": place(w, None, "y"), "both": place(w, "x", "y"), "all": place(w),
            "large": place(values((256, 64), "float32"), "x", "y")}


TREES = {"every_dtype": every_dtype, "lists": lists, "train_state": train_state, "sharded": sharded}


def flat(tree, prefix=""):
    """The arrays of a tree by their names; numbers of Python are arrays, too."""
    if hasattr(tree, "params") and hasattr(tree, "opt_state"):
        tree = {"step": tree.step, "params": tree.params, "opt_state": tree.opt_state}
    elif hasattr(tree, "_fields"):
        tree = tree._asdict()
    if isinstance(tree, dict):
        items = [(str(key), value) for key, value in tree.items()]
    elif isinstance(tree, (list, tuple)):
        items = [(str(at), value) for at, value in enumerate(tree)]
    elif tree is None or isinstance(tree, str):
        return {}
    else:
        return {prefix[:-1]: np.asarray(tree)}
    return {name: value for key, own in items for name, value in flat(own, f"{prefix}{key}.").items()}


SAVERS = {
    "standard": lambda path, tree: standard(ocp.StandardCheckpointer(), path, tree),
    "pytree": lambda path, tree: ocp.PyTreeCheckpointer().save(path, tree),
    "plain": lambda path, tree: ocp.PyTreeCheckpointer(use_ocdbt=False).save(path, tree),
    "zarr3": lambda path, tree: ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_zarr3=True)).save(path, args=ocp.args.PyTreeSave(tree)),
    "v1": lambda path, tree: v1.save_pytree(path, tree),
}


def standard(checkpointer, path, tree):
    checkpointer.save(path, tree)
    checkpointer.wait_until_finished()


@check(*(f"{saver} {tree}" for saver in SAVERS for tree in TREES))
def what_orbax_saves_arrives_bit_for_bit(folder, which):
    saver, tree = which.split()
    tree = TREES[tree]()
    if saver == "standard" and isinstance(tree, dict):
        tree.pop("text", None)  # which it refuses
    SAVERS[saver](folder / "in", tree)
    convert(folder / "in", folder / "out.safetensors")
    assert_equal(load(folder / "out.safetensors"), flat(tree))


@check()
def the_newest_step_of_a_manager_arrives_and_any_other_that_is_named(folder):
    with ocp.CheckpointManager(folder / "in") as manager:
        for step in (8, 9, 10):
            manager.save(step, args=ocp.args.StandardSave({"w": values((4, 3), "float32", step)}))
        manager.wait_until_finished()
    convert(folder / "in", folder / "newest.safetensors")
    assert_equal(load(folder / "newest.safetensors"), {"w": values((4, 3), "float32", 10)})
    convert(folder / "in", folder / "nine.safetensors", "--from-set", "step=9")
    assert_equal(load(folder / "nine.safetensors"), {"w": values((4, 3), "float32", 9)})


def restorers():
    def manager(path, tree):
        with ocp.CheckpointManager(path.parent.parent) as manager:
            return manager.restore(7, args=ocp.args.StandardRestore())

    def with_target(path, tree):
        return ocp.StandardCheckpointer().restore(path, jax.tree.map(np.zeros_like, tree))

    def on_devices(path, tree):
        mesh = jax.make_mesh((4,), ("x",))
        place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        target = jax.tree.map(lambda own: jax.ShapeDtypeStruct(own.shape, own.dtype, sharding=place), tree)
        return ocp.StandardCheckpointer().restore(path, target)

    return {
        "standard": lambda path, tree: ocp.StandardCheckpointer().restore(path),
        "pytree": lambda path, tree: ocp.PyTreeCheckpointer().restore(path),
        "manager": manager,
        "with_target": with_target,
        "on_devices": on_devices,
        "v1": lambda path, tree: v1.load_pytree(path),
    }


OUTPUTS = {"v0": [], "v1": ["--set", "layout=v1"], "chunks": ["--set", "chunk=200"], "v1_chunks": ["--set", "layout=v1", "--set", "chunk=200"]}


@check(*(f"{output} {restorer}" for output in OUTPUTS for restorer in restorers()))
def orbax_restores_what_is_written(folder, which):
    output, restorer = which.split()
    tree = every_dtype()
    SAVERS["pytree"](folder / "in", tree)
    path = folder / "root" / "7" / "default"
    item = path
    if output.startswith("v1"):
        # API v0 opens the item, v1 what it is in.
        item = path / "state" if restorer != "v1" else path
        if restorer == "manager":
            path = folder / "root" / "7"
            item = path / "default"
            convert(folder / "in", folder / "made", "--to", "orbax", *OUTPUTS[output])
            path.mkdir(parents=True)
            (folder / "made" / "state").rename(item)
    if not item.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        convert(folder / "in", path, "--to", "orbax", *OUTPUTS[output])
    restored = restorers()[restorer](item, tree)
    assert_equal(flat(restored), flat(tree))


@check()
def lists_texts_and_empty_containers_come_back(folder):
    tree = lists()
    SAVERS["pytree"](folder / "in", tree)
    convert(folder / "in", folder / "out", "--to", "orbax")
    expected = ocp.PyTreeCheckpointer().restore(folder / "in")
    restored = ocp.PyTreeCheckpointer().restore(folder / "out")
    assert_equal(flat(restored), flat(expected))
    assert jax.tree.structure(restored) == jax.tree.structure(expected), (restored, expected)
    assert restored["text"] == "some text" and restored["none"] is None and restored["empty"] == {}


@check()
def a_train_state_comes_back_into_its_target(folder):
    state = train_state()
    SAVERS["standard"](folder / "in", state)
    convert(folder / "in", folder / "mid.safetensors")
    convert(folder / "mid.safetensors", folder / "out", "--to", "orbax")
    restored = ocp.StandardCheckpointer().restore(folder / "out", state)
    assert_equal(flat(restored), flat(state))


@check(*OUTPUTS)
def the_same_tensors_give_the_same_bytes(folder, which):
    SAVERS["pytree"](folder / "in", every_dtype())
    for name in ("one", "two"):
        convert(folder / "in", folder / name, "--to", "orbax", *OUTPUTS[which])
    files = lambda name: {path.relative_to(folder / name): path.read_bytes() for path in (folder / name).rglob("*") if path.is_file()}
    assert files("one") == files("two") and len(files("one")) == (5 if which.startswith("v1") else 3)
    # What is read from it is written as it was.
    convert(folder / "one", folder / "three", "--to", "orbax", *OUTPUTS[which])
    assert files("one") == files("three")


@check()
def many_arrays_have_a_tree_of_nodes(folder):
    tree = {f"w{number:05}": np.full((2,), number, "float32") for number in range(5000)}
    flax_file = folder / "in.msgpack"
    flax_file.write_bytes(flax.serialization.msgpack_serialize(tree))
    convert(flax_file, folder / "out", "--to", "orbax")
    restored = ocp.PyTreeCheckpointer().restore(folder / "out")
    assert_equal(flat(restored), tree)


@check(*TREES)
def what_flax_writes_arrives_and_comes_back(folder, which):
    tree = TREES[which]()
    state = flax.serialization.to_state_dict(tree)
    expected = {name: value for name, value in flat(state).items()}
    (folder / "in.msgpack").write_bytes(flax.serialization.to_bytes(tree))
    convert(folder / "in.msgpack", folder / "out.safetensors")
    native = {name for name, value in expected.items() if name.endswith("step") and which == "train_state"}
    assert_equal(load(folder / "out.safetensors"), {name: value for name, value in expected.items() if name not in native})
    convert(folder / "in.msgpack", folder / "out.msgpack")
    restored = flax.serialization.msgpack_restore((folder / "out.msgpack").read_bytes())
    assert_equal(flat(restored), expected)
    assert jax.tree.structure(restored) == jax.tree.structure(flax.serialization.msgpack_restore((folder / "in.msgpack").read_bytes()))


@check()
def modules_that_flax_numbers_have_names(folder):
    tree = {"layers": {number: {"kernel": values((2, 3), "float32")} for number in range(12)}}
    (folder / "in.msgpack").write_bytes(flax.serialization.msgpack_serialize(tree))
    convert(folder / "in.msgpack", folder / "out.safetensors")
    named = {f"layers.{number}.kernel": own["kernel"] for number, own in tree["layers"].items()}
    assert_equal(load(folder / "out.safetensors"), named)


@check()
def flax_restores_arrays_in_pieces(folder):
    limit, flax.serialization.MAX_CHUNK_SIZE = flax.serialization.MAX_CHUNK_SIZE, 100
    try:
        tree = {"a": values((5, 7), "float32"), "b": {"c": values((3,), "int8")}}
        (folder / "in.msgpack").write_bytes(flax.serialization.to_bytes(tree))
    finally:
        flax.serialization.MAX_CHUNK_SIZE = limit
    convert(folder / "in.msgpack", folder / "out.msgpack")
    assert_equal(flat(flax.serialization.msgpack_restore((folder / "out.msgpack").read_bytes())), flat(tree))


@check("numpy 2", "numpy 4", "numpy 5", "jax 4", "jax 5")
def pickles_arrive_and_nothing_of_them_is_run(folder, which):
    kind, protocol = which.split()
    tree = every_dtype()
    tree = tree if kind == "numpy" else jax.tree.map(jnp.asarray, tree)
    tree["frozen"] = flax.core.FrozenDict({"large": values((70, 300), "float32")})
    (folder / "in.pkl").write_bytes(pickle.dumps(tree, int(protocol)))
    convert(folder / "in.pkl", folder / "out.safetensors")
    expected = {**flat({name: own for name, own in tree.items() if name != "frozen"}), "frozen.large": values((70, 300), "float32")}
    assert_equal(load(folder / "out.safetensors"), expected)


@check()
def a_pickle_with_the_state_of_an_optimizer_is_refused_by_its_class(folder):
    (folder / "in.pkl").write_bytes(pickle.dumps({"w": values((3,), "float32"), "state": optax.adam(1e-3).init(jnp.ones(3))}))
    done = ckpt("inspect", folder / "in.pkl")
    assert done.returncode != 0 and "ScaleByAdamState" in done.stderr, done.stderr
    convert(folder / "in.pkl", folder / "out.safetensors", "--from-set", "lenient=true")
    assert_equal(load(folder / "out.safetensors"), {"w": values((3,), "float32")})


@check()
def a_save_that_did_not_finish_is_refused(folder):
    unfinished = folder / "in.orbax-checkpoint-tmp-5"
    SAVERS["pytree"](folder / "in", {"w": values((3,), "float32")})
    (folder / "in").rename(unfinished)
    done = ckpt("inspect", unfinished)
    assert done.returncode == 5 and "did not finish" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(main(__doc__, jax, ocp, flax))
