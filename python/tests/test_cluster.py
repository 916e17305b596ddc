"""The examples of the guide's page on clusters, as they stand, in a directory that is called `/shared` there."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import example

import ckpt

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    generator = random.Random(3)
    tensors = {f"layer.{number}": memoryview(generator.randbytes(700 << 10)) for number in range(16)}
    (tmp_path / "shared" / "job").mkdir(parents=True)
    ckpt.save(tensors, tmp_path / "shared" / "model.safetensors", sync=False)
    return tmp_path / "shared"


def is_as_on_one_machine(shared: Path) -> bool:
    ckpt.convert(shared / "model.safetensors", shared.parent / "model.npz")
    return (shared / "model.npz").read_bytes() == (shared.parent / "model.npz").read_bytes()


@pytest.mark.skipif(shutil.which("bash") is None, reason="the loop is bash's")
def test_the_loop_over_hosts_converts(shared: Path) -> None:
    command = f'ckpt() {{ {shlex.quote(sys.executable)} -m ckpt "$@"; }}\n'
    # The second host does nothing.
    ssh = 'ssh() { local host=$1; shift; echo "$host" >>hosts; [ "$host" = node2 ] || "$@"; }\n'
    ran = subprocess.run(["bash", "-eu"], input=command + ssh + example("ssh", shared), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert sorted((shared / "hosts").read_text().split()) == ["node1", "node2", "node3"]
    assert is_as_on_one_machine(shared)


def test_the_example_for_spark_converts_though_a_worker_is_killed(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("pyspark needs Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false")
        local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        session = builder.config(map=local).getOrCreate()
    died = shared / "died"
    text = example("Spark", shared).replace(
        "def run(items):\n", "def run(items):\n    die_once(items)\n"
    )

    def die_once(items: range) -> None:
        if items.start == 4 and not died.exists():
            died.touch()
            os.kill(os.getpid(), 9)

    names: dict[str, Any] = {"__name__": "__main__", "die_once": die_once}
    try:
        exec(compile(text, "cluster.md", "exec"), names)
    finally:
        session.stop()
    assert died.exists() and names["count"] > 8 and is_as_on_one_machine(shared)
