#!/usr/bin/env bash
# The aws CLI: cp, sync, mv, rm, presign and s3api, in the directory DIR.
set -euo pipefail
mkdir -p "$1" && cd "$1"
export AWS_ACCESS_KEY_ID=$S3_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$S3_SECRET_KEY AWS_ENDPOINT_URL=$S3_ENDPOINT AWS_DEFAULT_REGION=us-east-1 AWS_MAX_ATTEMPTS=1
aws --version | cut -d' ' -f1
# Left to itself it signs addresses, and only them, with signature version 2.
aws configure set default.s3.signature_version s3v4
fail() { echo "awscli: $1"; exit 1; }

b=s3://awscli-test
aws s3 mb $b >/dev/null
mkdir -p tree/"dir with space"/a+b tree/ключ
head -c 20971520 /dev/urandom >tree/large
for i in 1 2 3; do echo "$i" >"tree/dir with space/a+b/100% $i"; done
echo utf >"tree/ключ/ü"
aws s3 sync tree $b/tree --only-show-errors
[ -z "$(aws s3 sync tree $b/tree --dryrun)" ] || fail "a second sync finds differences"
aws s3 sync $b/tree back --only-show-errors
diff -r tree back || fail "what came back differs"
aws s3api head-object --bucket awscli-test --key tree/large --query ETag --output text | grep -- '-3"$' >/dev/null || fail "20 MiB did not go up in parts"
aws s3 cp $b/tree/large $b/copied --only-show-errors
aws s3 mv $b/copied $b/moved --only-show-errors
aws s3 cp $b/moved - | cmp - tree/large || fail "a copy in the store differs"
aws s3api get-object --bucket awscli-test --key moved --range bytes=5-104 range >/dev/null
cmp <(tail -c +6 tree/large | head -c 100) range || fail "a range differs"
echo streamed | aws s3 cp - "$b/from stdin" --metadata colour=blue
[ "$(aws s3api head-object --bucket awscli-test --key "from stdin" --query Metadata.colour --output text)" = blue ] || fail "metadata is lost"
[ "$(curl -fsS "$(aws s3 presign "$b/from stdin")")" = streamed ] || fail "a presigned address gives something else"
[ "$(aws s3 ls --recursive $b | wc -l)" = 7 ] || fail "ls shows not 7 objects"
aws s3api put-object --bucket awscli-test --key crc64 --body range --checksum-algorithm CRC64NVME --query ChecksumCRC64NVME --output text | grep = >/dev/null || fail "no CRC64NVME came back"
! AWS_SECRET_ACCESS_KEY=wrong aws s3 ls $b >refused 2>&1 || fail "a wrong secret is let in"
grep -q SignatureDoesNotMatch refused || fail "a wrong secret is refused with: $(cat refused)"
aws s3 rb --force $b >/dev/null
! aws s3 ls $b 2>/dev/null || fail "the bucket is still there"
echo "sync there and back, 20 MiB in parts, copy, move, ranges, presign, CRC64NVME, rb --force"
