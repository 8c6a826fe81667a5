#!/usr/bin/env bats
# rnp-train coordinate --parent: a coordinator whose group is one worker of the coordinator above.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR OMP_NUM_THREADS=1
	make_training
}

setup() {
	coordinator='' worker=()
	declare -gA group=()
}
teardown() {
	local pid
	for pid in "${group[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	stop_training
}

# start_group NAME [OPTION...]: a coordinator below $url, in ./NAME
start_group() {
	local listen=127.0.0.1:0
	cd "$BATS_TEST_TMPDIR"
	[[ -d $1 ]] || cp -r "$DIR/model" "$1"
	[[ ! -s $1.port ]] || listen=127.0.0.1:$(cat "$1.port")
	rm -f "$1.started"
	rnp-train coordinate --parent "$url" --model "$1" --data "$DIR/tok" --listen "$listen" --port-file "$1.started" \
		--batch 4 --lr 3e-3 --device cpu --log-file "$1.log" "${@:2}" >>"$1.rounds" 2>>"$1.err" 3>&- &
	group[$1]=$!
}

# start_below GROUP NAME [OPTION...]: a worker of a group, which listens when it has its first turn: when the root
# has its quorum
start_below() {
	wait_until "group $1 to start" test -s "$1.started"
	cp "$1.started" "$1.port"
	url=http://127.0.0.1:$(cat "$1.port") start_worker "${@:2}"
}

kill_group() {
	kill -9 "${group[$1]}"
	wait "${group[$1]}" || true
	unset "group[$1]"
}
end_of_group() {
	end_of "$1" "${group[$1]}"
	unset "group[$1]"
}
rounds_of() { jq -c 'select(.kind == "rnp.round")' "$1.rounds"; }

# What a group took from the root is what the root says that its round ended with, and what its workers have
# is what the group says
same_parameters() {
	local name
	for name in "${!groups[@]}"; do
		jq -se --arg group "$name" '(.[0] | map({key: (.round | tostring), value: .model}) | from_entries) as $of
			| .[1] | map(select(.parent)) | length > 0 and all(.parent.model == $of[.parent.round | tostring])' \
			<(rounds | jq -s 'unique_by(.round)') <(rounds_of "$name" | jq -s 'unique_by(.round)')
		rounds_of "$name" | jq -se 'unique_by(.round) | map(.round) == [range(1; length + 1)] and . as $all
			| all(range(1; length); $all[.].base == $all[. - 1].model)'
		for one in ${groups[$name]}; do
			[ "$(jq -r .base "state-$one"/*/state.json)" = "$(rounds_of "$name" | tail -n 1 | jq -r .base)" ]
		done
	done
}

@test "tree: a root, two groups of two workers; all have the same parameters, and the loss falls" {
	declare -A groups=([g]="a b" [h]="d e")
	start_coordinator --valid "$DIR/valid" --eval-tokens 2048 --workers 2 --rounds 4 --inner-steps 40 --method q8
	start_group g --workers 2 --inner-steps 10
	start_group h --workers 2 --inner-steps 10
	start_below g a
	start_below g b
	start_below h d
	start_below h e
	for one in a b d e; do end_of $one "${worker[$one]}"; done
	end_of_group g
	end_of_group h
	end_of coordinator "$coordinator"
	# a turn of 40 x 4 sequences is two rounds of 2 x 10 x 4
	rounds | jq -se 'length == 4 and all(.workers == 2 and .dropped == 0 and .tokens == 2 * 40 * 4 * 32)
		and .[3].loss_micronats < .[0].loss_micronats * 0.8 and .[3].validation_loss_micronats < 1500000'
	rounds_of g | jq -se 'length == 8 and map(.parent != null) == [false, true, false, true, false, true, false, true]
		and all(.parent == null or .parent.counted) and map(.waited.parent // 0 | select(. > 0)) != []'
	same_parameters
	# the groups' text is what the root gave them, each sequence once
	jq -se '[.[] | select(.kind == "rnp.round").members[].first] | sort == [range(0; 32) * 40]' g.rounds h.rounds
	# receipts at both levels: of the root for the groups, of each group for its workers
	jq -se 'map(select(.kind == "rnp.receipt") | .tokens) == [20480, 20480]' c.out
	jq -se 'map(select(.kind == "rnp.receipt") | .tokens) | add == 20480' g.rounds
	rounds_of g | rnp-register verify >/dev/null
	python3 -c 'import json, sys, jsonschema
v = jsonschema.Draft202012Validator(json.loads(sys.argv[1]))
for line in sys.stdin: v.validate(json.loads(line))' "$(rnp-train --schema rnp.round)" < <(rounds_of g)
}

@test "tree: kill -9 of a group's coordinator at every stage, of the root and of a worker: nothing is taken twice" {
	declare -A groups=([g]="a b" [h]="d e")
	start_coordinator --workers 2 --rounds 5 --inner-steps 40 --method ecq:0.3
	start_group g --workers 2 --inner-steps 10 --aggregate clip
	start_group h --workers 2 --inner-steps 10
	start_below g a
	start_below g b
	start_below h d
	start_below h e
	wait_until 'a round of the root' rounds_are 1
	kill_group g
	start_group g
	wait_until 'two rounds of the root' rounds_are 2
	# the root is away while a group has a delta for it
	kill_hard "$coordinator"
	kill_group g
	start_coordinator
	start_group g
	wait_until 'three rounds of the root' rounds_are 3
	kill_hard "${worker[a]}"
	kill_group g
	kill_group h
	start_group h
	start_group g
	start_below g a
	for one in a b d e; do end_of $one "${worker[$one]}"; done
	end_of_group g
	end_of_group h
	end_of coordinator "$coordinator"
	rounds | jq -s -c 'unique_by(.round)[]' >once
	jq -se 'map(.round) == [range(1; 6)] and all(.workers == 2 and .dropped == 0)' once
	jq -se '[.[].members[].sha256] | length == 10 and (unique | length) == 10' once
	mv once c.out
	same_parameters
}

@test "tree: a group trains on while its parent is away, and says so; what it owes survives a kill" {
	declare -A groups=([g]="a")
	start_coordinator --workers 1 --rounds 4 --inner-steps 20 --method q8
	start_group g --workers 1 --inner-steps 10
	start_below g a
	wait_until 'a round of the root' rounds_are 1
	local page away
	page=http://127.0.0.1:$(cat g.port)
	curl -s "$page/metrics" | grep -qx 'rnp_train_parent_away 0'
	curl -s "$page/" | grep -q "A group of <code>$url</code>: works on turn .* It answered .* went up and .* came down"
	kill_hard "$coordinator"
	parent_is_away() { curl -s "$page/metrics" | grep -qx 'rnp_train_parent_away 1'; }
	wait_until 'the group to notice' parent_is_away
	curl -s "$page/" | grep -q 'It has not answered for [1-9][0-9]* s</strong>, and the group trains on'
	away=$(rounds_of g | wc -l)
	more_rounds() { (($(rounds_of g | wc -l) >= away + 5)); }
	wait_until 'rounds without the parent' more_rounds
	# a group that is killed meanwhile has kept what it owes
	start_coordinator
	kill_group g
	start_group g
	end_of a "${worker[a]}"
	end_of_group g
	end_of coordinator "$coordinator"
	rounds | jq -se 'unique_by(.round) | length == 4 and all(.workers == 1 and .dropped == 0 and .tokens == 20 * 4 * 32)'
	rounds | jq -se '[unique_by(.round)[].members[].sha256] | length == 4 and (unique | length) == 4'
	# the text of a turn was read again, that of others was not
	rounds_of g | jq -se 'unique_by(.round) | [.[].members[].first] | (length > 12) and all(. < 4 * 80)'
	same_parameters
	grep -q 'the parent is away, the group trains on' g.err
}

@test "tree: the first steps come in shorter rounds, above and below" {
	declare -A groups=([g]="a")
	start_coordinator --workers 1 --rounds 5 --inner-steps 40 --warm 16 --method q8
	start_group g --workers 1 --inner-steps 10 --warm 12
	start_below g a
	end_of a "${worker[a]}"
	end_of_group g
	end_of coordinator "$coordinator"
	# each turn ends with a round of the group, which begins with one step
	rounds | jq -se 'map(.tokens / 128) == [4, 8, 32, 40, 40]'
	rounds_of g | jq -se 'map(.members[0].steps) == [1, 1, 1, 2, 2, 4, 8] + [range(12) | 10]'
	rounds_of g | jq -se '[.[].parent | select(.)] | length == 5 and all(.counted)'
	same_parameters
}

@test "tree: a group that loses its connection while it waits for a turn joins again, and gets it" {
	declare -A groups=([g]="a")
	local port
	start_coordinator --workers 2 --rounds 2 --inner-steps 10 --method q8
	start_relay "$(cat port)"
	port=$(cat relay.port)
	url=http://127.0.0.1:$port start_group g --workers 1 --inner-steps 5
	waits() { curl -s "$url/metrics" | grep -qx "rnp_train_waiting $1"; }
	wait_until 'the group to wait for another member' waits 1
	kill_hard "${worker[relay]}"
	wait_until 'the root to see it' waits 0
	start_relay "$(cat port)" "$port"
	start_worker b
	start_below g a
	end_of a "${worker[a]}"
	end_of_group g
	end_of b "${worker[b]}"
	end_of coordinator "$coordinator"
	rounds | jq -se 'length == 2 and all(.workers == 2 and .dropped == 0)'
	same_parameters
}

@test "tree: what does not go together is one line and its code" {
	local below=(rnp-train coordinate -q --data "$DIR/tok" --listen 127.0.0.1:0 --give-up 1s)
	refused 64 '--rounds goes without --parent' "${below[@]}" --model m --parent http://127.0.0.1:1 --rounds 3
	refused 64 '--give-up goes with --parent' "${below[@]}" --model m
	cd "$BATS_TEST_TMPDIR"
	cp -r "$DIR/model" x
	refused 69 'gave up' "${below[@]}" --model x --parent http://127.0.0.1:1
	start_coordinator --workers 1 --inner-steps 5
	refused 65 'is not the text of the parent' "${below[@]}" --model x --parent "$url" --data "$DIR/valid"
	rnp-train init --preset nano --vocab 310 --out y
	refused 65 'is not the model of the parent' "${below[@]}" --model y --parent "$url"
	refused 64 'run has --seed 0' "${below[@]}" --model x --parent "$url" --seed 7
	# a run that was begun alone stays alone
	timeout 60 rnp-train coordinate -q --model x --data "$DIR/tok" --listen 127.0.0.1:0 --port-file x.started 3>&- &
	wait_until 'a run' test -s x.started
	kill %%
	ended $! || true
	refused 64 'was begun without --parent' "${below[@]}" --model x --parent "$url"
	# SIGTERM while it waits for a turn that the root has not
	start_group g
	wait_until 'the group to begin' test -s g.started
	kill -TERM "${group[g]}"
	end_of_group g
}
