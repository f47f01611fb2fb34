module github.com/go-curator/curator/scripts/modproxy

go 1.25.0

require golang.org/x/mod v0.30.0
