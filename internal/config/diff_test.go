package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestDiff(t *testing.T) {
	from := valid()
	to := from.Clone()
	if edits := Diff(&from, &to); len(edits) != 0 {
		t.Fatalf("equal contents differ: %v", edits)
	}
	b := to.Backends["gpu-2"]
	b.Connections, b.Warm, b.Weight = 48, 16, 0.5
	b.Labels = map[string]string{"zone": "b", "rack": "3", "api-token": "x1"}
	b.Headers = map[string]string{"Authorization": "Bearer env:TOKEN", "X-Region": "s3cret"}
	b.URL = "ws://gpu-2:2700?access_token=s3cret&model=en"
	to.Backends["gpu-2"] = b
	delete(to.Backends, "gpu-1")
	to.Backends["gpu-10"] = b
	s := to.Services["stt"]
	s.QueueTimeout, s.MaxMessage, s.Probe, s.Host = time.Minute, 1<<20, "/health", "a.example"
	to.Services["stt"] = s
	to.Profiles["own"] = Profile{"from: echo\nsummary: x\n"}

	edits := Diff(&from, &to)
	want := `profile own: added (yaml (2 lines))
service stt: host (none) -> a.example
service stt: queue-timeout 10s -> 1m
service stt: max-message 16MiB -> 1MiB
service stt: probe (none) -> /health
backend gpu-1: removed (service stt, url ws://gpu-1:2700, connections 32)
backend gpu-10: added (service stt, url ws://gpu-2:2700?access_token=(hidden)&model=en, connections 48, warm 16, weight 0.5, labels.api-token (hidden), labels.rack 3, labels.zone b, headers.Authorization "Bearer env:TOKEN", headers.X-Region (hidden))
backend gpu-2: url ws://gpu-2:2700 -> ws://gpu-2:2700?access_token=(hidden)&model=en
backend gpu-2: connections 32 -> 48
backend gpu-2: warm cap -> 16
backend gpu-2: weight 1 -> 0.5
backend gpu-2: labels.api-token (none) -> (hidden)
backend gpu-2: labels.rack (none) -> 3
backend gpu-2: labels.zone (none) -> b
backend gpu-2: headers.Authorization (none) -> "Bearer env:TOKEN"
backend gpu-2: headers.X-Region (none) -> (hidden)`
	if edits.String() != want {
		t.Errorf("the differences are\n%v\nand should be\n%s", edits, want)
	}
	machine, err := json.Marshal(edits)
	if err != nil || strings.Contains(string(machine), "s3cret") {
		t.Errorf("for machines: %s, %v", machine, err)
	}
	var read Edits
	if err := json.Unmarshal(machine, &read); err != nil || read.String() != want {
		t.Errorf("read from JSON they are %v, %v", read, err)
	}
	for range 20 { // maps are walked in any order
		if again := Diff(&from, &to).String(); again != want {
			t.Fatalf("the next time they are\n%v", again)
		}
	}
	if back := Diff(&to, &from); len(back) != len(edits) {
		t.Errorf("the way back has %d edits, of %d", len(back), len(edits))
	}
}

func TestSnapshotIsImmutable(t *testing.T) {
	c := valid()
	b := c.Backends["gpu-1"]
	b.Labels = map[string]string{"zone": "a"}
	c.Backends["gpu-1"] = b
	s, err := NewSnapshot("7", &c, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := s.Content()
	b.Labels["zone"] = "b" // the builder's
	delete(c.Backends, "gpu-2")
	copied := s.Content() // a reader's
	copied.Backends["gpu-1"].Labels["zone"] = "c"
	delete(copied.Services, "stt")
	now := s.Content()
	if edits := Diff(&want, &now); len(edits) > 0 {
		t.Errorf("the snapshot changed: %v", edits)
	}
	var names []string
	for name := range s.Members("stt") {
		names = append(names, name)
	}
	if s.Version() != "7" || strings.Join(names, " ") != "gpu-1 gpu-2" {
		t.Errorf("version %s with the backends %v", s.Version(), names)
	}
	if _, err := NewSnapshot("8", &Content{Backends: map[string]Backend{"x": {}}}, nil); err == nil {
		t.Error("an invalid content became a snapshot")
	}
}

func TestTracesAreUndone(t *testing.T) {
	text := func(s string) *string { return &s }
	rows := Rows{KindBackend: {"a": {"url": "ws://a", "warm": "3"}, "new": {"url": "ws://new"}}}
	traces := []Trace{
		{Action: Removed, Kind: KindBackend, Name: "gone"},
		{Action: Removed, Kind: KindBackend, Name: "gone", Field: "url", From: text("ws://gone")},
		{Action: Added, Kind: KindBackend, Name: "new"},
		{Action: Added, Kind: KindBackend, Name: "new", Field: "url", To: text("ws://new")},
		{Action: Changed, Kind: KindBackend, Name: "a", Field: "warm", From: nil, To: text("2")},
		{Action: Changed, Kind: KindBackend, Name: "a", Field: "warm", From: text("2"), To: text("3")},
		{Action: Changed, Kind: KindBackend, Name: "a", Field: "weight", From: text("2"), To: nil},
	}
	edits := TraceEdits(traces).String()
	want := "backend a: warm cap -> 2\nbackend a: warm 2 -> 3\nbackend a: weight 2 -> 1\nbackend gone: removed (url ws://gone)\nbackend new: added (url ws://new)"
	if edits != want {
		t.Errorf("the edits are\n%s\nand should be\n%s", edits, want)
	}
	rows.Undo(traces)
	content, problems := rows.Content()
	got, _ := json.Marshal(content.Backends)
	if len(problems) > 0 || len(content.Backends) != 2 || content.Backends["a"].Weight != 2 || content.Backends["a"].Warm != -1 ||
		content.Backends["gone"].URL != "ws://gone" {
		t.Errorf("undone it is %s, %v", got, problems)
	}
}
