package main

import (
	"context"
	"encoding/json"

	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/recipes/group"
	"github.com/go-curator/curator/recipes/node"
)

// instance describes a process of the service to the others.
type instance struct{ Address, Version string }

// serve registers the process as one of the service's for as long as work takes, through lost connections and
// sessions. A process that was killed and started again takes its old place immediately.
func serve(ctx context.Context, client *framework.Client, service, id string, me instance,
	work func(ctx context.Context, me *group.Member) error) error {
	data, err := json.Marshal(me)
	if err != nil {
		return err
	}
	member, err := group.Join(client, "/services/"+service, id, data, node.WithTakeover(node.AtStart))
	if err != nil {
		return err
	}
	defer member.Leave(context.WithoutCancel(ctx)) // without a connection the servers delete the node with the session
	if err := member.Joined(ctx); err != nil {
		return err
	}
	return work(ctx, member)
}
