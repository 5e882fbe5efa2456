// clients/go/rlockd.go for the conformance kit.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"conformance/rlockd"
)

type command struct {
	Do     string
	ID     int
	Lock   string
	Also   []string
	Kind   string
	WaitMS int64 `json:"wait_ms"`
	TTLMS  int64 `json:"ttl_ms"`
}

// A work is what a lease is for: it goes on until its end is asked for, or its lease is lost.
type work struct {
	ctx    context.Context // of the wait
	stop   context.CancelFunc
	end    chan struct{}
	isTold bool // of the loss
	lease  *rlockd.Lease
}

var (
	output  sync.Mutex
	works   = map[int]*work{}
	clients = map[int64]*rlockd.Client{}
)

func tell(event string, id int, members map[string]any) {
	output.Lock()
	defer output.Unlock()
	line := map[string]any{"event": event, "id": id}
	for name, value := range members {
		line[name] = value
	}
	if json.NewEncoder(os.Stdout).Encode(line) != nil {
		os.Exit(1)
	}
}

func (w *work) run(c command, client *rlockd.Client) {
	options := rlockd.Options{
		Wait: time.Duration(c.WaitMS) * time.Millisecond, Kind: c.Kind, Also: c.Also}
	err := client.Do(w.ctx, c.Lock, options,
		func(ctx context.Context, lease *rlockd.Lease) error {
			output.Lock()
			w.lease = lease
			output.Unlock()
			tell("held", c.ID, map[string]any{"fencing_token": lease.FencingToken})
			select {
			case <-ctx.Done():
				w.isTold = true
				tell("lost", c.ID, nil)
				return context.Cause(ctx)
			case <-w.end:
				return nil
			}
		})
	switch {
	case w.isTold && errors.Is(err, rlockd.ErrLost):
	case err == nil:
		tell("released", c.ID, nil)
	case errors.Is(err, rlockd.ErrLost):
		tell("lost", c.ID, nil)
	case errors.Is(err, context.Canceled):
		tell("cancelled", c.ID, nil)
	case errors.Is(err, rlockd.ErrNotAcquired):
		tell("busy", c.ID, nil)
	default:
		tell("failed", c.ID, map[string]any{"detail": err.Error()})
	}
}

func (w *work) isHeld() bool {
	output.Lock()
	defer output.Unlock()
	return w.lease != nil && w.lease.Check() == nil
}

func do(c command) {
	switch w := works[c.ID]; c.Do {
	case "acquire":
		client := clients[c.TTLMS]
		if client == nil {
			client = rlockd.New("")
			client.TTL = time.Duration(c.TTLMS) * time.Millisecond
			clients[c.TTLMS] = client
		}
		w = &work{end: make(chan struct{})}
		w.ctx, w.stop = context.WithCancel(context.Background())
		works[c.ID] = w
		go w.run(c, client)
	case "release":
		close(w.end)
	case "cancel":
		w.stop()
	default:
		tell("status", c.ID, map[string]any{"held": w.isHeld()})
	}
}

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		do(c)
	}
}
