"""Runs an ONNX model as people do it in Python: `python onnxruntime_way.py MODEL INPUTS OUT THREADS`."""

import sys
import time

import numpy
import onnxruntime


def main(model: str, inputs: str, out: str, threads: str) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = int(threads), 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    given = dict(numpy.load(inputs))
    # Once: `ckpt run` runs a graph once, too.
    start = time.perf_counter()
    output, = session.run(None, given)
    print(f"running: {time.perf_counter() - start:.6f} s", file=sys.stderr)
    numpy.savez(out, output=output)


if __name__ == "__main__":
    main(*sys.argv[1:])
