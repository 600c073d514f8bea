#!/usr/bin/env bash
# Writes crates/estimator-protocol/src/wire/*.rs from crates/estimator-protocol/proto. `--check` changes nothing and
# fails when a file is stale.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
committed=crates/estimator-protocol/src/wire

case "${1:-}" in
"" | --check) ;;
*)
  echo "usage: hack/update-estimator-protocol.sh [--check]" >&2
  exit 2
  ;;
esac

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
cargo run --quiet --locked --manifest-path hack/estimator-protocol/Cargo.toml --target-dir target/estimator-protocol -- "$fresh"
sed -i "1i //! The messages of the estimators' protocol.\\n" "$fresh/pb.rs"
sed -i "1i //! The client and the server of the estimators' gRPC service.\\n" "$fresh/service.rs"
rustfmt --edition 2024 --config-path rustfmt.toml "$fresh"/*.rs

if [[ -z "${1:-}" ]]; then
  mkdir -p "$committed"
  cp "$fresh"/*.rs "$committed"
elif ! diff -ru "$committed" "$fresh"; then
  echo "error: $committed is stale: run hack/update-estimator-protocol.sh" >&2
  exit 1
fi
