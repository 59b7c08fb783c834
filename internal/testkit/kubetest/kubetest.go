// Package kubetest has the API server of a Kubernetes cluster for tests, as far as it lists and watches EndpointSlices.
package kubetest

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Server is an API server on loopback, over TLS. Its methods may be called from any goroutine.
type Server struct {
	URL     string
	Account string // folder of the service account that it knows, whose namespace is "speech"
	t       testing.TB

	mu      sync.Mutex
	token   string           // guarded by mu: that requests need
	version int              // guarded by mu: of the last change
	oldest  int              // guarded by mu: versions before it are forgotten
	slices  map[string]Slice // guarded by mu: by namespace and name
	events  []event          // guarded by mu
	failing int              // guarded by mu: status of all answers; 0 for none
	watches map[*watch]bool  // guarded by mu
	asked   map[string]int   // guarded by mu: how often, by "list" and "watch"
	changed chan struct{}    // guarded by mu: closed at the next change
}

// Slice is an EndpointSlice.
type Slice struct {
	Namespace, Name, Service string
	AddressType              string // default IPv4
	Port                     int    // 0 for none
	Ready                    []string
	Unready, Terminating     []string
}

type event struct {
	version int
	kind    string
	slice   Slice
}

// watch is a request that is answered until it ends.
type watch struct{ end chan string } // of size one; gets "" or the code of an error

// Start starts a server, which ends with the test.
func Start(t testing.TB) *Server {
	s := &Server{
		t: t, Account: t.TempDir(), version: 100, slices: make(map[string]Slice), watches: make(map[*watch]bool), asked: make(map[string]int),
		changed: make(chan struct{}),
	}
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true // as real ones
	server.StartTLS()
	t.Cleanup(func() {
		s.End()
		server.Close()
	})
	s.URL = server.URL
	s.write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	s.write("namespace", "speech")
	s.SetToken("of-the-test")
	return s
}

func (s *Server) write(name, text string) {
	if err := os.WriteFile(filepath.Join(s.Account, name), []byte(text), 0o600); err != nil {
		s.t.Error(err)
	}
}

// SetToken changes the token that requests need, and that the account has.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
	s.write("token", token+"\n")
}

// Set adds an EndpointSlice, or changes it.
func (s *Server) Set(slice Slice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "ADDED"
	if _, known := s.slices[slice.key()]; known {
		kind = "MODIFIED"
	}
	s.slices[slice.key()] = slice
	s.note(kind, slice)
}

// Delete deletes an EndpointSlice.
func (s *Server) Delete(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Slice{Namespace: namespace, Name: name}.key()
	slice := s.slices[key]
	delete(s.slices, key)
	s.note("DELETED", slice)
}

func (s Slice) key() string { return s.Namespace + "/" + s.Name }

// note is called with mu held.
func (s *Server) note(kind string, slice Slice) {
	s.version++
	s.events = append(s.events, event{s.version, kind, slice})
	s.wake()
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Bookmark tells all watches the present version.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note("BOOKMARK", Slice{})
}

// Forget forgets all versions before the present one, as a server does after some minutes: watches end with 410 Gone, and later ones that begin
// with such a version are refused with it.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.oldest, s.events = s.version, nil
	s.end("410")
}

// End ends all watches, as a server does after timeoutSeconds.
func (s *Server) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end("")
}

// end is called with mu held.
func (s *Server) end(code string) {
	for w := range s.watches {
		select {
		case w.end <- code:
		default:
		}
	}
}

// Fail has all requests answered with a status, and ends all watches, until it is called with 0.
func (s *Server) Fail(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing = status; status != 0 {
		s.end("")
	}
}

// Asked returns how many lists and watches were asked for.
func (s *Server) Asked() (lists, watches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked["list"], s.asked["watch"]
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	token, failing, version, oldest := s.token, s.failing, s.version, s.oldest
	s.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.Path, "/apis/discovery.k8s.io/v1/namespaces/")
	namespace, resource, _ := strings.Cut(path, "/")
	service, selects := strings.CutPrefix(r.URL.Query().Get("labelSelector"), "kubernetes.io/service-name=")
	switch {
	case r.Method != http.MethodGet || !ok || resource != "endpointslices" || !selects:
		refuse(w, http.StatusNotFound, "the server could not find the requested resource")
	case r.Header.Get("Authorization") != "Bearer "+token:
		refuse(w, http.StatusUnauthorized, "Unauthorized")
	case failing != 0:
		refuse(w, failing, "endpointslices.discovery.k8s.io is forbidden")
	case r.URL.Query().Get("watch") == "":
		s.list(w, namespace, service)
	default:
		from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		switch {
		case err != nil || from > version:
			refuse(w, http.StatusBadRequest, "invalid resource version")
		case from < oldest:
			s.count("watch")
			refuse(w, http.StatusGone, "too old resource version")
		default:
			s.watch(w, r, namespace, service, from)
		}
	}
}

func (s *Server) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[what]++
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "code": code, "message": message})
}

func (s *Server) list(w http.ResponseWriter, namespace, service string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked["list"]++
	items := []any{}
	for _, key := range slices.Sorted(maps.Keys(s.slices)) {
		if slice := s.slices[key]; slice.Namespace == namespace && slice.Service == service {
			items = append(items, slice.object(s.version))
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "EndpointSliceList", "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.version)}, "items": items,
	})
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, namespace, service string, from int) {
	own := &watch{make(chan string, 1)}
	s.mu.Lock()
	s.asked["watch"]++
	s.watches[own] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, own)
	}()
	w.Header().Set("Content-Type", "application/json")
	flush := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	for {
		s.mu.Lock()
		events, changed := s.events, s.changed
		s.mu.Unlock()
		for _, e := range events {
			mine := e.slice.Namespace == namespace && e.slice.Service == service
			if e.version <= from || !mine && e.kind != "BOOKMARK" {
				continue
			}
			from = e.version
			_ = encoder.Encode(map[string]any{"type": e.kind, "object": e.slice.object(e.version)})
		}
		_ = flush.Flush()
		select {
		case <-changed:
		case code := <-own.end:
			if code != "" {
				_ = encoder.Encode(map[string]any{"type": "ERROR", "object": map[string]any{"kind": "Status", "code": http.StatusGone, "message": "too old"}})
			}
			return
		case <-r.Context().Done():
			return
		}
	}
}

// object returns the EndpointSlice as the API has it.
func (s Slice) object(version int) map[string]any {
	endpoints := []any{}
	add := func(addresses []string, ready, serving, terminating bool) {
		for _, address := range addresses {
			endpoints = append(endpoints, map[string]any{
				"addresses": []string{address}, "conditions": map[string]bool{"ready": ready, "serving": serving, "terminating": terminating},
			})
		}
	}
	add(s.Ready, true, true, false)
	add(s.Unready, false, false, false)
	add(s.Terminating, false, true, true)
	ports := []any{}
	if s.Port != 0 {
		ports = append(ports, map[string]any{"name": "ws", "port": s.Port, "protocol": "TCP"})
	}
	return map[string]any{
		"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
		"metadata": map[string]any{
			"name": s.Name, "namespace": s.Namespace, "resourceVersion": fmt.Sprint(version),
			"labels": map[string]string{"kubernetes.io/service-name": s.Service},
		},
		"addressType": cmp.Or(s.AddressType, "IPv4"), "endpoints": endpoints, "ports": ports,
	}
}
