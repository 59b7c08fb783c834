package services

import (
	"io"
	"net"
	"net/http"
	"sync"
)

// relayTo passes an upgrade request, and what follows it, on to another server.
func relayTo(w http.ResponseWriter, req *http.Request, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if req.Write(server) != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(server, buffered)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	both.Wait()
}
