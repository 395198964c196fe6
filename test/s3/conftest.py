"""Fixtures: a node's S3 door and two users, from the environment.

S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY are all that a test of a client may know.
S3_OTHER_ACCESS_KEY and S3_OTHER_SECRET_KEY belong to somebody else, who owns nothing.
"""

import os
import socket
import uuid

import pytest

ENDPOINT = os.environ["S3_ENDPOINT"]
KEYS = (os.environ["S3_ACCESS_KEY"], os.environ["S3_SECRET_KEY"])
OTHER_KEYS = (os.environ["S3_OTHER_ACCESS_KEY"], os.environ["S3_OTHER_SECRET_KEY"])


def pytest_configure(config):
    config.addinivalue_line("markers", "newest: needs a boto3 that knows checksums and conditional writes")


def connect(keys=KEYS, endpoint=ENDPOINT, **options):
    """A boto3 client; options are those of botocore's Config."""
    import boto3
    from botocore.config import Config

    options.setdefault("s3", {"addressing_style": "path"})
    options.setdefault("retries", {"total_max_attempts": 1})  # a failure is to be seen
    options.setdefault("signature_version", "s3v4")
    return boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", config=Config(**options), aws_access_key_id=keys[0], aws_secret_access_key=keys[1]
    )


def new_name(prefix="b"):
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def odd_names():
    """Keys that tools and servers like to get wrong, all of them different objects."""
    return [
        "plain", "with space", " leading space", "trailing space ", "a+b", "100%", "%41", "a%2Fb", "ключ/ü/日本", "\u00e9", "e\u0301", "emoji-🙂",
        "a//b", "a/b", "a", "/leading", "//two", "trailing/", "a/", "./dot", "../up", "x/../y", "x/./y", "..", ".", "q?x=1&y=2",
        "hash#tag", "semi;colon", "quote'\"", "<xml>&amp;", "back\\slash", "tab\there", "new\nline", "a=b:c@d,e!", "~tilde", "*star*",
        "[x]{y}|^`", "k" * 1024,
    ]  # fmt: skip


@pytest.fixture(scope="session")
def s3():
    return connect()


@pytest.fixture(scope="session")
def other():
    return connect(OTHER_KEYS)


@pytest.fixture
def bucket(s3):
    name = new_name()
    s3.create_bucket(Bucket=name)
    yield name
    empty(s3, name)


def empty(s3, name):
    """Removes a bucket with all there is in it."""
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=name)
    for page in pages:
        doomed = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in page.get("Versions", []) + page.get("DeleteMarkers", [])]
        if doomed:
            s3.delete_objects(Bucket=name, Delete={"Objects": doomed, "Quiet": True})
    for upload in s3.list_multipart_uploads(Bucket=name).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    s3.delete_bucket(Bucket=name)


@pytest.fixture
def localhost_names(monkeypatch):
    """Makes every name under localhost be this machine: not every resolver does so."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        return resolve("127.0.0.1" if str(host).endswith("localhost") else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
