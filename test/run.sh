#!/usr/bin/env bash
# Everything CI runs, from nothing: installs what is missing, then lint, unit and
# real-binary tests with the race detector, and the short versions of the failure
# tests. The last lines say what failed.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
step() {
  local name=$1 begin=$SECONDS
  shift
  echo "=== $name"
  if "$@"; then
    echo "=== $name: ok ($((SECONDS - begin)) s)"
  else
    echo "=== $name: FAILED ($((SECONDS - begin)) s)"
    failed+=("$name")
  fi
}

unit() { CGO_ENABLED=1 go test -race -timeout 25m $(go list ./... | grep -v /test/chaos); }
python() { make build && ./test/python.sh -q; }
torch() { ./test/torch.sh -q; }
s3() { ./test/s3/clients.sh; }
failures() { go test -timeout 25m -count=1 ./test/chaos; }

step "install" ./test/install.sh
step "lint" ./test/lint.sh
step "unit" unit
step "python" python
step "torch" torch
step "s3" s3
step "failures (short)" failures

if [ ${#failed[@]} -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "all steps passed"
