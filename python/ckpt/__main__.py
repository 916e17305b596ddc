"""The command line: `python -m ckpt`, and the command `ckpt`."""

from __future__ import annotations

import os
import signal
import sys

from ckpt import _ckpt


def main() -> int:
    """Runs the command line with this process's arguments; returns its exit code."""
    # The command line handles signals itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    name = os.path.basename(sys.argv[0])
    program = "ckpt" if name == "__main__.py" else name
    return _ckpt.main([program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
