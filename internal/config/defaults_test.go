package config_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/pool"
)

// TestNames holds names that mean something to other packages against these.
func TestNames(t *testing.T) {
	for _, f := range config.Fields(config.KindService) {
		if want := strings.Join(pool.BalanceNames(), ", "); f.Name == "balance" && f.Allowed != want {
			t.Errorf("the allowed balances are %s, and those of package pool %s", f.Allowed, want)
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
	} {
		var names []string
		for _, f := range config.Fields(kind) {
			names = append(names, strings.ReplaceAll(f.Name, "-", ""))
			if f.Help == "" || f.Allowed == "" {
				t.Errorf("%s: %s has no description", kind, f.Name)
			}
		}
		typ := reflect.TypeOf(entity)
		for i := range typ.NumField() {
			if name := strings.ToLower(typ.Field(i).Name); !slices.Contains(names, name) {
				t.Errorf("%s: there is no field for %s", kind, typ.Field(i).Name)
			}
		}
		if len(names) != typ.NumField() {
			t.Errorf("%s: there are %d fields for %d", kind, len(names), typ.NumField())
		}
	}
}
