package assignment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-curator/curator/cache"
	"github.com/go-curator/curator/framework"
	"github.com/go-curator/curator/internal/zkpath"
)

// treeView is the plan and the members at one moment.
type treeView struct {
	members []groupMember
	names   []string          // of all the directory's children
	owners  map[string]string // by item; nil: no plan, or an unreadable one
	exists  bool              // the plan's node exists
	version int32             // of the plan's node
	czxid   int64
	err     error // why the plan cannot be read
}

// viewOfTree returns the view of the members' directory: its data are the plan, its children the members.
func viewOfTree(dir string, nodes map[string]cache.Node) (v treeView) {
	for path, n := range nodes {
		if path == dir {
			v.exists, v.version, v.czxid = true, n.Stat.Version, n.Stat.Czxid
			v.owners, v.err = decodePlan(n.Data)
			continue
		}
		v.names = append(v.names, zkpath.Base(path))
		if n.Stat.EphemeralOwner != 0 { // a node without a session is not a member
			v.members = append(v.members, groupMember{zkpath.Base(path), decodeWeight(n.Data), n.Stat.Czxid})
		}
	}
	v.members = sortMembers(v.members)
	return v
}

// planContent is the JSON of a plan: the items by owner, and without an owner by "".
type planContent struct {
	Owners map[string][]string `json:"owners"`
}

// memberContent is the JSON of a member.
type memberContent struct {
	Weight int64 `json:"weight"`
}

func encodePlan(owners map[string]string) []byte {
	p := planContent{map[string][]string{}}
	for _, item := range slices.Sorted(maps.Keys(owners)) {
		p.Owners[owners[item]] = append(p.Owners[owners[item]], item)
	}
	return marshalJSON(p)
}

// decodePlan decodes a plan. It returns nil for a node without data.
func decodePlan(data []byte) (map[string]string, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var p planContent
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrBadPlan, err)
	}
	if p.Owners == nil {
		return nil, fmt.Errorf("%w: it has no owners", ErrBadPlan)
	}
	owners := map[string]string{}
	for owner, items := range p.Owners {
		for _, item := range items {
			if _, twice := owners[item]; twice || checkName("item", item) != nil {
				return nil, fmt.Errorf("%w: the item %q is there twice, or cannot be the name of a node",
					ErrBadPlan, item)
			}
			owners[item] = owner
		}
	}
	return owners, nil
}

// decodeWeight decodes a member's weight; 0 if they are not a weight.
func decodeWeight(data []byte) int64 {
	var m memberContent
	if json.Unmarshal(data, &m) != nil || m.Weight < 0 || m.Weight > maxWeight {
		return 0
	}
	return m.Weight
}

func marshalJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil { // maps, slices, strings and numbers cannot fail
		panic(err)
	}
	return data
}

func checkName(what, name string) error {
	if name == "" || strings.Contains(name, "/") || zkpath.Validate("/"+name, false) != nil {
		return fmt.Errorf("%w: the %s %q cannot be the name of a node", framework.ErrBadArguments, what, name)
	}
	return nil
}

func checkItems(items []string) error {
	var err error
	for _, item := range items {
		err = cmp.Or(err, checkName("item", item))
	}
	return err
}
