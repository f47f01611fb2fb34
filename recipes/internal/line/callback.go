package line

import (
	"slices"

	"github.com/go-curator/curator/framework"
)

// Callback is what the caller of a ReleaseInBackground has asked to be told.
type Callback struct {
	Path string            // of what is released
	Wrap func(error) error // makes the error the caller's
	Then []func(error)     // nil ones are not called
}

// wanted says that somebody has to hear of a success, too.
func (c *Callback) wanted() bool {
	return slices.ContainsFunc(c.Then, func(then func(error)) bool { return then != nil })
}

// Call gives the result to the caller, on the goroutine of the client's callbacks, where it is called. If
// nobody wants it, the log hears of a node that stays.
func (c *Callback) Call(client *framework.Client, err error) {
	err = c.Wrap(err)
	for _, then := range c.Then {
		if then != nil {
			then(err)
		}
	}
	if !c.wanted() && Denied(err) {
		client.Logger().Warn("a lock or lease is not released: the server refuses to delete its node, which stays "+
			"until the session ends", "path", c.Path, "err", err)
	}
}

// Later is Call for a result that is there already, while the caller is in its call.
func (c *Callback) Later(client *framework.Client, err error) {
	client.Later(func() { c.Call(client, err) })
}
