package auth

import "penstock.dev/penstock/internal/policy"

// right is what an action needs. Each includes those below it.
type right uint8

const (
	unknown right = iota // no action that we know: nobody but root
	asUser               // any user; it is about no bucket
	read
	write
	admin
)

// The rights that can be granted on a bucket, by the names they have.
const (
	Read  = "read"  // read and list objects
	Write = "write" // and store and delete them
	Admin = "admin" // and all else the owner may
)

var grants = map[string]right{Read: read, Write: write, Admin: admin}

// rights is the closed table from actions to what they need. What is not here needs
// the right of an admin; what policy.Actions does not have is unknown.
var rights = table(map[right][]string{
	asUser: {"s3:CreateBucket", "s3:ListAllMyBuckets"},
	read: {
		"s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:GetBucketObjectLockConfiguration", "s3:GetBucketRequestPayment",
		"s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectAttributes", "s3:GetObjectVersionAttributes",
		"s3:GetObjectTagging", "s3:GetObjectVersionTagging", "s3:GetObjectTorrent", "s3:GetObjectVersionTorrent",
		"s3:GetObjectLegalHold", "s3:GetObjectRetention",
		"s3:ListBucket", "s3:ListBucketVersions", "s3:ListBucketMultipartUploads", "s3:ListMultipartUploadParts",
	},
	// To delete a version is to destroy it for good; a writer may only cover it up. To
	// change an ACL is to let others in.
	write: {
		"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:RestoreObject",
		"s3:PutObjectTagging", "s3:PutObjectVersionTagging", "s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging",
	},
})

func table(lower map[right][]string) map[string]right {
	all := make(map[string]right)
	for _, action := range policy.Actions() {
		all[action] = admin
	}
	for r, actions := range lower {
		for _, action := range actions {
			all[action] = r
		}
	}
	return all
}

// The canned ACLs of S3. Empty means private.
const (
	Private           = "private"
	PublicRead        = "public-read"
	PublicReadWrite   = "public-read-write"
	AuthenticatedRead = "authenticated-read"
)

// bucketACLs say what a bucket's canned ACL gives to those who are not its owner. As in
// S3 it is about the bucket's list of objects; what is in them is for their own ACLs.
var bucketACLs = map[string]given{
	PublicRead:        {toAll: listing},
	PublicReadWrite:   {toAll: append([]string{"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"}, listing...)},
	AuthenticatedRead: {toUsers: listing},
}

// objectACLs say the same of an object's.
var objectACLs = map[string]given{
	PublicRead:        {toAll: reading},
	PublicReadWrite:   {toAll: reading},
	AuthenticatedRead: {toUsers: reading},
}

type given struct{ toAll, toUsers []string }

var (
	listing = []string{"s3:ListBucket", "s3:ListBucketVersions", "s3:ListBucketMultipartUploads"}
	reading = []string{"s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectAttributes", "s3:GetObjectVersionAttributes", "s3:GetObjectTorrent", "s3:GetObjectVersionTorrent"}
	// owning is what an object's own writer may do with it in another's bucket.
	owning = append([]string{"s3:GetObjectAcl", "s3:GetObjectVersionAcl", "s3:PutObjectAcl", "s3:PutObjectVersionAcl", "s3:GetObjectTagging", "s3:GetObjectVersionTagging"}, reading...)
)

// unlocking are the actions that an owner keeps whatever the policy says, so that
// nobody locks himself out.
var unlocking = []string{"s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"}
