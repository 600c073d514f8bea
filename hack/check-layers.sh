#!/usr/bin/env bash
# Checks that crates depend on lower layers, and not on the trial, and that modules have no import cycles.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test -p berth-e2e --test layers
