#!/usr/bin/env bash
# Records a small data folder of `berth up`, as a fixture of the tests of older formats. Run it before the format changes.
set -euo pipefail
export LC_ALL=C

if [ $# != 2 ]; then
  echo "usage: hack/record-data-folder.sh BERTH FILE.tar.gz" >&2
  echo "BERTH is the program whose format is recorded. It needs kubectl." >&2
  exit 2
fi
berth=$1
archive=$2
work=$(mktemp -d)
export HOME=$work/home KUBECONFIG=$work/kubeconfig
mkdir "$HOME"

"$berth" up --port=0 --members=0 --data-dir="$work/data" --kubeconfig="$KUBECONFIG" \
  --without=scheduler,controllers >"$work/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 300); do
  grep -q 'Press Ctrl-C' "$work/log" && break
  kill -0 "$server" 2>/dev/null || {
    cat "$work/log" >&2
    exit 1
  }
  sleep 0.1
done

kubectl create configmap kept --from-literal=key=value
kubectl create configmap deleted
kubectl create deployment web --image=nginx --replicas=2
kubectl apply -f - <<'END'
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: web
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    name: web
END
kubectl apply -f - <<'END'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.example.com
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          size: {type: integer}
END
kubectl wait --for=condition=Established crd/widgets.example.com
printf 'apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: big}\nsize: 3\n' | kubectl apply -f -
kubectl label configmap kept changed=yes
kubectl delete configmap deleted

kill "$server"
wait "$server" || true
# Keys and tokens stay out: the next start creates new ones.
tar --create --gzip --file="$archive" --owner=0 --group=0 --mtime=@0 --sort=name \
  --exclude=credentials --exclude=lock --directory="$work/data" .
