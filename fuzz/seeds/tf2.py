"""Seeds of the fuzz targets that read TensorFlow checkpoints; `fuzz/seed.sh` runs it.

Each is a case that the corpus does not have.
"""

import json
import pathlib
import struct
import sys

import functions
import make_tf2
import objects
from bundle import (
    DTYPES,
    HEADER,
    Bundle,
    block_contents,
    entry_proto,
    header_proto,
    message,
    number,
    sealed,
    slice_key,
    string_bytes,
    table,
    tail,
    varint,
)
from common import Tensor, crc32c, masked

KEYS, LENIENT, PLAIN, WITHOUT_FIRST = 1, 2, 8, 16


def main() -> None:
    out = pathlib.Path(sys.argv[1])
    for target, seeds in {
        "tf2_files": files(),
        "tf2_entries": entries(),
        "tf2_saved_model": saved_models(),
    }.items():
        for name, seed in seeds.items():
            assert len(seed) <= 16 << 10, (target, name, len(seed))
            (out / target / name).write_bytes(seed)


# What `inputs::files` takes.


def named(files: dict[str, bytes], entry="", options=0) -> bytes:
    """Options · u8 length · name of what the user names, and of each file u8 length · name · u16 length · bytes."""
    name = lambda text: bytes([len(text.encode())]) + text.encode()
    each = (name(path) + struct.pack("<H", len(data)) + data for path, data in files.items())
    return bytes([options]) + name(entry) + b"".join(each)


def files() -> dict[str, bytes]:
    plain = make_tf2.bundle().files()
    beside = lambda text, name="m": named(make_tf2.bundle().files(name) | {"checkpoint": text.encode()})
    latest = lambda path: beside(f'model_checkpoint_path: "{path}"')
    seeds = {
        "state_escapes": beside(r"""model_checkpoint_path: '\x6' "d" # one text""", "\6d"),
        "state_octal": latest(r"\155"),
        "state_short_octal": beside(r"""model_checkpoint_path: "\1" '\68' """, "\1\68"),
        "state_large_octal": latest(r"\777"),
        "state_other_escapes": latest(r"\n\t\r\q\\"),
        "state_bad_hex": latest(r"\xg"),
        "state_escape_at_the_end": beside('model_checkpoint_path: "\\'),
        "state_without_end": beside('model_checkpoint_path: "m'),
        "state_two_lines": beside('model_checkpoint_path: "m\n"'),
        "state_not_utf8": latest(r"\xff"),
        "state_empty": latest(""),
        "state_of_nothing": beside(""),
        "state_no_token": beside('model_checkpoint_path: "m" \1'),
        "state_nested": beside('a { b: <c: [1, "x"];> } model_checkpoint_path: "m", d: 1.5e9'),
        "state_unbalanced": beside('} model_checkpoint_path: "m"'),
        "state_open": beside('{ model_checkpoint_path: "m"'),
        "state_many": named({"checkpoint": b'model_checkpoint_path: "gone"'} | {f"m{n}.index": b"" for n in range(13)}),
        "state_up": latest("a/../m"),
        "state_outside": latest("../m"),
        "state_of_windows": latest(r"C:\\run\\m"),
        "state_dots": latest(".."),
        "state_of_itself": latest("checkpoint"),
        "state_gone": named({"checkpoint": b'model_checkpoint_path: "m"'}),
        "state_of_v1": named({"checkpoint": b'model_checkpoint_path: "m"', "m": table([(b"", b"\x0a\0")])}),
        "state_as_file": named(plain | make_tf2.state("m"), "checkpoint"),
        "directory": named(plain),
        "directory_empty": named({}),
        "directory_of_other_files": named({"a.txt": b"a", ".index": b""}),
        "directory_of_several": named(plain | make_tf2.bundle().files("n")),
        "v1": named({"m": table([(b"", b"\x0a\0")])}, "m"),
        "leveldb": named({"m.ldb": plain["m.index"]}, "m.ldb"),
        "leveldb_sst": named({"000005.sst": plain["m.index"]}, "000005.sst"),
        "nothing": named({}, "m"),
        "outside": named(plain, "../m.index"),
        "index_without_end": named(plain | {"m.index": plain["m.index"][:-48]}, "m"),
        "index_of_two_bytes": named(plain | {"m.index": b"\0\0"}, "m"),
        "index_of_something_else": named({"m.index": bytes(range(99))}, "m.index"),
    }
    inside = make_tf2.bundle(make_tf2.with_graph(("a", "b"))).files("variables/variables")
    model, metadata = {"saved_model.pb": make_tf2.saved_model()}, {"keras_metadata.pb": b"\xff"}
    seeds |= {
        "saved_model_directory": named(inside | model | metadata),
        "saved_model_file": named(inside | model | metadata, "saved_model.pb"),
        "saved_model_alone": named(model, "saved_model.pb"),
        "saved_model_variables": named(inside, "variables/variables"),
    }
    return seeds | lenient() | tables() | partitioned() | stored() | written()


def lenient() -> dict[str, bytes]:
    """Tables whose restart points and separators are wrong, as they are and read in sequence."""
    made = make_tf2.bundle()
    contents, data = block_contents(made.sorted())[:-8], {make_tf2.DATA: bytes(made.data[0])}
    seeds = {}
    for name, separator, restarts in [
        ("end", b"z", [0, len(contents)]),
        ("middle", b"z", [4]),
        ("shared", b"z", [0, 1]),
        ("separator", b"", [0]),
        ("swift", b"", [0, len(contents)]),
    ]:
        block = contents + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))
        index = sealed(block) + tail(len(block) + 5, [(separator, varint(0) + varint(len(block)))])
        for options in (0, LENIENT):
            seeds[f"restarts_{name}_{options}"] = named(data | {"m.index": index}, "m", options)
    return seeds


def tables() -> dict[str, bytes]:
    """Tables that are broken in ways that the corpus does not have."""
    block = block_contents([(b"", HEADER)])
    handle = lambda at, size: varint(at) + varint(size)
    of = lambda index: named({"m.index": index}, "m")
    twice = sealed(block) + tail(len(block) + 5, [(b"a", handle(0, len(block))), (b"b", handle(0, len(block)))])
    second = block_contents([(b"b", HEADER)])
    across = sealed(block) + sealed(second)
    across += tail(len(across), [(b"c", handle(0, len(block))), (b"d", handle(len(block) + 5, len(second)))])
    no_restart = sealed(struct.pack("<I", 0))
    return {
        "table_twice": of(twice),
        "table_across": of(across),
        "table_no_restart": of(no_restart + tail(len(no_restart), [(b"z", handle(0, 4))])),
        "table_no_handle": of(sealed(block) + tail(len(block) + 5, [(b"z", b"\xff")])),
        "table_large_block": of(b"x" * 9000 + tail(9000, [(b"z", handle(0, 10_000))])),
        "header_endian": of(table([(b"", header_proto(endian=2))])),
        "header_producer": of(table([(b"", header_proto(version=number(1, -1)))])),
    }


def partitioned() -> dict[str, bytes]:
    """Strings in slices, and slices that are wrong."""
    left, right = [(0, -1), (0, 1)], [(0, -1), (1, 1)]
    top, bottom = [(0, 1), (0, -1)], [(1, 1), (0, -1)]

    def strings(boxes, elements, endian="<", dtype="string", shards=1, shape=(2, 2)) -> Bundle:
        made = Bundle(shards, header=header_proto(shards, int(endian == ">")))
        made.entries[b"parts"] = entry_proto(DTYPES[dtype], list(shape), slices=boxes)
        for number, (box, texts) in enumerate(zip(boxes, elements)):
            lengths = [shape[axis] if length < 0 else length for axis, (_, length) in enumerate(box)]
            stored, crc = string_bytes(texts, endian)
            shard = number % shards
            at = made.store(stored, shard)
            made.entries[slice_key("parts", box)] = entry_proto(DTYPES[dtype], lengths, shard, at, len(stored), crc)
        return made

    columns, rows = [[b"a", b"cc"], [b"b", b"d"]], [[b"a", b"b"], [b"cc", b"d"]]
    flipped = strings([left, right], columns)
    flipped.data[0][-1] ^= 1
    none = [[b"", b""], [b"", b""]]
    overlapping = [[(0, 2), (0, 1)], [(0, 1), (0, 2)]]
    numbers = lambda boxes: Bundle().add_slices("w", "u8", [4], [(box, bytes(box[0][1])) for box in boxes])
    of = lambda made, options=0: named(made.files(), "m", options)
    inner = numbers([[(0, 2)], [(2, 2)]])
    half = slice_key("w", [(0, 2)])
    inner.entries[half] = entry_proto(DTYPES["u8"], [2], 0, 0, 2, slices=[[(0, 2)]])
    inner.entries[slice_key(half.decode("latin-1"), [(0, 2)], "latin-1")] = entry_proto(DTYPES["u8"], [2], 0, 0, 2)
    flat = Bundle()
    flat.entries[b"w"] = entry_proto(DTYPES["u8"], [4], slices=[[(0, 4), (0, 1)]])
    flat.entries[slice_key("w", [(0, 4), (0, 1)])] = entry_proto(DTYPES["u8"], [4, 1], 0, 0, 4)
    escaped = Bundle()
    escaped.entries[b"a\0\xff"] = entry_proto(DTYPES["u8"], [64], slices=[[(0, 64)]])
    at = escaped.store(bytes(64))
    sliced = entry_proto(DTYPES["u8"], [64], 0, at, 64, masked(crc32c(bytes(64))))
    escaped.entries[slice_key("a\0\xff", [(0, 64)], "latin-1")] = sliced
    unlisted = numbers([[(0, 2)], [(2, 2)]])
    unlisted.entries[slice_key("w", [(1, 1)])] = entry_proto(DTYPES["u8"], [1], 0, 0, 1, masked(crc32c(b"\0")))
    short = numbers([[(0, 2)], [(2, 2)]])
    short.entries[slice_key("w", [(0, 2)])] = entry_proto(DTYPES["u8"], [2], 0, 0, 1, masked(crc32c(b"\0")))
    before = Bundle()
    before.entries[b"w"] = entry_proto(DTYPES["u8"], [4], slices=[[(-2, 4)]])
    before.entries[slice_key("w", [(-2, 4)])] = entry_proto(DTYPES["u8"], [4], 0, 0, 4)
    odd = Bundle().add("\0a\0b", "u8", [1], b"x").add("\0a", "u8", [1], b"y").add("\0a\xff", "u8", [1], b"z")
    odd.entries |= {key: odd.entries[b"\0a"] for key in (b"\0a\xffb", b"\0a\0\1", b"\0a\0\xff\xff\0\0\1\1")}
    return {
        "strings_columns": of(strings([left, right], columns)),
        "strings_rows": of(strings([top, bottom], rows)),
        "strings_big_endian": of(strings([left, right], columns, ">")),
        "strings_two_shards": of(strings([left, right], columns, shards=2)),
        "strings_flipped": of(flipped),
        "strings_empty": of(strings([left, right], none)),
        "strings_overlap": of(strings(overlapping, columns)),
        "strings_cover": of(strings([left], columns)),
        "strings_in_one": of(strings([[(0, -1), (0, -1)]], [[b"a", b"b", b"c", b"d"]])),
        "variants_in_slices": of(strings([left, right], columns, dtype="variant")),
        "slice_of_slices": of(inner),
        "slice_of_more_axes": of(flat),
        "slice_unlisted": of(unlisted),
        "slice_too_short": of(short),
        "slice_before": of(before),
        "slice_of_an_escaped_name": of(escaped),
        "names_like_slices": of(odd),
        "far_slices": of(Bundle().add_slices("w", "u8", [1 << 20], [([(0, 1 << 20)], b"")])),
    }


def stored() -> dict[str, bytes]:
    """Values that are wrong, or lie in many files."""
    of = lambda made: named(made.files(), "m")
    big = Bundle(header=header_proto(endian=1))
    big.add_elements("texts", "string", [2], [b"big", b""], ">").add_elements("none", "string", [1], [b""], ">")
    big.add_elements("variants", "variant", [1], [b""])
    no_bytes = Bundle().add("none", "f32", [0], b"", crc=7)
    empty, crc = string_bytes([b""])
    message_of = lambda body: Bundle().add_elements("v", "variant", [1], [body])
    flipped = Bundle().add_elements("v", "variant", [1], [b""])
    flipped.data[0][1] ^= 1
    longer = Bundle().add("v", "variant", [0], b"12345", crc=masked(0))
    ends = Bundle().add("v", "variant", [0], b"", crc=5)
    many = Bundle(20, header=header_proto(20))
    for shard in range(20):
        texts, sum = string_bytes([b"x"])
        many.add(f"t{shard:02}", "string", [1], texts, shard, sum)
    again, sum = string_bytes([b"y"])
    many.add("u", "string", [1], again, 0, sum)
    long = Bundle().add_elements("long", "string", [2], [b"x" * 3000, b"y" * 2000])
    lengths = Bundle().add_elements("lengths", "string", [1200], [b"z"] * 1200)
    without = Bundle().add_elements("s", "string", [1], [b"x"])
    far = Bundle()
    far.entries[b"s"] = entry_proto(DTYPES["string"], [1], 0, 2**62, 100, 0)
    return {
        "big_endian_texts": of(big),
        "no_bytes_checksum": of(no_bytes),
        "no_text_checksum": of(Bundle().add("s", "string", [1], empty, crc=crc ^ 1)),
        "no_text": of(Bundle().add("s", "string", [1], empty, crc=crc)),
        "string_endless_length": of(Bundle().add("s", "string", [1], b"\xff" * 20, crc=0)),
        "string_checksum_cut": of(Bundle().add("s", "string", [1], b"\xff\xff\xff\1\1", crc=0)),
        "strings_fewer_bytes": of(Bundle().add("s", "string", [1], empty + b"xyz", crc=crc)),
        "variant_fields": of(message_of(b"\x08\1\x11" + bytes(8) + b"\x1a\1x\x25" + bytes(4))),
        "variant_field_0": of(message_of(b"\0\1")),
        "variant_wire_7": of(message_of(b"\x0f\1")),
        "variant_past_end": of(message_of(b"\x0a\x05x")),
        "variant_short_field": of(message_of(b"\x11\1")),
        "variant_empty_checksum": of(flipped),
        "variants_left_over": of(longer),
        "variants_checksum": of(ends),
        "twenty_shards": of(many),
        "long_strings": of(long),
        "many_lengths": of(lengths),
        "far_string": of(far),
        "no_data_of_strings": named({"m.index": without.files()["m.index"]}, "m"),
        "long_key_of_nothing": named({"m.index": table([(b"", HEADER), (b"k" * 1100, b"")])}, "m"),
        "object_graph_of_numbers": of(Bundle().add("_CHECKPOINTABLE_OBJECT_GRAPH", "f32", [], bytes(4))),
        "object_graphs": of(Bundle().add_elements("_CHECKPOINTABLE_OBJECT_GRAPH", "string", [2], [b"a", b"b"])),
    }


def written() -> dict[str, bytes]:
    """What is written again without a tensor, or under plain keys."""
    keys = [f"model/layer-0/{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in ("kernel", "bias")]
    whole = make_tf2.with_graph(tuple(keys))
    cases = {"graph": make_tf2.bundle(whole), "one": make_tf2.bundle(whole[1:]), "basic": make_tf2.bundle()}
    cases["garbage"] = make_tf2.bundle(
        [*whole[:2], Tensor("_CHECKPOINTABLE_OBJECT_GRAPH", "string", [], [b"\x0a\x05a"])]
    )
    return {
        f"written_{name}_{options}": named(made.files(), "m", options)
        for name, made in cases.items()
        for options in (PLAIN, WITHOUT_FIRST, PLAIN | WITHOUT_FIRST, KEYS | PLAIN)
    }


# What `inputs::entries` takes.


def entries() -> dict[str, bytes]:
    """Names that TensorFlow 1 gives, and keys that are no text."""
    names = [
        "dense/kernel",
        "dense/kernel/Adam",
        "dense/kernel/Adam_1",
        "dense/kernel/Momentum",
        "dense/kernel/Adam_x",
        "dense/kernel/Other",
        "beta1_power",
        "beta2_power",
        "global_step",
        "a/.OPTIMIZER_SLOT/o/m/.ATTRIBUTES/VARIABLE_VALUE",
        "dense/bias",
        "conv/depthwise_kernel",
        "conv/kernel",
    ]
    shapes = {"conv/depthwise_kernel": [1, 1, 2, 2], "conv/kernel": [1, 1, 2, 2], "dense/bias": [2]}
    made = Bundle()
    for name in names:
        scalar = name in ("beta1_power", "beta2_power", "global_step")
        dtype = "i64" if name == "global_step" else "f32"
        shape = [] if scalar else shapes.get(name, [2, 2])
        size = 8 if dtype == "i64" else 4
        for axis in shape:
            size *= axis
        made.add(name, dtype, shape, bytes(size))
    unsorted = Bundle().add("a\\", "u8", [1], b"x")
    unsorted.entries |= {b"a\xff": unsorted.entries[b"a\\"], "aé".encode(): unsorted.entries[b"a\\"]}
    return {name: flat(made) for name, made in make_tf2.bundles().items()} | {
        "tensorflow_1": flat(made),
        "no_text": flat(unsorted),
        "long_key": flat(Bundle().add("k" * 254, "u8", [1], b"x")),
    }


def flat(made: Bundle) -> bytes:
    """Entries, each u8 length of key · u8 length of value · key · value; 255 and another byte; the data."""
    pairs = b"".join(bytes([len(key), len(value)]) + key + value for key, value in made.sorted())
    return pairs + b"\xff\0" + b"".join(made.data)


# What `saved_model::Parts` takes.


def saved_models() -> dict[str, bytes]:
    """A zero, the object graph and saved_model.pb with their lengths, and keras_metadata.pb."""
    prefixed = lambda part: struct.pack("<I", len(part)) + part
    keras = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [
        {"class_name": "Dense", "config": {"name": "d", "activation": "relu", "batch_input_shape": [None, 6]}}]}})
    metadata = message(1, message(3, b"root") + message(5, keras.encode()))
    cases = functions.cases() | objects.cases() | {
        "functions": (make_tf2.object_graph(), make_tf2.saved_model(), b""),
        "layers": (make_tf2.object_graph(), b"", metadata),
        "endless": (make_tf2.endless_models(), b"", b""),
    }
    return {name: b"\0" + prefixed(graph) + prefixed(model) + rest for name, (graph, model, rest) in cases.items()}


main()
