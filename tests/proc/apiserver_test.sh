#!/bin/sh
# reconciled-apiserver as a process: with curl, over HTTP and HTTPS, with watches, signals and limits.
set -u
. "$SRC/tests/lib/within.sh"
DIR=$(mktemp -d "${TMPDIR:-/tmp}/apiserver-test.XXXXXX")
PID='' PASSED=0 FAILED=0
CM=/api/v1/namespaces/default/configmaps

finish() {
	[ -z "$PID" ] || kill -9 "$PID" 2>/dev/null
	[ "$FAILED" -ne 0 ] || rm -rf "$DIR"
}
trap finish EXIT
trap 'exit 1' INT TERM

check() { # WHAT GOT WANTED
	if [ "$2" = "$3" ]; then
		PASSED=$((PASSED + 1))
	else
		FAILED=$((FAILED + 1))
		printf 'FAILED: %s: "%s" instead of "%s"\n' "$1" "$2" "$3"
	fi
}
wait_for() { within 60 "$@"; }
start() { # OPTION...: on a free port; sets URL
	rm -f "$DIR/kubeconfig"
	"$BIN/reconciled-apiserver" --listen 127.0.0.1:0 --write-kubeconfig "$DIR/kubeconfig" "$@" >"$DIR/log" 2>&1 &
	PID=$!
	wait_for test -s "$DIR/kubeconfig" || { cat "$DIR/log"; echo "FAILED: the server does not start"; FAILED=1; exit 1; }
	URL=$(sed -n 's/^ *server: "\(.*\)"/\1/p' "$DIR/kubeconfig")
}
stop() {
	kill "$PID"
	wait "$PID"
	check "exit status after SIGTERM" $? 0
	PID=''
}
code() { curl -s -o "$DIR/body" -w '%{http_code}' "$@"; }
post() { code -H 'Content-Type: application/json' -d "$2" "$URL$1"; }
line_with() { grep -q "$2" "$DIR/$1"; }
value() { jq -r "$1" "$DIR/body"; }

# ---- plain HTTP ----
start --history 8 --bookmark-interval 1
check "kubeconfig's mode" "$(stat -c %a "$DIR/kubeconfig")" 600
cp "$DIR/kubeconfig" "$DIR/kubeconfig.before"
rm "$DIR/kubeconfig"
wait_for test -s "$DIR/kubeconfig"
check "a kubeconfig that was deleted is written again" "$(cmp "$DIR/kubeconfig" "$DIR/kubeconfig.before" && echo same)" same
check "healthz" "$(curl -s "$URL/healthz")" ok
check "create" "$(post $CM '{"metadata":{"name":"a"},"data":{"k":"1"}}')" 201
RV=$(value .metadata.resourceVersion)
check "create again" "$(post $CM '{"metadata":{"name":"a"}}')" 409
check "form bodies, curl's default, are refused" "$(code -d '{}' "$URL$CM")" 415
check "HEAD" "$(code -I "$URL$CM")" 405
check "OPTIONS" "$(code -X OPTIONS "$URL$CM/a")" 405
check "Allow header" "$(curl -s -D - -o "$DIR/body" -X OPTIONS "$URL$CM/a" | tr -d '\r' | sed -n 's/^Allow: //p')" "DELETE, GET, PATCH, PUT"
check "a slash in a name stays in the name" "$(code "$URL$CM/a%2Fb")" 404
check "and is told as it is" "$(value .message)" 'configmaps "a/b" not found'
check "a plus in a query is a blank" "$(code "$URL$CM?labelSelector=x+in+(y)")" 200

# a watch from now on, with bookmarks
curl -sN "$URL$CM?watch=1&allowWatchBookmarks=true&resourceVersion=$RV" >"$DIR/watch" &
WATCH=$!
check "create b" "$(post $CM '{"metadata":{"name":"b"}}')" 201
wait_for line_with watch '"ADDED"' || check "the watch tells of b" no yes
wait_for line_with watch '"BOOKMARK"' || check "a bookmark comes" no yes
check "delete b" "$(code -X DELETE "$URL$CM/b")" 200
wait_for line_with watch '"DELETED"' || check "the watch tells of the end of b" no yes
check "every line of the watch is JSON" "$(jq -c .type "$DIR/watch" | head -1)" '"ADDED"'

# a watch that ends by itself, with a last bookmark
check "a watch ends after timeoutSeconds" "$(code -N "$URL$CM?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=$RV")" 200
check "its last line is a bookmark" "$(tail -1 "$DIR/body" | jq -r .type)" BOOKMARK

# a version that the history no longer has
for i in 1 2 3 4 5 6 7 8 9; do
	check "patch $i" "$(code -X PATCH -H 'Content-Type: application/merge-patch+json' -d "{\"data\":{\"k\":\"p$i\"}}" "$URL$CM/a")" 200
done
check "watch from an old version" "$(code -N "$URL$CM?watch=1&resourceVersion=$RV")" 200
check "is 410 in the stream" "$(value '"\(.type) \(.object.code) \(.object.reason)"')" "ERROR 410 Expired"

# dependents go by themselves
check "create owner" "$(post $CM '{"metadata":{"name":"owner"}}')" 201
UID_OWNER=$(value .metadata.uid)
check "create child" "$(post $CM "{\"metadata\":{\"name\":\"child\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"owner\",\"uid\":\"$UID_OWNER\"}]}}")" 201
check "delete owner" "$(code -X DELETE "$URL$CM/owner")" 200
child_gone() { [ "$(code "$URL$CM/child")" = 404 ]; }
wait_for child_gone || check "the child is collected" no yes

# limits
head -c 3200000 /dev/zero | tr '\0' x >"$DIR/large"
check "a body over 3 MiB" "$(code -H 'Content-Type: application/json' --data-binary @"$DIR/large" "$URL$CM")" 413
check "a chunked body over 3 MiB" "$(code -H 'Content-Type: application/json' -H 'Transfer-Encoding: chunked' --data-binary @"$DIR/large" "$URL$CM")" 413
check "the Status of it" "$(value .reason)" RequestEntityTooLarge
LONG=$(head -c 20000 /dev/zero | tr '\0' x)
check "a URI over 16 KiB" "$(code "$URL$CM?labelSelector=$LONG")" 414

# a client that leaves without a word: its watch ends soon, other requests go on
check "still serving" "$(code "$URL/readyz")" 200
stop
wait "$WATCH"
check "the end of the server ends the watch cleanly" $? 0

# ---- connections are bounded ----
start --max-connections 4
for i in 1 2 3; do curl -sN "$URL$CM?watch=1" >"$DIR/w$i" 2>&1 & done
check "create" "$(post $CM '{"metadata":{"name":"a"}}')" 201
for i in 1 2 3; do wait_for line_with w$i ADDED || check "watch $i" no yes; done
curl -sN "$URL$CM?watch=1" >"$DIR/w4" 2>&1 &
wait_for line_with w4 ADDED || check "watch 4" no yes
check "one too many is turned away" "$(curl -s -m 2 -o /dev/null "$URL/healthz"; [ $? -ne 0 ] && echo refused)" refused
kill $! # the fourth watch leaves: its place is free again after a write
serving() { [ "$(curl -s -m 5 "$URL/healthz")" = ok ]; }
wait_for serving || check "a place is free again" no yes
stop

# ---- a token ----
printf 'secret-one\n' >"$DIR/token"
start --token-file "$DIR/token"
check "without token" "$(code "$URL/api")" 401
check "is a Status" "$(value .reason)" Unauthorized
check "with a wrong one" "$(code -H 'Authorization: Bearer secret-onf' "$URL/api")" 401
check "with the right one" "$(code -H 'Authorization: Bearer secret-one' "$URL/api")" 200
check "health needs none" "$(code "$URL/livez")" 200
check "the kubeconfig has it" "$(sed -n 's/.*token: "\(.*\)".*/\1/p' "$DIR/kubeconfig")" secret-one
printf 'secret-two\n' >"$DIR/token"
kill -HUP "$PID"
renewed() { [ "$(code -H 'Authorization: Bearer secret-two' "$URL/api")" = 200 ]; }
wait_for renewed || check "SIGHUP reads the new token" no yes
check "the old one is out" "$(code -H 'Authorization: Bearer secret-one' "$URL/api")" 401
stop

# ---- HTTPS, and client certificates ----
(
	cd "$DIR" || exit 1
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=server -addext subjectAltName=IP:127.0.0.1 \
		-keyout server.key -out server.crt
	for name in ca other; do
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=$name -keyout $name.key -out $name.crt
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=client -keyout $name-client.key -out $name-client.csr
		openssl x509 -req -days 2 -in $name-client.csr -CA $name.crt -CAkey $name.key -CAcreateserial -out $name-client.crt
	done
) >"$DIR/openssl.log" 2>&1 || { cat "$DIR/openssl.log"; FAILED=1; exit 1; }
start --tls-cert "$DIR/server.crt" --tls-key "$DIR/server.key" --client-ca "$DIR/ca.crt"
check "the server's address" "${URL%%:*}" https
sed -n 's/^ *certificate-authority-data: //p' "$DIR/kubeconfig" | base64 -d >"$DIR/from-kubeconfig.crt"
check "the kubeconfig has the certificate" "$(cmp "$DIR/from-kubeconfig.crt" "$DIR/server.crt" && echo same)" same
TLS="--cacert $DIR/from-kubeconfig.crt"
check "without a client certificate" "$(code $TLS "$URL/api")" 401
check "with a stranger's" "$(code $TLS --cert "$DIR/other-client.crt" --key "$DIR/other-client.key" "$URL/api")" 401
check "with the right one" "$(code $TLS --cert "$DIR/ca-client.crt" --key "$DIR/ca-client.key" "$URL/api")" 200
CLIENT="--cert $DIR/ca-client.crt --key $DIR/ca-client.key"
curl -sN $TLS $CLIENT "$URL$CM?watch=1&timeoutSeconds=30" >"$DIR/tls-watch" &
WATCH=$!
check "create over TLS" "$(code $TLS $CLIENT -H 'Content-Type: application/json' -d '{"metadata":{"name":"a"}}' "$URL$CM")" 201
wait_for line_with tls-watch '"ADDED"' || check "a watch over TLS tells of it" no yes
check "TLS 1.3" "$(code $TLS --tlsv1.3 --cert "$DIR/ca-client.crt" --key "$DIR/ca-client.key" "$URL/api")" 200
stop
wait "$WATCH"
check "the end of the server ends a watch over TLS cleanly" $? 0

# ---- a certificate of its own ----
printf 'secret\n' >"$DIR/token"
trusted() { code --cacert "$DIR/own.crt" -H 'Authorization: Bearer secret' "$@"; }
start --token-file "$DIR/token" --self-signed "$DIR/own.pem"
check "the address with a certificate of its own" "${URL%%:*}" https
check "its mode" "$(stat -c %a "$DIR/own.pem")" 600
sed -n 's/^ *certificate-authority-data: //p' "$DIR/kubeconfig" | base64 -d >"$DIR/own.crt"
check "the key stays out of the kubeconfig" "$(grep -c KEY "$DIR/own.crt")" 0
check "the kubeconfig's authority is right" "$(trusted "$URL/api")" 200
check "by name, too" "$(trusted "https://localhost:${URL##*:}/api")" 200
check "no token" "$(code --cacert "$DIR/own.crt" "$URL/api")" 401
stop
start --token-file "$DIR/token" --self-signed "$DIR/own.pem"
check "the next start has the same certificate" "$(trusted "$URL/api")" 200
stop
echo damaged >"$DIR/own.pem"
start --token-file "$DIR/token" --self-signed "$DIR/own.pem"
check "a damaged one is made anew" "$(trusted "$URL/api")" 000
sed -n 's/^ *certificate-authority-data: //p' "$DIR/kubeconfig" | base64 -d >"$DIR/own.crt"
check "and is right" "$(trusted "$URL/api")" 200
stop

# ---- refusals at start ----
refused() { # STATUS TEXT OPTION...
	status=$1 text=$2
	shift 2
	timeout 60 "$BIN/reconciled-apiserver" "$@" >"$DIR/refused" 2>&1
	check "exit status of $*" $? "$status"
	grep -q -- "$text" "$DIR/refused" || check "$* says $text" "$(cat "$DIR/refused")" "$text"
}
refused 78 "reachable from other machines" --listen 0.0.0.0:0
refused 78 "reachable from other machines" --listen 0.0.0.0:0 --token-file "$DIR/token"
refused 78 "go together" --listen 127.0.0.1:0 --tls-cert "$DIR/server.crt"
refused 78 "exclude each other" --listen 127.0.0.1:0 --self-signed "$DIR/own.pem" --tls-cert "$DIR/server.crt" --tls-key "$DIR/server.key"
refused 78 "No such file" --listen 127.0.0.1:0 --self-signed "$DIR/nowhere/own.pem"
refused 78 "No such file" --listen 127.0.0.1:0 --token-file "$DIR/none"
refused 1 "ADDRESS:PORT" --listen nowhere
refused 1 "does the key belong to it" --listen 127.0.0.1:0 --tls-cert "$DIR/server.crt" --tls-key "$DIR/ca.key"
refused 2 "unexpected argument" surplus
refused 2 "give a number" --listen 127.0.0.1:0 --history none
refused 0 "--listen" --help

printf '%d passed, %d failed\n' "$PASSED" "$FAILED"
[ "$FAILED" -eq 0 ]
