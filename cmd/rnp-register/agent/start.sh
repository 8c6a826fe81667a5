#!/bin/sh
# What a container of a lease runs once all ranks are ready (gate.c waits for that): setup once, and then the job; it says how
# that ended. Files of the lease are in $in, which the container cannot write; $out is its own.
in=/run/rnp
out=/run/rnp-out
job=
ended=
collector=

# SIGTERM is for the job: this shell stays to say how it ended
trap 'ended=143; [ -z "$job" ] || kill -TERM "-$job" 2>/dev/null || kill -TERM "$job" 2>/dev/null' TERM

# a job has a process group of its own where the image knows how
apart=
if command -v setsid >/dev/null 2>&1; then apart=setsid; fi

run() {
	$apart "$@" &
	job=$!
	while :; do
		wait "$job"
		code=$?
		# a signal to us ends the wait, not the job
		kill -0 "$job" 2>/dev/null || break
	done
	job=
}

# copies what is to be kept into $out/artifacts, from where the agent sends it on
collect() {
	[ -e "$in/artifacts" ] || return 0
	part=$out/artifacts.part
	whole=yes
	rm -rf "$part"
	mkdir -p "$part"
	while IFS= read -r path; do
		case $path in
		\~/*) path=$HOME/${path#??} ;;
		esac
		case $path in
		/*) to=$part/root$path ;;
		*) to=$part/work/$path ;;
		esac
		if [ -e "$path" ]; then { mkdir -p "${to%/*}" && cp -a "$path" "$to"; } || whole=; fi
	done <"$in/artifacts"
	# where the disk was full what was kept before stays
	if [ -z "$whole" ] && ! head -c 65536 /dev/zero >"$part/.room"; then
		rm -rf "$part"
		# its time says when; for a word in it there is no room
		: >"$out/lost"
		return
	fi
	rm -rf "$out/artifacts" "$part/.room"
	mv "$part" "$out/artifacts"
	collected=$(cat "$out/collected" 2>/dev/null)
	echo $((${collected:-0} + 1)) >"$out/collected.part" && mv "$out/collected.part" "$out/collected"
}

# so often while the job runs
collect_always() {
	trap 'exit 0' TERM
	while :; do
		sleep "$1" &
		wait $!
		collect
	done
}

# what was kept of this rank goes back to its place
restore() {
	[ -d .rnp/artifacts ] || return 0
	if [ -d .rnp/artifacts/work ]; then cp -a .rnp/artifacts/work/. .; fi
	if [ -d .rnp/artifacts/root ]; then cp -a .rnp/artifacts/root/. /; fi
	rm -rf .rnp
}

finish() {
	if [ -n "$collector" ]; then kill "$collector" 2>/dev/null && wait "$collector" 2>/dev/null; fi
	collect
	echo "$code" >"$out/exit.part" && mv "$out/exit.part" "$out/exit"
	exit "$code"
}

HOME=${HOME:-/root}
export HOME
cd "$HOME/sky_workdir" 2>/dev/null || cd "$HOME" 2>/dev/null || cd /
if [ -e "$in/env" ]; then . "$in/env"; fi
shell=/bin/sh
if [ -x /bin/bash ]; then shell=/bin/bash; fi

if [ -e "$in/setup" ] && [ ! -e "$out/setup" ]; then
	run "$shell" "$in/setup"
	[ "$code" = 0 ] || finish
	: >"$out/setup"
fi
if [ -e "$in/run" ] && [ -z "$ended" ]; then
	restore
	if [ -e "$in/artifacts_every" ]; then
		collect_always "$(cat "$in/artifacts_every")" &
		collector=$!
	fi
	run "$shell" "$in/run"
	finish
fi

# nothing to run: whoever logs in works here until the lease ends
while [ -z "$ended" ]; do
	sleep 3600 &
	wait $!
done
exit 0
