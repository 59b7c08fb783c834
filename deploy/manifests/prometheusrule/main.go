// Command prometheusrule writes the manifest of a PrometheusRule from a file with alert rules: go -C deploy/manifests generate.
package main

import (
	"bytes"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: prometheusrule RULES MANIFEST")
		os.Exit(2)
	}
	rules, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], manifest(rules), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prometheusrule:", err)
		os.Exit(1)
	}
}

// header is what comes before the groups of rules.
const header = `# Made of deploy/prometheus/alerts.yaml by: go -C deploy/manifests generate
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: wsbouncer
spec:
`

// manifest returns the manifest with a file's rules, whose text stays as it is. It leaves out the comments before them, which are for those who
// copy the file.
func manifest(rules []byte) []byte {
	out := []byte(header)
	began := false
	for line := range bytes.Lines(rules) {
		began = began || bytes.HasPrefix(line, []byte("groups:"))
		if !began {
			continue
		}
		if len(bytes.TrimSpace(line)) > 0 {
			out = append(out, "  "...)
		}
		out = append(out, line...)
	}
	return out
}
