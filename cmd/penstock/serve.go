package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/object"
	"penstock.dev/penstock/internal/server"
)

func (p *program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a node",
		Long: `Run a node until SIGTERM, SIGINT or SIGHUP: it then lets requests finish and exits
with 0. A second signal ends it at once.

The root user's keys come from PENSTOCK_ACCESS_KEY, PENSTOCK_SECRET_KEY and
PENSTOCK_TOKEN. What is missing there is made at the first start, kept in the data
directories and shown once. To listen beyond loopback a token must exist.`,
		Args: wants(0, 0),
	}
	var opts server.Options
	data := dataFlags(cmd)
	durability := choice{value: "strict", allowed: []string{"strict", "relaxed"}}
	flags := cmd.Flags()
	flags.StringVar(&opts.Listen, "listen", defaultListen, "`ADDRESS` to listen at, host:port")
	flags.StringVar(&opts.S3, "s3", defaultS3, "`ADDRESS` of the S3 door, host:port, or off")
	flags.StringVar(&opts.S3Region, "s3-region", "us-east-1", "`REGION` that S3 clients are told; they may sign for any")
	flags.StringArrayVar(&opts.S3Domains, "s3-domain", nil, "host `NAME` of the S3 door, so that a bucket is found at bucket.NAME; may be repeated")
	flags.StringVar(&opts.Name, "name", "", "what to call the node: `NAME` (default the host's name)")
	flags.StringVar(&opts.TLSCert, "tls-cert", "", "PEM `FILE` of the certificate; turns TLS on")
	flags.StringVar(&opts.TLSKey, "tls-key", "", "PEM `FILE` of the certificate's key")
	flags.Var(&durability, "durability", "strict: a write is acknowledged when it is durable; relaxed: before, for caches: a crash loses the last ones")
	flags.StringArrayVar(&opts.Forget, "forget-disk", nil, "`ID` of a disk that will never come back, so that what only it held is lost and not unavailable; may be repeated")
	limitFlags(cmd, &opts)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := positive(opts); err != nil {
			return err
		}
		opts.Data = data.disks()
		if opts.S3Optional = !cmd.Flags().Changed("s3"); opts.S3 == "off" {
			opts.S3 = ""
		}
		opts.Relaxed = durability.value == "relaxed"
		p.rootKeys(&opts)
		opts.Version = readVersion().Version
		opts.Logger = slog.New(slog.NewTextHandler(p.err, nil))
		opts.Ready = func(s server.Started) { announce(p.out, s) }
		if err := opts.Validate(); err != nil {
			return &usageError{err}
		}
		return serve(cmd.Context(), opts)
	}
	return cmd
}

// serve runs a node until the context ends. A start that is broken off is a stop
// like any other.
func serve(ctx context.Context, opts server.Options) error {
	node, err := server.New(ctx, opts)
	if err == nil {
		err = node.Run(ctx)
	}
	if ctx.Err() != nil && object.Is(err, object.Canceled) {
		return nil
	}
	return err
}

// limitFlags adds the flags for what clients may make the node spend.
func limitFlags(cmd *cobra.Command, opts *server.Options) {
	flags, limits := cmd.Flags(), &opts.Limits
	flags.IntVar(&limits.Requests, "max-requests", 1024, "`N` data requests at once; one more is answered 503")
	flags.IntVar(&limits.Connections, "max-connections", 4096, "`N` connections at once; one more is answered 503 and closed")
	limits.Body = 1 << 40
	flags.Var((*size)(&limits.Body), "max-body", "largest body of a request")
	flags.DurationVar(&limits.HeaderTimeout, "header-timeout", 10*time.Second, "`TIME` for the header of a request to arrive")
	flags.DurationVar(&limits.IdleTimeout, "idle-timeout", 2*time.Minute, "`TIME` a connection may be idle")
	flags.DurationVar(&limits.Pace, "pace", time.Minute, "`TIME` a client may take for each MiB, in either direction")
	flags.DurationVar(&opts.Drain, "drain", 30*time.Second, "`TIME` requests may go on after a signal")
	flags.Var((*size)(&opts.PackSize), "pack-size", "size of a pack, at least 1MiB; 0 chooses by the size of the disk")
}

// positive refuses limits of nothing. To the server zero means its default, which
// nobody means who writes 0.
func positive(opts server.Options) error {
	l := opts.Limits
	for _, limit := range []struct {
		flag  string
		value int64
	}{
		{"max-requests", int64(l.Requests)},
		{"max-connections", int64(l.Connections)},
		{"max-body", l.Body},
		{"header-timeout", int64(l.HeaderTimeout)},
		{"idle-timeout", int64(l.IdleTimeout)},
		{"pace", int64(l.Pace)},
		{"drain", int64(opts.Drain)},
	} {
		if limit.value <= 0 {
			return usagef("--%s must be more than 0", limit.flag)
		}
	}
	return nil
}

// rootKeys takes the root user's keys from the environment, the only place for
// them: command lines can be seen by everybody, and files are read by many.
func (p *program) rootKeys(opts *server.Options) {
	opts.Root.AccessKey, _ = p.env("PENSTOCK_ACCESS_KEY")
	setFromEnv(p, &opts.Root.SecretKey, "PENSTOCK_SECRET_KEY")
	setFromEnv(p, &opts.Root.Token, "PENSTOCK_TOKEN")
}

func setFromEnv[S ~string](p *program, to *S, name string) {
	text, _ := p.env(name)
	*to = S(text)
}

// announce says that the node is ready, and shows the keys that were made at this
// start.
func announce(out io.Writer, s server.Started) {
	fresh := s.Fresh
	if fresh.AccessKey != "" || fresh.Token != "" {
		fmt.Fprintln(out, "These keys of the root user were made now; they are kept in the data directory and not shown again:")
	}
	if fresh.AccessKey != "" {
		fmt.Fprintf(out, "  PENSTOCK_ACCESS_KEY=%s\n  PENSTOCK_SECRET_KEY=%s\n", fresh.AccessKey, fresh.SecretKey.Reveal())
	}
	if fresh.Token != "" {
		fmt.Fprintf(out, "  PENSTOCK_TOKEN=%s\n", fresh.Token.Reveal())
	}
	ready := fmt.Sprintf("penstock %s ready at %s\n", s.Name, s.URL)
	if s.S3 != "" {
		ready += fmt.Sprintf("S3 at %s\n", s.S3)
	}
	io.WriteString(out, ready) //nolint:errcheck // in one piece: whoever has seen the first line finds the second
}
