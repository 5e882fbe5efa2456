// What the kit does not ask of clients/go/rlockd.go.
package rlockd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A front grants whatever is asked for, and answers no keep-alive.
func front(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "//"):
			w.WriteHeader(404)
		case strings.HasSuffix(r.URL.Path, "/keep-alive"):
			w.WriteHeader(503)
		default:
			id := r.Header.Get("Lease-Token")
			fmt.Fprintf(w, `{"session_id": "1", "lease_id": "%s", "state": "held",
				"ttl_ms": 30000, "remaining_ms": 30000, "fencing_token": 1}`, id)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestLeaseOfAnEndedSession(t *testing.T) {
	c := New(front(t))
	err := c.Do(context.Background(), "a", Options{}, func(_ context.Context, l *Lease) error {
		time.Sleep(time.Second / 20) // until the watch over the lease rests
		unlock := c.lock()
		c.until = time.Time{} // as the keep-alive sets it
		unlock()
		return c.Do(context.Background(), "b", Options{},
			func(_ context.Context, other *Lease) error {
				if other.Check() != nil || l.Check() == nil {
					t.Error("a lease of an ended session counts as held")
				}
				return nil
			})
	})
	if !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

// While another caller opens the session, for a longer wait.
func TestEndsOfAWaitForASession(t *testing.T) {
	asked, end := make(chan bool, 99), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- true
		<-end
	}))
	defer server.Close()
	defer close(end)
	c, soon := New(server.URL), time.Second/10
	first, stop := context.WithCancel(context.Background())
	defer stop()
	go c.Do(first, "a", Options{Wait: time.Minute}, nil)
	<-asked
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	began := time.Now()
	err := c.Do(ctx, "b", Options{}, nil)
	if !errors.Is(err, ErrNotAcquired) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error("the end of its context: ", err)
	}
	long := time.Now().Add(soon - 5*time.Second) // which is how long one request may take
	if err := c.open(context.Background(), long, http.Header{}); !errors.Is(err, ErrNotAcquired) {
		t.Error("the end of its own wait: ", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Error("both have waited for another caller, for ", took)
	}
}

func TestAddressWithASlash(t *testing.T) {
	err := New(front(t)+"/").Do(context.Background(), "a", Options{},
		func(context.Context, *Lease) error { return nil })
	if err != nil {
		t.Error(err)
	}
}

func TestAddressesAsRlockReadsThem(t *testing.T) {
	for _, urls := range []string{" http://one, http://two ", "http://one http://two,"} {
		if c := New(urls); strings.Join(c.URLs, "|") != "http://one|http://two" {
			t.Errorf("%q: %q", urls, c.URLs)
		}
	}
}

func TestAfterWhatIsNoAddress(t *testing.T) {
	for _, wrong := range []string{"http://[::1", "ftp://one"} {
		c := New(wrong)
		c.URLs = append(c.URLs, front(t))
		for range 2 {
			c.ask(context.Background(), time.Second, "PUT", "/", http.Header{}, nil)
		}
		if c.turn.Load() != 1 {
			t.Errorf("%q: the turn is at %d", c.URLs, c.turn.Load())
		}
	}
	New(",").ask(context.Background(), time.Second, "PUT", "/", http.Header{}, nil)
}

func TestUnreadableAPIToken(t *testing.T) {
	t.Setenv("RLOCK_TOKEN_FILE", filepath.Join(t.TempDir(), "none"))
	ctx, h := context.Background(), http.Header{}
	status, body := New(front(t)).ask(ctx, time.Second, "PUT", "/", h, nil)
	if status != 0 {
		t.Error("a request without the API token was sent: ", status, body)
	}
}
