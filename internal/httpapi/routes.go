package httpapi

import (
	"net/http"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/wire"
)

// routes is the table: every operation of the door, who may use it, and what it
// is. It is the only list of them. The router tries the patterns in this order.
func routes() []*route {
	return []*route{
		{method: http.MethodGet, pattern: "/v1/objects/{bucket}/{key}", name: "getObject", access: forAllowed, action: "s3:GetObject", handle: (*API).getObject, doc: doc{
			summary: "Read an object, or one range of it",
			detail:  "The answer to several ranges is the whole object. If damage is found after the header was sent, the connection is cut.",
			params:  join(memberParams, rangeParams, readConditions),
			replies: []reply{
				{status: 200, about: "The object.", content: "application/octet-stream", headers: objectHeaders},
				{status: 206, about: "The range.", content: "application/octet-stream", headers: objectHeaders},
				{status: 304, about: "The client has it already."},
				{status: 412, about: "A condition does not hold.", content: jsonContent, of: errorBody{}},
				{status: 416, about: "The range lies outside the object; Content-Range has its size.", content: jsonContent, of: errorBody{}},
			},
		}},
		{method: http.MethodHead, pattern: "/v1/objects/{bucket}/{key}", name: "headObject", access: forAllowed, action: "s3:GetObject", handle: (*API).headObject, doc: doc{
			summary: "Describe an object", params: join(memberParams, readConditions),
			replies: []reply{{status: 200, about: "Its headers.", headers: objectHeaders}, {status: 304, about: "The client knows it already."}},
		}},
		{method: http.MethodPut, pattern: "/v1/objects/{bucket}/{key}", name: "putObject", access: forAllowed, action: "s3:PutObject", permit: permitPut, handle: (*API).putObject, doc: doc{
			summary: "Store an object, or a copy of one",
			detail:  "It is durable, and visible, when the answer comes; until then nothing is.",
			params: join(writeConditions, []param{
				{in: "header", name: headerCRC32, about: "CRC-32 (IEEE) of the body, 8 hexadecimal digits. If the body has another, nothing is stored."},
				{in: "header", name: "Content-Type", about: "Kept with the object."},
				{in: "header", name: headerMeta + "*", about: "Metadata of the user's own, at most 8 KiB in all, by name in lower case."},
				{in: "header", name: headerCopySource, about: "/BUCKET/ESCAPED-KEY of an object to copy; then there is no body. Content type and metadata are those of the original unless given."},
			}),
			body: &content{kind: "application/octet-stream", about: "The object."},
			replies: []reply{
				{status: 200, about: "Stored.", content: jsonContent, of: objectJSON{}, headers: stampHeaders},
				{status: 412, about: "A condition does not hold.", content: jsonContent, of: errorBody{}},
				{status: 413, about: "The body is too large.", content: jsonContent, of: errorBody{}},
			},
		}},
		{method: http.MethodDelete, pattern: "/v1/objects/{bucket}/{key}", name: "deleteObject", access: forAllowed, action: "s3:DeleteObject", handle: (*API).deleteObject, doc: doc{
			summary: "Delete an object", params: writeConditions,
			replies: []reply{{status: 204, about: "Deleted, durably."}, {status: 412, about: "A condition does not hold.", content: jsonContent, of: errorBody{}}},
		}},
		{method: http.MethodGet, pattern: "/v1/objects/{bucket}", name: "listObjects", access: forAllowed, action: "s3:ListBucket", handle: (*API).listObjects, doc: doc{
			summary: "List a page of a bucket, in the byte order of keys",
			detail:  "A page may hold less than was asked for; \"truncated\" says whether there is more, and \"next\" what to pass as after. \"incomplete\" says that a disk could not be asked.",
			params: []param{
				{in: "query", name: "prefix", about: "Only keys that begin with it."},
				{in: "query", name: "delimiter", about: "Fold keys that share everything up to its first occurrence after the prefix into one of \"prefixes\"."},
				{in: "query", name: "after", about: "Only what comes after this key or folded prefix."},
				{in: "query", name: "limit", about: "Entries and prefixes together, 1 to 10000; 1000 if not given.", integer: true},
			},
			replies: []reply{{status: 200, about: "The page.", content: jsonContent, of: pageJSON{}}},
		}},

		{method: http.MethodPost, pattern: "/v1/batch", name: "batch", class: batchClass, access: forAllowed, action: "s3:GetObject", permit: permitBatch, handle: (*API).batch, doc: doc{
			summary: "Read many objects, or files inside of tars, at once",
			detail:  "Items come in the order they were asked for; one that fails is an error in its place. docs/internals/wire.md draws the frames. With Accept: application/x-tar the answer is a tar, in which .penstock/failed/NUMBER stands for an item that failed. A reference with crc32, 8 hexadecimal digits, fails with Stale unless its bytes have that CRC-32. At most 65,536 references.",
			params:  []param{{in: "header", name: "Accept", about: wire.BatchType + ", the default, or " + tarType + "."}},
			body:    &content{kind: jsonContent, about: "What to read; or " + wire.RefsType + ", the same in frames.", of: batchJSON{}},
			replies: []reply{{status: 200, about: "The items.", content: wire.BatchType}, {status: 415, about: "References of another kind.", content: jsonContent, of: errorBody{}}},
		}},
		{method: http.MethodPost, pattern: "/v1/put-batch", name: "putBatch", class: batchClass, access: forAllowed, action: "s3:PutObject", permit: permitPutBatch, handle: (*API).putBatch, doc: doc{
			summary: "Store many objects at once",
			detail:  "Each is stored whole or not at all. When the answer comes all but those it names as failed are durable.",
			params: []param{
				{in: "query", name: "bucket", about: "Where to store them."},
				{in: "query", name: "prefix", about: "What to put before each key."},
			},
			body:    &content{kind: wire.ObjectsType, about: "The objects, in frames; or " + tarType + "."},
			replies: []reply{{status: 200, about: "What was stored and what was not.", content: jsonContent, of: putBatchJSON{}}, {status: 415, about: "Objects of another kind.", content: jsonContent, of: errorBody{}}},
		}},

		{method: http.MethodGet, pattern: "/v1/buckets", name: "listBuckets", class: controlClass, access: forAllowed, action: "s3:ListAllMyBuckets", permit: permitUser, handle: (*API).listBuckets, doc: doc{
			summary: "List the caller's buckets: own ones and those with a grant; root's are all", replies: []reply{{status: 200, about: "The buckets, by name.", content: jsonContent, of: bucketsJSON{}}},
		}},
		{method: http.MethodGet, pattern: "/v1/buckets/{bucket}", name: "getBucket", class: controlClass, access: forAllowed, action: "s3:ListBucket", handle: (*API).getBucket, doc: doc{
			summary: "Describe a bucket", replies: []reply{{status: 200, about: "Its properties and use.", content: jsonContent, of: bucketJSON{}}},
		}},
		{method: http.MethodPut, pattern: "/v1/buckets/{bucket}", name: "createBucket", class: controlClass, access: forAllowed, action: "s3:CreateBucket", permit: permitUser, handle: (*API).putBucket, doc: doc{
			summary: "Make a bucket", body: &content{kind: jsonContent, about: propertiesAbout, of: propertiesJSON{}},
			replies: []reply{{status: 201, about: "Made.", content: jsonContent, of: bucketJSON{}}, {status: 409, about: "It exists already.", content: jsonContent, of: errorBody{}}},
		}},
		{method: http.MethodPatch, pattern: "/v1/buckets/{bucket}", name: "setBucket", class: controlClass, access: forAllowed, action: "penstock:SetBucket", handle: (*API).patchBucket, doc: doc{
			summary: "Change properties of a bucket", detail: "What is named is set, null sets back, what is not named stays.",
			body:    &content{kind: jsonContent, about: propertiesAbout, of: propertiesJSON{}},
			replies: []reply{{status: 200, about: "Changed.", content: jsonContent, of: bucketJSON{}}},
		}},
		{method: http.MethodDelete, pattern: "/v1/buckets/{bucket}", name: "deleteBucket", class: controlClass, access: forAllowed, action: "s3:DeleteBucket", handle: (*API).deleteBucket, doc: doc{
			summary: "Delete an empty bucket",
			replies: []reply{{status: 204, about: "Deleted."}, {status: 409, about: "It is not empty.", content: jsonContent, of: errorBody{}}},
		}},

		{method: http.MethodGet, pattern: "/v1/buckets/{bucket}/grants", name: "getGrants", class: controlClass, access: forAllowed, action: "s3:GetBucketAcl", handle: (*API).getGrants, doc: doc{
			summary: "Who may use a bucket", replies: []reply{{status: 200, about: "Its owner, canned ACL, and rights by user.", content: jsonContent, of: grantsJSON{}}},
		}},
		{method: http.MethodPatch, pattern: "/v1/buckets/{bucket}/grants", name: "setGrants", class: controlClass, access: forAllowed, action: "s3:PutBucketAcl", handle: (*API).patchGrants, doc: doc{
			summary: "Change rights of users on a bucket", detail: "Users that are named get the right; null takes it away; others stay. All of it happens or nothing.",
			body: &content{kind: jsonContent, about: "From users to \"read\", \"write\", \"admin\" or null.", of: map[string]string{}},
			replies: []reply{
				{status: 200, about: "Changed.", content: jsonContent, of: grantsJSON{}},
				{status: 404, about: "There is no such bucket or user.", content: jsonContent, of: errorBody{}},
			},
		}},
		{method: http.MethodGet, pattern: "/v1/buckets/{bucket}/policy", name: "getPolicy", class: controlClass, access: forAllowed, action: "s3:GetBucketPolicy", handle: (*API).getPolicy, doc: doc{
			summary: "The policy of a bucket", replies: []reply{{status: 200, about: "As it was written.", content: jsonContent, of: policyJSON{}}},
		}},
		{method: http.MethodPut, pattern: "/v1/buckets/{bucket}/policy", name: "putPolicy", class: controlClass, access: forAllowed, action: "s3:PutBucketPolicy", handle: (*API).putPolicy, doc: doc{
			summary: "Give a bucket a policy", detail: "In the language of S3; strings may stand in place of lists. At most 20 KiB. What is not understood is refused.",
			body:    &content{kind: jsonContent, about: "The policy.", of: policyJSON{}},
			replies: []reply{{status: 204, about: "It is in force."}, {status: 400, about: "It is malformed.", content: jsonContent, of: errorBody{}}},
		}},
		{method: http.MethodDelete, pattern: "/v1/buckets/{bucket}/policy", name: "deletePolicy", class: controlClass, access: forAllowed, action: "s3:DeleteBucketPolicy", handle: (*API).deletePolicy, doc: doc{
			summary: "Take the policy of a bucket away", replies: []reply{{status: 204, about: "There is none."}},
		}},

		{method: http.MethodGet, pattern: "/v1/datasets", name: "listDatasets", class: controlClass, access: forAllowed, action: "s3:ListAllMyBuckets", permit: permitUser, handle: (*API).listDatasets, doc: doc{
			summary: "List datasets that have versions, one page at a time",
			detail:  "\"next\" is the \"after\" of the next page, and only there if there is one.",
			params:  join([]param{{in: "query", name: "after", about: "Only names behind this."}, {in: "query", name: "limit", about: "1 to 10000; 1000 by default.", integer: true}}, tagParams),
			replies: []reply{{status: 200, about: "The datasets, by name.", content: jsonContent, of: datasetsJSON{}, headers: tagHeaders}, {status: 304, about: "The client knows them already."}},
		}},
		{method: http.MethodGet, pattern: "/v1/datasets/{dataset}", name: "getDataset", class: controlClass, access: forAllowed, action: "s3:GetObject", permit: permitDataset, handle: (*API).getDataset, doc: doc{
			summary: "Describe a dataset and its versions",
			detail:  "\"newest\" is 0 if all versions were removed. \"next\" is what the next one must be called.",
			params:  tagParams,
			replies: []reply{{status: 200, about: "The dataset.", content: jsonContent, of: datasetJSON{}, headers: tagHeaders}, {status: 304, about: "The client knows it already."}},
		}},
		{method: http.MethodPut, pattern: "/v1/datasets/{dataset}/{version}", name: "publishDataset", class: controlClass, access: forAllowed, action: "s3:PutObject", permit: permitPublish, handle: (*API).putDataset, doc: doc{
			summary: "Publish the next version of a dataset",
			detail:  "Its manifest and shards are stored already. From now on they must not be changed.",
			body:    &content{kind: jsonContent, about: "Where the manifest is, and what it holds. base is the version whose shards it keeps, if it keeps some.", of: publishJSON{}},
			replies: []reply{
				{status: 201, about: "Published, durably.", content: jsonContent, of: node.DatasetVersion{}},
				{status: 400, about: "The manifest is not there, or has another ETag.", content: jsonContent, of: errorBody{}},
				{status: 404, about: "There is no such bucket, or base was removed.", content: jsonContent, of: errorBody{}},
				{status: 409, about: "There is such a version.", content: jsonContent, of: errorBody{}},
				{status: 412, about: "Another version is the next one.", content: jsonContent, of: errorBody{}},
			},
		}},
		{method: http.MethodDelete, pattern: "/v1/datasets/{dataset}/{version}", name: "deleteVersion", class: controlClass, access: forAllowed, action: "s3:DeleteObject", permit: permitDataset, handle: (*API).deleteDataset, doc: doc{
			summary: "Remove a version of a dataset", detail: "Its objects stay; its number is not given out again.",
			replies: []reply{{status: 204, about: "Removed."}},
		}},
		{method: http.MethodDelete, pattern: "/v1/datasets/{dataset}", name: "deleteDataset", class: controlClass, access: forAllowed, action: "s3:DeleteObject", permit: permitDataset, handle: (*API).deleteDataset, doc: doc{
			summary: "Remove all versions of a dataset", detail: "Their objects stay; their numbers are not given out again.",
			replies: []reply{{status: 204, about: "Removed."}},
		}},

		{method: http.MethodGet, pattern: "/v1/users", name: "listUsers", class: controlClass, handle: (*API).listUsers, doc: doc{
			summary: "List the users beside root", replies: []reply{{status: 200, about: "The users, by name.", content: jsonContent, of: usersJSON{}}},
		}},
		{method: http.MethodPut, pattern: "/v1/users/{user}", name: "addUser", class: controlClass, handle: (*API).addUser, doc: doc{
			summary: "Add a user",
			detail:  "The answer shows the secret key and the token, this once. As soon as there is a user, a token is needed on loopback, too.",
			body:    &content{kind: jsonContent, about: "The key pair; may be empty, then it is made.", of: keysJSON{}},
			replies: []reply{{status: 201, about: "Added.", content: jsonContent, of: newUserJSON{}}, {status: 409, about: "The name or the access key is another's.", content: jsonContent, of: errorBody{}}},
		}},
		{method: http.MethodDelete, pattern: "/v1/users/{user}", name: "removeUser", class: controlClass, handle: (*API).removeUser, doc: doc{
			summary: "Remove a user and all grants to him",
			replies: []reply{{status: 204, about: "Removed."}, {status: 409, about: "He owns buckets.", content: jsonContent, of: errorBody{}}},
		}},
		{method: http.MethodPost, pattern: "/v1/users/{user}/token", name: "newToken", class: controlClass, handle: (*API).newToken, doc: doc{
			summary: "Give a user a new token", detail: "The old one is no longer valid.",
			replies: []reply{{status: 200, about: "The token, shown this once.", content: jsonContent, of: tokenJSON{}}},
		}},

		{method: http.MethodGet, pattern: "/v1/map", name: "getMap", class: controlClass, access: forUsers, handle: (*API).getMap, doc: doc{
			summary: "The cluster's nodes", replies: []reply{{status: 200, about: "The map.", content: jsonContent, of: mapJSON{}}},
		}},
		{method: http.MethodGet, pattern: "/v1/disks", name: "getDisks", class: controlClass, handle: (*API).getDisks, doc: doc{
			summary: "This node's disks", replies: []reply{{status: 200, about: "Their state.", content: jsonContent, of: disksJSON{}}},
		}},
		{method: http.MethodPost, pattern: "/v1/scrub", name: "scrub", class: controlClass, handle: (*API).scrub, doc: doc{
			summary: "Read and check everything that is stored on this node",
			detail:  "The answer is a stream of lines, each a JSON object with one of progress, finding, report and error. The last one is a report or an error; without it the scrub did not end. It stops when the client leaves.",
			replies: []reply{{status: 200, about: "The lines.", content: "application/x-ndjson", of: scrubJSON{}}},
		}},
		{method: http.MethodGet, pattern: "/v1/openapi.json", name: "openapi", class: controlClass, access: forUsers, handle: (*API).openapi, doc: doc{
			summary: "This description", replies: []reply{{status: 200, about: "OpenAPI 3.1.", content: jsonContent}},
		}},

		{method: http.MethodGet, pattern: "/healthz", name: "healthz", class: controlClass, access: forAll, handle: (*API).healthy, doc: doc{
			summary: "Whether the process answers", replies: []reply{{status: 200, about: "It does.", content: "text/plain"}},
		}},
		{method: http.MethodGet, pattern: "/readyz", name: "readyz", class: controlClass, access: forAll, handle: (*API).readiness, doc: doc{
			summary: "Whether the node should be sent requests", replies: []reply{
				{status: 200, about: "It should.", content: "text/plain"},
				{status: 503, about: "It is starting or stopping.", content: jsonContent, of: errorBody{}},
			},
		}},
		{method: http.MethodGet, pattern: "/metrics", name: "metrics", class: controlClass, access: forUsers, handle: (*API).showMetrics, doc: doc{
			summary: "Metrics for Prometheus", replies: []reply{{status: 200, about: "In its text format.", content: "text/plain"}},
		}},
		{method: http.MethodGet, pattern: "/debug/pprof/*", name: "pprof", class: controlClass, handle: (*API).profile, doc: doc{
			summary: "Profiles of the process, for go tool pprof", replies: []reply{{status: 200, about: "The profile.", content: "application/octet-stream"}},
		}},
		{method: http.MethodGet, pattern: "/", name: "home", class: controlClass, access: forUsers, handle: (*API).home, doc: doc{
			summary: "Which node this is", replies: []reply{{status: 200, about: "A few words.", content: "text/plain"}},
		}},
	}
}

const (
	jsonContent     = "application/json"
	propertiesAbout = "quota in bytes (0 for none), verify (\"always\" or \"\"). May be empty."
)

var (
	rangeParams = []param{
		{in: "header", name: "Range", about: "bytes=FIRST-LAST, bytes=FIRST- or bytes=-LENGTH."},
		{in: "header", name: "If-Range", about: "An ETag or a date: unless it fits, Range is ignored."},
	}
	memberParams = []param{
		{in: "query", name: "member", about: "The path of a file inside an object that is a tar. ETag, version and time are the tar's."},
	}
	readConditions = []param{
		{in: "header", name: "If-Match", about: "ETags of which the object's must be one, or *."},
		{in: "header", name: "If-None-Match", about: "ETags of which the object's must be none, or *."},
		{in: "header", name: "If-Modified-Since", about: "Used without If-None-Match."},
		{in: "header", name: "If-Unmodified-Since", about: "Used without If-Match."},
	}
	writeConditions = []param{
		{in: "header", name: "If-Match", about: "The current ETag, or * for any object. Checked together with the write."},
		{in: "header", name: "If-None-Match", about: "* if there must be no object, or an ETag it must not have. Checked together with the write."},
	}
	tagParams  = []param{{in: "header", name: "If-None-Match", about: "ETags of answers that the client has: if nothing has changed, 304."}}
	tagHeaders = []param{{name: "ETag", about: "Changes with the answer."}}

	stampHeaders = []param{
		{name: "ETag", about: "Changes with every write."},
		{name: "Last-Modified", about: "When it was written, to the second."},
		{name: headerModified, about: "When it was written, to the nanosecond: RFC 3339."},
		{name: headerVersion, about: "Orders the writes of an object: map.counter."},
		{name: headerCRC32, about: "CRC-32 (IEEE) of the whole object, 8 hexadecimal digits."},
	}
	objectHeaders = join(stampHeaders, []param{
		{name: headerMeta + "*", about: "The user's metadata."},
		{name: "Content-Range", about: "Which bytes of how many a part is."},
	})
)

func join(lists ...[]param) []param {
	var all []param
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
