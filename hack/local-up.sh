#!/usr/bin/env bash
# Brings up a control plane and member clusters on kind, or puts Berth beside an existing Karmada. See --help.
set -Eeuo pipefail
export LC_ALL=C

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
IMAGE=berth:latest
# The network that kind puts its clusters in.
NETWORK=${KIND_EXPERIMENTAL_DOCKER_NETWORK:-kind}
SYSTEM_NAMESPACE=karmada-system
# The file name that the manifests in deploy/ expect inside the secret.
CONFIG_KEY=karmada.config

# up, down, with-karmada or restore.
ACTION=up
DRY_RUN=false
STEP="reading the command line"
HINT=""
WORK=""
# The cluster that kind is creating.
CREATING=""

# shellcheck source=hack/local-up/output.sh
source "$ROOT/hack/local-up/output.sh"
# shellcheck source=hack/local-up/clusters.sh
source "$ROOT/hack/local-up/clusters.sh"
# shellcheck source=hack/local-up/control-plane.sh
source "$ROOT/hack/local-up/control-plane.sh"
# shellcheck source=hack/local-up/berth.sh
source "$ROOT/hack/local-up/berth.sh"
# shellcheck source=hack/local-up/karmada.sh
source "$ROOT/hack/local-up/karmada.sh"

usage() {
  cat <<'USAGE'
Brings up Berth on kind: a host cluster whose pods are the control plane, and two member clusters.

Usage: hack/local-up.sh [--dry-run]                  bring everything up, or bring it up to date
       hack/local-up.sh --with-karmada [--dry-run]   replace the scheduler of a Karmada that runs on kind
       hack/local-up.sh --restore [--dry-run]        give that Karmada its own scheduler back
       hack/local-up.sh --down [--dry-run]           restore and delete; the same as hack/local-down.sh
       hack/local-up.sh --help                       this text

  --dry-run        print every command that would run, and touch nothing; needs no tools
  --with-karmada   for the clusters of Karmada's hack/local-up-karmada.sh: keeps a copy of the Deployment
                   karmada-scheduler, and runs Berth in it; its flags and everything else stay
  --restore        put the copy back
  --down           restore, delete the clusters and contexts that an earlier run made, and the image; nothing else

It needs docker, kind and kubectl, and about 4 GiB of free memory. What it makes:

  karmada-host       a kind cluster; runs all pods below in the namespace karmada-system
  karmada-apiserver  the control plane: kube-apiserver and etcd as a StatefulSet of the host, and a
                     kube-controller-manager without the controllers that run workloads. A Deployment
                     that you propagate therefore starts pods in the members only
  Berth              the Deployments karmada-scheduler and berth-controllers, built from this checkout
  member1, member2   kind clusters, joined in Push mode. Berth has no agent for Pull mode

Running it again reuses the clusters it made, builds the image again and joins what is not joined. A kind
cluster of the same name that it did not make is left alone: the script stops and names it. Ctrl-C deletes a
half-made cluster and keeps the complete ones.

Environment variables, as for Karmada's hack/local-up-karmada.sh:

  KUBECONFIG_PATH                 folder of the kubeconfig files       ~/.kube
  MAIN_KUBECONFIG                 kubeconfig of host and control plane $KUBECONFIG_PATH/karmada.config
  MEMBER_CLUSTER_KUBECONFIG       kubeconfig of the members            $KUBECONFIG_PATH/members.config
  HOST_CLUSTER_NAME               the host                             karmada-host
  KARMADA_APISERVER_CLUSTER_NAME  context of the control plane         karmada-apiserver
  KARMADA_APISERVER_PORT          its port on this machine             5443
  MEMBER_CLUSTER_1_NAME           the first member                     member1
  MEMBER_CLUSTER_2_NAME           the second member                    member2
  MEMBER_CLUSTER_3_NAME           a third member, if it is set
  CLUSTER_VERSION                 node image, Kubernetes 1.29 or newer kindest/node:v1.36.1

Exit codes: 0 when all is up, or removed; 1 when a step failed, which the last lines name; 2 for an invalid
command line or name; 130 after Ctrl-C.

Without Docker: `cargo run -- up` starts a control plane with simulated members in a second.
USAGE
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
  KARMADA_APISERVER_PORT=${KARMADA_APISERVER_PORT:-5443}
  CLUSTER_VERSION=${CLUSTER_VERSION:-kindest/node:v1.36.1}
  MEMBERS=("${MEMBER_CLUSTER_1_NAME:-member1}" "${MEMBER_CLUSTER_2_NAME:-member2}")
  if [ -n "${MEMBER_CLUSTER_3_NAME:-}" ]; then
    MEMBERS+=("$MEMBER_CLUSTER_3_NAME")
  fi
  # The container that is the host's only node.
  NODE=$HOST_CLUSTER_NAME-control-plane
  # Clusters created by this script: one line each, with name, kubeconfig and contexts.
  RECORD=$KUBECONFIG_PATH/berth-local-up.clusters
  # The name of the cluster that kind is creating. If the file exists when the script starts, that cluster is half-made.
  HALF_MADE=$KUBECONFIG_PATH/berth-local-up.creating
  # The Deployment of Karmada's scheduler, while Berth is in its place.
  SAVED=$KUBECONFIG_PATH/berth-local-up.karmada-scheduler.yaml
  HOST=(kubectl "--kubeconfig=$MAIN_KUBECONFIG" "--context=$HOST_CLUSTER_NAME")
  CONTROL_PLANE=(kubectl "--kubeconfig=$MAIN_KUBECONFIG" "--context=$KARMADA_APISERVER_CLUSTER_NAME")
  check_names
  if ! [[ $KARMADA_APISERVER_PORT =~ ^[1-9][0-9]{0,4}$ ]] || [ "$KARMADA_APISERVER_PORT" -gt 65535 ]; then
    refuse_command_line "KARMADA_APISERVER_PORT is '$KARMADA_APISERVER_PORT', which is no port"
  fi
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

# choose ACTION: refuses a second one.
choose() {
  if [ "$ACTION" != up ]; then
    refuse_command_line "--$ACTION and --$1 exclude each other"
  fi
  ACTION=$1
}

read_command_line() {
  while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) DRY_RUN=true ;;
    --down | --with-karmada | --restore) choose "${1#--}" ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) refuse_command_line "unknown argument '$1'" ;;
    esac
    shift
  done
}

# --- actions ---------------------------------------------------------------------------------------------

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
The contexts $KARMADA_APISERVER_CLUSTER_NAME (current) and $HOST_CLUSTER_NAME are the control plane and the cluster that runs its pods;
the members are the contexts ${MEMBERS[*]} of the second file.
To remove all of it:
  hack/local-down.sh
NEXT
}

up() {
  find_clusters
  build_image
  create_clusters
  load_image
  deploy_control_plane
  add_control_plane_context
  apply_api
  deploy_components
  join_members
  if ! $DRY_RUN; then
    print_next_steps
  fi
}

down() {
  if [ -f "$SAVED" ]; then
    restore
  elif ! [ -f "$RECORD" ]; then
    say "Nothing to remove: $RECORD, where this script records what it makes, does not exist."
    return
  fi
  if [ -f "$RECORD" ]; then
    delete_clusters
  fi
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
    trap on_interrupt INT TERM HUP
  fi
  case $ACTION in
  up) up ;;
  down) down ;;
  with-karmada)
    with_karmada
    say ""
    say "Berth schedules in place of karmada-scheduler, with its flags. To return: hack/local-up.sh --restore"
    ;;
  restore) restore ;;
  esac
}

main "$@"
