package load

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	var times Times
	if times.Count() != 0 || times.Quantile(0.5) != 0 || times.Max() != 0 || times.Mean() != 0 || times.Curve() != nil {
		t.Error("the zero value is not empty")
	}
	times.clear()
	times.add(Times{})
	if times.histogram != nil {
		t.Error("nothing takes memory")
	}
	for i := range 1000 {
		times.Record(int64(i+1) * int64(time.Millisecond))
	}
	near := func(what string, got, want time.Duration) {
		if got < want*997/1000 || got > want*1003/1000 {
			t.Errorf("%s is %s; want %s", what, got, want)
		}
	}
	near("the median", times.Quantile(0.5), 500*time.Millisecond)
	near("the mean", times.Mean(), 500500*time.Microsecond)
	near("the longest", times.Max(), time.Second)
	curve := times.Curve()
	for i, step := range curve {
		near("a step of the curve", step.Time, times.Quantile(step.Quantile))
		if i > 0 && (step.Quantile < curve[i-1].Quantile || step.Time < curve[i-1].Time) {
			t.Errorf("step %d of the curve goes back: %v", i, curve)
		}
	}
	if last := curve[len(curve)-1]; last.Quantile != 1 || last.Time != times.Max() {
		t.Errorf("the curve ends with %v", last)
	}
	var sum Times
	sum.add(times)
	sum.add(times)
	times.clear()
	if sum.Count() != 2000 || times.Count() != 0 || times.histogram == nil {
		t.Errorf("%d in the sum, %d left", sum.Count(), times.Count())
	}
	times.Record(-5)
	times.Record(int64(2 * time.Hour))
	if times.Count() != 2 || times.Max() < time.Hour*999/1000 {
		t.Errorf("%d, the longest %s", times.Count(), times.Max())
	}
}
