#!/bin/sh
# reconcilectl validate and the command line itself: what people and scripts rely on.
. "$SRC/tests/lib/check.sh"
ctl=$BIN/reconcilectl
cd "$FOLDER" || exit 1
mkdir good wrong

cat >good/a.yaml <<'YAML'
apiVersion: reconciled.dev/v1alpha1
kind: Controller
metadata: {name: website}
spec:
  for: {apiVersion: v1, kind: ConfigMap}
  reconciler: {exec: {command: ["true"]}}
YAML
sed 's/website/other/; s/^  for.*/&\n  workers: 010\n  prune: yes\n  colour: red/' good/a.yaml >wrong/b.yaml
sed 's/spec:/spec:\n  finalizer: example.com\/x/; s/kind: ConfigMap/kind: ConfigMap, fieldSelector: metadata.name=a/' good/a.yaml >warning.yaml

check "a right file" status_is 0 "$ctl" validate good/a.yaml
check "it says how many" says out "1 controller is right, 0 errors"
check "a folder" status_is 0 "$ctl" validate good
check "a wrong file is 78" status_is 78 "$ctl" validate good/a.yaml wrong/b.yaml
check "with its place" says out "wrong/b.yaml:6:12: error: spec.workers: found 010; allowed: a whole number from 1 to 256"
check "and the cure" says out "wrong/b.yaml:7:10: error: spec.prune: found yes; allowed: true or false; write true"
check "all errors at once" says out 'wrong/b.yaml:8:3: error: spec: unknown key "colour"'
check "and a sum" says out "1 controller is right, 3 errors"
check "a warning is no error" status_is 0 "$ctl" validate warning.yaml
check "but is shown" says out "warning.yaml:6:3: warning: spec.for: a finalizer together with a selector"
check "JSON, wrong" status_is 78 "$ctl" validate -o json wrong/b.yaml
check "has the fields" [ "$(jq -r '[.valid, (.errors | length), .errors[0].line, .errors[0].column, .errors[0].severity] | join(" ")' out)" = "false 3 6 12 error" ]
check "JSON, right" status_is 0 "$ctl" validate -o json good
check "has the controller" [ "$(jq -r '.controllers[0].name' out)" = website ]
cp good/a.yaml twin.yaml
check "names are unique over all arguments" status_is 78 "$ctl" validate good/a.yaml twin.yaml
check "and it says where" says out 'twin.yaml: error: metadata.name: the name "website" is taken: good/a.yaml has a controller of this name'
check "a file that is not there" status_is 78 "$ctl" validate nowhere.yaml
check "is named" says out "cannot read the configuration nowhere.yaml"
mkfifo pipe.yaml
check "a pipe does not hang" status_is 78 "$ctl" validate pipe.yaml

for command in up status queue explain requeue validate wait raw; do
	check "$command --help" status_is 0 "$ctl" $command --help
	check "$command --help names it" says out "Usage: reconcilectl $command"
	check "$command: an unknown option" status_is 2 "$ctl" $command --no-such-option
	check "$command stands in the manual" grep -q "^\.Cm $command" "$SRC/docs/man/reconcilectl.1"
done
check "--help" status_is 0 "$ctl" --help
check "--version" status_is 0 "$ctl" --version
check "no command" status_is 2 "$ctl"
check "an unknown command" status_is 2 "$ctl" frobnicate
check "is named" says err 'there is no command "frobnicate"'
check "validate without a file" status_is 2 "$ctl" validate
check "a wrong key" status_is 2 "$ctl" explain website
check "a wrong output" status_is 2 "$ctl" queue -o yaml
check "a wrong wish" status_is 2 "$ctl" wait v1/ConfigMap a/b --for =
for path in 'a[' 'a[x]' 'a..b' "['a'"; do check "a wrong path $path" status_is 2 "$ctl" wait v1/ConfigMap a/b --for "$path"; done
check "is shown" says err "--for ['a': the path is wrong at"
check "a wrong kind" status_is 2 "$ctl" wait configmaps a/b --for delete
check "a wrong time" status_is 2 "$ctl" wait v1/ConfigMap a/b --for delete --timeout 30

mkdir run shm
check "no broker" status_is 1 "$ctl" status --runtime-dir run --region-dir shm
check "is said, with what to do" says err "is reconciled running?"
check "in JSON, too" status_is 1 "$ctl" status -o json --runtime-dir run --region-dir shm
check "which is JSON" [ "$(jq -c '[.broker, .controllers]' out)" = "[false,[]]" ]
if [ "$(id -u)" = 0 ]; then
	mkdir -m 700 closed
	open=$(mktemp -d) # this folder, and that of the build, may be closed, too
	chmod 755 "$open"
	cp "$ctl" "$open/"
	check "a folder that one may not enter" status_is 1 setpriv --reuid 65534 --clear-groups "$open/reconcilectl" status --runtime-dir "$PWD/closed" --region-dir shm
	check "is not called empty" says err "you may not look there"
	rm -r "$open"
fi
check "no region" status_is 1 "$ctl" queue --runtime-dir run --region-dir shm
check "requeue without a broker" status_is 1 "$ctl" requeue a/b/c --runtime-dir run --region-dir shm
check_result
