"""Stores that are opened by URL."""

from __future__ import annotations

from ckpt import _ckpt
from ckpt._reading import pairs

_set: dict[str, str | int | bool] = {}


def set_store_options(**options: str | int | bool) -> None:
    """Sets the options of all stores that this process opens by URL from now on, in the place of earlier ones.

    Common options are `endpoint`, the server to ask instead of the vendor's, `region`, `skip_signature` and `allow_http`.
    The guide's page "Checkpoints at URLs" lists them. A secret, and an option that no store has, are a `UsageError`:
    credentials come from where the vendor's own tools look. Without arguments, no option is set any more.

    >>> import ckpt
    >>> ckpt.set_store_options(endpoint="http://127.0.0.1:9000", region="us-east-1", allow_http=True)
    >>> ckpt.set_store_options()
    """
    _ckpt.set_store_options(pairs(options))
    _set.clear()
    _set.update(options)


def current() -> dict[str, str | int | bool]:
    """What was set last, for processes that this one starts elsewhere."""
    return dict(_set)
