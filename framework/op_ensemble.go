package framework

import (
	"context"
	"slices"
	"strings"

	"github.com/go-curator/curator/internal/jute"
	"github.com/go-curator/curator/internal/wire"
)

// GetConfig returns the ensemble's configuration as the connected server knows it, which is the same for every
// namespace and chroot. That of a standalone server has no members. Package admin changes it. Corresponds to
// Curator's getConfig.
func (c *Client) GetConfig(ctx context.Context) (EnsembleConfig, error) {
	r, err := runForeground(ctx, c.readConfig(false))
	return r.config, err
}

// WatchConfig is [Client.GetConfig] that also returns a watch for the next change, or neither if there is an
// error. The path of the watch's event is /zookeeper/config.
func (c *Client) WatchConfig(ctx context.Context) (EnsembleConfig, *Watch, error) {
	r, err := runForeground(ctx, c.readConfig(true))
	return r.config, r.watch, err
}

// configResult is the result of the operations on the ensemble's configuration.
type configResult struct {
	config EnsembleConfig
	watch  *Watch // nil unless one was asked for
}

func (c *Client) readConfig(watched bool) *operation[configResult] {
	top := &Client{}
	if !c.isZeroValue() {
		top = newClient(c.core, clientView{epoch: c.view.epoch})
	}
	w, arming := watchOptions{wanted: watched}.newArmer(top, wire.Data, configPath)
	return &operation[configResult]{
		c: c, operationKind: operationKind{name: "getConfig"}, watch: arming, slowToDecode: true,
		procedure: functionProcedure[configResult]{
			makeCall: func(*sessionEpoch) *wire.Call { return readCall(jute.OpGetData, configPath) },
			decode:   configDecoder(w),
		},
	}
}

func configDecoder(w *Watch) func(int64, []byte) (configResult, error) {
	return func(_ int64, body []byte) (r configResult, err error) {
		var res jute.GetDataResponse
		if err := decodeRecord(body, res.Fields); err != nil {
			return r, err
		}
		return configResult{parseEnsembleConfig(res.Data), w}, nil
	}
}

// Reconfigure sends the request of admin.Reconfig and returns the new configuration. See there for the contents of the
// lists; empty lists are left out. The request is repeated as the retry policy says if it was certainly not executed.
// For package admin.
func (c *Client) Reconfigure(ctx context.Context, joining, leaving, members []string, version int64) (EnsembleConfig, error) {
	r, err := runForeground(ctx, c.reconfigure(&reconfigRequest{joining, leaving, members, version}))
	return r.config, err
}

func (c *Client) reconfigure(req *reconfigRequest) *operation[configResult] {
	o := &operation[configResult]{
		c: c, operationKind: operationKind{name: "reconfig", write: true}, doubt: doubtEnds, slowToDecode: true,
		procedure: functionProcedure[configResult]{
			makeCall: func(*sessionEpoch) *wire.Call { return newCall(jute.OpReconfig, req) },
			decode:   configDecoder(nil),
		},
	}
	if len(slices.Concat(req.joining, req.leaving, req.members)) == 0 {
		o.fault = badArguments("a reconfiguration needs members that join or leave, or all of them")
	}
	return o
}

// reconfigRequest sends null for each list that is empty.
type reconfigRequest struct {
	joining, leaving, members []string
	version                   int64
}

func (r *reconfigRequest) Fields(c *jute.Coder) {
	nullable := func(list []string, separator string) {
		null, text := int32(-1), strings.Join(list, separator)
		if len(list) == 0 {
			c.Int(&null)
			return
		}
		c.String(&text)
	}
	nullable(r.joining, ",")
	nullable(r.leaving, ",")
	nullable(r.members, "\n")
	c.Long(&r.version)
}
