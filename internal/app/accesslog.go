package app

import (
	"math"
	"net/http"

	"github.com/wsbouncer/wsbouncer/internal/session/record"

	"github.com/wsbouncer/wsbouncer/internal/operate/accesslog"
)

// useAccessLog starts the access log that the settings in force ask for, if any, and closes the one before. It is called at the start
// and by Reconfigure.
func (p *Proxy) useAccessLog() {
	var next *accesslog.Log
	if s := p.live.Load(); s.AccessLog != "" {
		next = accesslog.Start(accesslog.Options{
			Path: s.AccessLog, Format: s.AccessLogFormat, Counters: &p.accessLines, Guard: p.guard, Log: p.log,
		})
	}
	if before := p.accessLog.Swap(next); before != nil {
		before.Close()
	}
}

// closeAccessLog ends the access log after the last session.
func (p *Proxy) closeAccessLog() {
	if log := p.accessLog.Load(); log != nil {
		log.Close()
	}
}

// ReopenAccessLog closes the access log's file and opens the one that has its path now. It returns false if there is no access log.
func (p *Proxy) ReopenAccessLog() bool {
	log := p.accessLog.Load()
	if log != nil {
		log.Reopen()
	}
	return log != nil
}

// sessionEnded adds a session that has ended to the access log. It is called on the session's loop.
func (p *Proxy) sessionEnded(r *record.Record) {
	log := p.accessLog.Load()
	if log == nil {
		return
	}
	s := endedSession(r)
	log.Add(accesslog.Entry{
		Ended: s.Ended, ID: s.ID, Service: s.Service, Path: r.Path, Tenant: s.Tenant, Subject: s.Subject, Auth: s.Auth, Key: s.Key, Client: r.Client, Peer: r.Peer,
		Status: http.StatusSwitchingProtocols, Reason: s.Reason, RequestID: s.RequestID, TraceID: s.TraceID,
		Session: &accesslog.Session{
			Backend: s.Backend, Started: s.Started,
			WaitedSeconds: rounded(s.WaitedSeconds), LastedSeconds: rounded(r.Ended.Sub(r.Leased).Seconds()),
			FirstReplySeconds: rounded(s.FirstReplySeconds),
			FramesFromClient:  s.FramesFromClient, BytesFromClient: s.BytesFromClient,
			FramesFromBackend: s.FramesFromBackend, BytesFromBackend: s.BytesFromBackend, Usage: s.Usage,
			By: s.By, Code: s.Code, Class: s.Class, Connection: s.Connection, Fate: s.Fate,
		},
	})
}

// rounded returns seconds without more digits than a clock is good for.
func rounded(seconds float64) float64 { return math.Round(seconds*1e6) / 1e6 }

// clientRefused adds a client that got no session to the access log. Any goroutine calls it.
func (p *Proxy) clientRefused(r *record.Refused) {
	if log := p.accessLog.Load(); log != nil {
		who := record.ShownIdentity(r.Identity)
		log.Add(accesslog.Entry{
			Ended: r.At, ID: r.ID.String(), Service: r.Service, Path: r.Path, Tenant: who.Tenant, Subject: who.Subject, Auth: who.Method, Key: who.Key, Client: r.Client, Peer: r.Peer, Status: r.Status, Reason: r.Reason,
			RequestID: r.RequestID, TraceID: r.TraceID,
		})
	}
}
