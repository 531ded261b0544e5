# What the table of tests/data/decode says of Go's decoder is what Go's decoder does. Only where Go is installed.
set -eu
go=/usr/lib/go-1.19/bin/go
[ -x "$go" ] || go=$(command -v go) || { echo "0 passed, 0 failed: there is no Go here"; exit 0; }
cd "$SRC/tests/data/decode"
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
export GO111MODULE=off GOENV=off GOFLAGS= GOPATH=/usr/share/gocode CGO_ENABLED=0 GOCACHE="${GOCACHE:-$T/cache}"
decoder=decode_std.go
[ ! -d /usr/share/gocode/src/sigs.k8s.io/json ] || decoder=decode_k8s.go
"$go" build -o "$T/decode" decode.go $decoder
"$T/decode" cases
