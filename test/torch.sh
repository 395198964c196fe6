#!/usr/bin/env bash
# The loader under real PyTorch: Debian's, on the processor. It needs the system's own
# Python and numpy, so it has a virtual environment of its own, build/venv-torch.
# Arguments are passed to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

python=/usr/bin/python3
venv=$PWD/build/venv-torch
if ! "$python" -c 'import torch, PIL, ensurepip' 2>/dev/null; then
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends python3 python3-venv python3-torch python3-numpy python3-pil >/dev/null
fi
[ -x "$venv/bin/pip" ] || "$python" -m venv --system-site-packages "$venv"
pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
"$venv/bin/python" -c 'import pytest' 2>/dev/null || "${pip[@]}" install "$(grep '^pytest==' python/requirements-test.txt)"
"$venv/bin/python" -c 'import penstock' 2>/dev/null || "${pip[@]}" install --editable ./python

[ -n "${PENSTOCK_BINARY:-}" ] || [ -x bin/penstock ] || make build
cd python
exec "$venv/bin/python" -m pytest tests/test_torch.py tests/test_training.py tests/test_loader.py "$@"
