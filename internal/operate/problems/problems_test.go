package problems

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/meter"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// rig is a keeper, and the proxy that it looks at. Tests use it in a bubble.
type rig struct {
	*Keeper
	file string
	log  safeBuffer
	mu   sync.Mutex
	wait int // guarded by mu: clients in the queue
	end  bool
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func startRig(file string) *rig {
	r := &rig{file: file}
	r.Keeper = New(Options{File: file, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Source: r.source})
	r.Start()
	synctest.Wait()
	return r
}

func (r *rig) source() (api.Stats, meter.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := api.Stats{Draining: r.end}
	if r.wait >= 0 {
		s.Services = []api.Service{{Name: "stt", Queue: api.Queue{Limit: 10, Waiting: r.wait, OldestSeconds: 2 * float64(r.wait)}}}
		s.Backends = []api.Backend{{Name: "gpu-1", Service: "stt", Health: api.Health{Reachable: true}, Pool: api.Pool{State: "enabled", Usable: true, Weight: 1, Cap: 1, Ceiling: 1}}}
	}
	return s, meter.Snapshot{}
}

// waits has that many clients wait for some seconds.
func (r *rig) waits(clients, seconds int) {
	r.mu.Lock()
	r.wait = clients
	r.mu.Unlock()
	time.Sleep(time.Duration(seconds) * time.Second)
	synctest.Wait()
}

// A problem is shown while it lasts, logged when it begins and ends, and remembered, also by the next process.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "problems.jsonl")
		r := startRig(file)
		if l := r.List(); l.Problems == nil || len(l.Problems) != 0 || l.Past == nil || len(l.Past) != 0 || l.Unsaved != "" {
			t.Errorf("at first: %+v", l)
		}
		began := time.Now()
		r.waits(2, 6)
		l := r.List()
		if len(l.Problems) != 1 || l.Problems[0].Kind != "service-waiting" || l.Problems[0].Since.Sub(began) > time.Second || len(l.Past) != 0 {
			t.Fatalf("%+v", l)
		}
		if text := r.log.String(); !strings.Contains(text, `level=WARN msg=problem kind=service-waiting what="service stt" evidence="2 clients wait, the first for 4.0s" cure="wsbouncer backend add`) {
			t.Error(text)
		}
		r.waits(0, 6)
		l = r.List()
		if len(l.Problems) != 0 || len(l.Past) != 1 || l.Past[0].Ended.Sub(l.Past[0].Since) < 5*time.Second {
			t.Errorf("after it: %+v", l)
		}
		if text := r.log.String(); !strings.Contains(text, `level=INFO msg="problem has ended" kind=service-waiting what="service stt" lasted=5s`) {
			t.Error(text)
		}
		r.waits(3, 6)
		lasting := r.List().Problems[0].Since
		r.Close()

		r = startRig(file)
		defer r.Close()
		if l := r.List(); len(l.Problems) != 0 || len(l.Past) != 1 {
			t.Errorf("after a restart: %+v", l)
		}
		r.waits(3, 3)
		if l := r.List(); len(l.Problems) != 1 || !l.Problems[0].Since.Equal(lasting) {
			t.Errorf("it continues: %+v", l)
		}
		r.waits(0, 5)
		if l := r.List(); len(l.Problems) != 0 || len(l.Past) != 2 || !l.Past[0].Since.Equal(lasting) {
			t.Errorf("it ends: %+v", l)
		}
	})
}

// What ends with the process has ended in its history, and a process that was replaced writes nothing more.
func TestEndOfProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "problems.jsonl")
		r := startRig(file)
		r.end = true
		r.waits(0, 2)
		r.Close()
		r = startRig(file)
		if past, _ := r.history.past(); len(past) != 1 || past[0].Kind != "proxy-draining" {
			t.Errorf("%+v", past)
		}
		r.HandOver()
		r.waits(2, 6)
		r.Close()
		r = startRig(file)
		defer r.Close()
		if past, _ := r.history.past(); len(past) != 1 || len(r.history.open()) != 0 {
			t.Errorf("a process that was replaced has written: %+v", past)
		}
	})
}

// A disk that takes nothing does no harm, and gets what it lacks when it takes it again.
func TestBadDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		directory := filepath.Join(t.TempDir(), "away")
		r := startRig(filepath.Join(directory, "problems.jsonl"))
		r.waits(2, 6)
		r.waits(0, 6)
		if l := r.List(); len(l.Past) != 1 || !strings.Contains(l.Unsaved, "no such file") {
			t.Errorf("%+v", l)
		}
		if n := strings.Count(r.log.String(), "cannot be written"); n != 1 {
			t.Errorf("said %d times", n)
		}
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		r.waits(0, 31)
		if l := r.List(); l.Unsaved != "" {
			t.Errorf("%+v", l)
		}
		r.Close()
		r = startRig(r.file)
		defer r.Close()
		if past, _ := r.history.past(); len(past) != 1 {
			t.Errorf("%+v", past)
		}
	})
}

// The file is bounded, and the last thousand problems survive; lines that a full disk has cut off are skipped.
func TestManyProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "problems.jsonl")
		if err := os.WriteFile(file, []byte("{\"kind\":\"backend-slow\",\"what\":\"ba"), 0o600); err != nil {
			t.Fatal(err)
		}
		h := openHistory(&Options{File: file, Log: slog.New(slog.DiscardHandler)})
		at := time.Now().UTC()
		for i := range 5000 {
			p := api.Problem{Kind: "backend-slow", What: fmt.Sprint("backend gpu-", i), Since: at}
			h.begun(&p)
			if i != 4999 {
				h.ended(&api.PastProblem{Problem: p, Ended: at.Add(time.Duration(i) * time.Second)})
			}
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		h.close()
		if at, err := os.Stat(file); err != nil || at.Size() > 2*fileSize {
			t.Errorf("%d bytes, %v", at.Size(), err)
		}
		h = openHistory(&Options{File: file, Log: slog.New(slog.DiscardHandler)})
		defer h.close()
		past, unsaved := h.past()
		if len(past) != mostPast || past[0].What != "backend gpu-4998" || past[mostPast-1].What != "backend gpu-3999" || unsaved != "" {
			t.Errorf("%d in the past, from %+v, %q", len(past), past[0], unsaved)
		}
		if open := h.open(); len(open) != 1 || open[0].What != "backend gpu-4999" {
			t.Errorf("%+v", open)
		}
	})
}

// A client that meets its limit again and again pushes nothing else out: neither in memory, nor on disk.
func TestRepeatedProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Options{File: filepath.Join(t.TempDir(), "problems.jsonl"), Log: slog.New(slog.DiscardHandler)}
		h := openHistory(o)
		at := time.Now().UTC()
		down := api.Problem{Kind: "service-down", What: "service stt", Since: at}
		h.begun(&down)
		h.ended(&api.PastProblem{Problem: down, Ended: at.Add(time.Second)})
		for i := range 3 * mostPast {
			p := api.Problem{Kind: "limit-reached", What: "client 192.0.2.7", Since: at.Add(time.Duration(i) * time.Minute)}
			h.begun(&p)
			h.ended(&api.PastProblem{Problem: p, Ended: p.Since.Add(time.Second)})
		}
		if past, _ := h.past(); len(past) != mostPast || past[mostPast-1].What != "service stt" {
			t.Errorf("%d in the past, the first is %+v", len(past), past[len(past)-1])
		}
		h.close()
		h = openHistory(o)
		defer h.close()
		if past, _ := h.past(); len(past) != 1 || past[0].What != "service stt" {
			t.Errorf("on disk: %+v", past)
		}
	})
}

// The past is in the order of the times that its lists show: when problems began.
func TestOrderOfThePast(t *testing.T) {
	h, at := openHistory(&Options{Log: slog.New(slog.DiscardHandler)}), time.Now().UTC()
	for i, what := range []string{"second", "third", "first"} { // in the order of their ends
		since := at.Add(time.Duration([]int{20, 30, 10}[i]) * time.Second)
		h.ended(&api.PastProblem{Problem: api.Problem{Kind: "backend-slow", What: what, Since: since}, Ended: at.Add(time.Hour + time.Duration(i)*time.Second)})
	}
	var got []string
	past, _ := h.past()
	for i := range past {
		got = append(got, past[i].What)
	}
	if fmt.Sprint(got) != "[third second first]" {
		t.Error(got)
	}
}

// A nil keeper knows nothing.
func TestNilKeeper(t *testing.T) {
	var k *Keeper
	k.HandOver()
	k.Close()
	if l := k.List(); l.Problems == nil || l.Past == nil || k.Reply("a", "b").Sessions != 0 {
		t.Errorf("%+v", l)
	}
}

// A file that is another process's is neither read nor written, and the list says why the past is in memory only.
func TestFileOfAnother(t *testing.T) {
	file := filepath.Join(t.TempDir(), "problems.jsonl")
	line := `{"kind":"backend-slow","what":"backend gpu-1","since":"2026-11-22T12:00:00Z"}` + "\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := false
	h := openHistory(&Options{
		File: file, Log: slog.New(slog.DiscardHandler), Mine: func() bool { return mine }, NotMine: errors.New("it is another's"),
	})
	if open := h.open(); len(open) != 0 {
		t.Errorf("another's problems were taken over: %+v", open)
	}
	p := api.Problem{Kind: "backend-slow", What: "backend gpu-2", Since: time.Now().UTC()}
	h.begun(&p)
	h.ended(&api.PastProblem{Problem: p, Ended: p.Since.Add(time.Second)})
	if past, unsaved := h.past(); len(past) != 1 || unsaved != "it is another's" {
		t.Errorf("%+v, %q", past, unsaved)
	}
	mine = true
	later := api.Problem{Kind: "backend-slow", What: "backend gpu-3", Since: time.Now().UTC()}
	h.begun(&later)
	if _, unsaved := h.past(); unsaved != "" {
		t.Errorf("it is its own now: %q", unsaved)
	}
	h.close()
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "gpu-2") || !strings.Contains(string(text), "gpu-3") {
		t.Errorf("the file has\n%s%v", text, err)
	}
}
