"""Makes an ONNX model: `python onnx_sources.py FLAT OUT`."""

import json
import pathlib
import sys

import onnx
from onnx import TensorProto, helper


def chain(flat: str, out: str) -> None:
    """A product with each matrix of a safetensors file in the folder of `out`, whose bytes are the model's external data."""
    path = pathlib.Path(flat)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    weights, nodes = [], []
    for number, (name, entry) in enumerate(header.items()):
        begin, end = entry["data_offsets"]
        weight = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=entry["shape"],
                             data_location=TensorProto.EXTERNAL)
        for key, value in (("location", path.name), ("offset", 8 + length + begin), ("length", end - begin)):
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [f"x{number}", name], [f"x{number + 1}"]))
    side = weights[0].dims[0]
    ends = [helper.make_tensor_value_info(f"x{number}", TensorProto.FLOAT, [1, side]) for number in (0, len(nodes))]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), out)


if __name__ == "__main__":
    chain(*sys.argv[1:])
