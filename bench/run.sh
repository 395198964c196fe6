#!/usr/bin/env bash
# The tables of docs/guide/performance.md. Takes about half an hour; give -quick
# for a first look. Needs nginx as a reference.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v nginx >/dev/null && ! [ -x /usr/sbin/nginx ]; then
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends nginx-light >/dev/null
fi
rounds=5 objects=5000000
if [ "${1:-}" = -quick ]; then rounds=2 objects=200000; fi
mkdir -p build/bench
go build -o build/bare ./bench/bare
go build -o build/onenode ./bench/onenode
go build -o build/millions ./bench/millions
build/onenode -rounds $rounds -dir build/bench
echo
build/millions -objects $objects -dir build/bench
