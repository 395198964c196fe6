#!/usr/bin/env bash
# ceph/s3-tests against a node of its own. The suite is not part of this repository: DIR
# is a checkout of it.
#
#     test/s3/suite.sh DIR [--boto3 VERSION] [pytest arguments]
#
# Without arguments for pytest it runs what the S3 door is for: everything but the marked
# groups below, which docs/guide/s3.md lists as not supported. Each run ends with a line
# of totals; build/s3tests/VERSION.txt keeps the result of every test.
set -euo pipefail
suite=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/../.."
boto3=
if [ "${1:-}" = --boto3 ]; then
  boto3=$2
  shift 2
fi

venv=$PWD/build/venv-s3tests${boto3:+-$boto3}
if ! [ -f "$venv/installed" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" --quiet --disable-pip-version-check install -r "$suite/requirements.txt" ${boto3:+"boto3==$boto3"}
  touch "$venv/installed"
fi
[ -x bin/penstock ] || make build

work=$(mktemp -d)
node=
cleanup() {
  [ -z "$node" ] || { kill "$node" && wait "$node"; } 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
export PENSTOCK_ACCESS_KEY=rootrootroot PENSTOCK_SECRET_KEY=rootrootrootroot PENSTOCK_TOKEN=tokentokentoken
bin/penstock serve --data "$work/data" --listen 127.0.0.1:0 --s3 127.0.0.1:0 --s3-region elsewhere >"$work/out" 2>"$work/log" &
node=$!
until grep -q ready "$work/out"; do
  kill -0 "$node" || { cat "$work/log"; exit 1; }
  sleep 0.1
done
native=$(sed -n 's/.* ready at //p' "$work/out")
s3=$(sed -n 's/^S3 at //p' "$work/out")
export PENSTOCK_ENDPOINT=$native

section() { # name of the section, user
  bin/penstock user add "$2" --access-key "access-$2" --secret-key "secret-of-$2" >/dev/null
  printf '[%s]\ndisplay_name = %s\nuser_id = %s\nemail = %s@example.com\naccess_key = access-%s\nsecret_key = secret-of-%s\n' "$1" "$2" "$2" "$2" "$2" "$2"
}
{
  printf '[DEFAULT]\nhost = 127.0.0.1\nport = %s\nis_secure = False\nssl_verify = False\n' "${s3##*:}"
  printf '[fixtures]\nbucket prefix = s3t-{random}-\n'
  section 's3 main' main
  echo 'api_name = elsewhere'
  section 's3 alt' alt
  section 's3 tenant' tenant
  echo 'tenant = none'
  section iam iam
  section 'iam root' iamroot
  section 'iam alt root' iamaltroot
} >"$work/conf"

unsupported='lifecycle or lifecycle_expiration or lifecycle_transition or encryption or bucket_encryption or sse_s3 or object_lock
  or s3website or s3website_routing_rules or s3website_redirect_location or bucket_logging or bucket_logging_cleanup or cloud_transition
  or cloud_restore or target_by_bucket or iam_account or iam_cross_account or iam_role or iam_tenant or iam_user or group or group_policy
  or role_policy or session_policy or user_policy or test_of_sts or webidentity_test or s3select or sns or storage_class or appendobject
  or auth_aws2 or object_ownership or fails_on_aws'
arguments=("$@")
[ ${#arguments[@]} -gt 0 ] || arguments=(-m "not ($(echo $unsupported))" s3tests/functional/test_s3.py s3tests/functional/test_headers.py)
mkdir -p build/s3tests
results=$PWD/build/s3tests/${boto3:-newest}.txt
cd "$suite"
status=0
S3TEST_CONF=$work/conf "$venv/bin/python" -m pytest -q -rA --tb=short -p no:cacheprovider "${arguments[@]}" >"$results" 2>&1 || status=$?
grep -E '^(FAILED|ERROR) ' "$results" | cut -c1-200 || true
tail -1 "$results"
exit $status
