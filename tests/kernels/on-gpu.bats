# scripts/on-gpu without a GPU: the emulated device takes the plug-in's place.
load ../helper

setup_file() {
	export PACKED=$BATS_FILE_TMPDIR/gpu
	RNP_BUILD=$RNP_BUILD "$ROOT/scripts/on-gpu" pack --emulation --dir "$PACKED"
}

setup() {
	export TMPDIR=$BATS_TEST_TMPDIR OUT=$BATS_TEST_TMPDIR/out DIR=$BATS_TEST_TMPDIR/gpu PATH=$BATS_TEST_TMPDIR/tools:$PATH
	cp -r "$PACKED" "$DIR"
	mkdir -p "$OUT" "$BATS_TEST_TMPDIR/tools"
	# the GPU of this machine, if it has one, is not used
	printf '#!/bin/sh\nexit 9\n' >"$BATS_TEST_TMPDIR/tools/nvidia-smi"
	chmod +x "$BATS_TEST_TMPDIR/tools/nvidia-smi"
}

on_gpu() {
	"$ROOT/scripts/on-gpu" "$@"
}

@test "on-gpu: what travels fits, and needs nothing of the build" {
	run -0 du -sb "$DIR"
	((${output%%[!0-9]*} < 64 << 20))
	run -0 env -i PATH=/usr/bin:/bin LD_LIBRARY_PATH="$DIR/lib" "$DIR/bin/rnp-bench" --version
	assert_equal "$(tr -d '+' <"$DIR/commit")" "$(git -C "$ROOT" rev-parse --short HEAD)"
}

@test "on-gpu: a stage is done once, its record holds GPU, driver, commit and date, and a second call goes on" {
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-int8
	assert_output --partial "ok       kcheck-int8"
	jq -es 'length == 1 and .[0].suite == "kcheck" and .[0].test == "int8" and .[0].median == 24 and .[0].machine == "emulation" and
		(.[0].commit | length >= 7) and .[0].driver == "none" and (.[0].at | test("^2"))' "$OUT/results.jsonl"
	python3 -c 'import json, sys, jsonschema
jsonschema.Draft202012Validator(json.loads(sys.argv[1])).validate(json.load(open(sys.argv[2])))' \
		"$(rnp-bench --schema rnp.bench)" "$OUT/results.jsonl"
	mkdir "$BATS_TEST_TMPDIR/results"
	run -0 on_gpu collect "$OUT" --dir "$DIR" --results "$BATS_TEST_TMPDIR/results"
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/results/*-emulation.jsonl)" "$(cat "$OUT/results.jsonl")"
	# once more changes nothing
	run -0 on_gpu collect "$OUT" --dir "$DIR" --results "$BATS_TEST_TMPDIR/results"
	assert_output "0 records, 1 stages done"
	assert_equal "$(cat "$BATS_TEST_TMPDIR"/results/*-emulation.jsonl)" "$(cat "$OUT/results.jsonl")"
	# the next call starts with an empty OUT, and continues from the collected results
	rm -r "$OUT"
	mkdir "$OUT"
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-int8
	refute_output --partial kcheck
	[[ ! -e $OUT/results.jsonl ]]
}

@test "on-gpu: every check of kcheck is a stage, and comes before what builds on the kernels" {
	run -0 on_gpu list
	assert_equal "$(sed -n 's/^kcheck-//p' <<<"$output" | sort)" \
		"$(sed -n 's/^\tK(\([a-z0-9_]*\)).*/\1/p' "$ROOT/tests/kernels/kcheck.h" | sort)"
	assert_line --index 0 machine
	assert_equal "$(grep -n train-same <<<"$output" | cut -d: -f1)" $(($(grep -c ^kcheck- <<<"$output") + 2))
}

@test "on-gpu: a call that is killed leaves a few files, and half a line does not stop the next" {
	printf '#!/bin/sh\n[ "$3" != philox ] || { echo $$ >%s; exec sleep 100; }\necho "$3 ok 24"\n' "$BATS_TEST_TMPDIR/pid" >"$DIR/bin/kcheck"
	setsid "$ROOT/scripts/on-gpu" run --dir "$DIR" --out "$OUT" --only kcheck- 3>&- >"$BATS_TEST_TMPDIR/told" &
	local pid=$!
	wait_file "$BATS_TEST_TMPDIR/pid"
	# what it has started is a session of its own
	kill -KILL "$pid" "$(<"$BATS_TEST_TMPDIR/pid")"
	wait "$pid" || true
	assert_equal "$(find "$OUT" -type f | wc -l)" "$(ls "$OUT" | wc -l)"
	(($(ls "$OUT" | wc -l) <= 4))
	printf '{"stage":"kcheck-phi' >>"$OUT/stages.jsonl"
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-sha
	run -0 on_gpu collect "$OUT" --dir "$DIR" --results "$BATS_TEST_TMPDIR"
	assert_output "2 records, 2 stages done"
	jq -es 'map(.stage) == ["kcheck-int8", "kcheck-sha256_rows"]' "$DIR/stages.jsonl"
}

@test "on-gpu: what the figures depend on comes first, and a library that is not there is told" {
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only machine
	assert_output --regexp '^ok       machine .*cuBLASLt: (absent, products are ours|libcublasLt)'
	jq -es '.[0].test == "machine" and (.[0].params | has("cublaslt") and has("sanitizer"))' "$OUT/results.jsonl"
}

@test "on-gpu: cuBLASLt is found where PyTorch's own Python has it, and the plug-in for CUDA 12 where it is the one that fits" {
	local venv=$BATS_TEST_TMPDIR/.venv/lib/python3.12/site-packages
	mkdir -p "$venv/nvidia/cu13/lib"
	"${CC:-gcc}" -shared -o "$venv/nvidia/cu13/lib/libcublasLt.so.13" -x c /dev/null
	PYTHONPATH=$venv run -0 on_gpu run --dir "$DIR" --out "$OUT" --only machine
	assert_output --partial "cuBLASLt: libcublasLt.so.13"
	mv "$DIR/lib/librnp_cuda.so" "$DIR/lib/librnp_cuda12.so"
	RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/nowhere run -0 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-int8
	assert_output --partial "ok       kcheck-int8"
}

@test "on-gpu: without nvidia-smi, or where it finds no driver, a GPU is a GPU, and what keeps a tool from working is told" {
	rm "$DIR/emulation"
	printf '#!/bin/sh\necho "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver."\nexit 9\n' >"$BATS_TEST_TMPDIR/tools/nvidia-smi"
	# the tools of a machine whose counters and debugger are closed
	printf '#!/bin/sh\necho "========= Error: Device not supported. Please refer to the documentation"\nexit 1\n' >"$BATS_TEST_TMPDIR/tools/compute-sanitizer"
	printf '#!/bin/sh\necho "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"\nexit 1\n' >"$BATS_TEST_TMPDIR/tools/ncu"
	chmod +x "$BATS_TEST_TMPDIR/tools"/*
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only t8
	assert_line --regexp '^ok +kcheck-int8 '
	assert_line --regexp '^skipped +memcheck-int8 .*Device not supported'
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only profile
	assert_line --regexp '^skipped +profile-train .*ERR_NVGPUCTRPERM'
	assert_line --regexp '^skipped +profile-prefill .*ERR_NVGPUCTRPERM'
	jq -es '.[0].machine == "GPU without nvidia-smi" and .[0].driver == "unknown"' "$OUT/results.jsonl"
	# but a fault that one finds is one, although the tool said otherwise in an earlier stage
	printf '#!/bin/sh\necho "========= Invalid __global__ write of size 4 bytes"\nexit 9\n' >"$BATS_TEST_TMPDIR/tools/compute-sanitizer"
	run -1 on_gpu run --dir "$DIR" --out "$OUT" --only memcheck-memfill
	assert_line --regexp '^failed +memcheck-memfill .*exit status 9'
}

@test "on-gpu: training with a graph, again and without has the same losses" {
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only train-same
	jq -es '.[0].test == "train_same_losses" and .[0].median == 1 and .[0].params.captured' "$OUT/results.jsonl"
}

@test "on-gpu: figures of training and serving are records, and a server on the device has a seed's text alone and among others" {
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only figures-
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only same-text
	jq -es 'map(.test) == ["train_nano_1x8", "decode_nano_bf16_b2_c32", "prefill_nano_q8_0_8_by_8", "serve_same_text"] and
		all(.median > 0) and all(.[:3][]; .unit == "ns" and .params.tokens_per_s > 0 and .params.copy_bytes_per_s > 0) and
		.[3].median == 1 and .[3].params.distinct > 1' "$OUT/results.jsonl"
}

@test "on-gpu: asked to end, it ends what it runs" {
	printf '#!/bin/sh\necho $$ >%s/pid\nexec sleep 60\n' "$BATS_TEST_TMPDIR" >"$DIR/bin/kcheck"
	"$ROOT/scripts/on-gpu" run --dir "$DIR" --out "$OUT" --only kcheck-int8 3>&- &
	wait_file "$BATS_TEST_TMPDIR/pid"
	local code=0 pid=$!
	kill "$pid"
	ended "$pid" || code=$?
	assert_equal "$code" 143
	wait_until "its child is gone" process_is_gone "$(<"$BATS_TEST_TMPDIR/pid")"
}

@test "on-gpu: a profile is the time of each kernel, as ncu tells it" {
	rm "$DIR/emulation"
	cat >"$BATS_TEST_TMPDIR/tools/ncu" <<'END'
#!/bin/sh
echo '==PROF== Connected to process 1'
echo '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
echo '"0","1","void norm_kernel<float>(lm_norm, bool)","gpu__time_duration.sum","us","1,200.5"'
echo '"1","1","void norm_kernel<float>(lm_norm, bool)","gpu__time_duration.sum","ns","500"'
echo '"2","1","copy_kernel(char *)","gpu__time_duration.sum","ms","2"'
END
	chmod +x "$BATS_TEST_TMPDIR/tools/ncu"
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only profile-decode
	jq -es 'map([.suite, .test, .median, .params.launches]) ==
		[["profile-decode", "copy_kernel", 2000000, 1], ["profile-decode", "norm_kernel<float>", 1201000, 2]]' "$OUT/results.jsonl"
}

@test "on-gpu: without time left nothing is begun, 75; what fails is 1, with the reason, and the others go on" {
	run -75 on_gpu run --dir "$DIR" --out "$OUT" --limit 0
	assert_output "stages are left: call again"
	printf '#!/bin/sh\n[ "$3" != int8 ] || { echo "$3 FAIL 3"; exit 1; }\necho "$3 ok 24"\n' >"$DIR/bin/kcheck"
	run -1 on_gpu run --dir "$DIR" --out "$OUT" --only t8
	assert_output --partial "failed   kcheck-int8"
	assert_output --partial "FAIL 3 cases"
	assert_output --partial "memcheck-int8"
}

@test "on-gpu: where the GPU does not open a stage is not run, 69, and the next call tries it again" {
	mv "$DIR/lib/librnp_cuda.so" "$BATS_TEST_TMPDIR/plugin"
	echo no plug-in >"$DIR/lib/librnp_cuda.so"
	run -69 on_gpu run --dir "$DIR" --out "$OUT" --only t8
	assert_output --regexp "not run  kcheck-int8 .*kcheck: SKIP cuda: .*librnp_cuda.so"
	assert_output --partial "call again when it does"
	refute_output --partial memcheck
	# also where all that shows it has passed in an earlier call
	run -69 on_gpu run --dir "$DIR" --out "$OUT" --only train-same
	assert_output --partial "not run  train-same-losses"
	[[ ! -e $OUT/stages.jsonl && ! -e $OUT/results.jsonl ]]
	mv "$BATS_TEST_TMPDIR/plugin" "$DIR/lib/librnp_cuda.so"
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-int8
	assert_output --partial "ok       kcheck-int8"
}

@test "on-gpu: in the emulation what fills a chip is left out, so that its kernels are tried there, too" {
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-wgmma
	assert_output --regexp '^ok +kcheck-wgmma'
}

@test "on-gpu: a program that hangs is ended, and its stage begun again by the next call" {
	printf '#!/bin/sh\n[ "$3" != huff ] || exec sleep 100\necho "$3 ok 24"\n' >"$DIR/bin/kcheck"
	run -75 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck- --limit 5
	assert_output --partial "ok       kcheck-int8"
	refute_output --partial huff
	sed -i 's/ || exec sleep 100//' "$DIR/bin/kcheck"
	run -0 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-huff
	assert_output --partial "kcheck-huff"
	# a part that needs more time than any call has does not hold up the others for ever
	printf '#!/bin/sh\n[ "$3" != lm_project ] || exec sleep 100\necho "$3 ok 24"\n' >"$DIR/bin/kcheck"
	run -75 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-lm --limit 4
	assert_output --partial "a whole call is too short for it"
	# it is asked to end before it is killed, and what it then says is told
	printf '#!/bin/sh\ntrap "echo kcheck: ended in cuda: lm: head 3 >&2; exit 1" TERM\nsleep 100 & wait\n' >"$DIR/bin/kcheck"
	rm "$OUT/stages.jsonl"
	run -1 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-lm_paged --limit 4
	assert_line --regexp '^failed +kcheck-lm_paged .*a whole call is too short for it; kcheck: ended in cuda: lm: head 3$'
}

@test "on-gpu: a kernel that faults is failed, with its case and the error, and the others go on" {
	CUDA_EMU_LOST=40 run -1 on_gpu run --dir "$DIR" --out "$OUT" --only t8
	assert_line --regexp '^failed +kcheck-int8 .*FAIL 1/[0-9]+ cases; kcheck: cuda: int8: .+: cuda:0: cudaStreamSynchronize: unknown error'
	assert_line --regexp '^(skipped|failed) +memcheck-int8 '
	# and one that ends without a word
	printf '#!/bin/sh\n[ "$3" != int8 ] || exit 1\necho "$3 ok 24"\n' >"$DIR/bin/kcheck"
	rm "$OUT/stages.jsonl"
	run -1 on_gpu run --dir "$DIR" --out "$OUT" --only t8
	assert_line --regexp '^failed +kcheck-int8 .*ended without a result'
	assert_line --regexp '^(skipped|failed|ok) +memcheck-int8 '
}

@test "on-gpu: a kernel that is wrong is failed with its first cases, and one in whose place others are used tells it" {
	cat >"$DIR/bin/kcheck" <<-'EOF'
		#!/bin/sh
		for i in 1 2 3 4; do echo "cuda: $3: case $i: differs from the reference: 3 of 9 words, at byte $i" >&2; done
		echo "kcheck: note: $3: cuda:0: some products are slower" >&2
		[ "$3" != int8 ] || { echo "$3 FAIL 4/24"; exit 1; }
		echo "$3 ok 24"
	EOF
	run -1 on_gpu run --dir "$DIR" --out "$OUT" --only kcheck-int8,kcheck-philox
	assert_line --regexp '^failed +kcheck-int8 .*FAIL 4/24 cases; case 1: .* byte 1; case 2: .* byte 2; case 3: .* byte 3; kcheck: note: int8: cuda:0: some products'
	assert_line --regexp '^ok +kcheck-philox .*cuda:0: some products are slower$'
	refute_output --partial sha256
}

@test "on-gpu: kcheck that is asked to end tells the case that was running" {
	local seconds
	# a slow machine may need longer until the first case: lm takes minutes in the emulation
	for seconds in 2 4 8 16 32; do
		RNP_CUDA_PLUGIN=$RNP_BUILD/emu/librnp_cuda.so run timeout "$seconds" "$RNP_BUILD/kcheck" --only cuda lm
		[[ $output == *"kcheck: ended in cuda: lm: "* ]] && break
	done
	assert_line --regexp '^.*kcheck: ended in cuda: lm: [a-z]'
}

@test "on-gpu: wrong use is one line and 64; nothing packed is 66" {
	refused 64 "--out" on_gpu run --dir "$DIR"
	refused 64 "no option" on_gpu run --fast
	refused 64 "usage" on_gpu walk
	refused 66 "pack" on_gpu run --dir "$BATS_FILE_TMPDIR/nowhere" --out "$OUT"
	run -0 on_gpu --help
	assert_output --partial "resumable"
}
