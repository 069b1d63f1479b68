{{/* The name of everything that belongs to the manager. One installation a hub: its add-ons are cluster-scoped. */}}
{{- define "knative-addon.manager" -}}
knative-addon-manager
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
{{- if not $providers }}
{{- fail "multicluster.accessProvidersConfig.providers is empty: name an access provider, or set multicluster.enabled to false" }}
{{- end }}
{{- $paths := list }}
{{- $delivery := .pluginDelivery }}
{{- range .plugins }}
{{- if not (isAbs .mountPath) }}
{{- fail (printf "multicluster.plugins: mountPath %q of plugin %q is not absolute" .mountPath .name) }}
{{- end }}
{{- if and (eq $delivery "InitContainer") (not .copyCommand) }}
{{- fail (printf "multicluster.plugins: plugin %q has no copyCommand, which pluginDelivery InitContainer needs" .name) }}
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
