package main

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/pgtest"
)

// TestDrain ends a pod by the manifest, with its times divided by 20. The program checks itself: see verdict.
func TestDrain(t *testing.T) {
	program := filepath.Join(t.TempDir(), "wsbouncer")
	build := exec.Command("go", "build", "-o", program, "./cmd/wsbouncer")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building wsbouncer: %v\n%s", err, out)
	}
	var out bytes.Buffer
	r, err := run(t.Context(), options{
		program: program, folder: "../../kubernetes", clients: 80, faster: 20, out: &out,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Logf("%s", out.String())
	if err := r.verdict(); err != nil {
		t.Error(err)
	}
	if r.complete < 5 || len(r.told) < 5 || r.after < 20 {
		t.Errorf("too few sessions prove nothing: %d ended by themselves, %d were told 1001, %d began elsewhere", r.complete, len(r.told), r.after)
	}
	_, spread, err := r.kubelet.ending.drain()
	if err != nil {
		t.Fatal(err)
	}
	if width := r.last() - r.first(); width < spread/4 {
		t.Errorf("the sessions that were left were told 1001 within %v: want them spread over %v", width, spread)
	}
}

// TestEnding checks that the times of the manifests fit together.
func TestEnding(t *testing.T) {
	var e ending
	for _, folder := range []string{"../../kubernetes-fleet", "../../kubernetes"} {
		m, err := readManifests(folder)
		if err != nil {
			t.Fatal(err)
		}
		e = m.ending
		checkEnding(t, e)
	}
	drain, _, err := e.drain()
	if err != nil {
		t.Fatal(err)
	}
	fast, err := e.faster(10)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := argument(fast.args, "drain-timeout"); text != (drain/10).String() || fast.grace != e.grace/10 {
		t.Errorf("ten times faster: --drain-timeout=%s, grace %v", text, fast.grace)
	}
	if !strings.Contains(strings.Join(fast.args, " "), "--database=") {
		t.Errorf("arguments were lost: %q", fast.args)
	}
}

func checkEnding(t *testing.T, e ending) {
	t.Helper()
	const closing = 5 * time.Second // for connections to close
	times := make(map[string]time.Duration)
	for name, otherwise := range map[string]time.Duration{"drain-timeout": 30 * time.Second, "shutdown-delay": 0} {
		d, err := e.duration(name, otherwise)
		if err != nil {
			t.Fatal(err)
		}
		times[name] = d
	}
	if need := e.preStop + times["shutdown-delay"] + times["drain-timeout"] + closing; e.grace < need+10*time.Second {
		t.Errorf("terminationGracePeriodSeconds is %v: want 10s more than the %v that preStop and the proxy may take", e.grace, need)
	}
	if e.preStop+times["shutdown-delay"] < e.forget {
		t.Errorf("the proxy refuses clients %v after its end began: nodes need longer to forget it", e.preStop+times["shutdown-delay"])
	}
}

// TestRollOut replaces two pods that share their servers' places by two others. The play judges itself: see [rollOut].
func TestRollOut(t *testing.T) {
	program := filepath.Join(t.TempDir(), "wsbouncer")
	build := exec.Command("go", "build", "-o", program, "./cmd/wsbouncer")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building wsbouncer: %v\n%s", err, out)
	}
	var out bytes.Buffer
	err := rollOut(t.Context(), options{program: program, folder: "../../kubernetes-fleet", clients: 48, faster: 10, out: &out})
	if errors.Is(err, pgtest.ErrNone) {
		t.Skip(err)
	}
	if t.Logf("%s", out.String()); err != nil {
		t.Error(err)
	}
}
