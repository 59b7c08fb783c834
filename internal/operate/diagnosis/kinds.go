package diagnosis

import (
	"time"

	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// Kind is a stable identifier of a kind of problem, for programs, alerts and docs/troubleshoot.md.
type Kind string

// The kinds of problems. Their order is that in which problems that hurt the same people are shown.
const (
	// Of the process.
	Shortage        Kind = "shortage"
	InternalError   Kind = "internal-error"
	ProcessorsBusy  Kind = "processors-busy"
	ReplayMemory    Kind = "replay-memory"
	DiskFull        Kind = "disk-full"
	DiskLow         Kind = "disk-low"
	AccessLogLosing Kind = "access-log-losing"
	ClockJumped     Kind = "clock-jumped"
	ProxyDraining   Kind = "proxy-draining"

	// Of services and their clients.
	ServiceDown       Kind = "service-down"
	ServiceDegraded   Kind = "service-degraded"
	ServiceQueueFull  Kind = "service-queue-full"
	TenantFillsQueue  Kind = "tenant-fills-queue"
	ServicePaused     Kind = "service-paused"
	ServiceWaiting    Kind = "service-waiting"
	ServiceNearlyFull Kind = "service-nearly-full"
	FailoverFailed    Kind = "failover-failed"
	FailoverUseless   Kind = "failover-useless"
	SessionsFailing   Kind = "sessions-failing"
	LimitReached      Kind = "limit-reached"
	Refusals          Kind = "refusals"

	// Of backends.
	BackendHung          Kind = "backend-hung"
	BackendStalled       Kind = "backend-stalled"
	BackendRefusing      Kind = "backend-refusing"
	BackendWrongProtocol Kind = "backend-wrong-protocol"
	BackendUnreachable   Kind = "backend-unreachable"
	BackendFailing       Kind = "backend-failing"
	BackendProbe         Kind = "backend-probe"
	BackendCanary        Kind = "backend-canary"
	BackendEjected       Kind = "backend-ejected"
	BackendFlapping      Kind = "backend-flapping"
	BackendSlow          Kind = "backend-slow"
	BackendLate          Kind = "backend-late"
	BackendFull          Kind = "backend-full"
	BackendCapacity      Kind = "backend-capacity"
	BackendNoServers     Kind = "backend-no-servers"
	BackendLookup        Kind = "backend-lookup"
	BackendAddresses     Kind = "backend-addresses"
	CanaryDoubtful       Kind = "canary-doubtful"
	BackendOverGranted   Kind = "backend-over-granted"
	BackendNoPlace       Kind = "backend-no-place"
	BackendDraining      Kind = "backend-draining"
	BackendDisabled      Kind = "backend-disabled"

	// Of the configuration, TLS, and the fleet.
	CertificateExpired   Kind = "certificate-expired"
	CertificateExpiring  Kind = "certificate-expiring"
	CertificateMissing   Kind = "certificate-missing"
	CertificateRefused   Kind = "certificate-refused"
	TLSFiles             Kind = "tls-files"
	FleetWaiting         Kind = "fleet-waiting"
	FleetUnreachable     Kind = "fleet-unreachable"
	FleetUnshared        Kind = "fleet-unshared"
	FleetFrozen          Kind = "fleet-frozen"
	FleetProxyMissing    Kind = "fleet-proxy-missing"
	FleetProxy           Kind = "fleet-proxy"
	ConfigurationStale   Kind = "configuration-stale"
	ConfigurationCopied  Kind = "configuration-copied"
	ConfigurationUnsaved Kind = "configuration-unsaved"
)

// nature is what is true of all problems of a kind.
type nature struct {
	kind  Kind
	level string
	hurts string
	// hold is for how long it must be true before it is named: longer where spikes are normal.
	hold time.Duration
}

// natures has every kind, in the order of the constants.
var natures = []nature{
	{Shortage, api.LevelFailure, api.HurtsClients, brief},
	{InternalError, api.LevelFailure, api.HurtsSoon, 0},
	{ProcessorsBusy, api.LevelWarning, api.HurtsSoon, lasting},
	{ReplayMemory, api.LevelFailure, api.HurtsSoon, brief},
	{DiskFull, api.LevelWarning, api.HurtsOperator, 0},
	{DiskLow, api.LevelWarning, api.HurtsOperator, brief},
	{AccessLogLosing, api.LevelWarning, api.HurtsOperator, 0},
	{ClockJumped, api.LevelWarning, api.HurtsOperator, 0},
	{ProxyDraining, api.LevelWarning, api.HurtsOperator, 0},

	{ServiceDown, api.LevelFailure, api.HurtsClients, brief},
	{ServiceDegraded, api.LevelFailure, api.HurtsSoon, brief},
	{ServiceQueueFull, api.LevelFailure, api.HurtsClients, brief},
	{TenantFillsQueue, api.LevelFailure, api.HurtsClients, brief},
	{ServicePaused, api.LevelWarning, api.HurtsClients, 0},
	{ServiceWaiting, api.LevelWarning, api.HurtsClients, brief},
	{ServiceNearlyFull, api.LevelWarning, api.HurtsSoon, lasting},
	{FailoverFailed, api.LevelFailure, api.HurtsClients, 0},
	{FailoverUseless, api.LevelWarning, api.HurtsOperator, 0},
	{SessionsFailing, api.LevelFailure, api.HurtsClients, lasting},
	{LimitReached, api.LevelWarning, api.HurtsClients, 0},
	{Refusals, api.LevelWarning, api.HurtsClients, lasting},

	{BackendHung, api.LevelFailure, api.HurtsClients, 0},
	{BackendStalled, api.LevelFailure, api.HurtsClients, 0},
	{BackendRefusing, api.LevelFailure, api.HurtsSoon, brief},
	{BackendWrongProtocol, api.LevelFailure, api.HurtsSoon, brief},
	{BackendUnreachable, api.LevelFailure, api.HurtsSoon, brief},
	{BackendFailing, api.LevelFailure, api.HurtsSoon, brief},
	{BackendProbe, api.LevelFailure, api.HurtsSoon, brief},
	{BackendCanary, api.LevelFailure, api.HurtsSoon, 0},
	{BackendEjected, api.LevelFailure, api.HurtsSoon, 0},
	{BackendFlapping, api.LevelFailure, api.HurtsClients, 0},
	{BackendSlow, api.LevelWarning, api.HurtsClients, brief},
	{BackendLate, api.LevelWarning, api.HurtsSoon, 0},
	{BackendFull, api.LevelWarning, api.HurtsSoon, brief},
	{BackendCapacity, api.LevelWarning, api.HurtsSoon, lasting},
	{BackendNoServers, api.LevelFailure, api.HurtsSoon, brief},
	{BackendLookup, api.LevelWarning, api.HurtsSoon, brief},
	{BackendAddresses, api.LevelWarning, api.HurtsOperator, brief},
	{CanaryDoubtful, api.LevelWarning, api.HurtsOperator, 0},
	{BackendOverGranted, api.LevelWarning, api.HurtsOperator, brief},
	{BackendNoPlace, api.LevelWarning, api.HurtsOperator, brief},
	{BackendDraining, api.LevelWarning, api.HurtsOperator, 0},
	{BackendDisabled, api.LevelWarning, api.HurtsOperator, 0},

	{CertificateExpired, api.LevelFailure, api.HurtsClients, 0},
	{CertificateExpiring, api.LevelWarning, api.HurtsSoon, 0},
	{CertificateMissing, api.LevelWarning, api.HurtsClients, brief},
	{CertificateRefused, api.LevelFailure, api.HurtsSoon, 0},
	{TLSFiles, api.LevelFailure, api.HurtsSoon, 0},
	{FleetWaiting, api.LevelFailure, api.HurtsClients, brief},
	{FleetUnreachable, api.LevelFailure, api.HurtsSoon, brief},
	{FleetUnshared, api.LevelFailure, api.HurtsSoon, brief},
	{FleetFrozen, api.LevelWarning, api.HurtsSoon, brief},
	{FleetProxyMissing, api.LevelFailure, api.HurtsSoon, brief},
	{FleetProxy, api.LevelWarning, api.HurtsOperator, brief},
	{ConfigurationStale, api.LevelWarning, api.HurtsOperator, brief},
	{ConfigurationCopied, api.LevelWarning, api.HurtsOperator, brief},
	{ConfigurationUnsaved, api.LevelWarning, api.HurtsOperator, brief},
}

// How long something must be true before it is named.
const (
	brief   = 3 * time.Second  // what a server that is restarted, or a burst of clients, causes
	lasting = 10 * time.Second // what a busy minute causes
)

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, len(natures))
	for i := range natures {
		all[i] = natures[i].kind
	}
	return all
}

// rankOf returns the place of a kind among all; behind them for one of a newer proxy.
func rankOf(kind string) int {
	for i := range natures {
		if string(natures[i].kind) == kind {
			return i
		}
	}
	return len(natures)
}

func natureOf(kind Kind) nature { return natures[rankOf(string(kind))] }
