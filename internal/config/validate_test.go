package config

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// valid returns a content with a service stt and the backends gpu-1 and gpu-2.
func valid() Content {
	c := NewContent()
	s := DefaultService()
	s.Path = "/v1/stt"
	c.Services["stt"] = s
	for _, name := range []string{"gpu-1", "gpu-2"} {
		b := DefaultBackend()
		b.Service, b.URL, b.Connections = "stt", "ws://"+name+":2700", 32
		c.Backends[name] = b
	}
	return c
}

func TestValid(t *testing.T) {
	c := valid()
	if err := c.Validate(nil); err != nil {
		t.Error(err)
	}
	if err := new(Content).Validate(nil); err != nil {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestValidateRefuses(t *testing.T) {
	service := func(change func(*Service)) func(*Content) {
		return func(c *Content) {
			s := c.Services["stt"]
			change(&s)
			c.Services["stt"] = s
		}
	}
	backend := func(change func(*Backend)) func(*Content) {
		return func(c *Content) {
			b := c.Backends["gpu-1"]
			change(&b)
			c.Backends["gpu-1"] = b
		}
	}
	inKubernetes := func(url string) func(*Content) {
		return backend(func(b *Backend) { b.URL, b.Discover = url, DiscoverKubernetes })
	}
	discovers := func(url string) func(*Content) {
		return backend(func(b *Backend) { b.URL, b.Discover = url, DiscoverDNS })
	}
	for _, c := range []struct {
		change func(*Content)
		says   string
	}{
		{service(func(s *Service) { s.Path = "v1" }), `service stt: path: invalid path "v1": begin it with /`},
		{service(func(s *Service) { s.Path = "/v1?x" }), `service stt: path: invalid path "/v1?x"`},
		{service(func(s *Service) { s.Host = "Example.org:80" }), `service stt: host: invalid host "Example.org:80"`},
		{service(func(s *Service) { s.Profile = "ecko" }), `service stt: profile: unknown profile "ecko": did you mean "echo"? Use one of one-shot, echo`},
		{service(func(s *Service) { s.Subprotocol = "a b" }), `service stt: subprotocol: invalid subprotocol "a b"`},
		{service(func(s *Service) { s.AllowOrigin = []string{"example.org"} }), `service stt: allow-origin: invalid origin "example.org"`},
		{service(func(s *Service) { s.AllowOrigin = []string{"http://a", "http://a"} }), `service stt: allow-origin: "http://a" is listed twice`},
		{service(func(s *Service) { s.Balance = "roundrobin" }), `service stt: balance: unknown balance "roundrobin": did you mean "round-robin"?`},
		{service(func(s *Service) { s.Balance = "hash:cookie:x" }), `service stt: balance: unknown balance "hash:cookie:x": did you mean "hash:client"?`},
		{service(func(s *Service) { s.Queue = -1 }), `service stt: queue: invalid number "-1": use a whole number from 0 to 1000000`},
		{service(func(s *Service) { s.QueueTimeout = -time.Second }), `service stt: queue-timeout: invalid duration "-1s": use a duration from 0s to 720h`},
		{service(func(s *Service) { s.MaxMessage = -1 }), `service stt: max-message: invalid size "-1"`},
		{service(func(s *Service) { s.DialTimeout = 0 }), `service stt: dial-timeout: invalid duration "0s": use a duration from 1ms to 720h`},
		{service(func(s *Service) { s.Probe = "ftp://x" }), `service stt: probe: invalid probe "ftp://x" (the scheme must be http or https): use upgrade`},
		{service(func(s *Service) { s.Probe = "http://me:pw@x/" }), `service stt: probe: invalid probe "http://(hidden)@x/" (it must not have a user name)`},
		{service(func(s *Service) { s.ProbeFall = 0 }), `service stt: probe-fall: invalid number "0": use a whole number from 1 to 1000`},
		{service(func(s *Service) { s.Failover = "on" }), `service stt: failover: unknown kind of failover "on"`},
		{service(func(s *Service) { s.ReplayWindow = 500 * time.Millisecond }), `service stt: replay-window: invalid duration "500ms": use a duration from 1s to 10m`},
		{service(func(s *Service) { s.ReplayWindow = time.Hour }), `service stt: replay-window: invalid duration "1h": use a duration from 1s to 10m`},
		{service(func(s *Service) { s.StallTimeout = 100 * time.Millisecond }), `service stt: stall-timeout: invalid duration "100ms": use 0s for no limit, or at least 1s`},
		{service(func(s *Service) { s.StallTimeout = time.Second }), ""},
		{service(func(s *Service) { s.LagLimit = 499 * time.Millisecond }), `service stt: lag-limit: invalid duration "499ms": use 0s for no limit, or at least 500ms`},
		{service(func(s *Service) { s.LagLimit = 500 * time.Millisecond }), ""},
		{service(func(s *Service) { s.CanaryInterval = time.Millisecond }), `service stt: canary-interval: invalid duration "1ms": use a duration from 1s to 720h`},
		{service(func(s *Service) { s.Canary = "a\x00" }), `service stt: canary: invalid path "a\x00"`},
		{service(func(s *Service) { s.Canary, s.CanaryText = "/a.wav", "a\nb" }), `service stt: canary-text: invalid text: use at most 1000 bytes`},
		{service(func(s *Service) { s.CanaryText = "hello" }), `service stt: canary-text: there are no results without a canary`},
		{service(func(s *Service) { s.SessionAge, s.Failover = 59*time.Second, "replay" }), `service stt: session-age: invalid duration "59s": use 0s for no limit, or at least 1m`},
		{service(func(s *Service) { s.SessionAge, s.Failover = time.Minute, "replay" }), ""},
		{service(func(s *Service) { s.SessionAge = time.Hour }), `service stt: session-age: sessions can only be moved with failover: replay: set failover, or session-age to 0s`},
		{service(func(s *Service) { s.Rebalance = true }), `service stt: rebalance: sessions can only be moved with failover: replay`},
		{service(func(s *Service) { s.Rebalance, s.Failover = true, "replay" }), ""},
		{service(func(s *Service) { s.Rebalance, s.Failover, s.Balance = true, "replay", "hash:client" }), `service stt: rebalance: it would move clients away from the backends that balance: hash has chosen`},
		{service(func(s *Service) { s.Reconnect = time.Hour + time.Second }), `service stt: reconnect: invalid duration "1h0m1s": use a duration from 0s to 1h`},
		{service(func(s *Service) { s.ReconnectEvict = true }), `service stt: reconnect-evict: no session waits for its client without reconnect: set reconnect to a time such as 30s`},
		{service(func(s *Service) { s.Reconnect, s.ReconnectEvict = time.Hour, true }), ""},
		{func(c *Content) {
			stt := c.Services["stt"]
			stt.Path = ""
			c.Services["stt"], c.Services["tts"] = stt, stt
		}, `service tts: path: the service stt takes every path, too, since it has none: give one of them a path (--path)`},
		{func(c *Content) { c.Services["tts"] = c.Services["stt"] }, `service tts: path: the service stt has the path "/v1/stt", too`},
		{func(c *Content) { c.Services["a b"] = DefaultService() }, `service a b: invalid name "a b"`},
		{func(c *Content) { c.Services["stt"], c.Services["STT"] = DefaultService(), c.Services["stt"] }, ""},
		{backend(func(b *Backend) { b.Service = "" }), `backend gpu-1: service: the value is missing: use stt`},
		{backend(func(b *Backend) { b.Service = "sst" }), `backend gpu-1: service: unknown service "sst": did you mean "stt"?`},
		{backend(func(b *Backend) { b.URL = "" }), `backend gpu-1: url: the value is missing`},
		{backend(func(b *Backend) { b.URL = "gpu-1:2700" }), `backend gpu-1: url: invalid URL "gpu-1:2700"`},
		{backend(func(b *Backend) { b.URL = "http://gpu-1" }), `backend gpu-1: url: invalid URL "http://gpu-1": the scheme must be ws or wss`},
		{backend(func(b *Backend) { b.URL = "ws://me:pw@gpu-1" }), `backend gpu-1: url: invalid URL "ws://(hidden)@gpu-1": a WebSocket URL cannot have a user name`},
		{backend(func(b *Backend) { b.URL = "ws://gpu-1:99999" }), `backend gpu-1: url: invalid URL "ws://gpu-1:99999": the port must be a number from 1 to 65535`},
		{backend(func(b *Backend) { b.URL = "ws://gpu-1/#x" }), `cannot have a fragment (#)`},
		{backend(func(b *Backend) { b.URL = "WS://GPU-2:2700/" }), `backend gpu-2: url: the backend gpu-1 has the same server "ws://gpu-2:2700", and two backends for one server would exceed its cap`},
		{backend(func(b *Backend) { b.Connections = -1 }), `backend gpu-1: connections: auto needs servers that publish their capacity, and the profile one-shot does not say where`},
		{func(c *Content) {
			backend(func(b *Backend) { b.Connections = -1 })(c)
			c.Profiles["own"] = Profile{YAML: "from: vosk\nkeepalive: none\n"}
			s := c.Services["stt"]
			s.Profile = "own"
			c.Services["stt"] = s
		}, `backend gpu-1: connections: auto needs servers that publish their capacity, and the profile own does not say where`},
		{service(func(s *Service) { s.Keepalive = true }), `service stt: keepalive: the profile one-shot cannot keep sessions alive, since`},
		{service(func(s *Service) { s.Profile, s.AudioIdle = "cartesia", time.Minute }), `service stt: audio-idle: the profile cartesia does not say what audio is: use 0s, or a profile of your own`},
		{service(func(s *Service) { s.Profile, s.Queue = "deepgram", 0 }), `service stt: queue: invalid number "0": the profile deepgram dials connections for waiting clients, so use at least 1`},
		{service(func(s *Service) { s.SetHeader = map[string]string{"X-A": "a", "x-a": "b"} }), `service stt: set-header: "X-A" is set twice`},
		{func(c *Content) {
			c.Profiles["own"] = Profile{YAML: "variant: {query: [model], allow: {model: [small]}}"}
			s := c.Services["stt"]
			s.Profile, s.SetQuery = "own", map[string]string{"model": "small"}
			c.Services["stt"] = s
		}, `service stt: set-query: model: the profile own keeps connections ready for each value of this parameter`},
		{backend(func(b *Backend) { b.Connections, b.ConnectionsMax = -1, 0 }), `backend gpu-1: connections-max: invalid number "0": use a whole number from 1 to 100000`},
		{backend(func(b *Backend) { b.Connections = 0 }), `backend gpu-1: connections: invalid number "0": use a whole number from 1 to 100000`},
		{backend(func(b *Backend) { b.Warm = 33 }), `backend gpu-1: warm: invalid number "33": use a whole number from 0 to the cap of 32 connections`},
		{backend(func(b *Backend) { b.Weight = math.NaN() }), `backend gpu-1: weight: invalid number "NaN": use a number from 0 to 1000`},
		{backend(func(b *Backend) { b.Weight = 0 }), ""},
		{backend(func(b *Backend) { b.State = "drain" }), `backend gpu-1: state: unknown state "drain": did you mean "draining"? Use one of enabled, draining, disabled`},
		{backend(func(b *Backend) { b.Labels = map[string]string{"a b": "x"} }), `backend gpu-1: labels: invalid label name "a b"`},
		{backend(func(b *Backend) { b.Labels = map[string]string{"zone": "a\nb"} }), `backend gpu-1: labels: zone: invalid value "a\nb"`},
		{backend(func(b *Backend) { b.Headers = map[string]string{"X Y": "x"} }), `backend gpu-1: headers: invalid header name "X Y"`},
		{backend(func(b *Backend) { b.Headers = map[string]string{"Sec-WebSocket-Key": "x"} }), `backend gpu-1: headers: Sec-WebSocket-Key: the proxy itself sets this header`},
		{backend(func(b *Backend) { b.Headers = map[string]string{"X-Api-Key": "s3cret"} }), `backend gpu-1: headers: X-Api-Key looks like a secret, which is not stored here`},
		{backend(func(b *Backend) { b.Headers = map[string]string{"X-A": "s3cret\r\nX-B: c"} }), `backend gpu-1: headers: X-A: invalid value: use text without control characters`},
		{backend(func(b *Backend) { b.Headers = map[string]string{"X-Api-Key": "env:A-B"} }), `backend gpu-1: headers: X-Api-Key: invalid reference "env:A-B"`},
		{backend(func(b *Backend) { b.Headers = map[string]string{"X-Api-Key": "file:"} }), `backend gpu-1: headers: X-Api-Key: invalid reference "file:"`},
		{backend(func(b *Backend) { b.TLSCA = "/ca.pem" }), `backend gpu-1: tls-ca: only a wss URL can use it`},
		{backend(func(b *Backend) { b.URL, b.TLSKey = "wss://gpu-1", "/key.pem" }), `backend gpu-1: tls-certificate: the value is missing: set it together with tls-key`},
		{backend(func(b *Backend) { b.URL, b.TLSCertificate = "wss://gpu-1", "/c.pem" }), `backend gpu-1: tls-key: the value is missing: set it together with tls-certificate`},
		{discovers("ws://stt.svc:2700"), ""},
		{discovers("wss://Stt_1.svc.cluster.local./asr?x=1"), ""},
		{discovers("ws://_stt._tcp.stt.svc/asr"), ""},
		{backend(func(b *Backend) { b.Discover = "DNS" }), `backend gpu-1: discover: unknown way to discover servers "DNS": did you mean "dns"?`},
		{backend(func(b *Backend) { b.DiscoverInterval = 999 * time.Millisecond }), `backend gpu-1: discover-interval: invalid duration "999ms": use a duration from 1s to 720h`},
		{discovers("ws://10.0.0.5:2700"), `backend gpu-1: url: "10.0.0.5" is an IP address, and discover: dns needs a DNS name: use a name, or remove discover`},
		{discovers("ws://[fe80::1%25eth0]:2700"), `backend gpu-1: url: "fe80::1%eth0" is an IP address`},
		{discovers("ws://stt..svc:2700"), `backend gpu-1: url: invalid DNS name "stt..svc": use at most 253 letters, digits, - and _`},
		{discovers("ws://" + strings.Repeat("a", 64) + ".svc:2700"), `with dots between parts of at most 63`},
		{discovers("ws://_stt._tcp.stt.svc:2700"), `backend gpu-1: url: invalid port "2700": the SRV records of _stt._tcp.stt.svc tell the port: remove it`},
		{discovers("ws://_stt.svc"), `backend gpu-1: url: invalid SRV name "_stt.svc": use _SERVICE._PROTOCOL.NAME, such as _stt._tcp.example.org`},
		{discovers("wss://_stt._tcp.stt.svc"), `backend gpu-1: tls-server-name: the value is missing: no certificate is for the SRV name _stt._tcp.stt.svc`},
		{inKubernetes("ws://stt-servers:2700"), ""},
		{inKubernetes("ws://stt-servers.speech:2700"), ""},
		{inKubernetes("wss://stt-servers.speech.svc.cluster.local./asr"), ""},
		{inKubernetes("ws://10.0.0.5:2700"), `backend gpu-1: url: "10.0.0.5" is an IP address, and discover: kubernetes needs a DNS name`},
		{inKubernetes("ws://stt.example.org:2700"), `backend gpu-1: url: "stt.example.org" does not name a Service of Kubernetes: use NAME, NAME.NAMESPACE or NAME.NAMESPACE.svc`},
		{inKubernetes("ws://_stt._tcp.stt:2700"), `backend gpu-1: url: "_stt._tcp.stt" does not name a Service of Kubernetes`},
		{inKubernetes("ws://Stt:2700"), `backend gpu-1: url: "Stt" does not name a Service of Kubernetes`},
		{inKubernetes("ws://stt..svc:2700"), `backend gpu-1: url: "stt..svc" does not name a Service of Kubernetes`},
		{backend(func(b *Backend) { b.URL = "ws://_stt._tcp.stt.svc" }), `backend gpu-1: url: "_stt._tcp.stt.svc" is the name of SRV records: set discover to dns to look them up`},
		{func(c *Content) { c.Profiles["echo"] = Profile{"from: one-shot\n"} }, `profile echo: "echo" is a built-in profile`},
		{func(c *Content) { c.Profiles["own"] = Profile{} }, `profile own: yaml: the value is missing`},
		{func(c *Content) { c.Profiles["own"] = Profile{"\xff\n"} }, `profile own: yaml: invalid UTF-8`},
		{func(c *Content) { c.Profiles["own"] = Profile{strings.Repeat("a:\n", 30_000)} }, `profile own: yaml: the profile has 90000 bytes: use at most 65536`},
		{func(c *Content) {
			for name, b := range c.Backends {
				b.Weight = 0
				c.Backends[name] = b
			}
		}, `service stt: the weights of all its backends are 0`},
		{func(c *Content) {
			service(func(s *Service) { s.Queue = 0 })(c)
			backend(func(b *Backend) { b.Warm = 0 })(c)
		}, `backend gpu-1: warm: 0 needs a queue and a queue-timeout of the service stt`},
	} {
		content := valid()
		c.change(&content)
		err := content.Validate(nil)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("refused: %v", err)
		case c.says == "":
		case err == nil || !strings.Contains(err.Error(), c.says):
			t.Errorf("the error is\n%v\nand should say\n%s", err, c.says)
		case strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "pw@"):
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// TestValidateAll makes sure that one error does not hide another.
func TestValidateAll(t *testing.T) {
	c := valid()
	b := c.Backends["gpu-1"]
	b.Connections, b.State, b.URL = 0, "off", "http://x"
	c.Backends["gpu-1"] = b
	s := c.Services["stt"]
	s.Queue, s.Profile = -1, "none"
	c.Services["stt"] = s
	c.Profiles["own"] = Profile{}
	var problems Problems
	if err := c.Validate(func(string, []byte) error { return errors.New("profiles:3:1: wrong") }); !errors.As(err, &problems) {
		t.Fatalf("the error is %v", err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, string(p.Kind)+" "+p.Name+" "+p.Field)
	}
	want := "profile own yaml, service stt profile, service stt queue, backend gpu-1 url, backend gpu-1 connections, backend gpu-1 state,   "
	if strings.Join(got, ", ") != want {
		t.Errorf("problems are about\n%s\nand should be about\n%s", strings.Join(got, ", "), want)
	}
}

func TestProfilesYAML(t *testing.T) {
	c := valid()
	if c.ProfilesYAML() != nil {
		t.Error("there are no profiles, but YAML")
	}
	c.Set(KindProfile, "b", Values{"yaml": "\n  # why\n  from: echo\n\n  reset:\n    send: x\n\n"})
	c.Set(KindProfile, "a", Values{"yaml": "{from: echo}"})
	want := "profiles:\n  a:\n    {from: echo}\n  b:\n    # why\n    from: echo\n\n    reset:\n      send: x\n"
	if got := string(c.ProfilesYAML()); got != want {
		t.Errorf("profiles are\n%s\nand should be\n%s", got, want)
	}
}

func TestCheckProfiles(t *testing.T) {
	c := valid()
	c.Set(KindProfile, "good", Values{"yaml": "from: echo"})
	c.Set(KindProfile, "heir", Values{"yaml": "from: good"})
	if err := c.Validate(CheckProfiles); err != nil {
		t.Errorf("good profiles: %v", err)
	}
	c.Set(KindProfile, "mine", Values{"yaml": "# a comment\nfrom: echo\nkeepalives: {}\n"})
	err := c.Validate(CheckProfiles)
	if want := `profile mine: yaml: line 3, column 1: `; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "keepalive") {
		t.Errorf("the error is %v and should begin with %s", err, want)
	}
	c.Set(KindProfile, "mine", Values{"yaml": "from: echo"})
	for _, deep := range []string{strings.Repeat("[", 60_000), strings.Repeat("- ", 30_000)} {
		c.Profiles["bomb"] = Profile{deep}
		if err := c.Validate(CheckProfiles); err == nil {
			t.Errorf("a profile of %.2q alone is accepted", deep)
		}
	}
	c.Profiles["bomb"] = Profile{strings.Repeat("a:\n", 30_000)}
	err = c.Validate(func(string, []byte) error {
		t.Error("what a parser should not see was given to one")
		return nil
	})
	if err == nil {
		t.Error("a profile that is too long is accepted")
	}
}
