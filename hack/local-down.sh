#!/usr/bin/env bash
# Removes what hack/local-up.sh has made: gives Karmada its scheduler back, and deletes clusters, contexts and the image.
set -euo pipefail

case ${1:-} in
-h | --help)
  cat <<'USAGE'
Removes what hack/local-up.sh has made, and nothing else: gives Karmada its scheduler back after --with-karmada,
deletes the recorded clusters with their contexts, and the image.

Usage: hack/local-down.sh [--dry-run]

  --dry-run   print every command that would run, and touch nothing

The environment variables are those of hack/local-up.sh --help; set the same ones.
USAGE
  ;;
*) exec "${BASH:-bash}" "$(dirname "${BASH_SOURCE[0]}")/local-up.sh" --down "$@" ;;
esac
