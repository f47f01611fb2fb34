package differential

import (
	"fmt"
	"strings"

	"github.com/go-curator/curator/internal/jute"
)

// answer is a reply to the host itself.
type answer struct {
	jute.ReplyHeader
	body []byte
}

// do sends a request of the host's own.
func (h *Host) do(op Op) (answer, error) {
	answers, err := h.doAll([]Op{op})
	if err != nil {
		return answer{}, err
	}
	return answers[0], nil
}

func (h *Host) doAll(ops []Op) ([]answer, error) {
	var frames []byte
	for _, op := range ops {
		code := kinds[op.Kind]
		h.super.xid++
		frames = append(frames, jute.Frame(&jute.RequestHeader{Xid: xidOf(code, h.super.xid), Op: code},
			op.request(code, nil))...)
	}
	if err := h.super.write(frames); err != nil {
		return nil, err
	}
	answers := make([]answer, len(ops))
	for i := range ops {
		frame, err := h.super.read()
		if err != nil {
			return nil, err
		}
		if frame == nil {
			return nil, fmt.Errorf("the server closes the connection")
		}
		if err := jute.Unmarshal(frame, &answers[i].ReplyHeader); err != nil {
			return nil, err
		}
		answers[i].body = frame[16:]
	}
	return answers, nil
}

// walk visits a tree level by level. visit gets each node's children, data and ACL.
func (h *Host) walk(root string, visit func(path string, children, data, acl answer)) error {
	level := []string{root}
	for len(level) > 0 {
		var ops []Op
		for _, path := range level {
			ops = append(ops, Op{Kind: "getChildren2", Path: path}, Op{Kind: "getData", Path: path},
				Op{Kind: "getACL", Path: path})
		}
		answers, err := h.doAll(ops)
		if err != nil {
			return err
		}
		var next []string
		for i, path := range level {
			a := answers[3*i : 3*i+3]
			if a[0].Err != 0 {
				continue
			}
			visit(path, a[0], a[1], a[2])
			var children jute.Children2Response
			if err := jute.Unmarshal(a[0].body, &children); err != nil {
				return err
			}
			for _, name := range children.Children {
				next = append(next, path+"/"+name)
			}
		}
		level = next
	}
	return nil
}

// quotaHome is the path of the quotas of the histories' nodes.
const quotaHome = "/zookeeper/quota" + home

// audit is the text of all that a history has left.
func (r *run) audit() (string, error) {
	var lines []string
	see := func(path string, children, data, acl answer) {
		lines = append(lines, path+" "+r.names.reply(jute.OpGetChildren2, children.body),
			"  data "+r.names.reply(jute.OpGetData, data.body),
			"  acl "+r.names.reply(jute.OpGetACL, acl.body))
	}
	if err := r.host.walk(home, see); err != nil {
		return "", err
	}
	err := r.host.walk(quotaHome, see)
	return strings.Join(lines, "\n"), err
}

// sweep deletes all that a history has left.
func (h *Host) sweep() error {
	var paths []string
	take := func(path string, _, _, _ answer) { paths = append(paths, path) }
	if err := h.walk(quotaHome, take); err != nil {
		return err
	}
	if err := h.walk(home, take); err != nil {
		return err
	}
	var ops []Op
	for i := len(paths) - 1; i >= 0; i-- {
		ops = append(ops, Op{Kind: "delete", Path: paths[i], Num: -1})
	}
	answers, err := h.doAll(ops)
	for i, a := range answers {
		if a.Err != 0 {
			return fmt.Errorf("%s: cannot delete %s: %d", h.system.Name(), ops[i].Path, a.Err)
		}
	}
	return err
}
