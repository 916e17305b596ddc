"""bullet's networks with numpy: records of weights, features of chess positions, and what a network makes of them."""

import struct

import numpy as np

ACTIVATIONS = {
    "identity": lambda x: x, "relu": lambda x: np.maximum(x, 0), "crelu": lambda x: np.clip(x, 0, 1),
    "screlu": lambda x: np.clip(x, 0, 1) ** 2, "sqrrelu": lambda x: np.maximum(x, 0) ** 2,
}


def shapes(net: dict) -> dict[str, tuple[int, ...]]:
    """Of each tensor of an architecture file, as it lies in a file: columns, then rows `[bucket, out]`."""
    features, buckets = net["input"]["features"], net["input"].get("buckets", {}).get("count", 1)
    choices, width = net.get("output_buckets", {}).get("count", 1), 0
    found = {"pst": (buckets * features, 1)} if net.get("psqt") else {}
    for index, layer in enumerate(net["layers"]):
        rows = (choices if layer.get("bucketed", index > 0) else 1, layer["size"])
        found[f"l{index}w"] = ((width if index else buckets * features), *rows)
        found[f"l{index}b"] = rows
        if index == 0 and net["input"].get("factoriser"):
            found["l0f"] = (features, *rows)
        width = layer["size"] // (2 if layer.get("pairwise") else 1) * (2 if index == 0 else 1) * (2 if layer.get("dual") else 1)
    return found


def write(tensors: dict[str, np.ndarray]) -> bytes:
    """`optimiser_state/weights.bin`."""
    return b"".join(name.encode() + b"\n" + struct.pack("<Q", tensor.size) + tensor.astype("<f4").tobytes()
                    for name, tensor in tensors.items())


def position(fen: str) -> tuple[list[tuple[int, str]], bool]:
    """Square and letter of every piece, and whether black is to move."""
    placement, side = fen.split()[:2]
    for gap in range(1, 9):
        placement = placement.replace(str(gap), "." * gap)
    ranks = placement.split("/")
    squares = "".join(reversed(ranks))
    return [(square, piece) for square, piece in enumerate(squares) if piece != "."], side == "b"


def features(fen: str, net: dict) -> tuple[list[int], list[int]]:
    """Of the side to move and of the other: each sees its own pieces at the bottom of the board."""
    pieces, black = position(fen)
    buckets = net["input"].get("buckets", {})
    layout, mirrored = buckets.get("layout", []), buckets.get("mirrored", False)
    found = []
    for own in "bw" if black else "wb":
        flip = 56 if own == "b" else 0
        is_own = str.islower if own == "b" else str.isupper
        king = next(square ^ flip for square, piece in pieces if piece in "Kk" and is_own(piece))
        file = king % 8
        base = 768 * layout[king // 8 * 4 + min(file, 7 - file) if len(layout) == 32 else king] if layout else 0
        mirror = 7 if mirrored and file > 3 else 0
        found.append([base + (0 if is_own(piece) else 384) + 64 * "pnbrqk".index(piece.lower()) + (square ^ flip ^ mirror)
                      for square, piece in pieces])
    return found[0], found[1]


def bucket(fen: str, count: int) -> int:
    return (len(position(fen)[0]) - 2) // -(-32 // count)


def forward(net: dict, tensors: dict[str, np.ndarray], fen: str) -> np.ndarray:
    """The network's outputs, in float64."""
    tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    chosen = bucket(fen, net.get("output_buckets", {}).get("count", 1))
    active = features(fen, net)
    x = np.zeros(0)
    for index, layer in enumerate(net["layers"]):
        weight, bias = tensors[f"l{index}w"], tensors[f"l{index}b"]
        which = chosen if layer.get("bucketed", index > 0) else 0
        if index == 0:
            shared = tensors.get("l0f", np.zeros((768, *weight.shape[1:])))
            sides = [sum(weight[f, which] + shared[f % 768, which] for f in side) + bias[which] for side in active]
            # Both halves of a product are of one side; x and x² are of both.
            if layer.get("dual"):
                x = activate(layer, np.concatenate(sides))
            else:
                x = np.concatenate([activate(layer, side) for side in sides])
        else:
            x = activate(layer, x @ weight[:, which] + bias[which])
    if "pst" in tensors:
        x = x + sum(tensors["pst"][f] for f in active[0])
    return x


def activate(layer: dict, x: np.ndarray) -> np.ndarray:
    if layer.get("dual"):
        x = np.concatenate([x, x * x])
    x = ACTIVATIONS[layer.get("activation", "identity")](x)
    if layer.get("pairwise"):
        first, second = np.split(x, 2)
        x = first * second
    return x


def integers(tensors: dict[str, np.ndarray], fen: str, net: dict, scale: int = 400, qa: int = 255, qb: int = 64) -> int:
    """The evaluation that an engine computes of one SCReLU layer's `quantised.bin`, divisions towards zero."""
    chosen, active = bucket(fen, net.get("output_buckets", {}).get("count", 1)), features(fen, net)
    quantised = {name: np.sign(tensor) * np.floor(np.abs(tensor.astype(np.float64)) * by + 0.5)
                 for name, by in {"l0w": qa, "l0b": qa, "l1w": qb, "l1b": qa * qb}.items() for tensor in [tensors[name]]}
    sides = [sum(quantised["l0w"][f, 0] for f in side) + quantised["l0b"][0] for side in active]
    x = np.clip(np.concatenate(sides), 0, qa)
    total = int(np.trunc((x * x @ quantised["l1w"][:, chosen])[0] / qa))
    return int(np.trunc((total + int(quantised["l1b"][chosen, 0])) * scale / (qa * qb)))
