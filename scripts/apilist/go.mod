module github.com/go-curator/curator/scripts/apilist

go 1.25.0
