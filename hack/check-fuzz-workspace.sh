#!/usr/bin/env bash
# Checks that the workspace of the fuzz targets has the lints of Berth's workspace, and the same versions of the
# dependencies that both have.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Prints the tables of lints in a manifest, without comments.
lints() {
  awk '/^\[/ { inside = /^\[workspace\.lints/ } inside && !/^(#|$)/' "$1"
}

if ! diff -u <(lints Cargo.toml) <(lints fuzz/Cargo.toml); then
  echo "error: copy the lints of Cargo.toml to fuzz/Cargo.toml" >&2
  exit 1
fi
if ! awk '
  FNR == 1 { name = "" }
  $1 == "name" { name = $3 }
  $1 == "version" && name != "" {
    if (NR == FNR) { versions[name] = versions[name] " " $3; locked[name, $3] = 1 }
    else if (name in versions && !((name, $3) in locked)) {
      printf "%s %s in fuzz/Cargo.lock,%s in Cargo.lock\n", name, $3, versions[name]
      found = 1
    }
  }
  END { exit found }
' Cargo.lock fuzz/Cargo.lock; then
  echo "error: cp Cargo.lock fuzz/Cargo.lock && cargo metadata --manifest-path fuzz/Cargo.toml --format-version 1 >/dev/null" >&2
  exit 1
fi
