package main

import (
	"bytes"
	"os"
	"testing"
)

// TestCurrent compares the manifest with the rules that it is made of.
func TestCurrent(t *testing.T) {
	rules, err := os.ReadFile("../../prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../kubernetes/monitoring/prometheus-rule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := manifest(rules)
	if !bytes.Contains(want, []byte("\n      - alert: ")) && !bytes.Contains(want, []byte("\n        - alert: ")) {
		t.Fatalf("no rules in\n%s", want)
	}
	if !bytes.Equal(got, want) {
		t.Error("prometheus-rule.yaml is not what deploy/prometheus/alerts.yaml makes: run go -C deploy/manifests generate")
	}
}
