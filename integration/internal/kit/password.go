package kit

// SessionPassword is the password that ZooKeeper gives the session: it follows
// from the id.
func SessionPassword(id int64) []byte { return password(id) }
