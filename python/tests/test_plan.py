"""Plans whose items several processes run. Without NumPy and Ray."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DIGITS

import ckpt
import ckpt.ray

pytestmark = pytest.mark.filterwarnings("ignore::ckpt.LossWarning")


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@pytest.mark.parametrize("name", ["plan.json", "plan.gz"])
def test_processes_run_the_items_of_a_saved_plan(tmp_path: Path, name: str) -> None:
    output, file, receipts = tmp_path / "digits.npz", tmp_path / name, tmp_path / "receipts"
    made = ckpt.plan(DIGITS, output, item_size="4k")
    made.save(file)
    count = len(made.items)
    assert count > 3 and sum(made.items) == made.bytes and ckpt.load_plan(file).sha256 == made.sha256
    code = "import sys, ckpt; print(ckpt.run_items(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3])), sys.argv[4]))"
    bounds = [(0, 2), (1, count - 1)]
    runs = [
        subprocess.Popen([sys.executable, "-c", code, file, str(start), str(stop), receipts], stdout=subprocess.PIPE)
        for start, stop in bounds
    ]
    ran = [int(run.communicate()[0]) for run in runs]
    assert count - 1 <= sum(ran) <= count
    assert made.items_left(receipts) == [count - 1] and not output.exists()
    with pytest.raises(ckpt.UsageError, match=f"item {count - 1}"):
        ckpt.commit(file, receipts)
    assert ckpt.run_items(file, receipts=receipts) == 1
    summary = ckpt.commit(file, receipts, verify=True, receipt=tmp_path / "receipt.json")
    assert summary.files == [str(output)] and summary.verification is not None and summary.losses == made.losses
    ckpt.convert(DIGITS, tmp_path / "same.npz")
    assert output.read_bytes() == (tmp_path / "same.npz").read_bytes()
    assert names(tmp_path) == sorted(["digits.npz", name, "receipt.json", "receipts", "same.npz"])


def test_the_command_runs_items_beside_python(tmp_path: Path) -> None:
    made = ckpt.plan(DIGITS, tmp_path / "digits.npz", item_size="4k")
    made.save(tmp_path / "plan.json")
    assert made.run_items(range(0, 3), receipts=tmp_path / "receipts") == 3
    subprocess.run(
        [sys.executable, "-m", "ckpt", "run-plan", tmp_path / "plan.json", "--receipts", tmp_path / "receipts", "-q"], check=True
    )
    assert made.items_left(tmp_path / "receipts") == []
    assert made.commit(tmp_path / "receipts").tensors == made.tensors


def test_plans_and_receipts_lie_at_urls(tmp_path: Path) -> None:
    made = ckpt.plan(DIGITS, tmp_path / "digits.npz", item_size="4k", verify=True)
    made.save("memory://plans/a/plan.gz")
    with pytest.raises(ckpt.UsageError, match="overwrite=True"):
        made.save("memory://plans/a/plan.gz")
    made.save("memory://plans/a/plan.gz", overwrite=True)
    loaded = ckpt.load_plan("memory://plans/a/plan.gz", threads=1, max_memory="64m")
    assert loaded.run_items(range(0, 2), receipts="memory://plans/a/receipts") == 2
    assert loaded.run_items(range(0, 4), receipts="memory://plans/a/receipts") == 2
    assert ckpt.run_items(loaded, receipts="memory://plans/a/receipts") == len(made.items) - 4
    # What `plan` was asked to do at the end, it does.
    assert made.commit("memory://plans/a/receipts").verification is not None


def test_what_items_wrote_is_discarded(tmp_path: Path) -> None:
    made = ckpt.plan(DIGITS, tmp_path / "digits.npz", item_size="4k")
    with pytest.raises(ckpt.UsageError, match="has written anything"):
        made.discard()
    made.run_items(range(0, 1), receipts=tmp_path / "receipts")
    assert len(names(tmp_path)) > 1
    made.discard()
    assert names(tmp_path) == ["receipts"] and len(made.items_left(tmp_path / "receipts")) == len(made.items)
    made.discard()


def test_a_plan_is_judged_when_it_is_saved_and_its_items_when_they_are_run(tmp_path: Path) -> None:
    made = ckpt.plan(DIGITS, tmp_path / "digits.npz", strict=True)
    for use in (lambda: made.save(tmp_path / "plan.json"), lambda: made.run_items(receipts=tmp_path / "receipts")):
        with pytest.raises(ckpt.LossyError):
            use()
    assert names(tmp_path) == []
    fine = ckpt.plan(DIGITS, tmp_path / "digits.npz")
    for wrong, kind in ((range(0, 4, 2), ValueError), (range(0, 99), ckpt.UsageError), (range(0, 1 << 62), ckpt.UsageError)):
        with pytest.raises(kind):
            fine.run_items(wrong, receipts=tmp_path / "receipts")


def test_progress_of_items_is_reported(tmp_path: Path) -> None:
    made = ckpt.plan(DIGITS, tmp_path / "digits.npz", item_size="4k")
    seen: list[ckpt.Progress] = []
    made.run_items(range(1, 3), receipts=tmp_path / "receipts", progress=seen.append)
    assert seen[-1].bytes == seen[-1].total == sum(made.items[1:3])
    made.run_items(receipts=tmp_path / "receipts")
    made.commit(tmp_path / "receipts", progress=seen.append)
    assert seen[-1] == (made.bytes, made.bytes, "commit")


def test_errors_are_pickled_with_all_that_they_know() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ckpt.open("no-such-file")
    for error in (caught.value, ckpt.TensorNotFoundError("no tensor"), ckpt.InputOutputError("lost")):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is type(error) and str(copy) == str(error) and vars(copy) == vars(error)
        for name in ("errno", "filename"):
            assert getattr(copy, name, None) == getattr(error, name, None)


def test_ray_is_asked_for_only_when_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="pip install ray"):
        ckpt.ray.convert(DIGITS, tmp_path / "digits.npz")
    assert names(tmp_path) == []
