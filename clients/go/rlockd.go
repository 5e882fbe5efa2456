// Package rlockd: locks of an rlockd server, for Go 1.24 and later. Version 1. Copy this file.
// A session keeps leases alive in the background. Of rlock's environment it reads RLOCK_URL and
// RLOCK_TOKEN_FILE; Go's RLOCK_CA is SSL_CERT_FILE. With `var locks = rlockd.New("")`:
//
//	err := locks.Do(ctx, "deploy", rlockd.Options{Wait: 30 * time.Second},
//		func(ctx context.Context, lease *rlockd.Lease) error { // ErrNotAcquired: is not called
//			return write(ctx, part, lease.FencingToken) // a loss cancels ctx, cause ErrLost
//		}) // releases the lease, or says ErrLost
package rlockd

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var ErrNotAcquired = errors.New("the wait was in vain, or no server has answered in time")
var ErrLost = errors.New("the lease has ended, or can no longer be proven")

// A Client tries its servers in turn. TTL: how long others wait when this process dies.
type Client struct {
	URLs          []string
	TTL           time.Duration
	HTTP          http.Client
	turn, halved  atomic.Uint32            // the server; how often the longest wait was refused
	opening       chan struct{}            // has one in it while a session is opened
	guard         sync.Mutex               // of what follows, and of leases
	held          map[string]time.Duration // the length of each lease
	session       string                   // its token
	until, proven time.Time                // its end, and when Redis had `left` for each lease
	left          object
}

// Options: Kind is lock, fair, read, write or permit. Also has further locks, all or none.
type Options struct {
	Wait   time.Duration
	Kind   string
	Also   []string
	Fields object // of the API
}
type Lease struct {
	FencingToken int64
	client       *Client
	id, session  string
	since, until time.Time
	lost         error
}
type object = map[string]any

// New takes the URLs of servers, with commas or blanks between them.
func New(urls string) *Client {
	urls = cmp.Or(urls, os.Getenv("RLOCK_URL"), "http://localhost:7400")
	list := strings.Split(strings.Join(strings.Fields(strings.ReplaceAll(urls, ",", " ")), " "), " ")
	return &Client{URLs: list, TTL: 30 * time.Second, opening: make(chan struct{}, 1)}
}

func (c *Client) lock() (unlock func())            { c.guard.Lock(); return c.guard.Unlock }
func (c *Client) current() (string, time.Time)     { defer c.lock()(); return c.session, c.until }
func (c *Client) keeps(id string, d time.Duration) { defer c.lock()(); c.held[id] = d }
func (l *Lease) ends()                             { defer l.client.lock()(); delete(l.client.held, l.id); l.lost = ErrLost }

func as[T any](v any) T       { t, _ := v.(T); return t }
func ms(n any) time.Duration  { return time.Duration(as[float64](n)) * time.Millisecond }
func isFinal(s int) bool      { return s >= 400 && s != 408 && s != 410 && s != 423 && s != 425 && s != 429 }
func isOver(t time.Time) bool { return min(time.Until(t), time.Until(t.Round(0))) <= 0 } // Round: also in a suspend
func newToken() string {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// ask returns status and body. Status 0: no answer of an rlockd; the outcome is unknown.
func (c *Client) ask(ctx context.Context, timeout time.Duration, method, path string,
	h http.Header, fields object) (status int, body object) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	turn := c.turn.Load()
	text, _ := json.Marshal(fields)
	url := strings.TrimRight(c.URLs[int(turn)%len(c.URLs)], "/") + path
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(string(text)))
	secret, failure := os.ReadFile(cmp.Or(os.Getenv("RLOCK_TOKEN_FILE"), os.DevNull))
	if err = cmp.Or(err, failure, ctx.Err()); err == nil {
		if request.Header = h.Clone(); len(secret) > 0 {
			request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
		}
		var response *http.Response
		if response, err = c.HTTP.Do(request); err == nil {
			defer response.Body.Close()
			status, err = response.StatusCode, json.NewDecoder(response.Body).Decode(&body)
			isOwn := strings.HasPrefix(as[string](body["type"]), "urn:rlockd:problem:")
			if err == nil && (status < 300 || status == 401 || status < 500 && isOwn) { // 401: also of a gateway
				return status, body
			}
		}
	}
	c.turn.CompareAndSwap(turn, turn+1)
	return 0, object{"detail": fmt.Sprint("no answer of an rlockd: ", cmp.Or(err, fmt.Errorf("%d %v", status, body["detail"])))}
}

// repeat asks until the answer has the member, and says when it has sent the request.
func (c *Client) repeat(ctx context.Context, until time.Time, member, method, path string,
	h http.Header, fields object) (body object, sent time.Time, err error) {
	for status, wait, late := 0, time.Duration(0), until.Add(time.Second); ; {
		halved := c.halved.Load()
		if sent = time.Now(); method == "PUT" {
			wait = max(0, min(until.Sub(sent), 20*time.Second>>halved))
			fields["wait_ms"] = wait.Milliseconds()
		}
		status, body = c.ask(ctx, wait+5*time.Second, method, path, h, fields)
		switch detail := fmt.Sprint(body["detail"]); {
		case status < 300 && body[member] != nil && (method != "PUT" || !isOver(sent.Add(ms(body["remaining_ms"])/2))):
			return body, sent, nil // of a repetition the deadline is later
		case wait > 0 && strings.HasPrefix(detail, "wait_ms:"):
			c.halved.CompareAndSwap(halved, halved+1)
			continue
		case method == "PUT" && body["type"] == "urn:rlockd:problem:session-ended" &&
			!isOver(late) && c.open(ctx, late, h) == nil: // and again, in another session
		case isFinal(status):
			return body, sent, fmt.Errorf("rlockd refuses this: %d: %v", status, detail)
		case status == 410 || ctx.Err() != nil || isOver(until) && (status >= 300 || isOver(late)):
			return body, sent, errors.Join(fmt.Errorf("%w: %s", ErrNotAcquired, detail), context.Cause(ctx))
		}
		time.Sleep(max(time.Second/10, min(time.Second/2, time.Until(until))))
	}
}

// open gives the header a session, another one than it has, and a token for a lease in it.
func (c *Client) open(ctx context.Context, until time.Time, h http.Header) error {
	ctx, cancel := context.WithDeadlineCause(ctx, until.Add(5*time.Second), errors.New("no session"))
	defer cancel()
	select {
	case c.opening <- struct{}{}:
		defer func() { <-c.opening }()
	case <-ctx.Done(): // so that ask() asks nobody
	}
	session, end := c.current()
	if isOver(end) || session == h.Get("Session-Token") {
		session = newToken()
		own := http.Header{"Session-Token": {session}}
		host, _ := os.Hostname()
		body, sent, err := c.repeat(ctx, until, "session_id", "POST", "/v1/sessions", own, object{
			"ttl_ms": c.TTL.Milliseconds(), "name": fmt.Sprint(host, "/", os.Getpid())})
		if err != nil {
			return err
		}
		defer c.lock()()
		c.session, c.until, c.held = session, sent.Add(ms(body["remaining_ms"])), map[string]time.Duration{}
		go c.keep(session, fmt.Sprintf("/v1/sessions/%s/keep-alive", body["session_id"]), own)
	}
	h["Session-Token"], h["Lease-Token"] = []string{session}, []string{newToken()}
	return nil
}

func (c *Client) keep(session, path string, h http.Header) {
	for s, end, isUrgent := session, time.Now().Add(c.TTL), false; s == session && !isOver(end); s, end = c.current() {
		held, hang, unlock := []string{}, min(5*time.Second, c.TTL/4), c.lock()
		for id, ttl := range c.held {
			held, hang = append(held, id), min(hang, ttl/6).Truncate(time.Millisecond)
		}
		unlock()
		if isUrgent || len(held) == 0 { // it does not hang after a loss
			hang = 0
			time.Sleep(min(2*time.Second, c.TTL/15))
		}
		sent, fields := time.Now(), object{"wait_ms": hang.Milliseconds(), "held": held}
		if len(held) > 400 {
			delete(fields, "held") // it ends grants that were never answered
		}
		status, body := c.ask(context.Background(), hang+3*time.Second, "POST", path, h, fields)
		rows, isFull := body["leases"].([]any)
		isEarly := c.TTL-ms(body["remaining_ms"]) < hang/2 || fmt.Sprint(body["lost"]) != "[]"
		if isUrgent = !isFull || body["draining"] == true || isEarly; isUrgent {
			hang = 0 // otherwise nothing was lost in all of it
		}
		if unlock = c.lock(); c.session == session && (isFull || status == 404 || status == 410) {
			c.proven, c.left = sent.Add(min(hang, c.TTL-ms(body["remaining_ms"]))), object{}
			c.until = c.proven.Add(ms(body["remaining_ms"]))
			for _, row := range rows {
				c.left[fmt.Sprint(as[object](row)["lease_id"])] = as[object](row)["remaining_ms"]
			}
		}
		unlock()
	}
}

// Check returns ErrLost unless the lease is held for sure.
func (l *Lease) Check() error {
	c, early := l.client, -min(time.Second/2, l.client.TTL/20)
	defer c.lock()()
	left, isListed := c.left[l.id]
	if left != nil {
		l.until = c.proven.Add(ms(left))
	}
	isGone := c.session != l.session || !isListed && l.since.Before(c.proven)
	if isGone || isOver(l.until.Add(early)) || isOver(c.until.Add(early)) {
		l.lost = ErrLost
	}
	return l.lost
}

// Do acquires a lease, calls work, and releases the lease. The end of ctx ends the wait.
func (c *Client) Do(ctx context.Context, name string, o Options,
	work func(context.Context, *Lease) error) (err error) {
	until, h := time.Now().Add(o.Wait), http.Header{}
	if err = c.open(ctx, until.Add(time.Second), h); err != nil {
		return err
	}
	path, fields := "/v1/locks/"+url.PathEscape(name), object{"kind": cmp.Or(o.Kind, "lock")}
	if o.Kind == "permit" {
		path, fields = "/v1/permit-semaphores/"+url.PathEscape(name)+"/permit", object{}
	} else if len(o.Also) > 0 {
		path, fields["locks"] = "/v1/multi-locks", append([]string{name}, o.Also...)
	}
	maps.Copy(fields, o.Fields)
	defer func() { // DELETE wins over every PUT with its token
		ctx, until := context.Background(), time.Now().Add(5*time.Second)
		if _, _, e := c.repeat(ctx, until, "state", "DELETE", path, h, object{}); err == nil && e != nil {
			err = fmt.Errorf("%w: its release was not confirmed: %v", ErrLost, e)
		}
	}()
	body, sent, err := c.repeat(ctx, until, "lease_id", "PUT", path, h, fields)
	if err != nil {
		return err
	}
	first := as[object](append(as[[]any](body["locks"]), body)[0])
	l := &Lease{FencingToken: int64(as[float64](first["fencing_token"])), client: c, id: fmt.Sprint(body["lease_id"]),
		session: h.Get("Session-Token"), since: time.Now(), until: sent.Add(ms(body["remaining_ms"]))}
	c.keeps(l.id, ms(body["ttl_ms"]))
	defer l.ends()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrLost)
	go func() {
		for ; l.Check() == nil && ctx.Err() == nil; time.Sleep(min(time.Second/4, c.TTL/40)) {
		}
		cancel(ErrLost)
	}()
	return errors.Join(work(ctx, l), l.Check())
}
