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
