package app

import (
	"fmt"

	"github.com/wsbouncer/wsbouncer/internal/operate/admin"
	"github.com/wsbouncer/wsbouncer/internal/operate/api"
)

// actions returns what operators do to services and backends over the admin API.
func (p *Proxy) actions() admin.Actions {
	return admin.Actions{
		Pause: func(service string) (api.Outcome, error) {
			queue, err := p.services.Pause(service)
			if err != nil {
				return api.Outcome{}, err
			}
			text := fmt.Sprintf("service %s is paused: %s", service, count(queue.Waiting, "1 client waits", "%d clients wait"))
			if queue.Limit == 0 {
				text = fmt.Sprintf("service %s is paused: new clients are refused, since it has no queue", service)
			}
			return api.Outcome{Text: text, Sessions: queue.Waiting}, nil
		},
		Resume: func(service string) (api.Outcome, error) {
			queue, err := p.services.Resume(service)
			if err != nil {
				return api.Outcome{}, err
			}
			return api.Outcome{Text: fmt.Sprintf("service %s is resumed: %s", service, count(queue.Waiting, "1 client waited", "%d clients waited")), Sessions: queue.Waiting}, nil
		},
		Recycle: func(backend string) (api.Outcome, error) {
			n, err := p.services.Recycle(backend)
			if err != nil {
				return api.Outcome{}, err
			}
			return api.Outcome{Text: fmt.Sprintf("backend %s is recycled: %s", backend, count(n, "its connection is replaced as it comes free", "its %d connections are replaced as they come free")), Sessions: n}, nil
		},
	}
}

// count returns one for 1, and otherwise many with the number.
func count(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf(many, n)
}
