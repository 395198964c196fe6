package s3api

import (
	"net/http"
	"slices"
)

// unsupported is something that S3 has and this door has not: a setting of a bucket or
// of an object, under a parameter of the query. To ask for it is answered as S3 answers
// where nothing was ever set, so that tools that look at all settings go on; to set it
// is refused, and changes nothing.
type unsupported struct {
	scope scope
	with  string
	name  string // in the names of operations: Get..., Put..., Delete...

	read, write string // the actions; empty if there is no such operation

	unset *code  // what reading it is answered; nil: see empty
	empty string // the document, if it is answered with an empty one

	deletes bool // it can be deleted
}

// notSet is what S3 answers when a setting is read that was never made.
func notSet(name, message string) *code { return &code{name, http.StatusNotFound, message} }

var noObjectLock = &code{"InvalidRequest", http.StatusBadRequest, "Bucket is missing Object Lock Configuration"}

// lists are settings of which a bucket may have several.
var lists = []unsupported{
	{with: "analytics", name: "BucketAnalyticsConfiguration", read: "s3:GetAnalyticsConfiguration", write: "s3:PutAnalyticsConfiguration"},
	{with: "intelligent-tiering", name: "BucketIntelligentTieringConfiguration", read: "s3:GetIntelligentTieringConfiguration", write: "s3:PutIntelligentTieringConfiguration"},
	{with: "inventory", name: "BucketInventoryConfiguration", read: "s3:GetInventoryConfiguration", write: "s3:PutInventoryConfiguration"},
	{with: "metrics", name: "BucketMetricsConfiguration", read: "s3:GetMetricsConfiguration", write: "s3:PutMetricsConfiguration"},
}

// settings is the closed table of the rest.
var settings = []unsupported{
	{
		scope: ofBucket, with: "accelerate", name: "BucketAccelerateConfiguration", read: "s3:GetAccelerateConfiguration", write: "s3:PutAccelerateConfiguration",
		empty: "AccelerateConfiguration",
	},
	{
		scope: ofBucket, with: "cors", name: "BucketCors", read: "s3:GetBucketCORS", write: "s3:PutBucketCORS", deletes: true,
		unset: notSet("NoSuchCORSConfiguration", "The CORS configuration does not exist"),
	},
	{
		scope: ofBucket, with: "encryption", name: "BucketEncryption", read: "s3:GetEncryptionConfiguration", write: "s3:PutEncryptionConfiguration", deletes: true,
		unset: notSet("ServerSideEncryptionConfigurationNotFoundError", "The server side encryption configuration was not found"),
	},
	{
		scope: ofBucket, with: "lifecycle", name: "BucketLifecycleConfiguration", read: "s3:GetLifecycleConfiguration", write: "s3:PutLifecycleConfiguration", deletes: true,
		unset: notSet("NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist"),
	},
	{
		scope: ofBucket, with: "logging", name: "BucketLogging", read: "s3:GetBucketLogging", write: "s3:PutBucketLogging",
		empty: "BucketLoggingStatus",
	},
	{
		scope: ofBucket, with: "notification", name: "BucketNotificationConfiguration", read: "s3:GetBucketNotification", write: "s3:PutBucketNotification",
		empty: "NotificationConfiguration",
	},
	{
		scope: ofBucket, with: "object-lock", name: "ObjectLockConfiguration", read: "s3:GetBucketObjectLockConfiguration", write: "s3:PutBucketObjectLockConfiguration",
		unset: notSet("ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket"),
	},
	{
		scope: ofBucket, with: "ownershipControls", name: "BucketOwnershipControls", read: "s3:GetBucketOwnershipControls", write: "s3:PutBucketOwnershipControls", deletes: true,
		unset: notSet("OwnershipControlsNotFoundError", "The bucket ownership controls were not found"),
	},
	{
		scope: ofBucket, with: "replication", name: "BucketReplication", read: "s3:GetReplicationConfiguration", write: "s3:PutReplicationConfiguration", deletes: true,
		unset: notSet("ReplicationConfigurationNotFoundError", "The replication configuration was not found"),
	},
	{scope: ofBucket, with: "requestPayment", name: "BucketRequestPayment", write: "s3:PutBucketRequestPayment"},
	{
		scope: ofBucket, with: "website", name: "BucketWebsite", read: "s3:GetBucketWebsite", write: "s3:PutBucketWebsite", deletes: true,
		unset: notSet("NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration"),
	},
	{
		scope: ofObject, with: "legal-hold", name: "ObjectLegalHold", read: "s3:GetObjectLegalHold", write: "s3:PutObjectLegalHold",
		unset: noObjectLock,
	},
	{
		scope: ofObject, with: "retention", name: "ObjectRetention", read: "s3:GetObjectRetention", write: "s3:PutObjectRetention",
		unset: noObjectLock,
	},
	{scope: ofObject, with: "torrent", name: "ObjectTorrent", read: "s3:GetObjectTorrent", unset: notImplemented},
}

// elsewhere are parameters that S3 knows beside those in the table of operations.
var elsewhere = []string{
	"abac", "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable", "metadataTable", "renameObject", "session",
}

// subresources are the parameters that make a request be about something else than it
// is without them.
func subresources(all []*operation) map[string]bool {
	names := make(map[string]bool)
	for _, op := range all {
		for _, name := range op.with {
			names[name] = true
		}
	}
	for _, name := range elsewhere {
		names[name] = true
	}
	delete(names, "list-type")
	return names
}

// meant refuses a request with a parameter that its operation knows nothing of, though
// others do: to delete a bucket's cors must never delete the bucket.
func (t *table) meant(op *operation, c *call) error {
	for name := range c.query {
		switch {
		case !t.subresources[name] || slices.Contains(op.with, name):
		case name == "partNumber" && (c.R.Method == http.MethodGet || c.R.Method == http.MethodHead):
		case slices.Contains(elsewhere, name):
			return faultf(notImplemented, "%s is not implemented", name)
		default:
			return fault(methodNotAllowed)
		}
	}
	return nil
}

func unsupportedOperations() []*operation {
	all := []*operation{
		{name: "RestoreObject", scope: ofObject, method: http.MethodPost, with: []string{"restore"}, action: "s3:RestoreObject", handle: (*API).refuse},
		{name: "SelectObjectContent", scope: ofObject, method: http.MethodPost, with: []string{"select"}, action: "s3:GetObject", handle: (*API).refuse},
	}
	for _, l := range lists {
		l.scope, l.deletes = ofBucket, true
		all = append(all, l.operations((*API).listNone)...)
	}
	for _, s := range settings {
		all = append(all, s.operations(s.answer)...)
	}
	return all
}

func (s *unsupported) operations(read func(*API, *call) error) []*operation {
	row := func(verb, method, action string, handle func(*API, *call) error) *operation {
		return &operation{name: verb + s.name, scope: s.scope, method: method, with: []string{s.with}, action: action, handle: handle}
	}
	var all []*operation
	if s.read != "" {
		all = append(all, row("Get", http.MethodGet, s.read, read))
	}
	if s.write != "" {
		all = append(all, row("Put", http.MethodPut, s.write, (*API).refuse))
	}
	if s.deletes {
		all = append(all, row("Delete", http.MethodDelete, s.write, (*API).refuse))
	}
	return all
}

// answer is given to who reads a setting.
func (s unsupported) answer(_ *API, c *call) error {
	if s.scope == ofObject && s.unset != notImplemented {
		if _, _, err := c.aboutObject(); err != nil {
			return err
		}
	}
	if s.unset != nil {
		return fault(s.unset)
	}
	return c.send(newXML(s.empty))
}

// listNone is given to who reads one of a list of settings, or all of them.
func (a *API) listNone(c *call) error {
	if c.has("id") {
		return fault(notSet("NoSuchConfiguration", "The specified configuration does not exist."))
	}
	x := newXML("List" + c.op.name[len("Get"):] + "sResult")
	x.boolean("IsTruncated", false)
	return c.send(x)
}

// refuse is the answer to what is not implemented.
func (a *API) refuse(c *call) error {
	return faultf(notImplemented, "%s is not implemented", c.op.name)
}
