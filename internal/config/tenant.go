package config

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

// DefaultTenant is the name of the tenant whose limits and share each tenant has that is not configured.
const DefaultTenant = "default"

// Tenant is one of those who share the proxy: a customer, a department, an application. Begin with [NewTenant]. Its name is its key in
// [Content], and what keys, tokens and certificates call it.
type Tenant struct {
	Share      float64           // of a service's queue, relative to the other tenants that wait
	Guaranteed map[string]string // places, by service, that only this tenant may use: see GuaranteedAt
	Limits     limits.Limits     // over all services of a process
}

// NewTenant returns a tenant with all defaults.
func NewTenant() Tenant { return withDefaults(tenantFields) }

// GuaranteedAt returns how many places of a service only this tenant may use.
func (t *Tenant) GuaranteedAt(service string) int {
	n, _ := strconv.Atoi(t.Guaranteed[service]) // checkGuaranteed has checked it
	return n
}

// tenantFields are the fields of a tenant: see serviceFields.
var tenantFields = append([]field[Tenant]{
	{"share", "1", "share of each service's queue, relative to the other tenants that wait", func(t *Tenant) value.Value {
		return shareValue{&t.Share}
	}},
	{"guaranteed", "", "sessions of each service for which connections are kept for this tenant only", func(t *Tenant) value.Value {
		return value.NewMap(&t.Guaranteed, "names of services with numbers of sessions", checkGuaranteed)
	}},
}, slices.DeleteFunc(limitFields("tenant", func(t *Tenant) *limits.Limits { return &t.Limits }), func(f field[Tenant]) bool {
	return f.name == "message-rate"
})...)

// checkGuaranteed checks how many places of a service are guaranteed.
func checkGuaranteed(service, places string) error {
	if err := CheckName(service); err != nil {
		return err
	}
	if n, err := strconv.Atoi(places); err != nil || n < 1 || n > maxConnections {
		return value.Invalid("number", places, fmt.Sprintf("a whole number from 1 to %d", maxConnections))
	}
	return nil
}

// shareValue is the value for a share: nobody can have none.
type shareValue struct{ p *float64 }

const minShare, maxShare = 0.01, 1000

func (v shareValue) Text() string    { return strconv.FormatFloat(*v.p, 'g', -1, 64) }
func (v shareValue) Allowed() string { return fmt.Sprintf("%g to %d", minShare, maxShare) }

func (v shareValue) Set(text string) error {
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share >= minShare && share <= maxShare) {
		return value.Invalid("share", text, fmt.Sprintf("a number from %g to %d", minShare, maxShare))
	}
	*v.p = share
	return nil
}
