package main

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/wsbouncer/wsbouncer/internal/proof/kit"
)

// kubelet ends a pod. Its fields are static.
type kubelet struct {
	ending    ending
	out       io.Writer
	clients   *clients
	endpoints *endpoints
	pod       *pod // which ends
	other     *pod
}

// end does what happens when a pod is deleted: the preStop hook runs, then the process gets SIGTERM, and SIGKILL if it is still there at the
// end of the grace period. Meanwhile the Service forgets the pod.
func (k *kubelet) end(ctx context.Context) (*result, error) {
	r := &result{kubelet: k, deleted: time.Now()}
	k.say(r, "the pod is deleted; preStop begins")
	forget := time.NewTimer(k.ending.forget)
	defer forget.Stop()
	terminate := time.NewTimer(k.ending.preStop)
	defer terminate.Stop()
	kill := time.NewTimer(k.ending.grace)
	defer kill.Stop()
	progress := time.NewTicker(k.ending.grace / 10)
	defer progress.Stop()
	for r.gone.IsZero() {
		select {
		case <-forget.C:
			k.endpoints.remove(k.pod)
			r.forgotten = time.Now()
			k.say(r, "the Service has forgotten it")
		case <-terminate.C:
			r.left = k.clients.on(k.pod, isRunning)
			r.terminated = time.Now()
			if err := k.pod.process.Signal(syscall.SIGTERM); err != nil {
				return nil, err
			}
			k.say(r, "SIGTERM")
		case <-progress.C:
			k.say(r, "")
		case <-kill.C:
			r.killed = true
			k.say(r, "SIGKILL")
			k.pod.process.Kill()
		case <-k.pod.process.Ended():
			r.gone = time.Now()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// Clients read the last close frames, and begin again elsewhere.
	if err := kit.Wait(ctx, time.Second); err != nil {
		return nil, err
	}
	k.say(r, fmt.Sprintf("the process has ended (%v)", k.pod.process.State()))
	r.count()
	return r, nil
}

// say prints what happens, and how many sessions each pod has.
func (k *kubelet) say(r *result, what string) {
	ready := "ready"
	if !k.pod.isReady(context.Background()) {
		ready = "not ready"
	}
	fmt.Fprintf(k.out, "%7.1fs  %s: %3d sessions, %-9s  %s: %3d sessions  %s\n", time.Since(r.deleted).Seconds(),
		k.pod.name, len(k.clients.on(k.pod, isRunning)), ready, k.other.name, len(k.clients.on(k.other, isRunning)), what)
}
