#!/usr/bin/env bats
# A coordinator's directory that the version before kept (commit 177fd17e): tests/data/before/coordinator was killed in the middle of
# a run of three rounds for two workers. Round 1 is closed; in round 2 one member has delivered its delta (turn 3), another has work
# (turn 4), and a third has only joined.
load ../helper
load train_net

setup() {
	coordinator='' worker=()
	cd "$BATS_TEST_TMPDIR"
	cp -r "$ROOT/tests/data/before/coordinator/." .
	chmod 600 m/coordinate/key.json
	DIR=$PWD
}
teardown() { stop_training; }

# go_on [NAME=VALUE...]: the coordinator of ./m, with the options that its run began with
go_on() {
	rm -f started
	env "$@" rnp-train coordinate --model m --data tok --listen 127.0.0.1:0 --port-file started --workers 2 --rounds 3 --batch 2 \
		--length 16 --inner-steps 100 --lr 3e-3 --device cpu >>c.out 2>>c.err 3>&- &
	coordinator=$!
}

start_workers() {
	wait_until 'the coordinator to start' test -s started
	url=http://127.0.0.1:$(cat started)
	start_worker a
	start_worker b
}

# The run's end: the delta that was there counts as it was sent, no sequence counts twice, and no round is missing
check_end() {
	end_of coordinate "$coordinator"
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	jq -c 'select(.kind == "rnp.round")' c.out | jq -sc 'unique_by(.round)[]' >rounds
	jq -se 'map(.round) == [2, 3] and .[1].base == .[0].model' rounds
	jq -se '.[0].members[] | select(.turn == 3) | .state == "counted" and .first == 400 and .tokens == 3200 and
		.sha256 == $sum' --arg sum "$(sha256sum "$ROOT/tests/data/before/coordinator/m/coordinate/delta-3.rnpg" | cut -d' ' -f1)" rounds
	jq -se '.[0].members[] | select(.turn == 4).state == "absent"' rounds
	jq -se '[.[].members[] | select(.state == "counted").first] + [0, 200] | length == (unique | length)' rounds
}

@test "before: a run of the version before goes on with what it had" {
	go_on
	start_workers
	check_end
}
