"""Compiles kernels.cu to kernels.ptx.gz with the NVRTC of requirements.txt; needs no GPU and no CUDA toolkit.

    python ptx.py            writes kernels.ptx.gz, unless its text is right
    python ptx.py --check    fails where the text in kernels.ptx.gz is another one; also compiles for real GPUs

Versions of zlib compress to different bytes, so the text is what counts. `gzip -dc kernels.ptx.gz` prints it.
"""

import ctypes
import glob
import gzip
import os
import sys
import sysconfig
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
PTX = os.path.join(HERE, "kernels.ptx.gz")
# The oldest that the pinned NVRTC has without a warning; drivers compile it for every later one.
VIRTUAL = "compute_60"
REAL = ["sm_75", "sm_90"]
# Every operation rounded as stated, subnormal numbers kept.
OPTIONS = ["--std=c++14", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"]


def main():
    nvrtc = load()
    ptx = compile_for(nvrtc, VIRTUAL).rstrip(b"\0")
    is_current = stored() == ptx
    if sys.argv[1:] != ["--check"]:
        if not is_current:
            write(ptx)
        return
    for architecture in REAL:
        print(f"{architecture}: {len(compile_for(nvrtc, architecture))} bytes of machine code")
    if not is_current:
        sys.exit(f"{PTX} is not what kernels.cu compiles to: run {sys.argv[0]}")
    print(f"{PTX} is up to date")


def stored():
    """The text that is checked in; None where there is none that can be read."""
    try:
        with gzip.open(PTX) as file:
            return file.read()
    except (OSError, EOFError, zlib.error):
        return None


def write(ptx):
    """Without the file's name and the time, which would differ from machine to machine."""
    with open(PTX, "wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed:
        compressed.write(ptx)


def load():
    pattern = os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "*", "lib", "libnvrtc.so.*")
    libraries = [path for path in glob.glob(pattern) if "builtins" not in path and "alt" not in path]
    if not libraries:
        sys.exit(f"no NVRTC here: pip install -r {os.path.join(HERE, 'requirements.txt')}")
    return ctypes.CDLL(libraries[0])


def compile_for(nvrtc, architecture):
    """PTX for compute_*, machine code for sm_*."""
    header = read("functions.cuh")
    program = ctypes.c_void_p()
    headers, names = (ctypes.c_char_p * 1)(header), (ctypes.c_char_p * 1)(b"functions.cuh")
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), read("kernels.cu"), b"kernels.cu", 1, headers, names))
    options = [option.encode() for option in [f"--gpu-architecture={architecture}", *OPTIONS]]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0").strip()
    if status != 0 or log:
        sys.exit(f"{architecture}: NVRTC says {status}\n{log.decode()}")
    if architecture.startswith("compute_"):
        return fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    return fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)


def read(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return file.read()


def fetch(size_of, get, program):
    size = ctypes.c_size_t()
    check(size_of(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    check(get(program, data))
    return data.raw


def check(status):
    if status != 0:
        sys.exit(f"NVRTC says {status}")


if __name__ == "__main__":
    main()
