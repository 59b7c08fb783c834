package config_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/access/limits"
	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/servers/pool"
)

// TestNames holds names that mean something to other packages against these.
func TestNames(t *testing.T) {
	for _, f := range config.Fields(config.KindService) {
		if f.Name != "balance" {
			continue
		}
		var names []string
		for balance := range strings.SplitSeq(f.Allowed, ", ") {
			name, _, _ := config.BalanceParts(balance)
			names = append(names, name)
		}
		if names = slices.Compact(names); !slices.Equal(names, pool.BalanceNames()) {
			t.Errorf("the allowed balances are %s, and those of package pool %s", names, pool.BalanceNames())
		}
	}
	for _, f := range config.Fields(config.KindBackend) {
		if want := strings.Join([]string{pool.Enabled.String(), pool.Draining.String(), pool.Disabled.String()}, ", "); f.Name == "state" && f.Allowed != want {
			t.Errorf("the allowed states are %s, and those of package pool %s", f.Allowed, want)
		}
	}
}

// TestFieldsAreComplete finds fields of the structs that the tables of fields do not have.
func TestFieldsAreComplete(t *testing.T) {
	for kind, entity := range map[config.Kind]any{
		config.KindService: config.Service{}, config.KindBackend: config.Backend{}, config.KindProfile: config.Profile{},
		config.KindTenant: config.Tenant{}, config.KindKey: config.Key{},
	} {
		var names []string
		for _, f := range config.Fields(kind) {
			names = append(names, strings.ReplaceAll(f.Name, "-", ""))
			if f.Help == "" || f.Allowed == "" {
				t.Errorf("%s: %s has no description", kind, f.Name)
			}
		}
		fields := fieldsOf(reflect.TypeOf(entity), kind)
		for _, name := range fields {
			if !slices.Contains(names, name) {
				t.Errorf("%s: there is no field for %s", kind, name)
			}
		}
		if len(names) != len(fields) {
			t.Errorf("%s: there are %d fields for %d", kind, len(names), len(fields))
		}
	}
}

// fieldsOf returns the names of an entity's fields, with those of its limits.
func fieldsOf(entity reflect.Type, kind config.Kind) (names []string) {
	limited := map[string]string{"Sessions": "sessionlimit"}
	for f := range entity.Fields() {
		if f.Type != reflect.TypeFor[limits.Limits]() {
			names = append(names, strings.ToLower(f.Name))
			continue
		}
		for l := range f.Type.Fields() {
			name := strings.ToLower(l.Name)
			if other, ok := limited[l.Name]; ok {
				name = other
			}
			switch single := l.Name == "MaxMessage" || l.Name == "MaxSession" || l.Name == "IdleTimeout"; {
			case kind == config.KindService && single: // the service has them for each session
			case l.Name == "MessageRate" && f.Name == "Limits" && kind != config.KindKey: // only those who send have it
			case l.Name == "AudioQuota" && kind == config.KindService: // only those who are billed have it
			case f.Name == "ClientLimits":
				names = append(names, "client"+name)
			default:
				names = append(names, name)
			}
		}
	}
	return names
}
