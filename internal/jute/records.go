package jute

// RequestHeader starts every client frame but the first.
type RequestHeader struct{ Xid, Op int32 }

func (r *RequestHeader) Encode(e *Encoder) { e.Int(r.Xid); e.Int(r.Op) }
func (r *RequestHeader) Decode(d *Decoder) { r.Xid, r.Op = d.Int(), d.Int() }

// ReplyHeader starts every server frame but the first.
type ReplyHeader struct {
	Xid  int32
	Zxid int64
	Err  int32
}

func (r *ReplyHeader) Encode(e *Encoder) { e.Int(r.Xid); e.Long(r.Zxid); e.Int(r.Err) }
func (r *ReplyHeader) Decode(d *Decoder) { r.Xid, r.Zxid, r.Err = d.Int(), d.Long(), d.Int() }

// ConnectRequest is a connection's first client frame.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxidSeen    int64
	Timeout         int32 // milliseconds
	SessionID       int64
	Password        []byte
	// ReadOnly is a trailing byte that old clients do not send.
	HasReadOnly, ReadOnly bool
}

func (r *ConnectRequest) Encode(e *Encoder) {
	e.Int(r.ProtocolVersion)
	e.Long(r.LastZxidSeen)
	e.Int(r.Timeout)
	e.Long(r.SessionID)
	e.Buffer(r.Password)
	if r.HasReadOnly {
		e.Bool(r.ReadOnly)
	}
}

func (r *ConnectRequest) Decode(d *Decoder) {
	r.ProtocolVersion, r.LastZxidSeen, r.Timeout, r.SessionID, r.Password = d.Int(), d.Long(), d.Int(), d.Long(),
		d.Buffer()
	if r.HasReadOnly = d.Err() == nil && d.Len() > 0; r.HasReadOnly {
		r.ReadOnly = d.Bool()
	}
}

// ConnectResponse is a connection's first server frame. SessionID 0 and Timeout 0 say that the session has
// expired.
type ConnectResponse struct {
	ProtocolVersion int32
	Timeout         int32 // milliseconds
	SessionID       int64
	Password        []byte
	// ReadOnly is a trailing byte; the server sends it to clients that sent theirs.
	HasReadOnly, ReadOnly bool
}

func (r *ConnectResponse) Encode(e *Encoder) {
	e.Int(r.ProtocolVersion)
	e.Int(r.Timeout)
	e.Long(r.SessionID)
	e.Buffer(r.Password)
	if r.HasReadOnly {
		e.Bool(r.ReadOnly)
	}
}

func (r *ConnectResponse) Decode(d *Decoder) {
	r.ProtocolVersion, r.Timeout, r.SessionID, r.Password = d.Int(), d.Int(), d.Long(), d.Buffer()
	if r.HasReadOnly = d.Err() == nil && d.Len() > 0; r.HasReadOnly {
		r.ReadOnly = d.Bool()
	}
}

// Stat is a node's metadata. Times are milliseconds since 1970.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

func (r *Stat) Encode(e *Encoder) {
	e.Long(r.Czxid)
	e.Long(r.Mzxid)
	e.Long(r.Ctime)
	e.Long(r.Mtime)
	e.Int(r.Version)
	e.Int(r.Cversion)
	e.Int(r.Aversion)
	e.Long(r.EphemeralOwner)
	e.Int(r.DataLength)
	e.Int(r.NumChildren)
	e.Long(r.Pzxid)
}

func (r *Stat) Decode(d *Decoder) {
	r.Czxid, r.Mzxid, r.Ctime, r.Mtime = d.Long(), d.Long(), d.Long(), d.Long()
	r.Version, r.Cversion, r.Aversion = d.Int(), d.Int(), d.Int()
	r.EphemeralOwner = d.Long()
	r.DataLength, r.NumChildren = d.Int(), d.Int()
	r.Pzxid = d.Long()
}

// ACL grants permissions to an identity.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

func encodeACL(e *Encoder, acl []ACL) {
	e.Int(int32(len(acl)))
	for _, a := range acl {
		e.Int(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}

func decodeACL(d *Decoder) []ACL {
	n := d.count(12)
	if n == 0 {
		return nil
	}
	acl := make([]ACL, 0, n)
	for range n {
		acl = append(acl, ACL{d.Int(), d.String(), d.String()})
	}
	if d.Err() != nil {
		return nil
	}
	return acl
}

// CreateRequest serves create (1), create2 (15) and createContainer (19).
type CreateRequest struct {
	Path  string
	Data  []byte
	ACL   []ACL
	Flags int32
}

func (r *CreateRequest) Encode(e *Encoder) {
	e.String(r.Path)
	e.Buffer(r.Data)
	encodeACL(e, r.ACL)
	e.Int(r.Flags)
}

func (r *CreateRequest) Decode(d *Decoder) {
	r.Path, r.Data, r.ACL, r.Flags = d.String(), d.Buffer(), decodeACL(d), d.Int()
}

// CreateTTLRequest serves createTTL (21).
type CreateTTLRequest struct {
	CreateRequest
	TTL int64 // milliseconds
}

func (r *CreateTTLRequest) Encode(e *Encoder) { r.CreateRequest.Encode(e); e.Long(r.TTL) }
func (r *CreateTTLRequest) Decode(d *Decoder) { r.CreateRequest.Decode(d); r.TTL = d.Long() }

// PathResponse is the reply of create (1) and sync (9): the path.
type PathResponse struct{ Path string }

func (r *PathResponse) Encode(e *Encoder) { e.String(r.Path) }
func (r *PathResponse) Decode(d *Decoder) { r.Path = d.String() }

// Create2Response is the reply of create2, createContainer and createTTL.
type Create2Response struct {
	Path string
	Stat Stat
}

func (r *Create2Response) Encode(e *Encoder) { e.String(r.Path); r.Stat.Encode(e) }
func (r *Create2Response) Decode(d *Decoder) { r.Path = d.String(); r.Stat.Decode(d) }

// PathVersionRequest serves delete (2) and check (13).
type PathVersionRequest struct {
	Path    string
	Version int32
}

func (r *PathVersionRequest) Encode(e *Encoder) { e.String(r.Path); e.Int(r.Version) }
func (r *PathVersionRequest) Decode(d *Decoder) { r.Path, r.Version = d.String(), d.Int() }

// PathWatchRequest serves exists (3), getData (4), getChildren (8) and getChildren2 (12).
type PathWatchRequest struct {
	Path  string
	Watch bool
}

func (r *PathWatchRequest) Encode(e *Encoder) { e.String(r.Path); e.Bool(r.Watch) }
func (r *PathWatchRequest) Decode(d *Decoder) { r.Path, r.Watch = d.String(), d.Bool() }

// PathRequest serves sync (9), getACL (6), getEphemerals (103, a prefix), getAllChildrenNumber (104) and
// deleteContainer (20).
type PathRequest struct{ Path string }

func (r *PathRequest) Encode(e *Encoder) { e.String(r.Path) }
func (r *PathRequest) Decode(d *Decoder) { r.Path = d.String() }

// StatResponse is the reply of exists, setData, setACL.
type StatResponse struct{ Stat Stat }

func (r *StatResponse) Encode(e *Encoder) { r.Stat.Encode(e) }
func (r *StatResponse) Decode(d *Decoder) { r.Stat.Decode(d) }

// GetDataResponse is the reply of getData.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

func (r *GetDataResponse) Encode(e *Encoder) { e.Buffer(r.Data); r.Stat.Encode(e) }
func (r *GetDataResponse) Decode(d *Decoder) { r.Data = d.Buffer(); r.Stat.Decode(d) }

// SetDataRequest serves setData (5).
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version int32
}

func (r *SetDataRequest) Encode(e *Encoder) { e.String(r.Path); e.Buffer(r.Data); e.Int(r.Version) }
func (r *SetDataRequest) Decode(d *Decoder) {
	r.Path, r.Data, r.Version = d.String(), d.Buffer(), d.Int()
}

// ChildrenResponse is the reply of getChildren (8) and getEphemerals (103).
type ChildrenResponse struct{ Children []string }

func (r *ChildrenResponse) Encode(e *Encoder) { e.Strings(r.Children) }
func (r *ChildrenResponse) Decode(d *Decoder) { r.Children = d.Strings() }

// Children2Response is the reply of getChildren2 (12).
type Children2Response struct {
	Children []string
	Stat     Stat
}

func (r *Children2Response) Encode(e *Encoder) { e.Strings(r.Children); r.Stat.Encode(e) }
func (r *Children2Response) Decode(d *Decoder) { r.Children = d.Strings(); r.Stat.Decode(d) }

// GetACLResponse is the reply of getACL (6).
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

func (r *GetACLResponse) Encode(e *Encoder) { encodeACL(e, r.ACL); r.Stat.Encode(e) }
func (r *GetACLResponse) Decode(d *Decoder) { r.ACL = decodeACL(d); r.Stat.Decode(d) }

// SetACLRequest serves setACL (7).
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version int32
}

func (r *SetACLRequest) Encode(e *Encoder) { e.String(r.Path); encodeACL(e, r.ACL); e.Int(r.Version) }
func (r *SetACLRequest) Decode(d *Decoder) {
	r.Path, r.ACL, r.Version = d.String(), decodeACL(d), d.Int()
}

// AuthPacket serves auth (100).
type AuthPacket struct {
	Type   int32
	Scheme string
	Auth   []byte
}

func (r *AuthPacket) Encode(e *Encoder) { e.Int(r.Type); e.String(r.Scheme); e.Buffer(r.Auth) }
func (r *AuthPacket) Decode(d *Decoder) { r.Type, r.Scheme, r.Auth = d.Int(), d.String(), d.Buffer() }

// WatcherEvent is the body of a notification (xid -1).
type WatcherEvent struct {
	Type, State int32
	Path        string
}

func (r *WatcherEvent) Encode(e *Encoder) { e.Int(r.Type); e.Int(r.State); e.String(r.Path) }
func (r *WatcherEvent) Decode(d *Decoder) { r.Type, r.State, r.Path = d.Int(), d.Int(), d.String() }

// SetWatches serves setWatches (101).
type SetWatches struct {
	RelativeZxid       int64
	Data, Exist, Child []string
}

func (r *SetWatches) Encode(e *Encoder) {
	e.Long(r.RelativeZxid)
	e.Strings(r.Data)
	e.Strings(r.Exist)
	e.Strings(r.Child)
}

func (r *SetWatches) Decode(d *Decoder) {
	r.RelativeZxid, r.Data, r.Exist, r.Child = d.Long(), d.Strings(), d.Strings(), d.Strings()
}

// SetWatches2 serves setWatches2 (105).
type SetWatches2 struct {
	SetWatches
	Persistent, Recursive []string
}

func (r *SetWatches2) Encode(e *Encoder) {
	r.SetWatches.Encode(e)
	e.Strings(r.Persistent)
	e.Strings(r.Recursive)
}

func (r *SetWatches2) Decode(d *Decoder) {
	r.SetWatches.Decode(d)
	r.Persistent, r.Recursive = d.Strings(), d.Strings()
}

// PathIntRequest serves addWatch (106: the mode), checkWatches (17) and removeWatches (18: the watcher type).
type PathIntRequest struct {
	Path  string
	Value int32
}

func (r *PathIntRequest) Encode(e *Encoder) { e.String(r.Path); e.Int(r.Value) }
func (r *PathIntRequest) Decode(d *Decoder) { r.Path, r.Value = d.String(), d.Int() }

// IntResponse is the reply of getAllChildrenNumber (104), and the body of an operation's error inside a
// multi.
type IntResponse struct{ Value int32 }

func (r *IntResponse) Encode(e *Encoder) { e.Int(r.Value) }
func (r *IntResponse) Decode(d *Decoder) { r.Value = d.Int() }

// ReconfigRequest serves reconfig (16).
type ReconfigRequest struct {
	Joining, Leaving, NewMembers string
	CurConfigID                  int64
}

func (r *ReconfigRequest) Encode(e *Encoder) {
	e.String(r.Joining)
	e.String(r.Leaving)
	e.String(r.NewMembers)
	e.Long(r.CurConfigID)
}

func (r *ReconfigRequest) Decode(d *Decoder) {
	r.Joining, r.Leaving, r.NewMembers, r.CurConfigID = d.String(), d.String(), d.String(), d.Long()
}

// ClientInfo is one identity of a whoAmI reply.
type ClientInfo struct{ Scheme, User string }

// WhoAmIResponse is the reply of whoAmI (107).
type WhoAmIResponse struct{ Info []ClientInfo }

func (r *WhoAmIResponse) Encode(e *Encoder) {
	e.Int(int32(len(r.Info)))
	for _, i := range r.Info {
		e.String(i.Scheme)
		e.String(i.User)
	}
}

func (r *WhoAmIResponse) Decode(d *Decoder) {
	r.Info = nil
	n := d.count(8)
	if n > 0 {
		r.Info = make([]ClientInfo, 0, n)
	}
	for range n {
		r.Info = append(r.Info, ClientInfo{d.String(), d.String()})
	}
}
