package store

import (
	"maps"
	"slices"
)

// DiskStatus is the state of one disk.
type DiskStatus struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Kind  string `json:"kind,omitempty"`
	State string `json:"state"` // ok, full, read-only, failed, rebuilding or absent
	Size  int64  `json:"size"`
	Free  int64  `json:"free"`
	Used  int64  `json:"used"` // by packs and blobs
	Live  int64  `json:"live"` // of these, needed
	Error string `json:"error,omitempty"`
}

// Disks returns the state of each disk, those that are absent included.
func (s *Store) Disks() []DiskStatus {
	var all []DiskStatus
	for _, d := range s.drives {
		all = append(all, d.status())
	}
	for _, id := range s.absent {
		all = append(all, DiskStatus{ID: id, State: "absent"})
	}
	return all
}

func (d *drive) status() DiskStatus {
	st := DiskStatus{ID: d.id.ID, Name: d.name, Kind: d.kind, State: d.state()}
	if usage, err := d.fs.Usage(); err == nil {
		st.Size, st.Free = usage.Size, usage.Free
	}
	d.health.Lock()
	for _, err := range []error{d.failure, d.refused} {
		if err != nil {
			st.Error = err.Error()
			break
		}
	}
	d.health.Unlock()
	d.apply.Lock()
	total, dead := d.tally.bytes()
	st.Used = total + d.tally.Blobs.Bytes
	st.Live = st.Used - dead
	d.apply.Unlock()
	return st
}

// Usage returns how much a bucket holds.
func (s *Store) Usage(bucket string) Usage {
	var sum Usage
	for _, d := range s.drives {
		d.apply.Lock()
		if u := d.tally.Buckets[bucket]; u != nil {
			sum.Objects += u.Objects
			sum.Bytes += u.Bytes
		}
		d.apply.Unlock()
	}
	return sum
}

// Buckets returns the names of all buckets that hold objects.
func (s *Store) Buckets() []string {
	names := make(map[string]bool)
	for _, d := range s.drives {
		d.apply.Lock()
		for name := range d.tally.Buckets {
			names[name] = true
		}
		d.apply.Unlock()
	}
	return slices.Sorted(maps.Keys(names))
}
