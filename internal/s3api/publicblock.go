package s3api

import (
	"net/http"

	"penstock.dev/penstock/internal/object"
)

func publicBlockOperations() []*operation {
	with := []string{"publicAccessBlock"}
	return []*operation{
		{name: "GetPublicAccessBlock", scope: ofBucket, method: http.MethodGet, with: with, action: "s3:GetBucketPublicAccessBlock", handle: (*API).getPublicBlock},
		{name: "PutPublicAccessBlock", scope: ofBucket, method: http.MethodPut, with: with, action: "s3:PutBucketPublicAccessBlock", handle: (*API).putPublicBlock},
		{name: "DeletePublicAccessBlock", scope: ofBucket, method: http.MethodDelete, with: with, action: "s3:PutBucketPublicAccessBlock", handle: (*API).deletePublicBlock},
	}
}

var noPublicBlock = notSet("NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found")

func (a *API) getPublicBlock(c *call) error {
	b := c.about.Access.Block
	if !b.Set {
		return fault(noPublicBlock)
	}
	x := newXML("PublicAccessBlockConfiguration")
	x.boolean("BlockPublicAcls", b.RefuseACLs)
	x.boolean("IgnorePublicAcls", b.IgnoreACLs)
	x.boolean("BlockPublicPolicy", b.RefusePolicy)
	x.boolean("RestrictPublicBuckets", b.IgnorePolicy)
	return c.send(x)
}

func (a *API) putPublicBlock(c *call) error {
	var wanted struct {
		XMLName      xmlName `xml:"PublicAccessBlockConfiguration"`
		RefuseACLs   bool    `xml:"BlockPublicAcls"`
		IgnoreACLs   bool    `xml:"IgnorePublicAcls"`
		RefusePolicy bool    `xml:"BlockPublicPolicy"`
		IgnorePolicy bool    `xml:"RestrictPublicBuckets"`
	}
	if err := c.readXML(&wanted, maxSmallXML); err != nil {
		return err
	}
	return a.setPublicBlock(c, object.PublicBlock{
		Set: true, RefuseACLs: wanted.RefuseACLs, IgnoreACLs: wanted.IgnoreACLs, RefusePolicy: wanted.RefusePolicy, IgnorePolicy: wanted.IgnorePolicy,
	})
}

func (a *API) deletePublicBlock(c *call) error {
	c.Status = http.StatusNoContent
	return a.setPublicBlock(c, object.PublicBlock{})
}

func (a *API) setPublicBlock(c *call, block object.PublicBlock) error {
	_, err := a.node.SetAccess(c.R.Context(), c.bucket, func(access object.Access) (object.Access, error) {
		access.Block = block
		return access, nil
	})
	return noBucketAfter(c, err)
}
