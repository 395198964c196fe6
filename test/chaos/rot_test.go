package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/disk"
	"penstock.dev/penstock/internal/object"
)

// TestRot damages the files of a node that does not run, starts it and reads
// everything. No wrong byte may come as right, whatever was damaged; and what was
// damaged is either whole again or reported, on reading and by scrub.
func TestRot(t *testing.T) {
	faults := setting(t, "FAULTS", 300)
	for _, c := range rotCases {
		t.Run(c.name, func(t *testing.T) {
			r := newRot(t, c)
			for range max(1, faults*c.share/100/c.atOnce) {
				r.round()
				if t.Failed() {
					return
				}
			}
			t.Logf("%+v", r.sum)
		})
	}
}

// rot is a data directory that rots again and again.
type rot struct {
	*subject
	rotCase
	pristine string           // a copy of the data directory
	limits   map[string]int64 // how much of each file may rot
	sum      rotSum
}

// newRot fills a node with little data and stops or kills it.
func newRot(t *testing.T, c rotCase) *rot {
	t.Helper()
	random := newRandom(t)
	s := newSubject(t, random, dataDir(t))
	r := &rot{subject: s, rotCase: c, pristine: filepath.Join(newDir(t), "pristine")}
	data := disk.NewDir(s.node.Data()[0])
	for i := range 500 {
		key, size := fmt.Sprintf("k%d", random.IntN(150)), random.Int64N(8<<10)
		if i%50 == 0 {
			key, size = fmt.Sprintf("blob%d", i/50), inlineMax+1+random.Int64N(64<<10)
		}
		if err := s.put(key, size); err != nil {
			t.Fatal(err)
		}
		if i%4 == 0 && i%50 != 0 {
			if err := s.delete(key); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.limits = sizes(t, data)
	for i := range 5 { // see fillDrive
		if err := s.put(fmt.Sprint("end", i), 100); err != nil {
			t.Fatal(err)
		}
	}
	if c.kill {
		s.node.Kill()
	} else {
		if err := s.node.Stop(); err != nil {
			t.Fatal(err)
		}
		r.limits = sizes(t, data)
	}
	copyDir(t, s.node.Data()[0], r.pristine)
	return r
}

// round damages a fresh copy of the data directory in some places and looks at
// what the node makes of it.
func (r *rot) round() {
	t := r.tb
	t.Helper()
	r.node.Kill()
	r.client.Close()
	data := r.node.Data()[0]
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	copyDir(t, r.pristine, data)
	damages := inflict(t, r.random, disk.NewDir(data), r.limits, r.rotCase)
	r.sum.faults += len(damages)
	if err := r.node.Start(); err != nil {
		r.sum.refuse(t, r.rotCase, err)
	} else {
		r.sum.examine(t, r.rotCase, r.ledger, r.get, func() []string {
			var found []string
			for _, f := range r.scrub() {
				found = append(found, f.Name)
			}
			return found
		})
	}
	if t.Failed() {
		t.Logf("damage: %v", damages)
	}
}

// get reads an object with a plain HTTP client, which checks nothing.
func (r *rot) get(key string) (body []byte, mark string, err error) {
	r.tb.Helper()
	for range 100 {
		body, mark, err = get(r.node.Endpoint, r.ledger.name(key))
		if !penstock.Is(err, penstock.Unavailable) {
			break
		}
		time.Sleep(100 * time.Millisecond) // an index is being rebuilt
	}
	return body, mark, err
}

func get(endpoint string, name penstock.Name) (body []byte, mark string, err error) {
	resp, err := http.Get(endpoint + "/v1/objects/" + name.String())
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode != http.StatusOK:
		var answer struct {
			Error struct{ Kind, Message string }
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return nil, "", fmt.Errorf("status %d with %q", resp.StatusCode, body)
		}
		return nil, "", object.Errorf(object.ParseKind(answer.Error.Kind), "%s", answer.Error.Message)
	case err != nil: // no client takes a body that breaks off for the whole
		return nil, "", object.Errorf(object.Corrupt, "after %d bytes: %w", len(body), err)
	}
	return body, cmp.Or(resp.Header.Get("X-Penstock-Meta-Mark"), resp.Header.Get("Content-Type")), nil
}
