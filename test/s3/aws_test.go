package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

func newAWS(t *testing.T, secret string) *s3.Client {
	t.Helper()
	loaded, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"), config.WithBaseEndpoint(endpoint), config.WithRetryMaxAttempts(1),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(accessKey, secret, "")))
	if err != nil {
		t.Fatal(err)
	}
	return s3.NewFromConfig(loaded, func(o *s3.Options) { o.UsePathStyle, o.DisableLogOutputChecksumValidationSkipped = true, true })
}

func awsBucket(t *testing.T, client *s3.Client) *string {
	t.Helper()
	name := aws.String(fmt.Sprintf("aws-%x", rand.Uint64()))
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: name}); err != nil {
		t.Fatal(err)
	}
	return name
}

// codeOf returns S3's name of an error.
func codeOf(err error) string {
	var coded smithy.APIError
	if errors.As(err, &coded) {
		return coded.ErrorCode()
	}
	return fmt.Sprint(err)
}

func TestAWSObjects(t *testing.T) {
	client := newAWS(t, secretKey)
	bucket := awsBucket(t, client)
	ctx := t.Context()
	names := slices.Concat(oddNames, pathNames)
	for _, name := range names {
		put := &s3.PutObjectInput{Bucket: bucket, Key: &name, Body: strings.NewReader(name), Metadata: map[string]string{"colour": "blue"}}
		if _, err := client.PutObject(ctx, put); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: &name})
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if body, err := io.ReadAll(got.Body); err != nil || string(body) != name || got.Metadata["colour"] != "blue" {
			t.Errorf("%q came back as %q, %v, %v", name, body, got.Metadata, err)
		}
	}
	removeAllAWS(t, client, bucket, names)
}

// removeAllAWS checks what is in a bucket, removes it and the bucket.
func removeAllAWS(t *testing.T, client *s3.Client, bucket *string, want []string) {
	t.Helper()
	var got []string
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var doomed []types.ObjectIdentifier
		for _, object := range page.Contents {
			got = append(got, *object.Key)
			doomed = append(doomed, types.ObjectIdentifier{Key: object.Key})
		}
		if len(doomed) == 0 {
			continue
		}
		done, err := client.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: bucket, Delete: &types.Delete{Objects: doomed}})
		if err != nil || len(done.Errors) > 0 || len(done.Deleted) != len(doomed) {
			t.Fatalf("deleting %d: %v, %+v", len(doomed), err, done)
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if _, err := client.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: bucket}); err != nil {
		t.Error(err)
	}
}

func TestAWSLargeObjects(t *testing.T) {
	client := newAWS(t, secretKey)
	bucket := awsBucket(t, client)
	ctx := t.Context()
	large := randomBytes(20 * mebi)
	var names []string
	for _, algorithm := range []types.ChecksumAlgorithm{types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc64nvme, types.ChecksumAlgorithmSha256} {
		t.Run(string(algorithm), func(t *testing.T) {
			key := aws.String(string(algorithm))
			uploader := manager.NewUploader(client, func(u *manager.Uploader) { u.PartSize = 6 * mebi })
			// A body that cannot seek: what it is cannot be known before it is sent.
			if _, err := uploader.Upload(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: io.MultiReader(bytes.NewReader(large)), ChecksumAlgorithm: algorithm}); err != nil {
				t.Fatal(err)
			}
			names = append(names, *key)
			into := manager.NewWriteAtBuffer(nil)
			downloader := manager.NewDownloader(client)
			if _, err := downloader.Download(ctx, into, &s3.GetObjectInput{Bucket: bucket, Key: key}); err != nil || !bytes.Equal(into.Bytes(), large) {
				t.Fatalf("%d bytes came back of %d: %v", len(into.Bytes()), len(large), err)
			}
			attributes, err := client.GetObjectAttributes(ctx, &s3.GetObjectAttributesInput{Bucket: bucket, Key: key, ObjectAttributes: []types.ObjectAttributes{types.ObjectAttributesObjectParts, types.ObjectAttributesChecksum}})
			if err != nil || aws.ToInt32(attributes.ObjectParts.TotalPartsCount) != 4 || attributes.Checksum == nil {
				t.Errorf("attributes: %+v, %v", attributes, err)
			}
		})
	}
	removeAllAWS(t, client, bucket, names)
}

func TestAWSPresignedVersionsAndRefusals(t *testing.T) {
	client := newAWS(t, secretKey)
	bucket := awsBucket(t, client)
	ctx := t.Context()
	key := aws.String("a b/ü+%")
	presign := s3.NewPresignClient(client)
	put, err := presign.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(ctx, put.Method, put.URL, strings.NewReader("presigned"))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range put.SignedHeader {
		if name != "Host" && name != "Content-Length" {
			request.Header[name] = values
		}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Errorf("presigned put: %s %s", answer.Status, text)
	}
	answer.Body.Close()
	if _, err := client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}); err != nil {
		t.Fatal(err)
	}
	copied, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: bucket, Key: key, CopySource: aws.String(*bucket + "/a%20b/%C3%BC%2B%25"), MetadataDirective: types.MetadataDirectiveReplace, Metadata: map[string]string{"a": "1"}})
	if err != nil || copied.VersionId == nil {
		t.Fatalf("copy: %+v, %v", copied, err)
	}
	if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key, VersionId: copied.VersionId}); err != nil {
		t.Error(err)
	}
	head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: key})
	if err != nil || aws.ToInt64(head.ContentLength) != int64(len("presigned")) || len(head.Metadata) > 0 {
		t.Errorf("the version before the copy: %+v, %v", head, err)
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader(""), IfNoneMatch: aws.String("*")})
	if code := codeOf(err); code != "PreconditionFailed" {
		t.Errorf("a put where something is: %s", code)
	}
	_, err = newAWS(t, "wrong").PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("x")})
	if code := codeOf(err); code != "SignatureDoesNotMatch" {
		t.Errorf("a wrong secret: %s", code)
	}
	if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key, VersionId: aws.String("null")}); err != nil {
		t.Error(err)
	}
	removeAllAWS(t, client, bucket, nil)
}
