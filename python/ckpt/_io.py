"""Tensors in memory: saved in any format, loaded from any."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from ckpt import _arrays, _ckpt
from ckpt._checkpoint import open
from ckpt._convert import Settings, several
from ckpt._errors import LossWarning
from ckpt._plan import Loss, Rounded, Summary
from ckpt._reading import Architecture, Options, StrPath, pairs, path, text_pairs


def save(
    tensors: Mapping[str, Any],
    output: StrPath,
    *,
    format: str | None = None,
    metadata: Mapping[str, str] | None = None,
    options: Options | None = None,
    allow: str | Iterable[str] | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    max_memory: int | str | None = None,
    sync: bool = True,
) -> Summary:
    """Writes arrays as a checkpoint of any format, which the name's extension selects, or `format`.

    A value is an array of NumPy, torch, JAX or TensorFlow, a `ckpt.Tensor`, or any object with the buffer protocol
    or DLPack; whatever the order and the byte order of its elements, they are stored right. The output appears complete,
    or not at all. What the format does not hold as it is, such as a dtype, is a `LossWarning`.

    >>> import array, ckpt, os, tempfile
    >>> output = os.path.join(tempfile.mkdtemp(), "out.safetensors")
    >>> ckpt.save({"w": array.array("f", [1.0, 2.0])}, output).tensors
    1
    >>> memoryview(ckpt.open(output)["w"]).tolist()
    [1.0, 2.0]
    """
    held = [_arrays.given(name, value) for name, value in tensors.items()]
    settings = Settings(
        to=format, options=pairs(options), renaming=None, transforms=[], code=None, include=[], exclude=[],
        dtype=None, keep_quantized=False, allow=several(allow), strict=False, overwrite=overwrite, resume=False, verify=False,
        clone="never", check=True, receipt=None,
        threads=threads or 0, max_memory=None if max_memory is None else str(max_memory), item_size=None,
    )  # fmt: skip
    saved = json.loads(_ckpt.save(path(output), held, list(text_pairs(metadata or {}).items()), settings, sync))
    found, losses = saved["summary"], [Loss(**loss) for loss in saved["losses"]]
    for loss in losses:
        warnings.warn(str(loss), LossWarning, stacklevel=2)
    rounding = [Rounded(**rounded) for rounded in found["rounding"]]
    return Summary(
        files=found["files"], tensors=found["tensors"], bytes=found["bytes"], losses=losses, rounding=rounding
    )


def load(
    input: StrPath,
    *,
    framework: str = "numpy",
    include: str | Iterable[str] | None = None,
    format: str | None = None,
    options: Options | None = None,
    architecture: Architecture | None = None,
    limits: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Reads all tensors of a checkpoint of any format: a dict of NumPy arrays, or of torch tensors with
    `framework="torch"`. Without NumPy, of `memoryview`s, and of lists of `bytes` for strings.

    `include` names the tensors to read, where not all are wanted.

    >>> import ckpt
    >>> sorted(ckpt.load("examples/data/digits", include="digits/hidden/bias"))
    ['digits/hidden/bias']
    """
    if framework not in ("numpy", "torch"):
        raise ValueError(f"framework must be 'numpy' or 'torch', not {framework!r}")
    wanted = None if include is None else several(include)
    with open(input, format, options, architecture, limits=limits) as checkpoint:
        names = list(checkpoint) if wanted is None else wanted
        found: dict[str, Any] = {}
        for name in names:
            tensor = checkpoint[name]
            if framework == "torch":
                found[name] = tensor.torch()
            elif tensor._known.is_text:
                found[name] = tensor._texts()
            elif tensor.blocks is not None:
                found[name] = tensor.numpy()
            else:
                found[name] = _arrays.to_any(tensor._array(), tensor.dtype, tensor.shape)
        return found
