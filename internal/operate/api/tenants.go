package api

import "time"

// Tenant is what a tenant uses now, and has used since the proxy started.
type Tenant struct {
	Name string `json:"name"`
	// Unconfigured: the configuration does not name it. It has the limits and the share of the tenant default.
	Unconfigured bool         `json:"unconfigured,omitempty"`
	Share        float64      `json:"share"`    // of each service's connections, relative to the other tenants
	Sessions     int          `json:"sessions"` // connections that its sessions use now
	Waiting      int          `json:"waiting"`  // clients that wait for a connection
	Totals       TenantTotals `json:"totals"`
	Used         Usage        `json:"used"` // since the proxy started
	// AudioQuota is what its audio-quota leaves; nil for none.
	AudioQuota *AudioQuota `json:"audio_quota,omitempty"`
	// Services are those that it uses now, or has guaranteed places in.
	Services []TenantService `json:"services,omitempty"`
}

// AudioQuota is what a quota of audio leaves, as far as the proxy knows what others of its fleet have used.
type AudioQuota struct {
	Quota       string    `json:"quota"` // as the configuration has it
	UsedSeconds float64   `json:"used_seconds"`
	LeftSeconds float64   `json:"left_seconds"`
	Renews      time.Time `json:"renews"`
}

// TenantService is what a tenant uses of one service.
type TenantService struct {
	Service    string `json:"service"`
	Sessions   int    `json:"sessions"`
	Waiting    int    `json:"waiting"`
	Guaranteed int    `json:"guaranteed"` // places that are guaranteed to the tenant
	// Kept is how many of these there are: fewer while the service's backends have less room than all guarantees need.
	Kept int `json:"kept"`
}

// TenantTotals counts clients. Those of a service go when it is removed.
type TenantTotals struct {
	Sessions uint64 `json:"sessions"`  // connections leased
	Queued   uint64 `json:"queued"`    // clients that had to wait
	TimedOut uint64 `json:"timed_out"` // clients that waited without success
	Full     uint64 `json:"full"`      // clients that found the queue full
	Evicted  uint64 `json:"evicted"`   // clients whose place in the full queue a client of another tenant got
	Limited  uint64 `json:"limited"`   // clients that the tenant's session-limit, session-rate or audio-quota refused
}

// Add adds other counts.
func (t *TenantTotals) Add(other *TenantTotals) {
	t.Sessions += other.Sessions
	t.Queued += other.Queued
	t.TimedOut += other.TimedOut
	t.Full += other.Full
	t.Evicted += other.Evicted
	t.Limited += other.Limited
}

// Refused returns how many clients got no connection, for want of one or because of a limit of their tenant.
func (t *TenantTotals) Refused() uint64 { return t.TimedOut + t.Full + t.Evicted + t.Limited }

// OtherTenants are all tenants together that the configuration does not name.
type OtherTenants struct {
	Count    int          `json:"count"` // those that have sessions or waiting clients
	Sessions int          `json:"sessions"`
	Waiting  int          `json:"waiting"`
	Totals   TenantTotals `json:"totals"`
	Used     Usage        `json:"used"`
}

// Tenant returns what a tenant uses; nil if it is not listed. A nil Stats knows none.
func (s *Stats) Tenant(name string) *Tenant {
	if s != nil {
		for i := range s.Tenants {
			if s.Tenants[i].Name == name {
				return &s.Tenants[i]
			}
		}
	}
	return nil
}
