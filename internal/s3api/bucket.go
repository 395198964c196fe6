package s3api

import (
	"errors"
	"net/http"
	"strings"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
)

func bucketOperations() []*operation {
	return []*operation{
		{name: "CreateBucket", scope: ofBucket, method: http.MethodPut, action: "s3:CreateBucket", makes: true, handle: (*API).createBucket},
		{name: "DeleteBucket", scope: ofBucket, method: http.MethodDelete, action: "s3:DeleteBucket", handle: (*API).deleteBucket},
		{name: "HeadBucket", scope: ofBucket, method: http.MethodHead, action: "s3:ListBucket", handle: (*API).headBucket},
		{name: "GetBucketLocation", scope: ofBucket, method: http.MethodGet, with: []string{"location"}, action: "s3:GetBucketLocation", handle: (*API).getLocation},
		{name: "GetBucketRequestPayment", scope: ofBucket, method: http.MethodGet, with: []string{"requestPayment"}, action: "s3:GetBucketRequestPayment", handle: (*API).getRequestPayment},
	}
}

const maxSmallXML = 64 << 10 // bytes of a document with a setting in it

// createBucket makes a bucket. To make it again as it is does nothing, as in S3's first
// region; with another ACL it is refused.
func (a *API) createBucket(c *call) error {
	if err := validBucket(c.bucket); err != nil {
		return err
	}
	access, err := c.newAccess()
	if err != nil {
		return err
	}
	if err := c.location(); err != nil {
		return err
	}
	_, err = a.node.CreateBucketAs(c.R.Context(), c.bucket, node.Properties{}, access, a.authority.Standing(c.user.Name)...)
	if object.Is(err, object.Exists) {
		err = a.existing(c, access)
	}
	if err != nil {
		return err
	}
	c.Header()["Location"] = c.Value("/" + c.bucket)
	return nil
}

// existing answers who wants to make a bucket that is there.
func (a *API) existing(c *call, wanted object.Access) error {
	b, err := a.node.Bucket(c.bucket)
	if err != nil {
		return err
	}
	if b.Problem != "" || auth.Owner(b.Access) != c.user.Name || b.Access.ACL != wanted.ACL {
		return fault(bucketExists)
	}
	return nil
}

// validBucket is stricter than package object in what S3 calls a name that is no host's.
func validBucket(name string) error {
	if err := object.ValidateBucket(name); err != nil {
		return faultf(invalidBucketName, "The specified bucket is not valid: %v", err)
	}
	if strings.Contains(name, ".-") || strings.Contains(name, "-.") {
		return faultf(invalidBucketName, "The specified bucket is not valid: a dot and a dash stand side by side")
	}
	return nil
}

// newAccess reads what the headers say about who may use a new bucket.
func (c *call) newAccess() (object.Access, error) {
	access := auth.OwnedBy(c.user)
	if lock := c.amz("X-Amz-Bucket-Object-Lock-Enabled"); lock != "" && !strings.EqualFold(lock, "false") {
		return access, faultf(notImplemented, "object lock is not implemented")
	}
	switch c.amz("X-Amz-Object-Ownership") {
	case "", "BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter":
	default:
		return access, faultf(invalidArgument, "Invalid x-amz-object-ownership header")
	}
	acl, err := c.bucketACL()
	if err != nil {
		return access, err
	}
	return auth.SetACL(access, acl)
}

// location reads where the bucket is to be. There is one place, which answers to every
// region that a client may be set to, as signatures for all regions are accepted.
func (c *call) location() error {
	text, err := c.ReadSmall(c.R.Body, maxSmallXML)
	switch {
	case errors.Is(err, door.ErrLonger):
		return faultf(malformedXML, "the document is longer than %d bytes", maxSmallXML)
	case err != nil || len(text) == 0:
		return err
	}
	var wanted struct {
		XMLName            xmlName `xml:"CreateBucketConfiguration"`
		LocationConstraint string  `xml:"LocationConstraint"`
		Location           *xmlAny `xml:"Location"`
		Bucket             *xmlAny `xml:"Bucket"`
		Tags               *xmlAny `xml:"Tags"`
	}
	if err := parseXML(text, &wanted); err != nil {
		return err
	}
	if wanted.Location != nil || wanted.Bucket != nil || wanted.Tags != nil {
		return faultf(notImplemented, "of a CreateBucketConfiguration only the LocationConstraint is implemented")
	}
	region := wanted.LocationConstraint
	if len(region) > 63 || strings.ContainsFunc(region, func(r rune) bool { return object.NotInUser(r) || r == '.' }) {
		return fault(invalidLocation)
	}
	return nil
}

func (a *API) deleteBucket(c *call) error {
	err := a.node.DeleteBucket(c.R.Context(), c.bucket)
	if object.Is(err, object.Exists) {
		return faultf(bucketNotEmpty, "The bucket you tried to delete is not empty: %v", err)
	}
	if err != nil {
		return noBucket(c.bucket, err)
	}
	c.Status = http.StatusNoContent
	return nil
}

func (a *API) headBucket(c *call) error {
	h := c.Header()
	h["X-Amz-Bucket-Region"] = c.Value(a.region)
	h["X-Amz-Access-Point-Alias"] = c.Value("false")
	h["Content-Type"] = xmlType
	return nil
}

func (a *API) getLocation(c *call) error {
	x := newXML("LocationConstraint")
	if a.region != "us-east-1" { // which S3 does not name
		x.escape(a.region)
	}
	return c.send(x)
}

func (a *API) getRequestPayment(c *call) error {
	x := newXML("RequestPaymentConfiguration")
	x.text("Payer", "BucketOwner")
	return c.send(x)
}
