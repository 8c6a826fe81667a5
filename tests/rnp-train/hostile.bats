#!/usr/bin/env bats
# rnp-train coordinate with workers that send what they should not, signed as it should be: the real join, whose deltas are
# spoiled (tests/net/evil.c). Longer, with every kind and rule: tests/soak/train-hostile.bats.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_training
}

setup() { coordinator='' worker=(); }
teardown() { stop_training; }

# start_evil NAME KIND
start_evil() {
	RNP_EVIL=$2 RNP_EVIL_FILE=$BATS_TEST_TMPDIR/shared "$RNP_BUILD/evil/rnp-train" join "$url" --data "$DIR/tok" --state "$BATS_TEST_TMPDIR/state-$1" --device cpu \
		>>"$BATS_TEST_TMPDIR/$1.out" 2>>"$BATS_TEST_TMPDIR/$1.err" 3>&- &
	worker[$1]=$!
}

# train_among RULE KIND...: three honest workers and one of each kind, three rounds, with options of a run in $streaming
train_among() {
	local rule=$1 i
	shift
	# shellcheck disable=SC2086 # several options
	start_coordinator --valid "$DIR/valid" --eval-tokens 1024 --workers $((3 + $#)) --rounds 3 --inner-steps 6 --aggregate "$rule" ${streaming-}
	for i in 1 2 3; do start_worker "honest$i"; done
	for i; do start_evil "evil-$i" "$i"; done
	end_of coordinate "$coordinator"
	for i in 1 2 3; do end_of "honest$i" "${worker[honest$i]}"; done
	rounds | jq -se --argjson n $((3 + $#)) --arg streaming "${streaming-}" 'length == (if $streaming == "" then 3 else 6 end) and all(.workers == $n)'
}

losses_fall() { rounds | jq -se 'map(.validation_loss_micronats) | last < 0.9 * .[0]'; }

@test "hostile: a worker that sends its delta times a hundred ends a run under the mean" {
	train_among mean scale
	# worse than a guess among all 300 tokens: ln 300 nats
	rounds | jq -se 'last.validation_loss_micronats > 5703783'
}

@test "hostile: under clip and trimmed it does no harm" {
	train_among clip scale
	losses_fall
}

@test "hostile: while it streams, a fragment times a hundred does no harm under clip" {
	local streaming='--fragments 2 --overlap 1'
	train_among clip scale
	losses_fall
	# each fragment was
	rounds | jq -se 'all([.members[].norm_ppm] | sort | .[3] > 20 * .[2])'
}

@test "hostile: a flipped and a random delta among five, under the trimmed mean" {
	train_among trimmed:0.4 flip random
	losses_fall
}

@test "hostile: a stale delta among four, under the trimmed mean" {
	train_among trimmed:0.25 stale
	losses_fall
}

@test "hostile: a delta larger than any steps can make is refused, recorded with the reason, and its worker ends" {
	# until it has ended: on a busy machine rounds close while it is still at work
	start_coordinator --valid "$DIR/valid" --eval-tokens 1024 --workers 2 --inner-steps 6
	start_evil huge huge
	waits() { curl -s "$url/metrics" | grep -qx 'rnp_train_waiting 1'; }
	wait_until 'it to wait for others' waits
	start_worker honest1
	start_worker honest2
	wait_until 'it to end' process_is_gone "${worker[huge]}"
	code=0
	wait "${worker[huge]}" || code=$?
	((code == 65)) || fail "ended with $code"
	forget "${worker[huge]}"
	grep -q 'the delta: the coordinator says 422: norm: .*, more than the .* that its steps can make' huge.err
	wait_until 'three rounds' rounds_are 3
	for i in 1 2; do
		kill -TERM "${worker[honest$i]}"
		end_of "honest$i" "${worker[honest$i]}"
	done
	kill -TERM "$coordinator"
	end_of coordinate "$coordinator"
	rounds | rnp-register verify >/dev/null
	huge=$(rnp-register address --key state-huge/*/key.json)
	rounds | jq -se --arg huge "$huge" 'all(.workers == 2) and (map(.members[] | select(.member == $huge)) | all(.state == "absent")
		and any((.reason // "" | startswith("norm: ")) and (has("norm_ppm") | not)))'
	losses_fall
}

# It alone is expected when the round opens, and is refused before the other joins
@test "hostile: who was refused is not waited for: the round closes with its last delta, and not at the deadline" {
	start_coordinator --workers 1 --rounds 1 --inner-steps 6
	start_evil huge huge
	refused() { grep -q '"status":422' requests.log; }
	wait_until 'a delta to be refused' refused
	start_worker honest
	end_of coordinate "$coordinator"
	end_of honest "${worker[honest]}"
	rounds | jq -se 'length == 1 and .[0].workers == 1 and (.[0].waited | has("deadline") | not)
		and ([.[0].members[].state] | sort == ["absent", "counted"])'
}

# Judging looks at one delta of two, so these have nothing to fear from it in most rounds
@test "hostile: a past delta that is sent again, or nothing at all, is refused, whatever it is multiplied by" {
	local it
	start_coordinator --workers 1 --inner-steps 6 --uusd-per-million-tokens 1000000
	start_evil again again
	start_evil zero zero
	for it in again zero; do
		wait_until "$it to end" process_is_gone "${worker[$it]}"
		code=0
		wait "${worker[$it]}" || code=$?
		((code == 65)) || fail "$it ended with $code"
		forget "${worker[$it]}"
	done
	grep -q 'the delta: the coordinator says 422: delta: is nearly a multiple of an earlier one' again.err
	grep -q 'the delta: the coordinator says 422: norm: is 0, and steps change something' zero.err
}

@test "hostile: what one member says of its loss does not make the curve" {
	train_among trimmed:0.25 boast
	rounds | jq -se 'all(.loss_micronats < 6000000) and all(.[].members[]; .state == "counted")'
}

@test "hostile: two members with one delta are marked as copies, and neither is paid" {
	start_coordinator --workers 4 --rounds 3 --inner-steps 6 --uusd-per-million-tokens 1000000
	start_worker honest1
	start_worker honest2
	start_evil lead lead
	start_evil copy copy
	end_of coordinate "$coordinator"
	end_of honest1 "${worker[honest1]}"
	end_of honest2 "${worker[honest2]}"
	lead=$(rnp-register address --key state-lead/*/key.json)
	copy=$(rnp-register address --key state-copy/*/key.json)
	# judging may find that the copy was not trained on its own text; it is refused then, and the other is no copy
	jq -se --arg lead "$lead" --arg copy "$copy" 'map(select(.kind == "rnp.round").members) as $rounds
		| map(select(.kind == "rnp.receipt")) as $paid
		| "copy of another member'"'"'s delta" as $is | ($rounds | length == 3)
		and all($rounds[]; (map(select(.member == $copy))[0]) as $c | (map(select(.member == $lead))[0]) as $l
			| $c.reason != null and (($c.reason == $is) == ($l.reason == $is)))
		and ([$rounds[][] | select(.member == $lead and .reason == null).tokens] | add // 0)
			>= ([$paid[] | select(.node == $lead).tokens] | add // 0)
		and ($paid | map(.node) | length >= 2 and all(. != $copy))' c.out
}

@test "hostile: judging finds what does not help, and nothing is paid for it" {
	start_coordinator --valid "$DIR/valid" --eval-tokens 1024 --workers 4 --rounds 3 --inner-steps 8 --judge 4 --lr 1e-3 \
		--uusd-per-million-tokens 1000000
	start_worker honest1
	start_worker honest2
	start_evil evil-flip flip
	start_evil evil-idle idle
	end_of coordinate "$coordinator"
	end_of honest1 "${worker[honest1]}"
	end_of honest2 "${worker[honest2]}"
	flip=$(rnp-register address --key state-evil-flip/*/key.json)
	idle=$(rnp-register address --key state-evil-idle/*/key.json)
	rounds | jq -se --arg flip "$flip" 'all(.[].members[] | select(.member == $flip);
		.state == "refused" and (.reason | length) > 5 and .own_nanonats < 0)'
	rounds | jq -se --arg idle "$idle" '[.[].members[] | select(.member == $idle) | .state] | contains(["refused"])'
	rounds | jq -se --arg flip "$flip" --arg idle "$idle" 'all(.[].members[] | select(.member != $flip and .member != $idle);
		.state == "counted" and .own_nanonats > 0)'
	run ! jq -e --arg flip "$flip" 'select(.kind == "rnp.receipt" and .node == $flip)' c.out
	losses_fall
	# the text of what was refused in round 1 comes again
	rounds | jq -se '[.[0].members[] | select(.state == "refused").first] as $lost | [.[1].members[].first] as $again
		| $lost | all(. as $f | $again | index([$f]))'
}

# All are judged at first, one of two later
@test "hostile: who is paid is judged, and one bad delta takes the pay of the turns before it" {
	start_coordinator --workers 2 --rounds 6 --inner-steps 8 --lr 1e-3 --score-min -1 --uusd-per-million-tokens 1000000
	start_worker honest
	start_evil flip flip
	end_of coordinate "$coordinator"
	end_of honest "${worker[honest]}"
	flip=$(rnp-register address --key state-flip/*/key.json)
	rounds | jq -se 'all([.members[] | select(has("own_nanonats"))] | length >= 1) and any([.members[] | select(has("own_nanonats"))] | length == 1)'
	run ! jq -e --arg flip "$flip" 'select(.kind == "rnp.receipt" and .node == $flip)' c.out
	# blocks end with the run: nothing of the other's is unpaid
	jq -se --arg flip "$flip" '(map(select(.kind == "rnp.receipt").tokens) | add)
		== ([.[] | select(.kind == "rnp.round").members[] | select(.member != $flip and .state == "counted").tokens] | add)' c.out
}

# One of four would be drawn a round, and not both of the two: what is drawn in the last round must not have the first paid
@test "hostile: who works in the last round alone is not paid for the others" {
	start_coordinator --workers 4 --rounds 2 --inner-steps 8 --lr 1e-3 --uusd-per-million-tokens 1000000
	start_worker honest1
	start_worker honest2
	start_evil once1 once
	start_evil once2 once
	end_of coordinate "$coordinator"
	once=$(for i in 1 2; do rnp-register address --key state-once$i/*/key.json; done | jq -nR '[inputs]')
	jq -se --argjson once "$once" '(.[] | select(.kind == "rnp.round" and .round == 1).members | map(.tokens) | max) as $turn
		| map(select(.kind == "rnp.receipt")) | group_by(.node) | length >= 2
		and all(.[]; (map(.tokens) | add) <= if IN(.[0].node; $once[]) then 1 else 2 end * $turn)
		and any(.[]; (map(.tokens) | add) == 2 * $turn)' c.out
}

@test "judge: from outside, what does not help is found, and what does is good" {
	# more rounds than a judge on a busy machine can miss
	start_coordinator --workers 4 --rounds 100 --inner-steps 8 --lr 1e-3 --keep-deltas 100
	rnp-train judge "$url" --rounds 1 --data "$DIR/tok" --state j --device cpu >j.out 2>j.err 3>&- &
	worker[judge]=$!
	judge_is_ready() { compgen -G 'j/judge/*/pub-1.f32' >/dev/null; }
	wait_until 'the judge to have the parameters' judge_is_ready
	for i in 1 2 3; do start_worker "honest$i"; done
	start_evil flip flip
	# a delta of an open round is nobody's but its worker's
	[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/delta/$(printf '0%.0s' {1..64})")" = 404 ]
	[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/delta/none")" = 400 ]
	wait_until 'a round' rounds_are 1
	# one of a closed round is what its record names
	curl -s -o delta "$url/v1/delta/$(rounds | head -n 1 | jq -r '.members[0].sha256')"
	! [[ -s delta ]] || [ "$(sha256sum delta | cut -d' ' -f1)" = "$(rounds | head -n 1 | jq -r '.members[0].sha256')" ]
	end_of judge "${worker[judge]}"
	rnp-register verify j.out >/dev/null
	flip=$(rnp-register address --key state-flip/*/key.json)
	cat j.out
	jq -se --arg flip "$flip" 'length == 1 and all(.judged == 4 and .differ == 1 and (.members | length) == 4)
		and all(.[].members[]; .state == "counted" and if .member == $flip then .verdict == "useless" and .own_nanonats < 0
			else .verdict == "good" and .own_nanonats > 0 and .error_nanonats > 0 end)' j.out
	jq -se --slurpfile rounds <(rounds) 'map([.run, .round, .base]) - ($rounds | map([.run, .round, .base])) == []' j.out
}

@test "hostile: below --score-min there is no more work" {
	start_coordinator --workers 3 --rounds 4 --inner-steps 6 --judge 4 --score-min -0.05 --lr 1e-3
	for i in 1 2 3; do start_worker "honest$i"; done
	start_evil flip flip
	wait_until 'the hostile one to end' process_is_gone "${worker[flip]}"
	fails "${worker[flip]}"
	grep -q 'did not help' flip.err
	end_of coordinate "$coordinator"
	rounds | jq -se '[.[-1].members[] | select(.state == "counted")] | length == 3'
}
