#!/usr/bin/env bash
# Real S3 clients against a node of its own, each with nothing but an endpoint and a key
# pair. Installs what is missing, into build/ where it can. One line for each client.
#
#     test/s3/clients.sh [NAME...]    boto3 boto3-old fsspec awscli s3cmd rclone mount go
#
# Names of scripts in test/s3/byhand are taken, too; without names they do not run.
# PENSTOCK_BINARY is the binary to test, bin/penstock without it.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
all=(boto3 boto3-old fsspec awscli s3cmd rclone mount go)
wanted=("$@")
[ $# -gt 0 ] || wanted=("${all[@]}")

install() {
  local need=() packages=(s3cmd rclone s3fs fuse)
  for package in "${packages[@]}"; do
    local command=$package
    [ "$package" != fuse ] || command=fusermount
    command -v "$command" >/dev/null || need+=("$package")
  done
  if [ ${#need[@]} -gt 0 ]; then
    local sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null || return
  fi
  local suffix
  for suffix in "" -old -fsspec; do # apart, since each pins a botocore of its own
    local venv=build/venv-s3$suffix list=test/s3/requirements$suffix.txt
    cmp -s "$list" "$venv/installed" && continue
    rm -rf "$venv"
    python3 -m venv "$venv" && "$venv/bin/pip" --quiet --disable-pip-version-check install -r "$list" && cp "$list" "$venv/installed" || return
  done
}

work=$(mktemp -d)
node=
cleanup() {
  ! mountpoint -q "$work/mount" || fusermount -u "$work/mount" || umount -l "$work/mount"
  [ -z "$node" ] || { kill "$node" && wait "$node"; } 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

fatal() {
  echo "s3 clients: $1"
  exit 1
}

start() {
  binary=${PENSTOCK_BINARY:-$root/bin/penstock}
  [ -n "${PENSTOCK_BINARY:-}" ] || make --silent build || return
  export PENSTOCK_ACCESS_KEY=rootrootroot PENSTOCK_SECRET_KEY=rootrootrootroot PENSTOCK_TOKEN=tokentokentoken
  : >"$work/out"
  "$binary" serve --data "$work/data" --listen 127.0.0.1:0 --s3 127.0.0.1:0 --s3-domain localhost >"$work/out" 2>"$work/log" &
  node=$!
  until grep -q ready "$work/out"; do
    kill -0 "$node" 2>/dev/null || { cat "$work/log"; return 1; }
    sleep 0.1
  done
  export PENSTOCK_ENDPOINT=$(sed -n 's/.* ready at //p' "$work/out")
  export S3_ENDPOINT=$(sed -n 's/^S3 at //p' "$work/out")
  "$binary" user add alice --access-key access-alice --secret-key - <<<secret-of-alice >/dev/null || return
  "$binary" user add bob --access-key access-bob --secret-key - <<<secret-of-bob >/dev/null || return
  unset PENSTOCK_ACCESS_KEY PENSTOCK_SECRET_KEY PENSTOCK_TOKEN PENSTOCK_ENDPOINT
  export S3_ACCESS_KEY=access-alice S3_SECRET_KEY=secret-of-alice S3_OTHER_ACCESS_KEY=access-bob S3_OTHER_SECRET_KEY=secret-of-bob
  # Clients are to find no other settings than these.
  export HOME=$work/home
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY "${!AWS_@}"
  export AWS_EC2_METADATA_DISABLED=true
  mkdir -p "$HOME" "$work/mount"
}

# pytest VENV FILES...
tests() {
  local venv=$root/build/venv-s3$1
  shift
  (cd test/s3 && "$venv/bin/python" -m pytest -q --tb=short -p no:cacheprovider "$@" && tail -1 "$work/this") || return
}
version() { "$root/build/venv-s3$1/bin/python" -c "import $2; print('$2', $2.__version__)"; }

# Each client prints what it is; the last line it prints is what it did.
run_boto3() { version "" boto3 && tests "" test_boto3.py test_behaviour.py; }
run_boto3-old() { version -old boto3 && tests -old -m "not newest" test_boto3.py test_behaviour.py; }
run_fsspec() { version -fsspec s3fs && tests -fsspec test_fsspec.py; }
run_awscli() { PATH=$root/build/venv-s3/bin:$PATH test/s3/awscli.sh "$work/awscli"; }
run_s3cmd() { test/s3/s3cmd.sh "$work/s3cmd"; }
run_rclone() { test/s3/rclone.sh "$work/rclone"; }
run_mount() { test/s3/mount.sh "$work/s3fs" "$work/mount"; }
run_go() (
  cd test/s3 && export HOME=$owner && go list -m -f '{{.Path}} {{.Version}}' github.com/minio/minio-go/v7 github.com/aws/aws-sdk-go-v2/service/s3 | paste -sd' ' &&
    go test -count=1 -v ./... | grep -vE '^(=== | +--- PASS|PASS)' | sed 's/^ok.*//' && echo "signed chunks, trailers, parts, lists, versions, presigned, refusals"
)

run() {
  if [ -x "test/s3/byhand/$1.sh" ]; then
    "test/s3/byhand/$1.sh" "$work/$1"
  else
    "run_$1"
  fi
}

owner=$HOME # whose Go caches are used
mkdir -p build
begin=$SECONDS
install || fatal "a client could not be installed"
echo "s3 clients: installed ($((SECONDS - begin)) s)"
start || fatal "the node did not start"
failed=()
for name in "${wanted[@]}"; do
  begin=$SECONDS
  if run "$name" >"$work/this" 2>&1; then
    echo "$name: ok: $(head -1 "$work/this"): $(tail -1 "$work/this") ($((SECONDS - begin)) s)"
  else
    echo "--- $name"
    tail -60 "$work/this"
    echo "$name: FAILED ($((SECONDS - begin)) s)"
    failed+=("$name")
  fi
  kill -0 "$node" 2>/dev/null || { tail -30 "$work/log"; fatal "the node ended during $name"; }
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "--- the node's log"
  tail -20 "$work/log"
  fatal "FAILED: ${failed[*]}"
fi
echo "s3 clients: all passed"
