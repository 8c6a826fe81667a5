#!/usr/bin/env bats
# rnp-train coordinate --fragments --overlap: workers that train on while deltas and updates are under way.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_training
}

setup() { coordinator='' worker=(); }
teardown() { stop_training; }

# streamed N: N rounds without gap, each of one fragment, no sequence twice
streamed() {
	rounds | rnp-register verify >/dev/null
	rounds | jq -s -c 'unique_by(.round)[]' >once
	jq -se --argjson n "$1" 'map(.round) == [range(1; $n + 1)] and . as $all | all(range(1; length); $all[.].base == $all[. - 1].model)' once
	jq -se '[.[].members[] | select(.state == "counted") | range(.first; .first + .steps * 4)] | length == (unique | length)' once
}

@test "stream: two workers exchange fragments one after the other, and the model learns" {
	start_coordinator --workers 2 --rounds 3 --inner-steps 12 --fragments 2 --overlap 3 --valid "$DIR/valid" --eval-tokens 2048
	curl -s "$url/v1/run" | jq -e '.fragments == 2 and .overlap == 3 and .outer_rate_ppm == 400000'
	# what deltas are measured from, copies of parameters, m and v, a residual
	rnp-train join "$url" --state p --device cpu --plan |
		jq -e '.stream_bytes == 5 * 4 * .parameters and .total_bytes == .stream_bytes + .parameters_bytes + .copies_bytes + .gradients_bytes + .optimiser_bytes + .activations_bytes + .work_bytes'
	start_worker a --every 1
	start_worker b --every 1
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinate "$coordinator"
	streamed 6
	rounds | jq -se 'map(.fragment) == [1, 0, 1, 0, 1, 0] and all(.workers == 2 and .tokens == 2 * 6 * 4 * 32)'
	rounds | jq -se '.[5].validation_loss_micronats < .[0].validation_loss_micronats * 0.85'
	# nobody makes a step twice or leaves one out
	for name in a b; do jq -se 'map(select(.kind == "rnp.step").step) == [range(1; 37)]' "$name.out"; done
	jq -se 'map(select(.kind == "rnp.receipt")) | length == 2 and all(.tokens == 36 * 4 * 32)' c.out
	# bytes of a round are those of its fragment: less than what all parameters take in q4
	rounds | jq -se --argjson all "$(stat -c %s m/coordinate/pub-6.f32)" '.[3].bytes_received - .[3].data_bytes < $all'
}

@test "stream: one fragment with an overlap, and what is refused" {
	start_coordinator --workers 1 --rounds 3 --inner-steps 8 --overlap 4 --method ecq:0.3
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	streamed 3
	rounds | jq -se 'all(has("fragment") | not)'
	cp -r "$DIR/model" other
	refused 64 'at most 5 layers' rnp-train coordinate -q --model other --data "$DIR/tok" --listen 127.0.0.1:0 --fragments 6
	refused 64 'at most 5 layers' rnp-train coordinate -q --model other --data "$DIR/tok" --listen 127.0.0.1:0 --fragments 2 --inner-steps 8 --overlap 4
	refused 64 'no --warm' rnp-train coordinate -q --model other --data "$DIR/tok" --listen 127.0.0.1:0 --fragments 2 --warm 10
}

@test "stream: workers and coordinator that are killed go on, and who comes late takes part" {
	start_coordinator --workers 2 --rounds 6 --inner-steps 12 --fragments 2 --overlap 2
	start_worker a
	start_worker b
	wait_until 'a round' rounds_are 1
	kill_hard "${worker[a]}"
	start_worker a
	wait_until 'three rounds' rounds_are 3
	kill_hard "$coordinator"
	start_coordinator
	wait_until 'five rounds' rounds_are 5
	start_worker c
	kill_hard "$coordinator" "${worker[b]}"
	start_coordinator
	start_worker b
	for name in a b c; do end_of "$name" "${worker[$name]}"; done
	end_of coordinate "$coordinator"
	streamed 12
	jq -se 'all(.workers >= 2)' once
}
