{{- define "rightsizer.image" -}}
{{ .Values.image.repository }}{{ include "rightsizer.version" (dict "digest" .Values.image.digest "root" .) }}
{{- end }}

{{- define "rightsizer.fleetImage" -}}
{{ .Values.fleet.image.repository | default (printf "%s-tools" .Values.image.repository) }}
{{- include "rightsizer.version" (dict "digest" .Values.fleet.image.digest "root" .) }}
{{- end }}

{{- define "rightsizer.version" -}}
{{- with .digest -}}@{{ . }}{{- else -}}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}{{- end }}
{{- end }}

{{- define "rightsizer.labels" -}}
app.kubernetes.io/name: rightsizer
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "rightsizer.fleetLabels" -}}
app.kubernetes.io/name: rightsizer-fleet
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The agent's endpoint of a monitor: what the site adds, relabelings after those that name the node. */}}
{{- define "rightsizer.endpoint" -}}
{{- $own := dict "port" "metrics" "path" "/metrics" "interval" .interval "honorLabels" true -}}
{{- $node := dict "sourceLabels" (list "__meta_kubernetes_pod_node_name") "targetLabel" "instance" -}}
{{- $relabelings := prepend (.endpoint.relabelings | default list) $node -}}
{{ list (merge (dict "relabelings" $relabelings) .endpoint $own) | toYaml }}
{{- end }}

{{/* A probe of the agent: by HTTP, or over the local socket where TLS or passwords stand before it. */}}
{{- define "rightsizer.probe" -}}
{{- if .web.secret -}}
exec:
  command:
    - python
    - -c
    - |
      import socket, sys
      s = socket.socket(socket.AF_UNIX)
      s.settimeout(4)
      s.connect("/run/rightsizer/api.sock")
      s.sendall(b"GET {{ .path }} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
      sys.exit(b" 200 " not in s.recv(64))
{{- else -}}
httpGet: {path: {{ .path }}, port: metrics}
{{- end }}
{{- end }}
