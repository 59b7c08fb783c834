//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/wsbouncer/wsbouncer/bench/results"
	"github.com/wsbouncer/wsbouncer/bench/rivals"
)

// perform runs the plan. What cannot be run is in the report as well.
func (st *stage) perform(ctx context.Context, p plan) *results.Report {
	report := &results.Report{Time: st.began.UTC().Truncate(time.Second), Commit: st.commit, Plan: p.name, Command: commandLine(), Machine: machine(), Base: "wsbouncer"}
	for _, r := range st.all {
		report.Rivals = append(report.Rivals, results.Rival{Name: r.Name, Title: r.Title, Version: r.Version, Missing: r.Missing})
	}
	log.Printf("%d rivals, %d scenarios, about %d minutes", len(st.all), len(p.scenarios), 1+int(p.expected(st.present(ctx)).Minutes()))
	for _, s := range p.scenarios {
		result, err := st.runScenario(ctx, s, p.roundsOf(s))
		addSlopes(&result)
		if err != nil && ctx.Err() == nil {
			result.Failed = st.withoutPaths(err.Error())
			log.Printf("%s: failed: %v", s.name, err)
		}
		report.Scenarios = append(report.Scenarios, result)
		if ctx.Err() != nil {
			report.Interrupted = "It was interrupted in the scenario " + s.name + "."
			break
		}
	}
	report.Took = time.Since(st.began).Round(time.Second).Seconds()
	return report
}

// present returns a function that counts the rivals of a scenario that can run here.
func (st *stage) present(ctx context.Context) func(scenario) int {
	return func(s scenario) (n int) {
		participants, err := s.participants(ctx, st, st.all)
		if err != nil {
			return 0 // the scenario itself reports the error
		}
		for _, r := range participants {
			if r.Missing == "" {
				n++
			}
		}
		return n
	}
}

// runScenario runs every rival in turn under every load, round by round, so that whatever else the machine does affects all of them.
// Each turn starts with another rival.
func (st *stage) runScenario(ctx context.Context, s scenario, rounds int) (results.Scenario, error) {
	result := results.Scenario{Name: s.name, Title: s.title, Text: s.text, Base: s.base}
	for _, m := range s.metrics {
		result.Metrics = append(result.Metrics, results.Metric{
			Key: m.key, Title: m.title, Digits: m.digits, Ratio: m.ratio, Higher: slices.Contains(s.higher, m.key),
		})
	}
	backends, err := s.open(ctx, st)
	if err != nil {
		return result, err
	}
	defer backends.stop()
	if s.tune != nil {
		if err := s.tune(ctx, st, s.loads, backends); err != nil {
			return result, err
		}
	}
	for _, l := range s.loads {
		result.Cells = append(result.Cells, results.Cell{
			Label: l.label, Sessions: l.sessions, Rate: l.rate, Size: l.size, Binary: l.binary, Seconds: l.duration.Seconds(),
		})
	}
	participants, err := s.participants(ctx, st, st.all)
	if err != nil {
		return result, err
	}
	for _, r := range participants {
		result.Rivals = append(result.Rivals, r.Name)
	}
	for n := range rounds {
		for i, l := range s.loads {
			t := turn{
				stage: st, scenario: s, load: l, servers: backends, before: result.Cells[i].Rounds,
				what: fmt.Sprintf("%s %d/%d, %s", s.name, n+1, rounds, l.label),
			}
			shift := (n + i) % len(participants)
			round, err := t.run(ctx, slices.Concat(participants[shift:], participants[:shift]))
			result.Cells[i].Rounds = append(result.Cells[i].Rounds, round)
			if err != nil {
				return result, err
			}
		}
	}
	return result, nil
}

// turn is one run of each rival under a load.
type turn struct {
	*stage
	scenario
	load    load
	servers servers
	before  []results.Round // of the same load
	what    string
}

// run returns what was measured. The only error is that of the context: nothing else ends a comparison.
func (t turn) run(ctx context.Context, participants []rivals.Rival) (results.Round, error) {
	now, seen := results.Round{}, map[string]observation{}
	for _, r := range participants {
		switch {
		case r.Missing != "":
			now[r.Name] = results.Run{Skipped: r.Missing}
			continue
		case t.overloadedBefore(r.Name):
			continue
		}
		began := time.Now()
		observed, err := t.observeCalmly(ctx, r)
		took := time.Since(began).Seconds()
		switch {
		case ctx.Err() != nil:
			t.evaluate(now, seen)
			return now, ctx.Err()
		case errors.Is(err, rivals.ErrSkipped):
			now[r.Name] = results.Run{Skipped: t.withoutPaths(err.Error())}
			log.Printf("%s, %s: %v", t.what, r.Name, err)
		case err != nil:
			now[r.Name] = results.Run{Error: t.withoutPaths(err.Error())}
			log.Printf("%s, %s: failed: %v (%.0f s)", t.what, r.Name, err, took)
		default:
			seen[r.Name] = observed
			log.Printf("%s, %s: %s (%.0f s)", t.what, r.Name, t.brief(observed), took)
		}
	}
	t.evaluate(now, seen)
	return now, nil
}

// overloadedBefore reports whether a rival fell far short of this load in an earlier round: that takes long to see again. The base
// rival always runs.
func (t turn) overloadedBefore(rival string) bool {
	return rival != t.base && slices.ContainsFunc(t.before, func(round results.Round) bool {
		run := round[rival]
		answered, known := run.Values["answered"]
		return run.Overload != "" && known && answered < 0.8
	})
}

// observeCalmly repeats an observation that something else on the machine disturbed, and keeps the least disturbed one. It does not
// repeat a failure that nothing disturbed.
func (t turn) observeCalmly(ctx context.Context, r rivals.Rival) (observation, error) {
	const attempts = 3
	var best observation
	var bestErr error
	for n := range attempts {
		observed, err := t.observe(ctx, t.stage, r, t.load, t.servers)
		if n == 0 || observed.others < best.others {
			best, bestErr = observed, err
		}
		if t.calm == 0 || observed.others <= t.calm || ctx.Err() != nil {
			break
		}
	}
	return best, bestErr
}

// evaluate turns a round's observations into its metrics.
func (t turn) evaluate(into results.Round, seen map[string]observation) {
	without, have := seen[t.without]
	for name, observed := range seen {
		values := map[string]float64{}
		for _, m := range t.metrics {
			value := m.value(observed)
			if m.added {
				if !have || name == t.without {
					continue
				}
				value -= m.value(without)
			}
			if !math.IsNaN(value) {
				values[m.key] = significant(value)
			}
		}
		if observed.overload != "" && t.load.rate > 0 {
			values["answered"] = observed.load.MessagesPerSecond / (float64(t.load.sessions) * t.load.rate)
		}
		into[name] = results.Run{Values: values, Overload: observed.overload}
	}
}

// significant keeps five digits: more are noise.
func significant(value float64) float64 {
	kept, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 5, 64), 64) // it is a number
	return kept
}

// brief shows the first metric, for the progress on standard error.
func (t turn) brief(o observation) string {
	m := t.metrics[0]
	text := fmt.Sprintf("%s %.*f", m.title, m.digits, m.value(o))
	if o.overload != "" {
		text += ", but " + o.overload
	}
	return text
}
