package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
	"github.com/wsbouncer/wsbouncer/internal/wire/frame"
)

// The hostile clients of a siege see what becomes of their visits, and most must come to what the siege wants.
func TestObey(t *testing.T) {
	for _, test := range []struct {
		name   string
		siege  string
		behave func(v *visit)
		holds  bool
	}{
		{"ended right", "huge-lengths", func(v *visit) {
			if v.upgrade() {
				v.last(closing(frame.MessageTooBig, ""))
			}
		}, true},
		{"left alone", "slow-frames", func(v *visit) {
			if v.upgrade() {
				v.drain()
			}
		}, true},
		{"only connected", "connect-floods", silent, true},
		{"ended with another code", "huge-lengths", closeBehind101, false},
		{"reset", "huge-lengths", func(v *visit) {
			if v.upgrade() {
				resets(v)
			}
		}, false},
		{"refused", "slow-frames", refuses(503), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen := new(meter)
			s, err := startRaw(1, seen, test.behave)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			// The input ends before any client has come. Those that have no effect are given up when some have come.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if !test.holds {
				go func() {
					defer cancel()
					for seen.read().attempts < 5 && kit.Wait(ctx, pollEffect) == nil {
					}
				}()
			}
			var out bytes.Buffer
			order := fmt.Sprintln(test.siege, strings.TrimPrefix(s.url(), "ws://"), 1, 1)
			if err := obey(ctx, order, strings.NewReader(""), &out); err != nil {
				t.Fatal(err)
			}
			var of visits
			if err := json.Unmarshal(out.Bytes(), &of); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(sieges, func(s scenario) bool { return s.name == test.siege })
			if err := of.judge(sieges[i].siege.effect); (err == nil) != test.holds || of.Came == 0 {
				t.Errorf("%+v: got %v", of, err)
			}
		})
	}
}

// One visit may be refused or reset, but not most, and there must be visits.
func TestEffects(t *testing.T) {
	for _, test := range []struct {
		v    visits
		by   effect
		want string
	}{
		{visits{}, nil, "no hostile client came"},
		{visits{}, enters, "no hostile client came"},
		{visits{Came: 1}, nil, ""},
		{visits{Came: 1}, enters, "0 hostile clients began a session, and 0 were refused"},
		{visits{Came: 3, Entered: 2, Refused: 1}, enters, ""},
		{visits{Came: 2, Entered: 1, Refused: 1}, enters, "1 hostile clients began a session, and 1 were refused"},
		{visits{Came: 3, Entered: 1, Refused: 2}, isRefused, ""},
		{visits{Came: 2, Entered: 2}, isRefused, "0 hostile clients were refused, and 2 began a session"},
		{visits{Came: 3, Entered: 3, Right: 2, Failed: 1}, endsRight, ""},
		{visits{Came: 9, Entered: 9, Right: 1, Failed: 8}, endsRight, "1 visits of hostile clients ended right, and 8 were refused or reset"},
		{visits{Came: 9, Entered: 9}, endsRight, "0 visits of hostile clients ended right"},
	} {
		if err := test.v.judge(test.by); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: got %v; want %q", test.v, err, test.want)
		}
	}
}

// A proxy that only resets a hostile client is found, and so is a hostile server that nobody was led to.
func TestJudgeEffects(t *testing.T) {
	breaking, waiting := &scenario{name: "bad-utf8", attack: stallsReading, effect: endsRight}, &scenario{name: "says-nothing", attack: staysSilent}
	tried, untried := &hostile{meter: new(meter)}, &hostile{meter: new(meter)}
	tried.meter.attempts = 1
	r := &run{
		journal: kit.NewJournal(nil), chosen: []*scenario{breaking, waiting},
		staged: []*service{{name: "echo"}, {name: "silent", hostile: tried}, {name: "resets", hostile: untried}},
	}
	reset := errors.New("connection reset by peer")
	r.answers.count("bad-utf8", "HTTP/1.1 101", nil)
	r.answers.count("bad-utf8", "HTTP/1.1 101", reset)
	r.answers.count("bad-utf8", "HTTP/1.1 101", reset)
	r.answers.count("says-nothing", noConnection, io.EOF)
	r.judgeEffects()
	want := []string{
		"bad-utf8: something hostile had no effect", "resets: something hostile had no effect", "says-nothing: something hostile had no effect",
	}
	if got := keys(r.journal); !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	if got := r.answers.lines(); !slices.Equal(got, []string{"hostile clients bad-utf8: 101: 3", "hostile clients says-nothing: no connection: 1"}) {
		t.Errorf("got %q", got)
	}
	r.answers.count("bad-utf8", "HTTP/1.1 101", nil)
	r.answers.count("bad-utf8", "HTTP/1.1 101", nil)
	r.answers.count("says-nothing", "", nil)
	untried.meter.attempts = 1
	if without := r.withoutEffect(); len(without) > 0 {
		t.Errorf("got %v", without)
	}
}
