#!/usr/bin/env python3
"""Checks the links of the built guide: python3 docs/links.py [docs/book]

Every link and picture of a page must lead to a file in the repository, and every fragment to an id. Addresses of other
sites are not asked.
"""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """The links and ids of a page."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("href", "src") and value:
                self.links.append(value)
            elif key in ("id", "name") and value:
                self.ids.add(value)


def main() -> None:
    book = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs/book").resolve()
    # print.html repeats all pages; 404.html is served under any path.
    paths = [path for path in sorted(book.glob("*.html")) if path.name not in ("print.html", "404.html")]
    pages = {path: Page(path) for path in paths}
    seen, broken = 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            seen += 1
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            lost = parts.fragment and target in pages and parts.fragment not in pages[target].ids
            if not target.exists() or lost:
                broken.append(f"{path.name}: {link}")
    print(f"{len(pages)} pages, {seen} links")
    if broken or len(pages) < 20:
        sys.exit("\n".join(["links that lead nowhere:", *broken]))


if __name__ == "__main__":
    main()
