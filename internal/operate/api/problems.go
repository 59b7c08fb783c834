package api

import "time"

// The levels of a problem.
const (
	LevelFailure = "failure" // clients suffer, or would if one more thing failed; never of what hurts operators only
	LevelWarning = "warning" // it is worse than it should be, or an operator has done it
)

// Whom a problem hurts, the worst first.
const (
	HurtsClients  = "clients"      // now
	HurtsSoon     = "clients-soon" // if it stays, or if one more thing fails
	HurtsOperator = "operator"     // no client notices
)

// Problem is one thing that is not as it should be. Kind and What together name it: there are no two with the same.
type Problem struct {
	Kind    string `json:"kind"` // stable, such as backend-slow; docs/troubleshoot.md explains each
	Level   string `json:"level"`
	Hurts   string `json:"hurts"`
	What    string `json:"what"`              // such as "backend gpu-2"
	Service string `json:"service,omitempty"` // that it is about; empty for none
	Backend string `json:"backend,omitempty"` // that it is about; empty for none
	// Text is the evidence. It may change while the problem lasts.
	Text string `json:"text"`
	// Since is when it began: what is wrong may be older than the proxy's knowledge of it.
	Since time.Time `json:"since"`
	// Cure is the command that helps, or shows more, or several with a semicolon between them; empty if there is none. Those of wsbouncer do
	// not say where the proxy is: the program that shows them adds --admin where it is needed.
	Cure string `json:"cure,omitempty"`
	// Causes are the kinds of problems of backends that are not listed by themselves because they are the cause of this one.
	Causes []string `json:"causes,omitempty"`
	// Proxies are the names of those that see it, in the statistics of a whole fleet.
	Proxies []string `json:"proxies,omitempty"`
}

// Same reports whether two problems are the same one, at two times or of two proxies.
func (p *Problem) Same(other *Problem) bool { return p.Kind == other.Kind && p.What == other.What }

// PastProblem is a problem that began, and what became of it.
type PastProblem struct {
	Problem
	// Ended is when it ended; zero while it lasts.
	Ended time.Time `json:"ended,omitzero"`
}

// ProblemList is GET /api/v1/problems.
type ProblemList struct {
	// Problems are those of now, by whom they hurt.
	Problems []Problem `json:"problems"`
	// Past are the last thousand that have ended, those that began last first. They are kept over restarts.
	Past []PastProblem `json:"past"`
	// Unsaved is why the past cannot be written to disk; empty if it can.
	Unsaved string `json:"unsaved,omitempty"`
	// Missing are proxies whose problems are not in the list, in the answer of a whole fleet.
	Missing []MissingProxy `json:"missing,omitempty"`
}
