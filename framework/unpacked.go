package framework

// Unpacked returns data that somebody has put into a node, and that were read Undecompressed, as this client would read them: with [WithCompression]
// unpacked, if they can be, and else as they are. For recipes, which read the nodes of others: whether those pack their data is not to be relied on.
func (c *Client) Unpacked(path string, data []byte) []byte {
	full, err := c.fullPath(path)
	if err != nil {
		return data
	}
	plain, err := c.incoming(full, data, packDefault)
	if err != nil {
		return data
	}
	return plain
}
