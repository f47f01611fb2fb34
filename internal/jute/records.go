package jute

// RequestHeader starts every frame from the client but the first.
type RequestHeader struct{ Xid, Op int32 }

func (r *RequestHeader) Fields(c *Coder) { c.Int(&r.Xid); c.Int(&r.Op) }

// ReplyHeader starts every frame from the server but the first.
type ReplyHeader struct {
	Xid  int32
	Zxid int64
	Err  int32
}

func (r *ReplyHeader) Fields(c *Coder) { c.Int(&r.Xid); c.Long(&r.Zxid); c.Int(&r.Err) }

// ConnectRequest is the first frame from the client.
type ConnectRequest struct {
	ProtocolVersion int32
	LastZxidSeen    int64
	Timeout         int32 // milliseconds
	SessionID       int64
	Password        []byte
	// ReadOnly is a trailing byte that old clients do not send.
	HasReadOnly, ReadOnly bool
}

func (r *ConnectRequest) Fields(c *Coder) {
	c.Int(&r.ProtocolVersion)
	c.Long(&r.LastZxidSeen)
	c.Int(&r.Timeout)
	c.Long(&r.SessionID)
	c.Buffer(&r.Password)
	c.codeTrailing(&r.HasReadOnly, &r.ReadOnly)
}

// ConnectResponse is the first frame from the server. SessionID 0 and Timeout 0 mean that the session has expired.
type ConnectResponse struct {
	ProtocolVersion int32
	Timeout         int32 // milliseconds
	SessionID       int64
	Password        []byte
	// ReadOnly is a trailing byte. The server sends it only to clients that sent that of ConnectRequest.
	HasReadOnly, ReadOnly bool
}

func (r *ConnectResponse) Fields(c *Coder) {
	c.Int(&r.ProtocolVersion)
	c.Int(&r.Timeout)
	c.Long(&r.SessionID)
	c.Buffer(&r.Password)
	c.codeTrailing(&r.HasReadOnly, &r.ReadOnly)
}

// Stat is a node's metadata. Times are milliseconds since 1970.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

func (r *Stat) Fields(c *Coder) {
	c.Long(&r.Czxid)
	c.Long(&r.Mzxid)
	c.Long(&r.Ctime)
	c.Long(&r.Mtime)
	c.Int(&r.Version)
	c.Int(&r.Cversion)
	c.Int(&r.Aversion)
	c.Long(&r.EphemeralOwner)
	c.Int(&r.DataLength)
	c.Int(&r.NumChildren)
	c.Long(&r.Pzxid)
}

// ACL grants permissions to an identity.
type ACL struct {
	Perms      int32
	Scheme, ID string
}

func (r *ACL) Fields(c *Coder) { c.Int(&r.Perms); c.String(&r.Scheme); c.String(&r.ID) }

// CreateRequest serves create (1), create2 (15) and createContainer (19).
type CreateRequest struct {
	Path  string
	Data  []byte
	ACL   []ACL
	Flags int32
}

func (r *CreateRequest) Fields(c *Coder) {
	c.String(&r.Path)
	c.Buffer(&r.Data)
	codeVector(c, &r.ACL, 12, (*ACL).Fields)
	c.Int(&r.Flags)
}

// CreateTTLRequest serves createTTL (21).
type CreateTTLRequest struct {
	CreateRequest
	TTL int64 // milliseconds
}

func (r *CreateTTLRequest) Fields(c *Coder) { r.CreateRequest.Fields(c); c.Long(&r.TTL) }

// PathResponse is the reply of create (1) and sync (9): the path.
type PathResponse struct{ Path string }

func (r *PathResponse) Fields(c *Coder) { c.String(&r.Path) }

// Create2Response is the reply of create2, createContainer and createTTL.
type Create2Response struct {
	Path string
	Stat Stat
}

func (r *Create2Response) Fields(c *Coder) { c.String(&r.Path); r.Stat.Fields(c) }

// PathVersionRequest serves delete (2) and check (13).
type PathVersionRequest struct {
	Path    string
	Version int32
}

func (r *PathVersionRequest) Fields(c *Coder) { c.String(&r.Path); c.Int(&r.Version) }

// PathWatchRequest serves exists (3), getData (4), getChildren (8) and getChildren2 (12).
type PathWatchRequest struct {
	Path  string
	Watch bool
}

func (r *PathWatchRequest) Fields(c *Coder) { c.String(&r.Path); c.Bool(&r.Watch) }

// PathRequest serves sync (9), getACL (6), getEphemerals (103, a prefix), getAllChildrenNumber (104) and
// deleteContainer (20).
type PathRequest struct{ Path string }

func (r *PathRequest) Fields(c *Coder) { c.String(&r.Path) }

// StatResponse is the reply of exists, setData, setACL.
type StatResponse struct{ Stat Stat }

func (r *StatResponse) Fields(c *Coder) { r.Stat.Fields(c) }

// GetDataResponse is the reply of getData.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

func (r *GetDataResponse) Fields(c *Coder) { c.Buffer(&r.Data); r.Stat.Fields(c) }

// SetDataRequest serves setData (5).
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version int32
}

func (r *SetDataRequest) Fields(c *Coder) { c.String(&r.Path); c.Buffer(&r.Data); c.Int(&r.Version) }

// ChildrenResponse is the reply of getChildren (8) and getEphemerals (103).
type ChildrenResponse struct{ Children []string }

func (r *ChildrenResponse) Fields(c *Coder) { c.Strings(&r.Children) }

// Children2Response is the reply of getChildren2 (12).
type Children2Response struct {
	Children []string
	Stat     Stat
}

func (r *Children2Response) Fields(c *Coder) { c.Strings(&r.Children); r.Stat.Fields(c) }

// GetACLResponse is the reply of getACL (6).
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

func (r *GetACLResponse) Fields(c *Coder) { codeVector(c, &r.ACL, 12, (*ACL).Fields); r.Stat.Fields(c) }

// SetACLRequest serves setACL (7).
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version int32
}

func (r *SetACLRequest) Fields(c *Coder) {
	c.String(&r.Path)
	codeVector(c, &r.ACL, 12, (*ACL).Fields)
	c.Int(&r.Version)
}

// AuthPacket serves auth (100).
type AuthPacket struct {
	Type   int32
	Scheme string
	Auth   []byte
}

func (r *AuthPacket) Fields(c *Coder) { c.Int(&r.Type); c.String(&r.Scheme); c.Buffer(&r.Auth) }

// WatcherEvent is the body of a notification (xid -1).
type WatcherEvent struct {
	Type, State int32
	Path        string
}

func (r *WatcherEvent) Fields(c *Coder) { c.Int(&r.Type); c.Int(&r.State); c.String(&r.Path) }

// SetWatches serves setWatches (101).
type SetWatches struct {
	RelativeZxid       int64
	Data, Exist, Child []string
}

func (r *SetWatches) Fields(c *Coder) {
	c.Long(&r.RelativeZxid)
	c.Strings(&r.Data)
	c.Strings(&r.Exist)
	c.Strings(&r.Child)
}

// SetWatches2 serves setWatches2 (105).
type SetWatches2 struct {
	SetWatches
	Persistent, Recursive []string
}

func (r *SetWatches2) Fields(c *Coder) {
	r.SetWatches.Fields(c)
	c.Strings(&r.Persistent)
	c.Strings(&r.Recursive)
}

// PathIntRequest serves addWatch (106: the mode), checkWatches (17) and removeWatches (18: the watcher type).
type PathIntRequest struct {
	Path  string
	Value int32
}

func (r *PathIntRequest) Fields(c *Coder) { c.String(&r.Path); c.Int(&r.Value) }

// IntResponse is the reply of getAllChildrenNumber (104), and the body of an operation's error inside a
// multi.
type IntResponse struct{ Value int32 }

func (r *IntResponse) Fields(c *Coder) { c.Int(&r.Value) }

// ReconfigRequest serves reconfig (16).
type ReconfigRequest struct {
	Joining, Leaving, NewMembers string
	CurConfigID                  int64
}

func (r *ReconfigRequest) Fields(c *Coder) {
	c.String(&r.Joining)
	c.String(&r.Leaving)
	c.String(&r.NewMembers)
	c.Long(&r.CurConfigID)
}

// ClientInfo is one identity of a whoAmI reply.
type ClientInfo struct{ Scheme, User string }

func (r *ClientInfo) Fields(c *Coder) { c.String(&r.Scheme); c.String(&r.User) }

// WhoAmIResponse is the reply of whoAmI (107).
type WhoAmIResponse struct{ Info []ClientInfo }

func (r *WhoAmIResponse) Fields(c *Coder) { codeVector(c, &r.Info, 8, (*ClientInfo).Fields) }
