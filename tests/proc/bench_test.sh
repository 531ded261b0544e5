#!/bin/sh
# ./dev bench queue and watcher, on small sizes and without the peers that must be installed: every measurement runs, finds what it expects, and
# is a well-formed line.
set -u
out=$(mktemp) err=$(mktemp)
trap 'rm -f "$out" "$err"' EXIT
fail() {
	tail -n 20 "$err"
	echo "$1"
	echo "0 passed, 1 failed"
	exit 1
}

well_formed() { # NAME...: rows that must be there
	python3 - "$out" "$@" <<'EOF' || fail "not what a benchmark says"
import json, sys
def check(held, what):
    if not held:
        sys.exit(what)
with open(sys.argv[1]) as f:
    rows = [json.loads(line) for line in f]
for r in rows:
    check(list(r) == ['bench', 'unit', 'ours', 'peer', 'theirs', 'ratio', 'min', 'max', 'rounds'], f'fields: {r}')
    if r['bench'] == 'restart.reconciles':
        check(r['ours'] == 0, f'unchanged objects were reconciled: {r}')
    elif not r['bench'].startswith('latency.grant.'):  # which may be before the answer
        check(r['ours'] > 0, f'values: {r}')
    check(r['rounds'] == 1 and (r['peer'] is None) == (r['ratio'] is None) and (r['peer'] is None or r['min'] == r['ratio'] == r['max']), f'ratio: {r}')
names = {r['bench'] for r in rows}
for name in sys.argv[2:]:
    check(name in names, f'{name} is missing')
EOF
}

"$SRC/tests/bench/queue" --ours --quick --rounds 1 -o json >"$out" 2>"$err" || fail "a measurement failed"
well_formed core.cycle core.cycle.64 core.cycle.1 core.duplicate core.delay core.bytes core.growth core.recover dispatch.product.1 \
	dispatch.product.4 dispatch.product.16 latency.idle.p50 latency.idle.p99 scale.ready.1000000 scale.workers.256

"$SRC/tests/bench/watcher" --ours --quick --rounds 1 --objects 500 -o json >"$out" 2>"$err" || fail "a measurement failed"
well_formed cache.bytes.pods cache.bytes.databases cache.peak.pods sync.cpu.pods sync.wall.databases watch.cpu latency.grant.p99 read.get \
	read.list restart.reconciles restart.synced

"$SRC/tests/bench/queue" no.such.bench >"$out" 2>"$err" && fail "an unknown name is no error"
grep -q 'no benchmark is named no.such.bench' "$err" || fail "an unknown name is not named"

# An interrupted run leaves nothing behind.
"$SRC/tests/bench/queue" --ours --rounds 50 core.recover >"$out" 2>"$err" &
pid=$!
i=0
until grep -q '^round 1' "$err" || [ $i -ge 300 ]; do sleep 0.1; i=$((i + 1)); done
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "an interrupted run did not end by the signal"
ls -d /dev/shm/reconciled-bench."$pid".* >"$out" 2>/dev/null && fail "an interrupted run left its folder"
echo "4 passed, 0 failed"
