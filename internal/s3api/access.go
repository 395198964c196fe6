package s3api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/door"
	"penstock.dev/penstock/internal/node"
	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/policy"
)

func accessOperations() []*operation {
	acl, document := []string{"acl"}, []string{"policy"}
	return []*operation{
		{name: "GetBucketPolicy", scope: ofBucket, method: http.MethodGet, with: document, action: "s3:GetBucketPolicy", handle: (*API).getPolicy},
		{name: "PutBucketPolicy", scope: ofBucket, method: http.MethodPut, with: document, action: "s3:PutBucketPolicy", handle: (*API).putPolicy},
		{name: "DeleteBucketPolicy", scope: ofBucket, method: http.MethodDelete, with: document, action: "s3:DeleteBucketPolicy", handle: (*API).deletePolicy},
		{name: "GetBucketPolicyStatus", scope: ofBucket, method: http.MethodGet, with: []string{"policyStatus"}, action: "s3:GetBucketPolicyStatus", handle: (*API).getPolicyStatus},
		{name: "GetBucketAcl", scope: ofBucket, method: http.MethodGet, with: acl, action: "s3:GetBucketAcl", handle: (*API).getBucketACL},
		{name: "PutBucketAcl", scope: ofBucket, method: http.MethodPut, with: acl, action: "s3:PutBucketAcl", handle: (*API).putBucketACL},
		{name: "GetObjectAcl", scope: ofObject, method: http.MethodGet, with: acl, action: "s3:GetObjectAcl", versionAction: "s3:GetObjectVersionAcl", handle: (*API).getObjectACL},
		{name: "PutObjectAcl", scope: ofObject, method: http.MethodPut, with: acl, action: "s3:PutObjectAcl", versionAction: "s3:PutObjectVersionAcl", handle: (*API).putObjectACL},
	}
}

func (a *API) getPolicy(c *call) error {
	if c.about.Access.Policy == "" {
		return fault(noSuchPolicy)
	}
	c.Header()["Content-Type"] = []string{"application/json"}
	_, err := c.Write([]byte(c.about.Access.Policy))
	return err
}

func (a *API) putPolicy(c *call) error {
	text, err := c.ReadSmall(c.R.Body, object.MaxPolicy)
	switch {
	case errors.Is(err, door.ErrLonger):
		return faultf(malformedPolicy, "Policies must not be longer than %d bytes", object.MaxPolicy)
	case err != nil:
		return err
	case len(text) == 0:
		return faultf(malformedPolicy, "Missing policy document")
	}
	return a.setPolicy(c, string(text))
}

func (a *API) deletePolicy(c *call) error { return a.setPolicy(c, "") }

func (a *API) setPolicy(c *call, text string) error {
	_, err := a.node.SetAccess(c.R.Context(), c.bucket, func(access object.Access) (object.Access, error) {
		return a.authority.SetPolicy(c.bucket, access, text)
	})
	if err != nil {
		return noBucketAfter(c, err)
	}
	c.Status = http.StatusNoContent
	return nil
}

// getPolicyStatus tells whether the bucket is open to everybody, by its policy or its
// ACL: as Ceph has it, there is an answer without a policy, too.
func (a *API) getPolicyStatus(c *call) error {
	access := &c.about.Access
	public := access.ACL != ""
	if access.Policy != "" {
		p, err := policy.Parse(c.bucket, []byte(access.Policy))
		if err != nil {
			return object.Errorf(object.Internal, "the policy of bucket %s cannot be read any more: %v", c.bucket, err)
		}
		public = public || p.IsPublic()
	}
	x := newXML("PolicyStatus")
	x.boolean("IsPublic", public)
	return c.send(x)
}

// The canned ACLs that there are for objects beside those of package auth. They are
// about the owner of the bucket, who may do everything anyway, or about an Amazon
// service that is not here, and so change nothing.
const (
	bucketOwnerRead = "bucket-owner-read"
	bucketOwnerFull = "bucket-owner-full-control"
	execRead        = "aws-exec-read"
	logDelivery     = "log-delivery-write"
)

var objectACLs = []string{
	auth.Private, auth.PublicRead, auth.PublicReadWrite, auth.AuthenticatedRead, bucketOwnerRead, bucketOwnerFull, execRead,
}

// grantHeaders grant rights to single users, which canned ACLs cannot say.
var grantHeaders = []string{
	"X-Amz-Grant-Full-Control", "X-Amz-Grant-Read", "X-Amz-Grant-Read-Acp", "X-Amz-Grant-Write", "X-Amz-Grant-Write-Acp",
}

// aclHeader returns the canned ACL that a request names, empty if it names none.
func (c *call) aclHeader() (string, error) {
	for _, key := range grantHeaders {
		if c.amz(key) != "" {
			return "", faultf(notImplemented, "%s is not implemented: there are only canned ACLs, and bucket policies", strings.ToLower(key))
		}
	}
	acl := c.amz("X-Amz-Acl")
	if acl != "" && acl != logDelivery && !slices.Contains(objectACLs, acl) {
		return "", faultf(invalidArgument, "%.40q is no canned ACL", acl)
	}
	return acl, nil
}

// cannedACL returns the canned ACL that a write gives an object, empty for none.
func (c *call) cannedACL() (string, error) {
	acl, err := c.aclHeader()
	if err == nil && acl == logDelivery {
		return "", faultf(invalidArgument, "%s is for buckets", acl)
	}
	if acl == auth.Private {
		acl = ""
	}
	if err == nil {
		err = auth.MayHaveACL(c.about.Access, acl)
	}
	return acl, err
}

// bucketACL returns the canned ACL that a request gives a bucket, empty if it names
// none or one that means nothing for buckets.
func (c *call) bucketACL() (string, error) {
	acl, err := c.aclHeader()
	switch acl {
	case logDelivery:
		return "", faultf(notImplemented, "%s is not implemented", acl)
	case bucketOwnerRead, bucketOwnerFull, execRead:
		acl = auth.Private
	}
	return acl, err
}

func (a *API) getBucketACL(c *call) error {
	owner := auth.Owner(c.about.Access)
	return c.sendACL(owner, owner, c.about.Access.ACL)
}

func (a *API) putBucketACL(c *call) error {
	acl, err := c.bucketACL()
	if err == nil {
		owner := auth.Owner(c.about.Access)
		acl, err = c.aclBody(acl, owner, owner)
	}
	if err != nil {
		return err
	}
	_, err = a.node.SetAccess(c.R.Context(), c.bucket, func(access object.Access) (object.Access, error) {
		return auth.SetACL(access, acl)
	})
	return noBucketAfter(c, err)
}

// aboutObject describes the object of a request that is about its ACL.
func (c *call) aboutObject() (info object.Info, owner string, err error) {
	name, err := c.name()
	if err != nil {
		return info, "", err
	}
	if info, err = c.api.node.Stat(c.R.Context(), name); err != nil {
		return info, "", c.unlisted(err)
	}
	if owner = info.Metadata[metaOwner]; owner == "" {
		owner = auth.Owner(c.about.Access)
	}
	if info.Name.ID != (object.Version{}) || c.about.Versioning != "" {
		c.Header()["X-Amz-Version-Id"] = c.Value(versionID(info.Name.ID))
	}
	return info, owner, nil
}

func (a *API) getObjectACL(c *call) error {
	info, owner, err := c.aboutObject()
	if err != nil {
		return err
	}
	facts, err := c.factsOf(info)
	if err != nil {
		return err
	}
	return c.sendACL(owner, auth.Owner(c.about.Access), facts.ACL)
}

func (a *API) putObjectACL(c *call) error {
	info, owner, err := c.aboutObject()
	if err != nil {
		return err
	}
	acl, err := c.aclHeader()
	if err == nil && acl == logDelivery {
		err = faultf(invalidArgument, "%s is for buckets", acl)
	}
	if err == nil {
		acl, err = c.aclBody(acl, owner, auth.Owner(c.about.Access))
	}
	if err == nil {
		err = auth.MayHaveACL(c.about.Access, acl)
	}
	if err != nil {
		return err
	}
	// private is said, since it may take back what the object was written with
	return c.setFacts(info, func(facts *node.Facts) { facts.ACL = acl })
}

const (
	allUsers   = "http://acs.amazonaws.com/groups/global/AllUsers"
	knownUsers = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
)

// grant is one line of an ACL.
type grant struct {
	group, user string // one of them
	permission  string
}

// grants returns what a canned ACL means: the groups first, then the owner.
func grants(acl, owner, bucketOwner string) []grant {
	var all []grant
	switch acl {
	case auth.PublicRead:
		all = []grant{{group: allUsers, permission: "READ"}}
	case auth.PublicReadWrite:
		all = []grant{{group: allUsers, permission: "READ"}, {group: allUsers, permission: "WRITE"}}
	case auth.AuthenticatedRead:
		all = []grant{{group: knownUsers, permission: "READ"}}
	}
	all = append(all, grant{user: owner, permission: "FULL_CONTROL"})
	if owner != bucketOwner {
		switch acl {
		case bucketOwnerRead:
			all = append(all, grant{user: bucketOwner, permission: "READ"})
		case bucketOwnerFull:
			all = append(all, grant{user: bucketOwner, permission: "FULL_CONTROL"})
		}
	}
	return all
}

// sendACL answers with the grants that a canned ACL stands for.
func (c *call) sendACL(owner, bucketOwner, acl string) error {
	x := newXML("AccessControlPolicy")
	x.person("Owner", owner)
	x.begin("AccessControlList")
	for _, g := range grants(acl, owner, bucketOwner) {
		x.begin("Grant")
		kind := "CanonicalUser"
		if g.group != "" {
			kind = "Group"
		}
		x.b = append(x.b, `<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="`+kind+`">`...)
		if g.group != "" {
			x.text("URI", g.group)
		} else {
			x.text("ID", g.user)
			x.text("DisplayName", g.user)
		}
		x.closing("Grantee")
		x.text("Permission", g.permission)
		x.end()
	}
	x.end()
	return c.send(x)
}

// aclXML is an ACL as clients write it.
type aclXML struct {
	XMLName xmlName `xml:"AccessControlPolicy"`
	Owner   *struct {
		ID string `xml:"ID"`
	} `xml:"Owner"`
	List *struct {
		Grants []struct {
			Grantee *granteeXML `xml:"Grantee"`
			To      string      `xml:"Permission"`
		} `xml:"Grant"`
	} `xml:"AccessControlList"`
}

type granteeXML struct {
	Type  string `xml:"http://www.w3.org/2001/XMLSchema-instance type,attr"`
	ID    string `xml:"ID"`
	URI   string `xml:"URI"`
	EMail string `xml:"EmailAddress"`
}

// aclBody returns the canned ACL that a request is about: the one in its header, or the
// one that its body comes to. The body is read in both cases, as its digest is signed.
func (c *call) aclBody(header, owner, bucketOwner string) (string, error) {
	text, err := c.ReadSmall(c.R.Body, maxSmallXML)
	switch {
	case errors.Is(err, door.ErrLonger):
		return "", faultf(malformedXML, "the document is longer than %d bytes", maxSmallXML)
	case err != nil:
		return "", err
	case header != "" && len(text) > 0:
		return "", &s3Error{code: &code{"UnexpectedContent", http.StatusBadRequest, "This request does not support content"}}
	case header != "":
		return header, nil
	case len(text) == 0:
		return "", &s3Error{code: &code{"MissingSecurityHeader", http.StatusBadRequest, "Your request was missing a required header: x-amz-acl, or a body"}}
	}
	var wanted aclXML
	if err := parseXML(text, &wanted); err != nil {
		return "", err
	}
	if wanted.Owner == nil || wanted.List == nil {
		return "", fault(malformedXML)
	}
	if wanted.Owner.ID != owner {
		return "", fault(accessDenied) // to give it away is not among what can be done
	}
	list, err := c.api.readGrants(&wanted)
	if err != nil {
		return "", err
	}
	for _, acl := range objectACLs {
		if sameGrants(list, grants(acl, owner, bucketOwner)) {
			return acl, nil
		}
	}
	return "", faultf(notImplemented, "ACLs other than the canned ones are not implemented: use a bucket policy")
}

// readGrants tells what cannot be granted to anybody from what cannot be granted here.
func (a *API) readGrants(wanted *aclXML) ([]grant, error) {
	var all []grant
	for _, g := range wanted.List.Grants {
		if g.Grantee == nil || !slices.Contains([]string{"FULL_CONTROL", "READ", "WRITE", "READ_ACP", "WRITE_ACP"}, g.To) {
			return nil, fault(malformedXML)
		}
		switch {
		case g.Grantee.EMail != "": // no user has an address
			return nil, &s3Error{code: &code{"UnresolvableGrantByEmailAddress", http.StatusBadRequest, "The e-mail address you provided does not match any account on record"}}
		case g.Grantee.URI != "":
			all = append(all, grant{group: g.Grantee.URI, permission: g.To})
		case !a.authority.Known(g.Grantee.ID):
			return nil, faultf(invalidArgument, "Invalid id: there is no user %.80q", g.Grantee.ID)
		default:
			all = append(all, grant{user: g.Grantee.ID, permission: g.To})
		}
	}
	return all, nil
}

// sameGrants compares two ACLs, whatever their order.
func sameGrants(a, b []grant) bool {
	inside := func(of []grant) func(grant) bool {
		return func(g grant) bool { return !slices.Contains(of, g) }
	}
	return !slices.ContainsFunc(a, inside(b)) && !slices.ContainsFunc(b, inside(a))
}
