#!/usr/bin/env bash
# s3cmd: put, get, sync, cp, mv, modify, signurl, del, in the directory DIR.
set -euo pipefail
mkdir -p "$1" && cd "$1"
s3cmd --version
printf '[default]\naccess_key = %s\nsecret_key = %s\nhost_base = %s\nhost_bucket = %s\nuse_https = False\nmax_retries = 1\n' \
  "$S3_ACCESS_KEY" "$S3_SECRET_KEY" "${S3_ENDPOINT#http://}" "${S3_ENDPOINT#http://}" >conf
s3() { s3cmd --config conf --quiet --no-progress "$@"; }
fail() { echo "s3cmd: $1"; exit 1; }

b=s3://s3cmd-test
s3 mb $b
mkdir -p "tree/dir with space/a+b" tree/ключ
head -c 20971520 /dev/urandom >tree/large
for i in 1 2 3; do echo "$i" >"tree/dir with space/a+b/100% $i"; done
echo utf >"tree/ключ/ü"
s3 --multipart-chunk-size-mb=5 sync tree/ $b/tree/
[ -z "$(s3cmd --config conf sync --dry-run tree/ $b/tree/ | grep upload: || true)" ] || fail "a second sync finds differences"
mkdir back && s3 sync $b/tree/ back/
diff -r tree back || fail "what came back differs"
s3cmd --config conf info $b/tree/large | grep 'MD5 sum' >/dev/null || fail "info says nothing of the MD5"
s3 cp "$b/tree/ключ/ü" "$b/copy of ü"
s3 mv "$b/copy of ü" "$b/moved ü"
s3 --add-header=x-amz-meta-colour:blue modify "$b/moved ü"
s3cmd --config conf info "$b/moved ü" | grep 'x-amz-meta-colour: *blue' >/dev/null || fail "metadata is lost"
s3 get "$b/moved ü" got && cmp got "tree/ключ/ü" || fail "what was moved differs"
[ "$(s3cmd --config conf ls --recursive $b | wc -l)" = 6 ] || fail "ls shows not 6 objects"
s3 setacl --acl-public "$b/moved ü"
[ "$(curl -fsS "$S3_ENDPOINT/s3cmd-test/moved%20%C3%BC")" = utf ] || fail "a public object is not"
s3 del --recursive --force $b/tree/
[ "$(s3cmd --config conf ls --recursive $b | wc -l)" = 1 ] || fail "del --recursive left something"
! s3cmd --config conf --secret_key=wrong ls $b >refused 2>&1 || fail "a wrong secret is let in"
s3 rb --recursive --force $b
echo "sync there and back, 20 MiB in parts, copy, move, modify, public ACL, del --recursive"
