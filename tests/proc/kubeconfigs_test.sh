#!/bin/sh
# The samples of tests/kubeconfigs, filled with live servers: the good ones connect as they should, by all that reconcilectl does to use
# one. What is refused, and what is read from each: unit/kubeconfig_samples_test.
. "$SRC/tests/lib/check.sh"
lib=$SRC/tests/lib
ctl=$BIN/reconcilectl
unset KUBECONFIG KUBERNETES_SERVICE_HOST HTTPS_PROXY https_proxy NO_PROXY no_proxy
cd "$FOLDER" || exit 1
pids=
check_end() {
	for p in $pids; do kill -9 "$p" 2>/dev/null; done
}
serve() { # FOLDER SCRIPT ARGUMENT...
	mkdir "$1"
	folder=$1 script=$2
	shift 2
	python3 "$lib/$script" "$FOLDER/$folder" "$@" 2>"$folder.log" &
	pids="$pids $!"
	within 60 [ -s "$folder/port" ] || {
		cat "$folder.log"
		echo "$folder does not start"
		exit 1
	}
}

mkdir pki
sh "$lib/pki.sh" pki
serve main http_server.py "$FOLDER/pki/both.crt" "$FOLDER/pki/both.key"
serve mutual http_server.py "$FOLDER/pki/both.crt" "$FOLDER/pki/both.key" "$FOLDER/pki/ca.crt"
serve named http_server.py "$FOLDER/pki/named.crt" "$FOLDER/pki/named.key"
serve connect proxy.py http
serve socks proxy.py socks5
six= # a machine may have no IPv6
! grep -qs '^0*1 ' /proc/net/if_inet6 || six=yes
[ -z "$six" ] || ADDRESS=::1 serve six http_server.py "$FOLDER/pki/six.crt" "$FOLDER/pki/six.key"

# fill SAMPLE SERVER: the folder with the sample, its address and its authority those of a live server
old=$(printf DUMMY-CA-PEM | base64 -w0)
ca=$(base64 -w0 pki/ca.crt)
fill() {
	rm -rf live
	cp -R "$SRC/tests/kubeconfigs" live
	port=$(cat "$2/port")
	sed -i -e "s|127\.0\.0\.1:6443|127.0.0.1:$port|g; s|\[::1\]:6443|[::1]:$port|g; s|$old|$ca|g" \
		-e "s|127\.0\.0\.1:3128|127.0.0.1:$(cat connect/port)|; s|127\.0\.0\.1:1080|127.0.0.1:$(cat socks/port)|" "live/$1"
	cp pki/ca.crt live/02-relative-paths/pki/
	cp pki/client.crt pki/client.key live/02-relative-paths/pki/
	: >"$2/requests"
}
get() { "$ctl" raw GET "${2:-/hello}" --kubeconfig "$FOLDER/live/$1" --runtime-dir "$FOLDER/none"; } # SAMPLE [PATH]
connects() { # SAMPLE SERVER
	fill "$1" "$2"
	status_is 0 get "$1" && says out '{"hello":1}'
}
sent() { [ "$(jq -r "$2" "$1/requests" | tail -n 1)" = "$3" ]; } # SERVER FIELD VALUE

for s in 01-token.yaml 22-config.json 26-bom-crlf.yaml 28-extensions-and-unknown.yaml 33-anchors.yaml 25-no-scheme.yaml; do
	check "$s connects" connects $s main
	check "$s sends its token" sent main .headers.authorization "Bearer dummy-token"
	check "$s says nothing else" [ ! -s err ]
done
check "02 connects with its certificate" connects 02-relative-paths/config.yaml mutual
check "02 is jane" sent mutual .peer jane
cd / || exit 1
check "02 from another folder" status_is 0 "$ctl" raw GET /hello --kubeconfig "$FOLDER/live/02-relative-paths/config.yaml" --runtime-dir "$FOLDER/none"
cd "$FOLDER" || exit 1

fill 03-merge/b-cluster-and-context.yaml main
export KUBECONFIG="live/03-merge/a-only-current-context.yaml:no-such-file:live/03-merge/b-cluster-and-context.yaml::live/03-merge/c-user-and-losing-twins.yaml"
check "03 connects" status_is 0 "$ctl" raw GET /hello --runtime-dir "$FOLDER/none" --config-dir "$FOLDER/none"
check "03 with the user of the last file" sent main .headers.authorization "Bearer dummy-token"
check "03 warns of the missing one" says err "no-such-file: no such file: passed over"
unset KUBECONFIG

export FAKE_LOG="$FOLDER/calls"
check "04 connects" connects 04-exec-plugin/config.yaml main
check "04 with the plugin's token" sent main .headers.authorization "Bearer dummy-token"
check "04 was asked once" [ "$(wc -l <calls)" = 1 ]
check "04 knew the cluster" says calls "\"server\":\"https://127.0.0.1:$(cat main/port)\""
check "04 knew that there is no terminal" says calls '"interactive":false'
for mode in noisy empty fail v1beta1; do
	sed -i "s/value: [a-z0-9]*}\]/value: $mode}]/" live/04-exec-plugin/config.yaml
	check "04, $mode: fails" status_is 1 get 04-exec-plugin/config.yaml
	check "04, $mode: names the plugin" says err "bin/fake-credentials: "
done
check "04, fail: its stderr is shown" eval 'sed -i "s/value: v1beta1/value: fail/" live/04-exec-plugin/config.yaml; get 04-exec-plugin/config.yaml 2>&1 | grep -q "no session, please log in"'
export FAKE_MODE=v1beta1 # what the plugin is to answer with
check "06 connects" connects 06-exec-v1beta1-without-interactivemode.yaml main
unset FAKE_MODE
fill 08-exec-missing-binary.yaml main
check "08 fails" status_is 1 get 08-exec-missing-binary.yaml
check "08 says where to get it" says err "get it from the internal package feed"

check "10 connects" connects 10-tls-server-name.yaml named
check "10 asks for that name" sent named .server_name kube.example.test
check "10 keeps the address as Host" sent named .headers.host "127.0.0.1:$(cat named/port)"
export HTTPS_PROXY=http://127.0.0.1:1
check "11 connects" connects 11-proxy-url.yaml main
check "11 through the proxy" says connect/asked "127.0.0.1:$(cat main/port)"
check "12 connects" connects 12-proxy-url-socks5.yaml main
check "12 through the proxy" says socks/asked "127.0.0.1:$(cat main/port)"
unset HTTPS_PROXY
check "15 connects" connects 15-insecure.yaml main
check "15 warns" says err "insecure-skip-tls-verify"
check "17 connects" connects 17-user-without-credentials.yaml main
check "17 anonymously" sent main '.headers | has("authorization")' false
check "17, refused, says why" eval 'get 17-user-without-credentials.yaml "/status?code=401" 2>&1 | grep -q "the kubeconfig has no credentials"'
check "18 connects" connects 18-basic-auth.yaml main
check "18 with the bytes of its password" sent main .headers.authorization "Basic $(printf 'jane:p:w%%20\303\274"' | base64)"
check "19 connects" connects 19-token-and-tokenfile.yaml main
check "19 with the file's token" sent main .headers.authorization "Bearer $(cat live/token.txt)"

# The two wrapped forms are written anew.
wrap() { base64 -w76 "$1" | sed 's/^/        /'; }
fill 20-data-wrapped-literal.yaml main
base64 -w76 pki/ca.crt >ca.b64
for s in 20-data-wrapped-literal.yaml 21-data-binary-tag.yaml; do
	fill $s main
	{
		sed '/certificate-authority-data/q' live/$s
		case $s in 20*) wrap pki/ca.crt ;; *) wrap ca.b64 ;; esac
		sed -n '/^contexts/,$p' live/$s
	} >rewritten
	mv rewritten live/$s
	check "$s connects" status_is 0 get $s
done
check "23 connects" status_is 0 eval 'fill 23-path-prefix.yaml main; get 23-path-prefix.yaml'
check "23 has the prefix once" sent main .path /k8s/clusters/c-x1/hello
if [ "$six" ]; then
	check "24 connects" connects 24-ipv6.yaml six
	check "24 shows brackets" sent six .headers.host "[::1]:$(cat six/port)"
fi
check "31 connects" connects 31-impersonate.yaml main
check "31 is jane" sent main '."lines" | map(select(startswith("Impersonate-"))) | join("; ")' \
	"Impersonate-User: jane; Impersonate-Uid: 42; Impersonate-Group: ops; Impersonate-Group: team a/b; Impersonate-Extra-example.test%2Fscope: read; Impersonate-Extra-example.test%2Fscope: x,y"
check "32 connects" connects 32-disable-compression.yaml main
check "32 asks for nothing compressed" sent main '.headers."accept-encoding" // "none" | test("gzip")' false
check "35 connects" connects 35-data-wins-over-file.yaml main
check "35 warns" says err "/nonexistent/ca.crt is not"
for s in live/05-* live/07-* live/09-* live/13-* live/14-* live/16-* live/27-* live/29-* live/30-* live/34-*; do
	s=${s#live/}
	check "$s is refused" status_is 1 get "$s"
	check "$s: by its name" says err "$s"
done
check_result
