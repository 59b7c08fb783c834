package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/ground/tasks"
)

// Kubernetes is the API of a cluster, and the service account as which this process asks it.
type Kubernetes struct {
	// URL is the API server's, such as https://10.96.0.1:443.
	URL string
	// Account is the folder with the account's files: token, ca.crt and namespace. They are read again and again, since they change.
	Account string
}

// inPod returns the API that every pod is offered.
func inPod() (*Kubernetes, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("this process runs in no pod of Kubernetes: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	return &Kubernetes{URL: "https://" + net.JoinHostPort(host, port), Account: "/var/run/secrets/kubernetes.io/serviceaccount"}, nil
}

const (
	// watchTime is how long a watch lasts at least, and half as long again at most, before another one follows it.
	watchTime = 5 * time.Minute
	// pingAfter and pongWithin bound how long a dead connection to the API server stays unnoticed.
	pingAfter  = 15 * time.Second
	pongWithin = 10 * time.Second
	// relistPause is the time before another list, if only that helps.
	relistPause = time.Second
	// maxList is the longest list, and maxReason the longest text of a refusal, in bytes.
	maxList   = 32 << 20
	maxReason = 4 << 10
)

// errExpired is the error of a watch that cannot continue where the last one ended, since the API server has forgotten what came since.
var errExpired = errors.New("the API server no longer has this version: 410 Gone")

// endpointSlice is what is used of an EndpointSlice (discovery.k8s.io/v1).
type endpointSlice struct {
	Metadata struct {
		Name            string
		ResourceVersion string
	}
	AddressType string
	Endpoints   []struct {
		Addresses  []string
		Conditions struct{ Ready, Terminating *bool }
	}
	Ports []struct{ Port *uint16 }
}

// service asks the API for the EndpointSlices of one Service. It is owned by the goroutine of a watch.
type service struct {
	question  Question
	account   string // folder
	namespace string
	url       string // of the namespace's EndpointSlices
	client    *http.Client
	transport *http.Transport

	slices  map[string]*endpointSlice // by name
	version string                    // of the list, or of the last event
}

// newService returns a service that was asked nothing yet.
func newService(k *Kubernetes, q Question) (*service, error) {
	if k == nil {
		var err error
		if k, err = inPod(); err != nil {
			return nil, err
		}
	}
	s := &service{question: q, account: k.Account, namespace: q.Namespace}
	if s.namespace == "" {
		own, err := s.read("namespace")
		if err != nil {
			return nil, err
		}
		s.namespace = own
	}
	s.url = strings.TrimSuffix(k.URL, "/") + "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(s.namespace) + "/endpointslices"
	trusted := x509.NewCertPool()
	authorities, err := s.read("ca.crt")
	if err != nil {
		return nil, err
	}
	if !trusted.AppendCertsFromPEM([]byte(authorities)) {
		return nil, fmt.Errorf("%s has no certificate", filepath.Join(k.Account, "ca.crt"))
	}
	s.transport = &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pongWithin},
		ResponseHeaderTimeout: lookupTimeout, TLSHandshakeTimeout: lookupTimeout,
		DialContext: (&net.Dialer{Timeout: lookupTimeout}).DialContext,
	}
	s.client = &http.Client{Transport: s.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s, nil
}

// read returns the content of a file of the service account.
func (s *service) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.account, name))
	if err != nil {
		return "", fmt.Errorf("the pod's service account: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// get asks for the EndpointSlices of the Service. The caller closes the body.
func (s *service) get(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	token, err := s.read("token")
	if err != nil {
		return nil, err
	}
	query.Set("labelSelector", "kubernetes.io/service-name="+s.question.Service)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	var refusal status
	_ = json.NewDecoder(io.LimitReader(answer.Body, maxReason)).Decode(&refusal)
	refusal.Code = answer.StatusCode
	return nil, refusal.err()
}

// status is how the API server refuses something, in an answer or in an event.
type status struct {
	Code    int
	Message string
}

func (s *status) err() error {
	if s.Code == http.StatusGone {
		return errExpired
	}
	return fmt.Errorf("the API server answers %d %s: %s", s.Code, http.StatusText(s.Code), s.Message)
}

// list reads all EndpointSlices.
func (s *service) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	body, err := s.get(ctx, url.Values{})
	if err != nil {
		return err
	}
	defer body.Close()
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []*endpointSlice
	}
	if err := json.NewDecoder(io.LimitReader(body, maxList)).Decode(&list); err != nil {
		return fmt.Errorf("the list of EndpointSlices: %w", err)
	}
	s.slices, s.version = make(map[string]*endpointSlice), list.Metadata.ResourceVersion
	for _, item := range list.Items {
		s.slices[item.Metadata.Name] = item
	}
	return nil
}

// watch follows the EndpointSlices from the last version on, and calls changed after each change. It returns nil when the API server ends the
// watch, which can then be continued, or [errExpired] if only a list helps.
func (s *service) watch(ctx context.Context, changed func()) error {
	lasts := watchTime + rand.N(watchTime/2)
	ctx, cancel := context.WithTimeout(ctx, lasts+lookupTimeout)
	defer cancel()
	body, err := s.get(ctx, url.Values{
		"watch": {"true"}, "resourceVersion": {s.version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(int(lasts.Seconds()))},
	})
	if err != nil {
		return err
	}
	defer body.Close()
	began, decoder := time.Now(), json.NewDecoder(body)
	for events := 0; ; events++ {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		switch err := decoder.Decode(&event); {
		case err == nil:
		case events == 0 && time.Since(began) < time.Second: // or this would run in a circle
			return fmt.Errorf("the API server ended the watch at its beginning: %w", err)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		default:
			return fmt.Errorf("watching EndpointSlices: %w", err)
		}
		if event.Type == "ERROR" {
			var refusal status
			_ = json.Unmarshal(event.Object, &refusal)
			return refusal.err()
		}
		object := new(endpointSlice)
		if err := json.Unmarshal(event.Object, object); err != nil {
			return fmt.Errorf("an event %s of EndpointSlices: %w", event.Type, err)
		}
		s.version = object.Metadata.ResourceVersion
		switch event.Type {
		case "ADDED", "MODIFIED":
			s.slices[object.Metadata.Name] = object
		case "DELETED":
			delete(s.slices, object.Metadata.Name)
		default: // BOOKMARK
			continue
		}
		changed()
	}
}

// servers returns the endpoints that take new sessions: those that are ready, and are not about to end. Those with an IPv6 address count only if
// there is none with an IPv4 address, since one that has both has an endpoint for each.
func (s *service) servers() (list []Server, err error) {
	if len(s.slices) == 0 {
		return nil, fmt.Errorf("the namespace %s has no EndpointSlice of a Service %s", s.namespace, s.question.Service)
	}
	var others []string // ports
	found := false
	for _, family := range []string{"IPv4", "IPv6"} {
		if found { // in the slices with IPv4
			break
		}
		for _, e := range s.slices {
			if e.AddressType != family {
				continue
			}
			if ports, ok := e.has(s.question.Port); !ok {
				others = append(others, ports...)
				continue
			}
			for i := range e.Endpoints {
				found = true
				if address, ok := e.ready(i); ok {
					list = append(list, Server{netip.AddrPortFrom(address, s.question.Port), 1})
				}
			}
		}
	}
	switch {
	case len(list) > 0:
		return unique(list), nil
	case !found && len(others) > 0:
		slices.Sort(others)
		return nil, fmt.Errorf("the pods of the Service %s in the namespace %s have the ports %s, and the URL has %d", s.question.Service, s.namespace,
			strings.Join(slices.Compact(others), ", "), s.question.Port)
	}
	return nil, fmt.Errorf("no pod of the Service %s in the namespace %s is ready", s.question.Service, s.namespace)
}

// has reports whether the endpoints have a port, and which they have instead. A slice without ports has all.
func (e *endpointSlice) has(port uint16) (others []string, ok bool) {
	for _, p := range e.Ports {
		if p.Port == nil || *p.Port == port {
			return nil, true
		}
		others = append(others, strconv.Itoa(int(*p.Port)))
	}
	return others, len(e.Ports) == 0
}

// ready returns the address of an endpoint, if it takes new sessions.
func (e *endpointSlice) ready(i int) (address netip.Addr, ok bool) {
	endpoint := &e.Endpoints[i]
	c := &endpoint.Conditions
	if c.Ready != nil && !*c.Ready || c.Terminating != nil && *c.Terminating || len(endpoint.Addresses) == 0 {
		return address, false
	}
	address, err := netip.ParseAddr(endpoint.Addresses[0]) // all of them lead to the same pod
	return address, err == nil
}

// follow keeps the servers of a Service of Kubernetes current until something fails or ctx ends. The caller calls it again.
func (w *watch) follow(ctx context.Context) {
	defer w.o.Guard.Recover("EndpointSlices of backend "+w.backend, nil)
	s, err := newService(w.o.Kubernetes, w.question)
	if err == nil {
		defer s.transport.CloseIdleConnections()
		err = s.follow(ctx, func() { w.take(s.servers()) })
	}
	if ctx.Err() == nil {
		w.failed(err, nil)
	}
}

// follow lists the EndpointSlices and watches them until something fails. It calls changed after the list and after each change.
func (s *service) follow(ctx context.Context, changed func()) error {
	for {
		if err := s.list(ctx); err != nil {
			return err
		}
		changed()
		var err error
		for err == nil {
			err = s.watch(ctx, changed)
		}
		if !errors.Is(err, errExpired) || !tasks.Sleep(ctx, relistPause) {
			return err
		}
	}
}
