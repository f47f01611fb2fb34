package queue

import "github.com/go-curator/curator/framework"

// Callback is what the caller of a ReleaseInBackground has asked to be told.
type Callback struct {
	Path string            // of what is released
	Wrap func(error) error // makes the error the caller's
	Then []func(error)     // nil ones are not called
}

// Call gives the result to the caller, on the goroutine of the client's callbacks, where it is called. If
// nobody wants it, the log hears of a node that stays.
func (c *Callback) Call(client *framework.Client, err error) {
	err = c.Wrap(err)
	told := false
	for _, then := range c.Then {
		if then != nil {
			told = true
			then(err)
		}
	}
	if !told && Denied(err) {
		client.Logger().Warn("a lock or lease is not released: the server refuses to delete its node, which stays "+
			"until the session ends", "path", c.Path, "err", err)
	}
}

// Later is Call for a result that is there already, while the caller is in its call.
func (c *Callback) Later(client *framework.Client, err error) {
	client.Later(func() { c.Call(client, err) })
}
