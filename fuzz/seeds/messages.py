"""The messages that lie beside variables, field by field; `body` is a SavedModel of one function."""

import struct

from bundle import message, varint

# As in fuzz/src/saved_model.rs.
VARIABLES = ("dense", "next", "conv", "bias", "gamma", "beta", "moving_mean", "moving_variance", "iterations")
# Object graph, saved_model.pb and keras_metadata.pb.
Parts = tuple[bytes, bytes, bytes]


def text(tag: int, value: str) -> bytes:
    return message(tag, value.encode())


def field(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value)


# The object graph.


class Objects:
    """The root, which holds the variables but those `apart`, and more."""

    def __init__(self, full_names: dict[str, str] | None = None, apart: tuple[str, ...] = ()):
        self.nodes = [b""] * (1 + len(VARIABLES))
        for id, key in enumerate(VARIABLES, 1):
            if key not in apart:
                self.link(0, key, id)
            self.store(id, (full_names or {}).get(key, ""), key)

    def child(self, parent: int, name: str) -> int:
        self.nodes.append(b"")
        return self.link(parent, name, len(self.nodes) - 1)

    def link(self, parent: int, name: str, child: int) -> int:
        self.nodes[parent] += message(1, field(1, child) + text(2, name))
        return child

    def hold(self, parent: int, name: str, **children: str) -> int:
        """A child that holds variables."""
        child = self.child(parent, name)
        for edge, key in children.items():
            self.link(child, edge, 1 + VARIABLES.index(key))
        return child

    def list(self, parent: int, name: str, *keys: str) -> int:
        return self.hold(parent, name, **{str(place): key for place, key in enumerate(keys)})

    def store(self, id: int, full_name: str, key: str, attribute="VARIABLE_VALUE") -> None:
        self.nodes[id] += message(2, text(1, attribute) + text(2, full_name) + text(3, key))

    def slot(self, optimizer: int, variable: str, name: str, slot: str) -> None:
        original, stored = (1 + VARIABLES.index(key) for key in (variable, slot))
        self.nodes[optimizer] += message(3, field(1, original) + text(2, name) + field(3, stored))

    def bytes(self) -> bytes:
        return b"".join(message(1, node) for node in self.nodes)


# Functions.


def node(name: str, op: str, *inputs: str, **attributes: bytes) -> bytes:
    attr = b"".join(message(5, text(1, key) + message(2, value)) for key, value in attributes.items())
    return message(3, text(1, name) + text(2, op) + b"".join(text(3, name) for name in inputs) + attr)


def flag(value: bool) -> bytes:
    return field(5, value)


def kind(dtype: int) -> bytes:
    return field(6, dtype)


def ints(*values: int) -> bytes:
    return message(1, message(3, b"".join(map(varint, values))))


def single(value: float) -> bytes:
    return varint(4 << 3 | 5) + struct.pack("<f", value)


def called(name: str) -> bytes:
    return message(10, text(1, name))


def shape(*dims: int) -> bytes:
    return b"".join(message(2, field(1, dim)) for dim in dims)


def const(name: str, dtype: int, values: bytes, *dims: int, **more: bytes) -> bytes:
    return node(name, "Const", value=message(8, field(1, dtype) + message(2, shape(*dims)) + values), **more)


def numbers(name: str, *values: int) -> bytes:
    return const(name, 3, message(7, b"".join(map(varint, values))), len(values))


def number(name: str, value: float) -> bytes:
    return const(name, 1, message(5, struct.pack("<f", value)))


def function(
    name: str, nodes: bytes, result: str, takes: bytes = b"", arguments: tuple[str, ...] | None = None
) -> bytes:
    """Of x and the variables, each of which is read under its own name; `takes`: the attribute that says x's shape."""
    arguments = ("x", *(f"r_{key}" for key in VARIABLES)) if arguments is None else arguments
    reads = b"".join(node(key, "ReadVariableOp", f"r_{key}") for key in VARIABLES)
    signature = (
        text(1, name) + b"".join(message(2, text(1, argument)) for argument in arguments) + message(3, text(1, "out"))
    )
    attributes = message(7, field(1, 0) + message(2, message(1, text(1, "_output_shapes") + message(2, takes))))
    return message(1, signature) + reads + nodes + message(4, text(1, "out") + text(2, result)) + attributes


ROOT = len(VARIABLES)


def model(*functions: bytes, objects: bytes | None = None, served="f", bound=range(1, ROOT + 1)) -> bytes:
    library = b"".join(message(1, function) for function in functions)
    concrete = message(2, text(1, served) + message(2, message(2, b"".join(map(varint, bound)))))
    objects = serving(message(8, text(1, served))) if objects is None else objects
    return message(2, message(2, message(2, library)) + message(7, objects + concrete))


def child(id: int, name: str) -> bytes:
    return message(1, field(1, id) + text(2, name))


def serving(function: bytes, signature="serving_default", more: bytes = b"", objects: tuple[bytes, ...] = ()) -> bytes:
    """The SavedModel's objects: the root with its variables and `more`, the signatures, what serves, and `objects`."""
    variables = b"".join(child(id, key) for id, key in enumerate(VARIABLES, 1))
    nodes = [variables + child(ROOT + 1, "signatures") + more, *[message(7, b"")] * ROOT, child(ROOT + 2, signature)]
    return b"".join(message(1, node) for node in [*nodes, function, *objects])


def body(nodes: bytes, result: str, takes: bytes = b"") -> Parts:
    return Objects().bytes(), model(function("f", nodes, result, takes)), b""


def stated(*dims: int) -> bytes:
    return message(1, message(7, shape(*dims)))


MATRIX, IMAGE, ANY_IMAGE = stated(-1, 6), stated(-1, 5, 5, 2), stated(-1, -1, -1, 2)
WINDOW = {"strides": ints(1, 2, 2, 1), "padding": text(2, "SAME")}
