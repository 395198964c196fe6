package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
)

func (p *program) bucketCommand() *cobra.Command {
	return group(&cobra.Command{Use: "bucket", Short: "Make, show, change and remove buckets"},
		p.bucketCreateCommand(), p.bucketListCommand(), p.bucketShowCommand(), p.bucketSetCommand(), p.bucketRemoveCommand())
}

// bucketFlags adds the flags for a bucket's properties. The function it returns
// gives those that were set.
func bucketFlags(cmd *cobra.Command) func() penstock.BucketOptions {
	var quota size
	cmd.Flags().Var(&quota, "quota", "bytes the bucket may hold; 0 means no limit")
	verify := choice{allowed: []string{"always", ""}}
	cmd.Flags().Var(&verify, "verify", "`WHEN` stored bytes are checked beyond the usual: always, or empty")
	return func() penstock.BucketOptions {
		var opts penstock.BucketOptions
		if cmd.Flags().Changed("quota") {
			bytes := int64(quota)
			opts.Quota = &bytes
		}
		if cmd.Flags().Changed("verify") {
			opts.Verify = &verify.value
		}
		return opts
	}
}

func (p *program) bucketCreateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "create BUCKET", Short: "Make a bucket", Args: wants(1, 1)}
	conn, options := p.connectFlags(cmd), bucketFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bucketName(args[0]); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		_, err = client.CreateBucket(cmd.Context(), args[0], options())
		return err
	}
	return cmd
}

func (p *program) bucketSetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "set BUCKET", Short: "Change properties of a bucket", Args: wants(1, 1)}
	conn, options := p.connectFlags(cmd), bucketFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		opts := options()
		if opts == (penstock.BucketOptions{}) {
			return usagef("nothing to set: give --quota or --verify")
		}
		if err := bucketName(args[0]); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		_, err = client.UpdateBucket(cmd.Context(), args[0], opts)
		return err
	}
	return cmd
}

func (p *program) bucketRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rm BUCKET", Short: "Remove an empty bucket", Args: wants(1, 1)}
	conn := p.connectFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bucketName(args[0]); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		return client.DeleteBucket(cmd.Context(), args[0])
	}
	return cmd
}

func (p *program) bucketShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show BUCKET", Short: "Show a bucket's properties", Args: wants(1, 1)}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bucketName(args[0]); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		bucket, err := client.Bucket(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return p.printJSON(bucket)
		}
		return printFields(p.out,
			"name", bucket.Name,
			"created", bucket.Created.UTC().Format(time.RFC3339),
			"owner", bucket.Owner,
			"objects", fmt.Sprint(bucket.Objects),
			"bytes", fmt.Sprintf("%d (%s)", bucket.Bytes, formatSize(bucket.Bytes)),
			"quota", quotaText(bucket.Quota),
			"verify", bucket.Verify)
	}
	return cmd
}

func (p *program) bucketListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List buckets", Args: wants(0, 0)}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := conn.client()
		if err != nil {
			return err
		}
		return p.listBuckets(cmd, client, *asJSON)
	}
	return cmd
}

// listBuckets prints all buckets.
func (p *program) listBuckets(cmd *cobra.Command, client *penstock.Client, asJSON bool) error {
	buckets, err := client.Buckets(cmd.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return p.printJSON(append([]penstock.Bucket{}, buckets...)) // [] rather than null
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.DiscardEmptyColumns)
	fmt.Fprintln(w, "OBJECTS\tBYTES\tQUOTA\t  BUCKET")
	for _, b := range buckets {
		fmt.Fprintf(w, "%d\t%s\t%s\t  %s\n", b.Objects, formatSize(b.Bytes), quotaText(b.Quota), b.Name)
	}
	return w.Flush()
}

func quotaText(quota int64) string {
	if quota == 0 {
		return "none"
	}
	return formatSize(quota)
}
