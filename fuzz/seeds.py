"""Seeds that the corpus does not have: inputs of several files, graphs that formats cannot say, and what is refused.

fuzz/seed.sh runs it, from the repository's root.
"""

import json
import pathlib
import struct
import sys

import make_bullet
import make_nn
import make_npz
import make_safetensors
import make_torch
from common import Tensor, f32

OUT = pathlib.Path(sys.argv[1])


def write(target: str, name: str, seed: bytes) -> None:
    assert len(seed) < 1 << 14, f"{target}/{name} is too long for a seed"
    (OUT / target / name).write_bytes(seed)


def case(files: dict[str, bytes], entry="", options=()) -> bytes:
    """As `files::Case` of the targets takes it."""
    parts = [f"{' '.join(options)}\n{entry}".encode(), *(name.encode() + b"\n" + data for name, data in files.items())]
    return b"\n=== ".join(parts)


def bullet_files() -> None:
    arch, state = make_bullet.ARCH, make_bullet.state()
    records, raw, quantised = make_bullet.records(), make_bullet.headerless(), make_bullet.quantised()
    folder = "optimiser_state/"
    whole = state | {"raw.bin": raw, "quantised.bin": quantised}
    of_768 = [("l0w", 1, [0.5] * 1536), ("l0b", 1, [0.5]), ("l1w", 1, [0.5] * 4), ("l1b", 1, [0.5] * 2)]
    deep = [("l0w", 1, [1.0] * 6), ("l0b", 1, [1.0] * 2), *((f"l{n}{part}", 1, [1.0]) for n in (1, 2) for part in "wb")]
    shared = [("l0w", 1, [1.0] * 4), ("l0f", 1, [1.0] * 2), ("l0b", 1, [1.0]), ("l1w", 1, [1.0] * 2), ("l1b", 1, [1.0])]
    longer = make_bullet.records([(name, rows, values * 2) for name, rows, values in make_bullet.NET])
    for number, (files, entry, options) in enumerate([
        (whole, "", [arch, "check=true"]), (columns := make_bullet.columns(), "", [make_bullet.COLUMNS, "check=true"]),
        (whole, "", ["check=true"]), (state, "", [arch, "check=true"]), (whole, "raw.bin", [arch, "check=true"]),
        ({"raw.bin": raw, "quantised.bin": quantised}, "", [arch]), ({"quantised.bin": quantised}, "", [arch]),
        ({"raw.bin": raw}, "", [arch]), ({"raw.bin": raw}, "", []), ({"params.bin": raw}, "", [arch]), ({}, "", []),
        ({"other": b""}, "", []), ({}, "raw.bin", [arch]), ({"weights.bin": raw}, "", [arch]),
        (whole | {"log.txt": b"superbatch:1,batch:32,0.5\n"}, "", [arch]), (whole | {"log.txt": b"\xff"}, "", [arch]),
        (state, "", [arch, "optimiser=radam"]), (state, "", [arch, "optimiser=ranger"]),
        ({folder + "weights.bin": records}, "", [arch]),
        ({folder + "weights.bin": records}, "", [arch, "optimiser=adamw"]),
        (columns, "quantised.bin", [make_bullet.COLUMNS, "integers=true"]),
        (state | {folder + "step.txt": b"\xff"}, "", [arch]),
        (state | {folder + "step.txt": make_bullet.STEPS + b"\n"}, "", [arch]),
        (state | {folder + "momentum.bin": make_bullet.records([*make_bullet.NET, ("l9w", 1, [1.0])])}, "", []),
        (state | {folder + "momentum.bin": longer}, "", []),
        (make_bullet.state(make_bullet.headerless), "", [arch, "records=headerless"]),
        ({"w": raw}, "w", [arch, "content=state", "records=headerless"]),
        ({"w": raw}, "w", ["records=headerless", "content=state"]),
        ({"w": raw}, "w", [arch, "content=raw"]), ({"w": raw}, "w", [arch]), ({"w": quantised}, "w", [arch]),
        ({"w": raw[4:]}, "w", [arch]),
        ({"w": raw}, "w", []), ({"w": bytes(64)}, "w", ["arch=simple:2x3x1"]), ({"w": records}, "w", []),
        ({"w": raw}, "w", [arch, "profile=plain"]),
        ({"w": raw}, "w", ["profile=plain"]), ({"w": raw}, "w", [arch, "content=engine"]),
        ({"momentum.bin": records}, "momentum.bin", [arch]),
        ({"params.bin": raw[4:]}, "params.bin", [arch]), ({"params.bin": raw + b"rest"}, "params.bin", [arch]),
        ({"weights.bin": make_bullet.records(of_768)}, "weights.bin", []),
        ({"weights.bin": make_bullet.records(deep)}, "weights.bin", []),
        ({"weights.bin": make_bullet.records(shared)}, "weights.bin", []),
        ({"weights.bin": make_bullet.records(deep[:2])}, "weights.bin", []),
        ({"weights.bin": make_bullet.records(old=True)}, "weights.bin", ["records=rows"]),
        ({"weights.bin": records}, "weights.bin", ["records=rows"]),
        ({"weights.bin": make_bullet.records([(n, 1, v) for n, _, v in make_bullet.NET], True)}, "weights.bin", [arch]),
        ({"quantised.bin": make_bullet.quantised(b"\0")}, "quantised.bin", [arch]),
        ({"quantised.bin": b"", "raw.bin": raw}, "", [arch]),
        ({"weights.bin": make_bullet.records([("l0f", 1, [1.0])])}, "weights.bin", [make_bullet.COLUMNS]),
        ({"quantised.bin": quantised}, "quantised.bin", [arch, "content=state"]),
    ]):
        write("bullet_files", f"case-{number:02}", case(files, entry, options))


def presets() -> None:
    for number, preset in enumerate([
        "simple:2x1x1", "multi:2x2x2x1,inputs=2,pairwise=false", "simple", "simple:axb", "simple:2x1",
        "simple:2x1x1,colour=red",
        "simple:2x2x1,pairwise=true,activation=sqrrelu", "simple:2x1x1,activation=identity",
        "simple:2x1x1,activation=relu,round=false",
        "simple:2x1x1,activation=gelu", "simple:2x1x1,qa=0", "simple:2x1x1,qa=300,qb=7,transpose=false",
        "simple:2x1x1,psqt=maybe",
        "builder:2x1x1,buckets=1,factoriser=true", "builder:2x1x1,buckets=2",
        "multi:2x2x2x1,factoriser=true,psqt=true", "simple:2x1x1,activation=crelu",
        "simple:2x3x1,pairwise=true",
    ]):
        write("bullet_read", f"preset-{number:02}", preset.encode())


def architectures() -> None:
    """One of each kind; the target takes the file as JSON, a zero, and a file that it describes."""
    scaled = lambda id, scale, **more: {"id": id, "type": "i16", "scale": scale, "round": True, **more}
    saved = [
        scaled("l0w", 255), scaled("l0b", 255), scaled("l1w", 64, transpose=True), scaled("l1b", 16320)
    ]
    whole = {
        "format": "bullet", "input": {"features": 3}, "output_buckets": {"count": 2}, "eval_scale": 400,
        "layers": [{"size": 2, "activation": "screlu"}, {"size": 1}], "saved": saved,
    }
    digits = ["bucket", "in/2", "out", "in%2"]
    members = [scaled("l0w", 255, clip=1.98, layout=["out", "feature"]), *saved[1:2],
               {"id": "l1w", "type": "i8", "scale": 64, "layout": digits}, {"id": "l1b", "type": "i32", "scale": 16320}]
    factorised = {
        **whole, "psqt": True, "tensors": [{"id": "w", "rows": 2, "columns": 3}],
        "input": {"features": 3, "buckets": {"count": 2}, "factoriser": True, "perspectives": 1},
        "layers": [{"size": 4, "activation": "crelu", "pairwise": True}, {"size": 2, "activation": "crelu", "dual": True}, {"size": 1}],
        "saved": [scaled("l0w", 255, merge="l0f", round_terms=True), {"id": "l0b"}, {"id": "w"}],
    }
    columns = {**factorised, "input": {**factorised["input"], "factoriser": "columns"}, "saved": [{"id": "pst"}, {"id": "l0w"}]}
    chain = {"layers": [
        {"type": "conv", "weight": "k", "bias": "c", "weight_axes": ["kernel_y", "kernel_x", "in", "out"], "padding": "same"},
        {"type": "flatten"},
        {"type": "dense", "weight": "w", "bias": "b", "weight_axes": ["in", "out"], "activation": "relu"},
    ]}
    engine = {"header": "4e4e", "align": 64, "members": members}
    for name, document, data in [
        ("weights", whole, make_bullet.records()), ("quantised", whole, make_bullet.quantised()),
        ("engine", {**whole, "engine": engine}, bytes(256)), ("factorised", factorised, bytes(64)),
        ("columns", columns, bytes(64)), ("layers", chain, b""),
    ]:
        write("arch", name, json.dumps(document).encode() + b"\0" + data)


def net(**changes) -> dict:
    layers = [{"size": 2, "activation": "screlu"}, {"size": 1}]
    return {"format": "bullet", "input": {"features": 3}, "layers": layers, "saved": [{"id": "l0w"}]} | changes


def entry(id="l0w", **more) -> dict:
    return {"id": id, "type": "i16", "scale": 255, **more}


def nets() -> None:
    layer = lambda **changes: net(layers=[{"size": 2, **changes}, {"size": 1}])
    buckets = lambda **changes: net(input={"features": 3, "buckets": {"count": 2, **changes}})
    engine = lambda *members, **changes: net(engine={"members": list(members), **changes})
    own = net(input={"features": 3, "factoriser": True})
    columns = net(input={"features": 3, "factoriser": "columns", "buckets": {"count": 2}})
    pairs = [("in%2", "in/2"), ("feature", "out%2"), ("out/0", "feature")]
    documents = [
        net(layers=[]), net(layers=[{"size": 1}] * 300), net(name="n", output_buckets={"count": 0}),
        net(input={"features": 0}),
        net(input={"features": 3, "perspectives": 3}),
        net(input={"features": 3, "perspectives": 1}, psqt=True, eval_scale=400),
        net(input={"features": 3, "factoriser": "rows"}), net(input={"features": 3, "factoriser": False}), buckets(),
        buckets(layout=[0] * 64),
        buckets(layout=[0] * 32, mirrored=True), buckets(layout=[0]), buckets(layout=[2] * 64), layer(dual=True),
        layer(dual=True, activation="crelu"),
        net(layers=[{"size": 3, "pairwise": True}, {"size": 1}]), layer(bucketed=True),
        layer(bucketed=False, activation="relu", pairwise=True),
        net(output_buckets={"count": 2, "kind": "other"},
            layers=[{"size": 2, "bucketed": True}, {"size": 1, "bucketed": False}]),
        net(tensors=[{"id": "", "rows": 1}]), net(tensors=[{"id": "l0w", "rows": 1}]),
        net(tensors=[{"id": "x", "rows": 0}]),
        net(tensors=[{"id": "x", "rows": 2}], saved=[{"id": "x"}]), net(saved=[{"id": "l0"}]),
        net(saved=[{"id": "l0w"}, {"id": "l0w"}]),
        net(saved=[entry(type="f32")]), net(saved=[entry(scale=None)]), net(saved=[entry(round_terms=True)]),
        net(saved=[entry(merge="l0b")]),
        net(saved=[entry(merge="l0w")]), net(saved=[entry(merge="l0f")]),
        {**own, "saved": [entry(merge="l0f", round_terms=True), entry("l0b")]},
        {**own, "saved": [entry(type="i32", merge="l0f", round_terms=True)]},
        {**columns, "saved": [entry(transpose=True)]},
        {**columns, "saved": [entry(merge="l0f", transpose=True)]}, {**columns, "saved": [entry("l0f")]},
        {**columns, "tensors": [{"id": "l0f", "rows": 2}]},
        net(saved=[entry(layout=["out", "feature"])]), net(saved=[entry(clip=1.5)]),
        engine(entry(layout=["out", "feature"], transpose=True)),
        engine(entry(clip=0.0)), engine(entry(clip=1.5, round=True)), engine(entry(clip=1e300)),
        engine(entry(clip=1.98), header="4e4e", align=64),
        engine(entry(), header="4"), engine(entry(), header="zz"), engine(entry(), align=3),
        engine(entry(layout=["out"] * 40)),
        engine(entry("l1w", layout=["out", "in/2%2", "in%2"])), engine(entry("l1w", layout=["out", "in/3", "in%3"])),
        engine(entry("l1w", layout=["out", "in/4", "in%2"])),
        engine(entry("l1w", layout=["out", "in/2%1", "in%2"])),
        engine(entry("l1w", layout=["in", "out"]), entry("l1b", type="i32", scale=7)),
        engine(entry("l1w", layout=["out", "in/99999999999999999999"])),
        engine(entry("l1w", layout=["out", "in%18446744073709551615", "in/18446744073709551615%2",
            "in/36893488147419103230"])),
        *(engine(entry("l1w", layout=["out", *pair])) for pair in pairs), net(colour="red"),
        net(saved=[entry(type="i64")]),
        net(saved=[{"id": id} for id in ("l0w", "l0b", "l1w", "l1b")]),
        net(saved=[entry(id, transpose=id == "l1w") for id in ("l0w", "l0b", "l1w", "l1b")]),
        net(layers=[{"size": 1 << 31}, {"size": 1 << 31}], input={"features": 1 << 31, "buckets": {"count": 1 << 31}},
            output_buckets={"count": 1 << 31}),
    ]
    for number, document in enumerate(documents):
        write("arch", f"net-{number:02}", json.dumps(document).encode() + b"\0" + make_bullet.headerless())
    ids = ("l0w", "l0b", "l1w", "l1b")
    # Integers that no 32-bit float leads back to; and files of every length that an architecture can have.
    wide = net(saved=[entry(id, type="i32", scale=3) for id in ids],
        engine={"members": [entry("l1b", type="i32", scale=3)], "align": 64, "header": "4e4e"})
    numbers = struct.pack("<16i", *range(0x7FFFFFF0, 0x80000000))
    laid_out = lambda *words: engine(entry("l1w", layout=words))
    several = net(tensors=[{"id": "x", "rows": 2}], saved=[{"id": "x"}])
    # Records that fit both forms, and a net that one of them fits.
    number = lambda *values: struct.pack(f"<{len(values)}Q", *values)
    small = net(input={"features": 2, "perspectives": 1}, layers=[{"size": 1}], saved=[])
    current = b"l0w\n" + number(2, 2) + b"l0b\n" + number(1) + bytes(4)
    square = net(input={"features": 2, "perspectives": 1}, layers=[{"size": 2}], saved=[])
    rows = b"l0w\n" + number(2, 2) + b"abc\n" + number(8) + bytes(4) + b"l0b\n" + number(2, 1) + bytes(8)
    for name, document, data in [
        ("wide", wide, numbers[:52] + b"bullet" * 2), ("short", wide, numbers[:48]),
        ("member", wide, b"NN" + bytes(62) + numbers), ("header", wide, b"NX" + bytes(126)),
        ("layout", laid_out("in", "out"), bytes(8)), ("tiles", laid_out("out", "in%2", "in/2"), bytes(range(8))),
        ("tensor", several, bytes(8)), ("current", small, current), ("rows", square, rows),
    ]:
        write("arch", f"net-{name}", json.dumps(document).encode() + b"\0" + data)


def layers() -> None:
    """Architecture files that are chains of layers; the target's tensors are k, c, w and b."""
    dense = {"type": "dense", "weight": "w", "bias": "b", "weight_axes": ["in", "out"]}
    conv = {"type": "conv", "weight": "k", "bias": "c", "weight_axes": ["kernel_y", "kernel_x", "in", "out"]}
    activations = ["linear", "relu", "sigmoid", "tanh", "softmax", "log_softmax", "elu", "gelu", "softplus"]
    chains = [
        [], [{"type": "flatten"}, {**dense, "name": "d"}], [{**conv, "activation": "softmax"}, {"type": "flatten"}],
        [conv, dense], [{"type": "dense"}],
        [{"type": "conv"}], [{"type": "dense"}, {"type": "dense"}], [{"type": "dense", "bias": "x"}],
        [{**dense, "weight": "x"}], [{"type": "dense", "weight": "w"}],
        [{**dense, "weight_axes": ["out", "in"]}], [{**dense, "weight_axes": ["in", "in"]}],
        [{**dense, "weight": "k"}], [{"type": "conv", "weight": "k"}],
        [{**conv, "padding": "valid"}], [{**conv, "padding": "same", "group": 2}],
        [{**conv, "pads": [1, 2, 3, 4], "strides": [2, 1], "dilations": [1, 2]}],
        [{**conv, "padding": "same", "pads": [1, 1, 1, 1]}], [{**conv, "strides": [0, 1]}], [{"type": "pool"}],
        *([dense, {"type": "activation", "activation": activation}] for activation in [*activations, "swish"]),
    ]
    for number, chain in enumerate(chains):
        write("arch", f"layers-{number:02}", json.dumps({"name": "m", "layers": chain}).encode())
    pairs = [f"{first},{second}" for first, second in zip(activations, activations[1:])]
    for number, names in enumerate([*pairs, "linear,linear", "relu", "relu,swish"]):
        write("arch", f"names-{number}", names.encode())
    for number, text in enumerate(["", "7", "[]", "{}", "{", '{"layers":[{}]}', '{"format":7}', '{"format":"bullet"}',
        '{"layers":[],"colour":1}']):
        write("arch", f"text-{number}", text.encode())


def headless(tensors, **pairs: str) -> bytes:
    """A file of safetensors without its header's length."""
    return make_safetensors.file(*make_safetensors.describe(tensors, pairs or None), pad=False)[8:]


def safetensors_files() -> None:
    weight, bias = make_safetensors.WEIGHT, make_safetensors.BIAS
    first, second = make_safetensors.SHARDS
    index, by_index = make_safetensors.INDEX, make_safetensors.index
    where = {weight.name: first, bias.name: second}
    shards = {first: headless([weight], format="pt"), second: headless([bias], format="pt")}
    whole = shards | {index: by_index(where)}
    ours = lambda **parts: json.dumps({"version": 1, **parts})
    with_metadata = lambda **metadata: shards | {index: by_index(where, metadata={"total_size": 32, **metadata})}
    single = {"model.safetensors": shards[first]}
    several = {f"{letter}.safetensors": shards[first] for letter in "abcdefghij"}
    for number, (files, entry) in enumerate([
        (whole, index), (whole, ""), (whole, first), (single, ""), (several, ""), (dict([*several.items()][:2]), ""),
        ({}, ""), ({"model.bin": shards[first]}, "model.bin"),
        ({}, index), ({}, "model.safetensors"), ({"weights.json": whole[index]} | shards, "weights.json"),
        (whole | {"other.safetensors.index.json": whole[index]}, ""),
        (shards, ""), (shards | {index: by_index(where | {"more": second})}, index),
        (shards | {index: by_index(where | {bias.name: first})}, index),
        (shards | {index: by_index({weight.name: first})}, index), (whole | {second: headless([bias, weight])}, index),
        (whole | {second: headless([bias], format="tf")}, index),
        (shards | {index: by_index(where | {bias.name: "../x"})}, index),
        (shards | {index: by_index({weight.name: "x.bin"})}, index),
        ({first: shards[first], index: whole[index]}, index),
        (shards | {index: b"{"}, index), (shards | {index: b"[]"}, index), (shards | {index: b"\xff"}, index),
        (shards | {index: b'{"weight_map":{"a":"x","a":"y"}}'}, index),
        (shards | {index: b'{"weight_map":[]}'}, index),
        (shards | {index: b'{"weight_map":{},"metadata":{"a":1,"a":2}}'}, index),
        (shards | {index: b'{"weight_map":7,"metadata":7}'}, index),
        (with_metadata(total_size=7), index), (with_metadata(note=[1], ckpt="ours?"), index),
        (with_metadata(ckpt=7), index),
        (with_metadata(ckpt=ours(metadata={"nn": {"a": 1}}, tensors=[{"name": bias.name, "role": "optimizer"}])),
            index),
    ]):
        write("safetensors_files", f"case-{number:02}", case(files, entry))


def carried() -> None:
    """What the key `ckpt` may say of one file's tensors."""
    weight, bias = make_safetensors.WEIGHT, make_safetensors.BIAS
    node = {"name": "d", "op": "Gemm", "inputs": ["x"], "outputs": ["y"], "attributes": {},
        "parameters": {"weight": weight.name, "bias": bias.name}}
    graph = {"inputs": [{"name": "x", "shape": [None, 3]}], "outputs": [{"name": "y", "shape": [None, 2]}],
        "nodes": [node]}
    axes = {"name": weight.name, "shape": [2, 3], "axes": ["out", "in"]}
    slot = {"name": bias.name, "role": "optimizer", "slot": {"variable": weight.name, "name": "momentum"}}
    logical = {"name": "i", "metadata": {"safetensors": {"logical_dtype": "i4", "own": 1}}}
    stale = {"name": "i", "metadata": {"safetensors": {"logical_dtype": "f32"}}}
    unknown = {"name": "i", "metadata": {"safetensors": {"logical_dtype": "f7", "own": 1}, "nn": {"a": 1}}}
    nibbles = Tensor("i", "i8", [2], b"\1\2")
    scaled = {"name": "i", "quantisation": {"scale": 3}}
    parts = [
        {}, {"graph": graph}, {"graph": graph, "tensors": [axes, slot]},
        {"graph": {**graph, "nodes": [{**node, "parameters": {"weight": "gone"}}]}},
        {"graph": {**graph, "nodes": [node, node]}}, {"graph": 7, "tensors": 7, "metadata": 7},
        {"metadata": {"nn": {"dialect": "a"}, "safetensors": {"format": "tf"}}},
        {"tensors": [{**axes, "shape": [3, 2]}, {"name": "gone"}]}, {"tensors": [{**axes, "axes": ["out"]}]},
        {"tensors": [logical, axes]}, {"tensors": [stale]}, {"tensors": [unknown, scaled]},
        {"tensors": [scaled]}, {"tensors": [{**slot, "slot": {"variable": "gone", "name": "m"}}]},
        {"tensors": [slot, axes, slot]}, {"version": 2}, {"version": "1"},
    ]
    for number, part in enumerate(parts):
        pairs = {"format": "pt", "ckpt": json.dumps({"version": 1, **part})}
        write("safetensors_read", f"carried-{number:02}",
            make_safetensors.file(*make_safetensors.describe([weight, bias, nibbles], pairs)))
    for number, header in enumerate([b"", b"7", b"{}7", b'{"":7}', b'{"__metadata__":null}',
        b'{"__metadata__":{},"__metadata__":{}}', b'{"__metadata__":{"a":"1","a":"2"}}', b'{"__metadata__":[]}']):
        write("safetensors_read", f"header-{number}", make_safetensors.file(header, pad=False))


def nn_read() -> None:
    one, tensors, unset = make_nn.ONE, make_nn.ONE_TENSORS, make_nn.UNSET
    linear, other, pair, stage = make_nn.linear, make_nn.other, make_nn.pair, make_nn.stage
    changed = lambda **changes: [{**one[0], **changes}]
    square = [linear("layer0", 2, 2)]
    images = [linear("layer0", 0, 0), other("layer1", "ReLU")]
    kernel = [("layer0.weight", (2, 1, 3, 3), bytes(72)), ("layer0.bias", (2,), f32(1, 2))]
    mlp, mlp_tensors = make_nn.B_MLP, make_nn.B_TENSORS
    many = [linear(f"layer{n}", 1, 1) for n in range(7)]
    each = [tensor for n in range(7) for tensor in pair(n, (1, 1), (1,))]
    relu = [other("x", "ReLU")]
    mixed = [linear("layer0", 4, 3), *relu, linear("layer2", 3, 2), *relu, linear("layer4", 2, 5), *relu,
        linear("layer6", 5, 1)]
    for number, (described, stored, training, device) in enumerate([
        (one, tensors, unset, 7), (one, tensors, [], "cpu"), ({}, tensors, unset, "cpu"), ([7], tensors, unset, "cpu"),
        (changed(type=7), tensors, unset, "cpu"), (changed(name=7), tensors, unset, "cpu"),
        (changed(trainable="yes"), tensors, unset, "cpu"), (changed(trainable=False), tensors, unset, "cpu"),
        (changed(in_features=0), tensors, unset, "cpu"), (changed(in_features="3"), tensors, unset, None),
        (changed(in_features=None), tensors, None, "cpu"), (changed(in_features=[]), tensors, unset, "cpu"),
        (changed(in_features={}), tensors, unset, "cpu"), (changed(in_features=True), tensors, unset, "cpu"),
        (None, tensors, unset, "cpu"), (True, tensors, unset, "cpu"), ("x", tensors, unset, "cpu"),
        (images, kernel, unset, "cpu"), (images, tensors, unset, "cpu"), (images, kernel[:1], unset, "cpu"),
        (square, pair(0, (2, 2), (2,))[:1], unset, "cpu"), (square, pair(0, (2, 2), (1, 2)), unset, "cpu"),
        (square, pair(0, (2, 2), (2,))[::-1], unset, "cuda"), (square, pair(0, (2, 2), (3,)), unset, "cpu"),
        (mlp, mlp_tensors, unset | {"stages": [stage(), stage("a")]}, "cpu"),
        (make_nn.A_MLP, make_nn.A_TENSORS, unset | {"stages": [stage("a"), 7]}, "metal"),
        (mlp, mlp_tensors, unset | {"stages": 7, "epochs": "x"}, "cpu"),
        (mlp, mlp_tensors, unset | {key: "x" for key in unset}, "cpu"),
        ([linear("layer0", 4, 3), linear("layer1", 5, 2)], pair(0, (3, 4), (3,)) + pair(1, (2, 5), (2,)), unset, "cpu"),
        ([other("f", "Flatten"), *relu, other("x", "Softmax"), *relu, *relu], [], unset, "cpu"),
        (many, each, unset, "cpu"), (mixed, each, unset, "cpu"), (mlp, each, unset, "cpu"),
        ([linear("layer0", 0, 0)] * 7, [tensor for n in range(7) for tensor in pair(n, (1, 1), (1,))], unset, "cpu"),
        ([{**linear("layer0", 3, 2), "name": ""}, *relu, *relu], tensors, unset, "cpu"),
        ([*one, *relu, linear("layer2", 2, 1)], tensors, unset, "cpu"), (one, tensors[:1], unset, "cpu"),
        (one, tensors + tensors[:1], unset, "cpu"),
        (one, [("layer0.weight", (2, 3, 1), tensors[0][2]), tensors[1]], unset, "cpu"),
    ]):
        write("nn_read", f"case-{number:02}", make_nn.file(make_nn.header(described, training, device), stored))
    good = make_nn.header(one)
    for number, (text, version) in enumerate([(good, 1 << 24), (b"7", 1), (b"null", 1), (b'""', 1), (b"true", 1),
        (b"{}", 1)]):
        write("nn_read", f"text-{number}", make_nn.file(text, tensors, version=version))
    write("nn_read", "rest", make_nn.file(make_nn.header([other("x", "ReLU")]), []) + b"rest")


def npz_read() -> None:
    member, array, header, values = make_npz.Member, make_npz.array, make_npz.header, f32(1)
    text = lambda dict_text: header(dict_text) + values
    described = lambda descr: array(descr, "(1,)", values)
    large = make_npz.archive(member(b"w.npy", make_npz.MATRIX), large=True)
    end, central, record, locator = (large.rindex(b"PK" + sign) for sign in (b"\5\6", b"\1\2", b"\6\6", b"\6\7"))
    changed = lambda at, number: large[:at] + struct.pack("<H", number) + large[at + 2 :]
    for number, seed in enumerate([
        make_npz.archive(), changed(end + 4, 1), changed(end + 8, 7), changed(locator + 8, 7), changed(record, 7),
        changed(record + 24, 7), changed(central, 7), changed(central + 34, 1), changed(central + 20, 7),
        changed(central + 28, 999), changed(end + 10, 7),
        text("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x"),
        text("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }"),
        header("{'descr': '<f4é', 'fortran_order': False, 'shape': (1,), }") + values, text("{7}"), text("{'descr"),
        text("{'de\\scr': 1}"),
        *map(described, ["'<M8'", "'=f4'", "'<q4'", "'<f'", "'|S4'", "'<c24'", "7", "'f'", "('<f4', 2)"]),
        make_npz.one(len=1 << 30, local_len=7), make_npz.one()[:30] + b"\xff" * 60 + make_npz.one()[90:],
    ]):
        write("npz_read", f"case-{number:02}", seed)


def cnn2_read() -> None:
    write("cnn2_read", "magic", b"CNN2")


def convolutions() -> None:
    """Chains that CNN2 can say, and with one fault each."""
    axes = ["out", "in", "kernel_y", "kernel_x"]
    tensor = lambda name, *shape, dtype="f16", axes=axes: {"name": name, "dtype": dtype, "shape": shape, "axes": axes}
    image = lambda name, channels=8: {"name": name, "shape": [None, channels, None, None]}

    def node(op, taken, made, *, name=None, weight=None, bias=None, **attributes):
        parameters = {role: name for role, name in (("weight", weight), ("bias", bias)) if name}
        return {"name": name or made[0], "op": op, "inputs": taken, "outputs": made, "attributes": attributes,
            "parameters": parameters}

    conv = lambda taken="x", made="y", weight="w", **more: node("Conv", [taken], [made], weight=weight,
        **({"pads": [1] * 4} | more))
    three, one = tensor("w", 4, 8, 3, 3), tensor("w", 4, 8, 1, 1)
    again = tensor("v", 2, 12, 1, 1)
    concat = lambda *taken, made="j", **attributes: node("Concat", list(taken), [made], **attributes)
    after = conv("j", "z", "v", pads=[0] * 4)
    pad = lambda **attributes: node("Pad", ["x"], ["p"], **attributes)
    even = [0, 0, 1, 1, 0, 0, 1, 1]
    floats = [tensor("w", 4, 8, 1, 1, dtype="f32"), {"name": "b", "dtype": "f32", "shape": [4], "axes": ["out"]}]
    cases = [
        ([conv()], "y", [three]), ([conv(pads=[0] * 4)], "y", [one]),
        ([conv(), node("Relu", ["y"], ["r"])], "r", [three]),
        ([node("Identity", ["x"], ["i"]), conv("i")], "y", [three]),
        ([node("Identity", ["x", "x"], ["i"]), conv("i")], "y", [three]),
        ([node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), conv("t"),
            node("Transpose", ["y"], ["o"], perm=[0, 2, 3, 1])], "o", [three]),
        ([node("Transpose", ["x"], ["t"]), conv("t")], "y", [three]),
        ([conv(), node("Transpose", ["y"], ["t"], perm=[0, 2, 3, 1]), conv("t", "z", "v", pads=[0] * 4)], "z",
            [three, tensor("v", 2, 4, 1, 1)]),
        ([concat("x", "more", axis=1), conv("j")], "y", [tensor("w", 4, 10, 3, 3)]),
        ([concat("x", "more", axis=-3), conv("j")], "y", [tensor("w", 4, 9, 3, 3)]),
        ([concat("x", "more", axis=2), conv("j")], "y", [three]),
        ([concat("x", axis=1), conv("j")], "y", [three]),
        ([conv(), concat("y", "x", axis=1), after], "z", [three, again]),
        ([conv(), concat("x", "y", axis=1), after], "z", [three, again]),
        ([conv(), after | {"inputs": ["y"]}], "z", [three, again]),
        ([conv(), conv("x", "z", "v", pads=[0] * 4)], "z", [three, tensor("v", 2, 4, 1, 1)]),
        ([conv(), conv("y", "z", "v", pads=[0] * 4)], "z", [three, tensor("v", 2, 5, 1, 1)]),
        ([pad(pads=even), conv("p", pads=[0] * 4)], "y", [three]),
        ([pad(pads=even, mode="edge"), conv("p", pads=[0] * 4)], "y", [three]),
        ([pad(pads=even, mode="unspecified"), conv("p", pads=[0] * 4)], "y", [three]),
        ([pad(pads=even, mode="reflect"), conv("p")], "y", [three]),
        ([pad(pads=even, mode=7), conv("p")], "y", [three]), ([pad(pads=even, value=1), conv("p")], "y", [three]),
        ([pad(pads=[0, 0, 1, 2, 0, 0, 1, 1]), conv("p")], "y", [three]),
        ([pad(), conv("p")], "y", [three]), ([pad(pads=7), conv("p")], "y", [three]),
        ([pad(pads=[0, 0, -1, -1, 0, 0, -1, -1]), conv("p")], "y", [three]),
        ([pad(pads=even), conv("p")], "y", [three]),
        ([conv(pads=[2] * 4)], "y", [three]), ([conv(pads=[1, 2, 1, 1])], "y", [three]),
        ([conv(pads=[-1] * 4)], "y", [three]), ([conv(strides=[2, 2])], "y", [three]),
        ([conv(dilations=[2, 1])], "y", [three]), ([conv(strides=[1, 1], group=1)], "y", [three]),
        ([conv(group=2)], "y", [three]), ([conv(group="1")], "y", [three]),
        ([conv(kernel_shape=[3, 3])], "y", [three]), ([conv(kernel_shape=[5, 5])], "y", [three]),
        ([conv(auto_pad="SAME_UPPER")], "y", [three]), ([conv(auto_pad="VALID")], "y", [three]),
        ([conv(auto_pad="SAME")], "y", [three]), ([conv(auto_pad=7)], "y", [three]), ([conv(colour=1)], "y", [three]),
        ([conv(), node("Clip", ["y"], ["r"], min=0.0, max=1.0)], "r", [three]),
        ([conv(), node("Clip", ["y"], ["r"], min=0, max=1)], "r", [three]),
        ([conv(), node("Clip", ["y"], ["r"], min="0", max=6)], "r", [three]),
        ([conv(), node("Relu", ["y"], ["r"], alpha=1)], "r", [three]),
        ([conv(), node("ckpt.Unspecified", ["y"], ["r"], layer="l")], "r", [three]),
        ([conv(), node("Relu", ["y"], ["r"]), node("Tanh", ["r"], ["t"])], "t", [three]),
        ([node("Relu", ["x"], ["r"]), conv("r")], "y", [three]), ([conv(), node("Gelu", ["y"], ["r"])], "r", [three]),
        ([conv(), node("Relu", ["y", "y"], ["r"])], "r", [three]),
        ([], "x", []), ([conv()], "x", [three]), ([conv()], None, [three]), ([conv(), conv()], "y", [three]),
        ([conv(weight=None)], "y", [three]), ([conv(weight="gone")], "y", [three]),
        ([conv() | {"parameters": {"weight": "w", "scale": "w"}}], "y", [three]),
        ([conv(bias="b", pads=[0] * 4)], "y", floats), ([conv(bias="b", pads=[0] * 4)], "y", [one, floats[1]]),
        ([conv(bias="b", pads=[0] * 4)], "y", [floats[0], floats[1] | {"shape": [5]}]),
        ([conv(bias="gone")], "y", [three]),
        ([conv(pads=[0] * 4), conv("y", "z", "v", pads=[0] * 4, bias="c")], "z",
            [one, tensor("v", 2, 4, 1, 1, dtype="f32"), {"name": "c", "dtype": "f32", "shape": [2], "axes": ["out"]}]),
        ([conv()], "y", [tensor("w", 4, 8, 3, 5)]), ([conv()], "y", [tensor("w", 4, 8, 2, 2)]),
        ([conv()], "y", [tensor("w", 9, 8, 3, 3)]), ([conv()], "y", [tensor("w", 4, 7, 3, 3)]),
        ([conv()], "y", [tensor("w", 4, 8, 3, 3, axes=None)]),
        ([conv()], "y", [tensor("w", 3, 3, 8, 4, axes=["kernel_y", "kernel_x", "in", "out"])]),
        ([conv()], "y", [tensor("w", 4, 8, axes=["out", "in"])]),
    ]
    for number, (nodes, output, tensors) in enumerate(cases):
        graph = {"inputs": [image("x"), image("more", 2)], "outputs": [] if output is None else [image(output, 4)],
            "nodes": nodes}
        write("graph_write", f"cnn2-{number:02}", json.dumps({"graph": graph, "tensors": tensors}).encode())
    names = [[tensor("layer1.weight", 4, 8, 1, 1)],
        [tensor("layer1.weight", 4, 8, 1, 1, axes=None), tensor("layer2.weight", 1, 4, 3, 3)],
        [tensor("layer2.weight", 4, 8, 1, 1)], [tensor("layer1.weight", 4, 8, axes=None)], []]
    for number, tensors in enumerate(names):
        write("graph_write", f"names-{number}", json.dumps({"graph": None, "tensors": tensors}).encode())
    dtypes = ["bool", "i8", "u8", "i4", "u4", "i2", "u2", "qint8", "quint8", "qint16", "quint16", "qint32", "bf16", "f16",
        "f64", "f8_e4m3b11fnuz", "f4_e2m1", "f6_e2m3", "f6_e3m2", "c64", "c128", "u64"]
    for dtype in dtypes:
        tensors = [{"name": "t", "dtype": dtype, "shape": [3], "axes": None}]
        write("graph_write", f"dtype-{dtype}", json.dumps({"graph": None, "tensors": tensors}).encode())


def rule(source, target, **more) -> str:
    # A list or a text of JSON is one of TOML, too.
    pairs = {"from": source, "to": target} | more
    return "[[rule]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in pairs.items())


def mappings() -> None:
    split = lambda **more: rule("h{n:int}/qkv", ["{n}.q", "{n}.k"], **({"split": 1} | more))
    merge = lambda **more: rule(["l{n:int}/q", "l{n:int}/k"], "{n}.qk", **({"merge": 0} | more))
    tie = rule("wte", ["wte.weight", "lm_head.weight"], tie=True)
    tied = rule(["wte", "head"], "shared", tie=True)
    role = "[roles]\nkernel = ['permute 1 0', 'squeeze 0']\n"
    keeps = "identity = true\n"
    cases = [
        (split(), ["h0/qkv", "h11/qkv"]), (split(sizes=[2, 1]), ["h1/qkv"]), (split(sizes=[2]), []),
        (split(sizes=[0, 1]), []), (split(sizes=[1 << 62, 1 << 63]), []), (split(split=64), []), (split(merge=1), []),
        (merge(), ["l0/q", "l0/k", "l1/k", "l1/q"]), (merge(), ["l0/q"]), (merge(sizes=[1, 2]), ["l0/q", "l0/k"]),
        (merge(merge=99), []), (tie, ["wte"]), (tied, ["wte", "head"]), (tied, ["wte"]),
        (keeps + tie, ["wte", "wte.weight"]),
        (rule("a", ["b", "c"]), []), (rule("a", "b", split=0), []), (rule(["a", "b"], ["c", "d"], merge=0), []),
        (rule("a", "b", tie=True), []), (rule("a", "b", sizes=[1]), []), (rule(["a{x}", "b{y}"], "c", merge=0), []),
        (rule(["a{x}", "a{y}"], "c", merge=0), []), (rule(["a{x}", "a{x}"], "c{x}", merge=0), []),
        (rule(["a", "b{y}"], "c", merge=0), []), (rule("a", ["x", "x"], split=0), []),
        (rule(["{n}/x", "y/{n}"], "{n}", merge=0), ["y/x"]),
        (role + rule("k{n:int}", "{n}.w", role="kernel") + rule("v", "u", steps=["transpose", "unsqueeze 0"]),
            ["k1", "v"]),
        (role, []), (role + rule("a", "b", role="kernal") + rule("c", "d", role="kernel"), []),
        (rule("a", "b", role="kernel"), []), (role + rule("a", "b", role="kernel", steps=["transpose"]), []),
        (rule("a", "b", steps=["transpoze"]), []),
        ("[roles]\nr = ['squeeze']\n" + rule("a", "b", role="r"), []),
        ("separator = '.'\n" + rule("m.{x:path}", "{x}"), ["m.a.b", "m..b"]),
        ("target_separator = '.'\n" + rule("m/{x:path}", "{x}"), ["m/a/b", "m/a/"]), ("separator = '::'\n", []),
        ("separator = 'a'\n", []), ("separator = ''\n", []),
        (rule("{n:int}{*}", "{*}{{{*}}}{n}"), ["3*"]), (rule("{x", "y"), []), (rule("x}", "y"), []),
        (rule("", "y"), []), (rule("x", ""), []), (rule("a/*", "b"), []), (rule("a", "b/**"), []),
        ("ignore = ['a***']", []), ("ignore = ['', 'x']", []),
        (keeps + "ignore = ['a/*', '**/b', 'h{n:int}x', '*{*}']\n", ["a/x", "a/x/y", "q/r/b", "h7x", "z*"]),
        (rule("{}", "y"), []), (rule("{1x}", "y"), []), (rule("{x:integer}", "{x}"), []),
        (rule("{x}/{x:int}", "{x}"), []), (rule("{layer}", "{laier}"), []),
        (rule("{x}", "{x:int}"), []), (rule("{x}", "{x+1}"), []), (rule("{n+1:int}", "x"), []),
        (rule("{n:int}", "{n:int}"), []), (rule("{n:int}", "{n:int12}"), []), (rule("{n:int}", "{n+9999999}"), []),
        (rule("{n:int}", "{n+-1}"), []), (rule("{n:int}", "{n+}"), []),
        (rule("a{n:int}", "b{n+1:int3}"), ["a1", "a10", "a999"]),
        (rule("a{n:int3}", "b{n-1}"), ["a001", "a012", "a12"]), (rule("a{n:int}", "b{n-1}"), ["a0"]),
        (rule("a{n:int}", "b{n+1}"), ["a99999999999999999999"]),
        (rule("a{n:int9}/{w:word}-{s}", "{s}.{w}.{n}"), ["a000000001/w_1-ü", "a000000001/w-"]),
        (rule("{x}{y}", "{y}-{x}"), ["éü", "é", "ab"]), (rule("{x}/{y}", "{x}{y}"), ["a/bc", "ab/c", "a/b"]),
        (rule("{x}/{y}", "{x}{y}"), ["ab/c"]), (rule("{x}/{y}", "{x}"), ["a/b", "a/c"]),
        (rule("{x}", "{x}{x}"), ["a"]), (rule("{n:int}", ["a{n}", "b"], split=0), ["1"]),
        (rule("{n:int}", ["a{n}", "b{n+1}"], split=0), ["1"]),
        (rule("a", "b", inverse=False), ["a"]), (rule("a/{x}", "1.{x}") + rule("{y}/b", "2.{y}"), ["a/b"]),
        ("ordered = true\n" + rule("a/{x}", "1.{x}") + rule("{y}/b", "2.{y}"), ["a/b", "c/b"]),
        ("ordered = true\n" + rule("{a}/x", "{a}") + rule("{b}/x", "c"), []),
        (rule("a/{x}", "n.{x}") + rule("b/{y}", "n.{y}"), ["a/1", "b/2"]),
        (keeps + "[lookup]\n'a/1' = 'one'\n", ["a/1", "c"]), ("[lookup]\na = 'x'\nb = 'x'\n", []),
        ("[lookup]\n'' = 'x'\n", []), ("[lookup]\nx = ''\n", []), (keeps + "[lookup]\nmodel = 'x'\n", ["modell", "b"]),
        (keeps + "[lookup]\na = 'b'\n", ["a", "b"]), (rule("m", "m"), [f"n{n}" for n in range(9)]),
        (keeps, ["a", "a"]), (keeps, [""]), ("ignore_roles = ['optimizer']\nidentity = true\n", ["a"]),
        ("ignore_roles = ['weight']\n", []), ("ignore_roles = ['optimiser']\n", []),
        ("title = 'a'\ntitle = 'b'\n", []), ("colour = 1\n", []), ("identity = 1\n", []), ("separator = 1\n", []),
        ("lookup = 1\n", []), ("rule = 1\n", []), ("[[rule]]\nfrom = 'a'\n", []),
        ("[[rule]]\nfrom = 7\nto = 'a'\n", []), ("[[rule]]\nfrom = ['a', 7]\nto = 'a'\n", []),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nsplit = -1\n", []), ("title = ", []),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nsteps = 'transpose'\n", []), ("rule = [1]\n", []),
        ("[[rule]]\nfrom = 'a'\nto = 'b'\nsplit = 'x'\n", []), ("title = 'T'\nignore = ['x']\n" + keeps, ["x"]),
        ("ordered = true\n" + rule("a/{x:path}", "{x}") + rule("a/{n:int}", "n{n}"), []),
        ("ignore = ['opt/**']\n" + rule("opt/{w:word}", "{w}"), []),
        ("ignore = ['a*']\n" + rule("a{n:int3}", "{n}") + rule("b", "c"), []),
        (rule("a{x:path}b{y:path}", "{y}/{x}"), ["a1/2b3/4", "ab", "a1bb"]),
        (rule("{s:segment}/{t}", "{t}/{s}"), ["a/b"]), (keeps + rule("x{n:int}", "y{n}"), ["x1", "y1", "x01"]),
        (rule("a{n:int2}", "b{n}") + rule("a{n:int3}", "b{n}"), ["a12", "a012"]),
    ]
    for number, (text, names) in enumerate(cases):
        seed = text + ("\0" + "\n".join(names) if names else "")
        write("mapping", f"case-{number:03}", seed.encode())


def torch_read() -> None:
    """Pickles alone: the target makes an archive of them, whose checksums cannot be wrong."""
    one, text = make_torch.ONE, make_torch.text
    pickles = [
        make_torch.dict_(w=one), make_torch.call("torch._utils", "_rebuild_parameter", one, b"\x88", make_torch.ORDERED),
        make_torch.call("torch._tensor", "_rebuild_from_type_v2", b"ctorch\nf\n", b"ctorch\nTensor\n", b")", b"}"),
        make_torch.call("torch", "Size", b"K\x01K\x02\x86"), make_torch.call("torch", "device", text("cuda"), b"K\x01"),
        make_torch.call("_codecs", "encode", text("a"), text("latin1")), make_torch.call("pathlib", "PosixPath", text("/"), text("a")),
        make_torch.call("__builtin__", "set", b"]K\x01a"), make_torch.call("__builtin__", "complex", b"K\x01", b"K\x02"),
        b"}(" + text("state") + b"}K\0" + make_torch.dict_(exp_avg=one, step=one) + b"s" + text("param_groups")
        + b"]" + make_torch.dict_(params=b"]K\0a") + b"au",
        b"(I1\nL2L\nF1.5\nS'a\\n'\nVa\\u20ac\np0\n0g0\nia\nb\n", b"\x95\x05\0\0\0\0\0\0\0\x8c\1a\x94N\x86",
        b"(K\1K\2d(K\1l\x8f(K\1\x90(K\1\x91\x87", b"ca\nb\n)}\x92ca\nb\n)\x81}b\x86",
    ]
    for number, pickle in enumerate(pickles):
        write("torch_read", f"pickle-{number:02}", make_torch.pickle(pickle))


for make in (bullet_files, presets, architectures, nets, layers, safetensors_files, carried, nn_read, npz_read, cnn2_read,
    convolutions, mappings, torch_read):
    make()
