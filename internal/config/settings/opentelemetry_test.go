package settings

import (
	"strings"
	"testing"
)

// The standard variables of OpenTelemetry hold where no setting says anything. Wrong ones are warnings, and nothing is traced.
func TestOpenTelemetryVariables(t *testing.T) {
	const base, traces = "OTEL_EXPORTER_OTLP_ENDPOINT=", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="
	for _, c := range []struct {
		given
		endpoint string // to which traces go
		ratio    float64
		source   string // of the endpoint
		warning  string // how the only one begins; empty for none
	}{
		{given{}, "", 1, "", ""},
		{given{environment: []string{base + "http://c:4318"}}, "http://c:4318/v1/traces", 1, "OTEL_EXPORTER_OTLP_ENDPOINT", ""},
		{given{environment: []string{base + "https://c/otlp/"}}, "https://c/otlp/v1/traces", 1, "OTEL_EXPORTER_OTLP_ENDPOINT", ""},
		{given{environment: []string{base + "http://c:4318", traces + "http://d/x"}}, "http://d/x", 1, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""},
		{given{environment: []string{base + ""}}, "", 1, "", ""},
		{given{environment: []string{base + "c:4318"}}, "", 1, "", `OTEL_EXPORTER_OTLP_ENDPOINT: invalid collector "c:4318/v1/traces"`},
		{given{environment: []string{base + "http://c:4318", "OTEL_SDK_DISABLED=TRUE"}}, "", 1, "", ""},
		{given{environment: []string{base + "http://c:4318", "OTEL_TRACES_EXPORTER=none"}}, "", 1, "", ""},
		{given{environment: []string{base + "http://c:4318", "OTEL_TRACES_EXPORTER=console,otlp"}}, "http://c:4318/v1/traces", 1, "OTEL_EXPORTER_OTLP_ENDPOINT", ""},
		{given{environment: []string{base + "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}}, "", 1, "", `OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" is not supported`},
		{given{environment: []string{base + "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}}, "http://c:4318/v1/traces", 1, "OTEL_EXPORTER_OTLP_ENDPOINT", `OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is not supported`},
		{given{environment: []string{base + "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"}}, "http://c:4318/v1/traces", 1, "OTEL_EXPORTER_OTLP_ENDPOINT", ""},
		{
			given{environment: []string{base + "http://c:4318", "WSBOUNCER_OTLP_ENDPOINT=http://e:1/"}},
			"http://e:1/v1/traces", 1, "WSBOUNCER_OTLP_ENDPOINT", "",
		},
		{given{file: "otlp-endpoint: off", environment: []string{base + "http://c:4318"}}, "", 1, "w.yaml:1:16", ""},
		{given{flags: []string{"--otlp-endpoint", "https://f/v1/own"}, environment: []string{base + "http://c:4318"}}, "https://f/v1/own", 1, "--otlp-endpoint", ""},
		{
			given{flags: []string{"--otlp-endpoint="}, environment: []string{base + "http://c:4318"}}, // the default again
			"http://c:4318/v1/traces", 1, "OTEL_EXPORTER_OTLP_ENDPOINT", "",
		},
		{given{environment: []string{"OTEL_TRACES_SAMPLER_ARG=0.25"}}, "", 0.25, "", ""},
		{given{environment: []string{"OTEL_TRACES_SAMPLER_ARG=0.25", "OTEL_TRACES_SAMPLER=parentbased_traceidratio"}}, "", 0.25, "", ""},
		{given{environment: []string{"OTEL_TRACES_SAMPLER_ARG=0.25", "OTEL_TRACES_SAMPLER=always_on"}}, "", 1, "", ""},
		{given{environment: []string{"OTEL_TRACES_SAMPLER=parentbased_always_off"}}, "", 0, "", ""},
		{given{environment: []string{"OTEL_TRACES_SAMPLER_ARG=0.25"}, file: "trace-ratio: 0.5"}, "", 0.5, "", ""},
		{given{environment: []string{"OTEL_TRACES_SAMPLER_ARG=2"}}, "", 1, "", `OTEL_TRACES_SAMPLER_ARG: invalid number "2"`},
		{given{environment: []string{"OTEL_TRACES_SAMPLER=jaeger_remote"}}, "", 1, "", `OTEL_TRACES_SAMPLER: sampler "jaeger_remote"`},
	} {
		l := c.load(t)
		if got := l.TracesURL(); got != c.endpoint || l.TraceRatio != c.ratio || l.Source("otlp-endpoint") != c.source {
			t.Errorf("%+v: %q from %q, ratio %v; want %q from %q, ratio %v", c.given, got, l.Source("otlp-endpoint"), l.TraceRatio, c.endpoint, c.source, c.ratio)
		}
		if text := strings.Join(l.Warnings, "\n"); (text == "") != (c.warning == "") || !strings.HasPrefix(text, c.warning) || strings.Contains(text, "\n") {
			t.Errorf("%+v: warnings %q; want %q", c.given, text, c.warning)
		}
	}
}

func TestEndpointErrors(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:4318":           `--otlp-endpoint: invalid collector "127.0.0.1:4318": use a URL such as http://127.0.0.1:4318, or off`,
		"otlp-http://c:4318":       `--otlp-endpoint: invalid collector "otlp-http://c:4318": use a URL`,
		"http://":                  `--otlp-endpoint: invalid collector "http://": use a URL`,
		"http://c?x=1":             `--otlp-endpoint: invalid collector "http://c?x=1": use a URL`,
		"https://me:secret@c?x":    `--otlp-endpoint: invalid collector "https://(hidden)@c?x": put the password into the environment variable OTEL_EXPORTER_OTLP_HEADERS`,
		"http://c:4318/\x00%zz???": `--otlp-endpoint: invalid collector `,
	} {
		if got := (given{flags: []string{"--otlp-endpoint", text}}).errors(t); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}
