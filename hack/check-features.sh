#!/usr/bin/env bash
# Checks that `cargo build` and `cargo test --workspace` compile the dependencies with the same features, so that the
# tests reuse what the build has compiled.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Prints each dependency with its features, one in a line. Procedural macros and build scripts run on the build machine
# and have features of their own.
features() {
  cargo tree --locked --prefix none --format '{p} {f}' "$@" |
    sed -n -E 's/ \(\*\)$//; s/^([^ ]+ v[^ ]+) (\([^)]*\) )?([^ (]*)$/\1 \3/p' | sort -u
}

build=$(features --package berth --edges normal,no-proc-macro)
tests=$(features --workspace --edges normal,dev,no-proc-macro)
if ! awk '
  NR == FNR { features[$1, $2] = $3; next }
  ($1, $2) in features && features[$1, $2] != $3 {
    printf "%s %s: the build has the features [%s], the tests have [%s]\n", $1, $2, features[$1, $2], $3
    found = 1
  }
  END { exit found }
' <(echo "$build") <(echo "$tests"); then
  echo 'error: give both the same features, in Cargo.toml or in crates/berth/Cargo.toml' >&2
  exit 1
fi
