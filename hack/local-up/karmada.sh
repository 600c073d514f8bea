# Berth's scheduler in place of karmada-scheduler, in the clusters of Karmada's hack/local-up-karmada.sh; and back.
# Sourced by hack/local-up.sh.
# shellcheck shell=bash

# Stops unless the host runs Karmada's scheduler, or Berth's in its place after an earlier run.
find_karmada() {
  local image get=("${HOST[@]}" get deployment karmada-scheduler "--namespace=$SYSTEM_NAMESPACE")
  if $DRY_RUN; then
    return
  fi
  image=$("${get[@]}" '--output=jsonpath={.spec.template.spec.containers[0].image}' 2>"$WORK/stderr") || fail \
    "no Karmada in the context $HOST_CLUSTER_NAME of $MAIN_KUBECONFIG: $(cat "$WORK/stderr")
Run Karmada's hack/local-up-karmada.sh first, or name its clusters by MAIN_KUBECONFIG and HOST_CLUSTER_NAME."
  if [ "$image" = "$IMAGE" ] && ! [ -f "$SAVED" ]; then
    fail "the Deployment karmada-scheduler is Berth's already, and $SAVED, the copy of Karmada's, does not exist.
If this is the control plane of hack/local-up.sh, run it without --with-karmada."
  fi
}

with_karmada() {
  local restart=false
  find_karmada
  build_image
  load_image
  step "replacing karmada-scheduler on $HOST_CLUSTER_NAME" "To return to Karmada's: hack/local-up.sh --restore"
  if [ -f "$SAVED" ] && ! $DRY_RUN; then
    say "$SAVED has the Deployment of Karmada's scheduler"
    restart=true
  else
    run_into "$WORK/saved.yaml" "${HOST[@]}" get deployment karmada-scheduler "--namespace=$SYSTEM_NAMESPACE" --output=yaml
    run cp "$WORK/saved.yaml" "$SAVED"
  fi
  # The image has Berth as /bin/karmada-scheduler, so that flags and volumes stay.
  run "${HOST[@]}" set image "--namespace=$SYSTEM_NAMESPACE" deployment/karmada-scheduler "karmada-scheduler=$IMAGE"
  if $restart; then
    restart_pods
  fi
  wait_for_rollout karmada-scheduler
}

restore() {
  if ! [ -f "$SAVED" ]; then
    say "Nothing to restore: $SAVED, the copy of Karmada's scheduler, does not exist."
    return
  fi
  step "restoring karmada-scheduler on $HOST_CLUSTER_NAME" "The Deployment is in $SAVED."
  # Both belong to the object at the time of the copy.
  run_into "$WORK/restored.yaml" sed -e '/^  resourceVersion:/d' -e '/^  uid:/d' "$SAVED"
  run "${HOST[@]}" replace "--filename=$WORK/restored.yaml"
  wait_for_rollout karmada-scheduler
  run rm "$SAVED"
}
