//go:build linux

package endurance

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const heap, sockets = "live heap, MiB", "descriptors"

// day returns the samples of hours with an upgrade each hour. value adds to noise that depends on what it was before, in the hours of the run and of the process.
func day(hours float64, value func(name string, hours, age float64) float64) (all []record) {
	dice := rand.New(rand.NewPCG(1, 2))
	wave := make(map[string]float64)
	for minute := range int(60 * hours) {
		at := float64(minute) / 60
		life := int(at)
		r := record{Hours: at, Life: fmt.Sprint(life), Values: make(map[string]float64)}
		for _, f := range figures {
			wave[f.name] = 0.8*wave[f.name] + dice.NormFloat64()
			r.Values[f.name] = 40 + wave[f.name]/4 + value(f.name, at, at-float64(life))
		}
		all = append(all, r)
	}
	return all
}

// Leaks of twice the limit are found, in a process and over the run, and noise is none. What is too short is neither.
func TestJudge(t *testing.T) {
	of := func(name string, leak func(hours, age float64) float64) func(string, float64, float64) float64 {
		return func(n string, hours, age float64) float64 {
			// All processes take some time until they have what they need.
			v := 30 * min(age, 0.3)
			if n == name {
				v += leak(hours, age)
			}
			return v
		}
	}
	for _, test := range []struct {
		name  string
		hours float64
		value func(string, float64, float64) float64
		want  string // what grows
	}{
		{"noise", 24, of("", nil), ""},
		{"a leak that each upgrade ends", 24, of(heap, func(_, age float64) float64 { return 2 * looser * age }), heap + " " + inProcess},
		{"a leak from process to process", 24, of(sockets, func(hours, _ float64) float64 { return 4 * float64(int(hours)) }), sockets + " " + inRun},
		{"a slow leak that stays", 24, of(heap, func(hours, _ float64) float64 { return 2 * hours }), heap + " " + inRun},
		{"a leak that stays", 24, of(heap, func(hours, _ float64) float64 { return 8 * hours }), heap + " " + inProcess + ", " + heap + " " + inRun},
		{"of what outlives processes", 24, of(ledgerRows, func(hours, _ float64) float64 { return 2 * hours }), ledgerRows + " " + inRun},
		{"what shrinks", 24, of(heap, func(hours, _ float64) float64 { return -hours }), ""},
		{"too short", 0.6, of(heap, func(hours, _ float64) float64 { return 2 * hours }), ""},
	} {
		var found []string
		for _, v := range judge(day(test.hours, test.value), 1./3, 1) {
			switch word := v.word(); {
			case word == grows:
				found = append(found, v.name+" "+v.where)
			case (word == unclear) != (test.hours < 1) && v.name == heap:
				t.Errorf("%s: %s %s is %s: %g per hour, with an error of %g", test.name, v.name, v.where, word, v.slope, v.deviation)
			}
		}
		if got := strings.Join(found, ", "); got != test.want {
			t.Errorf("%s: %q grows; want %q", test.name, got, test.want)
		}
	}
}

// Nothing is proven of figures that are unclear, unless a short run was asked for.
func TestUnclear(t *testing.T) {
	for tolerance, fails := range map[float64]bool{1: true, 1.5: false} {
		o := Options{Directory: t.TempDir(), Out: t.Output(), Warmup: 6 * time.Minute, Tolerance: tolerance}
		err := o.conclude(day(0.6, func(string, float64, float64) float64 { return 0 }))
		if (err != nil) != fails || fails && !strings.Contains(err.Error(), heap+": whether it grows "+inRun+" does not show") {
			t.Errorf("tolerance %v: %v", tolerance, err)
		}
	}
}

// A figure without a sample proves nothing: here, each process is replaced before it is judged.
func TestNoSamples(t *testing.T) {
	o := Options{Directory: t.TempDir(), Out: t.Output(), Warmup: 2 * time.Hour, Tolerance: 1e6}
	err := o.conclude(day(6, func(string, float64, float64) float64 { return 0 }))
	if err == nil || !strings.Contains(err.Error(), sockets+": no sample in each process") || strings.Contains(err.Error(), ledgerRows) {
		t.Errorf("got %v", err)
	}
}
