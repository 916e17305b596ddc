"""Checkpoints of bullet in all its forms, and broken ones."""

import struct

from common import Tensor, accept, f32, reject

# (3→2)x2→1 with two output buckets. Ids, rows, and values column by column; all of them are exact in f32.
NET = [
    ("l0w", 2, [0.5, -0.25, 0.125, -0.125, 0.75, 1.25]),
    ("l0b", 2, [0.015625, -0.03125]),
    ("l1w", 2, [0.875, -0.875, 0.3125, -0.3125, 0.625, 0.1875, -0.625, -0.1875]),
    ("l1b", 2, [0.0009765625, -0.001953125]),
]
SHAPES = {"l0w": [2, 3], "l0b": [2], "l1w": [2, 1, 4], "l1b": [2, 1]}
ARCH = "arch=simple:3x2x1,buckets=2"
SCALES = {"l0w": 255, "l0b": 255, "l1w": 64, "l1b": 255 * 64}
PLAIN = [ARCH, "profile=plain", "content=engine"]
STEPS = b"l1b,9\nl0w,9\nl0b,9\nl1w,9\n"


def rows(count, values):
    """Column by column to row by row."""
    return [value for row in range(count) for value in values[row::count]]


def records(net=NET, old=False) -> bytes:
    out = b""
    for name, count, values in net:
        sizes = (count, len(values) // count) if old else (len(values),)
        out += name.encode() + b"\n" + struct.pack(f"<{len(sizes)}Q", *sizes) + f32(*values)
    return out


def headerless(net=NET) -> bytes:
    return b"".join(f32(*values) for _, _, values in net)


def times(factor, net=NET):
    return [(name, count, [value * factor for value in values]) for name, count, values in net]


def quantised(filler=b"bullet", count=4) -> bytes:
    out = b""
    for name, height, values in NET[:count]:
        values = rows(height, values) if name == "l1w" else values
        # Halves away from zero, as bullet rounds.
        integers = [int(abs(value * SCALES[name]) + 0.5) * (1 if value >= 0 else -1) for value in values]
        out += struct.pack(f"<{len(integers)}h", *integers)
    missing = -len(out) % 64
    return out + (filler * missing)[:missing]


def members() -> list[bytes]:
    """What the profile plain aligns: the entries of quantised.bin."""
    whole, out = quantised(b""), []
    for _, _, values in NET:
        out.append(whole[: 2 * len(values)])
        whole = whole[2 * len(values) :]
    return out


def aligned(*parts: bytes) -> bytes:
    return b"".join(part + bytes(-len(part) % 64) for part in parts)


# (2→1)x2→1 with two input buckets: the first two columns are what both share.
COLUMNS = "arch=builder:2x1x1,inputs=2,factoriser=true,psqt=true"
COLUMNS_NET = [
    ("pst", 1, [1.0, 2.0, 0.25, 0.5, 0.75, 0.125]),
    ("l0w", 1, [0.5, 0.25, 0.125, -0.125, 0.75, -0.5]),
    ("l0b", 1, [0.015625]),
    ("l1w", 1, [0.875, -0.875]),
    ("l1b", 1, [0.0009765625]),
]


def columns() -> dict[str, bytes]:
    """With a network in which they are added, and integers are truncated."""
    merged = lambda values: [values[2 + k] + values[k % 2] for k in range(4)]
    _, l0w, l0b, l1w, l1b = (values for _, _, values in COLUMNS_NET)
    scaled = [(merged(l0w), 255), (l0b, 255), (l1w, 64), (l1b, 255 * 64)]
    integers = [int(value * scale) for values, scale in scaled for value in values]
    network = f32(*merged(COLUMNS_NET[0][2])) + struct.pack(f"<{len(integers)}h", *integers)
    return {
        "optimiser_state/weights.bin": records(COLUMNS_NET),
        "raw.bin": headerless(COLUMNS_NET),
        "quantised.bin": network + (b"bullet" * 11)[: -len(network) % 64],
    }


def columns_tensors() -> list[Tensor]:
    out = []
    for name, _, values in COLUMNS_NET:
        shape = {"l1w": [1, 2]}.get(name, [1])
        if len(values) == 6:
            shared = {"pst": "pstf", "l0w": "l0f"}[name]
            out.append(Tensor(shared, "f32", [1, 2], f32(*values[:2])))
            shape, values = [2, 1, 2], values[2:]
        out.append(Tensor(name, "f32", shape, f32(*values)))
    return out


def state(write=records, weights="weights.bin", folder="optimiser_state/") -> dict[str, bytes]:
    files = {weights: write(NET), "momentum.bin": write(times(0.5)), "velocity.bin": write(times(0.25))}
    return {folder + name: data for name, data in files.items()}


def tensors(prefix="", factor=1.0, shapes=SHAPES) -> list[Tensor]:
    return [
        Tensor(prefix + name, "f32", shapes.get(name, [len(values)]), f32(*(factor * v for v in (rows(count, values) if name in shapes else values))))
        for name, count, values in NET
    ]


def everything(shapes=SHAPES):
    return tensors(shapes=shapes) + tensors("momentum/", 0.5, shapes) + tensors("velocity/", 0.25, shapes)


def integers() -> list[Tensor]:
    out = []
    for name, count, values in NET:
        each = [int(abs(value * SCALES[name]) + 0.5) * (1 if value >= 0 else -1) for value in rows(count, values)]
        out.append(Tensor(name, "f32", SHAPES[name], f32(*(value / SCALES[name] for value in each))))
    return out


def accepted():
    whole = state() | {"raw.bin": headerless(), "quantised.bin": quantised()}
    yield accept("adamw", "a directory of AdamW's", whole, "", everything(), [ARCH])
    yield accept("adamw_alone", "without an architecture: lists of numbers", whole, "", everything({}))
    radam = state() | {"optimiser_state/step.txt": STEPS}
    yield accept("radam", "RAdam: step.txt", radam, "", everything(), [ARCH, "optimiser=radam"])
    ranger = radam | {"optimiser_state/slow.bin": records(times(2.0))}
    slow = everything() + tensors("slow/", 2.0)
    yield accept("ranger", "Ranger: slow.bin", ranger, "", slow, [ARCH, "optimiser=ranger"])
    yield accept("old_records", "records with rows and columns: 2024-10 to 2025-02-12", state(lambda net: records(net, True)), "", everything(), [ARCH])
    failed = state() | {"quantised.bin": b""}
    yield accept("failed", "a quantised.bin without bytes beside whole weights", failed, "", everything(), [ARCH])
    yield accept("folder", "the optimiser's folder itself", state(folder=""), "", everything(), [ARCH])
    file = {"quantised.bin": quantised()}
    yield accept("quantised", "integers stand for numbers", file, "quantised.bin", integers(), [ARCH])
    file = {"net.nnue": quantised()}
    yield accept("engine_name", "a quantised.bin under an engine's name", file, "net.nnue", integers(), [ARCH])
    before = state(headerless, "params.bin")
    yield accept("before_2024_10", "files without ids, in the order of the layers", before, "", everything(), [ARCH], told=False)
    engine = {"net.nnue": aligned(*members())}
    yield accept("engine", "an engine's file", engine, "net.nnue", integers(), PLAIN, told=False)
    yield accept("columns", "a factoriser in the first columns of l0w and pst", columns(), "", columns_tensors(), [COLUMNS])
    file = {"weights.bin": records(NET[::-1])}
    yield accept("any_order", "records in any order", file, "weights.bin", tensors()[::-1], [ARCH])


def rejected():
    def weights(name, why, data, kind="corrupt", options=()):
        return reject(name, why, {"weights.bin": data}, "weights.bin", kind, options)

    def number(value):
        return struct.pack("<Q", value)

    yield weights("empty", "bullet would load it silently", b"")
    yield weights("cut_count", "ends within a count", b"l0w\n\1\0\0")
    yield weights("cut_values", "ends within the values", records()[:-1])
    yield weights("rest", "bytes after the last record", records() + b"x")
    yield weights("huge_count", "2^64 - 1 numbers", b"l0w\n" + number(2**64 - 1))
    yield weights("huge_rows", "rows times columns overflow", b"l0w\n" + number(2**63) + number(2**63) + bytes(4))
    yield weights("no_values", "a record of no numbers", b"l0w\n" + number(0))
    yield weights("no_id", "an id of no letters", b"\n" + number(1) + bytes(4))
    yield weights("binary_id", "an id that is no text", b"l\xff\n" + number(1) + bytes(4))
    yield weights("endless_id", "an id without end", b"a" * 4096)
    yield weights("twice", "two records of one id", records() + records(NET[:1]))
    yield weights("missing", "a weight has no record", records(NET[:3]), options=[ARCH])
    yield weights("unknown", "a record of no layer", records(NET + [("l9w", 1, [0.0])]), "usage", [ARCH])
    yield weights("other_net", "more numbers than the layer has", records(), "usage", ["arch=simple:2x2x1,buckets=2"])
    both = b"a\n" + number(2) + number(2) + b"bcd\n" + number(1) + bytes(4)
    yield weights("both_forms", "fits both forms of records", both, "usage")
    yield weights("bad_preset", "a preset of no family", records(), "usage", ["arch=complex:3x2x1"])
    yield weights("zero_size", "a layer without neurons", records(), "usage", ["arch=simple:3x0x1"])
    yield weights("huge_size", "sizes that overflow", records(), "usage", ["arch=simple:4294967295x4294967295x4294967295,buckets=4294967295,inputs=4294967295"])
    for name, why, gone in [
        ("no_velocity", "momentum.bin without velocity.bin", "optimiser_state/velocity.bin"),
        ("no_weights", "moments without weights", "optimiser_state/weights.bin"),
    ]:
        files = {name: data for name, data in state().items() if name != gone}
        yield reject(name, why, files, "", "io" if "velocity" in gone else "corrupt", [ARCH])
    other = state() | {"optimiser_state/momentum.bin": records(NET[:3])}
    yield reject("moment_missing", "a weight has no moment", other, "")
    for name, why, text in [
        ("step_cut", "step.txt ends within a line", STEPS[:-1]),
        ("step_missing", "step.txt lacks a weight", STEPS[:12]),
        ("step_text", "a step that is no number", STEPS.replace(b"9", b"x")),
    ]:
        yield reject(name, why, state() | {"optimiser_state/step.txt": text}, "", options=[ARCH])
    for name, why, data, kind in [
        ("quantised_empty", "what bullet leaves when a number does not fit", b"", "corrupt"),
        ("quantised_unfilled", "not filled up to 64 bytes", quantised()[:36], "corrupt"),
        ("quantised_filler", "filled up with something else", quantised(b"Bullet"), "corrupt"),
        ("quantised_cut", "ends within an entry", quantised()[:35], "usage"),
        ("quantised_long", "goes on after the filler", quantised() + bytes(64), "usage"),
    ]:
        yield reject(name, why, {"quantised.bin": data}, "quantised.bin", kind, [ARCH])
    good = members()
    for name, why, data, kind in [
        ("engine_gap", "something between two members", aligned(good[0] + b"x", *good[1:]), "corrupt"),
        ("engine_cut", "ends within a member", aligned(*good)[:130], "usage"),
        ("engine_long", "goes on after the last member", aligned(*good) + bytes(64), "usage"),
        ("engine_unaligned", "members without gaps", b"".join(good), "usage"),
    ]:
        yield reject(name, why, {"net.nnue": data}, "net.nnue", kind, PLAIN)
    engine = {"net.nnue": aligned(*good)}
    yield reject("engine_unknown", "no such profile", engine, "net.nnue", "usage", [ARCH, "profile=avx2"])
    yield reject("engine_alone", "an engine's file that nothing explains", engine, "net.nnue", "usage", [ARCH])
    other = state() | {"quantised.bin": quantised()[:14] + b"\1" + quantised()[15:]}
    yield reject("other_network", "a network of other weights", other, "", "mismatch", [ARCH, "check=true"])
    other = columns() | {"raw.bin": headerless(COLUMNS_NET)[8:]}
    yield reject("columns_cut", "raw.bin without the factoriser's columns", other, "", "usage", [COLUMNS])
    yield reject("raw_alone", "numbers that nothing explains", {"raw.bin": headerless()}, "raw.bin", "usage")
    yield reject("raw_cut", "raw.bin ends within a number", {"raw.bin": headerless()[:-1]}, "raw.bin", "usage", [ARCH])
    yield reject("raw_long", "raw.bin goes on", {"raw.bin": headerless() + bytes(4)}, "raw.bin", "usage", [ARCH])
