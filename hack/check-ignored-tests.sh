#!/usr/bin/env bash
# Checks that each ignored test is on the list .ci/ignored-tests. Takes the output of `cargo test` or `cargo nextest run`.
#
# Where REQUIRE_ALL is not set, a test may also be ignored because of a requirement that is not in BERTH_REQUIRE.
set -euo pipefail

if [ $# != 1 ]; then
  echo "usage: hack/check-ignored-tests.sh RESULTS" >&2
  exit 2
fi
results=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

while IFS= read -r name; do
  if ! git grep --quiet --word-regexp "${name##*::}" -- '*.rs'; then
    echo "error: .ci/ignored-tests names the test $name, which does not exist" >&2
    exit 1
  fi
done < <(sed -n '/^#/d; s/: .*//p' .ci/ignored-tests)

awk -v ci="${REQUIRE_ALL:-}" -v required=",${BERTH_REQUIRE:-}," '
  # Reports whether the reason names only requirements that this run does not demand.
  function lacks_only(reason,    names, count, i) {
    if (reason !~ /^needs /) return 0
    count = split(substr(reason, 7), names, ", ")
    for (i = 1; i <= count; i++) if (index(required, "," names[i] ",")) return 0
    return 1
  }
  FNR == NR {
    if ($0 !~ /^(#|$)/ && match($0, /: /)) listed[substr($0, 1, RSTART - 1)] = substr($0, RSTART + 2)
    next
  }
  # nextest prints no reason.
  /^ *SKIP \[/ { name = $NF; reason = "" }
  /^test .* \.\.\. ignored/ {
    name = substr($0, 6)
    sub(/ \.\.\. ignored.*/, "", name)
    sub(/ \(line [0-9]+\)/, "", name)
    reason = $0
    sub(/.* \.\.\. ignored(, )?/, "", reason)
  }
  /^ *SKIP \[/ || /^test .* \.\.\. ignored/ {
    because = reason == "" ? "" : " (" reason ")"
    if (name in listed && (reason == "" || reason == listed[name])) {
      allowed = allowed "\n  " name ": " listed[name]
    } else if (ci == "" && lacks_only(reason)) {
      allowed = allowed "\n  " name because
    } else {
      refused = refused "\n  " name because
    }
  }
  END {
    print "\ntests that were not run:" (allowed == "" ? " none" : allowed)
    if (refused != "") {
      print "error: these tests were ignored:" refused "\ninstall what they need, or add them to .ci/ignored-tests" > "/dev/stderr"
      exit 1
    }
  }
' .ci/ignored-tests "$results"
