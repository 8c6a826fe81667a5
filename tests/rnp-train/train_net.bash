# train_net.bash - a coordinator and workers as real processes: `load train_net` after `load helper`.
# All they write is in $BATS_TEST_TMPDIR: c.out and c.err, NAME.out and NAME.err of worker NAME.

# A text with something to learn, sentences of a small grammar, and its shards in $DIR
make_text() {
	awk 'BEGIN {
		srand(7)
		split("the cat,a dog,my friend,the old man,a bird", who, ",")
		split("sees,hears,likes,follows", does, ",")
		split("in the morning,at night,near the river,by the house", where, ",")
		for (i = 0; i < 4000; i++)
			printf "%s %s %s %s.\n", who[1 + int(rand() * 5)], does[1 + int(rand() * 4)],
				who[1 + int(rand() * 5)], where[1 + int(rand() * 4)]
	}' >"$DIR/text"
	head -n 200 "$DIR/text" >"$DIR/held"
	rnp-train tokenize --vocab 300 --out "$DIR/tok" "$DIR/text" >/dev/null
	rnp-train tokenize --tokenizer "$DIR/tok" --out "$DIR/valid" "$DIR/held" >/dev/null
}

# The same and a nano model
make_training() {
	make_text
	rnp-train init --preset nano --tokenizer "$DIR/tok" --out "$DIR/model"
}

# A coordinator of a run in ./m (a copy of $DIR/model): $url, $coordinator. Arguments: further options.
# It listens where it did before, if it is started again.
start_coordinator() {
	cd "$BATS_TEST_TMPDIR" || return
	[[ -d m ]] || cp -r "$DIR/model" m
	local listen=127.0.0.1:0
	[[ ! -s port ]] || listen=127.0.0.1:$(cat port)
	rm -f started
	rnp-train coordinate --model m --data "$DIR/tok" --listen "$listen" --port-file started --batch 4 --length 32 \
		--lr 3e-3 --device cpu --log-file requests.log "$@" >>c.out 2>>c.err 3>&- &
	coordinator=$!
	wait_until 'the coordinator to start' test -s started
	cp started port
	url=http://127.0.0.1:$(cat port)
}

# start_worker NAME [OPTION...]: its process is ${worker[NAME]}
declare -gA worker
start_worker() {
	rnp-train join "$url" --data "$DIR/tok" --state "$BATS_TEST_TMPDIR/state-$1" --device cpu "${@:2}" \
		>>"$BATS_TEST_TMPDIR/$1.out" 2>>"$BATS_TEST_TMPDIR/$1.err" 3>&- &
	worker[$1]=$!
}

# start_relay [--proxy] PORT [AT]: tests/tools/tcp_relay.py to that port, its own in relay.port; its process is ${worker[relay]}
start_relay() {
	rm -f relay.port
	python3 "$ROOT/tests/tools/tcp_relay.py" "$@" >relay.port 2>relay.err 3>&- &
	worker[relay]=$!
	wait_port relay.port "${worker[relay]}"
}

# forget PID: it has ended and was waited for; its number may be somebody else's by now
forget() {
	local name
	[[ $coordinator != "$1" ]] || coordinator=''
	for name in "${!worker[@]}"; do
		[[ ${worker[$name]} != "$1" ]] || unset "worker[$name]"
	done
}

# kill_hard PID...: and wait until they are gone
kill_hard() {
	local pid
	kill -9 "$@"
	for pid; do
		wait "$pid" || true
		forget "$pid"
	done
}

# end_of NAME PID: waits for a process, which has to end with 0
end_of() {
	wait_until "$1 to end" process_is_gone "$2"
	wait "$2" || { cat "$BATS_TEST_TMPDIR"/*.err >&2; fail "$1 ended with $?"; }
	forget "$2"
}

rounds() { jq -c 'select(.kind == "rnp.round")' "$BATS_TEST_TMPDIR/c.out"; }
rounds_are() { (($(rounds | wc -l) >= $1)); }

stop_training() {
	local pid
	for pid in $coordinator "${worker[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
}
