package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"penstock.dev/penstock/internal/auth"
	"penstock.dev/penstock/internal/object"
)

// admit decides whether a request may go on, as far as that depends on who sends it. It
// is the only place that does, and every request passes it, routed or not: what is not
// said to be open is closed. What else a route asks for is asked by its permit.
func (a *API) admit(x *exchange) error {
	need := forUsers
	if x.route != nil {
		need = x.route.access
	}
	if need == forAll {
		return nil
	}
	var err error
	if x.user, err = a.identify(x.R); err != nil {
		a.metrics.RefusedAccess.Inc()
		return err
	}
	if need == forRoot && !x.user.Root {
		a.metrics.RefusedAccess.Inc()
		return object.Errorf(object.Denied, "this is for the root user only")
	}
	return nil
}

// identify returns who sent a request. A token that is presented must be right,
// wherever it comes from; without one only this machine's own users get in, and
// only while there is nobody but root.
func (a *API) identify(r *http.Request) (auth.User, error) {
	if values := r.Header["Authorization"]; values != nil {
		user, err := a.authorize(r, values)
		if err != nil {
			return user, &statusError{status: http.StatusUnauthorized, login: true, err: err}
		}
		return user, nil
	}
	if !a.loopback || !a.authority.RootOnly() {
		return auth.User{}, &statusError{
			status: http.StatusUnauthorized, login: true,
			err: object.Errorf(object.Denied, "a token is needed: Authorization: Bearer TOKEN"),
		}
	}
	return auth.Root(), a.checkBrowser(r)
}

// authorize returns who proves to be whom: by a token, or by the key pair that S3
// clients sign with.
func (a *API) authorize(r *http.Request, values []string) (auth.User, error) {
	scheme, token, _ := strings.Cut(values[0], " ")
	switch {
	case len(values) == 1 && strings.EqualFold(scheme, "Bearer"):
		return a.authority.Check(token)
	case len(values) == 1 && strings.EqualFold(scheme, "Basic"):
		if accessKey, secretKey, ok := r.BasicAuth(); ok {
			return a.authority.CheckKey(accessKey, secretKey)
		}
	}
	return auth.User{}, object.Errorf(object.Denied, "Authorization must be: Bearer TOKEN, or Basic with a key pair")
}

// checkBrowser keeps web pages from using the door through the browser of someone
// on this machine. A page whose name was made to resolve to loopback shows in
// Host; one that sends requests elsewhere shows in Origin and Sec-Fetch-Site. A
// page of another port of this machine is another page, too.
func (a *API) checkBrowser(r *http.Request) error {
	if r.Host != a.address && !isLoopbackHost(r.Host) {
		return object.Errorf(object.Denied, "Host %.80q is not a name of this machine's loopback; a token is needed", r.Host)
	}
	if values := r.Header["Origin"]; values != nil {
		_, host, ok := strings.Cut(values[0], "://")
		if !ok || len(values) != 1 || !strings.EqualFold(host, r.Host) {
			return object.Errorf(object.Denied, "Origin %.80q is another site; a token is needed", values[0])
		}
	}
	if values := r.Header["Sec-Fetch-Site"]; values != nil && values[0] != "same-origin" && values[0] != "none" {
		return object.Errorf(object.Denied, "the request comes from another site; a token is needed")
	}
	return nil
}

// isLoopbackHost reports whether a Host header names loopback, with any port.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
