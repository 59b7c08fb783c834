package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
)

// running is the part of a running proxy's statistics that the commands show. Fields that a proxy does not send stay zero.
type running struct {
	Configuration runningConfiguration `json:"configuration"`
	Services      []runningService     `json:"services"`
	Backends      []runningBackend     `json:"backends"`
}

type runningConfiguration struct {
	Source string `json:"source"`
}

type runningService struct {
	Name  string `json:"name"`
	Queue struct {
		Waiting int `json:"waiting"`
	} `json:"queue"`
}

type runningBackend struct {
	Name          string `json:"name"`
	State         string `json:"state"`
	Usable        bool   `json:"usable"`
	Reachable     bool   `json:"reachable"`
	Reason        string `json:"reason"`
	Circuit       string `json:"circuit"`
	CircuitReason string `json:"circuit_reason"`
	Outlier       bool   `json:"outlier"`
	OutlierReason string `json:"outlier_reason"`
	Probe         string `json:"probe"`
	ProbeReason   string `json:"probe_reason"`
	Ceiling       int    `json:"ceiling"`
	Warm          int    `json:"warm"`
	Dialing       int    `json:"dialing"`
	Idle          int    `json:"idle"`
	Leased        int    `json:"leased"`
	Resetting     int    `json:"resetting"`
	Retiring      int    `json:"retiring"`
}

const statsPath = "/api/v1/stats"

// running returns the statistics of the proxy; nil if none is known. If it cannot read them, it writes why to messages, since a list
// is useful without them.
func (t *target) running(ctx context.Context, messages io.Writer) *running {
	if t.proxy == nil {
		return nil
	}
	r := new(running)
	if err := t.proxy.Get(ctx, statsPath, r); err != nil {
		fmt.Fprintf(messages, "The present state of the proxy is not shown: %v\n", err)
		return nil
	}
	return r
}

// knowsServices reports whether the statistics name the services.
func (r *running) knowsServices() bool {
	return r != nil && len(r.Services) > 0 && r.Services[0].Name != ""
}

// knowsBackends reports whether the statistics name the backends.
func (r *running) knowsBackends() bool {
	return r != nil && len(r.Backends) > 0 && r.Backends[0].Name != ""
}

// service returns the statistics of a service; nil if there are none.
func (r *running) service(name string) *runningService {
	if r != nil {
		for i := range r.Services {
			if r.Services[i].Name == name {
				return &r.Services[i]
			}
		}
	}
	return nil
}

// backend returns the statistics of a backend; nil if there are none.
func (r *running) backend(name string) *runningBackend {
	if r != nil {
		for i := range r.Backends {
			if r.Backends[i].Name == name {
				return &r.Backends[i]
			}
		}
	}
	return nil
}

// healthy is the health of a backend that works.
const healthy = "healthy"

// health returns the health of a backend in a word or two.
func (b *runningBackend) health() string {
	switch {
	case b.Circuit != "" && b.Circuit != "closed":
		return "circuit " + b.Circuit
	case b.Probe == "down":
		return "probe fails"
	case b.Outlier:
		return "outlier"
	case !b.Reachable:
		return "unreachable"
	}
	return healthy
}

// trouble returns why a backend is not healthy; empty if it is.
func (b *runningBackend) trouble() string {
	switch b.health() {
	case healthy:
		return ""
	case "probe fails":
		return b.ProbeReason
	case "outlier":
		return b.OutlierReason
	case "unreachable":
		return b.Reason
	}
	return b.CircuitReason
}

// forPrograms returns the state of a backend for JSON; nil if it is not known.
func (b *runningBackend) forPrograms() map[string]any {
	if b == nil {
		return nil
	}
	all := map[string]any{
		"dialing": b.Dialing, "idle": b.Idle, "leased": b.Leased, "resetting": b.Resetting, "retiring": b.Retiring, "health": b.health(),
	}
	if why := b.trouble(); why != "" {
		all["trouble"] = why
	}
	return all
}

// rows returns the state of a backend for a table.
func (b *runningBackend) rows() [][]string {
	health := b.health()
	if why := b.trouble(); why != "" {
		health += ": " + why
	}
	rows := [][]string{{"health", health}}
	for _, c := range []struct {
		what string
		n    int
	}{{"dialing", b.Dialing}, {"idle", b.Idle}, {"leased", b.Leased}, {"resetting", b.Resetting}, {"retiring", b.Retiring}} {
		rows = append(rows, []string{c.what, strconv.Itoa(c.n)})
	}
	return rows
}
