package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Listeners makes the TLS configurations of the proxy's listeners, and keeps them up to date: certificates are renewed by replacing their
// files. Any goroutine may call its methods; Run is called once.
//
// What is bad when the files are read again (a key that does not fit, an expired certificate in place of a valid one) is not used: what was read before
// stays in force, and Status and the log say so. A file that is bad, or on a mount that hangs, does not keep others from being renewed.
type Listeners struct {
	// Static.
	log      *slog.Logger
	now      func() time.Time
	issuer   Issuer // nil for none
	all      []*Listener
	requests chan []ListenerSettings // of size one: the latest settings, see Reload

	inForce atomic.Pointer[inForce]

	// Owned by NewListeners, and then by run.
	tickets  tickets
	stamps   map[string]os.FileInfo // of the files, when they were read last; nil for one that cannot be read
	failing  int                    // how often in a row something was wrong
	since    time.Time              // when that began
	reported string                 // the failure that was reported; empty for none
	loaded   time.Time              // when something was read that is in force now
	warned   time.Time              // when the log was last warned about certificates that expire
	looked   time.Time              // when poll last looked at them
}

// inForce is what the methods for any goroutine report. It is immutable.
type inForce struct {
	certificates []*certificate // of all listeners, each file once
	loaded       time.Time
	failure      string
	since        time.Time
}

// Listener is the TLS of one listener.
type Listener struct {
	config atomic.Pointer[tls.Config] // in force

	// Owned as those of Listeners are.
	settings ListenerSettings // wanted
	used     ListenerSettings // in force: those wanted last of which nothing was missing
	certs    []*certificate
	clientCA map[string][]*x509.Certificate // by file
}

// pollInterval is the time between two looks at the files. Only what the file system says of them is read each time.
const pollInterval = 5 * time.Second

// NewListeners reads the files of all listeners. An error names each setting and file that is wrong, and why. A certificate that has expired is
// not wrong: it is used, since a restart must not make it worse, and Warnings names it. issuer is nil for none.
func NewListeners(log *slog.Logger, issuer Issuer, settings ...ListenerSettings) (*Listeners, error) {
	return newListeners(log, issuer, time.Now, settings)
}

func newListeners(log *slog.Logger, issuer Issuer, now func() time.Time, settings []ListenerSettings) (*Listeners, error) {
	l := &Listeners{log: log, issuer: issuer, now: now, requests: make(chan []ListenerSettings, 1)}
	l.tickets.rotate(now())
	var problems []error
	for i := range settings {
		one := &Listener{settings: settings[i]}
		l.all = append(l.all, one)
		problems = append(problems, l.read(one)...)
	}
	if err := joined(problems); err != nil {
		return nil, err
	}
	l.loaded, l.warned, l.looked = now(), now(), now()
	l.stamp()
	l.publish("")
	return l, nil
}

// joined joins errors, each once: several listeners may use the same file.
func joined(problems []error) error {
	var texts []string
	var once []error
	for _, err := range problems {
		if !slices.Contains(texts, err.Error()) {
			texts, once = append(texts, err.Error()), append(once, err)
		}
	}
	return errors.Join(once...)
}

// Listener returns the TLS of a listener, by the place of its settings.
func (l *Listeners) Listener(i int) *Listener { return l.all[i] }

// Config returns the configuration for a new connection. The caller must not change it.
func (l *Listener) Config() *tls.Config { return l.config.Load() }

// read reads the files of a listener, and puts in force what can be: if something of the wanted settings is missing, the files of those in force.
// It returns what is wrong.
func (l *Listeners) read(one *Listener) []error {
	problems, complete := l.use(one, one.settings)
	if !complete && one.config.Load() != nil {
		more, _ := l.use(one, one.used)
		problems = append(problems, more...)
	}
	return problems
}

// use reads the files of settings, and puts these in force. What is bad is replaced by what was in force from the same file before. If there is
// none, the settings are not complete, and nothing changes. It returns what is wrong.
func (l *Listeners) use(one *Listener, settings ListenerSettings) (problems []error, complete bool) {
	complete = true
	var certs []*certificate
	for _, pair := range settings.Certificates {
		c, err := pair.read()
		i := slices.IndexFunc(one.certs, func(c *certificate) bool { return c.pair == pair })
		if err == nil && i >= 0 && one.certs[i].invalid(l.now()) == "" {
			if text := c.invalid(l.now()); text != "" { // without another one, clients that do not look are served
				err = errors.New(text)
			}
		}
		if err != nil {
			problems = append(problems, err)
			if i < 0 {
				complete = false
				continue
			}
			c = one.certs[i]
		}
		certs = append(certs, c)
	}
	clientCA := make(map[string][]*x509.Certificate)
	for _, path := range settings.ClientCA {
		authorities, err := readClientCA(path)
		if err != nil {
			problems = append(problems, err)
			if authorities = one.clientCA[path]; authorities == nil {
				complete = false
				continue
			}
		}
		clientCA[path] = authorities
	}
	if len(settings.Certificates) == 0 && l.issuer == nil { // new settings need a restart, perhaps
		problems, complete = append(problems, errors.New("tls-cert: a listener has no certificate")), false
	}
	if !complete {
		return problems, false
	}
	one.used, one.certs, one.clientCA = settings, certs, clientCA
	config := &tls.Config{
		GetCertificate: newChoice(certs, l.issuer).get,
		MinVersion:     settings.MinVersion,
		NextProtos:     []string{"http/1.1"}, // WebSocket over HTTP/2 is not supported
		// Small first records are for browsers that show the beginning of a page early. The proxy writes data as it arrives.
		DynamicRecordSizingDisabled: true,
	}
	if l.issuer != nil {
		config.NextProtos = append(config.NextProtos, ChallengeProtocol)
	}
	if settings.ClientAuth != NoClientCertificate {
		config.ClientAuth = tls.VerifyClientCertIfGiven
		if settings.ClientAuth == RequiredClientCertificate {
			config.ClientAuth = tls.RequireAndVerifyClientCert
		}
		config.ClientCAs = x509.NewCertPool()
		for _, authorities := range clientCA {
			for _, authority := range authorities {
				config.ClientCAs.AddCert(authority)
			}
		}
	}
	config = ForServer(config)
	l.tickets.give(config)
	one.config.Store(config)
	return problems, true
}

// stamp notes what the file system says of the files.
func (l *Listeners) stamp() {
	stamps := make(map[string]os.FileInfo)
	for _, one := range l.all {
		for _, path := range one.settings.files() {
			stamps[path], _ = stat(path)
		}
	}
	l.stamps = stamps
}

// changed reports whether the file system says anything else of the files than when they were read.
func (l *Listeners) changed() bool {
	for path, was := range l.stamps {
		is, err := stat(path)
		if (err != nil) != (was == nil) {
			return true
		}
		if err == nil && (!os.SameFile(is, was) || is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime())) {
			return true
		}
	}
	return false
}

// lastRead is how long Run waits for a file that is being read when it is to end.
const lastRead = time.Second

// Run looks at the files, renews the keys of tickets, and warns of certificates that expire, until ctx ends. A mount that hangs then does not hold it up.
func (l *Listeners) Run(ctx context.Context) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	<-ctx.Done()
	select {
	case <-ended:
	case <-time.After(lastRead):
	}
}

func (l *Listeners) run(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.poll()
		case settings := <-l.requests:
			l.readAgain(settings, true)
		case <-ctx.Done():
			return
		}
	}
}

// poll does what is due.
func (l *Listeners) poll() {
	if l.failing > 0 || l.changed() {
		l.readAgain(nil, false)
	}
	now := l.now()
	if l.tickets.rotate(now) {
		for _, one := range l.all {
			l.tickets.give(one.config.Load())
		}
	}
	all := l.inForce.Load().certificates
	expired := func(c *certificate) bool { return c.invalid(now) != "" && c.invalid(l.looked) == "" }
	if now.Sub(l.warned) >= 24*time.Hour || slices.ContainsFunc(all, expired) {
		l.warned = now
		for _, text := range expiring(all, now) {
			l.log.Warn(text)
		}
	}
	l.looked = now
}

// Reload has Run read the files at once, with new settings, one for each listener. If a listener's new settings name something that is bad,
// its former settings stay in force, and the log and Status say why.
func (l *Listeners) Reload(settings []ListenerSettings) {
	for {
		select {
		case l.requests <- settings:
			return
		default:
		}
		select {
		case <-l.requests: // an older one
		default:
		}
	}
}

// readAgain reads all files. A failure is reported at once, or, since a certificate and its key cannot be replaced in one step, only
// when it lasts. settings is nil for those in force.
func (l *Listeners) readAgain(settings []ListenerSettings, atOnce bool) {
	for i := range settings {
		l.all[i].settings = settings[i]
	}
	l.stamp() // before reading: a change in between is seen later
	var problems []error
	renewed := false
	for _, one := range l.all {
		before := one.certs
		problems = append(problems, l.read(one)...)
		renewed = renewed || !slices.EqualFunc(before, one.certs, same)
	}
	now := l.now()
	if renewed {
		l.loaded = now
		l.log.Info("TLS certificates loaded", "certificates", strings.Join(l.describe(), "; "))
	}
	l.report(now, joined(problems), atOnce)
}

// same reports whether two certificates, with those of their authorities, are the same.
func same(a, b *certificate) bool {
	return slices.EqualFunc(a.Certificate.Certificate, b.Certificate.Certificate, slices.Equal)
}

// report notes whether something is wrong with the files.
func (l *Listeners) report(now time.Time, err error, atOnce bool) {
	if err == nil {
		if l.reported != "" {
			l.log.Info("TLS files are in order again")
		}
		l.failing, l.reported, l.since = 0, "", time.Time{}
		l.publish("")
		return
	}
	if l.failing++; l.failing == 1 {
		l.since = now
	}
	if l.failing == 1 && !atOnce {
		l.publish("")
		return
	}
	failure := strings.ReplaceAll(err.Error(), "\n", "; ")
	if failure != l.reported || atOnce {
		l.reported = failure
		l.log.Error("TLS files are bad: what was read before stays in force", "error", failure)
	}
	l.publish(failure)
}

// publish makes what was read known.
func (l *Listeners) publish(failure string) {
	f := &inForce{certificates: l.certificates(), loaded: l.loaded, failure: failure}
	if failure != "" {
		f.since = l.since
	}
	l.inForce.Store(f)
}

// describe says which certificates are in force.
func (l *Listeners) describe() (texts []string) {
	for _, c := range l.certificates() {
		texts = append(texts, fmt.Sprintf("%s until %s", c.pair.Certificate, clock(c.Leaf.NotAfter)))
	}
	return texts
}

// certificates returns the certificates of all listeners, each file once.
func (l *Listeners) certificates() (all []*certificate) {
	for _, one := range l.all {
		for _, c := range one.certs {
			if !slices.ContainsFunc(all, func(other *certificate) bool { return other.pair == c.pair }) {
				all = append(all, c)
			}
		}
	}
	return all
}

// expiring returns a warning for each certificate that expires soon.
func expiring(all []*certificate, now time.Time) (texts []string) {
	for _, c := range all {
		if text := c.expiring(now); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// Warnings returns what is in order, but should not stay so: certificates that expire soon, and private keys that other users can read.
func (l *Listeners) Warnings() []string {
	all := l.inForce.Load().certificates
	texts := expiring(all, l.now())
	for _, c := range all {
		if text := c.pair.exposed(); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// Uncovered returns those of the hosts, which are names in lower case or IP addresses, that no certificate is for.
func (l *Listeners) Uncovered(hosts []string) (without []string) {
	all := l.inForce.Load().certificates
	for _, host := range hosts {
		if l.issuer != nil && l.issuer.Covers(host) {
			continue
		}
		if !slices.ContainsFunc(all, func(c *certificate) bool { return covers(c.names, host) }) {
			without = append(without, host)
		}
	}
	return without
}

// CertificateStatus describes a certificate in force.
type CertificateStatus struct {
	File                string
	Names               []string // that it is for
	NotBefore, NotAfter time.Time
}

// Status says what is in force.
type Status struct {
	Certificates []CertificateStatus
	Loaded       time.Time // when certificates were read that had changed
	Failure      string    // what is wrong with files now; empty for nothing
	Since        time.Time // when that began; zero without a failure
}

// Status returns what is in force.
func (l *Listeners) Status() Status {
	f := l.inForce.Load()
	s := Status{Loaded: f.loaded, Failure: f.failure, Since: f.since}
	for _, c := range f.certificates {
		s.Certificates = append(s.Certificates, CertificateStatus{c.pair.Certificate, c.names, c.Leaf.NotBefore, c.Leaf.NotAfter})
	}
	return s
}
