# helper.bash - loaded by every .bats file: `load helper`. Paths and assertions.
load "${BATS_LIBS:-/usr/lib/bats}/bats-support/load"
load "${BATS_LIBS:-/usr/lib/bats}/bats-assert/load"

ROOT=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
RNP_BUILD=${RNP_BUILD:-$ROOT/build}
PATH=$RNP_BUILD/bin:$PATH
# what programs measure of this machine once is kept for all tests of a run
export LC_ALL=C.UTF-8 XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config XDG_CACHE_HOME=${RNP_TEST_CACHE:-$BATS_RUN_TMPDIR}/cache
export PYTHONDONTWRITEBYTECODE=1 # the tests leave nothing beside their modules
unset RNP_NOW RNP_DEVICE
# a server that does not answer fails a test, in two minutes: see .curlrc there
export CURL_HOME=$ROOT/tests/net

# Prints the path of real data outside the repository; skips the test visibly without it:
# `file=$(data prices/x.csv) || skip_data`
data() {
	local path=${RNP_DATA:-$ROOT/../shared/data}/$1
	[[ -e $path ]] && echo "$path"
}
skip_data() {
	skip "real data not there: set RNP_DATA (see README)"
}

# Runs a command with stdout and stderr apart: $output is stdout, $stderr is stderr, $status the
# code
run_split() {
	run --separate-stderr "$@"
}

# The command exits with this code and one line on stderr that contains this text:
# `refused 65 "gpus[0]" rnp-x sub ...`
refused() {
	local code=$1 text=$2
	shift 2
	run --separate-stderr "$@"
	assert_equal "$status" "$code"
	assert_equal "$(wc -l <<<"$stderr")" 1
	[[ $stderr == *"$text"* ]] || fail "stderr is '$stderr', it lacks '$text'"
}

# The same for an option whose value does not parse: 64, and behind the first line how the command is used
misused() {
	run --separate-stderr "${@:2}"
	assert_equal "$status" 64
	[[ ${stderr_lines[0]} == *"$1"* ]] || fail "stderr is '$stderr', it lacks '$1'"
}
bats_require_minimum_version 1.5.0

# Skips without llama.cpp's own library, which tests/tools/llama_cpp.py loads
need_llama_cpp() {
	python3 -c 'import sys; sys.path.insert(0, sys.argv[1]); import llama_cpp; sys.exit(not llama_cpp.folder())' "$ROOT/tests/tools" ||
		skip "llama.cpp is not there: scripts/bootstrap"
}

# wait_until WHAT COMMAND...: until the command succeeds; after two minutes a failure that says what was waited
# for. Machines are busy: a bound that a test never needs costs nothing.
wait_until() {
	local until=$((SECONDS + 120))
	while ((SECONDS < until)); do
		"${@:2}" && return
		sleep 0.05
	done
	cat "$BATS_TEST_TMPDIR"/*.err >&2 2>/dev/null || true
	fail "waited in vain for $1"
}

# process_is_gone PID: it has ended, whether somebody has waited for it or not
process_is_gone() {
	local state
	read -r _ _ state _ 2>/dev/null <"/proc/$1/stat" || return 0
	[[ $state == Z ]]
} 2>/dev/null

# ended PID: as wait, for a program that ought to end now. One that does not within two minutes is told with where it stands
# and killed, and 124 comes back: a test that waits for it fails, and does not wait for ever.
ended() {
	local until=$((SECONDS + 120))
	until process_is_gone "$1"; do
		if ((SECONDS >= until)); then
			echo "does not end: $(ps -o pid=,stat=,args= -p "$1"), $(cat /proc/"$1"/task/*/wchan | tr '\0' ' ')" >&2
			timeout 60 gdb -p "$1" -batch -ex 'thread apply all bt' >&2 2>/dev/null || true
			kill -KILL "$1"
			wait "$1" || true
			return 124
		fi
		sleep 0.02
	done
	wait "$1"
}

# fails PID: the same, for one that has to end with another code than 0
fails() {
	if ended "$1"; then fail "it has ended with 0"; fi
}

# wait_file FILE: until it is there and not empty, as the --port-file of a server that starts
wait_file() { wait_until "$1" test -s "$1"; }

# wait_port FILE PID: the same, of a server; one that ends instead fails the test at once
wait_port() {
	listens_or_ended() { [[ -s $1 ]] || process_is_gone "$2"; }
	wait_until "a server to listen" listens_or_ended "$1" "$2"
	[[ -s $1 ]] || {
		cat "$BATS_TEST_TMPDIR"/*.err >&2 2>/dev/null || true
		fail "the server has ended"
	}
}

# on_terminal COLUMNS COMMAND [TEXT N]: prints what the command writes to a terminal of that width. One that goes on
# gets Ctrl-C when it has written the text N times.
on_terminal() {
	python3 - "$@" <<-'END'
		import fcntl, os, pty, signal, struct, sys, termios
		signal.alarm(120)
		pid, fd = pty.fork()
		if pid == 0:
		    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored by what a shell starts in the background
		    os.environ["TERM"] = "xterm"
		    os.environ.pop("COLUMNS", None)
		    os.read(0, 1)
		    os.execvp("bash", ["bash", "-c", sys.argv[2]])
		fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, int(sys.argv[1]), 0, 0))
		os.write(fd, b"\n")
		out, interrupted = b"", False
		while True:
		    try:
		        piece = os.read(fd, 65536)
		    except OSError:
		        break
		    if not piece:
		        break
		    out += piece
		    # once: the terminal echoes it, and a second one ends a program at once
		    if len(sys.argv) > 3 and not interrupted and out.count(sys.argv[3].encode()) >= int(sys.argv[4]):
		        os.write(fd, b"\x03")
		        interrupted = True
		os.waitpid(pid, 0)
		sys.stdout.write(out.decode().replace("\r\n", "\n").lstrip("\n"))
	END
}

# advised FILTER FILE: the commands of the advice that a filter of jq finds in a record, a line each, as printed
advised() {
	jq -r "$1 | if type == \"array\" then .[] else . end" "$2" |
		sed -nE 's/^.*: ((rnp-|sudo |systemctl |install |apt-get |dnf |useradd |modprobe |nvidia-ctk |man |\/).*)$/\1/p'
}
