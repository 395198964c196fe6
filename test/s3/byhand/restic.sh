#!/usr/bin/env bash
# restic: init, backup, check, restore, forget and prune, in the directory DIR.
set -euo pipefail
mkdir -p "$1" && cd "$1"
restic version | cut -d' ' -f1,2
export AWS_ACCESS_KEY_ID=$S3_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$S3_SECRET_KEY RESTIC_REPOSITORY=s3:$S3_ENDPOINT/byhand-restic RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$PWD/cache
mkdir -p "tree/dir with space"
head -c 104857600 /dev/urandom >tree/large
for i in $(seq 1000); do echo "$i" >"tree/dir with space/ü $i"; done
restic init --quiet
restic backup --quiet tree
echo changed >"tree/dir with space/ü 1"
restic backup --quiet tree
restic check --quiet --read-data
restic restore --quiet latest --target back
diff -r tree back/tree
restic forget --quiet --keep-last 1 --prune
restic check --quiet
[ "$(restic snapshots --json | grep -o '"short_id"' | wc -l)" = 1 ]
echo "init, two backups of 100 MiB and 1000 files, check --read-data, restore, forget --prune"
