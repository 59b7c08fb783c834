package app

import (
	"github.com/wsbouncer/wsbouncer/internal/accesslog"
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
