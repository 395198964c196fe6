#!/usr/bin/env bash
# Many objects in one request, beside Redis and fio: the table "Many in one request" of
# docs/guide/performance.md. Needs redis-server and fio, which it installs if it may,
# and some 30 GB in TMPDIR, which it gives back. A quiet machine and five minutes.
#
#   bench/batches/run.sh [OBJECTS]     of the put-batch, 2000000 by default
set -euo pipefail
cd "$(dirname "$0")/../.."
objects=${1:-2000000}

CGO_ENABLED=0 go build -trimpath -o build/batches/penstock ./cmd/penstock
if ! command -v redis-server >/dev/null || ! command -v fio >/dev/null; then
  apt-get install -y --no-install-recommends redis-server fio >/dev/null
fi
PATH=$PWD/build/batches:$PATH

work=$(mktemp -d)
redis= node=
cleanup() {
  for pid in $redis $node; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

port=$((20000 + RANDOM % 10000))
export PENSTOCK_ENDPOINT=http://127.0.0.1:$port
redis-server --port $((port + 1)) --save '' --appendonly no >"$work/redis.log" &
redis=$!
penstock serve --data "$work/data" --listen "127.0.0.1:$port" >"$work/node.log" 2>&1 &
node=$!
until penstock bucket create bench >/dev/null 2>&1; do
  kill -0 $node
  sleep 0.1
done

# load prints what matters of a measurement.
load() {
  echo
  echo "$1"
  shift
  penstock bench load --bucket bench --server-pid $node "$@" 2>/dev/null | grep -E 'objects/s|bytes/s|CPU/object|ratio|errors'
}
beside=(--workers 2 --duration 3s --warmup 1s --rounds 5 --also "redis:127.0.0.1:$((port + 1)),pid=$redis")

load "batch of 256 x 4 KiB" --op batch --fill --size 4KiB --keys 100000 "${beside[@]}"
load "the same, asked for in JSON" --driver json --op batch --size 4KiB --keys 100000 "${beside[@]}"
load "batch of 64 x 128 KiB" --op batch --batch 64 --fill --prefix large/ --size 128KiB --keys 4000 "${beside[@]}"

mkdir "$work/files"
penstock bench load --driver files --dir "$work/files" --op put --prefix files/ --size 4KiB --keys 100000 --count 100000 >/dev/null 2>&1
for i in 0 1 2 3 4 5 6 7 8 9; do
  (cd "$work/files" && find files -name "*$i" | tar cf - -T -) | penstock put - "bench/tars/$i.tar"
done
load "batch of 256 x 4 KiB, members of ten tars of 50 MB" --op batch --existing --members --prefix tars --workers 2 --duration 3s --warmup 1s --rounds 5
kill $redis
redis=

load "put-batch of 1,024 x 4 KiB, durable" --op put-batch --batch 1024 --prefix put/ --size 4KiB --keys "$objects" --count "$objects" --workers 4
echo
echo "fio: writes of 4 MiB, each followed by fdatasync"
fio --name=log --filename="$work/fio" --rw=write --bs=4M --fdatasync=1 --size=4G --ioengine=psync 2>/dev/null | grep -E 'WRITE:'
