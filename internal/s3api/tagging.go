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
	}
}

// tagging is the document with the tags of an object.
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
	x := newXML("Tagging")
	x.begin("TagSet")
	for _, key := range slices.Sorted(maps.Keys(facts.Tags)) {
		x.begin("Tag")
		x.text("Key", key)
		x.text("Value", facts.Tags[key])
		x.end()
	}
	x.end()
	return c.send(x)
}

// putTagging replaces the tags of an object.
func (a *API) putTagging(c *call) error {
	var list tagging
	if err := c.readXML(&list, maxTagging); err != nil {
		return err
	}
	tags := make(map[string]string, len(list.Tags))
	for _, tag := range list.Tags {
		tags[tag.Key] = tag.Value
	}
	if len(tags) < len(list.Tags) {
		return faultf(invalidTag, "Cannot provide multiple Tags with the same key")
	}
	if err := validTags(tags); err != nil {
		return err
	}
	return c.setTags(tags)
}

// deleteTagging takes the tags of an object away.
func (a *API) deleteTagging(c *call) error {
	c.Status = http.StatusNoContent
	return c.setTags(nil)
}

func (c *call) setTags(tags map[string]string) error {
	info, facts, err := c.facts()
	if err != nil {
		return err
	}
	facts.Tags = tags
	return c.api.node.SetFacts(c.R.Context(), info, facts)
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
