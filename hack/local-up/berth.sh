# Berth's image, API, components and members. Sourced by hack/local-up.sh.
# shellcheck shell=bash

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
  step "applying namespaces, CRDs and rights on $KARMADA_APISERVER_CLUSTER_NAME"
  run "${CONTROL_PLANE[@]}" apply --filename=deploy/namespace.yaml
  run "${CONTROL_PLANE[@]}" apply --server-side --force-conflicts --filename=crds
  run "${CONTROL_PLANE[@]}" wait --for=condition=Established --timeout=60s --filename=crds
  run "${CONTROL_PLANE[@]}" apply --filename=deploy/scheduler/rbac.yaml --filename=deploy/controllers/rbac.yaml
}

# give_kubeconfig ACCOUNT SECRET: creates a kubeconfig with a token of the control plane's ServiceAccount ACCOUNT, and
# stores it in the Secret SECRET of the host cluster.
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
  run "${CONTROL_PLANE[@]}" apply "--filename=$WORK/token.yaml"
  capture token "${CONTROL_PLANE[@]}" get secret "$account-token" "--namespace=$SYSTEM_NAMESPACE" \
    '--output=go-template={{with .data.token}}{{base64decode .}}{{end}}'
  capture ca "${CONTROL_PLANE[@]}" get secret "$account-token" "--namespace=$SYSTEM_NAMESPACE" \
    '--output=jsonpath={.data.ca\.crt}'
  write "$WORK/$CONFIG_KEY" <<MANIFEST
apiVersion: v1
kind: Config
current-context: control-plane
clusters:
- name: control-plane
  cluster:
    server: $APISERVER_URL
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

# wait_for_rollout DEPLOYMENT...
wait_for_rollout() {
  local deployment
  for deployment in "$@"; do
    run "${HOST[@]}" rollout status "--namespace=$SYSTEM_NAMESPACE" --timeout=3m "deployment/$deployment"
  done
}

deploy_components() {
  step "creating accounts for the scheduler and the controllers" \
    "See: $(quoted "${HOST[@]}" logs "--namespace=$SYSTEM_NAMESPACE" deployment/karmada-kube-controller-manager)"
  give_kubeconfig berth-scheduler karmada-scheduler-config
  give_kubeconfig berth-controllers berth-controllers-config
  step "deploying the scheduler and the controllers on $HOST_CLUSTER_NAME" \
    "See: $(quoted "${HOST[@]}" describe pods "--namespace=$SYSTEM_NAMESPACE")"
  # With failover and autoscaling, as in Karmada's hack/local-up-karmada.sh.
  run_into "$WORK/controllers.yaml" sed "s|- --health-probe-bind-address=.*|&\\
        - --controllers=*,hpaScaleTargetMarker,deploymentReplicasSyncer\\
        - --enable-no-execute-taint-eviction=true\\
        - --feature-gates=Failover=true|" deploy/controllers/controllers.yaml
  run "${HOST[@]}" apply --filename=deploy/scheduler/default-scheduler.yaml "--filename=$WORK/controllers.yaml"
  if exists "$HOST_CLUSTER_NAME"; then
    restart_pods
  fi
  wait_for_rollout karmada-scheduler berth-controllers
}

# Restarts all pods of Berth, such as those of my-scheduler. The new image has the name of the old one, so that running
# pods keep the old one.
restart_pods() {
  local deployments name
  deployments=$("${HOST[@]}" get deployments "--namespace=$SYSTEM_NAMESPACE" \
    "--output=jsonpath={range .items[?(@.spec.template.spec.containers[*].image==\"$IMAGE\")]}{.metadata.name}{\"\n\"}{end}")
  for name in $deployments; do
    run "${HOST[@]}" rollout restart "--namespace=$SYSTEM_NAMESPACE" "deployment/$name"
  done
}

# join_in_container ARGUMENTS...: runs `berth join` in a container of the clusters' network, because the kubeconfigs
# in $WORK contain names and addresses of that network.
join_in_container() {
  run docker run --rm "--network=$NETWORK" "--user=$UID:${GROUPS[0]}" "--volume=$WORK:/kubeconfigs:ro" "$IMAGE" join "$@"
}

join_members() {
  local name
  step "joining the members" \
    "See: $(quoted "${HOST[@]}" logs "--namespace=$SYSTEM_NAMESPACE" deployment/berth-controllers)"
  for name in "${MEMBERS[@]}"; do
    say "$name"
    run_into "$WORK/$name" kind get kubeconfig --internal "--name=$name"
    # By name, because Docker may give the node another address when it restarts. Pods resolve this name too: kind's
    # CoreDNS asks the DNS of Docker.
    join_in_container "$name" "--kubeconfig=/kubeconfigs/$KARMADA_APISERVER_CLUSTER_NAME" \
      "--cluster-kubeconfig=/kubeconfigs/$name" "--cluster-endpoint=https://$name-control-plane:6443"
  done
  run "${CONTROL_PLANE[@]}" wait --for=condition=Ready --timeout=3m clusters.cluster.karmada.io "${MEMBERS[@]}"
}
