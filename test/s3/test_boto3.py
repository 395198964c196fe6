"""What programs do with boto3, old and newest, given an endpoint and a key pair."""

import hashlib
import io
import os
import threading
import time
import urllib.error
import urllib.request

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from conftest import ENDPOINT, KEYS, connect, empty, new_name, odd_names

MiB = 1 << 20
LARGE = os.urandom(20 * MiB)


def http(url, method="GET", body=None, headers=None):
    """Status, headers and body of a request by somebody who has no keys."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


@pytest.fixture(scope="module")
def large(s3):
    """A bucket with one large object, put in one piece."""
    name = new_name()
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="large", Body=LARGE)
    yield name
    empty(s3, name)


def test_small_object_with_metadata(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"hello", ContentType="text/plain", CacheControl="no-cache", Metadata={"Colour": "blue"})
    assert put["ETag"] == '"5d41402abc4b2a76b9719d911017c592"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"hello"
    assert (got["ContentType"], got["CacheControl"], got["Metadata"], got["ETag"]) == ("text/plain", "no-cache", {"colour": "blue"}, put["ETag"])
    assert s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == 5


def test_large_object_goes_up_and_down_in_parts(s3, bucket):
    config = TransferConfig(multipart_threshold=8 * MiB, multipart_chunksize=8 * MiB)
    s3.upload_fileobj(io.BytesIO(LARGE), bucket, "large", Config=config, ExtraArgs={"Metadata": {"a": "b"}})
    head = s3.head_object(Bucket=bucket, Key="large")
    digests = b"".join(hashlib.md5(LARGE[i : i + 8 * MiB]).digest() for i in range(0, len(LARGE), 8 * MiB))
    assert head["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"'
    assert head["Metadata"] == {"a": "b"}
    back = io.BytesIO()
    s3.download_fileobj(bucket, "large", back, Config=config)
    assert back.getvalue() == LARGE


@pytest.mark.parametrize("spec, begin, end", [("bytes=0-0", 0, 1), ("bytes=100-199", 100, 200), ("bytes=-7", -7, None), ("bytes=20971000-", 20971000, None), ("bytes=5-99999999", 5, None)])
def test_ranges(s3, large, spec, begin, end):
    got = s3.get_object(Bucket=large, Key="large", Range=spec)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["Body"].read() == LARGE[begin:end]


def test_odd_names_are_all_different_objects(s3, bucket):
    names = odd_names()
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=name.encode())
    for name in names:
        assert s3.get_object(Bucket=bucket, Key=name)["Body"].read() == name.encode()
        assert s3.head_object(Bucket=bucket, Key=name)["ContentLength"] == len(name.encode())
    for operation in "list_objects_v2", "list_objects":
        pages = s3.get_paginator(operation).paginate(Bucket=bucket, PaginationConfig={"PageSize": 7})
        assert [o["Key"] for page in pages for o in page["Contents"]] == sorted(names, key=str.encode)
    for name in names:
        s3.copy_object(Bucket=bucket, Key="copy of " + name[:1000], CopySource={"Bucket": bucket, "Key": name})
        assert s3.get_object(Bucket=bucket, Key="copy of " + name[:1000])["Body"].read() == name.encode()
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names]})
    assert {d["Key"] for d in done["Deleted"]} == set(names)
    assert all(o["Key"].startswith("copy of ") for o in s3.list_objects_v2(Bucket=bucket)["Contents"])


def test_listing_and_deleting_more_than_a_page(s3, bucket):
    names = sorted(f"dir {i % 7}/ü+{i:04}" for i in range(1207))
    failures = []

    def put(some):
        client = connect()
        try:
            for name in some:
                client.put_object(Bucket=bucket, Key=name, Body=b"")
        except Exception as e:  # shown below, by the test's own thread
            failures.append(e)

    threads = [threading.Thread(target=put, args=(names[i::4],)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures
    first = s3.list_objects_v2(Bucket=bucket)
    assert first["KeyCount"] == 1000 and first["IsTruncated"]
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket))
    assert [o["Key"] for page in pages for o in page["Contents"]] == names
    dirs = s3.list_objects_v2(Bucket=bucket, Delimiter="/")
    assert [p["Prefix"] for p in dirs["CommonPrefixes"]] == [f"dir {i}/" for i in range(7)] and "Contents" not in dirs
    for page in pages:
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": o["Key"]} for o in page["Contents"]]})
        assert len(done["Deleted"]) == len(page["Contents"]) and "Errors" not in done
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_copy_keeps_or_replaces_metadata(s3, bucket):
    s3.put_object(Bucket=bucket, Key="from", Body=b"x", ContentType="text/a", Metadata={"a": "1"})
    s3.copy_object(Bucket=bucket, Key="kept", CopySource=f"{bucket}/from")
    s3.copy_object(Bucket=bucket, Key="replaced", CopySource=f"{bucket}/from", MetadataDirective="REPLACE", ContentType="text/b", Metadata={"b": "2"})
    kept, replaced = (s3.head_object(Bucket=bucket, Key=k) for k in ("kept", "replaced"))
    assert (kept["ContentType"], kept["Metadata"]) == ("text/a", {"a": "1"})
    assert (replaced["ContentType"], replaced["Metadata"]) == ("text/b", {"b": "2"})


def test_large_object_copied_in_parts(s3, large, bucket):
    s3.copy({"Bucket": large, "Key": "large"}, bucket, "to", Config=TransferConfig(multipart_threshold=8 * MiB, multipart_chunksize=8 * MiB))
    assert s3.head_object(Bucket=bucket, Key="to")["ETag"].endswith('-3"')
    assert s3.get_object(Bucket=bucket, Key="to")["Body"].read() == LARGE


def test_presigned_urls(s3, bucket):
    put = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "a b+c/%41"}, ExpiresIn=60)
    assert http(put, "PUT", b"signed", {"Content-Type": ""})[0] == 200
    get = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b+c/%41", "ResponseContentType": "text/x"}, ExpiresIn=60)
    status, headers, body = http(get)
    assert (status, headers["Content-Type"], body) == (200, "text/x", b"signed")
    assert http(get.replace("a%20b", "a%20c"))[0] == 403
    assert http(get, "DELETE")[0] == 403
    assert http(get.split("?")[0])[0] == 403


def test_expired_presigned_url_is_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"}, ExpiresIn=1)
    assert http(url)[0] == 200
    deadline = time.monotonic() + 10
    while (answer := http(url))[0] == 200 and time.monotonic() < deadline:
        time.sleep(0.2)  # the event waited for is the clock's
    assert answer[0] == 403 and b"<Code>AccessDenied</Code>" in answer[2]


def test_presigned_form(s3, bucket):
    form = s3.generate_presigned_post(bucket, "up/${filename}", Fields={"success_action_status": "201"}, Conditions=[{"success_action_status": "201"}], ExpiresIn=60)
    boundary = "----form"
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in form["fields"].items()]
    body = "".join(parts) + f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="n.txt"\r\n\r\nposted\r\n--{boundary}--\r\n'
    status, _, text = http(form["url"], "POST", body.encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"})
    assert status == 201, text
    assert s3.get_object(Bucket=bucket, Key="up/n.txt")["Body"].read() == b"posted"


def test_virtual_host_style(bucket, s3, localhost_names):
    client = connect(endpoint=ENDPOINT.replace("127.0.0.1", "localhost"), s3={"addressing_style": "virtual"})
    seen = []
    client.meta.events.register("before-send.s3", lambda request, **_: seen.append(request.url))
    for name in "in the host", "../up", "/leading", "a//b", "trailing/":
        client.put_object(Bucket=bucket, Key=name, Body=b"v")
        assert client.get_object(Bucket=bucket, Key=name)["Body"].read() == b"v"
    assert all(url.startswith(f"http://{bucket}.localhost:") for url in seen)
    assert len(client.list_objects_v2(Bucket=bucket)["Contents"]) == 5
    assert s3.get_object(Bucket=bucket, Key="in the host")["Body"].read() == b"v"  # the same by path
    made = new_name()
    client.create_bucket(Bucket=made)
    client.delete_bucket(Bucket=made)
    url = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a//b"}, ExpiresIn=60)
    assert http(url)[2] == b"v"


def test_versions(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    ids = [s3.put_object(Bucket=bucket, Key="k", Body=b"%d" % i)["VersionId"] for i in range(3)]
    marker = s3.delete_object(Bucket=bucket, Key="k")
    assert marker["DeleteMarker"]
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=bucket, Key="k")
    assert [s3.get_object(Bucket=bucket, Key="k", VersionId=i)["Body"].read() for i in ids] == [b"0", b"1", b"2"]
    listed = s3.list_object_versions(Bucket=bucket)
    assert [v["VersionId"] for v in listed["Versions"]] == ids[::-1]
    assert [(m["VersionId"], m["IsLatest"]) for m in listed["DeleteMarkers"]] == [(marker["VersionId"], True)]
    s3.delete_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"2"
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert s3.put_object(Bucket=bucket, Key="k", Body=b"null").get("VersionId", "null") == "null"
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == 4


def test_tags(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"", Tagging="a=1&b=x%20y")
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "x y"}]
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "c", "Value": "ü"}]})
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "c", "Value": "ü"}]
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []


@pytest.mark.newest
@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums(s3, bucket, algorithm):
    field = "Checksum" + algorithm
    put = s3.put_object(Bucket=bucket, Key="small", Body=b"hello", ChecksumAlgorithm=algorithm)
    head = s3.head_object(Bucket=bucket, Key="small", ChecksumMode="ENABLED")
    assert put[field] and head[field] == put[field]
    s3.upload_fileobj(io.BytesIO(LARGE), bucket, "large", ExtraArgs={"ChecksumAlgorithm": algorithm})
    got = s3.get_object(Bucket=bucket, Key="large", ChecksumMode="ENABLED")
    assert got[field] and got["Body"].read() == LARGE  # botocore verifies what is of the whole
    composite = algorithm.startswith("SHA") or got[field].endswith("-3")
    assert got["ChecksumType"] == ("COMPOSITE" if composite else "FULL_OBJECT")
    attributes = s3.get_object_attributes(Bucket=bucket, Key="large", ObjectAttributes=["Checksum", "ObjectParts", "ObjectSize"])
    assert attributes["ObjectSize"] == len(LARGE) and attributes["ObjectParts"]["TotalPartsCount"] == 3
    wrong = {field: put[field]}
    with pytest.raises(ClientError, match="BadDigest"):
        s3.put_object(Bucket=bucket, Key="wrong", Body=b"hallo", **wrong)
    with pytest.raises(ClientError, match="404"):
        s3.head_object(Bucket=bucket, Key="wrong")


@pytest.mark.newest
def test_conditional_put(s3, bucket):
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*")
    s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=first["ETag"])
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=bucket, Key="k", Body=b"4", IfMatch=first["ETag"])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"3"


@pytest.mark.newest
def test_one_of_many_conditional_puts_wins(s3, bucket):
    results = []

    def put(i):
        try:
            connect().put_object(Bucket=bucket, Key="k", Body=b"%d" % i, IfNoneMatch="*")
            results.append(i)
        except ClientError as e:
            results.append(e.response["Error"]["Code"])

    threads = [threading.Thread(target=put, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    won = [r for r in results if isinstance(r, int)]
    assert len(won) == 1 and set(results) - set(won) <= {"PreconditionFailed", "ConditionalRequestConflict"}
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"%d" % won[0]


def test_wrong_secret_is_refused(s3, bucket):
    liar = connect((KEYS[0], KEYS[1] + "x"))
    calls = [
        lambda: liar.list_buckets(),
        lambda: liar.put_object(Bucket=bucket, Key="k", Body=b"x"),
        lambda: liar.list_objects_v2(Bucket=bucket),
        lambda: liar.create_bucket(Bucket=new_name()),
    ]
    for call in calls:
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            call()
    with pytest.raises(ClientError, match="InvalidAccessKeyId"):
        connect(("nobody-knows-me", KEYS[1])).list_buckets()
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_users_see_only_their_own_buckets(s3, other, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"secret")
    assert bucket in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    assert bucket not in [b["Name"] for b in other.list_buckets()["Buckets"]]
    calls = [
        lambda: other.get_object(Bucket=bucket, Key="k"),
        lambda: other.put_object(Bucket=bucket, Key="mine", Body=b""),
        lambda: other.delete_object(Bucket=bucket, Key="k"),
        lambda: other.list_objects_v2(Bucket=bucket),
        lambda: other.delete_bucket(Bucket=bucket),
        lambda: other.copy_object(Bucket=bucket, Key="mine", CopySource=f"{bucket}/k"),
    ]
    for call in calls:
        with pytest.raises(ClientError, match="AccessDenied"):
            call()
    with pytest.raises(ClientError, match="BucketAlreadyExists"):
        other.create_bucket(Bucket=bucket)
    s3.put_object_acl(Bucket=bucket, Key="k", ACL="public-read")
    assert http(f"{ENDPOINT}/{bucket}/k")[2] == b"secret"
