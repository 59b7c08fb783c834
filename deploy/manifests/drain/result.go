package main

import (
	"errors"
	"fmt"
	"time"
)

// result is what became of the sessions of a pod that ended.
type result struct {
	kubelet                              *kubelet
	deleted, forgotten, terminated, gone time.Time
	killed                               bool     // the process had to be killed
	left                                 []record // the sessions that ran when the process got SIGTERM, as they were then

	// Of these:
	complete int // ended by themselves
	early    int // were told 1001 before the spread began
	told     []time.Duration
	cut      []error

	after int // sessions that began when the Service had forgotten the pod, and completed or run on the other one
	lost  []error
}

// count fills in what is counted after the end, and prints it.
func (r *result) count() {
	k := r.kubelet
	drain, spread, _ := k.ending.drain() // it was read before
	began := r.closed().Add(drain - spread)
	inTime := 0
	for _, s := range k.clients.on(k.pod, func(s record) bool {
		return s.began.Before(r.terminated) && (s.ended.IsZero() || s.ended.After(r.terminated))
	}) {
		if s.began.Add(s.planned).Before(began) {
			inTime++
		}
		switch s.outcome {
		case complete:
			r.complete++
		case told:
			r.told = append(r.told, s.ended.Sub(r.terminated))
			if s.ended.Before(began) {
				r.early++
			}
		default:
			r.cut = append(r.cut, s.err)
		}
	}
	lost := func(s record) bool { return s.outcome == refused || s.outcome == cut }
	for _, s := range append(k.clients.on(k.pod, lost), k.clients.on(k.other, lost)...) {
		r.lost = append(r.lost, s.err)
	}
	r.after = len(k.clients.on(k.other, func(s record) bool { return s.began.After(r.forgotten) }))

	fmt.Fprintf(k.out, "\nsessions at SIGTERM              %4d\n", len(r.left))
	fmt.Fprintf(k.out, "  ended by themselves            %4d (%d of them were to end before the last %v)\n", r.complete, inTime, spread)
	fmt.Fprintf(k.out, "  told 1001                      %4d", len(r.told))
	if len(r.told) > 0 {
		fmt.Fprintf(k.out, " (from %.1fs to %.1fs after SIGTERM, %d before the last %v)", r.first().Seconds(), r.last().Seconds(), r.early, spread)
	}
	fmt.Fprintf(k.out, "\n  cut                            %4d\n", len(r.cut))
	fmt.Fprintf(k.out, "new sessions on the other pod    %4d\n", r.after)
	fmt.Fprintf(k.out, "refused or cut anywhere          %4d\n", len(r.lost))
	fmt.Fprintf(k.out, "the end took                     %.1fs of %v\n", r.gone.Sub(r.deleted).Seconds(), k.ending.grace)
}

// closed returns when the proxy stopped accepting clients.
func (r *result) closed() time.Time {
	delay, _ := r.kubelet.ending.duration("shutdown-delay", 0) // it was read before
	return r.terminated.Add(delay)
}

func (r *result) first() time.Duration {
	first := r.told[0]
	for _, d := range r.told {
		first = min(first, d)
	}
	return first
}

func (r *result) last() time.Duration {
	last := r.told[0]
	for _, d := range r.told {
		last = max(last, d)
	}
	return last
}

// verdict returns what must not be.
func (r *result) verdict() error {
	var errs []error
	if r.killed {
		errs = append(errs, errors.New("the process did not end within the grace period"))
	} else if status := r.kubelet.pod.process.State().ExitCode(); status != 0 {
		errs = append(errs, fmt.Errorf("the process ended with status %d", status))
	}
	if n := len(r.cut); n > 0 {
		errs = append(errs, fmt.Errorf("%d sessions were cut, such as: %w", n, r.cut[0]))
	}
	if n := len(r.lost); n > 0 {
		errs = append(errs, fmt.Errorf("%d sessions were refused or cut, such as: %w", n, r.lost[0]))
	}
	if r.early > 0 {
		errs = append(errs, fmt.Errorf("%d sessions were told 1001 before the last part of the drain time", r.early))
	}
	if late := r.kubelet.clients.on(r.kubelet.pod, func(s record) bool { return s.began.After(r.closed()) }); len(late) > 0 {
		errs = append(errs, fmt.Errorf("%d sessions went to a pod that no longer accepted clients", len(late)))
	}
	return errors.Join(errs...)
}
