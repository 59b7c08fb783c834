package sim

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestOptionsRefused(t *testing.T) {
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{Listen: "9001"}, `listen: invalid address "9001": use host:port`},
		{Options{Protocol: "chat"}, `unknown protocol "chat": use one of echo, vosk, funasr, `},
		{Options{Latency: -time.Second}, "latency: -1s is out of range: use 0s to 1h0m0s"},
		{Options{Jitter: 2 * time.Hour}, "jitter: 2h0m0s is out of range"},
		{Options{Sessions: -1}, "sessions: -1 is out of range: use 1 or more, or 0 for no limit"},
		{Options{MaxMessage: -1}, "max message: -1 is out of range"},
		{Options{Loops: -1}, "loops: -1 is out of range: use 1 to 256"},
		{Options{Loops: 1000}, "loops: 1000 is out of range"},
		{Options{Fail: FailOptions{Refuse: 2}}, "fail: refuse: invalid probability 2"},
		{Options{Fail: FailOptions{Reset: -1}}, "fail: reset: invalid probability -1"},
		{Options{Fail: FailOptions{Stall: math.NaN()}}, "fail: stall: invalid probability NaN"},
		{Options{Fail: FailOptions{MidFrame: 2}}, "fail: midframe: invalid probability 2"},
		{Options{Fail: FailOptions{Late: 2}}, "fail: late: invalid probability 2"},
		{Options{Fail: FailOptions{Close: 0.5}}, "fail: close: 0 may not be sent: use 1000 to 1003"},
		{Options{Fail: FailOptions{Close: 1, CloseCode: 1006}}, "fail: close: 1006 may not be sent"},
		{Options{Fail: FailOptions{LateAfter: -1}}, "fail: late: -1ns is out of range"},
		{Options{Fail: FailOptions{OOM: 2}}, "fail: oom: invalid probability 2"},
		{Options{Fail: FailOptions{OOMFor: -1}}, "fail: oom: -1ns is out of range"},
		{Options{Fail: FailOptions{Slow: -1}}, "fail: slow: -1 is out of range: use 0 (no time) to 1000"},
		{Options{Fail: FailOptions{Slow: math.NaN()}}, "fail: slow: NaN is out of range"},
		{Options{Silence: -1}, "silence: -1ns is out of range"},
		{Options{Nasty: NastyOptions{LatePartials: 2}}, "nasty: late-partials: invalid probability 2"},
		{Options{Nasty: NastyOptions{Full: -1}}, "nasty: full: -1 is out of range: use 1 or more"},
		{Options{Fail: FailOptions{Chatter: -1}}, "fail: chatter: -1ns is out of range"},
	} {
		s, err := Start(test.options)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v; want %q", test.options, err, test.want)
		}
	}
}

func TestParseFail(t *testing.T) {
	for text, want := range map[string]FailOptions{
		"":                  {},
		" , ":               {},
		"refuse":            {Refuse: 1},
		"refuse:0.5":        {Refuse: 0.5},
		"reset:0.1":         {Reset: 0.1},
		"close:1011:1":      {Close: 1, CloseCode: 1011},
		"stall:0.01":        {Stall: 0.01},
		"midframe:1":        {MidFrame: 1},
		"greeting":          {Greeting: true},
		"late":              {Late: 1},
		"late:0.5":          {Late: 0.5},
		"late:0.5:80ms":     {Late: 0.5, LateAfter: 80 * time.Millisecond},
		"chatter":           {Chatter: time.Second},
		"chatter:5ms":       {Chatter: 5 * time.Millisecond},
		"oom":               {OOM: 1},
		"oom:0.1":           {OOM: 0.1},
		"oom:0.1:300ms":     {OOM: 0.1, OOMFor: 300 * time.Millisecond},
		"slow:1.5":          {Slow: 1.5},
		"streams:8":         {Streams: 8},
		"streams:8:thermal": {Streams: 8, Law: thermal},
		"reset:0, greeting": {Greeting: true},
	} {
		if got, err := ParseFail(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"explode":      `unknown failure "explode": use one of refuse, reset,`,
		"reset":        `"reset": use reset:p`,
		"reset:0:1":    `use reset:p`,
		"refuse:1:1":   "use refuse or refuse:p",
		"stall":        "use stall:p",
		"midframe":     "use midframe:p",
		"close:1011":   "use close:code:p",
		"close:abc:1":  `invalid close code "abc"`,
		"close:1005:1": "1005 may not be sent",
		"reset:2":      `invalid probability "2"`,
		"reset:NaN":    `invalid probability "NaN"`,
		"greeting:1":   "use greeting",
		"oom:2":        `invalid probability "2"`,
		"oom:1:never":  `invalid delay "never"`,
		"oom:1:1s:1":   "use oom, oom:p or oom:p:delay",
		"slow":         "use slow:factor",
		"slow:0":       `invalid factor "0": use more than 0 and at most 1000, such as 1.5`,
		"slow:-1":      `invalid factor "-1"`,
		"slow:NaN":     `invalid factor "NaN"`,
		"streams:0":    `invalid number of streams "0": use 1 to 10000`,
		"streams:2:x":  `unknown law "x"`,
		"slow:2:0":     `invalid number of cores "0": use 1 to 1024`,
		"late:1:x":     `invalid delay "x"`,
		"late:1:1s:1":  "use late, late:p or late:p:delay",
		"age:0s":       `invalid delay "0s"`,
		"age:1s:2s":    "fail: age: 1s with a notice of 2s is out of range",
		"age":          "use age:limit or age:limit:notice",
		"chatter:0s":   `invalid delay "0s"`,
	} {
		if got, err := ParseFail(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// Every word of the help is one that is understood.
func TestFailHelp(t *testing.T) {
	for line := range strings.Lines(FailHelp) {
		form, _, ok := strings.Cut(line, "  ")
		if !ok {
			continue
		}
		form = strings.NewReplacer("[", "", "]", "", "limit", "2s", "notice", "1s", "code", "1011", "delay", "1s", "interval", "1s", "factor", "2", "cores", "1", ":law", ":noisy", ":k", ":8", ":p", ":1").Replace(form)
		if _, err := ParseFail(form); err != nil {
			t.Errorf("%q: %v", form, err)
		}
	}
}
