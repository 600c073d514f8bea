#!/usr/bin/env bash
# Reports words that make comments, help texts and pages hard to read. CONTRIBUTING.md describes the style.
#
# Usage: hack/check-words.sh [--count] [PATH...]
#   PATH      limits the check to these files and folders
#   --count   prints the number of findings for each crate and folder, and always succeeds
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C

# First words of a Rust doc block: pattern | suggestion. Case matters.
readonly OPENINGS='
What|a noun phrase or a verb: "Result of…", "Returns…"
Whatever|a noun phrase: "All…", "Every…"
Whether|"Reports whether…", or "True if…" for a field
Who|the actor as a noun: "Owner of…", "User that…"
Whoever|the actor as a noun: "Clients that…"
Whose|a noun phrase: "Owner of…"
Which|a noun phrase: "Clusters that…"
Why|"Reason for…"
How (many|much)|"Number of…", "Amount of…"
How|a noun phrase: "Interval of…", "Format of…", "Strategy for…"
Where|a noun phrase: "Address…", "Position of…", "Folder for…"
That|a full sentence, or "Checks that…"
Those|the things by name: "Clusters that…"
One (that|who|which|of those)|the thing by name: "A cluster that…"
The (one|ones) (that|who|which)|the thing by name: "The cluster that…"
Is|"Reports whether…"
Are|"Reports whether…"
By|"Indexed by…", "Sorted by…", or what is keyed: "Bindings, keyed by…"
Somebody|the actor as a noun
Nobody|the actor as a noun, in positive form
Everybody|the actors as a noun
Tells|"Reports…", "Notifies…", "Returns…"
Hears|"Receives…", "Handles…"
Says|"Reports…", "Returns…", "Describes…"
Asks|"Requests…", "Reads…", "Queries…"
'

# Words anywhere in a line, as whole words, in any case: pattern | suggestion.
readonly WORDS='
somebody( else)?|the actor: a user, a client, another controller
nobody( else)?|the actor, in positive form: "no client…", "unused"
whoever|the actor: "the client that…"
(is|are|was|were|be|been|being) told|is notified, receives, gets the response
(tells?|told|telling) (of|about)|reports, describes
(is|are|was|were|be|been) heard|is received
hears|receives
those who|clients that, users that
the ones? (that|who|which)|name the thing: "the cluster that…"
(by|to|of|for|from) whom|name the actor
anew|again, from scratch
shall|must, or the present tense
comes? to say|is set to, reports
as if (it|they) had (not|never)|without
no longer holds|is released, is false
in vain|without success, timed out
lets go( of)?|releases
is of no concern|is ignored
(on )?one.s own|your own
'

count=false
if [ "${1:-}" = --count ]; then
  count=true
  shift
fi
case ${1:-} in
-*)
  sed -n '4,6s/^# //p' "$0" >&2
  exit 2
  ;;
esac

# Generated and recorded files, and this table, are not prose of this repository.
mapfile -t files < <(git ls-files --cached --others --exclude-standard -- "${@:-.}" |
  grep -E '\.(rs|md|sh|py|yaml)$|^\.ci/run$' |
  grep -vE '^(e2e/data|crds)/|/data/|^hack/check-words\.sh$|^LICENSE$' |
  while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done)

alternatives() {
  sed -n 's/^\(.*[^|]\)|[^|]*$/\1/p' <<<"$1" | paste -sd'|'
}

# Prints FILE:LINE:TEXT of the first line of each doc block.
first_lines() {
  awk '
    FNR == 1 { inside = 0 }
    /^[ \t]*\/\/[\/!]/ {
      if (!inside) print FILENAME ":" FNR ":" $0
      inside = 1
      next
    }
    { inside = 0 }
  ' "$@" </dev/null | sed -E 's,^([^:]*:[0-9]+:)[ \t]*//[/!][ \t]*,\1,'
}

# Prints FILE:LINE:NAME of each Rust function, with blanks for the underscores of its name.
names() {
  grep -noHE '\bfn [a-z0-9]+_[a-z0-9_]+' "$@" | sed -E ':a; s/^([^:]*:[0-9]+:.*)_/\1 /; ta' || true
}

# Adds the suggestion for the match to each line FILE:LINE:MATCH, from the table in $1.
suggest() {
  awk -v table="$1" '
    BEGIN {
      rows = split(table, row, "\n")
      for (i = 1; i <= rows; i++) {
        at = 0
        for (j = length(row[i]); j > 0 && !at; j--) if (substr(row[i], j, 1) == "|") at = j
        if (at) { pattern[++n] = "^(" tolower(substr(row[i], 1, at - 1)) ")$"; hint[n] = substr(row[i], at + 1) }
      }
    }
    {
      split($0, part, ":")
      word = $0
      sub(/^[^:]*:[^:]*:/, "", word)
      for (i = 1; i <= n; i++) if (tolower(word) ~ pattern[i]) break
      printf "%s:%s: \"%s\": write %s\n", part[1], part[2], word, hint[i]
    }
  '
}

findings() {
  local rust
  mapfile -t rust < <(printf '%s\n' "${files[@]}" | grep '\.rs$' || true)
  if [ "${#rust[@]}" -gt 0 ]; then
    first_lines "${rust[@]}" | { grep -oE "^[^:]*:[0-9]+:($(alternatives "$OPENINGS"))\b" || true; } | suggest "$OPENINGS"
    names "${rust[@]}" | { grep -iE "^[^:]*:[0-9]+:.*\b($(alternatives "$WORDS"))\b" || true; } |
      sed -E "s/^([^:]*:[0-9]+:).*\b($(alternatives "$WORDS"))\b.*/\1\2/I" | suggest "$WORDS"
  fi
  { grep -onwiHE "$(alternatives "$WORDS")" "${files[@]}" || true; } | suggest "$WORDS"
}

if [ "${#files[@]}" -eq 0 ]; then
  exit 0
fi
found=$(findings | sort -t: -k1,1 -k2,2n)

if $count; then
  awk -F: '
    NF { split($1, part, "/"); place = part[1]; if (place ~ /^(crates|examples)$/) place = place "/" part[2]; n[place]++; all++ }
    END { for (place in n) printf "%6d %s\n", n[place], place | "sort -k2"; close("sort -k2"); printf "%6d in all\n", all }
  ' <<<"$found"
elif [ -n "$found" ]; then
  printf '%s\n' "$found"
  printf 'error: %d findings; rewrite these sentences in plain words (see CONTRIBUTING.md)\n' "$(wc -l <<<"$found")" >&2
  exit 1
fi
