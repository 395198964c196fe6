package s3api

import (
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

func taggingOperations() []*operation {
	with := []string{"tagging"}
	return []*operation{
		{
			name: "GetObjectTagging", scope: ofObject, method: http.MethodGet, with: with,
			action: "s3:GetObjectTagging", versionAction: "s3:GetObjectVersionTagging", handle: (*API).getTagging,
		},
		{
			name: "PutObjectTagging", scope: ofObject, method: http.MethodPut, with: with,
			action: "s3:PutObjectTagging", versionAction: "s3:PutObjectVersionTagging", handle: (*API).putTagging,
		},
		{
			name: "DeleteObjectTagging", scope: ofObject, method: http.MethodDelete, with: with,
			action: "s3:DeleteObjectTagging", versionAction: "s3:DeleteObjectVersionTagging", handle: (*API).deleteTagging,
		},
		{name: "GetBucketTagging", scope: ofBucket, method: http.MethodGet, with: with, action: "s3:GetBucketTagging", handle: (*API).getBucketTagging},
		{name: "PutBucketTagging", scope: ofBucket, method: http.MethodPut, with: with, action: "s3:PutBucketTagging", handle: (*API).putBucketTagging},
		{name: "DeleteBucketTagging", scope: ofBucket, method: http.MethodDelete, with: with, action: "s3:PutBucketTagging", handle: (*API).deleteBucketTagging},
	}
}

// tagging is the document with the tags of an object or a bucket.
type tagging struct {
	XMLName xml.Name `xml:"Tagging"`
	Tags    []struct {
		Key   string
		Value string
	} `xml:"TagSet>Tag"`
}

const maxTagging = 64 << 10

// getTagging answers with the tags of an object, in the order of their keys.
func (a *API) getTagging(c *call) error {
	_, facts, err := c.facts()
	if err != nil {
		return err
	}
	return c.sendTags(facts.Tags)
}

// sendTags answers with tags.
func (c *call) sendTags(tags map[string]string) error {
	x := newXML("Tagging")
	x.begin("TagSet")
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		x.begin("Tag")
		x.text("Key", key)
		x.text("Value", tags[key])
		x.end()
	}
	x.end()
	return c.send(x)
}

// putTagging replaces the tags of an object.
func (a *API) putTagging(c *call) error {
	tags, err := c.readTags(maxTags)
	if err != nil {
		return err
	}
	if c.about.Access.Policy != "" { // which may be about the tags, known only now
		c.tags = tags
		if err := c.api.admit(c); err != nil {
			return err
		}
	}
	return c.setTags(tags)
}

// readTags reads the tags in a body.
func (c *call) readTags(most int) (map[string]string, error) {
	var list tagging
	if err := c.readXML(&list, maxTagging); err != nil {
		return nil, err
	}
	tags := make(map[string]string, len(list.Tags))
	for _, tag := range list.Tags {
		tags[tag.Key] = tag.Value
	}
	if len(tags) < len(list.Tags) {
		return nil, faultf(invalidTag, "Cannot provide multiple Tags with the same key")
	}
	return tags, validTags(tags, most)
}

// deleteTagging takes the tags of an object away.
func (a *API) deleteTagging(c *call) error {
	c.Status = http.StatusNoContent
	return c.setTags(nil)
}

func (c *call) setTags(tags map[string]string) error {
	info, _, err := c.aboutObject()
	if err != nil {
		return err
	}
	return c.setFacts(info, func(facts *node.Facts) { facts.Tags = tags })
}

// setFacts changes what is known of an object.
func (c *call) setFacts(info object.Info, change func(*node.Facts)) error {
	return c.api.node.SetFacts(c.R.Context(), info, func(facts node.Facts, set bool) (node.Facts, error) {
		var err error
		if !set {
			facts, err = factsWritten(&info)
		}
		change(&facts)
		return facts, err
	})
}

func (a *API) getBucketTagging(c *call) error {
	if len(c.about.Tags) == 0 {
		return fault(noSuchTagSet)
	}
	return c.sendTags(c.about.Tags)
}

func (a *API) putBucketTagging(c *call) error {
	tags, err := c.readTags(maxBucketTags)
	if err != nil {
		return err
	}
	return a.setBucketTags(c, tags)
}

func (a *API) deleteBucketTagging(c *call) error { return a.setBucketTags(c, nil) }

func (a *API) setBucketTags(c *call, tags map[string]string) error {
	if _, err := a.node.SetTags(c.R.Context(), c.bucket, tags); err != nil {
		return noBucketAfter(c, err)
	}
	c.Status = http.StatusNoContent
	return nil
}

// facts returns the object that the call is about and what is known of it, and sets the
// header that says which version it is.
func (c *call) facts() (object.Info, node.Facts, error) {
	info, _, err := c.aboutObject()
	if err != nil {
		return info, node.Facts{}, err
	}
	facts, err := c.factsOf(info)
	return info, facts, err
}

// formatTags is the inverse of parseTags.
func formatTags(tags map[string]string) string {
	values := make(url.Values, len(tags))
	for key, value := range tags {
		values.Set(key, value)
	}
	return values.Encode()
}
