package sim

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
)

// Servers publish how many sessions they take at once, and how many they have, over HTTP at the port of their WebSocket. The profile of each says
// where, and from what source that is known.

// publisher returns what a server of a protocol answers to a request for a path; empty if it has nothing there.
type publisher func(path string, total, used int) (body string)

// defaultTotal is how many sessions a server publishes that has no limit.
const defaultTotal = 64

// Publish sets how many sessions the server says that it takes at once; 0 for as many as its limit. With a negative number, it publishes nothing.
func (s *Server) Publish(total int) { s.total.Store(int64(total)) }

// publish answers a plain request for what the server publishes. It returns false for any other.
func (s *Server) publish(nc net.Conn, request *http.Request) bool {
	if s.protocol.publishes == nil || request.Header.Get("Upgrade") != "" {
		return false
	}
	total := cmp.Or(int(s.total.Load()), s.options.Nasty.Full, s.options.Sessions, defaultTotal)
	body := s.protocol.publishes(request.URL.Path, total, s.slots.stats().Connections)
	switch {
	case body == "":
		return false
	case total < 0:
		_, _ = nc.Write([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
		return true
	}
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	return true
}

func moshiModules(path string, total, used int) string {
	if path != "/api/modules_info" {
		return ""
	}
	const module = `{"type":"%s","path":"%s","used_slots":"%d","total_slots":"%d"}`
	return fmt.Sprintf("["+module+","+module+"]", "batched_asr", "/api/asr-streaming", used, total, "py", "/api/tts_streaming", used, total)
}

func vllmMetrics(path string, _, used int) string {
	if path != "/metrics" {
		return ""
	}
	return fmt.Sprintf("# HELP vllm:websocket_connections_active Number of currently active WebSocket connections.\n"+
		"# TYPE vllm:websocket_connections_active gauge\nvllm:websocket_connections_active %d.0\n", used)
}

func sglangInfo(path string, total, _ int) string {
	if path != "/server_info" {
		return ""
	}
	return fmt.Sprintf(`{"model_path":"sim","asr_max_concurrent_sessions":%d,"internal_states":[]}`, total)
}

func realtimeSTTCapacity(path string, total, used int) string {
	switch path {
	case "/api/v1/capabilities":
		return fmt.Sprintf(`{"apiVersion":"v1","limits":{"maxSessions":%d,"maxActiveSpeakers":%d}}`, total, total)
	case "/api/v1/live":
		return fmt.Sprintf(`{"apiVersion":"v1","status":"live","activeSessions":%d}`, used)
	}
	return ""
}

func deepgramMetrics(path string, total, used int) string {
	if path != "/metrics" {
		return ""
	}
	return fmt.Sprintf("# TYPE engine_estimated_stream_capacity gauge\nengine_estimated_stream_capacity %d\n"+
		"# TYPE engine_active_requests gauge\nengine_active_requests{kind=\"batch\"} 0\nengine_active_requests{kind=\"stream\"} %d\n", total, used)
}
