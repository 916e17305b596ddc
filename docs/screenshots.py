#!/usr/bin/env python3
"""Takes the screenshots of the guide: docs/src/inspect-page.png and docs/src/verify-page.png.

    python3 docs/screenshots.py [--ckpt PROGRAM] [--chromium PROGRAM]

Needs Chromium.
"""

import argparse
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "src"
MODEL = "examples/data/digits_saved_model"
MOST = 300_000  # bytes of both


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ckpt", default="ckpt", help="the program")
    options.add_argument("--chromium", default="chromium", help="the browser")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        page = pathlib.Path(directory)
        shutil.copytree(ROOT / MODEL, page / "digits")
        ckpt = shutil.which(given.ckpt) or given.ckpt
        for arguments in ["inspect digits --html inspect.html", "convert digits digits.nn",
                          "verify digits digits.nn --per-layer --atol 1e-4 --html verify.html"]:
            run([pathlib.Path(ckpt).resolve(), *arguments.split()], page)
        for name, height in [("inspect", 1180), ("verify", 1620)]:
            # Without a session's sandbox, so that it runs in containers; the page is our own.
            run([given.chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--blink-settings=preferredColorScheme=1", "--virtual-time-budget=3000",
                 f"--window-size=1100,{height}", f"--screenshot={PAGES / f'{name}-page.png'}",
                 (page / f"{name}.html").as_uri()], page)
    size = sum((PAGES / f"{name}-page.png").stat().st_size for name in ["inspect", "verify"])
    assert size <= MOST, f"{size} bytes"


def run(command: list, directory: pathlib.Path) -> None:
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main()
