# Sourced by check.sh and pipeline.sh, and by the scripts of tests/kube and tests/systemd.
#
# within SECONDS COMMAND...: asks every 50 ms until it succeeds; silent. Seconds of a clock that nobody sets.
within() {
	within_clock
	within_end=$((within_now + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		within_clock
		[ "$within_now" -le "$within_end" ] || return 1
		sleep 0.05
	done
}
within_clock() {
	IFS=' ' read -r within_now _ </proc/uptime
	within_now=${within_now%.*}
}
gone() { ! kill -0 "$1" 2>/dev/null || grep -qs '^State:.*zombie' "/proc/$1/status"; } # PID: has it ended, waited for or not?
