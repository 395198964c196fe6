#!/usr/bin/env bash
# The main job end to end: a node in a temporary directory; 20,000 files the size of
# pictures uploaded to it, with a kill -9 in the middle; one epoch of them in random
# order, one by one and in batches, beside the same epoch from the plain files; the
# data out again with nothing but tar; and a training loop over a dataset that is killed
# twice and goes on exactly. Stops by itself and leaves nothing but build/venv-torch,
# with PyTorch for the last part. Takes about a minute and 4 GB of disk;
# PENSTOCK_DEMO_FILES=2000 takes a tenth.
set -euo pipefail
cd "$(dirname "$0")/.."

./test/torchvenv.sh
PATH=$PWD/bin:$PATH
root=$PWD
SECONDS=0
work=$(mktemp -d)
cd "$work"
pid=
upload=
cleanup() {
  [ -z "$upload" ] || kill "$upload" 2>/dev/null || true
  [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
  cd /
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
trap 'echo "demo: failed at line $LINENO" >&2; tail -5 "$work/log" >&2 || true' ERR

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

port=$((20000 + RANDOM % 20000))
export PENSTOCK_ENDPOINT=http://127.0.0.1:$port

start() {
  printf '$ penstock serve --data data --listen 127.0.0.1:%s &\n' "$port"
  penstock serve --data data --listen "127.0.0.1:$port" >log 2>&1 &
  pid=$!
  for _ in $(seq 200); do
    if penstock bucket ls >/dev/null 2>&1; then return; fi
    kill -0 "$pid"
    sleep 0.05
  done
  echo "demo: the node did not get ready" >&2
  return 1
}

files=${PENSTOCK_DEMO_FILES:-20000}
if [ "$(df -Pm . | awk 'NR == 2 { print $4 }')" -lt $((files / 4 + 500)) ]; then
  echo "demo: $work has too little space for $files files: taking 1000 (TMPDIR says where to work)"
  files=1000
fi

say "A node, with nothing configured, and a bucket in it"
start
run penstock bucket create pictures
head -c 5000000 /dev/urandom >movie.mp4
run penstock put movie.mp4 pictures/movies/0001.mp4
run penstock ls pictures
penstock get pictures/movies/0001.mp4 - | cmp - movie.mp4 && echo "the movie is byte for byte the same"

say "$files files the size of pictures, in 20 directories"
mkdir train
for class in $(seq -w 0 19); do
  # Made by the load generator: 64 KiB on average, the same in every run.
  penstock bench load --driver files --dir train --op put-batch --pattern sequential --prefix "class-$class/" \
    --keys $((files / 20)) --count $((files / 20)) --size lognormal:64KiB,0.5 >/dev/null
done
run du -sh train

say "Upload them; kill -9 the node in the middle and start it again: the upload waits for it and goes on"
echo '$ penstock put -r train pictures/train &'
penstock put -r train pictures/train >uploaded 2>&1 &
upload=$!
half=$(($(du -sm train | cut -f1) / 2))
while [ "$(du -sm data/packs | cut -f1)" -lt "$half" ] && kill -0 "$upload" 2>/dev/null; do sleep 0.05; done
echo "\$ kill -9 $pid   # $(du -sm data/packs | cut -f1) MiB are stored"
kill -9 "$pid"
wait "$pid" 2>/dev/null || true
start
wait "$upload"
upload=
cat uploaded
run penstock put -r train pictures/train
run penstock scrub

say "One epoch: every file once, in random order, every byte checked; one by one, then in batches"
epoch=(penstock bench load --bucket pictures --existing --prefix train --verify --also files:train --op)
run "${epoch[@]}" get | tee get
echo
run "${epoch[@]}" batch | tee batch

say "Stop, and take the data out with plain tar: a pack is a tar file"
kill -TERM "$pid"
wait "$pid"
pid=
export TAR_OPTIONS=--warning=no-unknown-keyword # PAX fields of ours that tar does not know
mkdir out
echo '$ tar xvf data/packs/0000000000000001.tar -C out | head -5'
tar xvf data/packs/0000000000000001.tar -C out --exclude=.penstock >members
head -5 members
# The pack holds some of the files; those must be right.
if diff -rq out/pictures/train train | grep -v '^Only in train'; then exit 1; fi
echo "$(find out/pictures/train -type f | wc -l) files restored by tar, each byte for byte the same"
rm -r out

say "... or everything, large objects and awkward names included, with penstock unpack"
run penstock unpack data all
diff -r all/pictures/train train && cmp all/pictures/movies/0001.mp4 movie.mp4 && echo "all of it is byte for byte the same"

say "The epoch, in short"
awk '
  function row(name) { printf "%-12s %11s %10s %13s %10s %8s\n", name, node, nodeBytes, file, fileBytes, ratio }
  BEGIN {
    printf "%-12s %22s %24s\n", "", "penstock", "plain files"
    printf "%-12s %11s %10s %13s %10s %8s\n", "", "samples/s", "bytes/s", "samples/s", "bytes/s", "ratio"
  }
  $1 == "objects/s" { node = $2; file = $3; ratio = $4 }
  $1 == "bytes/s" { nodeBytes = $2; fileBytes = $3; row(FILENAME == "get" ? "one by one" : "batches") }
' get batch
echo "Client and node share $(nproc) cores. Everything is in memory, where plain files need no disk and have no network."

say "A training loop in PyTorch over a dataset, killed twice with kill -9: it goes on with the same batches, augmented alike"
echo '$ python3 python/examples/resume.py'
"$root/build/venv-torch/bin/python" "$root/python/examples/resume.py"

say "demo: all of it worked, in $SECONDS seconds"
