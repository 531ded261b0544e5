# Sourced by tests of reconcilectl: check.sh, and folders of its own for a `reconcilectl up`, which is ended with the test (set UP to its pid).
. "$SRC/tests/lib/check.sh"
ctl=$BIN/reconcilectl
region=/dev/shm/reconciled-$(basename "$FOLDER")
here="--runtime-dir $FOLDER/run --region-dir $region"
UP=
check_end() {
	[ -z "$UP" ] || kill -9 "$UP" 2>/dev/null
	rm -rf "$region"
}
# After it nothing runs again but for what the test does: the first sweep adds each key once more.
swept() { r status -o json | jq -e '[.controllers[].swept] | length > 0 and all'; }
# shellcheck disable=SC2086
r() { # COMMAND ARGUMENT...
	command=$1
	shift
	"$ctl" "$command" "$@" $here
}
