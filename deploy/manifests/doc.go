// Package manifests tests deploy/kubernetes, deploy/kubernetes-fleet, the chart in deploy/helm that makes them, and deploy/compose.yaml. Below it is
// drain, which ends proxies as a kubelet does.
package manifests
