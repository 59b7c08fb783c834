//go:build linux

package backends

import (
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// FarAway puts a slow network in front of an address, and returns the address of the slow network. Data takes the given time in
// each direction. A TCP handshake takes no time, because it is completed on this side.
func FarAway(address string, eachWay time.Duration) (far string, stop func(), err error) {
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	network := toxiproxy.NewProxy(api, "far", "127.0.0.1:0", address)
	if err := network.Start(); err != nil {
		return "", nil, err
	}
	for _, direction := range []string{"upstream", "downstream"} {
		_, err := network.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
			`{"name": %q, "type": "latency", "stream": %[1]q, "toxicity": 1, "attributes": {"latency": %d}}`, direction, eachWay.Milliseconds())))
		if err != nil {
			network.Stop()
			return "", nil, err
		}
	}
	return network.Listen, network.Stop, nil
}
