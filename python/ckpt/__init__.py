"""Converts neural-network checkpoints between formats, in bounded memory, losing nothing silently.

>>> import ckpt
>>> with ckpt.open("examples/data/digits") as checkpoint:
...     print(checkpoint["digits/hidden/kernel"])
<ckpt.Tensor 'digits/hidden/kernel': f32 (64, 32)>

`open`, `load` and `save` read and write; `convert` and `plan` convert; `inspect`, `hash`, `diff`, `verify` and `run`
describe, compare and compute. `plan`, `run_items` and `commit` divide a conversion among processes, and `ckpt.ray` among a
cluster. `ckpt.safetensors` is a drop-in for the package `safetensors`. NumPy, ml_dtypes and torch
are imported only when they are used.
"""

from __future__ import annotations

from ckpt._checkpoint import Checkpoint, Tensor, open
from ckpt._ckpt import __version__, mappings
from ckpt._codecs import Codec, load_plugin, register
from ckpt._compare import (
    CheckedReceipt,
    Difference,
    Digest,
    Inspection,
    Verification,
    check_receipt,
    diff,
    hash,
    inspect,
    verify,
)
from ckpt._convert import convert, plan
from ckpt._errors import (
    CkptError,
    CorruptError,
    InputOutputError,
    InternalError,
    LimitError,
    LossWarning,
    LossyError,
    MappingError,
    MismatchError,
    NotFoundError,
    NotPermittedError,
    TensorNotFoundError,
    UnsupportedError,
    UsageError,
)
from ckpt._formats import formats
from ckpt._forward import Outputs, run
from ckpt._io import load, save
from ckpt._plan import Loss, Plan, Resumed, Rounded, Summary, commit, load_plan, run_items
from ckpt._progress import Progress
from ckpt._stores import set_store_options

__all__ = [
    "CheckedReceipt",
    "Checkpoint",
    "CkptError",
    "Codec",
    "CorruptError",
    "Difference",
    "Digest",
    "InputOutputError",
    "Inspection",
    "InternalError",
    "LimitError",
    "Loss",
    "LossWarning",
    "LossyError",
    "MappingError",
    "MismatchError",
    "NotFoundError",
    "NotPermittedError",
    "Outputs",
    "Plan",
    "Progress",
    "Resumed",
    "Rounded",
    "Summary",
    "Tensor",
    "TensorNotFoundError",
    "UnsupportedError",
    "UsageError",
    "Verification",
    "__version__",
    "check_receipt",
    "commit",
    "convert",
    "diff",
    "formats",
    "hash",
    "inspect",
    "load",
    "load_plan",
    "load_plugin",
    "mappings",
    "open",
    "plan",
    "register",
    "run",
    "run_items",
    "save",
    "set_store_options",
    "verify",
]
