#!/usr/bin/env bash
# A bucket mounted with s3fs: MOUNT is an empty directory, DIR one for other files.
set -euo pipefail
dir=$1 mount=$2
if ! [ -c /dev/fuse ]; then
  echo "s3fs"
  echo "SKIPPED, there is no /dev/fuse"
  exit 0
fi
mkdir -p "$dir" && cd "$dir"
s3fs --version | sed -n '1s/Amazon Simple Storage Service File System/s3fs/p'
fail() { echo "mount: $1"; exit 1; }

curl -fsS -H x-amz-content-sha256:UNSIGNED-PAYLOAD --aws-sigv4 aws:amz:us-east-1:s3 --user "$S3_ACCESS_KEY:$S3_SECRET_KEY" -X PUT "$S3_ENDPOINT/mount-test" >/dev/null || fail "no bucket"
echo "$S3_ACCESS_KEY:$S3_SECRET_KEY" >keys && chmod 600 keys
s3fs mount-test "$mount" -o "passwd_file=$dir/keys,url=$S3_ENDPOINT,use_path_request_style,endpoint=us-east-1,multipart_size=5,parallel_count=4,retries=1"

mkdir -p tree/"dir with space"/a+b tree/ключ
head -c 20971520 /dev/urandom >tree/large
for i in 1 2 3; do echo "$i" >"tree/dir with space/a+b/100% $i"; done
cp -r tree "$mount/tree"
diff -r tree "$mount/tree" || fail "what was copied differs"
mv "$mount/tree/large" "$mount/moved"
cmp "$mount/moved" tree/large || fail "what was moved differs"
echo more >>"$mount/tree/dir with space/a+b/100% 1"
[ "$(cat "$mount/tree/dir with space/a+b/100% 1")" = $'1\nmore' ] || fail "what was appended is lost"
chmod 640 "$mount/moved" && [ "$(stat -c %a "$mount/moved")" = 640 ] || fail "the mode is lost"
truncate -s 7 "$mount/moved" && cmp "$mount/moved" <(head -c 7 tree/large) || fail "truncate went wrong"
ln -s moved "$mount/link" && cmp "$mount/link" "$mount/moved" || fail "a link does not lead there"
fusermount -u "$mount"
# Again, with nothing remembered.
s3fs mount-test "$mount" -o "passwd_file=$dir/keys,url=$S3_ENDPOINT,use_path_request_style,endpoint=us-east-1"
cmp "$mount/moved" <(head -c 7 tree/large) || fail "after mounting again a file differs"
rm -r "$mount"/*
[ -z "$(ls -A "$mount")" ] || fail "rm -r left something"
fusermount -u "$mount"
echo "copy of a tree, 20 MiB in parts, move, append, chmod, truncate, link, mounted twice, rm -r"
