{{- define "wsbouncer.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "wsbouncer.fullname" -}}
{{- $name := include "wsbouncer.name" . -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* What selects the proxies' pods: it must not change from release to release. */}}
{{- define "wsbouncer.proxies" -}}
app.kubernetes.io/name: {{ include "wsbouncer.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: proxy
{{- end }}

{{- define "wsbouncer.labels" -}}
app.kubernetes.io/name: {{ include "wsbouncer.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "wsbouncer.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "wsbouncer.serviceAccount" -}}
{{- with .Values.serviceAccount }}
{{- if not (or .create .name (not $.Values.discovery.kubernetes.enabled)) }}
{{- fail "serviceAccount: without create, set serviceAccount.name, so that not every pod of the namespace may read EndpointSlices, or set discovery.kubernetes.enabled to false" }}
{{- end }}
{{- .name | default (ternary (include "wsbouncer.fullname" $) "default" .create) }}
{{- end }}
{{- end }}

{{/* For the NetworkPolicies of the proxies and of the Job. */}}
{{- define "wsbouncer.dnsEgress" -}}
# DNS, wherever it is: in kube-system, or on the node.
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end }}

{{- define "wsbouncer.databaseEgress" -}}
# PostgreSQL.
- ports:
    - port: {{ .Values.networkPolicy.database.port }}
      protocol: TCP
  {{- with .Values.networkPolicy.database.peers }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* What sslmode=verify-full needs beside the URL. pgx reads PGSSLROOTCERT. */}}
{{- define "wsbouncer.databaseCAVariable" -}}
- name: PGSSLROOTCERT
  value: /etc/wsbouncer/database-ca/ca.crt
{{- end }}

{{- define "wsbouncer.databaseCAMount" -}}
- name: database-ca
  mountPath: /etc/wsbouncer/database-ca
  readOnly: true
{{- end }}

{{- define "wsbouncer.databaseCAVolume" -}}
- name: database-ca
  secret:
    secretName: {{ .Values.database.caSecret }}
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}

{{- define "wsbouncer.adminScheme" -}}
{{ ternary "https" "http" .Values.admin.tls.enabled }}
{{- end }}

{{/* The name in the certificate of the admin API, which is the same for all pods. */}}
{{- define "wsbouncer.adminName" -}}
{{ include "wsbouncer.fullname" . }}-admin.{{ .Release.Namespace }}.svc
{{- end }}

{{- define "wsbouncer.adminSecret" -}}
{{ .Values.admin.tls.existingSecret | default (printf "%s-admin-tls" (include "wsbouncer.fullname" .)) }}
{{- end }}

{{- define "wsbouncer.configuration" -}}
{{- if .Values.configuration }}{{ toYaml .Values.configuration }}{{ else }}services: {}{{ end }}
{{- end }}
