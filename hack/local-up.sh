#!/usr/bin/env bash
# Brings up a host cluster and three member clusters on kind, with Berth on the host. See --help.
set -Eeuo pipefail
export LC_ALL=C

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
IMAGE=berth:latest
SYSTEM_NAMESPACE=karmada-system
CLUSTER_NAMESPACE=karmada-cluster
# The file name that the manifests in deploy/ expect inside the secret.
CONFIG_KEY=karmada.config
# How often, once a second, a value is asked for that something in the cluster fills in.
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
creates the clusters, applies crds/ and deploy/ on the host, and registers the members. Running it again
reuses the clusters it made, builds the image again and refreshes what it registered. A kind cluster of the
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
No controller moves workloads to the members yet: look at the placement in the bindings.

Without Docker: `cargo run --release -- up` starts a control plane with simulated members in a second.
USAGE
}

# --- talking to the user -------------------------------------------------------------------------------

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
  # A subshell leaves the telling to the shell that waits for it.
  if [ "$BASH_SUBSHELL" -gt 0 ]; then
    exit "$code"
  fi
  printf '\nerror: it stopped while %s\n' "$STEP" >&2
  if ! $DOWN; then
    printf 'Run it again to go on from there, or run hack/local-up.sh --down to remove what there is.\n' >&2
  fi
  exit "$code"
}

# --- running commands, or saying what would run --------------------------------------------------------

# The command line as one could type it.
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

# run_into FILE COMMAND...: the output goes to the file.
run_into() {
  local file=$1
  shift
  if $DRY_RUN; then
    printf '+ %s > %s\n' "$(quoted "$@")" "$(quoted "$file")"
  else
    "$@" >"$file"
  fi
}

# capture VARIABLE COMMAND...: waits until the command succeeds and prints something, and keeps that.
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

# derive VARIABLE FUNCTION INPUT...: what the function makes of the inputs.
derive() {
  local variable=$1 output
  shift
  if $DRY_RUN; then
    printf -v "$variable" '%s' "\$$variable"
  else
    output=$("$@")
    printf -v "$variable" '%s' "$output"
  fi
}

# write FILE: the standard input goes to the file.
write() {
  if $DRY_RUN; then
    printf '+ cat > %s\n' "$(quoted "$1")"
    sed 's/^/    | /'
  else
    cat >"$1"
  fi
}

# --- settings ------------------------------------------------------------------------------------------

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
  # What an earlier run made: one line for each cluster, of its name, kubeconfig and contexts.
  RECORD=$KUBECONFIG_PATH/berth-local-up.clusters
  HOST=(kubectl "--kubeconfig=$MAIN_KUBECONFIG" "--context=$HOST_CLUSTER_NAME")
  check_names
}

# A name becomes a cluster, a context and a Cluster object; the last is the strictest.
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

# --- tools ---------------------------------------------------------------------------------------------

where_to_get() {
  case $1 in
  docker) printf 'https://docs.docker.com/get-docker/' ;;
  kind) printf 'https://kind.sigs.k8s.io/docs/user/quick-start/#installation' ;;
  kubectl) printf 'https://kubernetes.io/docs/tasks/tools/' ;;
  esac
}

# Names everything that is missing at once.
check_tools() {
  local tool problems="" no_docker=false
  for tool in docker kind kubectl; do
    if ! command -v "$tool" >/dev/null; then
      problems+="  $tool is not installed; get it from $(where_to_get "$tool")"$'\n'
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

# --- the record of what this script made ---------------------------------------------------------------

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

# --- clusters ------------------------------------------------------------------------------------------

exists() {
  grep -qxF -- "$1" <<<"$EXISTING"
}

# Finds the clusters that are there already. A dry run asks nobody, and plans for none.
look_for_clusters() {
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

# ensure_cluster NAME KUBECONFIG CONTEXT...: the cluster, and contexts of these names that lead to it.
ensure_cluster() {
  local name=$1 kubeconfig=$2 context
  shift 2
  if exists "$name"; then
    say "$name exists: it is used again"
    run kind export kubeconfig "--name=$name" "--kubeconfig=$kubeconfig"
  else
    say "$name is created"
    # Recorded first, so that --down also finds what an interrupted run leaves behind.
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

# --- Berth on the host ---------------------------------------------------------------------------------

build_image() {
  step "building the image $IMAGE"
  # Without attestations: not every kind can load an image that has them.
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

# apply_secret NAMESPACE NAME FROM-FILE...: a secret of these files, without their contents on a command line.
apply_secret() {
  local namespace=$1 name=$2 manifest="$WORK/secret.yaml"
  shift 2
  run_into "$manifest" "${HOST[@]}" create secret generic "$name" "--namespace=$namespace" "$@" --dry-run=client --output=yaml
  # Server-side: the contents are not repeated in an annotation.
  run "${HOST[@]}" apply --server-side --force-conflicts "--filename=$manifest"
}

# The manifest of a secret that the control plane fills with a token of the service account.
token_secret() {
  cat <<MANIFEST
apiVersion: v1
kind: Secret
metadata:
  name: $2-token
  namespace: $1
  annotations:
    kubernetes.io/service-account.name: $2
type: kubernetes.io/service-account-token
MANIFEST
}

# give_kubeconfig ACCOUNT SECRET: the kubeconfig with which a component finds the control plane.
give_kubeconfig() {
  local account=$1 secret=$2 token="" ca=""
  token_secret "$SYSTEM_NAMESPACE" "$account" | write "$WORK/token.yaml"
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
  apply_secret "$SYSTEM_NAMESPACE" "$secret" "--from-file=$CONFIG_KEY=$WORK/$CONFIG_KEY"
}

deploy_components() {
  local deployments=(deployment/karmada-scheduler deployment/berth-controllers) deployment
  step "deploying the scheduler and the controllers on $HOST_CLUSTER_NAME"
  run "${HOST[@]}" apply --filename=deploy/scheduler/rbac.yaml --filename=deploy/controllers/rbac.yaml
  give_kubeconfig berth-scheduler karmada-scheduler-config
  give_kubeconfig berth-controllers berth-controllers-config
  run "${HOST[@]}" apply --filename=deploy/scheduler/default-scheduler.yaml --filename=deploy/controllers/controllers.yaml
  if exists "$HOST_CLUSTER_NAME"; then
    # The image has the same name as before, so the pods would go on with the old one.
    run "${HOST[@]}" rollout restart "--namespace=$SYSTEM_NAMESPACE" "${deployments[@]}"
  fi
  for deployment in "${deployments[@]}"; do
    run "${HOST[@]}" rollout status "--namespace=$SYSTEM_NAMESPACE" --timeout=3m "$deployment"
  done
}

# --- members -------------------------------------------------------------------------------------------

# The account through which the control plane acts in a member: what `karmadactl join` makes.
member_account() {
  local account=$1
  cat <<MANIFEST
apiVersion: v1
kind: Namespace
metadata:
  name: $CLUSTER_NAMESPACE
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: $account
  namespace: $CLUSTER_NAMESPACE
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: karmada-controller-manager:$account
rules:
- apiGroups: ["*"]
  resources: ["*"]
  verbs: ["*"]
- nonResourceURLs: ["*"]
  verbs: ["get"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: karmada-controller-manager:$account
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: karmada-controller-manager:$account
subjects:
- kind: ServiceAccount
  name: $account
  namespace: $CLUSTER_NAMESPACE
---
MANIFEST
  token_secret "$CLUSTER_NAMESPACE" "$account"
}

# give_credentials NAME: an account in the member, and its token in the control plane.
give_credentials() {
  local name=$1 account="karmada-$1" token="" ca=""
  member_account "$account" | write "$WORK/account.yaml"
  run "${MEMBER[@]}" apply "--filename=$WORK/account.yaml"
  capture token "${MEMBER[@]}" get secret "$account-token" "--namespace=$CLUSTER_NAMESPACE" \
    '--output=go-template={{.data.token | base64decode}}'
  capture ca "${MEMBER[@]}" get secret "$account-token" "--namespace=$CLUSTER_NAMESPACE" \
    '--output=go-template={{index .data "ca.crt" | base64decode}}'
  printf '%s' "$token" | write "$WORK/token"
  printf '%s\n' "$ca" | write "$WORK/ca.crt"
  apply_secret "$CLUSTER_NAMESPACE" "$name" "--from-file=token=$WORK/token" "--from-file=caBundle=$WORK/ca.crt"
}

apply_cluster() {
  local name=$1 address="" id=""
  # The address in the network of the containers: 127.0.0.1 of the kubeconfig means nothing to the host's pods.
  capture address docker inspect '--format={{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$name-control-plane"
  capture id "${MEMBER[@]}" get namespace kube-system '--output=jsonpath={.metadata.uid}'
  write "$WORK/cluster.yaml" <<MANIFEST
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata:
  name: $name
spec:
  id: $id
  syncMode: Push
  apiEndpoint: https://$address:6443
  secretRef:
    namespace: $CLUSTER_NAMESPACE
    name: $name
MANIFEST
  run "${HOST[@]}" apply "--filename=$WORK/cluster.yaml"
}

server_version() {
  awk '/^serverVersion:/ { server = 1 } server && $1 == "gitVersion:" { print $2; exit }' <<<"$1"
}

# The lines of `kubectl api-resources --no-headers` as JSON. Short names may be missing from a line.
api_enablements() {
  sort <<<"$1" | awk '
    { group = $(NF - 2); list[group] = list[group] (list[group] ? "," : "") "{\"name\":\"" $1 "\",\"kind\":\"" $NF "\"}" }
    END { for (group in list) printf "{\"groupVersion\":\"%s\",\"resources\":[%s]}\n", group, list[group] }
  ' | sort | awk '{ printf "%s%s", (NR > 1 ? "," : "["), $0 } END { print (NR ? "]" : "[]") }'
}

# resource_status NODES PODS: nodeSummary and resourceSummary as members of a JSON object.
# A line of NODES is `cpu|memory|pods|ephemeral-storage|ready`; a line of PODS is `pod`, then one
# `cpu|memory|ephemeral-storage` for each container of it.
resource_status() {
  printf '%s\n%s\n' "$1" "$2" | awk -F'|' '
    BEGIN {
      factor["n"] = 1e-9; factor["u"] = 1e-6; factor["m"] = 1e-3; factor[""] = 1
      split("k M G T P E", decimal, " "); split("Ki Mi Gi Ti Pi Ei", binary, " ")
      for (i = 1; i <= 6; i++) { factor[decimal[i]] = 1000 ^ i; factor[binary[i]] = 1024 ^ i }
    }
    function value(quantity,   suffix) {
      suffix = quantity; sub(/^[0-9.]+([eE][-+]?[0-9]+)?/, "", suffix)
      return quantity * factor[suffix]
    }
    function resources(cpu, memory, pods, storage) {
      return sprintf("{\"cpu\":\"%.0fm\",\"memory\":\"%.0f\",\"pods\":\"%.0f\",\"ephemeral-storage\":\"%.0f\"}",
        cpu * 1000, memory, pods, storage)
    }
    NF == 5 {
      nodes++; ready += $5 == "True"
      cpu += value($1); memory += value($2); pods += value($3); storage += value($4)
    }
    $0 == "pod" { used_pods++ }
    NF == 3 { used_cpu += value($1); used_memory += value($2); used_storage += value($3) }
    END {
      printf "\"nodeSummary\":{\"totalNum\":%d,\"readyNum\":%d},", nodes, ready
      printf "\"resourceSummary\":{\"allocatable\":%s,", resources(cpu, memory, pods, storage)
      printf "\"allocated\":%s}", resources(used_cpu, used_memory, used_pods, used_storage)
    }
  '
}

# condition TYPE REASON MESSAGE: one that holds.
condition() {
  printf '{"type":"%s","status":"True","reason":"%s","message":"%s","lastTransitionTime":"%s"}' \
    "$1" "$2" "$3" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

# No controller keeps the status of a Cluster yet, and a cluster without one is not scheduled to. So the
# status is taken once, here; run the script again to refresh it. Of an API group, kubectl lists the
# preferred version only: a template of another version finds no cluster.
write_status() {
  local name=$1 versions="" apis="" nodes="" pods="" version="" enablements="" resources=""
  capture versions "${MEMBER[@]}" version --output=yaml
  capture apis "${MEMBER[@]}" api-resources --no-headers
  capture nodes "${MEMBER[@]}" get nodes '--output=jsonpath={range .items[*]}{.status.allocatable.cpu}|{.status.allocatable.memory}|{.status.allocatable.pods}|{.status.allocatable.ephemeral-storage}|{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}'
  capture pods "${MEMBER[@]}" get pods --all-namespaces \
    '--field-selector=spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed' \
    '--output=jsonpath={range .items[*]}pod{"\n"}{range .spec.containers[*]}{.resources.requests.cpu}|{.resources.requests.memory}|{.resources.requests.ephemeral-storage}{"\n"}{end}{end}'
  derive version server_version "$versions"
  derive enablements api_enablements "$apis"
  derive resources resource_status "$nodes" "$pods"
  write "$WORK/status.json" <<STATUS
{"status":{
"kubernetesVersion":"$version",
"conditions":[
$(condition Ready ClusterReady "the cluster answered when hack/local-up.sh registered it"),
$(condition CompleteAPIEnablements Complete "all API groups were read")],
"apiEnablements":$enablements,
$resources
}}
STATUS
  run "${HOST[@]}" patch clusters.cluster.karmada.io "$name" --subresource=status --type=merge "--patch-file=$WORK/status.json"
}

register_members() {
  local name
  step "registering the members"
  for name in "${MEMBERS[@]}"; do
    say "$name"
    MEMBER=(kubectl "--kubeconfig=$MEMBER_CLUSTER_KUBECONFIG" "--context=$name")
    give_credentials "$name"
    apply_cluster "$name"
    write_status "$name"
  done
}

# --- up and down ---------------------------------------------------------------------------------------

say_what_next() {
  cat <<NEXT

Berth is up. To use it:
  export KUBECONFIG=$(quoted "$MAIN_KUBECONFIG")
  kubectl get clusters
  kubectl apply -f examples/nginx.yaml
  kubectl get resourcebindings
A second scheduler, for policies with schedulerName: my-scheduler:
  kubectl --context $HOST_CLUSTER_NAME apply -f deploy/scheduler/my-scheduler.yaml
The members are the contexts ${MEMBERS[*]} of $MEMBER_CLUSTER_KUBECONFIG.
To remove all of it:
  hack/local-up.sh --down
NEXT
}

up() {
  look_for_clusters
  build_image
  create_clusters
  load_image
  apply_api
  deploy_components
  register_members
  if ! $DRY_RUN; then
    say_what_next
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
  # A run that was interrupted may not have come to make it.
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
