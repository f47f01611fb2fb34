package line

import (
	"slices"

	"github.com/go-curator/curator/framework"
)

// Callback reports the result of a ReleaseInBackground.
type Callback struct {
	Path string            // of the released node
	Wrap func(error) error // makes the error the caller's
	Then []func(error)     // nil ones are not called
}

// hasFunction reports whether Then has a function.
func (c *Callback) hasFunction() bool {
	return slices.ContainsFunc(c.Then, func(then func(error)) bool { return then != nil })
}

// Call calls the functions with the wrapped error. Without a function it logs an error if the node stays. It must
// be called on the goroutine of the client's callbacks.
func (c *Callback) Call(client *framework.Client, err error) {
	err = c.Wrap(err)
	for _, then := range c.Then {
		if then != nil {
			then(err)
		}
	}
	if !c.hasFunction() && IsRefused(err) {
		client.Logger().Warn("the server refuses to delete a released node; an ephemeral one stays until the session ends",
			"path", c.Path, "err", err)
	}
}

// CallLater makes the client call Call on its callback goroutine, for a result that is known before ReleaseInBackground
// returns.
func (c *Callback) CallLater(client *framework.Client, err error) {
	if c.hasFunction() || IsRefused(err) {
		client.Later(func() { c.Call(client, err) })
	}
}

// LogRefusal logs the error of a delete whose result no caller gets, if the node stays.
func LogRefusal(client *framework.Client, path string, err error) {
	(&Callback{Path: path, Wrap: func(err error) error { return err }}).Call(client, err)
}
