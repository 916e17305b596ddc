"""What the interop scripts share: registering and counting checks, running `ckpt`, reading and comparing tensors."""

import argparse
import json
import pathlib
import subprocess
import tempfile
import traceback

import ml_dtypes
import numpy as np
import safetensors

CODES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": ml_dtypes.bfloat16,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "I64": "int64", "I32": "int32", "I16": "int16",
    "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}
CKPT = ""
CHECKS = []


def check(*arguments):
    """Registers a check; with arguments, once for each."""

    def register(function):
        for argument in arguments or [None]:
            suffix = "" if argument is None else f"[{argument}]"
            CHECKS.append((function.__name__ + suffix, function, () if argument is None else (argument,)))
        return function

    return register


def ckpt(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([CKPT, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)


def convert(source, target, *arguments, fails=False) -> str:
    done = ckpt("convert", *arguments, source, target)
    message = f"{' '.join(done.args)}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.returncode in ((1, 2, 3, 4, 5) if fails else (0,)), message
    if fails:
        assert not pathlib.Path(target).exists(), "a failed conversion left its output behind"
    return done.stdout + done.stderr


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
    """A safetensors file by safetensors-python's parser, with the dtypes that numpy lacks."""
    parsed = safetensors.deserialize(path.read_bytes())
    return {name: np.frombuffer(bytes(entry["data"]), CODES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in parsed}


def load_set(index: pathlib.Path) -> dict[str, np.ndarray]:
    where = json.loads(index.read_text())["weight_map"]
    files = {name: load(index.parent / name) for name in set(where.values())}
    assert len(files) > 1, "not sharded"
    assert sum(map(len, files.values())) == len(where), "tensors that the index does not name"
    return {name: files[file][name] for name, file in where.items()}


def assert_equal(found: dict, expected: dict) -> None:
    """The same names, shapes and bits; a dtype that safetensors lacks may be one that holds its values exactly."""
    assert found.keys() == expected.keys(), f"names differ: {sorted(found.keys() ^ expected.keys())[:10]}"
    for name, value in expected.items():
        value, got = np.asarray(value), found[name]
        assert got.shape == value.shape, f"{name}: {got.shape} instead of {value.shape}"
        if got.dtype == value.dtype:
            assert got.tobytes() == value.tobytes(), f"{name}: other bits"
        else:
            assert value.dtype not in [np.dtype(code) for code in CODES.values()], f"{name}: {got.dtype}, not {value.dtype}"
            same = got.astype(np.float64) == value.astype(np.float64)
            nan = np.isnan(got.astype(np.float64)) & np.isnan(value.astype(np.float64))
            assert np.all(same | nan), f"{name}: {got.dtype} does not hold the values of {value.dtype}"


def main(description: str, *packages) -> int:
    """Runs the checks that the command line names, or all, and counts them on the last line."""
    global CKPT
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True, help="the program to check")
    parser.add_argument("only", nargs="*", help="run only the checks whose names contain one of these")
    arguments = parser.parse_args()
    CKPT = str(pathlib.Path(arguments.ckpt).resolve())
    print(", ".join(f"{package.__name__} {package.__version__}" for package in packages))
    passed, failed = 0, []
    for name, function, extra in CHECKS:
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                print(name, end="", flush=True)
                function(pathlib.Path(folder), *extra)
            print(" ok")
            passed += 1
        except Exception:
            print(" FAILED")
            traceback.print_exc(limit=-3)
            failed.append(name)
    for name in failed:
        print(f"failed: {name}")
    print(f"interop: {passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0
