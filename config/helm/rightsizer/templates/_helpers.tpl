{{- define "rightsizer.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "rightsizer.fleetImage" -}}
{{ .Values.fleet.image.repository | default (printf "%s-tools" .Values.image.repository) }}:{{ .Values.image.tag | default .Chart.AppVersion }}
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
