#!/usr/bin/env bash
# rclone: copy and check of 10,000 files, a large file, moves and a purge, in the directory DIR.
set -euo pipefail
mkdir -p "$1" && cd "$1"
rclone version | sed -n 1p
export RCLONE_CONFIG=/dev/null RCLONE_CONFIG_NODE_TYPE=s3 RCLONE_CONFIG_NODE_PROVIDER=Other RCLONE_CONFIG_NODE_ENDPOINT=$S3_ENDPOINT
export RCLONE_CONFIG_NODE_ACCESS_KEY_ID=$S3_ACCESS_KEY RCLONE_CONFIG_NODE_SECRET_ACCESS_KEY=$S3_SECRET_KEY RCLONE_CONFIG_NODE_UPLOAD_CUTOFF=10M
export RCLONE_RETRIES=1 RCLONE_LOW_LEVEL_RETRIES=1
fail() { echo "rclone: $1"; exit 1; }

b=node:rclone-test
python3 - <<'EOF'
import os
for i in range(10_000):
    path = f"tree/dir {i % 50}/ü+{i % 7}"
    os.makedirs(path, exist_ok=True)
    with open(f"{path}/100% {i}", "w") as f:
        f.write(f"file {i}\n" * (i % 40))
EOF
head -c 20971520 /dev/urandom >large
rclone mkdir $b
rclone copy --transfers 16 --checkers 16 tree $b/tree
rclone check --checkers 16 tree $b/tree 2>&1 | tail -3
[ "$(rclone lsf -R --files-only $b/tree | wc -l)" = 10000 ] || fail "lsf shows not 10,000 files"
rclone check --checkers 16 --download --include '/dir 3/**' tree $b/tree || fail "what came back differs"
rclone copyto large $b/large
rclone cat $b/large | cmp - large || fail "20 MiB came back different"
rclone cat --offset 12345678 --count 100 $b/large | cmp - <(tail -c +12345679 large | head -c 100) || fail "a range differs"
rclone moveto $b/large "$b/moved ü"
[ "$(rclone md5sum "$b/moved ü" | cut -d' ' -f1)" = "$(md5sum large | cut -d' ' -f1)" ] || fail "the MD5 is lost"
! RCLONE_CONFIG_NODE_SECRET_ACCESS_KEY=wrong rclone lsf $b >/dev/null 2>&1 || fail "a wrong secret is let in"
rclone purge $b
echo "copy and check of 10,000 files, 20 MiB in parts, ranges, move, purge"
