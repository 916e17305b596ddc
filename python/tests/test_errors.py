"""Errors: without NumPy."""

from __future__ import annotations

import errno
import os
import pickle
import stat
from pathlib import Path

import pytest
from conftest import DIGITS, ROOT

import ckpt
from ckpt import _errors


def test_a_corrupt_file_is_named_with_the_place_and_what_was_found() -> None:
    path = ROOT / "corpus/nn/reject/bad_magic.nn"
    with pytest.raises(ckpt.CorruptError) as caught:
        ckpt.open(path, format="nn")
    error = caught.value
    assert isinstance(error, ValueError)
    assert error.file == str(path) and error.offset == 0 and error.found and error.expected
    assert error.message in str(error) and error.found in str(error)


def test_a_missing_file_is_pythons_own_error_with_number_and_name() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ckpt.open("no/such/file")
    error = caught.value
    assert isinstance(error, ckpt.CkptError) and isinstance(error, ckpt.InputOutputError)
    assert (error.errno, error.filename, error.file) == (errno.ENOENT, "no/such/file", "no/such/file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_permission_error(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(b"x")
    path.chmod(0)
    with pytest.raises(PermissionError):
        ckpt.open(path)
    path.chmod(stat.S_IRUSR)


def test_a_full_disk_is_an_os_error_with_its_number() -> None:
    made = _errors.make(kind="input/output", text="t", message="m", file="f", errno=errno.ENOSPC)
    assert isinstance(made, OSError) and made.errno == errno.ENOSPC and made.filename == "f"
    unknown = _errors.make(kind="input/output", text="interrupted", message="m")
    assert isinstance(unknown, OSError) and str(unknown) == "interrupted"


def test_every_kind_has_a_class_of_its_own() -> None:
    kinds = list(_errors._KINDS)
    made = [_errors.make(kind=kind, text="t", message="t") for kind in kinds]
    assert len({type(error) for error in made}) == len(kinds) == 9
    assert all(isinstance(error, ckpt.CkptError) and str(error) == "t" for error in made)
    assert isinstance(made[kinds.index("internal error")], Exception)


def test_help_names_keyword_arguments(tmp_path: Path) -> None:
    (tmp_path / "out.npz").write_bytes(b"")
    with pytest.raises(ckpt.UsageError) as caught:
        ckpt.convert(DIGITS, tmp_path / "out.npz")
    assert "overwrite=True" in str(caught.value) and "--force" not in str(caught.value)


def test_errors_travel_between_processes() -> None:
    with pytest.raises(ckpt.CorruptError) as caught:
        ckpt.open(ROOT / "corpus/nn/reject/bad_magic.nn", format="nn")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is ckpt.CorruptError and (str(again), again.offset) == (str(caught.value), 0)


def test_a_text_in_the_place_of_a_file_is_named_as_what_it_is(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n"
    page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"
    for name in ("m.pt", "m.safetensors", "m.onnx", "m.h5"):
        for text, what in ((pointer, "Git LFS pointer"), (page, "HTML page")):
            (tmp_path / name).write_text(text)
            with pytest.raises(ckpt.CorruptError, match=what) as caught:
                ckpt.open(tmp_path / name)
            assert caught.value.file == str(tmp_path / name)
            assert "not the file itself" in caught.value.message
