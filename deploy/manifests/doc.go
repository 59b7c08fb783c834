// Package manifests tests deploy/kubernetes and deploy/compose.yaml. Below it are prometheusrule, which writes a manifest, and drain, which
// ends a proxy as a kubelet does.
package manifests

//go:generate go run ./prometheusrule ../prometheus/alerts.yaml ../kubernetes/monitoring/prometheus-rule.yaml
