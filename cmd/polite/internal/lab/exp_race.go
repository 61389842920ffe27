package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/politehttp/polite/cmd/polite/internal/draw"
	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/redisstore"
)

var race = Experiment{
	Name:  "race",
	Title: "Two instances read a count, and write it if there is room",
	Teaches: "Who reads a count, sees that there is room and then writes it, is not alone: others have read the same " +
		"count meanwhile, and all of them are let through. How many that are depends on luck, and in a test it may " +
		"be none. A script that Redis runs as one step decides and counts in one: exactly the limit, in every round, " +
		"and in one round trip in place of two.",
	Run:   runRace,
	Loose: true,
}

const (
	raceLimit     = 50 // a minute
	raceInstances = 2
	raceRequests  = 200 // of each instance, at once
	raceRounds    = 20
)

// racer is one of the instances, with connections of its own.
type racer struct {
	redis rueidis.Client
	store *redisstore.Store
	limit *limiter.Limit
	close []func()
}

func newRacer(r *redis) (*racer, error) {
	direct, err := rueidis.NewClient(r.option())
	if err != nil {
		return nil, err
	}
	client, done, err := r.client()
	if err != nil {
		direct.Close()
		return nil, err
	}
	i := &racer{redis: direct, close: []func(){direct.Close, done}}
	i.store = &redisstore.Store{Client: client, Prefix: "race", Timeout: patience, NearKeys: -1}
	i.limit, err = limiter.FixedWindow("requests", raceLimit, time.Minute, limiter.ToFirst)
	return i, err
}

func (i *racer) stop() {
	for _, done := range i.close {
		done()
	}
}

// script is the right way.
func (i *racer) script(ctx context.Context, key string, _ func()) (bool, error) {
	d, err := i.store.Take(ctx, i.limit.Charge(key, 1))
	if err == nil {
		err = d.Degraded
	}
	return d.Allowed, err
}

// checkThenAct is the wrong way: what happens between reading and writing counts
// for nothing.
func (i *racer) checkThenAct(ctx context.Context, key string, between func()) (bool, error) {
	key = "race:" + key
	count, err := i.redis.Do(ctx, i.redis.B().Get().Key(key).Build()).AsInt64()
	between()
	if err != nil && !rueidis.IsRedisNil(err) {
		return false, err
	}
	if count >= raceLimit {
		return false, nil
	}
	for _, answer := range i.redis.DoMulti(ctx,
		i.redis.B().Incr().Key(key).Build(),
		i.redis.B().Expire().Key(key).Seconds(60).Build(),
	) {
		if err := answer.Error(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// A way to keep the limit.
type way struct {
	name   string
	rounds int
	gated  bool // everybody reads before anybody writes
	ask    func(i *racer, ctx context.Context, key string, between func()) (bool, error)
}

// round makes all requests at once, and returns how many were admitted.
func (w *way) round(ctx context.Context, all []*racer, key string) (int, error) {
	var admitted atomic.Int64
	var group, read sync.WaitGroup
	read.Add(raceInstances * raceRequests)
	start := make(chan struct{})
	errs := make([]error, raceInstances*raceRequests)
	for n := range errs {
		group.Go(func() {
			between := func() {
				read.Done()
				if w.gated {
					read.Wait()
				}
			}
			<-start
			ok, err := w.ask(all[n%raceInstances], ctx, key, between)
			if ok {
				admitted.Add(1)
			}
			errs[n] = err
		})
	}
	close(start)
	group.Wait()
	return int(admitted.Load()), errors.Join(errs...)
}

func runRace(ctx context.Context, o Options) (*Result, error) {
	r, err := findRedis(ctx, o.Redis)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	var all []*racer
	for range raceInstances {
		i, err := newRacer(r)
		if err != nil {
			return nil, err
		}
		defer i.stop()
		all = append(all, i)
	}
	result := &Result{Notes: []string{"Redis: " + r.what + ". This one runs in real time, so the row in the middle is not the same each time."}}
	table := Table{
		Title: fmt.Sprintf("%d requests at once, %d from each of %d instances; the limit is %d a minute.",
			raceInstances*raceRequests, raceRequests, raceInstances, raceLimit),
		Columns: []string{"how it is decided", "rounds", "fewest admitted", "most admitted"},
	}
	bars := draw.Series{Kind: draw.Bars}
	picture := draw.Picture{
		Name:   "race",
		Title:  "A limit of 50 that two instances share: the most that were admitted",
		Says:   "Read-then-write admits whoever has read before the others wrote. The script admits 50.",
		X:      draw.Axis{},
		Y:      draw.Axis{Label: "admitted of 400 at once"},
		Limits: []draw.Limit{{Name: "limit: 50", Y: raceLimit}},
	}
	id := strconv.FormatUint(rand.Uint64(), 36) // keys of its own
	for n, w := range []way{
		{"read, then write; all read first", 1, true, (*racer).checkThenAct},
		{"read, then write; as it comes", raceRounds, false, (*racer).checkThenAct},
		{"one script", raceRounds, false, (*racer).script},
	} {
		fewest, most := raceInstances*raceRequests, 0
		for round := range w.rounds {
			admitted, err := w.round(ctx, all, fmt.Sprintf("%s-%d-%d", id, n, round))
			if err != nil {
				return nil, err
			}
			fewest, most = min(fewest, admitted), max(most, admitted)
		}
		table.Add(w.name, w.rounds, fewest, most)
		switch n {
		case 0:
			result.Figures = append(result.Figures, atLeast("admitted when all read before any writes", float64(most), raceLimit+1, ""))
		case 2:
			result.Figures = append(result.Figures,
				exactly("admitted by the script, fewest", float64(fewest), raceLimit, ""),
				exactly("admitted by the script, most", float64(most), raceLimit, ""))
		}
		bars.Points = append(bars.Points, draw.Point{X: float64(n), Y: float64(most)})
		picture.X.Names = append(picture.X.Names, w.name)
	}
	picture.Series = []draw.Series{bars}
	result.Tables = append(result.Tables, table)
	result.Pictures = append(result.Pictures, picture)
	return result, nil
}
