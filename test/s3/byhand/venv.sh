# Sourced by the scripts beside it, with $root: makes build/venv-s3-byhand with the packages
# named, over the large ones of other virtual environments under build/ where they are.
venv=$root/build/venv-s3-byhand
packages() {
  [ -d "$venv" ] || python3 -m venv "$venv"
  site=$(echo "$venv"/lib/python3*/site-packages)
  ls -d "$root"/build/venv-{peers,frameworks}/lib/python3*/site-packages >"$site/large.pth" 2>/dev/null || true
  "$venv/bin/pip" --quiet --disable-pip-version-check install "$@"
}
