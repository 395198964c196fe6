package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"penstock.dev/penstock/internal/bench"
)

// loadTargets is what the flags say about who is measured.
type loadTargets struct {
	driver choice
	bucket string
	url    string
	dir    string
	fsync  bool
	pids   []int
	also   []string
}

var drivers = []string{"penstock", "json", "http", "redis", "files"}

// targetFlags adds the flags that say who is measured.
func targetFlags(cmd *cobra.Command) *loadTargets {
	t := &loadTargets{driver: choice{"penstock", drivers}}
	flags := cmd.Flags()
	flags.Var(&t.driver, "driver", "what is measured")
	flags.StringVar(&t.bucket, "bucket", "", "`BUCKET` of the node at --endpoint")
	flags.StringVar(&t.url, "url", "", "`URL` or address of the server, for http and redis")
	flags.StringVar(&t.dir, "dir", "", "`DIR` of the files, for files; for http where --fill stores them")
	flags.BoolVar(&t.fsync, "fsync", false, "for files: writes are synced")
	flags.IntSliceVar(&t.pids, "server-pid", nil, "`PID` of the server, whose processor time is measured; may be repeated")
	flags.StringArrayVar(&t.also, "also", nil, "`DRIVER:WHERE` to measure in turn with it; may be repeated")
	return t
}

// target is one of them, parsed and not opened.
type target struct {
	driver string
	where  string // endpoint, URL, address or directory
	bucket string
	dir    string
	fsync  bool
	name   string
	pids   []int
}

// open returns the targets, with drivers that have connected to nothing yet. The
// caller closes them.
func (t *loadTargets) open(conn *connection) (targets []bench.Target, err error) {
	defer func() {
		if err != nil {
			closeTargets(targets)
			targets = nil
		}
	}()
	first, err := t.first(conn.endpoint)
	if err != nil {
		return nil, err
	}
	all := []target{first}
	for _, text := range t.also {
		other, err := parseTarget(text)
		if err != nil {
			return nil, usagef("--also %s: %w", text, err)
		}
		all = append(all, other)
	}
	for i, parsed := range all {
		if parsed.name == "" {
			parsed.name = freeName(parsed.driver, targets)
		}
		for _, pid := range parsed.pids {
			if err := bench.CheckPID(pid); err != nil {
				return targets, fmt.Errorf("%s: %w", parsed.name, err)
			}
		}
		opened, err := parsed.open(conn)
		if err != nil {
			if wrong := (*usageError)(nil); i > 0 && errors.As(err, &wrong) {
				err = usagef("--also %s: %w", t.also[i-1], wrong.error)
			}
			return targets, err
		}
		targets = append(targets, opened)
	}
	return targets, nil
}

// freeName returns what to call a target that was given no name.
func freeName(driver string, targets []bench.Target) string {
	for n := 1; ; n++ {
		name := driver
		if n > 1 {
			name += "-" + strconv.Itoa(n)
		}
		if !slices.ContainsFunc(targets, func(t bench.Target) bool { return t.Name == name }) {
			return name
		}
	}
}

// first returns the target that the flags beside --also describe.
func (t *loadTargets) first(endpoint string) (target, error) {
	first := target{driver: t.driver.value, dir: t.dir, fsync: t.fsync, pids: t.pids}
	switch first.driver {
	case "penstock", "json":
		first.where, first.bucket = endpoint, t.bucket
		if t.bucket == "" {
			return target{}, usagef("--bucket is missing")
		}
	case "files":
		first.where = t.dir
		if t.dir == "" {
			return target{}, usagef("--dir is missing")
		}
	default:
		first.where = t.url
		if t.url == "" {
			return target{}, usagef("--url is missing")
		}
	}
	return first, nil
}

// parseTarget reads DRIVER:WHERE and the options behind it.
func parseTarget(text string) (target, error) {
	driver, where, _ := strings.Cut(text, ":")
	t := target{driver: driver, where: where}
	if !slices.Contains(drivers, driver) || where == "" {
		return target{}, fmt.Errorf("write redis:ADDRESS, http:URL, files:DIR, penstock:URL/BUCKET or json:URL/BUCKET")
	}
	// From the end, because what comes before may hold commas of its own.
	for {
		comma := strings.LastIndexByte(t.where, ',')
		if comma < 0 || !t.option(t.where[comma+1:]) {
			break
		}
		t.where = t.where[:comma]
	}
	if driver == "penstock" || driver == "json" {
		slash := strings.LastIndexByte(t.where, '/')
		if slash < 0 {
			return target{}, fmt.Errorf("write %s:URL/BUCKET", driver)
		}
		t.where, t.bucket = t.where[:slash], t.where[slash+1:]
	}
	return t, nil
}

// option takes one option, if it is one.
func (t *target) option(text string) bool {
	key, value, _ := strings.Cut(text, "=")
	switch key {
	case "pid":
		pid, err := strconv.Atoi(value)
		if err != nil || pid <= 0 {
			return false
		}
		t.pids = append(t.pids, pid)
	case "name":
		t.name = value
	case "dir":
		t.dir = value
	case "fsync":
		t.fsync = true
	default:
		return false
	}
	return true
}

// open makes the driver.
func (t target) open(conn *connection) (bench.Target, error) {
	opened := bench.Target{Name: t.name, PIDs: t.pids}
	switch t.driver {
	case "penstock", "json":
		if err := bucketName(t.bucket); err != nil {
			return opened, err
		}
		there := *conn
		there.endpoint = t.where
		client, err := there.client()
		if err != nil {
			return opened, err
		}
		if t.driver == "penstock" {
			opened.Driver = &bench.Penstock{Client: client, Bucket: t.bucket}
			break
		}
		plain, err := bench.NewHTTP(t.where)
		if err != nil {
			return opened, &usageError{err}
		}
		token, _ := conn.program.env("PENSTOCK_TOKEN")
		opened.Driver = &bench.JSON{Penstock: bench.Penstock{Client: client, Bucket: t.bucket}, HTTP: plain, Token: token}
	case "http":
		driver, err := bench.NewHTTP(t.where)
		if err != nil {
			return opened, &usageError{err}
		}
		opened.Driver = driver
		if t.dir != "" {
			opened.Filler = &bench.Files{Dir: t.dir}
		}
	case "redis":
		driver, err := bench.ParseRedis(t.where)
		if err != nil {
			return opened, &usageError{err}
		}
		opened.Driver = driver
	case "files":
		opened.Driver = &bench.Files{Dir: t.where, Sync: t.fsync}
	}
	return opened, nil
}
