// Package manifests tests deploy/kubernetes, its overlay deploy/kubernetes-fleet, the chart in deploy/helm, and deploy/compose.yaml. Below it
// are prometheusrule, which writes a manifest, and drain, which ends proxies as a kubelet does.
package manifests

//go:generate go run ./prometheusrule ../prometheus/alerts.yaml ../kubernetes/monitoring/prometheus-rule.yaml
//go:generate cp ../prometheus/alerts.yaml ../helm/wsbouncer/alerts.yaml
