# Tools, and the kind clusters that hack/local-up.sh creates and deletes. Sourced by it.
# shellcheck shell=bash

download_url() {
  case $1 in
  docker) printf 'https://docs.docker.com/get-docker/' ;;
  kind) printf 'https://kind.sigs.k8s.io/docs/user/quick-start/#installation' ;;
  kubectl) printf 'https://kubernetes.io/docs/tasks/tools/' ;;
  esac
}

# Reports all missing tools at once.
check_tools() {
  local tool problems="" no_docker=false
  for tool in docker kind kubectl; do
    if ! command -v "$tool" >/dev/null; then
      problems+="  $tool is not installed; get it from $(download_url "$tool")"$'\n'
      [ "$tool" != docker ] || no_docker=true
    elif [ "$tool" = docker ] && ! docker info >/dev/null 2>&1; then
      problems+="  docker is installed, but its engine does not respond; start it, or see what 'docker info' says"$'\n'
      no_docker=true
    fi
  done
  if [ -z "$problems" ]; then
    return
  fi
  printf 'error: this machine is not ready for kind clusters:\n%s' "$problems" >&2
  if $no_docker && [ "$ACTION" = up ]; then
    printf '\nThe way without Docker, a control plane with three simulated members:\n  cargo run -- up\n' >&2
  fi
  exit 1
}

# --- record of created clusters --------------------------------------------------------------------------

recorded() {
  [ -f "$RECORD" ] && cut -f1 "$RECORD" | grep -qxF -- "$1"
}

# record NAME KUBECONFIG CONTEXTS
record() {
  if $DRY_RUN; then
    printf '+ echo %s >> %s\n' "$(quoted "$1 $2 $3")" "$(quoted "$RECORD")"
  elif ! recorded "$1"; then
    printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$RECORD"
  fi
}

forget() {
  local rest
  rest=$(grep -v "^$1"$'\t' "$RECORD" || true)
  if [ -n "$rest" ]; then
    printf '%s\n' "$rest" >"$RECORD"
  else
    rm -f "$RECORD"
  fi
}

# --- create ----------------------------------------------------------------------------------------------

exists() {
  grep -qxF -- "$1" <<<"$EXISTING"
}

# Finds existing clusters. A dry run assumes that there are none.
find_clusters() {
  local name strangers=""
  EXISTING=""
  if $DRY_RUN; then
    return
  fi
  EXISTING=$(kind get clusters 2>"$WORK/stderr") || fail "kind get clusters: $(cat "$WORK/stderr")"
  for name in "$HOST_CLUSTER_NAME" "${MEMBERS[@]}"; do
    if exists "$name" && ! recorded "$name"; then
      strangers+=" $name"
    fi
  done
  if [ -n "$strangers" ]; then
    fail "these kind clusters exist and were not made by this script:$strangers
Choose other names (see --help), delete each of them with: kind delete cluster --name NAME
or, if they are Karmada's, install beside it with: hack/local-up.sh --with-karmada"
  fi
}

is_half_made() {
  [ -f "$HALF_MADE" ] && [ "$(cat "$HALF_MADE")" = "$1" ]
}

# ensure_cluster NAME KUBECONFIG CONTEXTS FLAG...: creates the cluster with these flags of kind. CONTEXTS are those that
# `--down` removes; the first one is created.
ensure_cluster() {
  local name=$1 kubeconfig=$2 contexts=$3
  shift 3
  if exists "$name" && is_half_made "$name"; then
    say "$name is incomplete, because an earlier run was killed: it is deleted"
    run kind delete cluster "--name=$name" "--kubeconfig=$kubeconfig"
    EXISTING=$(grep -vxF -- "$name" <<<"$EXISTING" || true)
  fi
  if exists "$name"; then
    say "$name exists: it is used again"
    run kind export kubeconfig "--name=$name" "--kubeconfig=$kubeconfig"
  else
    say "$name is created"
    # Recorded first, so that --down also removes a cluster of an interrupted run.
    record "$name" "$kubeconfig" "$contexts"
    CREATING=$name
    if ! $DRY_RUN; then
      printf '%s\n' "$name" >"$HALF_MADE"
    fi
    run kind create cluster "--name=$name" "--image=$CLUSTER_VERSION" "--kubeconfig=$kubeconfig" --wait=5m "$@"
    if ! $DRY_RUN; then
      rm "$HALF_MADE"
    fi
    CREATING=""
  fi
  run kubectl config "--kubeconfig=$kubeconfig" set-context "${contexts%% *}" "--cluster=kind-$name" "--user=kind-$name"
}

create_clusters() {
  local name
  step "creating the clusters" \
    "If port $KARMADA_APISERVER_PORT is taken, set KARMADA_APISERVER_PORT to a free one."
  run mkdir -p "$KUBECONFIG_PATH" "$(dirname "$MAIN_KUBECONFIG")" "$(dirname "$MEMBER_CLUSTER_KUBECONFIG")"
  # The port of the control plane's API server, which is a pod of the host.
  write "$WORK/host.yaml" <<CONFIG
apiVersion: kind.x-k8s.io/v1alpha4
kind: Cluster
nodes:
- role: control-plane
  extraPortMappings:
  - containerPort: $APISERVER_PORT
    hostPort: $KARMADA_APISERVER_PORT
    listenAddress: 127.0.0.1
CONFIG
  ensure_cluster "$HOST_CLUSTER_NAME" "$MAIN_KUBECONFIG" "$HOST_CLUSTER_NAME $KARMADA_APISERVER_CLUSTER_NAME" \
    "--config=$WORK/host.yaml"
  for name in "${MEMBERS[@]}"; do
    ensure_cluster "$name" "$MEMBER_CLUSTER_KUBECONFIG" "$name"
  done
}

# --- delete ----------------------------------------------------------------------------------------------

is_current_context() {
  [ "$(kubectl config "--kubeconfig=$1" current-context 2>/dev/null)" = "$2" ]
}

# remove_context CONTEXT KUBECONFIG
remove_context() {
  local context=$1 kubeconfig=$2
  if $DRY_RUN; then
    say "where $context is the current context:"
  fi
  if $DRY_RUN || is_current_context "$kubeconfig" "$context"; then
    run kubectl config "--kubeconfig=$kubeconfig" unset current-context
  fi
  # An interrupted run may not have created it.
  run kubectl config "--kubeconfig=$kubeconfig" delete-context "$context" || say "there was no context $context"
}

# remove_cluster NAME KUBECONFIG CONTEXTS
remove_cluster() {
  local name=$1 kubeconfig=$2 contexts=$3 context
  say "$name is deleted"
  run kind delete cluster "--name=$name" "--kubeconfig=$kubeconfig"
  for context in $contexts; do
    remove_context "$context" "$kubeconfig"
  done
  # The contexts after the first have entries of their own, with the key of an administrator. kind does not delete them.
  for context in ${contexts#"${contexts%% *}"}; do
    run kubectl config "--kubeconfig=$kubeconfig" delete-cluster "$context" || say "there was no cluster $context"
    run kubectl config "--kubeconfig=$kubeconfig" delete-user "$context" || say "there was no user $context"
  done
  if ! $DRY_RUN; then
    forget "$name"
    if is_half_made "$name"; then
      rm "$HALF_MADE"
    fi
  fi
}

delete_clusters() {
  local clusters name kubeconfig contexts
  step "deleting the clusters"
  clusters=$(cat "$RECORD")
  while IFS=$'\t' read -r -u 3 name kubeconfig contexts; do
    remove_cluster "$name" "$kubeconfig" "$contexts"
  done 3<<<"$clusters"
}
