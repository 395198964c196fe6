#!/usr/bin/env bash
# The Python SDK: its types, its wheel, and its tests against the real binary
# (PENSTOCK_BINARY, or bin/penstock). What they need goes into build/venv, once.
# Arguments are passed to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=$(command -v python3)
venv=$PWD/build/venv

if ! [ -x "$venv/bin/pip" ]; then
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then # Debian keeps it apart
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
  fi
  "$python" -m venv "$venv"
fi

# The stamp says what is installed.
wanted=$(cat python/requirements-test.txt python/pyproject.toml)
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
  pip=("$venv/bin/pip" --quiet --disable-pip-version-check)
  "${pip[@]}" install -r python/requirements-test.txt
  rm -rf build/wheel
  "${pip[@]}" wheel --no-deps --wheel-dir build/wheel ./python
  ls build/wheel/penstock-*-py3-none-any.whl >/dev/null # pure Python, one for all
  "${pip[@]}" install --editable ./python
  echo "$wanted" >"$venv/installed"
fi

[ -n "${PENSTOCK_BINARY:-}" ] || [ -x bin/penstock ] || make build

cd python
status=0
"$venv/bin/python" -m mypy || status=1
"$venv/bin/python" -m pytest "$@" || status=1
exit $status
