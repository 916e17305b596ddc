"""JAX and TensorFlow: arrays of theirs from checkpoints, and checkpoints of theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import DIGITS, needs

import ckpt
from ckpt.safetensors import safe_open

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
np = needs("numpy")
KERNEL = "digits/hidden/kernel"

# What other packages warn of themselves is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_tensor_becomes_one_of_jax_and_back(tmp_path: Path) -> None:
    jax = needs("jax.numpy")
    kernel = ckpt.open(DIGITS)[KERNEL]
    array = jax.from_dlpack(kernel)
    assert array.dtype == jax.float32 and (np.asarray(array) == kernel.numpy()).all()
    assert (jax.asarray(kernel) == array).all()
    narrow = jax.arange(6, dtype=jax.bfloat16).reshape(2, 3).T
    ckpt.save({"wide": array, "narrow": narrow}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "jax") as file:
        assert (file.get_tensor("wide") == array).all() and (file.get_slice("wide")[3:5] == array[3:5]).all()
        assert file.get_tensor("narrow").dtype == jax.bfloat16 and (file.get_tensor("narrow") == narrow).all()


def test_a_tensor_becomes_one_of_tensorflow_and_back(tmp_path: Path) -> None:
    tf = needs("tensorflow")
    kernel = ckpt.open(DIGITS)[KERNEL]
    array = tf.experimental.dlpack.from_dlpack(kernel.__dlpack__())
    assert array.dtype == tf.float32 and (array.numpy() == kernel.numpy()).all()
    # Ends the process where memory does not begin at a multiple of 64 bytes.
    assert bool(tf.reduce_all(tf.convert_to_tensor(kernel) == array))
    narrow = tf.transpose(tf.reshape(tf.cast(tf.range(6), tf.bfloat16), (2, 3)))
    ckpt.save({"wide": array, "narrow": narrow, "variable": tf.Variable(array)}, tmp_path / "x.safetensors")
    with safe_open(tmp_path / "x.safetensors", "tf") as file:
        assert bool(tf.reduce_all(file.get_tensor("wide") == array))
        assert bool(tf.reduce_all(file.get_slice("variable")[3:5] == array[3:5]))
        assert file.get_tensor("narrow").dtype == tf.bfloat16 and bool(tf.reduce_all(file.get_tensor("narrow") == narrow))


@pytest.mark.parametrize("rows", [1, 3, 64, 100_000])
def test_memory_begins_where_every_library_can_use_it(tmp_path: Path, rows: int) -> None:
    ckpt.save({"w": np.zeros((rows, 3), "u1")}, tmp_path / "x.npz")
    with ckpt.open(tmp_path / "x.npz") as checkpoint:
        for part in (checkpoint["w"], checkpoint["w"][rows // 2 :]):
            assert part.numpy().__array_interface__["data"][0] % 64 == 0
