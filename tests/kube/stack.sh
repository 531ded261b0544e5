# stack.sh: sourced by demo, real and tests/systemd/inside. The database example, its kubelet and the audit controller under `reconcilectl up`.
#   stack_start BUILD FOLDER [UP-OPTION]...   starts; exports BIN, EXAMPLE, AUDIT, RUNTIME_DIR, REGION_DIR; sets UP (pid)
#   stack_stop                                ends it; fails if it does not end or leaves something running
. "$(dirname "$0")/../lib/within.sh"

stack_config() { # EXAMPLE FOLDER: the three controllers' files, and what they run, in one folder
	mkdir -p "$2"
	cp -r "$1"/. "$2"/
	cp "$(dirname "$0")/../kube/audit/audit.sh" "$2/"
	cat >"$2/audit.yaml" <<-EOF
		apiVersion: reconciled.dev/v1alpha1
		kind: Controller
		metadata: {name: audit}
		spec:
		  for: {apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {audit: "yes"}}}
		  reconciler:
		    exec: {command: [./audit.sh]}
		    env: {AUDIT: "$AUDIT"}
		    sandbox: {readWritePaths: ["$AUDIT"]}
		  workers: 2
	EOF
}

stack_start() {
	BIN=$(cd "$1/bin" && pwd) EXAMPLE=$1/examples/database
	folder=$2
	RUNTIME_DIR=$folder/run AUDIT=$folder/audit REGION_DIR=/dev/shm/reconciled-$(basename "$folder")
	export BIN EXAMPLE AUDIT RUNTIME_DIR REGION_DIR
	mkdir -p "$AUDIT"
	chmod 755 "$folder"
	chmod 1777 "$AUDIT" # as root, the jail's user is another one
	stack_config "$EXAMPLE" "$folder/config"
	shift 2
	"$BIN/reconcilectl" up -f "$folder/config" --runtime-dir "$RUNTIME_DIR" --region-dir "$REGION_DIR" "$@" >"$folder/up.log" 2>&1 &
	UP=$!
}

# stack_answers: does the broker know the watcher and a worker of each controller?
stack_answers() {
	[ "$("$BIN/reconcilectl" status --runtime-dir "$RUNTIME_DIR" --region-dir "$REGION_DIR" -o json 2>/dev/null |
		jq '[.processes[].controller | select(. != null and . != "")] | unique | length')" = 3 ]
}

stack_wait() {
	up_or_gone() { stack_answers || gone $UP; }
	within 120 up_or_gone
	stack_answers && return
	tail -n 30 "$folder/up.log" >&2
	echo "the processes did not start" >&2
	return 1
}

# Processes of ours: named by our folders, or working in them, as attempts do.
stack_left() {
	pgrep -f -- "$folder/config|$RUNTIME_DIR" | grep -vx $$
	for p in /proc/[0-9]*; do
		case $(readlink "$p/cwd") in "$folder"/config*) echo "${p#/proc/}" ;; esac
	done 2>/dev/null
}

# stack_end: until reconcilectl up has ended, by force if it must; its status
stack_end() {
	kill $UP 2>/dev/null
	within 120 gone $UP || { echo "reconcilectl up does not end" >&2; kill -9 $UP; }
	wait $UP
}

stack_stop() {
	stack_end
	status=$?
	none_left() { [ -z "$(stack_left)" ]; }
	within 30 none_left
	left=$(stack_left)
	rm -rf "$REGION_DIR"
	[ $status = 0 ] && [ -z "$left" ] && return 0
	tail -n 30 "$folder/up.log" >&2
	echo "the end was not clean: status $status, left: $(for p in $left; do tr '\0' ' ' <"/proc/$p/cmdline"; done)" >&2
	return 1
}
