#!/usr/bin/env bash
# Python beside redis-py, plain files, WebDataset, MosaicML Streaming and LitData: the tables "Python beside others" of
# docs/guide/performance.md. What it compares with goes into build/venv-peers, once: some 3 GB, most of it PyTorch, which
# is taken from build/venv-frameworks if that is there. Some 3 GB in TMPDIR as well, which it gives back. A quiet machine
# and a quarter of an hour. Arguments are passed on to python/bench/peers.py.
set -euo pipefail
cd "$(dirname "$0")/../.."

venv=$PWD/build/venv-peers
wanted=$(cat python/bench/requirements.txt)
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
  frameworks=$PWD/build/venv-frameworks
  python=${PYTHON:-python3}
  if [ -x "$frameworks/bin/python" ]; then python=$frameworks/bin/python; fi
  [ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"
  if [ -x "$frameworks/bin/python" ]; then
    for packages in "$venv"/lib/python3*/site-packages; do
      echo "$frameworks/lib/$(basename "$(dirname "$packages")")/site-packages" >"$packages/frameworks.pth"
    done
  fi
  "$venv/bin/pip" --quiet --disable-pip-version-check install -r python/bench/requirements.txt
  echo "$wanted" >"$venv/installed"
fi
if ! command -v redis-server >/dev/null; then
  apt-get install -y --no-install-recommends redis-server >/dev/null || echo "without redis-server" >&2
fi

[ -n "${PENSTOCK_BINARY:-}" ] || [ -x bin/penstock ] || make build
PYTHONPATH=$PWD/python/src exec "$venv/bin/python" -W ignore python/bench/peers.py "$@"
