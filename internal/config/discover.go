package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/wsbouncer/wsbouncer/internal/ground/spelling"
)

// The values of discover: who knows which servers stand behind the host of a backend's URL.
const (
	DiscoverDNS        = "dns"
	DiscoverKubernetes = "kubernetes" // the EndpointSlices of the Service that the host names
)

var discovering = []string{DiscoverDNS, DiscoverKubernetes}

// Discovers reports whether the backend stands for all servers behind the host of its URL.
func (b *Backend) Discovers() bool { return b.Discover != "" }

// IsServiceName reports whether a host is looked up for SRV records (RFC 2782), which tell hosts and ports, instead of addresses.
// Such a name begins with _ in its first two labels: _stt._tcp.example.org.
func IsServiceName(host string) bool { return strings.HasPrefix(host, "_") }

// ServerAt is [ServerOf] for a server that was found at an address: the same as for a URL that has this address as its host.
func ServerAt(text string, address netip.AddrPort) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	return address.String() + u.RequestURI()
}

func checkDiscover(text string) error {
	if text != "" && !slices.Contains(discovering, text) {
		return spelling.Unknown("way to discover servers", text, discovering)
	}
	return nil
}

// kubernetesName is the name of a Service or of a namespace.
var kubernetesName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// KubernetesService returns the Service that a host names, and its namespace; that is empty if the host leaves it open. ok is false if the
// host is not NAME, NAME.NAMESPACE, or such a name with .svc or .svc.DOMAIN behind it.
func KubernetesService(host string) (name, namespace string, ok bool) {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(labels) > 1 {
		namespace, ok = labels[1], kubernetesName.MatchString(labels[1])
	} else {
		ok = true
	}
	return labels[0], namespace, ok && kubernetesName.MatchString(labels[0]) && (len(labels) < 3 || labels[2] == "svc")
}

// checkDiscovery checks that what is asked for fits the URL, which is valid by itself.
func (b *Backend) checkDiscovery(name string, problems *Problems) {
	u, err := url.Parse(b.URL)
	if err != nil || u.Hostname() == "" {
		return
	}
	host := u.Hostname()
	bad := func(format string, args ...any) { problems.add(KindBackend, name, "url", format, args...) }
	if !b.Discovers() {
		if IsServiceName(host) {
			bad("%q is the name of SRV records: set discover to %s to look them up", host, DiscoverDNS)
		}
		return
	}
	_, notIP := netip.ParseAddr(host)
	_, _, isService := KubernetesService(host)
	switch {
	case notIP == nil:
		bad("%q is an IP address, and discover: %s needs a DNS name: use a name, or remove discover", host, b.Discover)
	case b.Discover == DiscoverKubernetes:
		if !isService {
			bad("%q does not name a Service of Kubernetes: use NAME, NAME.NAMESPACE or NAME.NAMESPACE.svc, such as stt-servers.speech.svc", host)
		}
	case checkDNSName(host) != nil:
		bad("%v", checkDNSName(host))
	case !IsServiceName(host):
	case !isServiceNameComplete(host):
		bad("invalid SRV name %q: use _SERVICE._PROTOCOL.NAME, such as _stt._tcp.example.org", host)
	case u.Port() != "":
		bad("invalid port %q: the SRV records of %s tell the port: remove it", u.Port(), host)
	case u.Scheme == "wss" && b.TLSServerName == "" && !b.TLSInsecureSkipVerify:
		problems.add(KindBackend, name, "tls-server-name", "the value is missing: no certificate is for the SRV name %s", host)
	}
}

// isServiceNameComplete reports whether two labels that begin with _ stand before at least one that does not.
func isServiceNameComplete(host string) bool {
	labels := strings.Split(host, ".")
	return len(labels) > 2 && len(labels[0]) > 1 && len(labels[1]) > 1 && IsServiceName(labels[1]) && !IsServiceName(labels[2])
}

// checkDNSName checks the limits of RFC 1035, section 2.3.4. It allows _, which SRV records need, and capital letters.
func checkDNSName(name string) error {
	const most, mostOfLabel = 253, 63
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	tooLong := slices.ContainsFunc(labels, func(label string) bool { return label == "" || len(label) > mostOfLabel })
	if tooLong || len(name) > most || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return fmt.Errorf("invalid DNS name %q: use at most %d letters, digits, - and _, with dots between parts of at most %d", name, most, mostOfLabel)
	}
	return nil
}
