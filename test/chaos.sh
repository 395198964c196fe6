#!/usr/bin/env bash
# The long versions of the failure tests, by hand: hours, as root. Each is
# repeatable by the seed it prints; test/chaos/doc.go describes the settings.
set -euo pipefail
cd "$(dirname "$0")/.."
PENSTOCK_CRASHES=5000 go test -count=1 -timeout 24h -run 'Cut|Crash' ./internal/store
PENSTOCK_CHAOS_RUNS=20000 PENSTOCK_CHAOS_KILLS=10000 PENSTOCK_CHAOS_CUTS=250 PENSTOCK_CHAOS_FAULTS=100000 PENSTOCK_CHAOS_UPLOADS=1000 \
  PENSTOCK_CHAOS_S3_KILLS=2000 PENSTOCK_CHAOS_S3_CUTS=250 PENSTOCK_CHAOS_S3_TOGETHER=1000 PENSTOCK_CHAOS_S3_RACES=5000 PENSTOCK_CHAOS_S3_GONE=5000 \
  go test -count=1 -timeout 24h -v ./test/chaos
