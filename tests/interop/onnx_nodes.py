#!/usr/bin/env python3
"""Runs the node tests of the package onnx with `ckpt run`, and counts by operator which pass and which are refused.

    python tests/interop/onnx_nodes.py --ckpt target/debug/ckpt     (packages: requirements.txt)

A test is a model of one node with inputs and the outputs that ONNX expects. It counts if all of them are tensors of
numbers, and the outputs are not random. Its inputs are given as arrays: integers and truth values in 32 bits or more,
others in binary32 or binary64, which hold all numbers of narrower types. An output is rounded to the type that the model
states, and compared as ONNX does. A test that is refused runs once more with the inputs after the first as initializers,
and then with all of them: in models, lists such as shapes and axes are constants.

A result that is wrong, a refusal that names neither the operator nor its node, a defect, and an operator of which fewer tests pass
than on the page `docs/src/onnx-operators.md` fail; `--write` writes the page.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "src" / "onnx-operators.md"
# Outputs that are random.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# What a result in binary32 may differ by from one whose steps are rounded to types of few digits: two steps from a number
# to the next.
STEP = {TensorProto.FLOAT16: 2**-9, TensorProto.BFLOAT16: 2**-6}
# The smallest number of a narrow type, which a tiny result may miss.
LEAST = {TensorProto.FLOAT16: 2**-24}
PASSED, CONSTANT, REFUSED, WRONG = "passed", "with constants", "refused", "wrong"


def types(case) -> list:
    return [value.type for value in [*case.model.graph.input, *case.model.graph.output]]


def operator(case) -> str:
    """The operator that is tested: an expanded test has the nodes that stand for it."""
    node = case.model.graph.node[0]
    return EXPANDED.get(case.name) or node.op_type


def other_kind(case) -> str | None:
    """Why a test does not count; `None` for one that does."""
    domains = {node.domain for node in case.model.graph.node}
    if domains & {"ai.onnx.preview.training", "ai.onnx.training"}:
        return "training"
    if any(kind.WhichOneof("value") != "tensor_type" for kind in types(case)):
        return "sequences and optional values"
    elements = {kind.tensor_type.elem_type for kind in types(case)}
    if TensorProto.STRING in elements:
        return "strings"
    if elements & {TensorProto.COMPLEX64, TensorProto.COMPLEX128}:
        return "complex numbers"
    names = {node.op_type for node in case.model.graph.node}
    if names & RANDOM:
        return "random numbers"
    return "images" if "ImageDecoder" in names else None


def array(given) -> np.ndarray:
    return numpy_helper.to_array(given) if isinstance(given, TensorProto) else np.asarray(given)


def plain(given) -> np.ndarray:
    """The same numbers in a type that NumPy itself has."""
    values = array(given)
    if values.dtype in (np.float64, np.int64, np.uint64, np.uint32):
        return values
    return values.astype(np.int32 if values.dtype == np.bool_ or is_integer(values.dtype) else np.float32)


def is_integer(dtype) -> bool:
    kinds = (ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.int4, ml_dtypes.uint4)
    return np.issubdtype(dtype, np.integer) or dtype in [np.dtype(kind) for kind in kinds]


def is_close(found: np.ndarray, wanted: np.ndarray, element: int, rtol: float, atol: float) -> bool:
    if found.shape != wanted.shape:
        return False
    if wanted.dtype == np.bool_ or is_integer(wanted.dtype):
        return bool(np.all(found.astype(np.int64) == wanted.astype(np.int64)))
    rounded = found.astype(helper.tensor_dtype_to_np_dtype(element)).astype(np.float64)
    expected = wanted.astype(np.float64)
    # Sums in binary32 are rounded next to their greatest numbers, also if what is left of them is 0.
    rounding = 2**-22 * np.abs(expected[np.isfinite(expected)]).max(initial=0)
    rtol, atol = max(rtol, STEP.get(element, 0)), max(atol, LEAST.get(element, 0), rounding)
    return bool(np.allclose(rounded, expected, rtol, atol, equal_nan=True))


def constant_model(case, kept: int) -> onnx.ModelProto:
    """The model of a test with its inputs after the first ones as initializers."""
    model, ((inputs, _),) = onnx.ModelProto(), case.data_sets
    model.CopyFrom(case.model)
    del model.graph.input[kept:]
    for value, given in list(zip(case.model.graph.input, inputs))[kept:]:
        stored = given if isinstance(given, TensorProto) else numpy_helper.from_array(np.asarray(given))
        model.graph.initializer.add().CopyFrom(stored)
        model.graph.initializer[-1].name = value.name
    return model


def attempt(program: str, folder: pathlib.Path, case, kept: int) -> tuple[str, str]:
    """Runs one test with its first inputs; the others are initializers."""
    ((inputs, outputs),) = case.data_sets
    model, is_constant = constant_model(case, kept), kept < len(inputs)
    inputs = inputs[:kept]
    names = [value.name for value in model.graph.input]
    onnx.save(model, folder / "model.onnx")
    command = [program, "run", str(folder / "model.onnx"), "-o", str(folder / "out.npz"), "--force"]
    for place, (name, given) in enumerate(zip(names, inputs)):
        np.save(folder / f"{place}.npy", plain(given))
        command += ["--input", f"{name}={folder / f'{place}.npy'}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    said = " ".join((done.stderr or done.stdout).split())
    if done.returncode in (5, 70) or done.returncode < 0:
        return WRONG, f"exit {done.returncode}: {said}"
    if done.returncode != 0:
        return REFUSED, said
    with np.load(folder / "out.npz") as found:
        for value, wanted in zip(model.graph.output, outputs):
            element = value.type.tensor_type.elem_type
            if value.name not in found:
                return WRONG, f"no output '{value.name}'"
            if not is_close(found[value.name], array(wanted), element, case.rtol, case.atol):
                got, wanted = found[value.name], array(wanted)
                return WRONG, f"'{value.name}' is {got.shape} {got.ravel()[:8]}, not {wanted.shape} {wanted.ravel()[:8]}"
    return (CONSTANT if is_constant else PASSED), ""


def outcome(program: str, case) -> tuple[str, str]:
    count, refusals = len(case.model.graph.input), []
    with tempfile.TemporaryDirectory() as folder:
        for kept in sorted({count, min(count, 1), 0}, reverse=True):
            what = attempt(program, pathlib.Path(folder), case, kept)
            if what[0] != REFUSED:
                return what
            refusals.append(what)
    return next((what for what in refusals if not names_operator(what[1], case)), refusals[0])


def names_operator(said: str, case) -> bool:
    """Whether a refusal names the operator, its node, one within its bodies, or the operator set that is not read."""
    nodes = list(case.model.graph.node)
    for node in nodes:  # Bodies have bodies.
        nodes.extend(inner for attribute in node.attribute for inner in attribute.g.node)
    names = {operator(case), "operator set", *(node.op_type for node in nodes)}
    names |= {f"field {name}" for node in nodes for name in node.output if name}
    said = re.sub(r"\S*/\S*", "", said)  # Paths have random names.
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", said) for name in names)


def page(counts: dict, others: collections.Counter, expanded: collections.Counter) -> str:
    def cell(count):
        return str(count) if count else ""

    rows = [f"| `{name}` | {cell(row[PASSED])} | {cell(row[CONSTANT])} | {cell(row[REFUSED])} |"
            for name, row in sorted(counts.items())]
    total = sum(counts.values(), collections.Counter())
    passed = total[PASSED] + total[CONSTANT]
    apart = ", ".join(f"{count} of {kind}" for kind, count in sorted(others.items()))
    return f"""# Operators of ONNX

The package `onnx` {onnx.__version__} has a test for each use of each operator. Of the {sum(total.values()):,} tests on numbers, `ckpt run` passes
{passed:,}, and it refuses {total[REFUSED]:,}, with the operator or its node in the message; no result is wrong. Of the {sum(expanded.values()):,} tests in which an operator is expanded
into the nodes that define it, {expanded[PASSED] + expanded[CONSTANT]:,} pass. Not counted are {apart}.

*Computed* are tests whose inputs the graph takes when it runs; *constant* are those that pass with inputs stored in the model, as
axes, shapes and weights of models are: those after the first, or all.

`tests/interop/onnx_nodes.py` runs the tests and writes this page.

| operator | computed | constant | refused |
|---|---|---|---|
{chr(10).join(rows)}
"""


def passes(text: str) -> dict[str, int]:
    """How many tests of each operator pass by a page, and how many expanded ones."""
    rows = re.findall(r"^\| `(\w+)` \| (\d*) \| (\d*) \|", text, re.MULTILINE)
    counts = {name: int(computed or 0) + int(constant or 0) for name, computed, constant in rows}
    expanded = re.search(r"nodes that define it, ([\d,]+) pass", text)
    return counts | {"expanded": int(expanded[1].replace(",", "")) if expanded else 0}


EXPANDED: dict[str, str] = {}


def collected() -> list:
    cases = load_node_model_tests()
    tested = {case.name: case.model.graph.node[0].op_type for case in cases if "_expanded" not in case.name}
    for case in cases:
        if "_expanded" in case.name:
            EXPANDED[case.name] = tested[re.sub(r"_expanded(_ver\d+)?$", "", case.name)]
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True, help="the program to check")
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--list", action="store_true", help="print every test that does not pass, and why")
    parser.add_argument("only", nargs="*", help="run only the tests whose operators or names these are")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.ckpt).resolve())
    warnings.simplefilter("ignore")
    print(f"onnx {onnx.__version__}, numpy {np.__version__}")
    others, cases = collections.Counter(), []
    for case in collected():
        wanted = not arguments.only or operator(case) in arguments.only or case.name in arguments.only
        if other := other_kind(case):
            others[other] += 1
        elif wanted:
            cases.append(case)
    counts, expanded = collections.defaultdict(collections.Counter), collections.Counter()
    failed = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, (what, said) in zip(cases, pool.map(lambda case: outcome(program, case), cases)):
            if arguments.list and what in (REFUSED, WRONG):
                print(f"{what}: {case.name}: {said}")
            if what == WRONG or (what == REFUSED and not names_operator(said, case)):
                failed.append(f"{case.name}: {what}: {said}")
            (expanded if case.name in EXPANDED else counts[operator(case)])[what] += 1
    for line in failed:
        print(f"failed: {line}")
    total = sum(counts.values(), collections.Counter())
    print(f"node tests: {dict(total)}; expanded: {dict(expanded)}; not counted: {dict(others)}")
    if failed:
        return 1
    if arguments.only:
        return 0
    written = page(counts, others, expanded)
    if arguments.write:
        PAGE.write_text(written)
        return 0
    recorded, found = (passes(PAGE.read_text()), passes(written)) if PAGE.exists() else ({"the page": 1}, {})
    fewer = [name for name, count in recorded.items() if found.get(name, 0) < count]
    for name in fewer:
        print(f"fewer tests than on the page pass: {name}")
    if recorded != found:
        print(f"{PAGE.name} differs from what ran: run this with --write")
    return 1 if fewer else 0


if __name__ == "__main__":
    sys.exit(main())
