#!/usr/bin/env bash
# The S3 door beside its references: the section "The S3 door" of
# docs/guide/performance.md. Needs nginx; takes versitygw along if it can be built.
# About ten minutes and 3 GB in build/bench.
#
#   bench/s3/run.sh [FLAGS of bench/s3, such as -rounds 3 -only get]
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v nginx >/dev/null && ! [ -x /usr/sbin/nginx ]; then
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends nginx-light >/dev/null
fi
mkdir -p build/bench build/s3bench build/tools
CGO_ENABLED=0 go build -trimpath -o build/s3bench/penstock ./cmd/penstock
go build -o build/s3bench/signed ./bench/signed
go build -o build/s3bench/s3 ./bench/s3
peer=build/tools/versitygw
if ! [ -x "$peer" ]; then
  GOBIN=$PWD/build/tools go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 || peer=
fi
exec build/s3bench/s3 -penstock build/s3bench/penstock -signed build/s3bench/signed -versitygw "$peer" -dir build/bench "$@"
