"""The stores that `object_storage.py` converts to and from, as test servers speak their protocols: S3 as moto, Azure as azurite.

Each server is looked at with other code than `ckpt`'s: boto3 for S3, requests that are signed here for Azure.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import logging
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree
from collections.abc import Iterator

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "bucket"
#: Azurite and what it needs; `node_modules` is made there by npm, from a copy of tests/interop/azurite.
AZURITE = pathlib.Path("node_modules/azurite/dist/src/blob/main.js")


class S3:
    """A bucket of S3, as moto has it."""

    name, scheme = "moto", "s3"
    #: Whether a part that was sent can be removed before its upload is complete.
    removes_parts = True

    def __init__(self, endpoint: str):
        self.endpoint = endpoint
        self.secrets = ["key_of_the_test", "secret_of_the_test"]
        self.environment = {"AWS_ACCESS_KEY_ID": self.secrets[0], "AWS_SECRET_ACCESS_KEY": self.secrets[1],
                            "AWS_REGION": "us-east-1"}
        self.s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1",
                               aws_access_key_id=self.secrets[0], aws_secret_access_key=self.secrets[1])
        self.s3.create_bucket(Bucket=BUCKET)

    def keys(self, prefix: str = "") -> list[str]:
        found = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return sorted(entry["Key"] for entry in found.get("Contents", []))

    def read(self, key: str) -> bytes:
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def put(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def parts(self, key: str) -> int:
        """How many parts an object was made of."""
        return int(self.s3.head_object(Bucket=BUCKET, Key=key)["ETag"].strip('"').rpartition("-")[2])

    def uploads(self, prefix: str = "") -> list[str]:
        """The names of what was sent in parts and is not complete."""
        found = self.s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        return sorted(upload["Key"] for upload in found if upload["Key"].startswith(prefix))

    def begin(self, key: str) -> None:
        """Begins an upload, and sends nothing."""
        self.s3.create_multipart_upload(Bucket=BUCKET, Key=key)


class Azure:
    """A container of Azure Blob Storage, as azurite has it."""

    name, scheme = "azurite", "az"
    removes_parts = False

    ACCOUNT, KEY, VERSION = "accountofthetest", base64.b64encode(b"secret_of_the_test").decode(), "2021-12-02"

    def __init__(self, port: int):
        self.port = port
        self.endpoint = f"http://127.0.0.1:{port}/{self.ACCOUNT}"
        self.secrets = [self.KEY]
        self.environment = {"AZURE_STORAGE_ACCOUNT_NAME": self.ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": self.KEY}
        self.request("PUT", "", restype="container")

    def sign(self, text: str) -> str:
        return base64.b64encode(hmac.digest(base64.b64decode(self.KEY), text.encode(), hashlib.sha256)).decode()

    def request(self, method: str, key: str, body: bytes = b"", **query: str) -> bytes:
        """Sends a request that is signed with the account's key."""
        path = f"/{self.ACCOUNT}/{BUCKET}" + (f"/{urllib.parse.quote(key)}" if key else "")
        own = {"x-ms-date": datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT"),
               "x-ms-version": self.VERSION}
        if body:
            own["x-ms-blob-type"] = "BlockBlob"
        lines = [method, "", "", str(len(body) or ""), "", "", "", "", "", "", "", ""]
        lines += [f"{name}:{own[name]}" for name in sorted(own)]
        lines += [f"/{self.ACCOUNT}{path}", *(f"{name}:{query[name]}" for name in sorted(query))]
        own["Authorization"] = f"SharedKey {self.ACCOUNT}:{self.sign(chr(10).join(lines))}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        own["Content-Length"] = str(len(body))
        connection.request(method, f"{path}?{urllib.parse.urlencode(query)}", body or None, own)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status < 300, f"{method} {path}: {answer.status} {content.decode(errors='replace')}"
        return content

    def signature(self) -> str:
        """A token that may read and list for an hour, in the place of the key."""
        end = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        signed = self.sign("\n".join([self.ACCOUNT, "rl", "b", "sco", "", end, "", "http,https", self.VERSION, "", ""]))
        return urllib.parse.urlencode({"sv": self.VERSION, "ss": "b", "srt": "sco", "sp": "rl", "se": end,
                                       "spr": "http,https", "sig": signed})

    def listed(self, prefix: str, **more: str) -> list[str]:
        answer = self.request("GET", "", restype="container", comp="list", prefix=prefix, **more)
        return sorted(name.text or "" for name in xml.etree.ElementTree.fromstring(answer).iterfind("Blobs/Blob/Name"))

    def keys(self, prefix: str = "") -> list[str]:
        return self.listed(prefix)

    def read(self, key: str) -> bytes:
        return self.request("GET", key)

    def put(self, key: str, body: bytes) -> None:
        self.request("PUT", key, body)

    def parts(self, key: str) -> int:
        answer = self.request("GET", key, comp="blocklist", blocklisttype="committed")
        return len(xml.etree.ElementTree.fromstring(answer).findall("CommittedBlocks/Block"))

    def uploads(self, prefix: str = "") -> list[str]:
        return sorted(set(self.listed(prefix, include="uncommittedblobs")) - set(self.keys(prefix)))


@contextlib.contextmanager
def moto() -> Iterator[S3]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield S3(f"http://{host}:{port}")
    finally:
        server.stop()


@contextlib.contextmanager
def azurite(folder: pathlib.Path) -> Iterator[Azure]:
    """Runs the azurite that npm installed in this folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["node", folder.resolve() / AZURITE, "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence",
               "--silent", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{Azure.ACCOUNT}:{Azure.KEY}"}
    with tempfile.TemporaryDirectory() as own:
        process = subprocess.Popen(command, env=environment, cwd=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            yield started(process, port)
        finally:
            process.terminate()
            process.wait()


def started(process: subprocess.Popen, port: int) -> Azure:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(ConnectionError):
            return Azure(port)
        time.sleep(0.1)
    raise RuntimeError(f"azurite does not answer (exit code {process.poll()})")


def has_azurite(folder: pathlib.Path | None) -> bool:
    return folder is not None and (folder / AZURITE).is_file() and shutil.which("node") is not None
