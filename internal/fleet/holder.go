package fleet

import "time"

// Usage is how a proxy's pools use one server at this moment.
type Usage struct {
	Cap  int // of the configuration
	Used int // connections that count against the cap: dialing, idle, leased, resetting and retiring
	// Needs, Waiting, Wants and Waited are those of a [Claim].
	Needs, Waiting, Wants, Waited int
}

// HolderOptions are what a holder is made with.
type HolderOptions struct {
	ID    ID
	Floor int     // of each claim
	Share float64 // of each claim
	// Timeout is after how long the places of a proxy that is not seen are taken from it; 0 for never.
	Timeout time.Duration
}

// Holder is one proxy's side of the protocol: what it may use of each server. It is owned by one goroutine.
//
//	h.Use(...) for each server; r := h.Report(now); a, err := store.Exchange(ctx, r); h.Answered(r, a, asked, now) or h.Failed(r, now);
//	then the limits of all servers go to the pools
type Holder struct{}

// NewHolder returns a holder that holds nothing.
func NewHolder(o HolderOptions) *Holder { panic("not written yet") }

// Use says how the pools use a server at this moment. It is called for each server of the configuration before each report, and for
// each that is not in it any more until nothing is used there.
func (h *Holder) Use(server string, u Usage) { panic("not written yet") }

// Report returns the next report. It lowers limits first where the ledger is to get places back.
func (h *Holder) Report(now Instant) *Report { panic("not written yet") }

// Answered takes an answer in. asked is when the report was sent: what the answer says holds from then on.
func (h *Holder) Answered(r *Report, a *Answer, asked, now Instant) { panic("not written yet") }

// Failed says that a report may or may not have arrived.
func (h *Holder) Failed(r *Report, now Instant) { panic("not written yet") }

// Limit returns how many connections the proxy may have to the server.
func (h *Holder) Limit(server string) int { panic("not written yet") }

// Due reports whether the next exchange is to be made at once, rather than at the next beat: places can be given back that others wait
// for, or clients wait for places.
func (h *Holder) Due(now Instant) bool { panic("not written yet") }

// Expired returns when, without an answer by then, others may take this proxy's places, so that no connection may be dialed after it;
// ok is false if they never do.
func (h *Holder) Expired() (at Instant, ok bool) { panic("not written yet") }

// Suspect is a proxy that has made no exchange for some time, as this one has observed it.
type Suspect struct {
	Member Member
	Unseen time.Duration
}

// Suspects returns the proxies that have not been seen for longer than [Unseen].
func (h *Holder) Suspects(now Instant) []Suspect { panic("not written yet") }

// Died says that a proxy is proven dead. The next report says so to the ledger.
func (h *Holder) Died(id ID) { panic("not written yet") }
