{{- define "pgweir.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "pgweir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pgweir.labels" -}}
{{ include "pgweir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* The settings of the chart, then those of the values, which come later in the file and hold. */}}
{{- define "pgweir.ini" -}}
[databases]
{{- range $name, $entry := .Values.databases }}
{{ if eq $name "*" }}*{{ else }}{{ printf "%q" $name }}{{ end }} = {{ $entry }}
{{- end }}
{{- with .Values.users }}

[users]
{{- range $name, $entry := . }}
{{ printf "%q" $name }} = {{ $entry }}
{{- end }}
{{- end }}
{{- $own := dict "listen_addr" "*" "listen_port" "6432" "unix_socket_dir" "/tmp" "http_listen_addr" "*" "http_listen_port" "8432" "watch_files" "1" }}
{{- $_ := set $own "http_auth" "auto" }}
{{- if .Values.auth.existingSecret }}{{ $_ := set $own "auth_file" (printf "/etc/pgweir/users/%s" .Values.auth.key) }}{{ end }}
{{- if .Values.tls.existingSecret }}
{{- $_ := set $own "client_tls_sslmode" "require" }}
{{- $_ := set $own "client_tls_cert_file" "/etc/pgweir/tls/tls.crt" }}
{{- $_ := set $own "client_tls_key_file" "/etc/pgweir/tls/tls.key" }}
{{- end }}
{{- if .Values.tls.serverCaSecret }}
{{- $_ := set $own "server_tls_sslmode" "verify-full" }}
{{- $_ := set $own "server_tls_ca_file" "/etc/pgweir/ca/ca.crt" }}
{{- end }}

[pgweir]
{{- range $name, $value := mergeOverwrite $own .Values.settings }}
{{ $name }} = {{ if kindIs "float64" $value }}{{ $value | int64 }}{{ else }}{{ $value }}{{ end }}
{{- end }}
{{ end }}
