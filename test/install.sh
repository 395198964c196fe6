#!/usr/bin/env bash
# Installs what the tests need and is not there: a C compiler for the race
# detector, file systems for power cuts, a second tar.
set -euo pipefail

need=()
want() { command -v "$1" >/dev/null || need+=("$2"); }
PATH=$PATH:/usr/sbin:/sbin
want gcc gcc
want tar tar
want bsdtar libarchive-tools
want python3 python3
want mkfs.ext4 e2fsprogs
want mkfs.xfs xfsprogs
want losetup util-linux
want mount mount
want curl curl
want openssl openssl

if [ ${#need[@]} -eq 0 ]; then
  echo "nothing to install"
  exit 0
fi
echo "installing: ${need[*]}"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
