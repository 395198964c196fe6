#!/usr/bin/env bash
# s3torchconnector: datasets and checkpoints of PyTorch, in the directory DIR.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$root/test/s3/byhand/venv.sh"
packages s3torchconnector
mkdir -p "$1" && cd "$1"
export AWS_ACCESS_KEY_ID=$S3_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$S3_SECRET_KEY AWS_DEFAULT_REGION=us-east-1 AWS_REGION=us-east-1
export AWS_ENDPOINT_URL=$S3_ENDPOINT S3_ENDPOINT_URL=$S3_ENDPOINT PATH=$root/build/venv-s3/bin:$PATH
"$root/build/venv-s3/bin/aws" s3 mb s3://byhand-s3torchconnector >/dev/null
"$venv/bin/python" "$root/test/s3/byhand/s3torchconnector.py"
