{{- define "graphmill.ownClaim" -}}
{{ include "graphmill.name" . }}-models
{{- end }}

{{/* Whether an init container gets the model. */}}
{{- define "graphmill.isDownloaded" -}}
{{ .Values.model.url }}{{ .Values.model.source }}
{{- end }}

{{/* The variables that find a model by its name in the volume. */}}
{{- define "graphmill.hub" -}}
- { name: HF_HOME, value: /models/huggingface }
{{- end }}

{{/* The claim of the volume at /models, or nothing where none is needed. */}}
{{- define "graphmill.claim" -}}
{{- .Values.model.existingClaim | default (ternary (include "graphmill.ownClaim" .) "" (ne (include "graphmill.isDownloaded" .) "")) -}}
{{- end }}

{{/* Where the init container puts the model. */}}
{{- define "graphmill.download" -}}
/models/{{ (urlParse .Values.model.url).path | base }}
{{- end }}

{{/* What the server is given as its model. */}}
{{- define "graphmill.model" -}}
{{- if .Values.model.path -}}
{{ .Values.model.path }}
{{- else if .Values.model.source -}}
{{ .Values.model.source }}
{{- else if .Values.model.url -}}
{{ include "graphmill.download" . }}
{{- else if .Values.model.existingClaim -}}
/models
{{- else -}}
/usr/share/graphmill/demos/tiny_chat/model.gguf
{{- end -}}
{{- end }}

{{/* Whether the volume is one that only the pods of one node can mount. */}}
{{- define "graphmill.isOnOneNode" -}}
{{- if and (include "graphmill.isDownloaded" .) (not .Values.model.existingClaim) (not (has "ReadWriteMany" .Values.model.volume.accessModes)) -}}
yes
{{- end -}}
{{- end }}

{{/* The ports that the pods reach beside those of `networkPolicy.egressPorts`, as a JSON list. */}}
{{- define "graphmill.egressPorts" -}}
{{- $ports := list -}}
{{- with .Values.model.url -}}
{{- $url := urlParse . -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default (ternary "443" "80" (eq $url.scheme "https")) | int) -}}
{{- end -}}
{{- if or .Values.model.source (regexMatch "--(jwt[-_]jwks[= ]https:|allowed[-_]media[-_]domains)" (join " " .Values.extraArgs)) -}}
{{- $ports = append $ports 443 -}}
{{- end -}}
{{- concat .Values.networkPolicy.egressPorts $ports | uniq | toJson -}}
{{- end }}
