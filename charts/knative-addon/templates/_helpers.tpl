{{/* The name of everything that belongs to the manager. One installation a hub: its add-ons are cluster-scoped. */}}
{{- define "knative-addon.manager" -}}
knative-addon-manager
{{- end }}

{{/* The name of everything that belongs to the program which installs on the hub itself. */}}
{{- define "knative-addon.local" -}}
knative-addon-local
{{- end }}

{{/* Labels that select the pods of that program. They never change. */}}
{{- define "knative-addon.localSelectorLabels" -}}
app.kubernetes.io/name: knative-addon
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: local-installs
{{- end }}

{{/* The image of both. */}}
{{- define "knative-addon.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The port of the metrics. */}}
{{- define "knative-addon.metricsPort" -}}
{{ ternary 8443 8080 .Values.metrics.secure }}
{{- end }}

{{/* What every container may do: nothing but run. */}}
{{- define "knative-addon.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop:
  - ALL
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Labels that select the manager's pods. They never change. */}}
{{- define "knative-addon.selectorLabels" -}}
app.kubernetes.io/name: knative-addon
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: manager
{{- end }}

{{/* Labels of every object. */}}
{{- define "knative-addon.labels" -}}
app.kubernetes.io/name: knative-addon
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: open-cluster-management
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Annotations of what an uninstall leaves behind. */}}
{{- define "knative-addon.keep" -}}
{{- if .Values.keepAddOns -}}
annotations:
  helm.sh/resource-policy: keep
{{- end }}
{{- end }}

{{/* The installStrategy of an add-on: (dict "root" $ "addOn" name "strategy" values). */}}
{{- define "knative-addon.installStrategy" -}}
type: {{ .strategy.type }}
{{- if eq .strategy.type "Placements" }}
{{- $placements := .strategy.placements | default (list (dict "name" .addOn "namespace" .root.Release.Namespace)) }}
{{- $rollout := .strategy.rolloutStrategy }}
placements:
{{- range $placements }}
- name: {{ .name }}
  namespace: {{ .namespace }}
  {{- with .configs }}
  configs:
  {{- toYaml . | nindent 2 }}
  {{- end }}
  rolloutStrategy:
  {{- if .rolloutStrategy }}
    {{- toYaml .rolloutStrategy | nindent 4 }}
  {{- else }}
    type: {{ $rollout.type }}
    {{- $details := $rollout.type | untitle }}
    {{ $details }}:
      {{- toYaml (get $rollout $details) | nindent 6 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The Placement of an add-on that installs by Placements and is given none: arguments as above. */}}
{{- define "knative-addon.placement" -}}
{{- if and (eq .strategy.type "Placements") (not .strategy.placements) }}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata:
  name: {{ .addOn }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "knative-addon.labels" .root | nindent 4 }}
  {{- include "knative-addon.keep" .root | nindent 2 }}
spec:
  {{- toYaml .strategy.placement | nindent 2 }}
{{- end }}
{{- end }}

{{/* Fails where clusters could not be connected to with these values. */}}
{{- define "knative-addon.checkMulticluster" -}}
{{- with .Values.multicluster }}
{{- $providers := .accessProvidersConfig.providers }}
{{- if .secretNamespaces }}
{{- fail "multicluster.secretNamespaces is no longer read: it let every ClusterProfile use every Secret of a namespace. Write multicluster.inventories instead, for example [{namespace: team, providers: [secretreader], servers: [api.example.com], secrets: [edge-7]}], with the namespace of the ClusterProfiles; and secretNamespace where the Secrets are in another namespace (docs/direct.md)" }}
{{- end }}
{{- if not $providers }}
{{- fail "multicluster.accessProvidersConfig.providers is empty: name an access provider, or set multicluster.enabled to false" }}
{{- end }}
{{- $paths := list }}
{{- $delivery := .pluginDelivery }}
{{- range .plugins }}
{{- if not (isAbs .mountPath) }}
{{- fail (printf "multicluster.plugins: mountPath %q of plugin %q is not absolute" .mountPath .name) }}
{{- end }}
{{- if and (eq $delivery "InitContainer") (not .copyCommand) (not (include "knative-addon.pluginFiles" (dict "root" $ "plugin" .) | fromYamlArray)) }}
{{- fail (printf "multicluster.plugins: plugin %q has no file to copy: name a file under mountPath %q as command of a provider, or set copyCommand" .name .mountPath) }}
{{- end }}
{{- if eq .name "tools" }}
{{- fail "multicluster.plugins: a plugin cannot have the name \"tools\", which the volume of the chart's init containers has" }}
{{- end }}
{{- $paths = append $paths (clean .mountPath) }}
{{- end }}
{{- range $providers }}
{{- $command := dig "execConfig" "command" "" . }}
{{- $under := false }}
{{- range $paths }}
{{- if hasPrefix (printf "%s/" .) (clean $command) }}
{{- $under = true }}
{{- end }}
{{- end }}
{{- if not $under }}
{{- fail (printf "multicluster.accessProvidersConfig: command %q of provider %q is not under the mountPath of any of multicluster.plugins" $command .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Arguments about rendering, of every program that renders. */}}
{{- define "knative-addon.renderingArgs" -}}
{{- with .Values.rendering }}
{{- with .remoteManifestsAllowedHosts }}
- --remote-manifests-allowed-hosts={{ join "," . }}
{{- end }}
{{- with .remoteManifestsAllowedNetworks }}
- --remote-manifests-allowed-networks={{ join "," . }}
{{- end }}
{{- with .allowedKinds }}
- --allowed-kinds={{ join "," . }}
{{- end }}
{{- with .trustedNamespaces }}
- --trusted-namespaces={{ join "," . }}
{{- end }}
{{- with .allowedImageRegistries }}
- --allowed-image-registries={{ join "," . }}
{{- end }}
{{- if .keepCRDDescriptions }}
- --keep-crd-descriptions
{{- end }}
{{- if .keepConfigExamples }}
- --keep-config-examples
{{- end }}
{{- with .verification }}
- --verification={{ . }}
{{- end }}
{{- if .releases.volume }}
- --releases-dir={{ include "knative-addon.releasesPath" $ }}
- --releases-sha256={{ .releases.sha256 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the volume with further releases is mounted. */}}
{{- define "knative-addon.releasesPath" -}}
/etc/knative-releases
{{- end }}

{{/* The mount of the volume with further releases, of every program that renders. */}}
{{- define "knative-addon.releasesMount" -}}
{{- if .Values.rendering.releases.volume }}
- name: releases
  mountPath: {{ include "knative-addon.releasesPath" . }}
  readOnly: true
{{- end }}
{{- end }}

{{/* The volume with further releases, of every program that renders. */}}
{{- define "knative-addon.releasesVolume" -}}
{{- with .Values.rendering.releases.volume }}
- name: releases
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Fails an installation on a hub where the Knative Operator runs: the operator would install the resources of the chart on the hub. */}}
{{- define "knative-addon.refuseOperator" -}}
{{- $namespace := .Values.knativeOperator.namespace }}
{{- with and .Release.IsInstall (lookup "apps/v1" "Deployment" $namespace "knative-operator") }}
{{- if ne (toString (.spec).replicas) "0" }}
{{- fail (printf "the Knative Operator runs on this hub (Deployment %s/knative-operator), and would install the resources of this chart on the hub: first run 'kubectl scale deployment --namespace %s knative-operator --replicas=0', and keep the operator's release, because its uninstallation deletes the CustomResourceDefinitions and all their resources" $namespace $namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The files that the providers' commands name in a plugin's image, as a YAML list: (dict "root" $ "plugin" values). */}}
{{- define "knative-addon.pluginFiles" -}}
{{- $prefix := printf "%s/" (clean .plugin.mountPath) }}
{{- $files := list }}
{{- range .root.Values.multicluster.accessProvidersConfig.providers }}
{{- $command := clean (dig "execConfig" "command" "" .) }}
{{- if hasPrefix $prefix $command }}
{{- $files = append $files (printf "/%s" (trimPrefix $prefix $command)) }}
{{- end }}
{{- end }}
{{- toYaml ($files | uniq | sortAlpha) }}
{{- end }}

{{/* Not empty where an init container copies a plugin with the manager's program. */}}
{{- define "knative-addon.copiesPlugins" -}}
{{- with .Values.multicluster }}
{{- if and .enabled (eq .pluginDelivery "InitContainer") }}
{{- range .plugins }}
{{- if not .copyCommand }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What init containers of plugins have in common: (dict "root" $ "runAsUser" number). */}}
{{- define "knative-addon.pluginContainer" -}}
securityContext:
  {{- include "knative-addon.containerSecurityContext" .root | nindent 2 }}
  {{- with .runAsUser }}
  runAsUser: {{ int64 . }}
  {{- end }}
{{- with .root.Values.multicluster.pluginResources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The variables of the proxy. The API server of the hub is never behind the proxy, also when extraEnv names the proxy. */}}
{{- define "knative-addon.proxyVariables" -}}
{{- $extra := list }}
{{- range .Values.extraEnv }}
{{- $extra = append $extra (upper .name) }}
{{- end }}
{{- with .Values.proxy }}
{{- with .httpProxy }}
- name: HTTP_PROXY
  value: {{ . | quote }}
{{- end }}
{{- with .httpsProxy }}
- name: HTTPS_PROXY
  value: {{ . | quote }}
{{- end }}
{{- $proxied := or .httpProxy .httpsProxy (has "HTTP_PROXY" $extra) (has "HTTPS_PROXY" $extra) }}
{{- if and $proxied (not (has "NO_PROXY" $extra)) }}
- name: NO_PROXY
  value: {{ without (list "$(KUBERNETES_SERVICE_HOST)" .noProxy) "" | join "," | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* The constraints of pods with labels, each with these labels as its selector unless it has one: (dict "root" $ "labels" text). */}}
{{- define "knative-addon.topologySpreadConstraints" -}}
{{- $labels := .labels | fromYaml }}
{{- $constraints := list }}
{{- range .root.Values.topologySpreadConstraints }}
{{- $selector := .labelSelector | default (dict "matchLabels" $labels) }}
{{- $constraints = append $constraints (merge (dict "labelSelector" $selector) (omit . "labelSelector")) }}
{{- end }}
{{- with $constraints }}{{ toYaml . }}{{ end }}
{{- end }}
