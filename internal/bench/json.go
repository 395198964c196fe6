package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/wire"
)

// JSON measures a bucket of a node whose batches are asked for in JSON, as somebody
// without our client would. All else is done as by Penstock.
type JSON struct {
	Penstock
	HTTP  *HTTP // of the node
	Token string
}

// Connect checks, once, that there is a node and that it has the bucket.
func (d *JSON) Connect(ctx context.Context) (Conn, error) {
	c, err := d.Penstock.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &jsonConn{penstockConn: c.(*penstockConn), driver: d}, nil
}

// Close drops idle connections.
func (d *JSON) Close() {
	d.HTTP.Close()
	d.Penstock.Close()
}

const maxSegment = 64 << 20

type jsonConn struct {
	*penstockConn
	driver *JSON
	reader *wire.BatchReader
}

func (c *jsonConn) Batch(ctx context.Context, keys []string, item func(content []byte, err error)) error {
	type ref struct {
		Key    string `json:"key"`
		Member string `json:"member,omitempty"`
	}
	asked := struct {
		Bucket string `json:"bucket"`
		Refs   []ref  `json:"refs"`
	}{Bucket: c.bucket}
	for _, key := range keys {
		name, member := c.split(key)
		asked.Refs = append(asked.Refs, ref{name, member})
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return classify(ctx, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.driver.HTTP.base+"v1/batch", bytes.NewReader(body))
	if err != nil {
		return classify(ctx, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if c.driver.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.driver.Token)
	}
	response, err := c.driver.HTTP.client.Do(request)
	if err != nil {
		return classify(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 512)) // as much of it as came
		return object.Errorf(object.Internal, "%s: %s", response.Status, text)
	}
	if c.reader == nil {
		c.reader = wire.NewBatchReader(response.Body, len(keys), maxSegment)
	} else {
		c.reader.Reset(response.Body, len(keys), maxSegment)
	}
	for range keys {
		data, _, err := c.reader.Next()
		if broken := c.reader.Broken(); broken != nil {
			return broken
		}
		item(data, err)
	}
	if _, _, err := c.reader.Next(); err != io.EOF {
		return fmt.Errorf("behind the last item: %w", err)
	}
	_, err = io.Copy(io.Discard, response.Body) // so that the connection is used again
	return classify(ctx, err)
}
