package peers

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
	"github.com/wsbouncer/wsbouncer/internal/operate/diagnosis"
)

// addProblems adds the problems that another proxy sees. One that several see is one, as old as the first of them has seen it, and as that one describes
// it whose clients it hurts most.
func addProblems(all, from []api.Problem, proxy string) []api.Problem {
	for i := range from {
		p := from[i]
		k := slices.IndexFunc(all, func(a api.Problem) bool { return a.Same(&p) })
		if k < 0 {
			p.Proxies = []string{proxy}
			all = append(all, p)
			continue
		}
		a := &all[k]
		a.Proxies = append(slices.Clone(a.Proxies), proxy)
		if p.Since.Before(a.Since) {
			a.Since = p.Since
		}
		if p.Level == api.LevelFailure {
			a.Level = p.Level
		}
		if diagnosis.CompareHurts(p.Hurts, a.Hurts) < 0 {
			a.Hurts, a.Text, a.Cure = p.Hurts, p.Text, p.Cure
		}
	}
	return all
}

// withMissing adds that proxies could not be asked, instead of what the ledger knows of them.
func withMissing(all []api.Problem, f *api.Fleet, now time.Time) []api.Problem {
	for _, p := range diagnosis.OfMissing(f, now) {
		all = slices.DeleteFunc(all, func(a api.Problem) bool { return a.Kind == string(diagnosis.FleetProxy) && a.What == p.What })
		all = append(all, p)
	}
	diagnosis.Sort(all)
	return all
}

func mergeProblems(q *question) (int, any, error) {
	var own api.ProblemList
	if err := json.Unmarshal(q.body, &own); err != nil {
		return 0, nil, err
	}
	all := api.ProblemList{Problems: []api.Problem{}, Past: []api.PastProblem{}, Unsaved: own.Unsaved}
	take := func(l *api.ProblemList, proxy string) {
		all.Problems = addProblems(all.Problems, l.Problems, proxy)
		for i := range l.Past {
			l.Past[i].Proxies = []string{proxy}
		}
		all.Past = append(all.Past, l.Past...)
	}
	take(&own, q.self)
	for a, l := range values[api.ProblemList](q) {
		take(l, a.name)
	}
	diagnosis.Sort(all.Problems)
	slices.SortStableFunc(all.Past, func(a, b api.PastProblem) int { return b.Since.Compare(a.Since) }) // as one proxy does
	all.Missing = q.missing("its problems are not known")
	q.fleet.Missing = all.Missing
	all.Problems = withMissing(all.Problems, &q.fleet, time.Now().UTC())
	return http.StatusOK, all, nil
}
