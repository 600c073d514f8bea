clusters=$FAKE_TOOLS/clusters
name=
for argument in "$@"; do
  case $argument in --name=*) name=${argument#--name=} ;; esac
done
touch_clusters() { cat "$clusters" 2>/dev/null || true; }
case "$1 $2" in
"get clusters") touch_clusters ;;
"get kubeconfig") echo "a way into $name" ;;
"create cluster")
  echo "$name" >>"$clusters"
  for argument in "$@"; do
    case $argument in
    --kubeconfig=*) echo "contexts of kind" >"${argument#--kubeconfig=}" ;;
    --config=*) cp "${argument#--config=}" "$FAKE_TOOLS/host.yaml" ;;
    esac
  done
  if [ -e "$FAKE_TOOLS/interrupt" ]; then
    signal=$(cat "$FAKE_TOOLS/interrupt")
    rm "$FAKE_TOOLS/interrupt"
    kill "-$signal" "$PPID"
  fi
  ;;
"delete cluster") rest=$(grep -vxF -- "$name" "$clusters" || true); printf '%s\n' "$rest" >"$clusters" ;;
esac
