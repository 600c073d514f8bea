#!/usr/bin/env bash
# Writes crds/*.yaml from the types in crates/api. `--check` changes nothing and fails when a file is stale.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
"")
  cargo run --quiet --locked -p berth-api --bin crdgen -- crds
  ;;
--check)
  fresh=$(mktemp -d)
  trap 'rm -rf "$fresh"' EXIT
  cargo run --quiet --locked -p berth-api --bin crdgen -- "$fresh" >/dev/null
  if ! diff -ru crds "$fresh"; then
    echo "error: crds/ is stale: run hack/update-crds.sh" >&2
    exit 1
  fi
  ;;
*)
  echo "usage: hack/update-crds.sh [--check]" >&2
  exit 2
  ;;
esac
