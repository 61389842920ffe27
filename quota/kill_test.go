package quota

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const childEnv = "POLITE_QUOTA_CHILD"

// TestMain lets the tests start this binary again as a process that can be killed.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		spendForEver(path)
	}
	os.Exit(m.Run())
}

var killed = Tally{Quota: "sms", Key: "a", Limit: 1 << 40}

// spendForEver spends from many goroutines and tells each amount before and
// after, until it is killed.
func spendForEver(path string) {
	s, err := openFile(path, osDisk{}, 2000) // small, so that it is written anew all the time
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for g := range 8 {
		go func() {
			for i := int64(0); ; i++ {
				n := 1 + (i+int64(g))%5
				fmt.Printf("try %d\n", n) // one write each, to a pipe that outlives us
				if _, _, err := s.Spend(context.Background(), killed, n); err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Printf("ok %d\n", n)
				other := killed
				other.Key = fmt.Sprint("other ", g, i%3)
				if _, _, err := s.Spend(context.Background(), other, 1); err != nil {
					fmt.Println("error", err)
				}
			}
		}()
	}
	select {}
}

func TestKilledAtAnyInstant(t *testing.T) {
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	path := filepath.Join(t.TempDir(), "quota")
	var before, acknowledged int64
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for round := range rounds {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+path)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		var tried, granted int64
		lines := bufio.NewScanner(out)
		after := time.Duration(random.Int64N(int64(15 * time.Millisecond)))
		for started := false; lines.Scan(); {
			if !started {
				started = true
				if round%4 == 1 { // a second process gets a clear error
					_, err := OpenFile(path)
					require.ErrorIs(t, err, ErrInUse)
					require.ErrorContains(t, err, fmt.Sprintf("(process %d)", child.Process.Pid))
				}
				time.AfterFunc(after, func() { _ = child.Process.Kill() })
			}
			var n int64
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "try "):
				_, err = fmt.Sscanf(line, "try %d", &n)
				tried += n
			case strings.HasPrefix(line, "ok "):
				_, err = fmt.Sscanf(line, "ok %d", &n)
				granted += n
			default:
				t.Fatal(line)
			}
			require.NoError(t, err)
		}
		_ = child.Wait()

		s, err := OpenFile(path)
		require.NoError(t, err, "round %d", round)
		used, _, err := s.Spend(t.Context(), killed, 0)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.GreaterOrEqual(t, used, before+granted, "round %d: what was spent stays spent", round)
		require.LessOrEqual(t, used, before+tried, "round %d: and nothing else", round)
		before, acknowledged = used, acknowledged+granted
	}
	assert.Positive(t, acknowledged)
	t.Logf("%d rounds, %d units acknowledged", rounds, acknowledged)
}
