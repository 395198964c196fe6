package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"penstock.dev/penstock"
	"penstock.dev/penstock/internal/object"
)

func (p *program) userCommand() *cobra.Command {
	return group(&cobra.Command{Use: "user", Short: "Add, list and remove users, and grant them rights"},
		p.userAddCommand(), p.userListCommand(), p.userRemoveCommand(), p.userGrantCommand(), p.userTokenCommand())
}

// userName checks an argument NAME.
func userName(arg string) error {
	if err := object.ValidateUser(arg); err != nil {
		return &usageError{err}
	}
	return nil
}

func (p *program) userAddCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Add a user and show the keys and the token, this once", Args: wants(1, 1),
		Long: `Add a user and show the keys and the token, this once.

Keys that are not given are made. A secret on a command line can be seen by everybody
on the machine: --secret-key - reads it from standard input.`,
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	var keys penstock.Keys
	cmd.Flags().StringVar(&keys.AccessKey, "access-key", "", "access `KEY` for S3")
	cmd.Flags().StringVar(&keys.SecretKey, "secret-key", "", "secret `KEY` for S3, or - to read it from standard input")
	onlyFlags(cmd, "access-key", "secret-key") // in the environment they are root's
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := userName(args[0]); err != nil {
			return err
		}
		if (keys.AccessKey == "") != (keys.SecretKey == "") {
			return usagef("give both --access-key and --secret-key, or neither")
		}
		if keys.SecretKey == "-" {
			line, err := bufio.NewReader(io.LimitReader(p.in, 1024)).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			keys.SecretKey = strings.TrimRight(line, "\r\n")
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		made, err := client.AddUser(cmd.Context(), args[0], keys)
		if err != nil {
			return err
		}
		if token, _ := p.env("PENSTOCK_TOKEN"); token == "" {
			fmt.Fprintln(p.err, "penstock: from now on the node asks everybody for a token: set PENSTOCK_TOKEN to root's to go on")
		}
		if *asJSON {
			return p.printJSON(made)
		}
		_, err = fmt.Fprintf(p.out, "These belong to user %s and are not shown again:\n  PENSTOCK_ACCESS_KEY=%s\n  PENSTOCK_SECRET_KEY=%s\n  PENSTOCK_TOKEN=%s\n",
			made.Name, made.AccessKey, made.SecretKey, made.Token)
		return err
	}
	return cmd
}

func (p *program) userListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the users beside root", Args: wants(0, 0)}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := conn.client()
		if err != nil {
			return err
		}
		users, err := client.Users(cmd.Context())
		if err != nil {
			return err
		}
		if *asJSON {
			return p.printJSON(append([]penstock.User{}, users...)) // [] rather than null
		}
		w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
		fmt.Fprintln(w, "NAME\tACCESS KEY\tCREATED\t")
		for _, u := range users {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Name, u.AccessKey, u.Created.UTC().Format(time.RFC3339), quoted(u.Problem))
		}
		return w.Flush()
	}
	return cmd
}

func (p *program) userRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rm NAME", Short: "Remove a user who owns no buckets, and what was granted to him", Args: wants(1, 1)}
	conn := p.connectFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := userName(args[0]); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		return client.RemoveUser(cmd.Context(), args[0])
	}
	return cmd
}

func (p *program) userGrantCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "grant NAME BUCKET read|write|admin|none", Short: "Give a user a right on a bucket, or take it away", Args: wants(3, 3),
		Long: `Give a user a right on a bucket, or take it away.

read lets him read and list objects, write also store and delete them, admin also do
all else that the owner may, such as changing properties, grants and the policy.`,
	}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		right := choice{allowed: []string{"read", "write", "admin", "none"}}
		if err := userName(args[0]); err != nil {
			return err
		}
		if err := bucketName(args[1]); err != nil {
			return err
		}
		if err := right.Set(args[2]); err != nil {
			return usagef("%q is no right: %w", args[2], err)
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		change := map[string]*string{args[0]: &right.value}
		if right.value == "none" {
			change[args[0]] = nil
		}
		grants, err := client.Grant(cmd.Context(), args[1], change)
		if err == nil && *asJSON {
			err = p.printJSON(grants)
		}
		return err
	}
	return cmd
}

func (p *program) userTokenCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "token NAME", Short: "Give a user a new token and show it, this once", Args: wants(1, 1)}
	conn, asJSON := p.connectFlags(cmd), jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := userName(args[0]); err != nil {
			return err
		}
		client, err := conn.client()
		if err != nil {
			return err
		}
		token, err := client.NewToken(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return p.printJSON(map[string]string{"name": args[0], "token": token})
		}
		_, err = fmt.Fprintln(p.out, token)
		return err
	}
	return cmd
}
