// Command cmd explores the protocol by which proxies share places, and prints how many states it has.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/wsbouncer/wsbouncer/internal/fleet/explore"
)

func main() {
	var o explore.Options
	flag.IntVar(&o.Proxies, "proxies", 2, "how many proxies")
	flag.IntVar(&o.Cap, "cap", 2, "places of the server")
	flag.IntVar(&o.Faults.Total, "faults", 2, "how many faults of all kinds, apart from losses and restarts")
	flag.IntVar(&o.Faults.Losses, "losses", 1, "how many requests or answers are lost")
	flag.IntVar(&o.Faults.Delays, "delays", 1, "how many reports arrive late")
	flag.IntVar(&o.Faults.Crashes, "crashes", 1, "how many proxies crash")
	flag.IntVar(&o.Faults.Restarts, "restarts", 1, "how many proxies start in the place of another")
	flag.IntVar(&o.Faults.Cuts, "cuts", 1, "how many proxies are cut off from the database")
	flag.IntVar(&o.Faults.Timeouts, "timeouts", 0, "how many grant time-outs pass")
	flag.IntVar(&o.Faults.Forgets, "forgets", 1, "how many proxies an operator forgets")
	flag.IntVar(&o.Faults.Databases, "databases", 1, "how often the database restarts or fails over")
	flag.IntVar(&o.Faults.Lost, "lost", 1, "how many commits a failover can lose")
	flag.IntVar(&o.Live, "live", 1, "of how many states one is checked for recovery")
	flag.IntVar(&o.Most, "states", 0, "give up after so many states")
	flag.Parse()
	o.Progress = os.Stderr
	r := explore.Explore(o)
	fmt.Println(r)
	if r.Wrong != "" {
		os.Exit(1)
	}
}
