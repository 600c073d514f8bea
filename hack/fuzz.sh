#!/usr/bin/env bash
# Runs each fuzz target for a while: hack/fuzz.sh [SECONDS] [TARGET…]. Findings are in fuzz/artifacts.
# Needs cargo-fuzz: cargo install cargo-fuzz --locked --version 0.13.2
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
shift || true

if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "error: cargo-fuzz is missing: cargo install cargo-fuzz --locked --version 0.13.2" >&2
  exit 1
fi

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(cargo fuzz list)
fi

# Without a sanitizer, a stable toolchain is sufficient: the code has no unsafe parts.
cargo fuzz build --sanitizer none
for target in "${targets[@]}"; do
  printf '== %s: %s s\n' "$target" "$seconds"
  mkdir -p "fuzz/corpus/$target"
  cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1
done
