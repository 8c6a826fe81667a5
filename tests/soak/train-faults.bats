#!/usr/bin/env bats
# train-faults - training for $MINUTES (10) over 200 +- 50 ms and 10% loss behind a NAT, where a worker is killed every 30 s,
# the coordinator every 100 s, and the link goes for a while now and then: it ends, nothing counts twice, no stall is nameless.
load ../helper
load ../rnp-train/train_net
load ../net/rig

setup_file() {
	export DIR=$BATS_FILE_TMPDIR RELAY_PROGRAM=$BATS_FILE_TMPDIR/relay
	[[ -z $(rig_missing) ]] || return 0
	gcc -O2 -o "$RELAY_PROGRAM" "$ROOT/tests/net/relay.c"
	make_training
}

setup() {
	coordinator='' worker=()
	[[ -z $(rig_missing) ]] || skip "$(rig_missing | paste -sd, -)"
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	stop_training
	rig_down
}

again() {
	kill_hard "${worker[$1]}"
	join_from "$1" "$1"
}

@test "soak: workers, coordinator and link that go and come" {
	local begin=$SECONDS until i next_worker=30 next_coordinator=100 next_link=70 before
	until=$((SECONDS + ${MINUTES:-10} * 60))
	rig_up 4 20mbit 20mbit 100 25 100000 1000 1000 3
	serve_training --workers 2 --rounds 0 --inner-steps 10 --valid "$DIR/valid" --eval-tokens 1024
	for i in 1 2 3 4; do join_from "$i" "$i"; done
	while ((SECONDS < until)); do
		sleep 1
		if ((SECONDS - begin >= next_worker)); then
			again $((1 + RANDOM % 4))
			next_worker=$((next_worker + 30))
		fi
		if ((SECONDS - begin >= next_link)); then
			rig_link down
			sleep $((RANDOM % 20))
			rig_link up
			next_link=$((next_link + 90))
		fi
		if ((SECONDS - begin >= next_coordinator)); then
			kill_hard "$coordinator"
			serve_training
			next_coordinator=$((next_coordinator + 100))
		fi
	done
	before=$(rounds | wc -l)
	echo "# $before rounds" >&3
	((before >= (SECONDS - begin) / 60))
	# it still goes on
	until=$((SECONDS + 120))
	while ((SECONDS < until)) && ! rounds_are $((before + 2)); do sleep 1; done
	rounds_are $((before + 2))
	nothing_is_twice
	# what was waited for has a name: the parts of a round that are not computing
	rounds | jq -se 'all(.seconds * 1000 <= 61000 + ([.waited[]] | add // 0))'
	rounds | jq -se '.[-1].validation_loss_micronats < .[0].validation_loss_micronats'
}

@test "soak: a worker killed every 30 s, 10% loss and 200 +- 50 ms: the loss is within 2% of a clean run's" {
	local i clean bad next turn=0
	# what is killed on the way is made again, or counts for the next round
	local of_rounds=(--workers 3 --rounds "${ROUNDS:-12}" --inner-steps 20 --valid "$DIR/valid" --eval-tokens 4096 --late count)
	start_coordinator "${of_rounds[@]}"
	for i in 1 2 3 4; do start_worker "$i"; done
	for i in 1 2 3 4; do end_of "$i" "${worker[$i]}"; done
	end_of coordinate "$coordinator"
	clean=$(rounds | tail -n 1 | jq .validation_loss_micronats)
	rm -rf m port started state-* c.out ./*.err
	rig_up 4 20mbit 20mbit 100 25 100000 1000 1000 3
	serve_training "${of_rounds[@]}"
	for i in 1 2 3 4; do join_from "$i" "$i"; done
	next=$((SECONDS + 30))
	while ! process_is_gone "$coordinator"; do
		sleep 1
		((SECONDS >= next)) || continue
		again $((1 + turn++ % 4))
		next=$((next + 30))
	done
	wait "$coordinator"
	forget "$coordinator"
	nothing_is_twice
	bad=$(rounds | tail -n 1 | jq .validation_loss_micronats)
	echo "# $turn kills in $(rounds | jq -s 'map(.seconds) | add') s, rounds of at most $(rounds | jq -s 'map(.seconds) | max') s, $(rounds |
		jq -s 'map(.dropped) | add') turns lost: $bad, clean $clean" >&3
	((turn > 0 && bad * 100 <= clean * 102))
	rounds | jq -se 'all(.seconds * 1000 <= 61000 + ([.waited[]] | add // 0))'
}
