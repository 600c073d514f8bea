# The control plane: etcd, kube-apiserver and kube-controller-manager as pods of the host. Sourced by hack/local-up.sh.
#
# Its kube-controller-manager has none of the controllers that run workloads, so that a propagated Deployment starts
# pods in the members only. Images, kubeadm and therefore certificates come from the node of the host: nothing else is
# downloaded.
# shellcheck shell=bash

# Port of the API server, in its pod and on the node.
APISERVER_PORT=5443
# Address of the API server for pods of the host.
APISERVER_URL=https://karmada-apiserver.$SYSTEM_NAMESPACE.svc:$APISERVER_PORT
# Folder on the node, for certificates and kubeconfigs.
NODE_FOLDER=/etc/karmada
# First address of the API server's services, which kubeadm adds to its certificate.
SERVICE_ADDRESS=10.96.0.1
# The controllers of Karmada's own kube-controller-manager.
CONTROLLERS=namespace,garbagecollector,serviceaccount-token,ttl-after-finished,bootstrapsigner,tokencleaner
CONTROLLERS+=,csrcleaner,csrsigning,clusterrole-aggregation

# Creates certificates and kubeconfigs on the node. kubeadm keeps the existing ones, and refuses certificates that do not
# contain its advertise address. The node's own address would not do, because Docker may give the node another one when
# it restarts. The certificates of etcd, which listens inside its pod only, are not used.
create_certificates() {
  local version=""
  capture version docker exec "$NODE" kubeadm version --output=short
  run docker exec "$NODE" rm -rf "$NODE_FOLDER/pki/etcd"
  run docker exec "$NODE" kubeadm init phase certs all "--cert-dir=$NODE_FOLDER/pki" "--kubernetes-version=$version" \
    "--apiserver-advertise-address=$SERVICE_ADDRESS" \
    "--apiserver-cert-extra-sans=localhost,127.0.0.1,$NODE,karmada-apiserver.$SYSTEM_NAMESPACE.svc"
  for user in super-admin controller-manager; do
    run docker exec "$NODE" kubeadm init phase kubeconfig "$user" "--cert-dir=$NODE_FOLDER/pki" \
      "--kubeconfig-dir=$NODE_FOLDER" "--apiserver-bind-port=$APISERVER_PORT" "--kubernetes-version=$version"
  done
}

# image_of PROGRAM VARIABLE: stores the image of the host's own program.
image_of() {
  capture "$2" "${HOST[@]}" get pod "$1-$NODE" --namespace=kube-system '--output=jsonpath={.spec.containers[0].image}'
}

deploy_control_plane() {
  local etcd="" apiserver="" manager=""
  step "deploying the control plane on $HOST_CLUSTER_NAME" \
    "See: $(quoted "${HOST[@]}" describe pods "--namespace=$SYSTEM_NAMESPACE")"
  run "${HOST[@]}" apply --filename=deploy/namespace.yaml
  create_certificates
  image_of etcd etcd
  image_of kube-apiserver apiserver
  image_of kube-controller-manager manager
  write "$WORK/control-plane.yaml" <<MANIFEST
apiVersion: v1
kind: Service
metadata:
  name: karmada-apiserver
  namespace: $SYSTEM_NAMESPACE
spec:
  selector:
    app: karmada-apiserver
  ports:
  - port: $APISERVER_PORT
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: karmada-apiserver
  namespace: $SYSTEM_NAMESPACE
spec:
  replicas: 1
  serviceName: karmada-apiserver
  selector:
    matchLabels:
      app: karmada-apiserver
  template:
    metadata:
      labels:
        app: karmada-apiserver
    spec:
      automountServiceAccountToken: false
      containers:
      # Plain HTTP, because it listens inside the pod only.
      - name: etcd
        image: $etcd
        command:
        - etcd
        - --data-dir=/var/lib/etcd
        - --listen-client-urls=http://127.0.0.1:2379
        - --advertise-client-urls=http://127.0.0.1:2379
        - --listen-peer-urls=http://127.0.0.1:2380
        volumeMounts:
        - name: data
          mountPath: /var/lib/etcd
      - name: kube-apiserver
        image: $apiserver
        command:
        - kube-apiserver
        - --allow-privileged=true
        - --authorization-mode=Node,RBAC
        - --client-ca-file=/pki/ca.crt
        - --disable-admission-plugins=StorageObjectInUseProtection,ServiceAccount
        - --enable-bootstrap-token-auth=true
        - --etcd-servers=http://127.0.0.1:2379
        - --proxy-client-cert-file=/pki/front-proxy-client.crt
        - --proxy-client-key-file=/pki/front-proxy-client.key
        - --requestheader-allowed-names=front-proxy-client
        - --requestheader-client-ca-file=/pki/front-proxy-ca.crt
        - --requestheader-extra-headers-prefix=X-Remote-Extra-
        - --requestheader-group-headers=X-Remote-Group
        - --requestheader-username-headers=X-Remote-User
        - --secure-port=$APISERVER_PORT
        - --service-account-issuer=https://kubernetes.default.svc.cluster.local
        - --service-account-key-file=/pki/sa.pub
        - --service-account-signing-key-file=/pki/sa.key
        - --service-cluster-ip-range=10.96.0.0/12
        - --tls-cert-file=/pki/apiserver.crt
        - --tls-private-key-file=/pki/apiserver.key
        ports:
        - containerPort: $APISERVER_PORT
          hostPort: $APISERVER_PORT
        readinessProbe:
          httpGet:
            path: /readyz
            port: $APISERVER_PORT
            scheme: HTTPS
          periodSeconds: 2
        volumeMounts:
        - name: pki
          mountPath: /pki
          readOnly: true
      volumes:
      - name: data
        hostPath:
          path: /var/lib/karmada-etcd
          type: DirectoryOrCreate
      - name: pki
        hostPath:
          path: $NODE_FOLDER/pki
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: karmada-kube-controller-manager
  namespace: $SYSTEM_NAMESPACE
spec:
  selector:
    matchLabels:
      app: kube-controller-manager
  template:
    metadata:
      labels:
        app: kube-controller-manager
    spec:
      automountServiceAccountToken: false
      containers:
      - name: kube-controller-manager
        image: $manager
        command:
        - kube-controller-manager
        - --cluster-name=karmada
        - --cluster-signing-cert-file=/karmada/pki/ca.crt
        - --cluster-signing-key-file=/karmada/pki/ca.key
        - --controllers=$CONTROLLERS
        - --kubeconfig=/karmada/controller-manager.conf
        - --master=$APISERVER_URL
        - --root-ca-file=/karmada/pki/ca.crt
        - --service-account-private-key-file=/karmada/pki/sa.key
        - --use-service-account-credentials=true
        volumeMounts:
        - name: karmada
          mountPath: /karmada
          readOnly: true
      volumes:
      - name: karmada
        hostPath:
          path: $NODE_FOLDER
MANIFEST
  run "${HOST[@]}" apply "--filename=$WORK/control-plane.yaml"
  run "${HOST[@]}" rollout status "--namespace=$SYSTEM_NAMESPACE" --timeout=5m statefulset/karmada-apiserver
  run "${HOST[@]}" rollout status "--namespace=$SYSTEM_NAMESPACE" --timeout=5m deployment/karmada-kube-controller-manager
}

# Writes the context of the control plane into the kubeconfig of the host, and makes it the current one.
add_control_plane_context() {
  # Assigned by capture.
  # shellcheck disable=SC2034
  local name=$KARMADA_APISERVER_CLUSTER_NAME ready=""
  step "writing the context $name" \
    "If port $KARMADA_APISERVER_PORT leads to another program, set KARMADA_APISERVER_PORT and start over."
  run_into "$WORK/admin" docker exec "$NODE" cat "$NODE_FOLDER/super-admin.conf"
  # For containers in the network of kind. By name, because Docker may give the node another address when it restarts.
  run_into "$WORK/$name" sed -e "s|server: .*|server: https://$NODE:$APISERVER_PORT|" "$WORK/admin"
  run_into "$WORK/outside" sed -e "s|server: .*|server: https://127.0.0.1:$KARMADA_APISERVER_PORT|" \
    -e "s|kubernetes-super-admin@kubernetes|$name|" -e "s|kubernetes-super-admin|$name|" \
    -e "s|name: kubernetes\$|name: $name|" -e "s|cluster: kubernetes\$|cluster: $name|" "$WORK/admin"
  run_into "$WORK/merged" env "KUBECONFIG=$WORK/outside:$MAIN_KUBECONFIG" kubectl config view --flatten --raw
  run cp "$WORK/merged" "$MAIN_KUBECONFIG"
  capture ready "${CONTROL_PLANE[@]}" get --raw=/readyz
}
