#!/usr/bin/env bash
# Many small files into an object store, side by side in the same minutes:
#
#   tar           tar cf to a file on the same disk, and that file synced: the plain copy.
#                 (To /dev/null GNU tar does not read the files at all.)
#   penstock      put -r into a node: every object durable and checksummed; rm -r of them
#   rclone        rclone copy --transfers 32 into an S3 server; then without its checks
#   aws           aws s3 cp --recursive with 32 requests at once, into the same
#
# The S3 server is versitygw over a directory: a small Go program that stores every
# object as a file. It syncs nothing, which spares it what a node does. Files are warm:
# they were just written.
#
#   bench/upload/run.sh [FILES [MORE]]   20000 files for all, 200000 for tar and penstock
#
# Works in a temporary directory (TMPDIR) and removes it. Needs apt's rclone and
# awscli, which it installs if it may, and Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
files=${1:-20000} more=${2:-200000}

CGO_ENABLED=0 go build -trimpath -o build/upload/penstock ./cmd/penstock
if ! [ -x build/upload/versitygw ]; then
  GOBIN=$PWD/build/upload go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
fi
if ! [ -x /usr/bin/rclone ] || ! [ -x /usr/bin/aws ]; then
  apt-get install -y rclone awscli >/dev/null
fi
PATH=$PWD/build/upload:/usr/bin:$PATH

work=$(mktemp -d)
cd "$work"
servers=()
cleanup() {
  for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  cd /
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# up starts a server and waits until its port answers.
up() {
  local port=$1
  shift
  "$@" >"log-$port" 2>&1 &
  servers+=($!)
  for _ in $(seq 200); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then return; fi
    sleep 0.05
  done
  cat "log-$port" >&2
  return 1
}

node=$((20000 + RANDOM % 10000)) gateway=$((30000 + RANDOM % 10000))
export PENSTOCK_ENDPOINT=http://127.0.0.1:$node
export AWS_ACCESS_KEY_ID=upload AWS_SECRET_ACCESS_KEY=upload-secret AWS_DEFAULT_REGION=us-east-1
export AWS_CONFIG_FILE=$work/aws.conf AWS_EC2_METADATA_DISABLED=true
unset AWS_CA_BUNDLE # rclone refuses it
printf '[default]\ns3 =\n  max_concurrent_requests = 32\n' >"$AWS_CONFIG_FILE"
export RCLONE_CONFIG=$work/rclone.conf
cat >"$RCLONE_CONFIG" <<CONF
[gw]
type = s3
provider = Other
env_auth = true
endpoint = http://127.0.0.1:$gateway
CONF

make_tree() { # DIR FILES: 4 KiB each, a thousand in a directory
  mkdir "$1"
  for ((i = 0; i < $2 / 1000; i++)); do
    penstock bench load --driver files --dir "$1" --op put-batch --pattern sequential --size 4KiB \
      --keys 1000 --count 1000 --prefix "$(printf '%04d/' "$i")" >/dev/null
  done
}

# timed NAME OBJECTS COMMAND... prints how fast it was.
timed() {
  local name=$1 objects=$2 begun end
  shift 2
  begun=$(date +%s%N)
  "$@" >out 2>&1 || { cat out; return 1; }
  end=$(date +%s%N)
  awk -v name="$name" -v n="$objects" -v ns=$((end - begun)) 'BEGIN { printf "%-34s %8d %9.2f s %10.0f objects/s\n", name, n, ns / 1e9, n / ns * 1e9 }'
}
tar_synced() { tar cf "$1.tar" "$1" && sync "$1.tar"; }
aws_s3() { aws --endpoint-url "http://127.0.0.1:$gateway" s3 "$@"; }

mkdir gateway
up "$node" penstock serve --data data --listen "127.0.0.1:$node"
up "$gateway" versitygw --quiet --keep-alive --port "127.0.0.1:$gateway" --access "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" posix gateway
penstock bucket create upload
aws_s3 mb s3://upload >/dev/null
make_tree few "$files"
make_tree many "$more"
sync -f .

for round in 1 2; do
  echo "round $round"
  timed "tar cf, fsync" "$files" tar_synced few
  timed "penstock put -r" "$files" penstock put -r few "upload/few-$round"
  timed "rclone copy --transfers 32" "$files" rclone copy --transfers 32 --checkers 32 few "gw:upload/rclone-$round"
  timed "rclone, --s3-no-head, no checks" "$files" rclone copy --transfers 32 --s3-no-head --no-check-dest --s3-no-check-bucket few "gw:upload/tuned-$round"
  timed "aws s3 cp --recursive, 32 at once" "$files" aws_s3 cp --only-show-errors --recursive few "s3://upload/aws-$round"
  timed "tar cf, fsync" "$more" tar_synced many
  timed "penstock put -r" "$more" penstock put -r many "upload/many-$round"
  timed "penstock put -r, all there" "$more" penstock put -r many "upload/many-$round"
  timed "penstock rm -r" "$more" penstock rm -r "upload/many-$round"
  rm few.tar many.tar
done
