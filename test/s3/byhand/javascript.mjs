// The AWS SDK for JavaScript: objects, parts, streams, lists, presigned addresses, refusals.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { Readable } from "node:stream";
import * as sdk from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

console.log("@aws-sdk/client-s3", JSON.parse(readFileSync("node_modules/@aws-sdk/client-s3/package.json")).version);
const connect = (secretAccessKey) =>
  new sdk.S3Client({
    endpoint: process.env.S3_ENDPOINT, region: "us-east-1", forcePathStyle: true, maxAttempts: 1,
    credentials: { accessKeyId: process.env.S3_ACCESS_KEY, secretAccessKey },
  });
const s3 = connect(process.env.S3_SECRET_KEY);
const Bucket = "byhand-javascript";
await s3.send(new sdk.CreateBucketCommand({ Bucket }));

const names = ["plain", "with space", "a+b", "100%", "%41", "ключ/ü", "a//b", "/leading", "trailing/", "../up", "x/../y", "q?x=1&y", "hash#", "quote'\"", "<&>"];
for (const Key of names) {
  await s3.send(new sdk.PutObjectCommand({ Bucket, Key, Body: Key, Metadata: { colour: "blue" } }));
  const got = await s3.send(new sdk.GetObjectCommand({ Bucket, Key }));
  assert.equal(await got.Body.transformToString(), Key);
  assert.equal(got.Metadata.colour, "blue");
}
const listed = [];
for await (const page of sdk.paginateListObjectsV2({ client: s3, pageSize: 4 }, { Bucket })) listed.push(...page.Contents.map((o) => o.Key));
assert.deepEqual(listed, names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));

const large = randomBytes(20 << 20);
for (const ChecksumAlgorithm of ["CRC32", "CRC32C", "CRC64NVME", "SHA256"]) {
  const Key = "large " + ChecksumAlgorithm;
  await new Upload({ client: s3, partSize: 6 << 20, params: { Bucket, Key, Body: Readable.from([large]), ChecksumAlgorithm } }).done();
  const got = await s3.send(new sdk.GetObjectCommand({ Bucket, Key }));
  assert.ok(large.equals(await got.Body.transformToByteArray()));
}
const part = await s3.send(new sdk.GetObjectCommand({ Bucket, Key: "large CRC32", Range: "bytes=7000000-7000099" }));
assert.ok(large.subarray(7000000, 7000100).equals(await part.Body.transformToByteArray()));

const put = await getSignedUrl(s3, new sdk.PutObjectCommand({ Bucket, Key: "signed ü" }), { expiresIn: 60 });
assert.equal((await fetch(put, { method: "PUT", body: "" })).status, 200);
const get = await getSignedUrl(s3, new sdk.GetObjectCommand({ Bucket, Key: "plain" }), { expiresIn: 60 });
assert.equal(await (await fetch(get)).text(), "plain");
await s3.send(new sdk.CopyObjectCommand({ Bucket, Key: "copy", CopySource: `${Bucket}/${encodeURIComponent("a+b")}` }));
await assert.rejects(s3.send(new sdk.PutObjectCommand({ Bucket, Key: "copy", Body: "", IfNoneMatch: "*" })), { name: "PreconditionFailed" });
await assert.rejects(s3.send(new sdk.GetObjectCommand({ Bucket, Key: "nothing" })), { name: "NoSuchKey" });
await assert.rejects(connect("wrong").send(new sdk.ListBucketsCommand({})), { name: "SignatureDoesNotMatch" });

const all = await s3.send(new sdk.ListObjectsV2Command({ Bucket }));
const done = await s3.send(new sdk.DeleteObjectsCommand({ Bucket, Delete: { Objects: all.Contents.map(({ Key }) => ({ Key })) } }));
assert.equal(done.Deleted.length, names.length + 6);
await s3.send(new sdk.DeleteBucketCommand({ Bucket }));
console.log("odd names, 20 MiB in parts with four checksums, ranges, presigned, copy, conditions, multi-delete");
