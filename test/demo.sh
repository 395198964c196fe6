#!/usr/bin/env bash
# The main job end to end: a node in a temporary directory, objects in and out, a
# kill -9 in the middle, and the data out again with nothing but tar. Stops by
# itself and leaves nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

penstock=$PWD/bin/penstock
work=$(mktemp -d)
pid=
cleanup() {
  [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
trap 'echo "demo: failed at line $LINENO" >&2; [ ! -f "$work/log" ] || tail -5 "$work/log" >&2' ERR

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

port=$((20000 + RANDOM % 20000))
export PENSTOCK_ENDPOINT=http://127.0.0.1:$port

start() {
  printf '$ penstock serve --data data --listen 127.0.0.1:%s &\n' "$port"
  (cd "$work" && exec "$penstock" serve --data data --listen "127.0.0.1:$port") >"$work/log" 2>&1 &
  pid=$!
  for _ in $(seq 200); do
    if penstock bucket ls >/dev/null 2>&1; then return; fi
    kill -0 "$pid"
    sleep 0.05
  done
  echo "demo: the node did not get ready" >&2
  return 1
}
PATH=$PWD/bin:$PATH

say "A node, with nothing configured"
start

say "A bucket, and objects of all sizes in it"
run penstock bucket create pictures
head -c 90000 /dev/urandom >"$work/cat.jpg"
head -c 5000000 /dev/urandom >"$work/movie.mp4"
run penstock put "$work/cat.jpg" pictures/train/cats/0001.jpg
run penstock put "$work/movie.mp4" pictures/movies/0001.mp4
for i in $(seq -w 2 200); do echo "sample $i" | penstock put - "pictures/train/cats/$i.txt"; done
echo '$ for i in ...; do echo "sample $i" | penstock put - pictures/train/cats/$i.txt; done   # 199 small ones'
run penstock ls pictures
run penstock ls pictures/train/cats/ | sed -n 1,4p
run penstock bucket ls

say "Reading"
run penstock get pictures/train/cats/007.txt -
penstock get pictures/movies/0001.mp4 - | cmp - "$work/movie.mp4" && echo "the movie is byte for byte the same"

say "kill -9 while a client writes; every write that was acknowledged is there afterwards"
: >"$work/acknowledged"
(i=0; while echo "late $i" | penstock put - "pictures/late/$i" 2>/dev/null; do echo "$i" >>"$work/acknowledged"; i=$((i + 1)); done) &
writer=$!
until [ "$(wc -l <"$work/acknowledged")" -ge 25 ]; do sleep 0.05; done
kill -9 "$pid"
wait "$writer" 2>/dev/null || true
wait "$pid" 2>/dev/null || true
echo "killed after $(wc -l <"$work/acknowledged") acknowledged writes"
start
while read -r i; do
  [ "$(penstock get "pictures/late/$i" -)" = "late $i" ]
done <"$work/acknowledged"
echo "all $(wc -l <"$work/acknowledged") are there"
penstock get pictures/train/cats/0001.jpg - | cmp - "$work/cat.jpg" && echo "so is the cat"
run penstock scrub

say "Stop, and take the data out with plain tar: a pack is a tar file"
kill -TERM "$pid"
wait "$pid"
pid=
echo "\$ tar tf data/packs/*.tar | head -5"
export TAR_OPTIONS=--warning=no-unknown-keyword # PAX fields of ours that tar does not know
tar tf "$work"/data/packs/*.tar >"$work/members"
head -5 "$work/members"
mkdir "$work/out"
tar xf "$work"/data/packs/*.tar -C "$work/out" --exclude=.penstock
cmp "$work/out/pictures/train/cats/0001.jpg" "$work/cat.jpg" && echo "tar restored the cat"

say "... or everything, large objects and awkward names included, with penstock unpack"
run penstock unpack "$work/data" "$work/all"
cmp "$work/all/pictures/movies/0001.mp4" "$work/movie.mp4" && echo "unpack restored the movie"

say "demo: all of it worked"
