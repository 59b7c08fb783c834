package settings

import (
	"slices"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/config"
	"github.com/wsbouncer/wsbouncer/internal/config/stores"
	"github.com/wsbouncer/wsbouncer/internal/config/value"
)

// setting is one setting of the process.
type setting struct {
	name  string // of its flag and its key in the file
	help  string // what it is, one line
	unset string // what holds when it is empty, in words; only if it may be
	live  bool   // whether it can change while the process runs
	value func(*Settings) value.Value
	show  func(text string) string // as it may be shown; nil for as it is
}

// table is the one place that knows all settings, in the order in which they are shown.
var table = []setting{
	{name: "listen", help: "addresses for clients", value: func(s *Settings) value.Value {
		return value.NewList(&s.Listen, "host:port such as 127.0.0.1:8080", value.CheckAddress).Repeatable(value.AnyPort)
	}},
	{
		name: "admin", help: "address of the admin API (/healthz, /readyz, /api/v1/stats, /metrics)", unset: "none",
		value: func(s *Settings) value.Value {
			return value.NewText(&s.Admin, "host:port such as 127.0.0.1:9090", orEmpty(value.CheckAddress))
		},
	},
	{
		name: "admin-socket", help: "unix socket of the admin API, for commands on the same machine",
		unset: "with a database admin.sock in the state directory, otherwise none",
		value: func(s *Settings) value.Value {
			return value.NewText(&s.AdminSocket, "a path, or "+Off+" for none", orEmpty(checkPath))
		},
	},
	{
		name: "admin-token", help: "token that the admin API asks for", unset: "none", live: true, value: func(s *Settings) value.Value {
			return value.NewText(&s.AdminToken, "env:NAME or file:/path; "+Variable("admin-token")+" may also be the token itself", orEmpty(checkReference))
		},
	},
	{
		name: "database", help: "where services, backends and profiles are kept", unset: "wsbouncer.db in the state directory",
		value: func(s *Settings) value.Value {
			return value.NewText(&s.Database, stores.Allowed, orEmpty(stores.Check))
		},
		show: stores.Redact,
	},
	{
		name: "state-directory", help: "directory for what must be found again after a restart",
		unset: "systemd's StateDirectory=; otherwise /var/lib/wsbouncer for root and ~/.local/state/wsbouncer for others",
		value: func(s *Settings) value.Value { return value.NewText(&s.StateDirectory, "a path", orEmpty(checkPath)) },
	},
	{name: "loops", help: "most event loops awake at once; 0 for one per processor that the process may use", value: func(s *Settings) value.Value {
		return value.NewCount(&s.Loops, 0, 1024)
	}},
	{name: "io-uring", help: "whether event loops send with io_uring, which is cheaper; auto: where the kernel allows it", value: func(s *Settings) value.Value {
		return value.NewChoice(&s.IOURing, "way to send", []string{"auto", "on", "off"})
	}},
	{name: "loop-wait", help: "how event loops wait while they are busy; raw: without the Go scheduler, which is cheaper; block: in ordinary system calls; auto: raw where it works", value: func(s *Settings) value.Value {
		return value.NewChoice(&s.LoopWait, "way to wait", []string{"auto", "raw", "block"})
	}},
	{name: "max-header", help: "largest upgrade request", live: true, value: func(s *Settings) value.Value {
		return value.NewSize(&s.MaxHeader, 512, 1<<20)
	}},
	{name: "handshake-timeout", help: "for a client's upgrade request to arrive", live: true, value: func(s *Settings) value.Value {
		return value.NewDuration(&s.HandshakeTimeout, time.Millisecond)
	}},
	{name: "close-timeout", help: "for connections to close when the process ends; with --backend also for each side's part in closing any connection", live: true, value: func(s *Settings) value.Value {
		return value.NewDuration(&s.CloseTimeout, time.Millisecond)
	}},
	{name: "drain-timeout", help: "for sessions to finish after SIGTERM", live: true, value: func(s *Settings) value.Value {
		return value.NewDuration(&s.DrainTimeout, 0)
	}},
	{name: "log-level", help: "what is logged; info has a line for each session", live: true, value: func(s *Settings) value.Value {
		return value.NewChoice(&s.LogLevel, "log level", []string{"debug", "info", "warn", "error"})
	}},
	{name: "log-format", help: "how it is logged, to standard error", live: true, value: func(s *Settings) value.Value {
		return value.NewChoice(&s.LogFormat, "log format", []string{"text", "json"})
	}},
}

// names returns the names of all settings.
func names() []string {
	list := make([]string, len(table))
	for i := range table {
		list[i] = table[i].name
	}
	return list
}

// find returns the setting of that name.
func find(name string) (setting, bool) {
	i := slices.IndexFunc(table, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return table[i], true
}

// isList tells whether the setting has several values.
func (s *setting) isList() bool {
	_, ok := s.value(new(Settings)).(value.List)
	return ok
}

// text returns the setting's value in its canonical form.
func (s *setting) text(of *Settings) string { return s.value(of).Text() }

// shown returns the setting's value as it may be shown.
func (s *setting) shown(of *Settings) string {
	text := s.text(of)
	switch {
	case text == "":
		return s.unset
	case s.isList():
		return strings.Join(config.ListOf(text), ",")
	case s.show != nil:
		return s.show(text)
	}
	return text
}

// standard returns the setting's default.
func (s *setting) standard() string {
	defaults := Defaults()
	return s.text(&defaults)
}
