{{- define "graphmill.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "graphmill.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "graphmill.labels" -}}
{{ include "graphmill.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "graphmill.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "graphmill.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "graphmill.probe" -}}
port: http
{{- if .Values.tls.existingSecret }}
scheme: HTTPS
{{- end }}
{{- end }}

{{/* The securityContext of all containers. */}}
{{- define "graphmill.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
