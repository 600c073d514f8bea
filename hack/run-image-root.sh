#!/usr/bin/env bash
# Runs a command in the root file system of the image, as a container would: read-only, as an unprivileged user.
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: hack/run-image-root.sh FOLDER COMMAND..." >&2
  echo "FOLDER comes from hack/assemble-image-root.sh. It needs root, to mount and to change the user." >&2
  exit 2
fi
root=$(cd "$1" && pwd)
shift

# The mount is visible in the new namespace only, and ends with it. The user has no capability.
# shellcheck disable=SC2016 # the variables are those of the inner shell
exec unshare --mount --ipc --uts bash -c '
  set -euo pipefail
  root=$1
  shift
  mount --bind "$root" "$root"
  mount -o remount,bind,ro "$root"
  cd "$root"
  exec env --ignore-environment PATH=/usr/local/bin:/bin HOME=/home/nonroot \
    "$(command -v chroot)" --userspec=65532:65532 --groups= "$root" "$@"
' run-image-root "$root" "$@"
