package backend

// news is what others have told the worker since its last look.
type news struct {
	spoiled   int    // connections lost on probation
	cause     string // why the last of them was lost
	served    bool   // a connection has come to serve a session
	ended     bool   // a session ended well
	full      int    // sessions that the server refused because it is full
	broken    int    // sessions broken since the last that ended well
	breaking  string // how the last of them was
	renewed   bool   // it is dialed in another way from now on
	probeDown bool   // the last verdict of the probe; not taken away by the look
}

// tell gives the worker news.
func (w *worker[C]) tell(f func(*news)) {
	w.mu.Lock()
	f(&w.news)
	w.mu.Unlock()
	poke(w.wanted)
}

// lostOnProbation notes that a connection was lost soon after it was established, and before it served a session.
func (w *worker[C]) lostOnProbation(reason string) {
	w.tell(func(n *news) { n.spoiled, n.cause = n.spoiled+1, reason })
}

// served notes that a connection has come to serve a session.
func (w *worker[C]) served() {
	if w.mu.Lock(); w.news.served {
		w.mu.Unlock()
		return
	}
	w.news.served = true
	w.mu.Unlock()
	if !w.report.get().Reachable {
		poke(w.wanted)
	}
}

// renew notes that the backend is dialed in another way from now on. What was told of the old way is forgotten.
func (w *worker[C]) renew() {
	w.tell(func(n *news) {
		n.renewed = true
		n.spoiled, n.broken = 0, 0
	})
}

// probeEnded notes that the probe that there was speaks no more, and whether another one will.
func (w *worker[C]) probeEnded(another bool) {
	w.report.noProbe()
	if !another {
		w.tell(func(n *news) { n.probeDown = false })
	}
}

// probed notes the verdict of the active probe.
func (w *worker[C]) probed(up bool, reason string) {
	w.report.setProbe(up, reason)
	w.tell(func(n *news) { n.probeDown = !up })
}
