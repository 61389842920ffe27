package observe

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"time"
)

// Slog returns hooks that write to l. Steps of a call that goes well are at
// debug level, waits for the configured pace among them; retries, and waits
// that are the provider's doing (a told one, a rate learnt from refusals, little
// left) at info; and what somebody should look at (giving up, an open circuit,
// a quota that is low or spent) at warn. A call that this client refuses to send
// is at debug level: an open circuit and a spent quota have lines of their own,
// and there may be thousands; its caller has the error, and GaveUp counts it.
//
// Lines carry the call's context, so a handler that adds an id from it joins the
// lines of one call. Errors are written without the URL that net/http puts into
// them, for its query may hold a secret. A nil l is [slog.Default], read at
// each event.
func Slog(l *slog.Logger) *Hooks {
	log := func(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) {
		to := l
		if to == nil {
			to = slog.Default()
		}
		to.LogAttrs(ctx, level, msg, attrs...)
	}
	return &Hooks{
		Paced: func(ctx context.Context, p Paced) {
			level := slog.LevelDebug
			if p.Reason == Hold || p.Reason == Learnt || p.Reason == Spread {
				level = slog.LevelInfo // the provider's doing
			}
			log(ctx, level, "paced", slog.String("key", p.Key), slog.Int64("n", p.N),
				duration("wait", p.Wait), slog.String("reason", string(p.Reason)))
		},
		Attempted: func(ctx context.Context, a Attempt) {
			log(ctx, slog.LevelDebug, "attempt", a.attrs()...)
		},
		Answered: func(ctx context.Context, a Answer) {
			attrs := append(a.attrs(), outcome(a.Status, a.Err), duration("took", a.Took))
			if a.IsTold {
				attrs = append(attrs, duration("told", a.Told))
			}
			log(ctx, slog.LevelDebug, "answer", attrs...)
		},
		Retried: func(ctx context.Context, r Retry) {
			log(ctx, slog.LevelInfo, "retry", append(r.attrs(), outcome(r.Status, r.Err),
				duration("wait", r.Wait), slog.String("reason", string(r.Reason)))...)
		},
		GaveUp: func(ctx context.Context, g GaveUp) {
			level := slog.LevelWarn
			if g.Reason == Refused {
				level = slog.LevelDebug // the circuit or the quota that refused has a line of its own; see above
			}
			log(ctx, level, "gave up", append(g.attrs(), outcome(g.Status, g.Err), slog.String("reason", string(g.Reason)))...)
		},
		BreakerChanged: func(ctx context.Context, b BreakerChange) {
			level := slog.LevelInfo
			if b.To == "open" {
				level = slog.LevelWarn
			}
			log(ctx, level, "circuit "+b.To, slog.String("key", b.Key), slog.String("from", b.From))
		},
		QuotaLow: func(ctx context.Context, q Quota) {
			log(ctx, slog.LevelWarn, "quota low", q.attrs()...)
		},
		QuotaSpent: func(ctx context.Context, q Quota) {
			log(ctx, slog.LevelWarn, "quota spent", q.attrs()...)
		},
	}
}

func (a Attempt) attrs() []slog.Attr {
	return []slog.Attr{slog.String("method", a.Method), slog.String("host", a.Host), slog.Int("attempt", a.N)}
}

func (q Quota) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("quota", q.Quota), slog.String("key", q.Key),
		slog.Int64("limit", q.Limit), slog.Int64("left", q.Left),
	}
	if !q.Resets.IsZero() {
		attrs = append(attrs, slog.Time("resets", q.Resets))
	}
	return attrs
}

// outcome is what a try came to.
func outcome(status int, err error) slog.Attr {
	if err != nil {
		return slog.String("error", withoutURL(err))
	}
	return slog.Int("status", status)
}

// duration is rounded to what a person reads.
func duration(key string, d time.Duration) slog.Attr {
	if d > time.Millisecond {
		d = d.Round(time.Millisecond)
	}
	return slog.Duration(key, d)
}

func withoutURL(err error) string {
	var u *url.Error
	for errors.As(err, &u) {
		err = u.Err
	}
	return err.Error()
}
