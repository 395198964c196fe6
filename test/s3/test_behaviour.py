"""What S3 answers in the corners: the codes, the statuses and the edges that clients rely on."""

import base64
import datetime
import hashlib
import http.client
import json
import types
import urllib.parse

import botocore.auth
import botocore.handlers
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from conftest import ENDPOINT, KEYS, connect, empty, new_name

MiB = 1 << 20


def refused(call, **arguments):
    """The code and the status with which a call is refused."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    answer = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def send(method, path, body=None, headers=None):
    """The answer to a request without signature, sent as it stands."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(ENDPOINT).netloc, timeout=10)
    connection.request(method, path, body=body, headers=headers or {})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def send_signed(method, path, body=b"", signed_body=None):
    """The answer to a request whose signature is for signed_body, though body is sent."""
    request = AWSRequest(method=method, url=ENDPOINT + path, data=body if signed_body is None else signed_body)
    request.context["payload_signing_enabled"] = True
    S3SigV4Auth(Credentials(*KEYS), "s3", "us-east-1").add_auth(request)
    return send(method, path, body, dict(request.headers.items()))


# Buckets


@pytest.mark.parametrize("name", ["ab", "a" * 64, "Upper-Case", "under_score", "-begins", "ends-", "dot..dot", "192.168.5.4", "sp ace"])
def test_bad_bucket_names(name):
    client = connect()
    client.meta.events.unregister("before-parameter-build.s3", botocore.handlers.validate_bucket_name)
    assert refused(client.create_bucket, Bucket=name) == ("InvalidBucketName", 400)


def test_missing_bucket(s3):
    name = new_name()
    for call, arguments in [
        (s3.list_objects_v2, {}),
        (s3.list_objects, {}),
        (s3.list_object_versions, {}),
        (s3.list_multipart_uploads, {}),
        (s3.get_bucket_location, {}),
        (s3.get_bucket_versioning, {}),
        (s3.delete_bucket, {}),
        (s3.put_object, {"Key": "k", "Body": b""}),
        (s3.get_object, {"Key": "k"}),
        (s3.create_multipart_upload, {"Key": "k"}),
        (s3.delete_objects, {"Delete": {"Objects": [{"Key": "k"}]}}),
    ]:
        assert refused(call, Bucket=name, **arguments) == ("NoSuchBucket", 404)
    assert refused(s3.head_bucket, Bucket=name) == ("404", 404)


def test_bucket_that_is_there(s3, bucket):
    assert s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None  # S3's way to say us-east-1
    assert [b["Name"] for b in s3.list_buckets()["Buckets"]].count(bucket) == 1


def test_bucket_with_objects_stays(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    assert refused(s3.delete_bucket, Bucket=bucket) == ("BucketNotEmpty", 409)


def test_bucket_of_somebody_else(other, bucket):
    assert refused(other.create_bucket, Bucket=bucket) == ("BucketAlreadyExists", 409)
    assert refused(other.head_bucket, Bucket=bucket) == ("403", 403)


# Objects


def test_missing_object(s3, bucket):
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)
    assert refused(s3.head_object, Bucket=bucket, Key="k") == ("404", 404)
    assert refused(s3.get_object_tagging, Bucket=bucket, Key="k") == ("NoSuchKey", 404)
    assert refused(s3.copy_object, Bucket=bucket, Key="to", CopySource=f"{bucket}/k") == ("NoSuchKey", 404)
    assert s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_empty_object(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    got = s3.get_object(Bucket=bucket, Key="k")
    assert (got["ContentLength"], got["Body"].read(), got["ETag"]) == (0, b"", '"d41d8cd98f00b204e9800998ecf8427e"')
    assert refused(s3.get_object, Bucket=bucket, Key="k", Range="bytes=0-0") == ("InvalidRange", 416)


def test_object_and_directory_of_one_name(s3, bucket):
    for key in "a", "a/", "a/b", "a//b":
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert [s3.get_object(Bucket=bucket, Key=k)["Body"].read() for k in ("a", "a/", "a/b", "a//b")] == [b"a", b"a/", b"a/b", b"a//b"]


def test_keys_that_are_too_long(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k" * 1024, Body=b"")
    assert refused(s3.put_object, Bucket=bucket, Key="k" * 1025, Body=b"") == ("KeyTooLongError", 400)


def test_put_replaces_everything(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1", Metadata={"a": "1"}, ContentType="text/a", Tagging="a=1")
    s3.put_object(Bucket=bucket, Key="k", Body=b"22")
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentLength"], head["Metadata"], head["ContentType"]) == (2, {}, "binary/octet-stream")
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []


def test_content_headers_come_back(s3, bucket):
    given = {"CacheControl": "max-age=5", "ContentDisposition": "attachment", "ContentEncoding": "gzip", "ContentLanguage": "de", "ContentType": "a/b"}
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", **given)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert {name: head[name] for name in given} == given


def test_answer_headers_can_be_chosen(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    got = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="x/y", ResponseContentDisposition="inline", ResponseCacheControl="no-store")
    assert (got["ContentType"], got["ContentDisposition"], got["CacheControl"]) == ("x/y", "inline", "no-store")


def test_metadata_bounds(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"", Metadata={"m": "x" * 2000})
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"", Metadata={"m": "x" * 2100}) == ("MetadataTooLarge", 400)


@pytest.mark.parametrize("spec", ["bytes=10-", "bytes=11-20", "bytes=-0"])
def test_ranges_outside(s3, bucket, spec):
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    assert refused(s3.get_object, Bucket=bucket, Key="k", Range=spec) == ("InvalidRange", 416)


@pytest.mark.parametrize("spec", ["bytes=5-2", "pages=1-2", "bytes=a-b", "bytes="])
def test_ranges_that_are_none(s3, bucket, spec):
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    got = s3.get_object(Bucket=bucket, Key="k", Range=spec)
    assert (got["ResponseMetadata"]["HTTPStatusCode"], got["Body"].read()) == (200, b"0123456789")


def test_content_md5(s3, bucket):
    right = base64.b64encode(hashlib.md5(b"x").digest()).decode()
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentMD5=right)
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"y", ContentMD5=right) == ("BadDigest", 400)
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"y", ContentMD5="bm90IGFuIE1ENQ==") == ("InvalidDigest", 400)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_body_that_is_not_what_was_signed(bucket, s3):
    status, _, text = send_signed("PUT", f"/{bucket}/k", b"x", signed_body=b"y")
    assert (status, b"<Code>XAmzContentSHA256Mismatch</Code>" in text) == (400, True)
    assert refused(s3.head_object, Bucket=bucket, Key="k") == ("404", 404)


# Conditions on reading


def test_conditional_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read() == b"x"
    assert s3.get_object(Bucket=bucket, Key="k", IfNoneMatch='"other"')["Body"].read() == b"x"
    assert refused(s3.get_object, Bucket=bucket, Key="k", IfMatch='"other"') == ("PreconditionFailed", 412)
    assert refused(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=etag) == ("304", 304)
    assert refused(s3.head_object, Bucket=bucket, Key="k", IfModifiedSince=modified) == ("304", 304)
    assert refused(s3.get_object, Bucket=bucket, Key="k", IfUnmodifiedSince="Sat, 01 Jan 2000 00:00:00 GMT") == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag, IfUnmodifiedSince="Sat, 01 Jan 2000 00:00:00 GMT")["Body"].read() == b"x"


def test_conditional_copies(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    s3.copy_object(Bucket=bucket, Key="to", CopySource=f"{bucket}/k", CopySourceIfMatch=etag)
    for condition in {"CopySourceIfMatch": '"other"'}, {"CopySourceIfNoneMatch": etag}:
        assert refused(s3.copy_object, Bucket=bucket, Key="to", CopySource=f"{bucket}/k", **condition) == ("PreconditionFailed", 412)


def test_copy_onto_itself(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"a": "1"})
    assert refused(s3.copy_object, Bucket=bucket, Key="k", CopySource=f"{bucket}/k") == ("InvalidRequest", 400)
    s3.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/k", MetadataDirective="REPLACE", Metadata={"b": "2"})
    got = s3.get_object(Bucket=bucket, Key="k")
    assert (got["Body"].read(), got["Metadata"]) == (b"x", {"b": "2"})


@pytest.mark.newest
def test_conditions_on_what_is_not_there(s3, bucket):
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"", IfMatch='"x"') == ("NoSuchKey", 404)
    s3.put_object(Bucket=bucket, Key="k", Body=b"", IfNoneMatch="*")


@pytest.mark.newest
def test_conditional_completion(s3, bucket):
    upload = begin(s3, bucket)
    part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x")
    s3.put_object(Bucket=bucket, Key="k", Body=b"first")
    assert refused(finish, s3=s3, bucket=bucket, upload=upload, parts=[part], IfNoneMatch="*") == ("PreconditionFailed", 412)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"


# Lists


@pytest.fixture(scope="module")
def listed(s3):
    name = new_name()
    s3.create_bucket(Bucket=name)
    for key in ["a/1", "a/2", "b", "b/1", "c d/ü", "c+d", "z"]:
        s3.put_object(Bucket=name, Key=key, Body=key.encode())
    yield name
    empty(s3, name)


def keys(page):
    return [o["Key"] for o in page.get("Contents", [])]


def prefixes(page):
    return [p["Prefix"] for p in page.get("CommonPrefixes", [])]


def test_list_prefix_and_delimiter(s3, listed):
    page = s3.list_objects_v2(Bucket=listed, Delimiter="/")
    assert (keys(page), prefixes(page), page["KeyCount"]) == (["b", "c+d", "z"], ["a/", "b/", "c d/"], 6)
    page = s3.list_objects_v2(Bucket=listed, Delimiter="/", Prefix="a/")
    assert (keys(page), prefixes(page)) == (["a/1", "a/2"], [])
    page = s3.list_objects_v2(Bucket=listed, Prefix="nothing")
    assert (keys(page), page["KeyCount"], page["IsTruncated"]) == ([], 0, False)
    assert prefixes(s3.list_objects_v2(Bucket=listed, Delimiter=" ")) == ["c "]


def test_list_pages_with_prefixes(s3, listed):
    for operation in "list_objects_v2", "list_objects":
        seen = []
        for page in s3.get_paginator(operation).paginate(Bucket=listed, Delimiter="/", PaginationConfig={"PageSize": 2}):
            assert len(keys(page)) + len(prefixes(page)) <= 2
            seen += sorted(keys(page) + prefixes(page))
        assert seen == ["a/", "b", "b/", "c d/", "c+d", "z"]


def test_list_begins_after(s3, listed):
    assert keys(s3.list_objects_v2(Bucket=listed, StartAfter="b/1")) == ["c d/ü", "c+d", "z"]
    assert keys(s3.list_objects(Bucket=listed, Marker="b/0")) == ["b/1", "c d/ü", "c+d", "z"]
    assert keys(s3.list_objects_v2(Bucket=listed, StartAfter="zz")) == []


def test_list_no_keys_at_all(s3, listed):
    page = s3.list_objects_v2(Bucket=listed, MaxKeys=0)
    assert (keys(page), page["IsTruncated"], page["MaxKeys"]) == ([], False, 0)


def test_list_bad_arguments(s3, listed):
    assert refused(s3.list_objects_v2, Bucket=listed, MaxKeys=-1) == ("InvalidArgument", 400)
    assert refused(s3.list_objects_v2, Bucket=listed, ContinuationToken="never given out") == ("InvalidArgument", 400)
    assert refused(s3.list_objects_v2, Bucket=listed, EncodingType="rot13") == ("InvalidArgument", 400)


def test_list_owner_if_asked(s3, listed):
    assert "Owner" not in s3.list_objects_v2(Bucket=listed)["Contents"][0]
    assert s3.list_objects_v2(Bucket=listed, FetchOwner=True)["Contents"][0]["Owner"]["ID"]
    assert s3.list_objects(Bucket=listed)["Contents"][0]["Owner"]["ID"]


def test_list_says_what_head_says(s3, listed):
    for o in s3.list_objects_v2(Bucket=listed)["Contents"]:
        head = s3.head_object(Bucket=listed, Key=o["Key"])
        assert (o["ETag"], o["Size"], o["LastModified"].replace(microsecond=0)) == (head["ETag"], head["ContentLength"], head["LastModified"])


# Deleting many


def test_delete_many(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}, {"Key": "never there"}]})
    assert [d["Key"] for d in done["Deleted"]] == ["k", "never there"] and "Errors" not in done
    assert "Deleted" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}], "Quiet": True})


def test_delete_too_many(s3, bucket):
    doomed = [{"Key": f"{i}"} for i in range(1001)]
    assert refused(s3.delete_objects, Bucket=bucket, Delete={"Objects": doomed}) == ("MalformedXML", 400)


# Multipart


def begin(s3, bucket, **options):
    return s3.create_multipart_upload(Bucket=bucket, Key="k", **options)["UploadId"]


def finish(s3, bucket, upload, parts, numbers=None, **options):
    listed = [{"PartNumber": n, "ETag": p["ETag"]} for n, p in zip(numbers or range(1, 10001), parts)]
    return s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": listed}, **options)


def test_multipart_out_of_order_and_repeated(s3, bucket):
    upload = begin(s3, bucket, Metadata={"a": "1"}, ContentType="a/b")
    last = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=9, Body=b"end")
    s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=2, Body=b"y" * 5 * MiB)
    first = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=2, Body=b"x" * 5 * MiB)
    parts = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)["Parts"]
    assert [(p["PartNumber"], p["Size"], p["ETag"]) for p in parts] == [(2, 5 * MiB, first["ETag"]), (9, 3, last["ETag"])]
    assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload]
    finish(s3, bucket, upload, [first, last], [2, 9])
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"x" * 5 * MiB + b"end"
    assert (got["Metadata"], got["ContentType"]) == ({"a": "1"}, "a/b")
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    part = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert (part["Body"].read(), part["PartsCount"], part["ResponseMetadata"]["HTTPStatusCode"]) == (b"end", 2, 206)


def test_multipart_refusals(s3, bucket):
    upload = begin(s3, bucket)
    small = [s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=n, Body=b"x") for n in (1, 2)]
    assert refused(finish, s3=s3, bucket=bucket, upload=upload, parts=small) == ("EntityTooSmall", 400)
    assert refused(finish, s3=s3, bucket=bucket, upload=upload, parts=small, numbers=[2, 1]) == ("InvalidPartOrder", 400)
    assert refused(finish, s3=s3, bucket=bucket, upload=upload, parts=small, numbers=[1, 7]) == ("InvalidPart", 400)
    assert refused(finish, s3=s3, bucket=bucket, upload=upload, parts=[{"ETag": '"0"'}]) == ("InvalidPart", 400)
    assert refused(finish, s3=s3, bucket=bucket, upload=upload, parts=[]) == ("MalformedXML", 400)
    for number in 0, 10001:
        assert refused(s3.upload_part, Bucket=bucket, Key="k", UploadId=upload, PartNumber=number, Body=b"") == ("InvalidArgument", 400)
    assert refused(s3.head_object, Bucket=bucket, Key="k") == ("404", 404)
    finish(s3, bucket, upload, small[:1])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


def test_multipart_that_is_not_there(s3, bucket):
    upload = begin(s3, bucket)
    part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x")
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    for gone in upload, "no-such-upload":
        assert refused(s3.upload_part, Bucket=bucket, Key="k", UploadId=gone, PartNumber=1, Body=b"x") == ("NoSuchUpload", 404)
        assert refused(s3.list_parts, Bucket=bucket, Key="k", UploadId=gone) == ("NoSuchUpload", 404)
        assert refused(s3.abort_multipart_upload, Bucket=bucket, Key="k", UploadId=gone) == ("NoSuchUpload", 404)
        assert refused(finish, s3=s3, bucket=bucket, upload=gone, parts=[part]) == ("NoSuchUpload", 404)


def test_completing_twice_is_one_object(s3, bucket):
    upload = begin(s3, bucket)
    part = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=b"x")
    assert finish(s3, bucket, upload, [part])["ETag"] == finish(s3, bucket, upload, [part])["ETag"]


def test_parts_copied_by_range(s3, bucket):
    body = bytes(range(256)) * 24 * 1024
    s3.put_object(Bucket=bucket, Key="from", Body=body)
    upload = begin(s3, bucket)
    ranges = [(0, 5 * MiB - 1), (7, 106)]
    parts = [
        s3.upload_part_copy(Bucket=bucket, Key="k", UploadId=upload, PartNumber=n, CopySource=f"{bucket}/from", CopySourceRange=f"bytes={a}-{b}")["CopyPartResult"]
        for n, (a, b) in enumerate(ranges, 1)
    ]
    finish(s3, bucket, upload, parts)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == body[: 5 * MiB] + body[7:107]
    s3.put_object(Bucket=bucket, Key="short", Body=b"short")
    bad = {"Bucket": bucket, "Key": "k", "UploadId": begin(s3, bucket), "PartNumber": 1, "CopySource": f"{bucket}/short"}
    assert refused(s3.upload_part_copy, CopySourceRange="bytes=0-21", **bad)[0] in ("InvalidRange", "InvalidArgument")
    assert refused(s3.upload_part_copy, CopySourceRange="0-2", **bad) == ("InvalidArgument", 400)


# Versions


@pytest.fixture
def versioned(s3, bucket):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


def test_bucket_was_never_versioned(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert [v["VersionId"] for v in s3.list_object_versions(Bucket=bucket)["Versions"]] == ["null"]


def test_reading_a_mark_of_deletion(s3, versioned):
    s3.put_object(Bucket=versioned, Key="k", Body=b"x")
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    assert refused(s3.get_object, Bucket=versioned, Key="k", VersionId=marker) == ("MethodNotAllowed", 405)
    with pytest.raises(ClientError) as caught:
        s3.get_object(Bucket=versioned, Key="k")
    headers = caught.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert (headers["x-amz-delete-marker"], headers["x-amz-version-id"]) == ("true", marker)


def test_versions_that_are_not_there(s3, versioned):
    gone = s3.put_object(Bucket=versioned, Key="k", Body=b"x")["VersionId"]
    s3.delete_object(Bucket=versioned, Key="k", VersionId=gone)
    assert refused(s3.get_object, Bucket=versioned, Key="k", VersionId=gone) == ("NoSuchVersion", 404)
    assert refused(s3.get_object, Bucket=versioned, Key="k", VersionId="nonsense") == ("InvalidArgument", 400)
    assert s3.delete_object(Bucket=versioned, Key="k", VersionId=gone)["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_copying_a_version(s3, versioned):
    old = s3.put_object(Bucket=versioned, Key="k", Body=b"old")["VersionId"]
    s3.put_object(Bucket=versioned, Key="k", Body=b"new")
    done = s3.copy_object(Bucket=versioned, Key="k", CopySource={"Bucket": versioned, "Key": "k", "VersionId": old}, MetadataDirective="REPLACE")
    assert done["CopySourceVersionId"] == old
    assert s3.get_object(Bucket=versioned, Key="k")["Body"].read() == b"old"


def test_suspended_versions_share_one_id(s3, versioned):
    kept = s3.put_object(Bucket=versioned, Key="k", Body=b"kept")["VersionId"]
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration={"Status": "Suspended"})
    for body in b"1", b"2":
        s3.put_object(Bucket=versioned, Key="k", Body=body)
    assert {v["VersionId"] for v in s3.list_object_versions(Bucket=versioned)["Versions"]} == {kept, "null"}
    s3.delete_object(Bucket=versioned, Key="k")
    listed = s3.list_object_versions(Bucket=versioned)
    assert [v["VersionId"] for v in listed["Versions"]] == [kept]
    assert [m["VersionId"] for m in listed["DeleteMarkers"]] == ["null"]


def test_version_pages(s3, versioned):
    made = [(key, s3.put_object(Bucket=versioned, Key=key, Body=b"")["VersionId"]) for key in "aabb"]
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=versioned, PaginationConfig={"PageSize": 1})
    seen = [(v["Key"], v["VersionId"], v["IsLatest"]) for page in pages for v in page.get("Versions", [])]
    assert seen == [(*made[1], True), (*made[0], False), (*made[3], True), (*made[2], False)]


# Tags


@pytest.mark.parametrize(
    "tags",
    [[("k" * 129, "v")], [("k", "v" * 257)], [("k", "1"), ("k", "2")], [(str(i), "") for i in range(11)], [("aws:mine", "v")]],
    ids=["long key", "long value", "twice", "eleven", "reserved"],
)
def test_bad_tags(s3, bucket, tags):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    code, status = refused(s3.put_object_tagging, Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": k, "Value": v} for k, v in tags]})
    assert code in ("InvalidTag", "BadRequest") and status == 400
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == []


# Who may do what


def test_anonymous_is_refused(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for method, path in [("GET", f"/{bucket}"), ("GET", f"/{bucket}/k"), ("PUT", f"/{bucket}/new"), ("DELETE", f"/{bucket}/k"), ("PUT", f"/{new_name()}")]:
        status, _, text = send(method, path)
        assert (status, b"<Code>AccessDenied</Code>" in text) == (403, True), (method, path)
    assert keys(s3.list_objects_v2(Bucket=bucket)) == ["k"]
    status, _, text = send("GET", "/")  # nobody owns no buckets
    assert (status, b"<Bucket>" in text) == (200, False)


def test_public_read_is_reading_only(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ACL="public-read")
    assert send("GET", f"/{bucket}/k")[2] == b"x"
    assert send("DELETE", f"/{bucket}/k")[0] == 403
    assert send("GET", f"/{bucket}")[0] == 403


def test_policy_lets_others_in(s3, other, bucket):
    s3.put_object(Bucket=bucket, Key="open/k", Body=b"x")
    s3.put_object(Bucket=bucket, Key="closed/k", Body=b"x")
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/open/*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    assert refused(other.put_bucket_policy, Bucket=bucket, Policy=policy) == ("AccessDenied", 403)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]) == json.loads(policy)
    assert other.get_object(Bucket=bucket, Key="open/k")["Body"].read() == b"x"
    assert send("GET", f"/{bucket}/open/k")[0] == 200
    assert refused(other.get_object, Bucket=bucket, Key="closed/k") == ("AccessDenied", 403)
    s3.delete_bucket_policy(Bucket=bucket)
    assert refused(other.get_object, Bucket=bucket, Key="open/k") == ("AccessDenied", 403)
    assert refused(s3.get_bucket_policy, Bucket=bucket) == ("NoSuchBucketPolicy", 404)


def test_malformed_policy(s3, bucket):
    for policy in "{}", "not json", '{"Version": "2012-10-17", "Statement": [{"Effect": "Perhaps"}]}':
        assert refused(s3.put_bucket_policy, Bucket=bucket, Policy=policy) == ("MalformedPolicy", 400)


def test_copy_from_what_one_may_not_read(s3, other, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"secret")
    own = new_name()
    other.create_bucket(Bucket=own)
    try:
        assert refused(other.copy_object, Bucket=own, Key="k", CopySource=f"{bucket}/k") == ("AccessDenied", 403)
        assert keys(other.list_objects_v2(Bucket=own)) == []
    finally:
        other.delete_bucket(Bucket=own)


def test_clock_that_is_wrong(bucket, monkeypatch):
    assert send_signed("GET", f"/{bucket}")[0] == 200
    early = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - datetime.timedelta(minutes=20)
    if hasattr(botocore.auth, "get_current_datetime"):
        monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: early)
    else:  # botocore from before 2025
        clock = types.SimpleNamespace(datetime=types.SimpleNamespace(utcnow=lambda: early))
        monkeypatch.setattr(botocore.auth, "datetime", clock)
    status, _, text = send_signed("GET", f"/{bucket}")
    assert (status, b"<Code>RequestTimeTooSkewed</Code>" in text) == (403, True)


# What there is not


def test_what_is_not_supported_says_so(s3, bucket):
    rule = {"ID": "x", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
    assert refused(s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration={"Rules": [rule]}) == ("NotImplemented", 501)
    assert refused(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == ("NoSuchLifecycleConfiguration", 404)
    website = {"IndexDocument": {"Suffix": "index.html"}}
    assert refused(s3.put_bucket_website, Bucket=bucket, WebsiteConfiguration=website) == ("NotImplemented", 501)
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"x", ServerSideEncryption="aws:kms") == ("NotImplemented", 501)
    assert keys(s3.list_objects_v2(Bucket=bucket)) == []


def test_errors_are_xml_with_an_id(bucket):
    status, headers, text = send("GET", f"/{bucket}/k")
    assert headers["Content-Type"] == "application/xml" and text.startswith(b"<?xml")
    assert headers["x-amz-request-id"].encode() in text


def test_unknown_method(bucket):
    status, _, text = send("PATCH", f"/{bucket}/k")
    assert status in (403, 405) and b"<Error>" in text
