module github.com/go-curator/curator/contrib/fence/http

go 1.25.0

require (
	github.com/go-curator/curator v0.1.0
	github.com/go-curator/curator/contrib/fence v0.1.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cenkalti/backoff/v4 v4.3.0 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
