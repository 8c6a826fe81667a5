#!/usr/bin/env bats
# rnp-train run on several GPUs of this machine: a process for each, here on the emulated GPU of tests/kernels/cuda_emu.h.
# slow: the emulated GPU trains
load ../helper

setup_file() {
	export DIR=$BATS_FILE_TMPDIR OMP_NUM_THREADS=1
	awk 'BEGIN { srand(7); for (i = 0; i < 400; i++) printf "the %s cat sees dog %d.\n", rand() < 0.5 ? "old" : "young", rand() * 9 }' >"$DIR/text"
	rnp-train tokenize --vocab 260 --out "$DIR/tok" "$DIR/text" >/dev/null
	python3 "$ROOT/tests/tools/tiny_model.py" "$DIR/model" 260
	"${CC:-gcc}" -shared -fPIC -I"$ROOT" -o "$DIR/librnp_nccl.so" "$ROOT/tests/fake/comm_nccl.c"
}

setup() {
	# not NCCL itself, which must never see the emulation's memory
	export RNP_CUDA_PLUGIN=$RNP_BUILD/emu/librnp_cuda.so CUDA_EMU_DEVICES=2 RNP_NCCL_PLUGIN=$BATS_FILE_TMPDIR/nowhere.so
	[[ -e $RNP_CUDA_PLUGIN ]] || skip "no emulated device: make build/emu/librnp_cuda.so"
	cd "$BATS_TEST_TMPDIR"
}

# a test that fails leaves no run of 100,000 steps behind
teardown() {
	# shellcheck disable=SC2046 # several
	kill -KILL $(jobs -rp) 2>/dev/null || true
}

train() {
	timeout 120 rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 8 --precision f32 "$@" 3>&-
}

valid() {
	python3 -c 'import json, sys, jsonschema
v = jsonschema.Draft202012Validator(json.loads(sys.argv[1]))
for line in open(sys.argv[2]): v.validate(json.loads(line))' "$(rnp-train --schema "$1")" "$2"
}

@test "gpus: two have the loss of one with the same batch, and the same bits twice, by every way of summing" {
	train --device cuda:0 --out one --steps 3 >one.jsonl
	train --device cuda:0,cuda:1 --out a --steps 3 --valid "$DIR/tok" --eval-every 2 --eval-tokens 16 >a.jsonl 2>a.err
	# rank 0 alone speaks, with one warning
	jq -se 'map(select(.kind == "rnp.step").step) == [1, 2, 3]' a.jsonl
	assert_equal "$(wc -l <a.err)" 1
	grep -q "through the host's memory: nccl: " a.err
	jq -se '[.[] | select(.kind == "rnp.step")] | group_by(.step) | length == 3 and
		all((.[0].loss - .[1].loss | fabs) < 1e-5 and (.[0].gradient_norm - .[1].gradient_norm | fabs) < 1e-4 and
			.[0].tokens == .[1].tokens)' one.jsonl a.jsonl
	jq -se '.[-1] | .ranks == 2 and .device == "cuda:0,cuda:1" and .summed_by == "tcp" and .tokens == 3 * 4 * 8 and
		.validation_loss > 0' a.jsonl
	tail -n 1 a.jsonl >last
	valid rnp.run last
	# as NCCL sums: on the devices, behind what writes the gradients
	RNP_NCCL_PLUGIN=$DIR/librnp_nccl.so FAKE_NCCL_LOG=sums train --device cuda:all --out b --steps 3 >b.jsonl 2>b.err
	assert_equal "$(cat b.err)" ""
	jq -se '.[-1] | .ranks == 2 and .summed_by == "nccl"' b.jsonl
	[ "$(awk '{ n += $1 } END { print n }' sums)" -ge $((3 * 23840)) ]
	cmp a/checkpoint.safetensors b/checkpoint.safetensors
	cmp a/model.safetensors b/model.safetensors
	RNP_NCCL_PLUGIN=$DIR/librnp_nccl.so RNP_DEVICE=cuda:0,1 train --no-overlap --out c --steps 3 >/dev/null
	cmp a/checkpoint.safetensors c/checkpoint.safetensors
}

@test "gpus: bf16 on three devices, stopped and resumed, gives the bits of a run that was not" {
	export CUDA_EMU_DEVICES=3
	three() { train --batch 3 --micro-batch 1 --precision bf16 --device cuda:all "$@" 2>/dev/null; }
	three --out a --steps 3 >/dev/null
	three --out b --steps 3 --time 1ms | tail -n 1 >first
	jq -e '.ended == "time" and .steps < 3' first
	three --out b --steps 3 --resume >/dev/null
	cmp a/checkpoint.safetensors b/checkpoint.safetensors
}

@test "gpus: SIGTERM, to the program or to everybody, ends it after its step, with a checkpoint and 0" {
	for to in program everybody; do
		rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 8 --device cuda:all --out "$to" \
			--steps 100000 >"$to.log" 2>"$to.err" 3>&- &
		wait_file "$to.log"
		ranks=$(pgrep -P $!)
		[ "$(wc -w <<<"$ranks")" = 2 ]
		# systemd signals all processes of a service
		[ $to = program ] || kill -TERM $ranks
		kill -TERM $!
		ended $!
		jq -se '.[-1].ended == "signal"' "$to.log"
		[ -s "$to/checkpoint.safetensors" ]
		for rank in $ranks; do process_is_gone "$rank"; done
	done
}

@test "gpus: a rank that dies ends the others, with one line and 69; they do not outlive the one that started them" {
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 8 --device cuda:all --out r --steps 100000 \
		>log 2>err 3>&- &
	wait_file log
	kill -KILL "$(pgrep -P $! | tail -n 1)"
	code=0
	ended $! || code=$?
	assert_equal $code 69
	grep -v "host's memory" err >said
	assert_equal "$(wc -l <said)" 1
	assert_equal "$(cat said)" "rnp-train: rank 1 (cuda:1): was ended by signal 9 (Killed)"
	rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 8 --device cuda:all --out s --steps 100000 \
		>log2 2>err2 3>&- &
	wait_file log2
	ranks=$(pgrep -P $!)
	kill -KILL $!
	wait $! || true
	for rank in $ranks; do wait_until "the end of rank $rank" process_is_gone "$rank"; done
}

@test "gpus: an error is one line, of the rank that has it or of all" {
	: >file
	# only rank 0 writes, and cannot
	run --separate-stderr train --device cuda:all --out file --steps 2
	[[ $status == 73 || $status == 74 ]]
	assert_equal "$(grep -vc "host's memory" <<<"$stderr")" 1
	[[ $stderr == *"rank 0 (cuda:0): "* ]]
	refused 64 "rnp-train: --batch 4 cannot be shared by 3 ranks" env CUDA_EMU_DEVICES=3 \
		rnp-train run --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 8 --device cuda:all --out r --steps 1
	refused 69 "cuda:2: there are 2 GPUs" train --device cuda:0,cuda:2 --out r --steps 1
	refused 66 "rnp-train: cannot" train --device cuda:0,cuda:1 --model nowhere --out r --steps 1
	run -65 --separate-stderr train --device cuda:all --out r --steps 5 --lr 1e30 --clip 0 --warmup 0
	[[ $stderr == *"not finite"* ]]
	assert_equal "$(grep -vc "host's memory" <<<"$stderr")" 1
	# one rank without NCCL: nobody uses it
	RNP_NCCL_PLUGIN=$DIR/librnp_nccl.so FAKE_NCCL_FAILS=1 train --device cuda:all --out n --steps 1 >n.jsonl 2>n.err
	jq -se '.[-1].summed_by == "tcp"' n.jsonl
	grep -q "host's memory: nccl: " n.err
}

@test "gpus: what the names of devices may be" {
	for name in cuda:0, ,cuda:0 cuda:0,cpu cuda:0,cuda:x 0,1 cuda:0,,1 cuda:0,-1 cuda:0,9999; do
		refused 64 "'$name'" train --device "$name" --out r --steps 1
	done
	refused 64 "at most 16 GPUs" train --device "$(seq -s , -f cuda:%g 0 16)" --out r --steps 1
	refused 64 "at most 16 GPUs" env CUDA_EMU_DEVICES=17 rnp-train run --model "$DIR/model" --data "$DIR/tok" --device cuda:all --out r --steps 1
	refused 69 "no GPU" env CUDA_EMU_DEVICES=0 rnp-train run --model "$DIR/model" --data "$DIR/tok" --device cuda:all --out r --steps 1
	RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/nowhere.so refused 69 "nowhere" train --device cuda:all --out r --steps 1
	# others than run take one device
	refused 64 "cuda:all" rnp-train eval --model "$DIR/model" --data "$DIR/tok" --device cuda:all
	# one GPU is one process
	CUDA_EMU_DEVICES=1 train --device cuda:all --out one --steps 1 | jq -se '.[-1] | .device == "cuda:0" and (has("ranks") | not)'
	refused 64 "--no-overlap" train --device cuda:0 --no-overlap --out r --steps 1
}

@test "gpus: a plan is of each device with its share" {
	run_split rnp-train run --plan --model "$DIR/model" --data "$DIR/tok" --batch 4 --length 8 --device cuda:all
	assert_equal "$status" 0
	jq -es 'map([.device, .ranks]) == [["cuda:0", 2], ["cuda:1", 2]]' <<<"$output"
	echo "$output" >plans
	valid rnp.plan plans
	rnp-train run --plan --model "$DIR/model" --data "$DIR/tok" --batch 2 --length 8 --device cuda:0 |
		jq -es --slurpfile two plans '.[0].activations_bytes == $two[0].activations_bytes'
}

@test "gpus: ranks of an MPI job take the GPUs of their machine one after the other" {
	[[ -e $RNP_BUILD/lib/librnp_mpi.so ]] || skip "built without MPI: install libopenmpi-dev"
	command -v mpirun >/dev/null || skip "no mpirun here"
	ranks() {
		timeout 120 mpirun -n 2 --oversubscribe --allow-run-as-root rnp-train run --mpi --model "$DIR/model" --data "$DIR/tok" \
			--batch 4 --length 8 --precision f32 --steps 2 "$@" 3>&-
	}
	ranks --device cuda --out m >m.jsonl 2>m.err
	jq -se '.[-1] | .ranks == 2 and .summed_by == "mpi"' m.jsonl
	grep -q "host's memory: nccl: " m.err
	train --device cuda:0,cuda:1 --out l --steps 2 >/dev/null 2>&1
	cmp m/checkpoint.safetensors l/checkpoint.safetensors
	RNP_NCCL_PLUGIN=$DIR/librnp_nccl.so ranks --device cuda:1,cuda:0 --out n | jq -se '.[-1] | .summed_by == "nccl" and .device == "cuda:1"'
	cmp m/checkpoint.safetensors n/checkpoint.safetensors
	# both on one: NCCL cannot
	RNP_NCCL_PLUGIN=$DIR/librnp_nccl.so ranks --device cuda:0 --out o 2>o.err | jq -se '.[-1].summed_by == "mpi"'
	grep -q "share a GPU" o.err
	cmp m/checkpoint.safetensors o/checkpoint.safetensors
}

@test "gpus: several are one worker of a run over a network, and a rank that dies ends it with 69" {
	cp -r "$DIR/model" m
	timeout 120 rnp-train coordinate -q --model m --data "$DIR/tok" --listen 127.0.0.1:0 --port-file port --batch 4 --length 8 \
		--rounds 2 --inner-steps 2 --method none --precision f32 --device cpu >c.out 3>&- &
	coordinator=$!
	wait_file port
	url=http://127.0.0.1:$(cat port)
	rnp-train join --plan --device cuda:all --state s "$url" | jq -se 'length == 1'
	timeout 120 rnp-train join -q --device cuda:all --every 1 --state s "$url" >j.out 2>j.err 3>&-
	ended $coordinator
	jq -se 'map(select(.kind == "rnp.step")) | length == 4 and .[-1].tokens == 4 * 4 * 8' j.out
	jq -se 'map(select(.kind == "rnp.round")) | length == 2 and all(.workers == 1 and .tokens == 2 * 4 * 8)' c.out
	cp -r "$DIR/model" n
	timeout 120 rnp-train coordinate -q --model n --data "$DIR/tok" --listen 127.0.0.1:0 --port-file port2 --batch 4 --length 8 \
		--inner-steps 2 --device cpu >/dev/null 3>&- &
	coordinator=$!
	wait_file port2
	rnp-train join -q --device cuda:0,cuda:1 --every 1 --state s "http://127.0.0.1:$(cat port2)" >k.out 2>k.err 3>&- &
	wait_file k.out
	kill -KILL "$(pgrep -P $! | tail -n 1)"
	code=0
	ended $! || code=$?
	assert_equal $code 69
	assert_equal "$(grep -c 'ended by signal' k.err)" 1
	kill $coordinator
	ended $coordinator || true
}

@test "gpus: steps that are replayed as graphs give the bits of steps that are asked for, in all forms of a step" {
	same() {
		train --steps 4 --out "$1-each" --no-graph "${@:2}" 2>/dev/null | jq -se '.[-1].captured == false'
		train --steps 4 --out "$1" "${@:2}" 2>/dev/null >"$1.jsonl"
		jq -se '.[-1].captured == true' "$1.jsonl"
		cmp "$1-each/checkpoint.safetensors" "$1/checkpoint.safetensors"
	}
	# the learning rate is another one at each step; with a validation text evaluations are replayed, too
	same plain --device cuda:0 --valid "$DIR/tok" --eval-every 1 --eval-tokens 32
	jq -se 'map(.learning_rate // empty) | length == 4 and (unique | length == 4)' plain.jsonl
	tail -n 1 plain.jsonl >last
	valid rnp.run last
	# gradients that add up; recomputed layers in bf16
	same micro --device cuda:0 --micro-batch 1 --precision bf16 --recompute
	# sums between the parts of a pass
	same two --device cuda:0,cuda:1 --micro-batch 1
}

@test "gpus: where a driver captures nothing, steps are asked for, with one line under -v" {
	train --steps 3 --out want --device cuda:0 --no-graph >/dev/null
	for what in begin end instantiate; do
		CUDA_EMU_CAPTURE=$what train -v --steps 3 --out "$what" --device cuda:0 2>err | jq -se '.[-1].captured == false'
		assert_equal "$(grep -c "steps are not captured: cuda:0: " err)" 1
		assert_equal "$(wc -l <err)" 1
		cmp want/checkpoint.safetensors "$what/checkpoint.safetensors"
	done
	# a graph that was made and then cannot be replayed is an error
	CUDA_EMU_CAPTURE=launch refused 69 "cudaGraphLaunch" train --steps 3 --out launch --device cuda:0
}

@test "gpus: NCCL never waits for ever: a peer that hangs is late, one that died an error, and the communicator is aborted" {
	cd "$ROOT"
	local cuda=${CUDA_HOME:-/usr/local/cuda}/include
	[[ -e $cuda/nccl.h || -e /usr/include/nccl.h ]] || skip "NCCL's header is not here"
	"${CC:-gcc}" -std=gnu11 -I. -isystem "$cuda" -D_GNU_SOURCE -o "$BATS_TEST_TMPDIR/nccl" \
		tests/fake/nccl.c common/comm/plugins/nccl.c
	FAKE_NCCL=well run_split timeout 120 "$BATS_TEST_TMPDIR/nccl"
	assert_equal "$output$stderr" $'open 0 \nallreduce 0 '
	FAKE_NCCL=hang run_split timeout 120 "$BATS_TEST_TMPDIR/nccl"
	assert_line "allreduce -2 another rank did not move for 200 ms"
	assert_line "again -1 the ranks have given up before"
	assert_equal "$stderr" aborted
	FAKE_NCCL=died run_split timeout 120 "$BATS_TEST_TMPDIR/nccl"
	assert_line "allreduce -1 remote process exited"
	assert_equal "$stderr" aborted
	FAKE_NCCL=alone run_split timeout 120 "$BATS_TEST_TMPDIR/nccl"
	assert_output "open -2 another rank did not move for 200 ms"
}
