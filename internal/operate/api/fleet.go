package api

import (
	"fmt"
	"net/http"
	"strings"
)

// Headers and the parameter of requests about a fleet.
const (
	// PeerHeader names the proxy that asks for the whole fleet, by id. Such a request is about this proxy only, and is never passed on.
	PeerHeader = "X-Wsbouncer-Peer"
	// ForHeader names the proxy that a request is for, by id. Any other refuses it (421), since the address led to the wrong one.
	ForHeader = "X-Wsbouncer-For"
	// ProofHeader proves, in an answer to POST ForwardPath, that the proxy that answers knows the token, too.
	ProofHeader = "X-Wsbouncer-Proof"
	// ForwardProtocol is what the connection of a forwarded client speaks: what the client sent, and what it is to get.
	ForwardProtocol = "wsbouncer-forward"
	// FleetParameter asks for the whole fleet: ?fleet=true.
	FleetParameter = "fleet"
)

// ForwardedClient is a client that one proxy forwards to another, which has its session.
type ForwardedClient struct {
	Address     string `json:"address"`               // its address and port
	Peer        string `json:"peer,omitempty"`        // those that its connection comes from, if they are others
	Certificate []byte `json:"certificate,omitempty"` // that it has presented, verified, in DER form
}

// Modes of a fleet.
const (
	FleetOff     = "off"     // the proxy shares no caps, as its settings say
	FleetWaiting = "waiting" // the ledger has not answered yet: the proxy has no places
	FleetAlone   = "alone"   // there is a ledger, and no other proxy in it
	FleetShare   = "fleet"   // servers' caps are shared with other proxies
	FleetWhole   = "whole"   // the ledger cannot be used: the proxy uses the whole caps
)

// States of a proxy.
const (
	ProxyStarting = "starting" // it does not accept clients yet
	ProxyServing  = "serving"
	ProxyDraining = "draining" // it accepts no new clients; its sessions continue
	ProxyUnseen   = "unseen"   // it has sent the ledger no heartbeat for 3 s, and may be dead
)

// Fleet is the proxies that share servers' caps, as one of them knows it: GET /api/v1/proxies.
type Fleet struct {
	Mode string `json:"mode"` // off, waiting, alone, fleet or whole
	// Ledger is where the grants are kept: a database, without its password, or a file. Empty for nowhere.
	Ledger string `json:"ledger,omitempty"`
	// Problem says why the ledger cannot be used; empty if it can. Advice says what to do.
	Problem      string  `json:"problem,omitempty"`
	Advice       string  `json:"advice,omitempty"`
	SinceSeconds float64 `json:"problem_seconds,omitempty"` // how long there is the problem
	// Frozen: no places are granted or reclaimed at present. FrozenWhy says why.
	Frozen        bool    `json:"frozen"`
	FrozenWhy     string  `json:"frozen_why,omitempty"`
	FrozenSeconds float64 `json:"frozen_seconds,omitempty"`
	// ExchangeSeconds is how long the last exchange with the ledger took; 0 before the first.
	ExchangeSeconds float64 `json:"exchange_seconds"`
	// Proxies are all that the ledger knows, this one included, by name.
	Proxies []Proxy `json:"proxies"`
	// Missing are the proxies that could not be asked, in an answer to ?fleet=true.
	Missing []MissingProxy `json:"missing,omitempty"`
	// Whole: the answer was asked for with ?fleet=true, and its numbers are those of all proxies but the missing ones.
	Whole bool `json:"whole,omitempty"`
}

// Proxy is one proxy of a fleet.
type Proxy struct {
	ID      string `json:"id"`             // of the process: another one after a restart
	Name    string `json:"name"`           // two may have the same by mistake
	Self    bool   `json:"self,omitempty"` // it is the one that answers
	Version string `json:"version"`        // of the program
	// Address is the URL of its admin API as other proxies reach it; empty if they cannot.
	Address string `json:"address,omitempty"`
	Host    string `json:"host,omitempty"` // identifies its host, shortened
	State   string `json:"state"`          // starting, serving, draining or unseen
	// AgeSeconds is for how long it has run, and SeenSeconds how long ago it last reached the ledger.
	AgeSeconds  float64 `json:"age_seconds"`
	SeenSeconds float64 `json:"seen_seconds"`
	Sessions    int     `json:"sessions"`
	// Configuration is the version of the configuration in force.
	Configuration string `json:"configuration,omitempty"`
	Places        int    `json:"places"` // of all servers that are granted to it
	// Grants are its places by server, in the answer about one proxy.
	Grants []ProxyGrant `json:"grants,omitempty"`
	// Reachable: it has answered just now; only in answers to ?fleet=true.
	Reachable bool `json:"reachable,omitempty"`
	// Problem is what is wrong with it: it is not seen, its name is another's, too, or its admin API cannot be used.
	Problem string `json:"problem,omitempty"`
}

// ProxyGrant is what a proxy has of one server.
type ProxyGrant struct {
	Server string `json:"server"`
	Places int    `json:"places"`
	Needs  int    `json:"needs"` // what sessions use and clients wait for
	Wants  int    `json:"wants"` // needs, and what it would keep warm
}

// MissingProxy is a proxy whose part of an answer is missing.
type MissingProxy struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why"` // such as "not seen for 12 s"
}

// String says which proxy is missing, and why.
func (m *MissingProxy) String() string { return fmt.Sprintf("%s: %s", m.Name, m.Why) }

// ProxyOutcome is what came of an action at one proxy.
type ProxyOutcome struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Text     string `json:"text"` // what was done, or why it failed
	Failed   bool   `json:"failed,omitempty"`
	Sessions int    `json:"sessions,omitempty"`
}

// BackendPart is one proxy's part of a backend in the statistics of a fleet.
type BackendPart struct {
	Proxy         string `json:"proxy"`         // its name
	Configuration string `json:"configuration"` // the version in force there
	State         string `json:"state"`         // the desired state there: enabled, draining or disabled
	Usable        bool   `json:"usable"`
	Limit         int    `json:"limit"` // connections that it may have
	Warm          int    `json:"warm"`
	Dialing       int    `json:"dialing"`
	Idle          int    `json:"idle"`
	Leased        int    `json:"leased"`
	Resetting     int    `json:"resetting"`
	Retiring      int    `json:"retiring"`
}

// FleetWide reports whether a proxy can answer a request for the whole fleet.
func FleetWide(method, path string) bool {
	path, ok := strings.CutPrefix(path, "/api/v1/")
	if !ok {
		return false
	}
	parts := strings.Split(path, "/")
	if len(parts) > 3 {
		return false
	}
	kind, action := parts[0], strings.Join(parts[min(2, len(parts)):], "")
	read := method == http.MethodGet || method == http.MethodHead
	switch {
	case len(parts) == 1:
		return read && (kind == "stats" || kind == "sessions" || kind == "proxies" || kind == "problems") || kind == "sessions" && method == http.MethodDelete
	case len(parts) == 2:
		return kind == "sessions" && (read || method == http.MethodDelete)
	case kind == "services":
		return method == http.MethodPost && (action == "pause" || action == "resume")
	}
	return action == "move" && (kind == "sessions" || kind == "backends") && (read || method == http.MethodPost) ||
		action == "recycle" && kind == "backends" && method == http.MethodPost
}

// Find returns the proxies that an id, the beginning of one of at least four digits, or a name means.
func (f *Fleet) Find(text string) (found []*Proxy) {
	const least = 4
	for i := range f.Proxies {
		p := &f.Proxies[i]
		if p.ID == text {
			return []*Proxy{p}
		}
		if p.Name == text || len(text) >= least && len(text) < len(p.ID) && p.ID[:len(text)] == text {
			found = append(found, p)
		}
	}
	return found
}

// Self returns the proxy that has answered; nil if it is not in the ledger.
func (f *Fleet) Self() *Proxy {
	for i := range f.Proxies {
		if f.Proxies[i].Self {
			return &f.Proxies[i]
		}
	}
	return nil
}

// Shares reports whether there are other proxies. A nil Fleet has none.
func (f *Fleet) Shares() bool { return f != nil && f.Mode == FleetShare }
