package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// monitored is the part of /monitor that is shown.
type monitored struct {
	Requests struct {
		NearShare float64 `json:"near_share"`
	}
	Top struct {
		Keys []struct {
			Key, Limit string
			Refused    int
		}
	} `json:"top_refused"`
}

// seen writes what those who run the API see, read from its monitor.
func seen(out io.Writer, url string) error {
	resp, err := http.Get(url + "/monitor")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var m monitored
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe provider's monitor: %.0f %% of what was admitted had little left. Most refused:\n\n", 100*m.Requests.NearShare)
	for _, k := range m.Top.Keys[:min(5, len(m.Top.Keys))] {
		fmt.Fprintf(out, "  %6s  %-24s by the limit %s\n", count(k.Refused), k.Key, k.Limit)
	}
	return nil
}
