#!/usr/bin/env bats
# rnp-train join --mpi: the ranks of an MPI job are one worker of a run over a network.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR OMP_NUM_THREADS=1
	make_training
}

setup() {
	[[ -e $RNP_BUILD/lib/librnp_mpi.so ]] || skip "built without MPI: install libopenmpi-dev"
	command -v mpirun >/dev/null || skip "no mpirun here"
	coordinator='' worker=()
}
teardown() { stop_training; }

# start_island NAME RANKS [OPTION...]: its ranks leave their process ids in NAME.pid-RANK
start_island() {
	timeout 120 mpirun -n "$2" --oversubscribe --allow-run-as-root bash -c 'echo $$ >"$0.pid-$OMPI_COMM_WORLD_RANK"; exec rnp-train join --mpi "$@"' \
		"$BATS_TEST_TMPDIR/$1" "$url" --state "$BATS_TEST_TMPDIR/state-$1" --device cpu "${@:3}" \
		>>"$BATS_TEST_TMPDIR/$1.out" 2>>"$BATS_TEST_TMPDIR/$1.err" 3>&- &
	worker[$1]=$!
}

# hash_of NAME: of the parameters that a worker has
hash_of() { jq -r .base "$BATS_TEST_TMPDIR/state-$1"/*/state.json; }

@test "islands: two ranks learn what one process does, and are one member" {
	local way
	for way in one island; do
		start_coordinator --valid "$DIR/valid" --eval-tokens 2048 --rounds 3 --inner-steps 8 --method none --precision f32
		[ $way = one ] && start_worker $way || start_island $way 2
		end_of $way "${worker[$way]}"
		end_of coordinator "$coordinator"
		rounds >$way.rounds
		rm -rf m port c.out
	done
	jq -se 'all(.workers == 1 and .tokens == 8 * 4 * 32 and (.members | length) == 1)' island.rounds
	# the same text, up to the rounding of sums over ranks
	jq -se 'group_by(.round) | length == 3 and all(.[0].members[0].first == .[1].members[0].first
		and (.[0].loss_micronats - .[1].loss_micronats | fabs) < 2000
		and (.[0].validation_loss_micronats - .[1].validation_loss_micronats | fabs) < 2000)' one.rounds island.rounds
	# rank 0 alone speaks, for both
	jq -se '[.[] | select(.kind == "rnp.step") | .tokens] == [range(1; 3) * 10 * 4 * 32]' island.out
	[ "$(hash_of island)" = "$(tail -n 1 island.rounds | jq -r .base)" ]
}

@test "islands: of three, streaming, beside a worker of one process: all have the same parameters" {
	start_coordinator --workers 2 --rounds 6 --inner-steps 6 --batch 6 --fragments 2 --overlap 2
	start_island a 3
	start_worker b
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinator "$coordinator"
	rounds | jq -se 'length == 12 and all(.workers == 2 and .dropped == 0) and .[11].loss_micronats < .[0].loss_micronats'
	[ "$(hash_of a)" = "$(hash_of b)" ]
}

@test "islands: a rank that is killed ends the others, and the next start goes on" {
	start_coordinator --rounds 6 --inner-steps 30 --method ecq:0.3
	start_island a 2
	wait_until 'a round' rounds_are 1
	kill -9 "$(cat a.pid-1)"
	wait_until 'the island to end' process_is_gone "${worker[a]}"
	fails "${worker[a]}"
	forget "${worker[a]}"
	wait_until 'rank 0 to end' process_is_gone "$(cat a.pid-0)"
	start_island a 2
	end_of a "${worker[a]}"
	end_of coordinator "$coordinator"
	# nothing twice, nothing lost
	rounds | jq -se 'map(.round) == [range(1; 7)] and all(.workers == 1) and ([.[].members[].first] | unique | length) == 6'
	jq -se '[.[] | select(.kind == "rnp.receipt") | .tokens] | add == 6 * 30 * 4 * 32' a.out
}

@test "islands: SIGTERM at one rank, or SIGUSR1 at mpirun, ends all with 0" {
	start_coordinator --inner-steps 20
	start_island a 2
	wait_until 'a round' rounds_are 1
	kill -TERM "$(cat a.pid-1)"
	end_of a "${worker[a]}"
	start_island a 2
	wait_until 'a process' test -s a.pid-0
	wait_until 'more rounds' rounds_are "$(($(rounds | wc -l) + 2))"
	kill -USR1 "$(pgrep -P "${worker[a]}" mpirun)"
	end_of a "${worker[a]}"
	grep -q rnp.receipt a.out
}

@test "islands: what cannot be shared or is not there is one line and its code" {
	local island=(timeout 120 mpirun -n 2 --oversubscribe --allow-run-as-root rnp-train join -q --mpi --device cpu --state s)
	start_coordinator --batch 3
	run -64 "${island[@]}" "$url" 3>&-
	assert_output --partial 'the run'"'"'s batch of 3 cannot be shared by 2 ranks'
	run -69 "${island[@]}" http://127.0.0.1:1 --give-up 1s 3>&-
	assert_output --partial 'gave up'
	RNP_MPI_PLUGIN=$BATS_FILE_TMPDIR/nowhere.so refused 69 'mpi' rnp-train join -q --mpi "$url" --state s
	# a process alone is an island of one rank
	rnp-train join -q --mpi --once "$url" --state s --device cpu >out 3>&-
	wait_until 'a round' rounds_are 1
}

@test "islands: the memory of a machine is that of all its ranks" {
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	local total
	start_coordinator --rounds 1 --inner-steps 1
	total=$(rnp-train join --plan "$url" --state state-p --device cpu | jq .total_bytes)
	# enough for one process with the whole batch, not for two with half of it each
	printf 'MemTotal: 99999999 kB\nMemAvailable: %s kB\n' $((total * 11 / 10 / 1024)) >meminfo
	with_little() { unshare -m sh -c 'mount --bind meminfo /proc/meminfo && exec "$@"' sh "$@"; }
	with_little rnp-train join --plan "$url" --state state-p --device cpu | jq -e '.fits and (.ranks | not)'
	mpi() { with_little timeout 120 mpirun -n 2 --oversubscribe --allow-run-as-root rnp-train join --mpi "$url" --state state-p --device cpu "$@"; }
	mpi --plan | jq -se 'length == 1 and .[0].ranks == 2 and (.[0].fits | not)'
	run --separate-stderr mpi
	[[ $status == 65 && $(grep -c 'the run takes' <<<"$stderr") == 1 && $stderr == *"iB of memory for 2 ranks, and "*"iB is free"* ]] ||
		fail "$status: $stderr"
	[[ ! -s requests.log ]] || ! grep -q '"/v1/join"' requests.log
}
