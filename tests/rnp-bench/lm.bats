# rnp-bench run --suite train and --suite serve: language models compared with the limits of the
# machine (roofline).
load ../helper

# Checks that the rates and shares in every record of a model are consistent; a share above 1 is not told.
agrees() {
	jq -es 'def share(name; want): .params[name] as $got | if $got then ($got <= 1000000) and (($got - want | fabs) < 2 + want / .params.token_ns)
			else .unknown["params." + name] != null and want > 999990 end;
		map(select(.params.flop_per_token)) | length > 0 and all(
		(.params.flop_per_token > 0) and (.params.bytes_per_token > 0) and (.unit == "tokens/s") and
		(.params.matrix_flop_per_s > 0) and (.params.memory_bytes_per_s > 0) and
		(1e15 / .params.token_ns) as $rate | ($rate * .params.flop_per_token / .params.matrix_flop_per_s) as $matrix |
		($rate * .params.bytes_per_token / .params.memory_bytes_per_s) as $memory |
		share("matrix_ppm"; $matrix) and share("memory_ppm"; $memory) and share("roof_ppm"; [$matrix, $memory] | max))' <<<"$output" >/dev/null ||
		fail "the records do not agree with themselves: $output"
}

fits_schema() {
	python3 -c 'import json, sys, jsonschema
v = jsonschema.Draft202012Validator(json.loads(sys.argv[1]))
for line in sys.stdin: v.validate(json.loads(line))' "$(rnp-bench --schema rnp.bench)" <<<"$output"
}

# root FILE CONTENT ...: makes a machine with these files the one that is measured
root() {
	export RNP_SYSROOT=$BATS_TEST_TMPDIR/root
	while (($#)); do
		mkdir -p "$RNP_SYSROOT${1%/*}"
		printf '%b\n' "$2" >"$RNP_SYSROOT$1"
		shift 2
	done
}

setup() {
	cd "$BATS_TEST_TMPDIR"
}

@test "bench run train: small presets, their roofs, a picture, metrics" {
	run_split rnp-bench run --suite train --quick --time 8ms --plot p.svg --metrics-file m.prom
	assert_success
	assert_equal "$(jq -r .test <<<"$output" | tr '\n' ,)" "step_nano,step_mini,matmul_bf16,read,"
	# 6 N and 12 layers heads head_dim length / 2, by hand: the norms, 11 x 128, are no
	# matrices
	assert_equal "$(jq -c 'select(.test == "step_nano").params | [.parameters, .flop_per_token == 6 * (.parameters - 11 * 128) + 12 * 5 * 128 * .length / 2]' <<<"$output")" "[1070464,true]"
	agrees
	fits_schema
	# one sample per segment, also of the limits, which are measured beside each model
	jq -es 'all(.samples == 8) and (map(select(.test == "read"))[0].repetitions >= 10)' <<<"$output"
	grep -q '>[^<]*step_nano' p.svg
	grep -q '>[^<]*roofline' p.svg
	grep -q '^rnp_bench_tokens_per_second{suite="train",test="step_nano"' m.prom
}

@test "bench run serve: prompts and decoding by type, bytes of the weights" {
	run_split rnp-bench run --suite serve --quick --time 8ms
	assert_success
	assert_equal "$(jq -r .test <<<"$output" | tr '\n' ,)" \
		"prefill_nano_f32,decode_nano_f32,prefill_nano_q8_0,decode_nano_q8_0,prefill_mini_f32,decode_mini_f32,prefill_mini_q8_0,decode_mini_q8_0,decode_nano_q8_0_b1_c128,decode_nano_q8_0_b4_c128,decode_nano_q8_0_b8_c128,decode_nano_q8_0_b16_c128,decode_nano_q8_0_b1_c512,decode_nano_q8_0_b4_c512,decode_nano_q8_0_b8_c512,decode_nano_q8_0_b16_c512,matmul_f32,read,"
	# f32 takes 4 bytes per parameter; q8_0 takes 34 for 32 of them, and its norms are f32
	assert_equal "$(jq -c 'select(.test == "decode_nano_f32").params | .weight_bytes == 4 * .parameters and .bytes_per_token == .weight_bytes' <<<"$output")" true
	assert_equal "$(jq -c 'select(.test == "decode_nano_q8_0").params | .weight_bytes == 34 / 32 * (.parameters - 11 * 128) + 4 * 11 * 128' <<<"$output")" true
	# the weights are read once for a batch, keys and values (f16, 5 layers, 128 wide) for each text; 32 tokens are missing on average
	assert_equal "$(jq -c 'select(.test == "decode_nano_q8_0_b8_c512").params | [.batch, .context, .cache_bytes, .bytes_per_token == (.weight_bytes / 8 + 2560 * (512 - 32))]' <<<"$output")" \
		"[8,512,1310720,true]"
	agrees
	fits_schema
}

@test "bench run train: what does not fit is left out and said" {
	root /proc/meminfo "MemAvailable: 190000 kB" /proc/self/cgroup 0::/
	run_split rnp-bench run --suite train --quick --time 8ms
	assert_success
	assert_equal "$(jq -r .test <<<"$output" | tr '\n' ,)" "step_nano,matmul_bf16,read,"
	[[ $stderr =~ "train mini: left out: it needs "[0-9]+" MiB, 185 MiB are available" ]] || fail "said: $stderr"
}

@test "bench run train: how long it takes is said first, and what was measured by Ctrl-C is told" {
	worked() { [[ $(awk '{print $14 + $15}' "/proc/$running/stat") -ge 600 ]]; }
	rnp-bench run --suite train --quick --time 60s >out.jsonl 2>said 3>&- &
	running=$!
	wait_until 'six seconds of work' worked
	kill -INT "$running"
	status=0
	ended "$running" || status=$?
	assert_equal "$status" 75
	[[ $(head -1 said) =~ "this takes about ".*"; Ctrl-C ends it, and prints what is measured by then" ]] || fail "$(<said)"
	grep -q 'interrupted: these are the results so far' said
	output=$(<out.jsonl)
	agrees
	jq -es 'map(.test) | index("step_nano") != null and index("matmul_bf16") != null' out.jsonl
	jq -es 'map(select(.test == "step_nano"))[0].samples < 8' out.jsonl
}
