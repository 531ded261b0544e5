#!/bin/sh
# `credentials: kubeconfig`: what a reconciler is shown of the worker's credentials, and that it is shown nothing else.
unset KUBE_SERVER # its own API server, without TLS
. "${SRC:?}/tests/lib/pipeline.sh"

mkdir "$dir/given" "$dir/out"
chmod 755 "$dir/given"
chmod 1777 "$dir/out"
for n in given none talker linked; do
	kind=exec credentials=kubeconfig
	[ $n = none ] && credentials=none
	[ $n = talker ] && kind=coprocess
	controller $n <<E
  reconciler:
    $kind: {command: [./$kind.sh]}
    credentials: $credentials
    env: {OUT: "$dir/out"}
    sandbox: {readWritePaths: ["$dir/out"]}
E
done
# Everything that it can find out, into a file of the key's name.
script look.sh <<E
{
	echo "KUBECONFIG=\${KUBECONFIG:-}"
	for f in kubeconfig token neighbour; do echo "\$f: \$(cat "$dir/given/\$f" 2>&1 | tr '\\n' ' ')"; done
	echo "projected: \$(cat "$dir/projected/token" 2>&1 | tr '\\n' ' ')"
	echo "listed: \$(ls -A "$dir/given" 2>&1 | tr '\\n' ' ')"
	echo "answer: \$(curl -sS -m 30 "\$(sed -nE 's/.*server: "(.*)".*/\\1/p' "\${KUBECONFIG:-/dev/null}")/version" 2>&1 | tr -d '\\n ')"
} >"\$OUT/\$1.new"
mv "\$OUT/\$1.new" "\$OUT/\$1"
E
script exec.sh <<'E'
#!/bin/sh
cat >/dev/null
set -- "$RECONCILE_NAME"
. ./look.sh
E
script coprocess.sh <<'E'
#!/bin/sh
read -r hello
echo '{"kind":"Hello","apiVersion":"reconciled.dev/v1"}'
while read -r request; do
	set -- "$(echo "$request" | jq -r .request.name)"
	. ./look.sh
	echo "$request" | jq -c '{apiVersion: "reconciled.dev/v1", kind: "ReconcileResponse", uid}'
done
E
api_server
echo one >"$dir/given/token"
echo canary >"$dir/given/neighbour"
cat >"$dir/given/kubeconfig" <<E
clusters: [{name: c, cluster: {server: "$server"}}]
users: [{name: u, user: {tokenFile: token}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
E
chmod 644 "$dir/given"/*
broker
watcher
given() { start "$1" reconciled-worker --config-dir "$dir/config" --kubeconfig "$dir/given/kubeconfig" "$1.1"; } # NAME
for n in given none talker; do given $n; done
for n in given none talker; do ok "$n is ready" within 60 logged $n 'worker is ready'; done

seen() { [ -s "$dir/out/$1" ] && grep -q -- "$2" "$dir/out/$1"; } # KEY PATTERN
for n in given talker; do
	map $n $n-1
	ok "$n: is told where it is" within 60 seen $n-1 "^KUBECONFIG=$dir/given/kubeconfig\$"
	ok "$n: reads it" seen $n-1 '^kubeconfig: clusters: .*tokenFile: token'
	ok "$n: reads what it names" seen $n-1 '^token: one $'
	ok "$n: and nothing beside" seen $n-1 '^listed: kubeconfig token $'
	ok "$n: not even by name" seen $n-1 '^neighbour: .*No such file'
	ok "$n: reaches the API server" seen $n-1 '^answer: {.*"major"'
done
map none none-1
ok "none: is told nothing" within 60 seen none-1 '^KUBECONFIG=$'
ok "none: sees nothing" seen none-1 '^listed: ls: cannot access'
ok "none: not the token" seen none-1 '^token: .*No such file'

# As kubelet makes it: the token is a link to a link to a folder. All of the folder is shown, and a change is seen without a new jail.
mkdir -p "$dir/projected/..1" "$dir/linked"
chmod 755 "$dir/projected" "$dir/projected/..1" "$dir/linked"
echo one >"$dir/projected/..1/token"
ln -s ..1 "$dir/projected/..data"
ln -s ..data/token "$dir/projected/token"
sed "s|tokenFile: token|tokenFile: ../projected/token|" "$dir/given/kubeconfig" >"$dir/linked/kubeconfig"
chmod 644 "$dir/projected/..1/token" "$dir/linked/kubeconfig"
start linked reconciled-worker --config-dir "$dir/config" --kubeconfig "$dir/linked/kubeconfig" linked.1
ok "linked is ready" within 60 logged linked 'worker is ready'
map linked linked-1
ok "linked: reads the token" within 60 seen linked-1 '^projected: one $'
mkdir "$dir/projected/..2"
chmod 755 "$dir/projected/..2"
echo two >"$dir/projected/..2/token"
chmod 644 "$dir/projected/..2/token"
ln -s ..2 "$dir/projected/..data.new"
mv -T "$dir/projected/..data.new" "$dir/projected/..data"
rm -r "$dir/projected/..1"
map linked linked-2
ok "linked: reads the new token" within 60 seen linked-2 '^projected: two $'
ok "linked: in its old jail" [ "$(count linked 'a new jail')" = 0 ]

# Replaced by rename: the jail would go on showing the old file.
echo two >"$dir/given/token.new"
chmod 644 "$dir/given/token.new"
mv "$dir/given/token.new" "$dir/given/token"
for n in given talker; do
	map $n $n-2
	ok "$n: sees the new token" within 60 seen $n-2 '^token: two $'
	ok "$n: in a new jail" logged $n 'credentials were replaced: a new jail'
done
map none none-2
ok "none: runs on" within 60 seen none-2 '^KUBECONFIG=$'
ok "none: in its old jail" [ "$(count none 'a new jail')" = 0 ]

# What the reconciler's user cannot read is said at start, with path and user.
if [ "$(id -u)" = 0 ]; then
	chmod 600 "$dir/given/token"
	slay given
	given given
	says given 'start failed .*given/token: not accessible to user .*, who runs the reconciler'
	chmod 644 "$dir/given/token"
	map given given-3
	ok "given: goes on once it can" within 90 seen given-3 '^token: two $'
fi
result
