# Sourced by check.sh and pipeline.sh.
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
	read -r within_now _ </proc/uptime
	within_now=${within_now%.*}
}
