package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// What a Redis that hangs costs is bounded by these. A connection that says
// nothing for silence is given up with all that waits on it; it is asked for a
// sign of life every heartbeat. With rueidis's own defaults, of ten seconds and
// one, ten thousand callers wait for twelve seconds.
const (
	dialTimeout  = 500 * time.Millisecond
	silence      = 100 * time.Millisecond
	heartbeat    = 200 * time.Millisecond
	oneConn      = -1 // of rueidis.ClientOption.PipelineMultiplex
	maxRedirects = 3
)

// Rueidis returns the Client to use by default. It sends nothing: the first
// decision connects, and it does not matter if Redis is there before.
//
// Only InitAddress is required: host:port, or the path of a Unix socket with a
// DialCtxFn, as rueidis.ParseURL makes them of a URL. These fields have other defaults than rueidis
// gives them, so that what waits for a Redis that hangs is gone soon, and because
// one connection is enough: calls of one moment are sent together.
//
//	Dialer.Timeout                      500 ms
//	Dialer.KeepAlive                    200 ms
//	ConnWriteTimeout                    100 ms
//	PipelineMultiplex                   one connection to each server
//	ClusterOption.MaxMovedRedirections  3
//
// With a Store.Timeout over 100 ms let ConnWriteTimeout be as long at least.
//
// DisableRetry and DisableCache are set whatever o says. An error names a field
// by which a script could be sent twice or to a replica, or an address that is
// none; it never holds a password.
//
// The Client has a method Close, for who asserts that it is an io.Closer, which ends
// the connections; a program that runs until it ends needs it not.
func Rueidis(o rueidis.ClientOption) (Client, error) {
	if err := checkRueidis(&o); err != nil {
		return nil, err
	}
	o.DisableRetry, o.DisableCache = true, true
	orDefault(&o.Dialer.Timeout, dialTimeout)
	orDefault(&o.Dialer.KeepAlive, heartbeat)
	orDefault(&o.ConnWriteTimeout, silence)
	orDefault(&o.PipelineMultiplex, oneConn)
	orDefault(&o.ClusterOption.MaxMovedRedirections, maxRedirects)
	secrets := &secrets{known: []string{o.Password, o.Sentinel.Password}}
	o.AuthCredentialsFn = secrets.watch(o.AuthCredentialsFn)
	// Functions, for no text of a Client is to show what o holds.
	return &rueidisClient{
		open:  func() (rueidis.Client, error) { return rueidis.NewClient(o) },
		clean: func(err error) error { return cleaned(err, secrets.all()...) },
	}, nil
}

// secrets are what errors must not show: the passwords of the options, and the
// last that a function gave.
type secrets struct {
	known []string
	given atomic.Pointer[string]
}

type credentials = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error)

// watch returns a function that gives what f does.
func (s *secrets) watch(f credentials) credentials {
	if f == nil {
		return nil
	}
	return func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		given, err := f(c)
		s.given.Store(&given.Password)
		return given, err
	}
}

func (s *secrets) all() []string {
	if given := s.given.Load(); given != nil {
		return append(s.known[:len(s.known):len(s.known)], *given)
	}
	return s.known
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func checkRueidis(o *rueidis.ClientOption) error {
	if len(o.InitAddress) == 0 {
		return errors.New("redisstore: ClientOption.InitAddress is empty: at least one address is needed")
	}
	for i, address := range o.InitAddress {
		if o.DialCtxFn != nil && strings.HasPrefix(address, "/") {
			continue // a Unix socket, as rueidis.ParseURL has it
		}
		// Not shown: a URL in the wrong place holds the password.
		if _, _, err := net.SplitHostPort(address); err != nil || strings.ContainsAny(address, "@/") && o.DialCtxFn == nil {
			return fmt.Errorf("redisstore: ClientOption.InitAddress[%d] is not of the form host:port", i)
		}
	}
	switch {
	case o.ConnLifetime != 0:
		return fmt.Errorf("redisstore: ClientOption.ConnLifetime is %v: only 0 is allowed, as rueidis sends again what a connection had in flight when its life ended", o.ConnLifetime)
	case o.SendToReplicas != nil:
		return errors.New("redisstore: ClientOption.SendToReplicas is set: only nil is allowed, as every script writes")
	case o.ReplicaOnly:
		return errors.New("redisstore: ClientOption.ReplicaOnly is set: only false is allowed, as every script writes")
	case len(o.Standalone.ReplicaAddress) > 0:
		return errors.New("redisstore: ClientOption.Standalone.ReplicaAddress is set: only none is allowed, as every script writes")
	case o.PipelineMultiplex > rueidis.MaxPipelineMultiplex:
		return fmt.Errorf("redisstore: ClientOption.PipelineMultiplex is %d: at most %d is allowed", o.PipelineMultiplex, rueidis.MaxPipelineMultiplex)
	}
	return nil
}

// A rueidisClient connects when it is first used. rueidis.NewClient waits for
// the connection, so it runs beside the callers, once for all of them.
type rueidisClient struct {
	open  func() (rueidis.Client, error)
	clean func(error) error // see cleaned
	ready atomic.Pointer[rueidis.Client]

	junk     met // a key that holds what no Store has written
	crossing met // keys that one script may not use together

	mu     sync.Mutex
	dial   *connecting // under way; else nil
	closed bool
}

type connecting struct {
	done   chan struct{}
	client rueidis.Client // after done
	err    error          // after done
}

// endsItself makes the context of a call superfluous: the timeouts of the
// connection end it.
func (c *rueidisClient) endsItself() {}

// Clustered reports whether Redis is a cluster; false before it was reached.
func (c *rueidisClient) Clustered() bool {
	client := c.ready.Load()
	return client != nil && (*client).Mode() == rueidis.ClientModeCluster
}

func (c *rueidisClient) Eval(ctx context.Context, s *Script, keys, args []string) (reply []string, err error) {
	// rueidis panics on keys of different slots, and on a redirection without
	// an address.
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, &brokenError{fmt.Sprint(p)}
		}
	}()
	client, err := c.connected(ctx)
	if err != nil {
		return nil, c.clean(err)
	}
	w := &call{script: s, keys: keys, args: args}
	p := parcel{w}
	result := client.Do(ctx, c.command(client, p, false))
	if noScript(result.Error()) {
		result = client.Do(ctx, c.command(client, p, true))
	}
	c.end(p, result)
	return w.reply, w.err
}

// evalAll sends the calls in one piece, and what Redis does not know, or may not
// run together, in another.
func (c *rueidisClient) evalAll(batch []*call) {
	ctx := context.Background()
	if len(batch) == 1 {
		w := batch[0]
		w.reply, w.err = c.Eval(ctx, w.script, w.keys, w.args)
		return
	}
	client, err := c.connected(ctx)
	if err != nil {
		for _, w := range batch {
			w.err = c.clean(err)
		}
		return
	}
	all := parcels(batch, client.Mode() != rueidis.ClientModeCluster && !c.crossing.holds())
	commands := make(rueidis.Commands, len(all))
	for i, p := range all {
		commands[i] = c.command(client, p, false)
	}
	var unknown []parcel
	for i, result := range client.DoMulti(ctx, commands...) {
		if p := all[i]; noScript(result.Error()) {
			unknown = append(unknown, p)
		} else if !c.end(p, result) {
			unknown = append(unknown, p.singles()...)
		}
	}
	if len(unknown) == 0 {
		return
	}
	commands = commands[:0]
	told := make(map[*Script]bool, 2)
	for _, p := range unknown {
		s := p.script()
		commands = append(commands, c.command(client, p, !told[s]))
		told[s] = true // Redis knows it then: a source for each would be megabytes
	}
	for i, result := range client.DoMulti(ctx, commands...) {
		p := unknown[i]
		if noScript(result.Error()) { // forgotten again, or the other went by another connection
			result = client.Do(ctx, c.command(client, p, true))
		}
		if !c.end(p, result) {
			for _, single := range p.singles() {
				c.end(single, client.Do(ctx, c.command(client, single, true)))
			}
		}
	}
}

// connected returns the client, and waits for the connection if there is none
// yet, but no longer than ctx lasts.
func (c *rueidisClient) connected(ctx context.Context) (rueidis.Client, error) {
	if client := c.ready.Load(); client != nil {
		return *client, nil
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, rueidis.ErrClosing
	}
	dial := c.dial
	if dial == nil && c.ready.Load() == nil {
		dial = &connecting{done: make(chan struct{})}
		c.dial = dial
		go c.connect(dial)
	}
	c.mu.Unlock()
	if dial == nil {
		return *c.ready.Load(), nil
	}
	select {
	case <-dial.done:
		return dial.client, dial.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect makes the connection. It ends by the timeouts of dialing, or of the
// connection.
func (c *rueidisClient) connect(dial *connecting) {
	client, err := c.open()
	if err != nil && client != nil {
		client.Close()
		client = nil
	}
	c.mu.Lock()
	switch {
	case err != nil:
	case c.closed:
		err = rueidis.ErrClosing
	default:
		c.ready.Store(&client)
	}
	c.dial = nil
	c.mu.Unlock()
	if err != nil && client != nil {
		client.Close()
		client = nil
	}
	dial.client, dial.err = client, err
	close(dial.done)
}

// Close ends the connections. Calls in flight end with an error.
func (c *rueidisClient) Close() error {
	c.mu.Lock()
	c.closed = true
	client := c.ready.Load()
	c.mu.Unlock()
	if client != nil {
		(*client).Close()
	}
	return nil
}

// flat returns a string, an integer, or an array of those, as text.
func flat(m *rueidis.RedisMessage) ([]string, error) {
	if !m.IsArray() {
		text, err := scalar(m)
		return []string{text}, err
	}
	elements, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	reply := make([]string, len(elements))
	for i := range elements {
		if reply[i], err = scalar(&elements[i]); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

func scalar(m *rueidis.RedisMessage) (string, error) {
	switch {
	case m.IsString():
		return m.ToString()
	case m.IsInt64():
		n, err := m.ToInt64()
		return strconv.FormatInt(n, 10), err
	}
	return "", errReply
}
