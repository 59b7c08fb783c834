package main

import (
	"github.com/wsbouncer/wsbouncer/bench/channelpool"
	"github.com/wsbouncer/wsbouncer/bench/naivepool"
	"github.com/wsbouncer/wsbouncer/bench/pools/rival"
)

// design is a pool to compare.
type design struct {
	name  string
	begin func(rival.Settings) rival.Pool
}

// ours is the name of the design that the others are compared with.
const ours = "wsbouncer"

// designs are the pools that are compared.
var designs = []design{
	{"naivepool", func(s rival.Settings) rival.Pool { return naivepool.New(s) }},
	{"channelpool", func(s rival.Settings) rival.Pool { return channelpool.New(s) }},
	{ours, func(s rival.Settings) rival.Pool { return newBouncer(s) }},
}
