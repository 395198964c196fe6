package pack

import (
	"errors"
)

// Span is a piece of a pack.
type Span struct{ Offset, Length int64 }

// ScanOptions say what to scan.
type ScanOptions struct {
	From  int64 // where a record begins; zero for the whole pack
	Limit int64 // do not look further; zero for the end of the file

	// Floor is how far the pack is known to have been synced: what cannot be read
	// below it is damage, what cannot be read above it may just never have been
	// finished.
	Floor int64

	// Payloads has every payload verified. Without it those below Floor are not, and
	// a damaged one is told only when it is read.
	Payloads bool
}

// ScanResult says what a scan found.
type ScanResult struct {
	End int64 // behind the last record

	// Damage lists places before End where there are no whole records but were. A
	// record of which only the payload is damaged was visited too.
	Damage []Span
}

// Scan visits the records of a pack in the order of their places. It finds the
// end of a pack that was being written when the power went: the first place
// that holds no whole record and that nothing vouches for. Every record tells
// how far the pack was synced when it was written; so damage in the middle is
// told from an unfinished end, and is stepped over. What the drive cannot read
// is neither: the scan ends with that error.
func (f *File) Scan(o ScanOptions, visit func(*Record, Location) error) (ScanResult, error) {
	size, err := f.file.Size()
	if err != nil {
		return ScanResult{}, f.ioError(err)
	}
	w := window{file: f, limit: size, size: size}
	if o.Limit > 0 {
		w.limit = min(size, o.Limit)
		o.Floor = min(o.Floor, o.Limit)
	}
	res := ScanResult{End: o.From}
	synced := padded(o.Floor) // vouched for by the caller or, later, by a record
	for at := o.From; at+Block <= w.limit; at = res.End {
		h, whole, err := w.record(at, o.Payloads || at >= synced)
		if err != nil {
			return res, err
		}
		if !whole {
			next, vouched, err := w.step(h, at, synced)
			if err != nil {
				return res, err
			}
			synced = max(synced, vouched)
			if at >= synced {
				break // unfinished: nothing from here on was acknowledged
			}
			res.Damage = append(res.Damage, Span{Offset: at, Length: next - at})
			if h == nil {
				res.End = next
				continue
			}
		}
		if h.Kind == Object || h.Kind == Tombstone || h.Kind == Marker {
			if err := visit(&h.Record, h.Location); err != nil {
				return res, err
			}
		}
		res.End = h.End()
	}
	if res.End < o.Floor {
		res.Damage = append(res.Damage, Span{Offset: res.End, Length: o.Floor - res.End})
	}
	return res, nil
}

// step finds where to go on behind a place without a whole record; h is its head
// if that is intact. It returns too how far the records behind vouch for the
// pack.
func (w *window) step(h *header, at, synced int64) (next, vouched int64, err error) {
	if h != nil {
		next = h.End() // only the payload is damaged: the name is still known
		if at < synced {
			return next, 0, nil
		}
		_, vouched, err = w.search(next, at, synced)
		return next, vouched, err
	}
	next, vouched, err = w.search(at+Block, at, synced)
	// A record begins where the pack was synced to. If that is before the next one
	// found, what is between was not acknowledged.
	if known := min(w.limit, max(synced, vouched)); next < 0 || next > known {
		next = known
	}
	return next, vouched, err
}

// search looks for the next record at or behind offset; -1 if there is none. It
// looks on until one vouches for the place hole, if synced does not reach there.
func (w *window) search(offset, hole, synced int64) (next, vouched int64, err error) {
	next = -1
	for ; offset+Block <= w.limit; offset += Block {
		block, err := w.bytes(offset, Block)
		if err != nil || block == nil {
			return next, vouched, err
		}
		if block[posType] != '0' && block[posType] != 'x' {
			continue
		}
		h, _, err := w.record(offset, false)
		if err != nil {
			return next, vouched, err
		}
		if h == nil {
			continue
		}
		if next < 0 {
			next = offset
		}
		vouched = max(vouched, h.synced)
		if hole < max(synced, vouched) {
			break
		}
		offset = h.End() - Block
	}
	return next, vouched, nil
}

// record decodes the record at offset; it is nil if there is none. It is not
// whole if its payload is cut off or, when that is to be verified, wrong.
func (w *window) record(offset int64, payload bool) (h *header, whole bool, err error) {
	block, err := w.bytes(offset, Block)
	if block == nil || block[posType] == 0 {
		return nil, false, err
	}
	n, err := headSize(block, w.file.key, offset)
	if err != nil {
		return nil, false, nil
	}
	raw, err := w.bytes(offset, n)
	if raw == nil {
		return nil, false, err
	}
	h, err = decodeHead(raw, w.file.key, offset)
	if errors.Is(err, errNoRecord) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if h.End() > w.limit {
		if w.limit < w.size {
			return nil, false, nil // the caller knows of a shorter log
		}
		return h, false, nil
	}
	if !payload {
		return h, true, nil
	}
	crc, err := w.crc(offset+h.Head, h.Payload)
	return h, err == nil && crc == h.crc, err
}
