package httpapi

import (
	"time"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

// The shapes of the JSON that the door sends. The OpenAPI document is made from
// these types, so it cannot say anything else.

type objectJSON struct {
	Bucket      string            `json:"bucket"`
	Key         string            `json:"key"`
	Size        int64             `json:"size"`
	ETag        string            `json:"etag"`
	Modified    time.Time         `json:"modified"`
	Version     string            `json:"version"`
	CRC32       string            `json:"crc32"`
	ContentType string            `json:"content_type,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

func newObjectJSON(info object.Info) objectJSON {
	return objectJSON{
		Bucket: info.Name.Bucket, Key: info.Name.Key, Size: info.Size, ETag: info.ETag, Modified: info.Modified.UTC(),
		Version: info.Version.String(), CRC32: string(appendCRC(nil, info.CRC32)),
		ContentType: info.ContentType, Metadata: info.Metadata,
	}
}

type entryJSON struct {
	Key      string    `json:"key"`
	Size     int64     `json:"size"`
	ETag     string    `json:"etag"`
	Modified time.Time `json:"modified"`
	Version  string    `json:"version"`
	CRC32    string    `json:"crc32"`
}

func newEntryJSON(info object.Info) entryJSON {
	return entryJSON{
		Key: info.Name.Key, Size: info.Size, ETag: info.ETag, Modified: info.Modified.UTC(),
		Version: info.Version.String(), CRC32: string(appendCRC(nil, info.CRC32)),
	}
}

type pageJSON struct {
	Bucket     string      `json:"bucket"`
	Prefix     string      `json:"prefix"`
	Entries    []entryJSON `json:"entries"`
	Prefixes   []string    `json:"prefixes"`
	Truncated  bool        `json:"truncated"`
	Next       string      `json:"next"`
	Incomplete bool        `json:"incomplete"`
}

type propertiesJSON struct {
	Quota  *int64  `json:"quota,omitempty"`
	Verify *string `json:"verify,omitempty"`
}

type bucketJSON struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Owner   string    `json:"owner"`
	Quota   int64     `json:"quota"`
	Verify  string    `json:"verify"`
	Objects int64     `json:"objects"`
	Bytes   int64     `json:"bytes"`
	Problem string    `json:"problem,omitempty"`
}

func newBucketJSON(b node.Bucket, u node.Usage) bucketJSON {
	return bucketJSON{Name: b.Name, Created: b.Created, Owner: auth.Owner(b.Access), Quota: b.Quota, Verify: b.Verify, Objects: u.Objects, Bytes: u.Bytes, Problem: b.Problem}
}

type bucketsJSON struct {
	Buckets []bucketJSON `json:"buckets"`
}

type mapJSON struct {
	Number uint32       `json:"number"`
	Nodes  []memberJSON `json:"nodes"`
}

type memberJSON struct {
	Name    string  `json:"name"`
	Address string  `json:"address"`
	Weight  float64 `json:"weight"`
	State   string  `json:"state"`
}

type disksJSON struct {
	Disks []node.Disk `json:"disks"`
}

// scrubJSON is one line of a scrub's answer; one of its fields is set. The last
// line is a report, or an error.
type scrubJSON struct {
	Progress *node.ScrubProgress `json:"progress,omitempty"`
	Finding  *node.Finding       `json:"finding,omitempty"`
	Report   *node.ScrubReport   `json:"report,omitempty"`
	Error    *errorDetail        `json:"error,omitempty"`
}

// batchJSON is what a batch asks for. Package wire reads it.
type batchJSON struct {
	Bucket string    `json:"bucket"`
	Refs   []refJSON `json:"refs"`
}

type refJSON struct {
	Key    string `json:"key"`
	Bucket string `json:"bucket,omitempty"`
	Member string `json:"member,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Length int64  `json:"length,omitempty"`
	CRC32  string `json:"crc32,omitempty"`
}
