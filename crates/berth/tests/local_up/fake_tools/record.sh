#!/usr/bin/env bash
set -eu
{ printf '%s' "${0##*/}"; printf '\x1f%s' "$@"; printf '\n'; } >>"$FAKE_TOOLS/calls"
