#!/usr/bin/env bash
# Runs every fuzz target for a while: test/fuzz.sh [TIME], 30s by default.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do
  for target in $(grep -oE '^func (Fuzz[A-Za-z0-9]*)' "$file" | cut -d' ' -f2); do
    echo "=== $(dirname "$file") $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$(dirname "$file")" </dev/null
  done
done
