package redisstore

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/politehttp/polite/limiter"
	"github.com/politehttp/polite/pacer"
	"github.com/politehttp/polite/quota"
	"github.com/politehttp/polite/redisstore/internal/redistest"
)

// A Redis user with the commands that the package comment names can do everything,
// with MGET and without it.
func TestCommandsTheUserNeeds(t *testing.T) {
	for _, mget := range []string{"+mget", "-mget"} {
		t.Run(mget, func(t *testing.T) {
			server := redistest.Start(t)
			server.Do("ACL", "SETUSER", "limits", "on", ">secret", "~*", "-@all", mget,
				"+eval", "+evalsha", "+time", "+exists", "+getrange", "+set", "+setrange", "+del",
				"+hello", "+client", "+ping")
			client, err := Rueidis(rueidis.ClientOption{
				InitAddress: []string{server.Addr}, Username: "limits", Password: "secret", ForceSingleClient: true,
			})
			require.NoError(t, err)
			t.Cleanup(func() { closeClient(t, client) })
			s := &Store{Client: client, Timeout: 10 * time.Second, NearKeys: -1}
			var decisions [][]limiter.Charge
			for _, l := range oneOfEach() {
				for range 2 {
					d, err := s.Take(t.Context(), l.Charge("k", 1))
					require.NoError(t, err)
					require.NoError(t, d.Degraded)
				}
				require.NoError(t, s.Refund(t.Context(), l.Charge("k", 1)))
				decisions = append(decisions, []limiter.Charge{l.Charge("k", 1)})
			}
			batch := takes(t, s, decisions)
			client.(*rueidisClient).evalAll(slices.Clone(batch))
			for _, w := range batch {
				require.NoError(t, w.err)
				require.Equal(t, "1", w.reply[0][:1])
			}
			grant, err := s.Reserve(t.Context(), "k", pacer.Pace{Rate: pacer.Per(1, time.Second), Burst: 1}, 1, time.Hour)
			require.NoError(t, err)
			require.NoError(t, grant.Cancel(t.Context()))
			require.NoError(t, s.Hold(t.Context(), "k", time.Second))
			tally := quota.Tally{Quota: "q", Key: "k", Limit: 10}
			_, granted, err := s.Spend(t.Context(), tally, 3)
			require.NoError(t, err)
			require.True(t, granted)
			used, err := s.Settle(t.Context(), tally, -1, 0)
			require.NoError(t, err)
			require.EqualValues(t, 2, used)
		})
	}
}
