"""Checkpoints at URLs: in memory, and on a web server that the tests start. Without NumPy."""

from __future__ import annotations

import array
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import DIGITS, MODEL, needs

import ckpt
from ckpt import safetensors

KERNEL = "digits/hidden/kernel"


class Server(ThreadingHTTPServer):
    """A web server of the files in a directory. It knows ranges, and counts the bytes that it sends."""

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.sent = root, 0
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        path = self.server.root / self.path.split("?")[0].lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        size, asked = len(content), self.headers.get("Range")
        if asked is not None:
            first, last = asked.removeprefix("bytes=").split("-")
            if first and int(first) >= size:
                self.send_error(416)
                return
            start = int(first) if first else max(size - int(last), 0)
            content = content[start : int(last) + 1 if first and last else size]
        self.send_response(200 if asked is None else 206)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        if asked is not None:
            self.send_header("Content-Range", f"bytes {start}-{start + len(content) - 1}/{size}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)
            self.server.sent += len(content)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.filterwarnings("ignore::ckpt.LossWarning")
def test_every_function_takes_a_url() -> None:
    npz, onnx = "memory://functions/digits.npz", "memory://functions/sub/model.onnx"
    assert ckpt.plan(DIGITS, npz, include="digits/**").tensors == 4
    summary = ckpt.convert(DIGITS, npz, include="digits/**", verify=True)
    assert summary.files == [npz] and summary.verification is not None
    with ckpt.open(npz) as checkpoint:
        assert checkpoint.path == npz and npz in repr(checkpoint)
        assert bytes(checkpoint[KERNEL][3:5]) == bytes(ckpt.open(DIGITS)[KERNEL][3:5])
    assert ckpt.load(npz).keys() == ckpt.open(npz).keys()
    assert ckpt.inspect(npz).report["path"] == npz
    assert ckpt.hash(npz).tensors[KERNEL] == ckpt.hash(DIGITS).tensors[KERNEL]
    assert ckpt.diff(npz, npz) and not ckpt.diff(DIGITS, npz)
    assert ckpt.save({"w": array.array("f", [1, 2])}, "memory://functions/w.pt").files == ["memory://functions/w.pt"]
    ckpt.convert(MODEL, onnx)
    assert memoryview(*ckpt.run(onnx, batch=2).values()).shape == (2, 10)
    assert ckpt.verify(MODEL, onnx).verdict == "pass"
    with pytest.raises(ckpt.UsageError, match="overwrite=True"):
        ckpt.convert(DIGITS, npz)


@pytest.mark.filterwarnings("ignore::ckpt.LossWarning")
def test_options_receipts_mappings_and_architectures_have_urls(tmp_path: Path, server: Server) -> None:
    (tmp_path / "mapping.toml").write_text('[[rule]]\nfrom = "digits/{rest:path}"\nto = "model/{rest}"\n', encoding="utf-8")
    (tmp_path / "no.json").write_text("{", encoding="utf-8")
    output, receipt = "memory://more/digits.safetensors", "memory://more/receipt.json"
    summary = ckpt.convert(
        DIGITS, output, include="digits/**", options={"metadata": "none"}, map=f"{server.url}/mapping.toml", receipt=receipt
    )
    assert summary.receipt == receipt and "model/hidden/kernel" in ckpt.open(output)
    assert ckpt.check_receipt(receipt).files > 1
    with pytest.raises(ckpt.CkptError, match="EOF"):
        ckpt.open(DIGITS, architecture=f"{server.url}/no.json")
    with pytest.raises(FileNotFoundError, match="memory://more/no"):
        ckpt.open(DIGITS, architecture="memory://more/no")


def test_a_web_server_sends_only_what_is_read(tmp_path: Path, server: Server) -> None:
    rows = memoryview(array.array("i", range(4 << 20))).cast("B").cast("i", (4096, 1024))
    ckpt.save({"w": rows}, tmp_path / "x.safetensors")
    url = f"{server.url}/x.safetensors"
    assert memoryview(ckpt.open(url, format="safetensors")["w"][3000]).tolist() == list(range(3000 << 10, 3001 << 10))
    assert server.sent < rows.nbytes // 2
    assert bytes(ckpt.open(url + "?signature=secret")["w"][0]) == bytes(rows)[:4096]
    assert ckpt.diff(tmp_path / "x.safetensors", url)
    with pytest.raises(ckpt.UnsupportedError, match="not written"):
        ckpt.save({"w": rows}, f"{server.url}/y.safetensors")


def test_what_is_missing_at_a_url_is_a_missing_file(server: Server) -> None:
    for url in ("memory://nothing/x.npz", f"{server.url}/x.npz"):
        for use in (ckpt.open, ckpt.load, ckpt.hash, safetensors.load_file):
            with pytest.raises(FileNotFoundError) as caught:
                use(url)
            assert isinstance(caught.value, ckpt.NotFoundError) and caught.value.filename == url


def test_options_of_stores_are_set_and_secrets_refused(tmp_path: Path, server: Server) -> None:
    ckpt.save({"w": array.array("f", [1, 2])}, tmp_path / "x.npz")
    (tmp_path / "bucket").mkdir()
    (tmp_path / "x.npz").rename(tmp_path / "bucket/x.npz")
    try:
        ckpt.set_store_options(endpoint=server.url, region="us-east-1", skip_signature=True, allow_http=True)
        assert memoryview(ckpt.open("s3://bucket/x.npz")["w"]).tolist() == [1, 2]
        for wrong in ({"secret_access_key": "hidden"}, {"endpiont": "http://host"}):
            with pytest.raises(ckpt.UsageError) as caught:
                ckpt.set_store_options(**wrong)
            assert caught.value.field == next(iter(wrong)) and "hidden" not in str(caught.value)
    finally:
        ckpt.set_store_options()


def test_the_drop_in_for_safetensors_takes_urls(tmp_path: Path, server: Server) -> None:
    np = needs("numpy")
    tensors = {"w": np.arange(12, dtype="f4").reshape(3, 4), "large": np.zeros((2048, 1024), "f4")}
    safetensors.save_file(tensors, "memory://drop/x.safetensors", {"a": "b"})
    safetensors.save_file(tensors, "memory://drop/x.safetensors")
    safetensors.save_file(tensors, tmp_path / "x.safetensors")
    for url in ("memory://drop/x.safetensors", f"{server.url}/x.safetensors"):
        loaded = safetensors.load_file(url)
        assert all((loaded[name] == array).all() for name, array in tensors.items())
        with safetensors.safe_open(url, "np") as file:
            assert file.keys() == ["large", "w"] and file.get_tensor("w").tolist() == tensors["w"].tolist()
            part = file.get_slice("w")
            assert part[1:2].tolist() == [[4, 5, 6, 7]] and part[:, [0, 2]].tolist() == tensors["w"][:, [0, 2]].tolist()
    with pytest.raises(safetensors.SafetensorError, match="written"):
        safetensors.save_file(tensors, f"{server.url}/y.safetensors")
