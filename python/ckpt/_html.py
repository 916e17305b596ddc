"""Pages in notebooks."""

from __future__ import annotations

import html


def frame(page: str) -> str:
    """A page that stands alone, as a part of another one that it cannot touch."""
    text = html.escape(page, quote=True)
    return f'<iframe srcdoc="{text}" sandbox="allow-scripts" width="100%" height="600" style="border:0"></iframe>'
