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
func NewTenant() Tenant { return withDefaults[Tenant]() }

// GuaranteedAt returns how many places of a service only this tenant may use.
func (t *Tenant) GuaranteedAt(service string) int {
	n, _ := strconv.Atoi(t.Guaranteed[service]) // checkGuaranteed has checked it
	return n
}

// fields returns the fields of a tenant: see [Service.fields].
func (t *Tenant) fields() []field {
	return append([]field{
		{"share", "1", "share of each service's connections while clients wait, relative to other tenants", value.NewNumberWithin(
			&t.Share, 0.01, 1000)}, // no tenant can have none
		{"guaranteed", "", "sessions of each service that are reserved for this tenant", value.NewMap(
			&t.Guaranteed, "names of services with numbers of sessions", checkGuaranteed)},
	}, slices.DeleteFunc(limitFields(&t.Limits), func(f field) bool { return f.name == limits.MessageRate.String() })...)
}

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
