module github.com/go-curator/curator/contrib/fence/redis

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.35.0
	github.com/go-curator/curator/contrib/fence v0.1.0
	github.com/redis/go-redis/v9 v9.14.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/go-curator/curator v0.1.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
