#!/usr/bin/env bats
# A worker's state that the version before kept (commit 177fd17e): tests/data/before/worker/state is of a worker that was killed in
# its second turn, with a delta that had not left (topk, so with a residual) and a part of an update that it had asked for ahead.
# Beside it is its coordinator's directory, which was killed then, too: of the model and text in tests/data/before/coordinator.
load ../helper
load train_net

setup() {
	coordinator='' worker=()
	cd "$BATS_TEST_TMPDIR"
	mkdir m
	cp "$ROOT"/tests/data/before/coordinator/m/{*.json,model.safetensors} m
	cp -r "$ROOT/tests/data/before/coordinator/tok" "$ROOT/tests/data/before/worker/." .
	chmod 600 m/coordinate/key.json state/*/key.json
	mv state state-a
	DIR=$PWD
}
teardown() { stop_training; }

@test "before: a worker of the version before delivers the delta that it had, and goes on from its state" {
	local sum
	sum=$(sha256sum state-a/*/delta-2.rnpg | cut -d' ' -f1)
	rnp-train coordinate --model m --data tok --listen 127.0.0.1:0 --port-file started --workers 1 --rounds 3 --batch 2 --length 16 \
		--inner-steps 100 --lr 3e-3 --method topk --device cpu --log-file log >c.out 2>c.err 3>&- &
	coordinator=$!
	wait_until 'the coordinator to start' test -s started
	url=http://127.0.0.1:$(cat started)
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	jq -c 'select(.kind == "rnp.round")' c.out | jq -sc 'unique_by(.round)[]' >rounds
	# the delta of turn 2 is the one that was kept, and no text counts twice
	jq -se 'map(.round) == [1, 2, 3] and .[1].base == .[0].model and .[2].base == .[1].model and all(.workers == 1)' rounds
	jq -se --arg sum "$sum" '.[1].members[0] | .turn == 2 and .state == "counted" and .sha256 == $sum' rounds
	jq -se '[.[].members[].first] | length == (unique | length)' rounds
	# AdamW and the parameters are those of the state: nothing is fetched whole, and steps go on behind the 200
	jq -se 'all(.path | startswith("/v1/params/") | not)' log
	jq -e '.adam_steps == 300 and .turns == 3 and .delta == null' state-a/*/state.json
	jq -e --arg base "$(jq -r 'select(.round == 3).base' rounds)" '.base == $base' state-a/*/state.json
}
