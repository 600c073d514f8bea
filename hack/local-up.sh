#!/usr/bin/env bash
# Brings up a host cluster and three member clusters on kind, with Berth on the host. See --help.
set -Eeuo pipefail
export LC_ALL=C

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
IMAGE=berth:latest
# The network that kind puts its clusters in.
NETWORK=${KIND_EXPERIMENTAL_DOCKER_NETWORK:-kind}
SYSTEM_NAMESPACE=karmada-system
# The file name that the manifests in deploy/ expect inside the secret.
CONFIG_KEY=karmada.config
# Attempts, one per second, to read a value that the cluster fills in.
TRIES=60

DRY_RUN=false
DOWN=false
STEP="reading the command line"
WORK=""

usage() {
  cat <<'USAGE'
Brings up Berth on kind: a host cluster, which is also the control plane, and three member clusters.

Usage: hack/local-up.sh [--dry-run] [--down]
       hack/local-up.sh --help

  --dry-run   print every command that would run, and touch nothing; needs no tools
  --down      delete the clusters and contexts that an earlier run made, and the image; nothing else
  --help      this text

It needs docker, kind and kubectl, and about 4 GiB of free memory. It builds the image from this checkout,
creates the clusters, applies crds/ and deploy/ on the host, and joins the members. Running it again reuses
the clusters it made, builds the image again and joins what is not joined. A kind cluster of the
same name that it did not make is left alone: the script stops and names it.

Environment variables, as for Karmada's hack/local-up-karmada.sh:

  KUBECONFIG_PATH                 folder of the kubeconfig files       ~/.kube
  MAIN_KUBECONFIG                 kubeconfig of the host               $KUBECONFIG_PATH/karmada.config
  MEMBER_CLUSTER_KUBECONFIG       kubeconfig of the members            $KUBECONFIG_PATH/members.config
  HOST_CLUSTER_NAME               the host                             karmada-host
  KARMADA_APISERVER_CLUSTER_NAME  second context for the host, so      karmada-apiserver
                                  that Karmada's walkthroughs work
  MEMBER_CLUSTER_1_NAME           the first member                     member1
  MEMBER_CLUSTER_2_NAME           the second member                    member2
  MEMBER_CLUSTER_3_NAME           the third member (push mode as       member3
                                  the others); PULL_MODE_CLUSTER_NAME
                                  is read too
  CLUSTER_VERSION                 node image                           kindest/node:v1.36.1

The host's own controllers run as well: a Deployment that you propagate also starts its pods on the host.

Without Docker: `cargo run --release -- up` starts a control plane with simulated members in a second.
USAGE
}

# --- output ----------------------------------------------------------------------------------------------

say() {
  printf '%s\n' "$*"
}

step() {
  STEP=$1
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

on_error() {
  local code=$?
  # The parent shell reports errors of a subshell.
  if [ "$BASH_SUBSHELL" -gt 0 ]; then
    exit "$code"
  fi
  printf '\nerror: it stopped while %s\n' "$STEP" >&2
  if ! $DOWN; then
    printf 'Run it again to go on from there, or run hack/local-up.sh --down to remove what there is.\n' >&2
  fi
  exit "$code"
}

# --- running or printing commands ------------------------------------------------------------------------

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

# --- settings --------------------------------------------------------------------------------------------

absolute() {
  case $1 in
  /*) printf '%s' "$1" ;;
  *) printf '%s/%s' "$PWD" "$1" ;;
  esac
}

read_settings() {
  if [ -z "${KUBECONFIG_PATH:-}" ]; then
    KUBECONFIG_PATH=${HOME:?is not set; set it or KUBECONFIG_PATH}/.kube
  fi
  KUBECONFIG_PATH=$(absolute "$KUBECONFIG_PATH")
  MAIN_KUBECONFIG=$(absolute "${MAIN_KUBECONFIG:-$KUBECONFIG_PATH/karmada.config}")
  MEMBER_CLUSTER_KUBECONFIG=$(absolute "${MEMBER_CLUSTER_KUBECONFIG:-$KUBECONFIG_PATH/members.config}")
  HOST_CLUSTER_NAME=${HOST_CLUSTER_NAME:-karmada-host}
  KARMADA_APISERVER_CLUSTER_NAME=${KARMADA_APISERVER_CLUSTER_NAME:-karmada-apiserver}
  CLUSTER_VERSION=${CLUSTER_VERSION:-kindest/node:v1.36.1}
  MEMBERS=(
    "${MEMBER_CLUSTER_1_NAME:-member1}"
    "${MEMBER_CLUSTER_2_NAME:-member2}"
    "${MEMBER_CLUSTER_3_NAME:-${PULL_MODE_CLUSTER_NAME:-member3}}"
  )
  # Clusters created by this script: one line each, with name, kubeconfig and contexts.
  RECORD=$KUBECONFIG_PATH/berth-local-up.clusters
  HOST=(kubectl "--kubeconfig=$MAIN_KUBECONFIG" "--context=$HOST_CLUSTER_NAME")
  check_names
}

# A name is used for a cluster, a context and a Cluster object, which has the strictest rules.
check_names() {
  local name seen=" "
  for name in "$HOST_CLUSTER_NAME" "$KARMADA_APISERVER_CLUSTER_NAME" "${MEMBERS[@]}"; do
    if ! [[ $name =~ ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$ ]] || [ "${#name}" -gt 48 ]; then
      refuse_command_line "'$name' cannot name a cluster: at most 48 of a-z, 0-9 and -, with no - at the ends"
    fi
    case $seen in
    *" $name "*) refuse_command_line "the name '$name' is given to two clusters" ;;
    esac
    seen+="$name "
  done
}

read_command_line() {
  while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) DRY_RUN=true ;;
    --down) DOWN=true ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) refuse_command_line "unknown argument '$1'" ;;
    esac
    shift
  done
}

# --- tools -----------------------------------------------------------------------------------------------

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
      problems+="  docker is installed, but its engine does not answer; start it, or see what 'docker info' says"$'\n'
      no_docker=true
    fi
  done
  if [ -z "$problems" ]; then
    return
  fi
  printf 'error: this machine is not ready for kind clusters:\n%s' "$problems" >&2
  if $no_docker && ! $DOWN; then
    printf '\nThe way without Docker, a control plane with three simulated members:\n  cargo run --release -- up\n' >&2
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

# --- clusters --------------------------------------------------------------------------------------------

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
Choose other names (see --help), or delete each of them with: kind delete cluster --name NAME"
  fi
}

# ensure_cluster NAME KUBECONFIG CONTEXT...: creates the cluster, and contexts for it.
ensure_cluster() {
  local name=$1 kubeconfig=$2 context
  shift 2
  if exists "$name"; then
    say "$name exists: it is used again"
    run kind export kubeconfig "--name=$name" "--kubeconfig=$kubeconfig"
  else
    say "$name is created"
    # Recorded first, so that --down also removes a cluster of an interrupted run.
    record "$name" "$kubeconfig" "$*"
    run kind create cluster "--name=$name" "--image=$CLUSTER_VERSION" "--kubeconfig=$kubeconfig" --wait=5m
  fi
  for context in "$@"; do
    run kubectl config "--kubeconfig=$kubeconfig" set-context "$context" "--cluster=kind-$name" "--user=kind-$name"
  done
}

create_clusters() {
  local name
  step "creating the clusters"
  run mkdir -p "$KUBECONFIG_PATH" "$(dirname "$MAIN_KUBECONFIG")" "$(dirname "$MEMBER_CLUSTER_KUBECONFIG")"
  ensure_cluster "$HOST_CLUSTER_NAME" "$MAIN_KUBECONFIG" "$HOST_CLUSTER_NAME" "$KARMADA_APISERVER_CLUSTER_NAME"
  for name in "${MEMBERS[@]}"; do
    ensure_cluster "$name" "$MEMBER_CLUSTER_KUBECONFIG" "$name"
  done
  run kubectl config "--kubeconfig=$MAIN_KUBECONFIG" use-context "$KARMADA_APISERVER_CLUSTER_NAME"
}

# --- Berth on the host -----------------------------------------------------------------------------------

build_image() {
  step "building the image $IMAGE"
  # Without attestations, because not every version of kind can load an image with them.
  run env DOCKER_BUILDKIT=1 BUILDX_NO_DEFAULT_ATTESTATIONS=1 \
    docker build --file=deploy/Dockerfile "--tag=$IMAGE" .
}

load_image() {
  step "loading the image into $HOST_CLUSTER_NAME"
  run kind load docker-image "$IMAGE" "--name=$HOST_CLUSTER_NAME"
}

apply_api() {
  step "applying namespaces and CRDs on $HOST_CLUSTER_NAME"
  run "${HOST[@]}" apply --filename=deploy/namespace.yaml
  run "${HOST[@]}" apply --server-side --force-conflicts --filename=crds
  run "${HOST[@]}" wait --for=condition=Established --timeout=60s --filename=crds
}

# give_kubeconfig ACCOUNT SECRET: stores a kubeconfig for the account in the secret.
give_kubeconfig() {
  local account=$1 secret=$2 token="" ca=""
  write "$WORK/token.yaml" <<MANIFEST
apiVersion: v1
kind: Secret
metadata:
  name: $account-token
  namespace: $SYSTEM_NAMESPACE
  annotations:
    kubernetes.io/service-account.name: $account
type: kubernetes.io/service-account-token
MANIFEST
  run "${HOST[@]}" apply "--filename=$WORK/token.yaml"
  capture token "${HOST[@]}" get secret "$account-token" "--namespace=$SYSTEM_NAMESPACE" \
    '--output=go-template={{.data.token | base64decode}}'
  capture ca "${HOST[@]}" get secret "$account-token" "--namespace=$SYSTEM_NAMESPACE" '--output=jsonpath={.data.ca\.crt}'
  write "$WORK/$CONFIG_KEY" <<MANIFEST
apiVersion: v1
kind: Config
current-context: control-plane
clusters:
- name: control-plane
  cluster:
    server: https://kubernetes.default.svc:443
    certificate-authority-data: $ca
users:
- name: $account
  user:
    token: $token
contexts:
- name: control-plane
  context:
    cluster: control-plane
    user: $account
MANIFEST
  # From a file, because command lines are public; and server-side, so that no annotation contains a copy.
  run_into "$WORK/secret.yaml" "${HOST[@]}" create secret generic "$secret" "--namespace=$SYSTEM_NAMESPACE" \
    "--from-file=$CONFIG_KEY=$WORK/$CONFIG_KEY" --dry-run=client --output=yaml
  run "${HOST[@]}" apply --server-side --force-conflicts "--filename=$WORK/secret.yaml"
}

deploy_components() {
  local deployments=(deployment/karmada-scheduler deployment/berth-controllers) deployment
  step "deploying the scheduler and the controllers on $HOST_CLUSTER_NAME"
  run "${HOST[@]}" apply --filename=deploy/scheduler/rbac.yaml --filename=deploy/controllers/rbac.yaml
  give_kubeconfig berth-scheduler karmada-scheduler-config
  give_kubeconfig berth-controllers berth-controllers-config
  run "${HOST[@]}" apply --filename=deploy/scheduler/default-scheduler.yaml --filename=deploy/controllers/controllers.yaml
  if exists "$HOST_CLUSTER_NAME"; then
    # The image keeps its name, so running pods would keep the old one.
    run "${HOST[@]}" rollout restart "--namespace=$SYSTEM_NAMESPACE" "${deployments[@]}"
  fi
  for deployment in "${deployments[@]}"; do
    run "${HOST[@]}" rollout status "--namespace=$SYSTEM_NAMESPACE" --timeout=3m "$deployment"
  done
}

# --- members ---------------------------------------------------------------------------------------------

# join_in_container ARGUMENTS...: runs `berth join` in a container of the clusters' network, because the pods of the host
# use the addresses of that network.
join_in_container() {
  run docker run --rm "--network=$NETWORK" "--user=$UID:${GROUPS[0]}" "--volume=$WORK:/kubeconfigs:ro" "$IMAGE" join "$@"
}

join_members() {
  local name address=""
  step "joining the members"
  run_into "$WORK/$HOST_CLUSTER_NAME" kind get kubeconfig --internal "--name=$HOST_CLUSTER_NAME"
  for name in "${MEMBERS[@]}"; do
    say "$name"
    run_into "$WORK/$name" kind get kubeconfig --internal "--name=$name"
    # Pods cannot resolve container names.
    capture address docker inspect "--format={{(index .NetworkSettings.Networks \"$NETWORK\").IPAddress}}" "$name-control-plane"
    join_in_container "$name" "--kubeconfig=/kubeconfigs/$HOST_CLUSTER_NAME" "--cluster-kubeconfig=/kubeconfigs/$name" \
      "--cluster-endpoint=https://$address:6443"
  done
  run "${HOST[@]}" wait --for=condition=Ready --timeout=3m clusters.cluster.karmada.io "${MEMBERS[@]}"
}

# --- up and down -----------------------------------------------------------------------------------------

print_next_steps() {
  cat <<NEXT

Berth is up. To use it:
  export KUBECONFIG=$(quoted "$MAIN_KUBECONFIG")
  kubectl get clusters
  kubectl apply -f examples/nginx.yaml
  kubectl get resourcebindings
  kubectl --kubeconfig $(quoted "$MEMBER_CLUSTER_KUBECONFIG") --context ${MEMBERS[0]} get deployments
A second scheduler, for policies with schedulerName: my-scheduler:
  kubectl --context $HOST_CLUSTER_NAME apply -f deploy/second-scheduler/my-scheduler.yaml
The members are the contexts ${MEMBERS[*]} of that second file.
To remove all of it:
  hack/local-up.sh --down
NEXT
}

up() {
  find_clusters
  build_image
  create_clusters
  load_image
  apply_api
  deploy_components
  join_members
  if ! $DRY_RUN; then
    print_next_steps
  fi
}

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
  if ! $DRY_RUN; then
    forget "$name"
  fi
}

down() {
  local clusters name kubeconfig contexts
  if ! [ -f "$RECORD" ]; then
    say "Nothing to remove: $RECORD, where this script records what it makes, does not exist."
    return
  fi
  step "deleting the clusters"
  clusters=$(cat "$RECORD")
  while IFS=$'\t' read -r -u 3 name kubeconfig contexts; do
    remove_cluster "$name" "$kubeconfig" "$contexts"
  done 3<<<"$clusters"
  step "deleting the image $IMAGE"
  run docker image rm --force "$IMAGE"
}

main() {
  read_command_line "$@"
  read_settings
  cd "$ROOT"
  trap on_error ERR
  if $DRY_RUN; then
    WORK=WORKDIR
    say "A dry run: these commands would run, WORKDIR being a temporary folder. Nothing is touched."
  else
    STEP="looking for the tools"
    check_tools
    umask 077
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
  fi
  if $DOWN; then
    down
  else
    up
  fi
}

main "$@"
