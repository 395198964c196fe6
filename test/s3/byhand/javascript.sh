#!/usr/bin/env bash
# The JavaScript SDK, with Node, in the directory DIR. The packages go to build/s3-js.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
mkdir -p "$root/build/s3-js" && cd "$root/build/s3-js"
[ -d node_modules/@aws-sdk/client-s3 ] || npm install --silent --no-fund @aws-sdk/client-s3 @aws-sdk/lib-storage @aws-sdk/s3-request-presigner
cp "$root/test/s3/byhand/javascript.mjs" .
node javascript.mjs
