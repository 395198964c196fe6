package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
)

// description is an object as --json prints it.
type description struct {
	Bucket      string            `json:"bucket"`
	Key         string            `json:"key"`
	Size        int64             `json:"size"`
	ETag        string            `json:"etag"`
	Modified    time.Time         `json:"modified"`
	Version     string            `json:"version"`
	CRC32       string            `json:"crc32"`
	ContentType string            `json:"content_type,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

func describe(info penstock.Info) description {
	return description{
		Bucket: info.Name.Bucket, Key: info.Name.Key, Size: info.Size, ETag: info.ETag,
		Modified: info.Modified.UTC(), Version: info.Version.String(), CRC32: fmt.Sprintf("%08x", info.CRC32),
		ContentType: info.ContentType, Metadata: info.Metadata,
	}
}

func (p *program) statCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "stat BUCKET/KEY", Short: "Show what is known about an object", Args: wants(1, 1)}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := objectName(args[0])
		if err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		info, err := client.Stat(cmd.Context(), name)
		if err != nil {
			return err
		}
		d := describe(info)
		if *asJSON {
			return p.printJSON(d)
		}
		fields := []string{
			"bucket", d.Bucket,
			"key", quoted(d.Key),
			"size", fmt.Sprintf("%d (%s)", d.Size, formatSize(d.Size)),
			"etag", d.ETag,
			"modified", d.Modified.Format(time.RFC3339Nano),
			"version", d.Version,
			"crc32", d.CRC32,
			"content-type", d.ContentType,
		}
		for _, key := range slices.Sorted(maps.Keys(d.Metadata)) {
			fields = append(fields, "meta "+key, quoted(d.Metadata[key]))
		}
		return printFields(p.out, fields...)
	}
	return cmd
}
