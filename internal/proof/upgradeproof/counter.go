//go:build linux

package upgradeproof

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/lab/sim"
)

// counter counts the connections of servers as their kernel sees them: from the first packet of the handshake until it has seen the end of both
// sides. Its methods may be called from any goroutine.
type counter struct {
	ports   map[string]int // hexadecimal, as the kernel writes them; static
	stop    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex
	highest []int // guarded by mu: by server
}

// counted are the states of TCP that count (include/net/tcp_states.h): established, SYN received, FIN wait 1 and 2.
var counted = []string{"01", "03", "04", "05"}

// countInterval is the time between two counts.
const countInterval = 50 * time.Millisecond

func startCounter(servers []*sim.Server) *counter {
	c := &counter{ports: make(map[string]int), stop: make(chan struct{}), stopped: make(chan struct{}), highest: make([]int, len(servers))}
	for i, s := range servers {
		c.ports[strings.ToUpper(pad(strconv.FormatInt(int64(s.Addr().Port), 16)))] = i
	}
	go func() {
		defer close(c.stopped)
		ticker := time.NewTicker(countInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				c.count()
			case <-c.stop:
				return
			}
		}
	}()
	return c
}

func pad(port string) string { return strings.Repeat("0", 4-len(port)) + port }

// count looks at all sockets of the machine twice. The kernel tells of them one after the other, and meanwhile connections come and go, so one
// look may show more than there are at any time. Those that both looks show were all there between the two.
func (c *counter) count() {
	first, second := c.look(), c.look()
	now := make([]int, len(c.highest))
	for peer, server := range first {
		if again, ok := second[peer]; ok && again == server {
			now[server]++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range now {
		c.highest[i] = max(c.highest[i], n)
	}
}

// look returns the servers of the connections, by both ends.
func (c *counter) look() map[string]int {
	all := make(map[string]int)
	file, err := os.Open("/proc/net/tcp")
	if err != nil {
		return all
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !slices.Contains(counted, fields[3]) {
			continue
		}
		_, port, _ := strings.Cut(fields[1], ":")
		if i, ok := c.ports[port]; ok {
			all[fields[1]+" "+fields[2]] = i
		}
	}
	return all
}

// most returns the most connections that each server has had.
func (c *counter) most() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.highest)
}

func (c *counter) end() {
	close(c.stop)
	<-c.stopped
}
