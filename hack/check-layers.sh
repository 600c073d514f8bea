#!/usr/bin/env bash
# Checks that crates have no import cycles, and that trial/apiserver keeps its layers.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test -p berth-e2e --test layers
