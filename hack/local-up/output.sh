# Messages, and commands that a dry run prints instead of running them. Sourced by hack/local-up.sh.
# shellcheck shell=bash

# Attempts, one per second, to read a value that the cluster fills in.
TRIES=60

say() {
  printf '%s\n' "$*"
}

# step NAME [HINT]: begins a step. The hint is printed if it fails.
step() {
  STEP=$1
  HINT=${2:-}
  printf '\n== %s\n' "$1"
}

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

refuse_command_line() {
  printf 'error: %s\nSee hack/local-up.sh --help\n' "$1" >&2
  exit 2
}

# Reports the failed step. The trap of ERR.
on_error() {
  local code=$?
  # The parent shell reports errors of a subshell.
  if [ "$BASH_SUBSHELL" -gt 0 ]; then
    exit "$code"
  fi
  printf '\nerror: it stopped while %s\n' "$STEP" >&2
  if [ -n "$HINT" ]; then
    printf '%s\n' "$HINT" >&2
  fi
  if [ "$ACTION" != down ]; then
    printf 'Run it again to go on from there, or run hack/local-down.sh to remove what there is.\n' >&2
  fi
  exit "$code"
}

# Removes a half-made cluster, which a later run would take for a complete one. The trap of INT, TERM and HUP.
on_interrupt() {
  trap '' INT TERM HUP
  trap - ERR
  printf '\ninterrupted while %s\n' "$STEP" >&2
  if [ -n "$CREATING" ]; then
    printf '%s is incomplete and is deleted\n' "$CREATING" >&2
    if kind delete cluster "--name=$CREATING"; then
      rm -f "$HALF_MADE"
    fi
  fi
  if [ "$ACTION" != down ]; then
    printf 'Run it again to go on from there, or run hack/local-down.sh to remove what there is.\n' >&2
  fi
  exit 130
}

# Prints a command line with shell quoting.
quoted() {
  local word line=""
  for word in "$@"; do
    case $word in
    "" | *[!A-Za-z0-9_./:=,@%+-]*) word="'${word//\'/\'\\\'\'}'" ;;
    esac
    line+="${line:+ }$word"
  done
  printf '%s' "$line"
}

run() {
  if $DRY_RUN; then
    printf '+ %s\n' "$(quoted "$@")"
  else
    "$@"
  fi
}

# run_into FILE COMMAND...: writes the output into the file.
run_into() {
  local file=$1
  shift
  if $DRY_RUN; then
    printf '+ %s > %s\n' "$(quoted "$@")" "$(quoted "$file")"
  else
    "$@" >"$file"
  fi
}

# capture VARIABLE COMMAND...: repeats the command until it prints something, and stores the output.
capture() {
  local variable=$1 try output
  shift
  if $DRY_RUN; then
    printf "+ %s=\$(%s)\n" "$variable" "$(quoted "$@")"
    printf -v "$variable" '%s' "\$$variable"
    return
  fi
  for ((try = 1; try <= TRIES; try++)); do
    if output=$("$@" 2>"$WORK/stderr") && [ -n "$output" ]; then
      printf -v "$variable" '%s' "$output"
      return
    fi
    sleep 1
  done
  cat "$WORK/stderr" >&2
  printf 'error: no answer in %s tries: %s\n' "$TRIES" "$(quoted "$@")" >&2
  return 1
}

# write FILE: writes the standard input into the file.
write() {
  if $DRY_RUN; then
    printf '+ cat > %s\n' "$(quoted "$1")"
    sed 's/^/    | /'
  else
    cat >"$1"
  fi
}
