#!/usr/bin/env bash
# Many files into a dataset, and into one tar, side by side in the same minutes:
#
#   tar        GNU tar of the same files in the same (permuted) order, and the tar synced
#   create     penstock dataset create --to DIR: tar shards with a checksum of every file,
#              and the manifest; every shard is synced before the version is published
#   bucket     the same into a bucket of a node on this machine
#   verify     penstock dataset verify: all of it is read and checked
#
# Files are warm: they were just written, and read by a first run that is not counted.
# As root it repeats tar and create with cold ones, in the order of the tree and permuted.
# Their sizes are spread evenly on a logarithmic scale, 4 to 100 KiB: 30 KiB on average.
#
#   bench/dataset/run.sh [FILES...]     40000 and 200000 files if none are given
#
# Works in a temporary directory (TMPDIR), which needs room for the files three times,
# and removes it. Needs Go, GNU tar and Python.
set -euo pipefail
cd "$(dirname "$0")/../.."
CGO_ENABLED=0 go build -trimpath -o build/dataset/penstock ./cmd/penstock
PATH=$PWD/build/dataset:$PATH

work=$(mktemp -d)
cd "$work"
node=
cleanup() {
  [ -z "$node" ] || kill "$node" 2>/dev/null || true
  wait
  cd /
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

make_tree() { # DIR FILES: a thousand in a folder
  python3 - "$1" "$2" <<'PY'
import math, os, random, sys
root, files = sys.argv[1], int(sys.argv[2])
rnd, pool = random.Random(1), os.urandom(1 << 20)
for i in range(files):
    folder = f"{root}/{i // 1000:04d}"
    if i % 1000 == 0:
        os.makedirs(folder)
    size = int(4096 * math.exp(rnd.random() * math.log(25)))
    at = rnd.randrange((1 << 20) - size)
    with open(f"{folder}/{i:07d}.jpg", "wb") as f:
        f.write(pool[at:at + size])
PY
}

# timed NAME COMMAND... prints how long it took, and keeps it in $last.
timed() {
  local name=$1 begun end
  shift
  begun=$(date +%s%N)
  "$@" >out.txt 2>&1 || { cat out.txt; return 1; }
  end=$(date +%s%N)
  last=$(((end - begun) / 1000000))
  printf '  %-8s %6d ms\n' "$name" "$last"
}
tar_synced() { tar --no-recursion -C tree -cf one.tar -T order.txt && sync one.tar; }
create() { penstock dataset create set --from ./tree --to ./set; }

penstock serve --data data --listen 127.0.0.1:0 >node.txt 2>&1 &
node=$!
for _ in $(seq 200); do
  PENSTOCK_ENDPOINT=$(sed -n 's,.* ready at ,,p' node.txt)
  [ -n "$PENSTOCK_ENDPOINT" ] && break
  sleep 0.05
done
export PENSTOCK_ENDPOINT
penstock bucket create bench

[ $# -gt 0 ] || set -- 40000 200000
for files in "$@"; do
  rm -rf tree set
  make_tree tree "$files"
  create >/dev/null
  for shard in set/000001/*.tar; do tar tf "$shard"; done >order.txt
  echo "$files files, $(du -sh --apparent-size tree | cut -f1)"
  tars=0 creates=0
  for round in 1 2 3; do
    rm -rf one.tar set
    sync -f .
    timed tar tar_synced
    tars=$((tars + last))
    rm -f one.tar
    sync -f .
    timed create create
    creates=$((creates + last))
  done
  awk -v a="$tars" -v b="$creates" 'BEGIN { printf "  create is %.2f times as fast as tar\n", a / b }'
  timed verify penstock dataset verify ./set
  rm -rf set
  timed bucket penstock dataset create "set$files" --from ./tree --bucket bench
  penstock dataset rm --force "set$files" >/dev/null

  # Cold: nothing of the files is in memory. In the order of the tree, which drives like, and permuted.
  [ -w /proc/sys/vm/drop_caches ] || continue
  (cd tree && find . -type f | sed 's,^\./,,' | sort) >tree.txt
  cold() {
    sync -f .
    echo 3 >/proc/sys/vm/drop_caches
    rm -rf one.tar set
    timed "$@"
  }
  echo "  cold, in the order of the tree; then permuted"
  mv order.txt permuted.txt
  for round in 1 2; do
    cp tree.txt order.txt
    cold tar tar_synced
    cold create penstock dataset create set --from ./tree --to ./set --keep-order
    cp permuted.txt order.txt
    cold tar tar_synced
    cold create create
  done
done
