#!/usr/bin/env bash
# Makes build/venv-torch, a virtual environment with Debian's PyTorch (on the
# processor), the system's own Python and numpy, which that PyTorch needs, and the
# SDK; and WebDataset, which must be able to read our shards. Installs what is missing, and does nothing the second time.
set -euo pipefail
cd "$(dirname "$0")/.."

python=/usr/bin/python3
venv=$PWD/build/venv-torch
if ! "$python" -c 'import torch, PIL, ensurepip' 2>/dev/null; then
  sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
    python3 python3-venv python3-torch python3-numpy python3-pil >/dev/null
fi
[ -x "$venv/bin/pip" ] || "$python" -m venv --system-site-packages "$venv"
pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
"$venv/bin/python" -c 'import pytest, webdataset' 2>/dev/null ||
  "${pip[@]}" install "$(grep '^pytest==' python/requirements-test.txt)" webdataset==1.0.2
"$venv/bin/python" -c 'import penstock' 2>/dev/null || "${pip[@]}" install --editable ./python
