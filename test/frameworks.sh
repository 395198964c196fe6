#!/usr/bin/env bash
# The SDK inside of real frameworks: torchdata, Lightning, Accelerate, transformers and a DeviceMesh of torch. Runs on
# the processor are killed, and go on with other numbers of ranks. Not part of `make test`: the first time it loads
# some gigabytes into build/venv-frameworks. Arguments are passed to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3} # 3.11 or later, which the pinned versions need
venv=$PWD/build/venv-frameworks
[ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"

# The stamp says what is installed.
wanted=$(cat python/requirements-frameworks.txt && grep '^pytest==' python/requirements-test.txt)
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
  pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
  "${pip[@]}" install -r python/requirements-frameworks.txt "$(grep '^pytest==' python/requirements-test.txt)"
  "${pip[@]}" install --editable ./python
  echo "$wanted" >"$venv/installed"
fi

"$venv/bin/python" -c '
import platform, sys
from importlib.metadata import version
print(f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in sys.argv[1:]), sep="; ")
' torch torchdata lightning accelerate transformers numpy

cd python
exec "$venv/bin/python" -m pytest tests/frameworks "$@"
