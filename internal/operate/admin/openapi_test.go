package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// schema is what the tests read of a schema of the description.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Format     string            `json:"format"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Additional *schema           `json:"additionalProperties"`
}

// description is what the tests read of the description of the API.
type description struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string
		Deprecated  bool
	}
	Components struct{ Schemas map[string]schema }
}

func described(t *testing.T) (d description) {
	t.Helper()
	if err := json.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	if d.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %q", d.OpenAPI)
	}
	return d
}

// Every route is described, and every path that is described is a route. (Those of the configuration are tried in package app.)
func TestRoutesAreDescribed(t *testing.T) {
	d := described(t)
	source := Source{Metrics: http.NotFoundHandler(), Dashboard: http.NotFoundHandler(), Audit: new(Audit)}
	routed := make(map[string]bool)
	for _, route := range source.routes() {
		if route.all != nil || !strings.HasPrefix(route.path, "/api/") && strings.HasSuffix(route.path, "/") || route.path == "/{$}" {
			continue // the configuration, and pages for browsers
		}
		for method := range route.methods {
			routed[method+" "+route.path] = true
			operation, ok := d.Paths[route.path][strings.ToLower(method)]
			if !ok {
				t.Errorf("%s %s is not in openapi.json", method, route.path)
			}
			if is := !route.deprecated.since.IsZero(); is != operation.Deprecated {
				t.Errorf("%s %s: deprecated is %t in openapi.json, and %t in the code", method, route.path, operation.Deprecated, is)
			}
		}
	}
	ids := make(map[string]bool)
	for path, methods := range d.Paths {
		for method, operation := range methods {
			if ids[operation.OperationID] || operation.OperationID == "" {
				t.Errorf("%s %s: the operation id %q is missing or used twice", method, path, operation.OperationID)
			}
			ids[operation.OperationID] = true
			if !strings.HasPrefix(path, api.ConfigPath) && !routed[strings.ToUpper(method)+" "+path] {
				t.Errorf("%s %s is described and does not exist", method, path)
			}
		}
	}
}

// Every field of the types of the API is described with its type, and is required unless it may be left out.
func TestTypesAreDescribed(t *testing.T) {
	d := described(t)
	for _, value := range []any{
		api.Failure{},
		api.Order{},
		api.Action{},
		api.Access{},
		api.Outcome{},
		api.LogLevel{},
		api.SettingList{},
		api.Reloaded{},
		api.Fleet{},
		api.History{},
		api.ProblemList{},
		api.SessionList{},
		api.SessionDetail{},
		api.Stats{},
		api.TapEvent{},
		api.UpgradeOrder{},
		api.UpgradeStep{},
	} {
		compare(t, d, reflect.TypeOf(value), schema{Ref: "#/components/schemas/" + reflect.TypeOf(value).Name()}, reflect.TypeOf(value).Name())
	}
}

func compare(t *testing.T, d description, typ reflect.Type, s schema, at string) {
	t.Helper()
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		if s, ok = d.Components.Schemas[name]; !ok || name != elem(typ).Name() {
			t.Errorf("%s refers to the schema %s, and its type is %v", at, name, typ)
			return
		}
	}
	want := ""
	switch typ = elem(typ); typ.Kind() {
	case reflect.Struct:
		if typ == reflect.TypeOf(time.Time{}) {
			if want = "string"; s.Format != "date-time" {
				t.Errorf("%s has the format %q; want date-time", at, s.Format)
			}
			break
		}
		want = "object"
		compareFields(t, d, typ, s, at)
	case reflect.Slice:
		if want = "array"; s.Items != nil {
			compare(t, d, typ.Elem(), *s.Items, at+"[]")
		} else {
			t.Errorf("%s has no items", at)
		}
	case reflect.Map:
		if want = "object"; s.Additional != nil {
			compare(t, d, typ.Elem(), *s.Additional, at+"{}")
		} else {
			t.Errorf("%s has no additionalProperties", at)
		}
	case reflect.String:
		want = "string"
	case reflect.Bool:
		want = "boolean"
	case reflect.Float64:
		want = "number"
	default:
		want = "integer"
	}
	if s.Type != want {
		t.Errorf("%s has the type %v; want %s", at, s.Type, want)
	}
}

func compareFields(t *testing.T, d description, typ reflect.Type, s schema, at string) {
	t.Helper()
	var required []string
	names := make(map[string]bool)
	for _, field := range reflect.VisibleFields(typ) {
		tag, ok := field.Tag.Lookup("json")
		if field.Anonymous || !ok {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		names[name] = true
		if options == "" {
			required = append(required, name)
		}
		property, ok := s.Properties[name]
		if !ok {
			t.Errorf("%s has no property %s", at, name)
			continue
		}
		compare(t, d, field.Type, property, at+"."+name)
	}
	for name := range s.Properties {
		if !names[name] {
			t.Errorf("%s has the property %s, which no field has", at, name)
		}
	}
	slices.Sort(required)
	if got := slices.Sorted(slices.Values(s.Required)); !slices.Equal(got, required) {
		t.Errorf("%s requires %v; want %v", at, got, required)
	}
}

// elem returns what a pointer leads to.
func elem(typ reflect.Type) reflect.Type {
	if typ.Kind() == reflect.Pointer {
		return typ.Elem()
	}
	return typ
}

// Every schema is used.
func TestSchemasAreUsed(t *testing.T) {
	d := described(t)
	for name := range maps.Keys(d.Components.Schemas) {
		if !strings.Contains(string(openAPI), `"#/components/schemas/`+name+`"`) {
			t.Errorf("nothing refers to the schema %s", name)
		}
	}
}
