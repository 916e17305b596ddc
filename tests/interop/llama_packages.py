"""llama.cpp's converter and its shared libraries, from packages that are downloaded to a cache and known by their hashes."""

import hashlib
import io
import os
import pathlib
import tarfile
import urllib.request

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "ckpt-interop"
# The source package of llama-cpp-python.
CONVERTER = ("https://files.pythonhosted.org/packages/ec/e9/e7de2b0463ea3ffbf0ede6cb21b58c1258a8f6521aae45ca773a59fe7cf3/"
             "llama_cpp_python-0.3.36.tar.gz", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e")
PARTS = ("/vendor/llama.cpp/conversion/", "/vendor/llama.cpp/gguf-py/gguf/", "/llama.cpp/convert_hf_to_gguf.py",
         "/llama.cpp/convert_lora_to_gguf.py")
# The npm package @node-llama-cpp/linux-x64, whose libggml-base.so is compiled without fused multiplication and addition.
LIBRARIES = ("https://registry.npmjs.org/@node-llama-cpp/linux-x64/-/linux-x64-3.22.1.tgz",
             "0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0")


def converter() -> pathlib.Path:
    """The folder of llama.cpp's converter. OSError: it can't be downloaded."""
    return next(unpacked(*CONVERTER, PARTS).glob("*/vendor/llama.cpp"))


def libraries() -> pathlib.Path:
    """The folder of llama.cpp's libraries, which `CKPT_LLAMA_CPP` may name. OSError: they can't be downloaded."""
    if own := os.environ.get("CKPT_LLAMA_CPP"):
        return pathlib.Path(own).resolve()
    return unpacked(*LIBRARIES, ("/bins/linux-x64/",)) / "package" / "bins" / "linux-x64"


def unpacked(address: str, sha256: str, parts: tuple[str, ...]) -> pathlib.Path:
    """What a package has under these names."""
    wanted = hashlib.sha256("\n".join((sha256, *parts)).encode()).hexdigest()
    folder = CACHE / f"llama.cpp-{wanted[:12]}"
    if not folder.exists():
        with urllib.request.urlopen(address, timeout=120) as answer:
            data = answer.read()
        found = hashlib.sha256(data).hexdigest()
        assert found == sha256, f"{address} has the SHA-256 {found}"
        # Another process may do the same at the same time.
        temporary = folder.with_suffix(f".{os.getpid()}")
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            wanted = [member for member in archive if any(part in member.name for part in parts)]
            archive.extractall(temporary, wanted, filter="data")
        try:
            temporary.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    return folder
