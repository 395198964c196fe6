#!/usr/bin/env bash
# The loader under real PyTorch, and our shards under real WebDataset. Arguments are passed to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
./test/torchvenv.sh
[ -n "${PENSTOCK_BINARY:-}" ] || [ -x bin/penstock ] || make build
venv=$PWD/build/venv-torch
cd python
exec "$venv/bin/python" -m pytest tests/test_torch.py tests/test_training.py tests/test_loader.py tests/test_webdataset.py "$@"
