#!/usr/bin/env bats
# rnp-train coordinate and join: training over HTTP with real processes.
load ../helper
load train_net
load ../rnp-register/registry

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_training
}

setup() { coordinator='' worker=(); }
teardown() { stop_training; stop_registry; }

# Rounds follow each other without gap, each from the parameters that the one before ended with, signed
chain_is_whole() {
	rounds | rnp-register verify >"$BATS_TEST_TMPDIR/checked"
	rounds | jq -se --argjson n "$1" 'map(.round) == [range(1; $n + 1)] and . as $all
		| all(range(1; length); $all[.].base == $all[. - 1].model)'
}

@test "coordinate: two workers learn together, and every record can be checked" {
	start_coordinator --valid "$DIR/valid" --eval-tokens 2048 --workers 2 --rounds 4 --inner-steps 10 \
		--uusd-per-million-tokens 1000000
	start_worker a
	start_worker b
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinate "$coordinator"
	chain_is_whole 4
	rounds | jq -se 'all(.workers == 2 and .compute_ppm > 0 and .compute_ppm <= 1000000 and .dropped == 0 and .tokens == 2 * 10 * 4 * 32)
		and .[3].validation_loss_micronats < .[0].validation_loss_micronats * 0.8
		and .[3].validation_loss_micronats < 2500000'
	# every sequence once
	rounds | jq -se '[.[].members[].first] | sort == [range(0; 8) * 40]'
	# the model is the last round's: same loss by another program
	rnp-train eval --model m --data "$DIR/valid" --length 32 --precision bf16 --tokens 2048 >eval
	jq -se '(.[0].loss * 1e6 - .[1].validation_loss_micronats | fabs) < 20000' eval <(rounds | tail -n 1)
	# receipts say what the rounds say, are signed by the coordinator, and the workers have the same
	jq -c 'select(.kind == "rnp.receipt")' c.out | rnp-register verify >/dev/null
	jq -se 'map(select(.kind == "rnp.receipt")) | length == 2 and all(.tokens == 5120 and .earned_uusd == 5120)' c.out
	cmp <(jq -cS 'select(.kind == "rnp.receipt")' c.out | sort) <(jq -cS 'select(.kind == "rnp.receipt")' a.out b.out | sort)
	# what a worker has is what the coordinator says that all have
	[ "$(jq -r .base state-a/*/state.json)" = "$(rounds | tail -n 1 | jq -r .base)" ]
}

@test "coordinate: who waits for whom is said at both ends, the page is live and is kept, and what is shown is typed" {
	local it typed
	start_coordinator --workers 2 --rounds 1 --inner-steps 2
	grep -q "^rnp-train: $url/ is the page of run " c.err
	typed=$(sed -n 's/^rnp-train: .*; to take part: //p' c.err)
	assert_equal "$typed" "rnp-train join $url"
	$typed --data "$DIR/tok" --state state-a --device cpu >a.out 2>a.err 3>&- &
	worker[a]=$!
	for it in a c; do
		wait_until "$it.err to say what it waits for" grep -qx 'rnp-train: waiting for workers: 1 of 2 is here' $it.err
	done
	jq -e '.waits_for == "waiting for workers: 1 of 2 is here" and .quorum == 2' <(curl -s "$url/status")
	curl -si "$url/" >page
	grep -qi '^Refresh: ' page
	grep -q '<strong>Round 1 of 1</strong>: waiting for workers: 1 of 2 is here' page
	assert_equal "$(grep -o "rnp-train join http[^<]*" page)" "$typed"
	start_worker b
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinate "$coordinator"
	# what is left when nobody serves it
	assert_equal "$(sed -n "s/^rnp-train: the run's page is kept: //p" c.err)" m/coordinate/page.html
	grep -q '<strong>The run is over</strong> after 1 rounds' m/coordinate/page.html
	run ! grep -q 'rnp-train join' m/coordinate/page.html
	typed=$(sed -n 's/^rnp-train: next: //p' c.err)
	assert_equal "$typed" 'rnp-train export --model m --gguf model.gguf'
	$typed >/dev/null
	[[ -s model.gguf ]]
}

@test "coordinate: other machines are let in by name, by a registry or by --open, and a run with other options says the way out" {
	cd "$BATS_TEST_TMPDIR"
	cp -r "$DIR/model" x
	local it=(timeout 60 rnp-train coordinate -q --model x --data "$DIR/tok") at
	for at in :0 0.0.0.0:0 '[::]:0'; do
		refused 64 "--listen $at is reached from other machines: who may take part?" "${it[@]}" --listen "$at"
	done
	[[ ! -e x/coordinate ]]
	start_coordinator --open --listen :0
	wait_port started "$coordinator"
	kill -TERM "$coordinator"
	end_of coordinate "$coordinator"
	run -64 rnp-train coordinate --model m --data "$DIR/tok" --listen 127.0.0.1:0 --length 16
	assert_output --partial "leave --length out to go on with it; to begin anew from 'm' as it is now, remove 'm/coordinate'"
	rm -r m/coordinate
	start_coordinator --length 16
}

@test "coordinate: killed in the middle of rounds, coordinator and worker go on" {
	start_coordinator --workers 2 --rounds 5 --inner-steps 10 --method ecq:0.3 --method-down q8
	start_worker a
	start_worker b
	wait_until 'a round' rounds_are 1
	kill_hard "${worker[a]}"
	start_worker a
	wait_until 'two rounds' rounds_are 2
	kill_hard "$coordinator"
	start_coordinator
	wait_until 'three rounds' rounds_are 3
	kill_hard "$coordinator" "${worker[b]}"
	# the model is whole at every instant
	rnp-train eval --model m --data "$DIR/valid" --length 32 --tokens 256 >/dev/null
	start_coordinator
	start_worker b
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinate "$coordinator"
	# a record that was written just before a kill may come twice, the same
	rounds | jq -s -c 'unique_by(.round)[]' >once
	mv once c.out
	chain_is_whole 5
	rounds | jq -se 'all(.workers == 2)'
}

@test "coordinate: damage to what the last round left is found before anybody has a turn" {
	cd "$BATS_TEST_TMPDIR"
	start_coordinator --workers 1 --inner-steps 3
	start_worker a --once
	end_of a "${worker[a]}"
	wait_until 'a round' rounds_are 1
	kill_hard "$coordinator"
	local name part
	for name in theta v pub; do
		cp "m/coordinate/$name-1.f32" whole
		truncate -s 4000 "m/coordinate/$name-1.f32"
		refused 65 "$name-1.f32: has not" timeout 60 rnp-train coordinate -q --model m --data "$DIR/tok" --listen 127.0.0.1:0
		mv whole "m/coordinate/$name-1.f32"
	done
	cp m/coordinate/pub-1.f32 whole
	printf x | dd of=m/coordinate/pub-1.f32 bs=1 seek=4001 conv=notrunc status=none
	refused 65 'is not what the last round ended with' timeout 60 rnp-train coordinate -q --model m --data "$DIR/tok" --listen 127.0.0.1:0
	mv whole m/coordinate/pub-1.f32
	# rows of the open round: arrivals, the member
	cp m/coordinate/state.db whole
	for part in 1 2; do
		sqlite3 m/coordinate/state.db "DELETE FROM round_rows WHERE part = $part"
		refused 65 'm/coordinate/state.db: the open round' timeout 60 rnp-train coordinate -q --model m --data "$DIR/tok" --listen 127.0.0.1:0
		cp whole m/coordinate/state.db
	done
	start_coordinator
	start_worker a --once
	end_of a "${worker[a]}"
	wait_until 'another round' rounds_are 2
}

@test "join: --once is one turn, SIGTERM leaves, and a state belongs to one worker" {
	umask 022
	start_coordinator --workers 1 --inner-steps 5
	start_worker a --once
	end_of a "${worker[a]}"
	# nobody else of this machine writes what they keep
	[[ -z $(find m state-a -perm /022) ]]
	wait_until 'a round' rounds_are 1
	start_worker a
	wait_until 'three rounds' rounds_are 3
	refused 75 'another worker has the state' rnp-train join -q "$url" --data "$DIR/tok" --state "$BATS_TEST_TMPDIR/state-a"
	kill -TERM "${worker[a]}"
	end_of a "${worker[a]}"
	jq -se '[.[] | select(.kind == "rnp.receipt") | .tokens] | add > 0' a.out
	refused 65 'is not the text of this run' rnp-train join -q "$url" --data "$DIR/valid" --state "$BATS_TEST_TMPDIR/state-x"
	kill -TERM "$coordinator"
	end_of coordinate "$coordinator"
	refused 64 'a run never changes' rnp-train coordinate -q --model m --data "$DIR/tok" --listen 127.0.0.1:0 --inner-steps 6
	refused 69 'gave up' rnp-train join -q "$url" --data "$DIR/tok" --state "$BATS_TEST_TMPDIR/state-x" --give-up 1s
}

@test "join: two workers with one key: the first ends with a line, the other works" {
	rnp-register keygen --out "$BATS_TEST_TMPDIR/k.json" >/dev/null
	start_coordinator --workers 2 --rounds 2 --inner-steps 2
	start_worker a --key k.json
	waits() { curl -s "$url/metrics" | grep -qx 'rnp_train_waiting 1'; }
	wait_until 'the first to wait' waits
	start_worker b --key k.json
	wait_until 'the first to end' process_is_gone "${worker[a]}"
	code=0
	wait "${worker[a]}" || code=$?
	((code == 75)) || fail "ended with $code"
	forget "${worker[a]}"
	grep -q 'another worker asks with this key' a.err
	grep -q '(this one ends, the newer goes on; for both: rnp-register keygen --out other.json, then rnp-train join --key other.json --state other)' a.err
	start_worker c
	end_of b "${worker[b]}"
	end_of c "${worker[c]}"
	end_of coordinate "$coordinator"
	rounds | jq -se 'length == 2 and all(.workers == 2)'
}

@test "coordinate: what is not signed, not hers or not there is refused" {
	local node code
	start_coordinator --workers 1 --inner-steps 5
	node=$(curl -s "$url/v1/run" | jq -r .node)
	code() { curl -s -o answer -w '%{http_code}' "$@"; }
	[ "$(code "$url/v1/work?member=$node")" = 401 ]
	[ "$(code -X PUT --data-binary x "$url/v1/delta/$node/1/0")" = 401 ]
	[ "$(code "$url/v1/delta/$node/1")" = 401 ]
	[ "$(code "$url/v1/params/none")" = 400 ]
	[ "$(code "$url/v1/update/$(printf '0%.0s' {1..64})")" = 404 ]
	[ "$(code -d '{"kind":"rnp.join","v":1}' "$url/v1/join")" = 400 ]
	# what is kept of every node
	[ "$(head -c 5000 /dev/zero | tr '\0' ' ' | code --data-binary @- "$url/v1/join")" = 413 ]
	# a record of another run, well signed
	make_join() {
		jq -nc --arg node "$(rnp-register address --key k.json)" --arg run "$1" --arg at "$2" \
			'{kind: "rnp.join", v: 1, node: $node, at: $at, run: $run}' | rnp-register sign --key k.json
	}
	rnp-register keygen --out k.json >/dev/null
	make_join "$(printf '0%.0s' {1..64})" "$(date -u +%FT%TZ)" >join
	[ "$(code --data-binary @join "$url/v1/join")" = 400 ]
	make_join "$(curl -sI "$url/v1/run" | sed -n 's/^ETag: "\(.*\)".*/\1/p')" "$(date -u -d '1 day ago' +%FT%TZ)" >join
	[ "$(code --data-binary @join "$url/v1/join")" = 401 ]
	grep -q clock answer
	make_join "$(curl -sI "$url/v1/run" | sed -n 's/^ETag: "\(.*\)".*/\1/p')" "$(date -u +%FT%TZ)" >join
	[ "$(code --data-binary @join "$url/v1/join")" = 200 ]
	rnp-register verify answer >/dev/null
	# the update of the open round is not made yet, also for the member that asks for it ahead as older workers do
	base=$(jq -r .base answer)
	[ "$(code -m 20 "$url/v1/update/$base")" = 404 ]
	[ "$(code -m 20 "$url/v1/update/$base?member=$(rnp-register address --key k.json)")" = 404 ]
	# ranges of what everybody has
	curl -s -o whole "$url/v1/params/$base"
	[ "$(curl -s -r 10-19 "$url/v1/params/$base" | xxd -p)" = "$(head -c 20 whole | tail -c 10 | xxd -p)" ]
	rnp-train decompress whole >flat
	[ "$(b2sum -l 256 flat | cut -d' ' -f1)" = "$base" ]
}

@test "coordinate: what can never be is one line and its code, and no run" {
	cd "$BATS_TEST_TMPDIR"
	cp -r "$DIR/model" x
	local it=(timeout 60 rnp-train coordinate -q --model x --data "$DIR/tok" --listen 127.0.0.1:0)
	refused 64 'never come together' "${it[@]}" --workers 3 --workers-max 2
	refused 64 '--aggregate krum:1 needs --workers 5' "${it[@]}" --workers 4 --aggregate krum:1
	refused 64 "'registry' is not an http or https URL" "${it[@]}" --registry registry
	[[ ! -e x/coordinate/run.json ]]
}

# Records go into a pipe that is full: nothing waits for its reader but what is printed, not even the end. Nothing is lost: the database
# has it, and the next start prints it
@test "coordinate: rounds do not wait until their records are read, nor does a signal, nor does a kill lose one" {
	cd "$BATS_TEST_TMPDIR"
	mkfifo c.out
	exec 9<>c.out
	head -c 65536 /dev/zero >&9
	start_coordinator --valid "$DIR/valid" --eval-tokens 2048 --workers 1 --rounds 4 --inner-steps 2
	start_worker a
	second_is_there() { curl -sf -o second "$url/v1/round/2"; }
	wait_until 'the second record' second_is_there
	kill -TERM "$coordinator"
	wait_until 'the coordinator to end' process_is_gone "$coordinator"
	code=0
	wait "$coordinator" || code=$?
	((code == 74)) || fail "ended with $code"
	forget "$coordinator"
	grep -q 'nobody reads standard output' c.err
	exec 9>&-
	rm c.out
	# what that end left, and a kill
	mkfifo c.out
	exec 9<>c.out
	head -c 65536 /dev/zero >&9
	start_coordinator --valid "$DIR/valid" --eval-tokens 2048
	third_is_there() { curl -sf -o third "$url/v1/round/3"; }
	wait_until 'the third record' third_is_there
	kill_hard "$coordinator"
	exec 9>&-
	rm c.out
	start_coordinator --valid "$DIR/valid" --eval-tokens 2048
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	jq -se 'map(.round) == [1, 2, 3, 4] and all(.validation_loss_micronats > 0)' <(rounds)
	rounds | sed -n 2p | diff <(jq -S . second) <(jq -S .)
	jq -se 'map(select(.kind == "rnp.receipt").tokens) | add == 4 * 2 * 4 * 32' c.out
}

@test "join: who does not read its records keeps no worker from ending, and loses no turn" {
	cd "$BATS_TEST_TMPDIR"
	mkfifo a.out
	exec 9<>a.out
	head -c 65536 /dev/zero >&9
	start_coordinator --workers 1 --rounds 2 --inner-steps 2
	start_worker a --every 3
	# its third step is not written
	wait_until 'a round' rounds_are 1
	worked() { cut -d' ' -f14,15 "/proc/${worker[a]}/stat"; }
	# a busy machine lets it stand still, too, but then it is ready to run
	waits_for_a_reader() {
		local was && was=$(worked) && sleep 1 && [[ $(worked) == "$was" ]] &&
			! grep -q '^State:.R' /proc/"${worker[a]}"/task/*/status
	}
	wait_until 'the worker to wait for a reader' waits_for_a_reader
	kill -TERM "${worker[a]}"
	wait_until 'the worker to end' process_is_gone "${worker[a]}"
	code=0
	wait "${worker[a]}" || code=$?
	((code == 74)) || fail "ended with $code"
	forget "${worker[a]}"
	exec 9>&-
	rm a.out
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	rounds | jq -se 'map(.round) == [1, 2] and all(.workers == 1) and .[1].members[-1].state == "counted"'
}

@test "join: a coordinator that no longer answers does not keep a worker that is stopped, nor does it lose the turn" {
	cd "$BATS_TEST_TMPDIR"
	start_coordinator --workers 1 --rounds 1 --inner-steps 60
	start_worker a --every 1
	wait_until 'some steps' grep -q '"step":10,' a.out
	kill -STOP "$coordinator"
	is_kept() { jq -e .delta state-a/*/state.json; }
	wait_until 'the turn to be kept' is_kept
	kill -TERM "${worker[a]}"
	end_of a "${worker[a]}"
	grep -q 'the delta is kept, and not delivered: ' a.err
	kill -CONT "$coordinator"
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	rounds | jq -e '.workers == 1 and .dropped == 0'
	jq -se 'map(select(.kind == "rnp.step").step) == [range(1; 61)]' a.out
}

@test "coordinate: delayed Nesterov waits for nobody" {
	start_coordinator --workers 2 --rounds 5 --inner-steps 8 --outer dn --outer-rate 0.7 --grace 100ms --valid "$DIR/valid" --eval-tokens 1024
	start_worker a
	start_worker b --micro-batch 1
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinate "$coordinator"
	chain_is_whole 5
	rounds | jq -se '(map(.workers) | add) >= 5 and .[4].validation_loss_micronats < .[0].validation_loss_micronats'
	# no sequence is counted twice
	rounds | jq -se '[.[].members[] | select(.state == "counted") | range(.first; .first + .steps * 4)] | length == (unique | length)'
}

@test "coordinate: a worker that stalls holds nobody up, and another takes its place" {
	start_coordinator --workers 3 --rounds 3 --inner-steps 5 --aggregate trimmed:0.34 --late count
	start_worker a
	start_worker b
	start_worker c
	# late by seconds, whatever the machine
	wait_until 'a round' rounds_are 1
	kill -STOP "${worker[c]}"
	start_worker d
	wait_until 'three rounds' rounds_are 3
	kill -CONT "${worker[c]}"
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of d "${worker[d]}"
	end_of c "${worker[c]}"
	end_of coordinate "$coordinator"
	chain_is_whole 3
	rounds | jq -se 'all(.workers >= 3)'
}

@test "join: parameters come over several connections, a kill in the middle loses nothing, and limits hold both ways" {
	start_coordinator --workers 1 --rounds 1 --inner-steps 2 --method q8
	start_worker a --limit-down 300000
	notes_are() { (($(cat state-a/*/params-*.part.etag 2>/dev/null | wc -l) > 4)); }
	wait_until 'a part of the parameters' notes_are
	# one of them is the one that asks
	(($(connections) >= 5))
	kill_hard "${worker[a]}"
	there=$(awk 'NR > 2 { n += $2 } END { print n }' state-a/*/params-*.part.etag)
	total=$(sed -n 2p state-a/*/params-*.part.etag)
	((there > 0 && there < total))
	is_alone() { (($(connections) == 1)); }
	wait_until 'the connections to be closed' is_alone
	# lines are written in the order of their answers
	curl -s -o /dev/null "$url/no-such-page"
	wait_until 'their lines in the log' grep -q no-such-page requests.log
	lines=$(wc -l <requests.log)
	start_worker a --limit-up 400000
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	[[ -z $(find state-a -name "params-*") ]]
	# what was there is not fetched again: each answer has its headers, too
	tail -n "+$((lines + 1))" requests.log | jq -se --argjson rest $((total - there)) '
		map(select(.path | startswith("/v1/params/"))) | all(.status == 206)
		and (map(.bytes) | add) >= $rest and (map(.bytes) | add) < $rest + 600 * length'
	rounds | jq -e '.workers == 1'
	# the delta took what it takes at that rate, but for what each connection may send at once
	rounds | jq -e --slurpfile log requests.log '
		def at: .at | (.[0:19] + "Z" | fromdate) + (.[19:-1] | tonumber? // 0);
		.bytes_received as $bytes | $log | map(select(.method == "PUT"))
		| ((map(at) | max) - (map(at - .us / 1e6) | min)) * 400000 > $bytes - 65536 * (length + 1)'
}
connections() { curl -s "$url/metrics" | sed -n 's/^rnp_http_connections //p'; }

# text_worker NAME [OPTION...]: one without --data
text_worker() {
	rnp-train join "$url" --state "$BATS_TEST_TMPDIR/state-$1" --device cpu "${@:2}" \
		>>"$BATS_TEST_TMPDIR/$1.out" 2>>"$BATS_TEST_TMPDIR/$1.err" 3>&- &
	worker[$1]=$!
}

@test "join: text comes from the coordinator, whole or turn by turn, and disk and quota hold" {
	start_coordinator --workers 2 --rounds 2 --inner-steps 5
	rnp-train join "$url" --state p --plan >plan
	jq -e '.fits and .disk_bytes > 9 * .parameters * 4' plan
	refused 65 'bytes of disk, more than --disk' rnp-train join -q "$url" --state x --disk 1MB
	refused 75 'quota is used up' rnp-train join -q "$url" --state y --quota 1000
	# less than the parameters take is not begun with: next to nothing is carried
	refused 75 'no room for a turn' rnp-train join -q "$url" --state z --quota 3MB
	jq -e '.bytes < 200000' z/quota.json
	text_worker a
	# room for the state, and not for the text
	text_worker b --disk $(($(jq .disk_bytes plan) - 100)) --quota 1GB
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinate "$coordinator"
	grep -q "each turn's is fetched" b.err
	run ! ls state-b/*/data 2>/dev/null
	# what the last turn carried is counted, too: no less than parameters, two deltas and an update
	jq -e '.bytes > 4500000 and .bytes < 8000000' state-b/quota.json
	cmp state-a/*/data/00000.tokens "$DIR/tok/00000.tokens"
	chain_is_whole 2
	rounds | jq -se 'all(.workers == 2 and .bytes_received > 10000 and .bytes_sent > 10000)
		and .[0].data_bytes > 5 * 4 * 33 * 2'
	# both learn from the same text: losses are alike
	jq -se 'map(select(.kind == "rnp.step").loss) | length == 2 and (.[0] - .[1] | fabs) < 0.5' a.out b.out
}

# Over a way that is slower than the disk: when a round is committed most of its update waits in the coordinator's kernel or was
# not given to it yet; behind the last record next to nothing is sent
@test "coordinate: records of rounds count each byte of the sockets once, those of an update with the round behind it" {
	start_coordinator --workers 1 --rounds 4 --inner-steps 2
	start_relay --slow carried "$(cat port)"
	url=http://127.0.0.1:$(cat relay.port)
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	chain_is_whole 4
	# all was read to its end; what the kernel sent twice counts twice (up to 290,000 bytes were seen), and an update has 459,980
	read -r there back <carried
	echo "there $there back $back"
	rounds | jq -c '[.bytes_received, .bytes_sent]'
	rounds | jq -se --argjson there "$there" --argjson back "$back" '
		(map(.bytes_received) | add) as $r | (map(.bytes_sent) | add) as $s
		| $r <= $there and $r > $there - 20000 and $s < $back + 440000 and $s > $back - 20000'
	rounds | jq -se '.[1:] | map(.bytes_sent) | min > 400000 and max < 1.6 * min'
}

@test "join: workers of one home count their bytes for the quota one after the other" {
	start_coordinator --workers 1 --inner-steps 5
	mkdir state-a
	# ends by itself if this test fails
	flock state-a bash -c 'touch held; for _ in {1..3000}; do [[ ! -e go && -e held ]] || break; sleep 0.1; done' 3>&- &
	wait_until 'the lock' test -e held
	start_worker a --once --quota 100MB
	wait_until 'the worker to wait for the count' grep -Eq -- "-> FLOCK .*:$(stat -c %i state-a) " /proc/locks
	[ ! -e state-a/quota.json ]
	touch go
	end_of a "${worker[a]}"
	jq -e '.bytes > 100000' state-a/quota.json
}

@test "coordinate: the page says what the records say, loads nothing, and the API describes itself" {
	local r path
	start_coordinator --workers 1 --inner-steps 5 --valid "$DIR/valid" --eval-tokens 1024
	start_worker a
	wait_until 'two rounds' rounds_are 2
	kill -TERM "${worker[a]}"
	end_of a "${worker[a]}"
	r=$(curl -s "$url/v1/round/2") || { cat c.err a.err >&2; tail -n 3 requests.log >&2; wait "$coordinator"; fail "the coordinator ended with $?"; }
	curl -s "$url/" >page
	run ! grep -qiE '<script|src=|@import|javascript:| on[a-z]+=' page
	grep -q '<svg' page
	# the figures of round 2
	for f in "$(jq .tokens <<<"$r")" "$(jq .bytes_received <<<"$r")" "$(jq .bytes_sent <<<"$r")" "$(jq -r '.model[:8]' <<<"$r")" \
		"$(jq -r '.members[0].member[:8]' <<<"$r")" "$(jq -r '.validation_loss_micronats / 1e6 * 10000 | round / 10000' <<<"$r")"; do
		grep -qF -- "$f" page || fail "the page lacks $f"
	done
	curl -s "$url/status" | jq -e '.round >= 3 and .tokens >= 2 * 5 * 4 * 32'
	curl -s "$url/metrics" >metrics
	# the panel asks for nothing that is not there
	for metric in $(jq -r '.panels[].targets[].expr' "$ROOT/scripts/grafana-train.json" | grep -o 'rnp_[a-z_]*' | sort -u); do
		grep -q "^$metric " metrics || fail "$metric is not there"
	done
	# and leaves out nothing that waits
	for metric in $(grep -o '^rnp_train_[a-z_]*waiting' metrics); do
		grep -q "$metric{" "$ROOT/scripts/grafana-train.json" || fail "the panel lacks $metric"
	done
	[ "$(sed -n 's/^rnp_train_tokens_total //p' metrics)" -ge 1280 ]
	curl -s "$url/v1/rounds" | rnp-register verify >/dev/null
	[ "$(curl -s "$url/v1/rounds?from=2" | head -n 1 | jq .round)" = 2 ]
	curl -s "$url/openapi.json" >api
	for path in /v1/run /v1/join /v1/work '/v1/params/{hash}' '/v1/update/{hash}' '/v1/delta/{member}/{turn}/{piece}' /v1/leave /metrics; do
		jq -e --arg p "$path" '.paths | has($p)' api >/dev/null || fail "the API lacks $path"
	done
}

@test "coordinate: in a browser, on a phone too, the page has the figures of the records" {
	local browser figure
	browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "no Chromium: apt-get install chromium"
	[[ -e $ROOT/build/node/node_modules/puppeteer-core ]] || skip "no puppeteer-core: scripts/bootstrap"
	start_coordinator --workers 1 --inner-steps 5 --valid "$DIR/valid" --eval-tokens 1024 --uusd-per-million-tokens 5000000
	start_worker a
	wait_until 'three rounds' rounds_are 3
	kill -TERM "${worker[a]}"
	end_of a "${worker[a]}"
	node "$ROOT/tests/tools/browser.mjs" "$browser" . 360,1280 "$url/" >seen.jsonl
	# no sideways scrolling, nothing cut off, no dialog, nothing loaded but the page
	jq -se 'length == 2 and all(.[]; .width <= (.at | tonumber) and .dialogs == [] and .hidden == 0 and .overlaps == [] and
		.cut == [] and .smallest > 9 and .smallest < 100)' seen.jsonl >fits ||
		fail "$(jq -c '[.url, .at, .width, .dialogs, .hidden, .overlaps, .cut, .smallest]' seen.jsonl)"
	jq -se 'all(.[]; [.loaded[] | select(endswith("/favicon.ico") | not)] == [.url])' seen.jsonl >fits || fail "$(jq -c .loaded seen.jsonl)"
	curl -s "$url/v1/rounds" >records
	curl -s "$url/v1/receipts/$(head -n 1 records | jq -r ".members[0].member")" >receipts
	[ -s receipts ]
	for at in 360 1280; do
		jq -r --arg at "$at" 'select(.at == $at).text' seen.jsonl >text
		# each figure of a round and of a receipt, a word of its own
		{
			jq -r '.round, .tokens, .workers' records
			jq -r '.bytes_received, .bytes_sent' records | LC_ALL=C awk '{ v = $1 / 1024; if (v >= 1024) v /= 1024
				printf "%.*f\n", v < 10 ? 2 : v < 100 ? 1 : 0, v }'
			jq -r '.loss_micronats, .validation_loss_micronats | . / 1e6' records | LC_ALL=C awk '{ printf "%.4f\n", $1 }'
			jq -r '.tokens, .gpu_seconds' receipts
			jq -r '.earned_uusd / 1e6' receipts | LC_ALL=C awk '{ printf "%.6f\n", $1 }'
		} >figures
		(($(wc -l <figures) >= 24)) # three rounds of 7, a receipt of 3
		while read -r figure; do
			tr -s '[:space:]' '\n' <text | grep -qxF -- "$figure" || fail "at $at the page lacks $figure: $(cat text)"
		done <figures
	done
}

@test "coordinate: a registry says who may take part, and gets the receipts" {
	local registry
	cd "$BATS_TEST_TMPDIR"
	make_key op
	make_key home
	# a login page's "yes" admits nobody
	start_fake 'says:200 OK:{}'
	start_coordinator --key op.json --registry "$url"
	refused 75 'the registry cannot be asked at present' rnp-train join -q "$url" --data "$DIR/tok" --state x --key home.json --give-up 1s
	kill "$coordinator"
	end_of coordinate "$coordinator"
	[ "$(grep -c "nobody can join: '.*' did not say what it has of the node" c.err)" = 1 ]
	stop_fake
	rm -rf m port x
	start_registry --trust "$op"
	registry=$url
	rm port
	start_coordinator --key op.json --registry "$registry" --workers 1 --rounds 1 --inner-steps 5 --credits-per-million-tokens 1000000
	refused 77 'is not registered' rnp-train join -q "$url" --data "$DIR/tok" --state x --key home.json
	node_record home | rnp-register submit --registry "$registry" >/dev/null
	start_worker a --key home.json
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	curl -s "$registry/v1/records?kind=rnp.receipt" >got
	jq -e --arg home "$home" '[.. | objects | select(.kind? == "rnp.receipt")] | length == 1 and .[0].node == $home
		and .[0].tokens == 640 and .[0].credits == 640' got
}

@test "coordinate: with a policy, only nodes that meet it at the registry take part" {
	local registry
	cd "$BATS_TEST_TMPDIR"
	make_key op
	make_key home
	jq '.requires = [{name: "threads", field: "cpu_threads", more_than: 7, unit: "threads", unknown: "fail", remedy: "another processor"},
		{name: "gpus", field: "gpu_count", more_than: 0, unit: "", unknown: "fail", remedy: "a GPU"}]' \
		"$ROOT/cmd/rnp-reward/policies/testnet.json" >p.json
	misused "--policy goes with --registry" rnp-train coordinate --model "$DIR/model" --data "$DIR/tok" --listen 127.0.0.1:0 --policy p.json
	start_registry --trust "$op"
	registry=$url
	rm port
	start_coordinator --key op.json --registry "$registry" --policy p.json --workers 1 --rounds 1 --inner-steps 2
	join_refused() { refused 77 "$1" rnp-train join -q "$url" --data "$DIR/tok" --state x --key home.json; }
	join_refused 'is not registered'
	node_record home | rnp-register submit --registry "$registry" >/dev/null
	join_refused 'does not qualify under testnet: threads: not known'
	node_record home '{cpu: {threads: 4}, at: (now + 1 | todate)}' | rnp-register submit --registry "$registry" >/dev/null
	join_refused 'does not qualify under testnet: threads: 4 threads is not more than 7 threads'
	# what is never challenged is no more taken here than by rnp-register check
	node_record home '{cpu: {threads: 8}, gpus: [{uuid: "GPU-1", model: "H200", mig: true}], at: (now + 2 | todate)}' |
		rnp-register submit --registry "$registry" >/dev/null
	join_refused 'does not qualify under testnet: gpus: a GPU in slices (mig) cannot be challenged, and is not paid'
	node_record home '{cpu: {threads: 8}, gpus: [{uuid: "GPU-1", model: "H200", mig: true}, {uuid: "GPU-2", model: "T4"}], at: (now + 3 | todate)}' |
		rnp-register submit --registry "$registry" >/dev/null
	start_worker a --key home.json
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
}

# A registry that knows everybody, and answers no receipt for as long as anybody waits
silent_registry=$(cat <<'END'
import http.server, threading
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"record":{"node":"%s"}}' % self.path.split("/")[-1].encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_POST(self): threading.Event().wait(60)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
print(s.server_port, flush=True)
s.serve_forever()
END
)

# While the end waits for the registry nobody answers long polls any more: one that begins then must not keep the coordinator for ever
@test "coordinate: ends although a worker asks for work again meanwhile" {
	cd "$BATS_TEST_TMPDIR"
	python3 -c "$silent_registry" >registry.port 2>registry.err 3>&- &
	worker[registry]=$!
	wait_until 'the registry' test -s registry.port
	start_coordinator --registry "http://127.0.0.1:$(cat registry.port)" --workers 2 --inner-steps 2 --credits-per-million-tokens 1000000
	start_worker a
	start_worker b
	wait_until 'a round' rounds_are 1
	kill -TERM "${worker[a]}"
	end_of a "${worker[a]}"
	# it is paid for what judging speaks for: whole blocks, up to one of its turns
	jq -se --arg a "$(rnp-register address --key state-a/*/key.json)" --slurpfile out a.out '
		[.[].members[] | select(.member == $a and .state == "counted").tokens] as $counted
		| ([$out[] | select(.kind == "rnp.receipt").tokens] | add // 0) as $paid
		| any(range(($counted | length) + 1); $counted[:.] | (add // 0) == $paid)' <(rounds)
	waits() { curl -s "$url/metrics" | grep -qx 'rnp_train_waiting 1'; }
	wait_until 'the other to wait for work' waits
	kill -TERM "$coordinator"
	end_of coordinate "$coordinator"
}

@test "coordinate: goes on where a run on one machine ended, with its AdamW" {
	cd "$BATS_TEST_TMPDIR"
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --out m --batch 4 --length 32 --lr 3e-3 --lr-min 1 --warmup 5 --steps 30 --seed 5 >alone
	start_coordinator --workers 1 --rounds 2 --inner-steps 10 --lr-min 1 --warmup 5 --outer mean --method none
	curl -s "$url/v1/run" | jq -e '.first_step == 30 and .first_sequence == 120 and .seed == 5 and .adam_steps == 30 and (.state | length) == 64'
	start_worker a --every 1
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	# the schedule goes on, and the loss does not jump
	jq -se 'map(select(.kind == "rnp.step")) | .[0].step == 31 and .[-1].step == 50' a.out
	jq -se --slurpfile alone <(jq -c 'select(.kind == "rnp.step")' alone) '[.[] | select(.kind == "rnp.step").loss] as $on
		| ($on[0:5] | add / 5) < ([$alone[25:30][].loss] | add / 5) * 1.1' a.out
	# with one worker, no compression and the mean it is the run on one machine, but for AdamW in bf16
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --out whole --batch 4 --length 32 --lr 3e-3 --lr-min 1 --warmup 5 --steps 50 --seed 5 >whole.log
	jq -se --slurpfile on <(jq -c 'select(.kind == "rnp.step")' a.out) '[.[] | select(.kind == "rnp.step")] as $w
		| all(range(0; 20); ($w[. + 30].loss - $on[.].loss | fabs) < 0.15)' whole.log
}

@test "coordinate: the first steps come in shorter rounds" {
	start_coordinator --workers 1 --rounds 4 --inner-steps 20 --warm 8
	start_worker a --every 1
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	chain_is_whole 4
	rounds | jq -se '[.[].members[0].steps] == [2, 4, 16, 20] and map(.tokens) == [256, 512, 2048, 2560]'
	# the schedule counts the steps that were made, and its cosine ends with the last of them
	jq -se 'map(select(.kind == "rnp.step")) | map(.step) == [range(1; 43)] and (.[-1].learning_rate / 3e-4 - 1 | fabs) < 0.02' a.out
	refused 64 'another --warm' rnp-train coordinate -q --model m --data "$DIR/tok" --listen 127.0.0.1:0 --warm 9
}

# through_a_proxy URL [OPTION...]: a name that nobody knows is found by the proxy alone
through_a_proxy() {
	start_relay --proxy "$(cat port)"
	url=$1
	refused 69 'cannot reach' rnp-train join -q "$url" --data "$DIR/tok" --state x --give-up 1s "${@:2}"
	start_worker a --once --proxy "http://127.0.0.1:$(cat relay.port)" "${@:2}"
	end_of a "${worker[a]}"
	kill_hard "${worker[relay]}"
	wait_until 'a round' rounds_are 1
}

@test "join: --proxy carries a run, and tunnels TLS" {
	start_coordinator --workers 1 --inner-steps 3
	through_a_proxy http://nowhere.invalid
	kill_hard "$coordinator"
	rm -rf m port c.out state-a
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k.pem -out c.pem -days 1 \
		-subj /CN=nowhere.invalid -addext subjectAltName=DNS:nowhere.invalid 2>/dev/null
	start_coordinator --workers 1 --inner-steps 3 --cert c.pem --cert-key k.pem
	through_a_proxy https://nowhere.invalid --ca c.pem
}

# All requests go to the coordinator; the second one for work is answered here, as by one whose clock was set back a day
clock_set_back='
import email.utils, http.client, http.server, sys, time
asked = 0
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def pass_on(self):
        global asked
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked += self.path.startswith("/v1/work")
        if self.path.startswith("/v1/work") and asked == 2:
            status, headers, answer = 401, {"Date": email.utils.formatdate(time.time() - 86400, usegmt=True)}, b"{}"
        else:
            c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
            c.request(self.command, self.path, body, dict(self.headers))
            r = c.getresponse()
            status, headers, answer = r.status, dict(r.getheaders()), r.read()
            headers.pop("Content-Length", None), headers.pop("Connection", None)
        self.send_response_only(status)
        for name, value in headers.items(): self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    do_GET = do_PUT = do_POST = do_HEAD = pass_on
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
print(s.server_port, flush=True)
s.serve_forever()'

@test "join: a clock that is set, here or there, while it works is learnt again" {
	cd "$BATS_TEST_TMPDIR"
	start_coordinator --workers 1 --rounds 3 --inner-steps 2
	python3 -c "$clock_set_back" "$(cat port)" >clock.port 2>clock.err 3>&- &
	worker[clock]=$!
	wait_until 'the relay' test -s clock.port
	url=http://127.0.0.1:$(cat clock.port)
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	# a day back, and where it was
	[ "$(grep -c "this machine's clock is" a.err)" = 2 ]
	rounds | jq -se 'length == 3 and all(.workers == 1)'
}

@test "join: over TLS with a certificate of its own, and with a clock that is a day wrong" {
	cd "$BATS_TEST_TMPDIR"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k.pem -out c.pem -days 1 \
		-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
	start_coordinator --workers 1 --inner-steps 3 --cert c.pem --cert-key k.pem
	url=${url/http:/https:}
	# at once, not after ten minutes: waiting mends none of these
	refused 69 'certificate' timeout 60 rnp-train join -q "$url" --data "$DIR/tok" --state x
	refused 66 "cannot read certificates 'nowhere.pem': No such" timeout 60 rnp-train join -q "$url" --ca nowhere.pem --state x
	refused 65 "'port' holds no certificates" timeout 60 rnp-train join -q "$url" --ca port --state x
	start_worker a --ca c.pem --once
	end_of a "${worker[a]}"
	RNP_NOW=$(date -u -d '1 day ago' +%FT%TZ) start_worker b --ca c.pem --once
	end_of b "${worker[b]}"
	grep -q "this machine's clock is -86" b.err
	wait_until 'two rounds' rounds_are 2
	rounds | head -n 2 | jq -se 'all(.workers == 1)'
}
