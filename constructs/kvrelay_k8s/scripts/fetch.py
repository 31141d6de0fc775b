"""Runs in a worker's init container, in the workers' own image: gets a token, or weights from a bucket.

    fetch.py token --secret NAME --to FILE
    fetch.py weights --bucket NAME --prefix FOLDER --to DIRECTORY [--parts-at-once 8] [--part-bytes 67108864]

Needs Python and boto3, which AWS's Ray LLM container has; credentials come from the pod's identity.
"""

# ruff: noqa: T201 - its output is the pod's log

from __future__ import annotations

import argparse
import base64
import fcntl
import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

_RETRIES = Config(retries={"max_attempts": 10, "mode": "adaptive"}, max_pool_connections=32)
_COMPLETE = ".kvrelay-complete.json"


class FetchError(Exception):
    """What went wrong, in one line."""


def token(secret: str, to: Path) -> None:
    """Writes a secret's text to a file that only its owner reads."""
    value = boto3.client("secretsmanager", config=_RETRIES).get_secret_value(SecretId=secret)
    text = value.get("SecretString") or ""
    if text.lstrip().startswith("{"):
        fields = json.loads(text)
        names = [name for name in ("token", "HF_TOKEN", "hf_token") if name in fields]
        if not names:
            raise FetchError(f"the secret {secret} is JSON without the key token; store the token under it")
        text = fields[names[0]]
    if not text.strip():
        raise FetchError(f"the secret {secret} is empty; store the token as its text")
    with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text.strip())
    print(f"token of secret {secret} written")


def weights(bucket: str, prefix: str, to: Path, parts_at_once: int, part_bytes: int) -> None:
    """Copies a folder of a bucket. What is there and right is kept; what was begun goes on where it stopped."""
    to.mkdir(parents=True, exist_ok=True)
    with (to / ".kvrelay-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # A second pod on this node waits, and then finds all of it.
        s3 = boto3.client("s3", config=_RETRIES)
        objects = list(listed(s3, bucket, f"{prefix}/"))
        if not objects:
            raise FetchError(f"s3://{bucket}/{prefix}/ holds no object; check serving.weights")
        wanted = {each["Key"]: [each["Size"], each["ETag"]] for each in objects}
        if complete(to, wanted, prefix):
            print(f"{len(wanted)} objects of s3://{bucket}/{prefix} are here already")
            return
        for each in objects:
            place = to / each["Key"].removeprefix(f"{prefix}/")
            if not place.resolve().is_relative_to(to.resolve()):
                raise FetchError(f"the object {each['Key']} would be written outside {to}")
            copy(s3, bucket, each, place, parts_at_once, part_bytes)
        (to / _COMPLETE).write_text(json.dumps(wanted, sort_keys=True))
    print(f"{len(wanted)} objects of s3://{bucket}/{prefix} copied")


def listed(s3: Any, bucket: str, prefix: str) -> Any:
    """The objects below a folder, but for those that only mark a folder."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (each for each in page.get("Contents", ()) if not each["Key"].endswith("/"))


def complete(to: Path, wanted: dict[str, list[Any]], prefix: str) -> bool:
    """Whether an earlier run copied exactly these objects and their files still have their sizes."""
    marker = to / _COMPLETE
    if not marker.exists() or json.loads(marker.read_text()) != wanted:
        return False
    paths = {to / key.removeprefix(f"{prefix}/"): size for key, (size, _) in wanted.items()}
    return all(path.exists() and path.stat().st_size == size for path, size in paths.items())


def copy(s3: Any, bucket: str, entry: dict[str, Any], to: Path, parts_at_once: int, part_bytes: int) -> None:
    """One object, in parts into a file beside its place, checked, then moved there."""
    key, size, etag = entry["Key"], entry["Size"], entry["ETag"]
    progress = to.with_name(f"{to.name}.progress.json")
    partial = to.with_name(f"{to.name}.partial")
    to.parent.mkdir(parents=True, exist_ok=True)
    done = (
        set(json.loads(progress.read_text()).get(etag, ()))
        if progress.exists() and partial.exists()
        else set()
    )
    with partial.open("r+b" if partial.exists() else "w+b") as file:
        file.truncate(size)
    starts = [start for start in range(0, size, part_bytes) if start not in done]

    def fetch(start: int) -> int:
        end = min(start + part_bytes, size) - 1
        # If-Match: an object that changes meanwhile is an error, not a mixture.
        body = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{end}", IfMatch=etag)[
            "Body"
        ].read()
        if len(body) != end - start + 1:
            raise FetchError(f"{key}: {len(body)} bytes came at {start}, {end - start + 1} were asked for")
        with partial.open("r+b") as file:
            file.seek(start)
            file.write(body)
        return start

    with ThreadPoolExecutor(parts_at_once) as pool:
        for start in pool.map(fetch, starts):
            done.add(start)
            progress.write_text(json.dumps({etag: sorted(done)}))
    try:
        check(s3, bucket, key, size, etag, partial)
    except FetchError:
        partial.unlink()
        progress.unlink(missing_ok=True)
        raise
    partial.replace(to)
    progress.unlink(missing_ok=True)
    print(f"{key}: {size} bytes")


def check(s3: Any, bucket: str, key: str, size: int, etag: str, path: Path) -> None:
    """Holds the file against what S3 knows of the object: its SHA-256, or the MD5 that its ETag is made of."""
    if path.stat().st_size != size:
        raise FetchError(f"{key}: {path.stat().st_size} bytes arrived instead of {size}")
    head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    sha256 = head.get("ChecksumSHA256")
    if sha256 and "-" not in sha256:
        found = base64.b64encode(digest(path, "sha256", 0, size)).decode()
        verdict(key, "SHA-256", found, sha256)
    elif head.get("ServerSideEncryption") not in ("aws:kms", "aws:kms:dsse"):
        expected = etag.strip('"')
        parts = int(expected.partition("-")[2] or 0)
        if not parts:
            verdict(key, "MD5", digest(path, "md5", 0, size).hex(), expected)
            return
        # An upload in parts: the MD5 of the parts' MD5s. All parts but the last are alike.
        part = s3.head_object(Bucket=bucket, Key=key, PartNumber=1)["ContentLength"]
        if -(-size // part) != parts:
            print(f"{key}: its parts differ in size; only its length was checked")
            return
        sums = b"".join(digest(path, "md5", start, part) for start in range(0, size, part))
        verdict(
            key, "MD5 of parts", f"{hashlib.md5(sums, usedforsecurity=False).hexdigest()}-{parts}", expected
        )
    else:
        print(f"{key}: encrypted with a KMS key and without SHA-256; only its length was checked")


def digest(path: Path, algorithm: str, start: int, length: int) -> bytes:
    """The hash of a stretch of a file."""
    hashed = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        file.seek(start)
        while length > 0 and (block := file.read(min(length, 2**22))):
            hashed.update(block)
            length -= len(block)
    return hashed.digest()


def verdict(key: str, what: str, found: str, expected: str) -> None:
    """Raises when the two differ."""
    if found != expected:
        raise FetchError(
            f"{key}: its {what} is {found}, S3 says {expected}; it is fetched anew at the next start"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for_token = commands.add_parser("token")
    for_token.add_argument("--secret", required=True)
    for_token.add_argument("--to", type=Path, required=True)
    for_weights = commands.add_parser("weights")
    for_weights.add_argument("--bucket", required=True)
    for_weights.add_argument("--prefix", required=True)
    for_weights.add_argument("--to", type=Path, required=True)
    for_weights.add_argument("--parts-at-once", type=int, default=8)
    for_weights.add_argument("--part-bytes", type=int, default=64 * 2**20)
    given = parser.parse_args()
    try:
        if given.command == "token":
            token(given.secret, given.to)
        else:
            weights(given.bucket, given.prefix, given.to, given.parts_at_once, given.part_bytes)
    except (FetchError, BotoCoreError, ClientError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
