package discovery

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/testkit/kubetest"
	"github.com/wsbouncer/wsbouncer/internal/testkit/wstest"
)

// cluster is a Discovery that asks an API server for the Service stt.
type cluster struct {
	*rig
	api *kubetest.Server
	q   Question
}

func newCluster(t *testing.T) *cluster {
	api := kubetest.Start(t)
	return &cluster{
		rig: newRig(t, func(o *Options) { o.Kubernetes = &Kubernetes{URL: api.URL, Account: api.Account} }),
		api: api, q: Question{Host: "stt", Port: 2700, Service: "stt"},
	}
}

// pods sets the EndpointSlice stt-a.
func (c *cluster) pods(change func(*kubetest.Slice), ready ...string) {
	s := kubetest.Slice{Namespace: "speech", Name: "stt-a", Service: "stt", Port: 2700, Ready: ready}
	if change != nil {
		change(&s)
	}
	c.api.Set(s)
}

func (c *cluster) watch() { c.Watch(map[string]Watched{"gpu": {c.q, 10 * time.Millisecond}}) }

// await waits until exactly these are the servers.
func (c *cluster) await(t *testing.T, what string, want ...string) {
	t.Helper()
	wstest.Eventually(t, what, func() bool {
		servers, _ := c.Servers("gpu", c.q)
		var got []string
		for _, s := range servers {
			got = append(got, s.Address.String())
		}
		return slices.Equal(got, want)
	})
}

// awaitReason waits until lookups fail for a reason.
func (c *cluster) awaitReason(t *testing.T, want string) {
	t.Helper()
	var last string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last reason was %q", last)
		}
	})
	wstest.Eventually(t, want, func() bool {
		now, _ := c.Status("gpu")
		last = now.Reason
		return strings.Contains(now.Reason, want)
	})
}

// TestEndpointSlices: servers come and go with the next event: pods that are not ready or about to end, and slices that are deleted.
func TestEndpointSlices(t *testing.T) {
	c := newCluster(t)
	c.pods(func(s *kubetest.Slice) { s.Unready, s.Terminating = []string{"10.0.0.8"}, []string{"10.0.0.9"} }, "10.0.0.2", "10.0.0.1")
	c.api.Set(kubetest.Slice{Namespace: "speech", Name: "other", Service: "tts", Port: 2700, Ready: []string{"10.0.1.1"}})
	c.api.Set(kubetest.Slice{Namespace: "else", Name: "stt-a", Service: "stt", Port: 2700, Ready: []string{"10.0.2.1"}})
	c.watch()
	c.await(t, "the pods that are ready", "10.0.0.1:2700", "10.0.0.2:2700")
	c.api.Set(kubetest.Slice{Namespace: "speech", Name: "stt-b", Service: "stt", Port: 2700, Ready: []string{"10.0.0.3", "10.0.0.2"}})
	c.await(t, "a second slice, one of whose pods the first has too", "10.0.0.1:2700", "10.0.0.2:2700", "10.0.0.3:2700")
	c.pods(func(s *kubetest.Slice) { s.Terminating = []string{"10.0.0.1"} }, "10.0.0.2")
	c.await(t, "one is about to end", "10.0.0.2:2700", "10.0.0.3:2700")
	c.pods(func(s *kubetest.Slice) { s.Unready = []string{"10.0.0.2"} }, "10.0.0.1")
	c.await(t, "the first is back; the second is not ready in one slice, and ready in the other", "10.0.0.1:2700", "10.0.0.2:2700", "10.0.0.3:2700")
	c.api.Delete("speech", "stt-b")
	c.await(t, "the second slice is deleted", "10.0.0.1:2700")
	c.pods(func(s *kubetest.Slice) { s.Unready = []string{"10.0.0.1"} })
	c.awaitReason(t, "no pod of the Service stt in the namespace speech is ready")
	c.await(t, "the last one stays", "10.0.0.1:2700")
	c.pods(nil, "10.0.0.4")
	c.await(t, "another one replaces it", "10.0.0.4:2700")
	if lists, _ := c.api.Asked(); lists != 1 {
		t.Errorf("%d lists: the watch should have been enough", lists)
	}
	if now, _ := c.Status("gpu"); !now.Failing.IsZero() || now.Reason != "" {
		t.Errorf("the status is %+v", now)
	}
}

// TestFamilies: IPv6 addresses count where there is no IPv4 address, and the Service may be in another namespace.
func TestFamilies(t *testing.T) {
	c := newCluster(t)
	c.q.Namespace, c.q.Host = "else", "stt.else"
	six := kubetest.Slice{Namespace: "else", Name: "stt-6", Service: "stt", AddressType: "IPv6", Port: 2700, Ready: []string{"fd00::1"}}
	c.api.Set(six)
	c.api.Set(kubetest.Slice{Namespace: "else", Name: "stt-f", Service: "stt", AddressType: "FQDN", Port: 2700, Ready: []string{"a.example.org"}})
	c.watch()
	c.await(t, "IPv6 only", "[fd00::1]:2700")
	six.Name, six.Ready = "stt-7", []string{"fd00::2", "fd00::3"}
	c.api.Set(six)
	c.await(t, "a second slice with IPv6", "[fd00::1]:2700", "[fd00::2]:2700", "[fd00::3]:2700")
	c.api.Set(kubetest.Slice{Namespace: "else", Name: "stt-4", Service: "stt", Ready: []string{"10.0.0.1"}})
	c.await(t, "both; the slice with IPv4 has no ports", "10.0.0.1:2700")
}

// TestWatchEnds: a watch that ends is continued where it ended, without a list, and one whose version is forgotten begins anew with a list.
func TestWatchEnds(t *testing.T) {
	c := newCluster(t)
	c.pods(nil, "10.0.0.1")
	c.watch()
	c.await(t, "the first", "10.0.0.1:2700")
	asked := func(what string, lists, watches int) {
		t.Helper()
		wstest.Eventually(t, what, func() bool {
			l, w := c.api.Asked()
			return l == lists && w == watches
		})
	}
	asked("it is watched", 1, 1)
	c.api.Bookmark() // an event, without which the end would be one at the beginning
	c.pods(nil, "10.0.0.2")
	c.await(t, "the second", "10.0.0.2:2700")
	c.api.End()
	asked("the watch is continued", 1, 2)
	c.pods(nil, "10.0.0.3")
	c.await(t, "the third, in the next watch", "10.0.0.3:2700")
	c.api.Forget()
	asked("410 Gone in a watch leads to a list", 2, 3)
	c.pods(nil, "10.0.0.4")
	c.await(t, "the fourth", "10.0.0.4:2700")
	c.api.Fail(503)
	c.awaitReason(t, "the API server answers 503 Service Unavailable: ")
	c.pods(nil, "10.0.0.5")
	c.api.Forget()
	c.await(t, "the known one stays", "10.0.0.4:2700")
	c.api.Fail(0)
	c.await(t, "a list has what came meanwhile", "10.0.0.5:2700")
}

// TestRefused: what is wrong with the account, the Service or its port is named, and the token is read again.
func TestRefused(t *testing.T) {
	c := newCluster(t)
	if err := os.WriteFile(filepath.Join(c.api.Account, "token"), []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.watch()
	c.awaitReason(t, "the API server answers 401 Unauthorized: Unauthorized")
	c.api.Fail(403)
	c.api.SetToken("renewed")
	c.awaitReason(t, "the API server answers 403 Forbidden: endpointslices.discovery.k8s.io is forbidden")
	c.api.Fail(0)
	c.awaitReason(t, "the namespace speech has no EndpointSlice of a Service stt")
	c.pods(func(s *kubetest.Slice) { s.Port = 80 }, "10.0.0.1")
	c.awaitReason(t, "the pods of the Service stt in the namespace speech have the ports 80, and the URL has 2700")
	c.pods(nil, "10.0.0.1")
	c.await(t, "all is well", "10.0.0.1:2700")
}

// TestNoPod: outside a pod, and without its account, the reason says what is missing.
func TestNoPod(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	q := Question{Host: "stt", Port: 2700, Service: "stt"}
	if _, err := newService(nil, q); err == nil || !strings.Contains(err.Error(), "this process runs in no pod of Kubernetes") {
		t.Errorf("outside a pod: %v", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	k, err := inPod()
	if err != nil || k.URL != "https://10.96.0.1:443" {
		t.Errorf("in a pod: %+v, %v", k, err)
	}
	k.Account = t.TempDir()
	if _, err := newService(k, q); err == nil || !strings.Contains(err.Error(), "the pod's service account: open "+k.Account+"/namespace") {
		t.Errorf("without an account: %v", err)
	}
	for _, name := range []string{"namespace", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(k.Account, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newService(k, q); err == nil || !strings.Contains(err.Error(), "ca.crt has no certificate") {
		t.Errorf("without a certificate: %v", err)
	}
}
