#!/usr/bin/env bats
# rnp-train run --mpi: ranks of one MPI job that share each batch.
load ../helper

setup_file() {
	export DIR=$BATS_FILE_TMPDIR OMP_NUM_THREADS=1
	awk 'BEGIN {
		srand(7)
		split("the cat,a dog,my friend,the old man,a bird", who, ",")
		split("sees,hears,likes,follows", does, ",")
		for (i = 0; i < 1500; i++)
			printf "%s %s %s.\n", who[1 + int(rand() * 5)], does[1 + int(rand() * 4)], who[1 + int(rand() * 5)]
	}' >"$DIR/text"
	rnp-train tokenize --vocab 300 --out "$DIR/tok" "$DIR/text" >/dev/null
	rnp-train init --preset nano --vocab 300 --out "$DIR/model"
}

setup() {
	[[ -e $RNP_BUILD/lib/librnp_mpi.so ]] || skip "built without MPI: install libopenmpi-dev"
	command -v mpirun >/dev/null || skip "no mpirun here"
	cd "$BATS_TEST_TMPDIR"
}

ranks() {
	local n=$1
	shift
	timeout 120 mpirun -n "$n" --oversubscribe --allow-run-as-root "$@" 3>&-
}

# what the two programs of a job have in common
common=(--batch 4 --length 32 --precision f32 --device cpu)
train() { rnp-train run --model "$DIR/model" --data "$DIR/tok" "${common[@]}" "$@"; }
train_ranks() { ranks "$1" rnp-train run --mpi --model "$DIR/model" --data "$DIR/tok" "${common[@]}" "${@:2}"; }

valid() {
	python3 -c 'import json, sys, jsonschema
v = jsonschema.Draft202012Validator(json.loads(sys.argv[1]))
for line in open(sys.argv[2]): v.validate(json.loads(line))' "$(rnp-train --schema "$1")" "$2"
}

@test "mpi: two ranks have the loss of one, the bits of the next two, with overlap and without" {
	train --out one --steps 4 >one.jsonl
	train_ranks 2 --out a --steps 4 --valid "$DIR/tok" --eval-every 2 --eval-tokens 64 >a.jsonl
	train_ranks 2 --out b --steps 4 --no-overlap >b.jsonl
	# one record a step: rank 0 speaks for all
	jq -se 'map(select(.kind == "rnp.step").step) == [1, 2, 3, 4]' a.jsonl
	jq -se '[.[] | select(.kind == "rnp.step")] | group_by(.step) | length == 4 and
		all((.[0].loss - .[1].loss | fabs) < 1e-5 and (.[0].gradient_norm - .[1].gradient_norm | fabs) < 1e-4 and
			.[0].tokens == .[1].tokens)' one.jsonl a.jsonl
	jq -se '.[-1] | .ranks == 2 and .tokens == 4 * 4 * 32 and .sum_ms >= 0 and .validation_loss > 0' a.jsonl
	cmp a/model.safetensors b/model.safetensors
	cmp a/checkpoint.safetensors b/checkpoint.safetensors
	tail -n 1 a.jsonl >last
	valid rnp.run last
}

@test "mpi: a run of three ranks that was stopped goes on to the bits of one that was not" {
	common=(--batch 6 --micro-batch 1 --length 32 --device cpu)
	train_ranks 3 --out a --steps 4 >/dev/null
	train_ranks 3 --out b --steps 4 --time 1ms | tail -n 1 >first
	jq -e '.ended == "time" and .steps < 4' first
	train_ranks 3 --out b --steps 4 --resume >/dev/null
	cmp a/checkpoint.safetensors b/checkpoint.safetensors
}

@test "mpi: SIGTERM at one rank ends all after the same step, with a checkpoint and 0" {
	# rank 1, which writes nothing, leaves its process id
	ranks 2 bash -c '[ "$OMPI_COMM_WORLD_RANK" = 1 ] && echo $$ >pid
		exec rnp-train run --mpi --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 32 --device cpu --out r --steps 1000000' \
		>log 3>&- &
	wait_file log
	kill -TERM "$(cat pid)"
	wait $!
	jq -se '.[-1].ended == "signal"' log
	[ -s r/checkpoint.safetensors ]
}

@test "mpi: ranks with different models are refused, and nothing is written when they part" {
	rnp-train init --preset nano --vocab 300 --seed 9 --out other
	args=(--mpi --data "$DIR/tok" "${common[@]}" --steps 2 --out r)
	run -65 timeout 120 mpirun --oversubscribe --allow-run-as-root -n 1 rnp-train run --model "$DIR/model" "${args[@]}" : \
		-n 1 rnp-train run --model other "${args[@]}" 3>&-
	[[ $output == *"rank 1 has another model"* ]]
	[ ! -e r ]
	run -65 timeout 120 mpirun --oversubscribe --allow-run-as-root -n 1 rnp-train run --model "$DIR/model" "${args[@]}" : \
		-n 1 rnp-train run --model "$DIR/model" "${args[@]}" --lr 0.5 3>&-
	[[ $output == *"rank 1 has another model"* ]]
	[ ! -e r/checkpoint.safetensors ]
}

@test "mpi: a rank that fails ends the job with its code" {
	: >file
	# only rank 0 writes, and cannot; the other waits for the next step
	run timeout 120 mpirun -n 2 --oversubscribe --allow-run-as-root rnp-train run --mpi --model "$DIR/model" --data "$DIR/tok" \
		"${common[@]}" --out file --steps 50 --save-every 1 3>&-
	[[ $status == 73 || $status == 74 ]]
	[[ $output == *"rank 0: "* ]]
	# all fail alike
	run -65 train_ranks 2 --out r --steps 5 --lr 1e30 --clip 0 --warmup 0
	[[ $output == *"not finite"* ]]
}

@test "mpi: what cannot be shared, or is not there" {
	run -64 train_ranks 2 --out r --steps 1 --batch 3
	[[ $output == *"--batch 3"*"2 ranks"* ]]
	run -64 train_ranks 2 --out r --steps 1 --micro-batch 4
	[[ $output == *"--micro-batch 4 on each rank"* ]]
	RNP_MPI_PLUGIN=$BATS_FILE_TMPDIR/nowhere.so refused 69 "mpi" rnp-train run --mpi --model "$DIR/model" --data "$DIR/tok" --out r --steps 1
	refused 64 "--no-overlap" rnp-train run --no-overlap --model "$DIR/model" --data "$DIR/tok" --out r --steps 1
	# a process alone is a job of one rank
	# Open MPI's daemon is its child, and may outlive it
	train --mpi --out alone --steps 1 >alone.jsonl 3>&-
	jq -se '.[-1].ranks == 1' alone.jsonl
	[ ! -e r ]
}
