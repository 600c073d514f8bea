#!/usr/bin/env bash
# Runs each fuzz target for a while, as many at a time as there are cores: hack/fuzz.sh [SECONDS] [TARGET…]. With
# --build, only builds the targets. Findings are in fuzz/artifacts.
# Needs cargo-fuzz: cargo install cargo-fuzz --locked --version 0.13.2
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "error: cargo-fuzz is missing: cargo install cargo-fuzz --locked --version 0.13.2" >&2
  exit 1
fi

# Without a sanitizer, a stable toolchain is sufficient: the code has no unsafe parts.
cargo fuzz build --sanitizer none
if [ "${1:-}" = --build ]; then
  exit 0
fi

seconds=${1:-60}
shift || true
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(cargo fuzz list)
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Runs the target $3 for $1 seconds. Prints its final statistics, or all output if it fails.
run() {
  local log="$2/$3" lines=12 status=0
  mkdir -p "fuzz/corpus/$3"
  cargo fuzz run --sanitizer none "$3" "fuzz/corpus/$3" "fuzz/seeds/$3" -- \
    -max_total_time="$1" -timeout=20 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
    >"$log" 2>&1 || status=$?
  [ "$status" = 0 ] || lines=+1
  printf '== %s: %s s\n%s\n' "$3" "$1" "$(tail -n "$lines" "$log")"
  return "$status"
}
export -f run
printf '%s\0' "${targets[@]}" |
  xargs --null --max-args=1 --max-procs="$(nproc)" bash -c 'run "$@" || exit 1' bash "$seconds" "$logs"
