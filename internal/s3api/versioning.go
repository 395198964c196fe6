package s3api

import (
	"encoding/xml"
	"net/http"

	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

func versioningOperations() []*operation {
	with := []string{"versioning"}
	return []*operation{
		{name: "GetBucketVersioning", scope: ofBucket, method: http.MethodGet, with: with, action: "s3:GetBucketVersioning", handle: (*API).getVersioning},
		{name: "PutBucketVersioning", scope: ofBucket, method: http.MethodPut, with: with, action: "s3:PutBucketVersioning", handle: (*API).putVersioning},
	}
}

// The names of elements whose presence, or content as such, is all that matters.
type (
	xmlName = xml.Name
	xmlAny  = struct {
		Text string `xml:",innerxml"`
	}
)

// versioningNames are how S3 calls what a bucket's versioning may be.
var versioningNames = map[string]string{node.VersioningEnabled: "Enabled", node.VersioningSuspended: "Suspended"}

func (a *API) getVersioning(c *call) error {
	x := newXML("VersioningConfiguration")
	x.optional("Status", versioningNames[c.about.Versioning])
	return c.send(x)
}

func (a *API) putVersioning(c *call) error {
	var wanted struct {
		XMLName   xmlName `xml:"VersioningConfiguration"`
		Status    *string `xml:"Status"`
		MFADelete string  `xml:"MfaDelete"`
	}
	if err := c.readXML(&wanted, maxSmallXML); err != nil {
		return err
	}
	switch wanted.MFADelete {
	case "", "Disabled":
	case "Enabled":
		return faultf(notImplemented, "MFA delete is not implemented")
	default:
		return fault(malformedXML)
	}
	if wanted.Status == nil {
		return fault(illegalVersioning)
	}
	for value, name := range versioningNames {
		if *wanted.Status == name {
			_, err := a.node.SetBucket(c.R.Context(), c.bucket, []byte(`{"versioning":"`+value+`"}`))
			return noBucketAfter(c, err)
		}
	}
	return faultf(malformedXML, "Status must be Enabled or Suspended")
}

// noBucketAfter is for a change of a bucket that may have gone since it was found.
func noBucketAfter(c *call, err error) error {
	if object.Is(err, object.NotFound) {
		return noBucket(c.bucket, err)
	}
	return err
}
