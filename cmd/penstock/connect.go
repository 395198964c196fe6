package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
)

// connection is how a command reaches a node.
type connection struct {
	program  *program
	endpoint string
	tlsCA    string
}

// connectFlags adds the flags that say where the node is.
func (p *program) connectFlags(cmd *cobra.Command) *connection {
	c := &connection{program: p}
	cmd.Flags().StringVar(&c.endpoint, "endpoint", penstock.DefaultEndpoint, "`URL` of the node")
	cmd.Flags().StringVar(&c.tlsCA, "tls-ca", "", "PEM `FILE` of the certificates to trust, instead of the system's")
	return c
}

// client returns a client for the node the flags name. The token comes from the
// environment only: a command line can be seen by everybody on the machine.
func (c *connection) client() (*penstock.Client, error) {
	opts := penstock.Options{Endpoint: c.endpoint, Agent: "penstock/" + readVersion().Version}
	opts.Token, _ = c.program.env("PENSTOCK_TOKEN")
	if c.tlsCA != "" {
		pem, err := os.ReadFile(c.tlsCA)
		if err != nil {
			return nil, err
		}
		opts.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		if !opts.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", c.tlsCA)
		}
	}
	client, err := penstock.New(opts)
	if err != nil {
		return nil, &usageError{err}
	}
	return client, nil
}
