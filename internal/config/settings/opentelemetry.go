package settings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/secret"
	"github.com/wsbouncer/wsbouncer/internal/ground/value"
)

const allowedEndpoint = "a URL such as http://127.0.0.1:4318, or " + Off

// tracesPath is where collectors take traces (OTLP specification, "OTLP/HTTP Request").
const tracesPath = "/v1/traces"

// checkEndpoint checks the URL of a collector.
func checkEndpoint(text string) error {
	if text == Off {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err == nil && u.User != nil:
		return fmt.Errorf("invalid collector %q: put the password into the environment variable OTEL_EXPORTER_OTLP_HEADERS", secret.URL(text))
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
		return value.Invalid("collector", secret.URL(text), allowedEndpoint)
	}
	return nil
}

// TracesURL returns the URL to which traces are sent; empty for none.
func (s *Settings) TracesURL() string {
	if s.OTLPEndpoint == "" || s.OTLPEndpoint == Off {
		return ""
	}
	u, err := url.Parse(s.OTLPEndpoint)
	if err != nil { // it was checked
		return ""
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = tracesPath
	}
	return u.String()
}

// openTelemetry applies the standard variables of OpenTelemetry (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/)
// where no setting says anything. They are meant for all programs of a machine or container, so a wrong one is not an error: the log
// warns.
func (l *loading) openTelemetry(all []string) {
	given := make(map[string]string)
	for _, entry := range all {
		if name, text, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "OTEL_") && text != "" {
			given[name] = text
		}
	}
	first := func(names ...string) (name, text string) {
		for _, name = range names {
			if text = given[name]; text != "" {
				return name, text
			}
		}
		return "", ""
	}
	if l.settings.OTLPEndpoint == "" {
		l.otelEndpoint(given, first)
	}
	if _, ok := l.sources["trace-ratio"]; !ok {
		l.otelSampler(given)
	}
}

func (l *loading) otelEndpoint(given map[string]string, first func(...string) (name, text string)) {
	name, text := first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	exporters := strings.Split(given["OTEL_TRACES_EXPORTER"], ",")
	switch {
	case text == "", strings.EqualFold(given["OTEL_SDK_DISABLED"], "true"), given["OTEL_TRACES_EXPORTER"] != "" && !slices.Contains(exporters, "otlp"):
		return
	}
	switch how, protocol := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); protocol {
	case "", "http/protobuf":
	case "grpc":
		l.warn("%s: %q is not supported, so nothing is traced: use http/protobuf, and the collector's port for it in %s", how, protocol, name)
		return
	default:
		l.warn("%s: %q is not supported, so traces are sent as http/protobuf", how, protocol)
	}
	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		text = strings.TrimRight(text, "/") + tracesPath
	}
	if err := checkEndpoint(text); err != nil || text == Off {
		l.warn("%s: %v, so nothing is traced", name, err)
		return
	}
	l.settings.OTLPEndpoint, l.sources["otlp-endpoint"] = text, name
}

func (l *loading) otelSampler(given map[string]string) {
	const sampler, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	s := find(l.rows, "trace-ratio")
	name, text := sampler, ""
	switch strings.TrimPrefix(given[sampler], "parentbased_") {
	case "always_on":
		text = "1"
	case "always_off":
		text = "0"
	case "", "traceidratio":
		name, text = argument, given[argument]
	default:
		l.warn("%s: sampler %q is not supported and ignored: use one of parentbased_always_on, parentbased_always_off, parentbased_traceidratio", sampler, given[sampler])
	}
	if text == "" {
		return
	}
	if err := s.value.Set(text); err != nil {
		l.warn("%s: %v", name, err)
		return
	}
	l.sources[s.name] = name
}

func (l *loading) warn(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}
