{{/* The labels of all objects. */}}
{{- define "berth.labels" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* The labels that select the pods of a component. Takes a dict of root and name. */}}
{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end -}}

{{- define "berth.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The schedulers, default first, as a YAML list under the key `items`. Each has component (the suffix of object names),
account (the suffix of its ServiceAccount), shadow (true in shadow mode) and all keys of `scheduler`.
*/}}
{{- define "berth.schedulers" -}}
{{- $items := list -}}
{{- if .Values.scheduler.enabled -}}
{{- $items = append $items (mergeOverwrite (deepCopy .Values.scheduler) (dict "component" "scheduler" "account" "scheduler" "shadow" false)) -}}
{{- end -}}
{{- range .Values.secondSchedulers -}}
{{- $own := dict "leaseName" .schedulerName "replicas" 1 "component" (printf "scheduler-%s" .schedulerName) "account" "scheduler" "shadow" false "config" dict "extraArgs" list "featureGates" dict "plugins" (list "*") -}}
{{- $items = append $items (mergeOverwrite (deepCopy $.Values.scheduler) $own (deepCopy .)) -}}
{{- end -}}
{{- $seen := dict -}}
{{- range $items -}}
{{- if hasKey $seen .schedulerName -}}
{{- fail (printf "two schedulers have the schedulerName %q" .schedulerName) -}}
{{- end -}}
{{- $_ := set $seen .schedulerName true -}}
{{- end -}}
{{- if .Values.shadow.enabled -}}
{{- $items = append $items (mergeOverwrite (deepCopy .Values.shadow) (dict "component" "shadow" "account" "shadow" "shadow" true "replicas" 1)) -}}
{{- end -}}
{{- dict "items" $items | toYaml -}}
{{- end -}}

{{- define "berth.leaseNamespace" -}}
{{- .Values.controlPlane.inCluster | ternary .Release.Namespace .Values.controlPlane.namespace -}}
{{- end -}}

{{/* Feature gates as the value of a flag. */}}
{{- define "berth.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := . -}}
{{- $gates = append $gates (printf "%s=%v" $name $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{/*
The Deployment of a component and what belongs to it. Takes a dict of root, name, args, probePort, values (replicas,
kubeconfig, resources) and configMap (may be empty), and optionally ports that everyone may reach, volumes with
name, mountPath and source, and memberKubeconfig: true for a component that reads the kubeconfig in every control plane.
*/}}
{{- define "berth.deployment" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $fullname := printf "%s-%s" $root.Release.Name .name -}}
{{- $hasKubeconfig := or .memberKubeconfig (not $values.controlPlane.inCluster) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $fullname }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "berth.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  replicas: {{ .values.replicas }}
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "berth.selector" . | nindent 8 }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or $values.podAnnotations .configMap }}
      annotations:
        {{- if .configMap }}
        checksum/config: {{ .values.config | toYaml | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      {{- if not $hasKubeconfig }}
      serviceAccountName: {{ $root.Release.Name }}-{{ .account }}
      {{- else }}
      automountServiceAccountToken: false
      {{- end }}
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - {{- mergeOverwrite (dict "labelSelector" (dict "matchLabels" (include "berth.selector" $ | fromYaml))) . | toYaml | nindent 10 }}
        {{- end }}
      {{- end }}
      {{- if ne $values.podAntiAffinity "none" }}
      affinity:
        podAntiAffinity:
          {{- if eq $values.podAntiAffinity "required" }}
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "berth.selector" . | nindent 16 }}
          {{- else }}
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm:
              topologyKey: kubernetes.io/hostname
              labelSelector:
                matchLabels:
                  {{- include "berth.selector" . | nindent 18 }}
          {{- end }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
      - name: {{ .name }}
        image: {{ include "berth.image" $root | quote }}
        imagePullPolicy: {{ $values.image.pullPolicy }}
        command:
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
        ports:
        - name: metrics
          containerPort: 8080
          protocol: TCP
        - name: probes
          containerPort: {{ .probePort }}
          protocol: TCP
        {{- with .ports }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        livenessProbe:
          httpGet:
            path: /livez
            port: probes
          initialDelaySeconds: 15
          periodSeconds: 15
          timeoutSeconds: 5
          failureThreshold: 3
        readinessProbe:
          httpGet:
            path: /readyz
            port: probes
          periodSeconds: 5
        {{- with .values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: ["ALL"]
        {{- if or .configMap .volumes $hasKubeconfig }}
        volumeMounts:
        {{- if $hasKubeconfig }}
        - name: kubeconfig
          mountPath: /etc/karmada/config
          readOnly: true
        {{- end }}
        {{- if .configMap }}
        - name: config
          mountPath: /etc/berth
          readOnly: true
        {{- end }}
        {{- range .volumes }}
        - name: {{ .name }}
          mountPath: {{ .mountPath }}
          readOnly: true
        {{- end }}
      volumes:
      {{- if $hasKubeconfig }}
      - name: kubeconfig
        secret:
          secretName: {{ .values.kubeconfig.secretName }}
          items:
          - key: {{ .values.kubeconfig.key }}
            path: karmada.config
      {{- end }}
      {{- if .configMap }}
      - name: config
        configMap:
          name: {{ .configMap }}
      {{- end }}
      {{- range .volumes }}
      - name: {{ .name }}
        {{- toYaml .source | nindent 8 }}
      {{- end }}
        {{- end }}
{{- if and $values.podDisruptionBudget.enabled (gt (int .values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $fullname }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "berth.labels" $root | nindent 4 }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
{{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $fullname }}-metrics
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "berth.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  clusterIP: None
  selector:
    {{- include "berth.selector" . | nindent 4 }}
  ports:
  - name: metrics
    port: 8080
    targetPort: metrics
    protocol: TCP
{{- if $values.metrics.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $fullname }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "berth.labels" $root | nindent 4 }}
    {{- with $values.metrics.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
  endpoints:
  - port: metrics
    interval: {{ $values.metrics.serviceMonitor.interval }}
{{- end }}
{{- if $values.networkPolicy.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $fullname }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "berth.labels" $root | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "berth.selector" . | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  - ports:
    - port: probes
    {{- range .ports }}
    - port: {{ .name }}
    {{- end }}
  - ports:
    - port: metrics
    {{- with $values.networkPolicy.metricsFrom }}
    from:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- end -}}

{{/*
A ServiceAccount with rights: `cluster` in all namespaces, `own` in the namespace of the release. Takes a dict of root,
account, cluster and own.
*/}}
{{- define "berth.rights" -}}
{{- $name := printf "%s-%s" .root.Release.Name .account -}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "berth.labels" .root | nindent 4 }}
  {{- with .root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "berth.labels" .root | nindent 4 }}
rules:
{{- if .cluster }}
{{ toYaml .cluster }}
{{- else }} []
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "berth.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "berth.labels" .root | nindent 4 }}
rules:
{{- if .own }}
{{ toYaml .own }}
{{- else }} []
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "berth.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
- kind: ServiceAccount
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
{{- end -}}
