#!/usr/bin/env bash
# Checks that links between pages lead to existing files and headings, that paths in backticks exist, and that no file
# contains the markers of an unfinished merge.
# Backticks below are text of the pages.
# shellcheck disable=SC2016
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C.UTF-8

mapfile -t pages < <(git ls-files --cached --others --exclude-standard -- '*.md')
failed=0

report() {
  printf '%s: %s\n' "$1" "$2"
  failed=1
}

# Prints the anchors of a page's headings.
anchors() {
  sed -n '/^```/,/^```/d; s/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^[:alnum:] _-]//g; s/ /-/g'
}

# Prints a page without its fenced blocks.
prose() {
  sed '/^ *```/,/^ *```/d' "$1"
}

while IFS=: read -r file line _; do
  report "$file:$line" "marker of an unfinished merge"
done < <(git grep -InE '^(<{7}|>{7}) ' || true)

for page in "${pages[@]}"; do
  folder=$(dirname "$page")
  while IFS= read -r link; do
    target=${link%%#*}
    file=$page
    [ -z "$target" ] || file=$folder/$target
    if [ ! -e "$file" ]; then
      report "$page" "link to missing $target"
    elif [[ $link == *#* && $file == *.md ]] && ! anchors "$file" | grep -qxF -- "${link#*#}"; then
      report "$page" "link to missing heading $link"
    fi
  done < <(prose "$page" | grep -oE '\]\([^):]+\)' | sed -E 's/^\]\((.*)\)$/\1/' | sort -u)

  # A path may leave out `.rs`, and may have alternatives in braces.
  while IFS= read -r path; do
    while IFS= read -r one; do
      [ -e "$one" ] || [ -e "$one.rs" ] || report "$page" "missing path $one"
    done < <(awk '{
      if (match($0, /\{[^}]*\}/)) {
        n = split(substr($0, RSTART + 1, RLENGTH - 2), part, ",")
        for (i = 1; i <= n; i++) print substr($0, 1, RSTART - 1) part[i] substr($0, RSTART + RLENGTH)
      } else print
    }' <<<"$path")
  done < <(prose "$page" | grep -oE '`(crates|e2e|examples|hack|deploy|docs)/[^` *]*`' | tr -d '`' | sort -u)
done

if [ "$failed" -ne 0 ]; then
  echo "error: adapt these pages to what was moved" >&2
  exit 1
fi
