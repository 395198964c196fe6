#!/usr/bin/env bash
# Formatting, vet and staticcheck. The house rules that need code are tests of internal/lint.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/tools
for tool in honnef.co/go/tools/cmd/staticcheck mvdan.cc/gofumpt; do
  name=${tool##*/}
  [ -x "build/tools/$name" ] && [ "build/tools/$name" -nt tools/go.sum ] || (cd tools && go build -o "../build/tools/$name" "$tool")
done
unformatted=$(git ls-files -co --exclude-standard '*.go' | xargs -r build/tools/gofumpt -l)
if [ -n "$unformatted" ]; then
  echo "not formatted (gofumpt -w):" "$unformatted"
  exit 1
fi
go vet ./...
build/tools/staticcheck ./...
echo "lint: ok"
