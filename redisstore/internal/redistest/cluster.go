package redistest

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slots = 16384

// A Cluster is a Redis Cluster of three primaries.
type Cluster struct {
	Nodes []*Server

	t   testing.TB
	ids []string
}

// StartCluster starts a cluster that serves every slot. args are further command
// line arguments of each server.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	const nodes = 3
	c := &Cluster{t: t}
	for range nodes {
		s := Start(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-allow-replica-migration", "no",
		}, args...)...)
		c.Nodes = append(c.Nodes, s)
		c.ids = append(c.ids, s.Do("CLUSTER", "MYID"))
	}
	for i, s := range c.Nodes {
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		s.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/nodes, (i+1)*slots/nodes-1)
		if i > 0 {
			host, port, _ := net.SplitHostPort(c.Nodes[0].Addr)
			s.Do("CLUSTER", "MEET", host, port, c.Nodes[0].busPort())
		}
	}
	Eventually(t, "the cluster serves every slot", func() bool {
		return !slices.ContainsFunc(c.Nodes, func(s *Server) bool {
			info := s.Do("CLUSTER", "INFO")
			return !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") ||
				!strings.Contains(info, "cluster_slots_ok:16384")
		})
	})
	return c
}

func (s *Server) busPort() string { return s.args[slices.Index(s.args, "--cluster-port")+1] }

// Addrs returns the addresses of the nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, s := range c.Nodes {
		addrs[i] = s.Addr
	}
	return addrs
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	slot, _ := strconv.Atoi(c.Nodes[0].Do("CLUSTER", "KEYSLOT", key))
	return slot
}

// Owner returns the node that serves a slot.
func (c *Cluster) Owner(slot int) *Server {
	c.t.Helper()
	for _, s := range c.Nodes {
		for _, row := range s.rows("CLUSTER", "NODES") {
			fields := strings.Fields(row)
			if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
				continue
			}
			for _, span := range fields[8:] {
				from, to, ok := strings.Cut(span, "-")
				if !ok {
					to = from
				}
				a, err1 := strconv.Atoi(from)
				b, err2 := strconv.Atoi(to)
				if err1 == nil && err2 == nil && a <= slot && slot <= b {
					return s
				}
			}
		}
	}
	c.t.Fatalf("no node serves slot %d", slot)
	return nil
}

func (s *Server) rows(args ...any) []string {
	return strings.Split(strings.TrimSpace(s.Do(args...)), "\n")
}

// BeginMove begins to move a slot to a node: from now on its owner answers ASK
// for a key it does not hold, and TRYAGAIN for some keys here and some there.
func (c *Cluster) BeginMove(slot int, to *Server) {
	c.t.Helper()
	from := c.Owner(slot)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(from))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(to))
}

// MoveKeys moves at most n of the keys of the slot, and returns how many.
func (c *Cluster) MoveKeys(slot, n int, to *Server) int {
	c.t.Helper()
	from := c.Owner(slot)
	host, port, _ := net.SplitHostPort(to.Addr)
	keys := c.keysIn(from, slot, n)
	for _, key := range keys {
		from.Do("MIGRATE", host, port, key, 0, 5000, "REPLACE")
	}
	return len(keys)
}

// EndMove gives the slot to the node for good: the others answer MOVED.
func (c *Cluster) EndMove(slot int, to *Server) {
	c.t.Helper()
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", c.id(to))
	for _, s := range c.Nodes {
		if s != to {
			s.Do("CLUSTER", "SETSLOT", slot, "NODE", c.id(to))
		}
	}
}

func (c *Cluster) id(s *Server) string { return c.ids[slices.Index(c.Nodes, s)] }

func (c *Cluster) keysIn(s *Server, slot, n int) []string {
	c.t.Helper()
	ctx, cancel := short()
	defer cancel()
	keys, err := s.admin.ClusterGetKeysInSlot(ctx, slot, n).Result()
	if err != nil {
		c.t.Fatalf("CLUSTER GETKEYSINSLOT: %v", err)
	}
	return keys
}

// StartReplica starts a replica of a server, and returns when it is in step.
func StartReplica(t testing.TB, primary *Server, args ...string) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	args = append([]string{"--replicaof", host + " " + port}, args...)
	if primary.Password != "" {
		args = append(args, "--masterauth", primary.Password)
	}
	s := Start(t, args...)
	Eventually(t, "the replica is in step", func() bool { return s.info("replication", "master_link_status") == "up" })
	return s
}

// Promote makes a replica a primary.
func (s *Server) Promote() {
	s.t.Helper()
	s.Do("REPLICAOF", "NO", "ONE")
}

// Eventually waits until what is so, for at most 30 seconds.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s it is not so that %s", what)
		}
	}
}
