package source

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"penstock.dev/penstock/internal/object"
)

// Dialer connects to servers, and only to where it may: a name is resolved once, each
// address is shown to Guard, and the very address that passed is dialed. The zero value
// goes everywhere.
type Dialer struct {
	// Guard refuses addresses; nil allows all. Its error is Denied to the caller.
	Guard func(netip.Addr) error
	// Timeout for all addresses of a name together; zero means ten seconds.
	Timeout time.Duration
	// Lookup resolves names; nil asks the system.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// DialContext is for http.Transport.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, object.Errorf(object.Invalid, "the server %q has no port", address)
	}
	timeout := d.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, addr := range addrs {
		addr = addr.Unmap()
		if d.Guard != nil {
			if err := d.Guard(addr); err != nil {
				errs = append(errs, object.Errorf(object.Denied, "%s may not be connected to: %w", host, err))
				continue
			}
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append([]error{object.Errorf(object.Unavailable, "connecting: %w", notContext(err))}, errs...)
	}
	return nil, errors.Join(errs...)
}

func (d *Dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	lookup := d.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	addrs, err := lookup(ctx, host)
	if err != nil {
		return nil, object.Errorf(object.Unavailable, "the name of the server cannot be resolved: %w", notContext(err))
	}
	if len(addrs) == 0 {
		return nil, object.Errorf(object.Unavailable, "the name of the server has no address")
	}
	return addrs, nil
}

// notContext keeps the end of our own time from being taken for the end of the caller's.
func notContext(err error) error {
	if object.Is(err, object.Canceled) {
		return errors.New("it took too long")
	}
	return err
}

// PublicOnly is a Guard that allows addresses of the open internet: none of this machine,
// of private networks or of a link, where the services of clouds tell secrets.
func PublicOnly(addr netip.Addr) error {
	addr = addr.Unmap()
	for _, inside := range insideNets {
		if inside.Contains(addr) {
			return object.Errorf(object.Denied, "%s is not a public address", addr)
		}
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return object.Errorf(object.Denied, "%s is not a public address", addr)
	}
	return nil
}

// insideNets are those that netip does not know by a method: this network, carriers'
// NAT, protocol assignments, benchmarks, reserved; translations of IPv4 into IPv6, which
// lead to any address.
var insideNets = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
}
