#!/usr/bin/env bats
# rnp-train join against a coordinator that lies, with good signatures: the worker ends with one line and 65, and keeps
# its bounds.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_training
	# a real run to lie about
	cd "$DIR" || return
	export BATS_TEST_TMPDIR=$DIR
	start_coordinator --workers 1 --inner-steps 5 2>/dev/null
	cp -r m/coordinate real
	curl -s -o real/whole "$url/v1/params/$(curl -s "$url/status" | jq -r .base)"
	kill_hard "$coordinator"
}

setup() {
	coordinator='' worker=()
	cd "$BATS_TEST_TMPDIR" || return
}
teardown() {
	stop_training
	[[ -z ${liar:-} ]] || kill "$liar" 2>/dev/null || true
}

# lie KIND: a coordinator at $url
lie() {
	rm -f liar.port
	python3 "$ROOT/tests/tools/fake_coordinator.py" "$1" liar.port "$DIR/real" 2>liar.err 3>&- &
	liar=$!
	wait_until 'the liar to start' test -s liar.port
	url=http://127.0.0.1:$(cat liar.port)
}

# found TEXT [OPTION...]: the worker ends with 65 and one line that has the text, within its disk
found() {
	refused 65 "$1" timeout 120 rnp-train join -q "$url" --data "$DIR/tok" --state state --device cpu "${@:2}"
	[[ ! -d state ]] || (($(du -sb state | cut -f1) < 50000000))
	kill "$liar"
	wait "$liar" 2>/dev/null || true
	liar=''
}

@test "liar: a record of the run that is absurd, changed or does not fit this machine" {
	lie config
	found 'parameters'
	lie unsigned
	found 'is not signed'
	lie huge
	found 'of memory, and'
}

@test "liar: parameters that are no container, have another hash or never end" {
	lie garbage
	found "the coordinator's parameters"
	lie wrong
	found 'have not the hash that it named'
	lie endless
	found 'more than'
}

@test "liar: ranges of the parameters that begin elsewhere, never end, or are of more than any model" {
	lie range-elsewhere
	found 'another range'
	lie range-endless
	found 'more than'
	rm -r state # or it would be another size than that of the part
	lie range-huge
	found 'more than'
}

@test "liar: assignments for somebody else, or of more steps than the run has" {
	lie other
	found 'for another member'
	lie steps
	found 'do not go together'
}

@test "liar: no work, or to join again, at once and always: it is not asked without a pause" {
	local kind n from
	asked_again() { (($(grep -c asked liar.err) >= 2)); }
	for kind in nothing again; do
		lie $kind
		rnp-train join -q "$url" --data "$DIR/tok" --state state --device cpu 2>join.err >/dev/null 3>&- &
		worker[a]=$!
		wait_until 'it to be asked' test -s liar.err
		from=$SECONDS
		wait_until 'it to be asked again' asked_again
		sleep 3
		n=$(grep -c asked liar.err)
		((n <= 2 * (SECONDS - from + 1))) || fail "$kind: asked $n times in some $((SECONDS - from)) s"
		kill -TERM "${worker[a]}"
		end_of a "${worker[a]}"
		kill "$liar"
		wait "$liar" 2>/dev/null || true
		liar=''
	done
}

@test "liar: text that never ends or is of another vocabulary" {
	lie endless-text
	refused 65 'more than' timeout 120 rnp-train join -q "$url" --state state --device cpu
	(($(du -sb state | cut -f1) < 50000000))
}

@test "liar: what a firewall or a login page says in the coordinator's place ends no worker" {
	lie portal
	refused 77 'joining: the coordinator says 403: no place' timeout 120 rnp-train join -q "$url" --data "$DIR/tok" --state state --device cpu
	assert_equal "$(sort -u liar.err) $(wc -l <liar.err)" "/v1/join 4"
}

# A record that is older than a minute is none: a worker that waited for a place for so long ended with "the clock is more than a
# minute off"
@test "liar: who waits for a place signs each try anew, and says what it waits for" {
	lie full
	XDG_CONFIG_HOME=$PWD run_split -77 timeout 120 rnp-train join "$url" --data "$DIR/tok" --state state --device cpu
	[[ $stderr == *"waiting for the coordinator: "*"no place"*"joining: the coordinator says 403: no place" ]]
	(($(wc -l <liar.err) == 4 && $(sort -u liar.err | wc -l) == 4))
}
