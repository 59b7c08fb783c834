//go:build linux

package reconnectproof

import (
	"strings"
	"testing"
	"time"
)

// upgrading are the options of a proof with upgrades.
func upgrading(duration, upgrade time.Duration, kill bool) Options {
	o := Options{Proxies: 1, Upgrade: upgrade, Kill: kill}
	o.Duration = duration
	return o
}

// Where clients come to one proxy only, nothing is proven of the others.
func TestValidate(t *testing.T) {
	for _, test := range []struct {
		o    Options
		want string
	}{
		{Options{Proxies: 1}, ""},
		{Options{Proxies: 3, HAProxy: "haproxy", Redirect: true}, ""},
		{Options{Proxies: 10, HAProxy: "haproxy"}, "proxies: 10 is out of range"},
		{Options{Proxies: 3}, "proxies: clients would use the first of 3 only"},
		{Options{Proxies: 1, HAProxy: "haproxy", Redirect: true}, "redirect: a single proxy"},
		{upgrading(time.Minute, 59*time.Second, false), ""},
		{upgrading(time.Minute, 2*time.Minute, false), "upgrade: 2m0s is out of range"},
		{upgrading(time.Minute, time.Minute, false), "upgrade: 1m0s is out of range"},
		{upgrading(time.Minute, 30*time.Second, true), "upgrade: 30s is out of range: things happen for 30s"},
		{upgrading(time.Minute, 20*time.Second, true), ""},
	} {
		if err := test.o.Validate(); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: want %q; got %v", test.o, test.want, err)
		}
	}
}

// Clients must get to their sessions in the way that the proof is about.
func TestJudge(t *testing.T) {
	forwards, redirects := Options{Proxies: 3}, Options{Proxies: 3, Redirect: true}
	upgraded := redirects
	upgraded.Upgrade = time.Second
	for _, test := range []struct {
		o          Options
		cuts       int
		redirected int64
		forwarded  uint64
		want       string
	}{
		{forwards, 9, 0, 1, ""},
		{forwards, 9, 0, 0, "no client came back by way of another proxy"},
		{forwards, 9, 1, 1, "1 clients were redirected"},
		{forwards, 0, 0, 0, ""},
		{redirects, 9, 1, 0, ""},
		{redirects, 9, 0, 0, "no client was redirected"},
		{redirects, 9, 0, 6, "no client was redirected"},
		{redirects, 9, 5, 1, "1 clients were forwarded"},
		{upgraded, 9, 5, 1, ""},
		{Options{Proxies: 1}, 9, 0, 0, ""},
	} {
		if err := test.o.judge(test.cuts, test.redirected, test.forwarded); test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%+v: want %q; got %v", test, test.want, err)
		}
	}
}
