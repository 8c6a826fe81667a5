# rnp-bench run --suite train and --suite serve: language models compared with the limits of the
# machine (roofline).
load helper

# Checks that the rates and shares in every record of a model are consistent.
agrees() {
	jq -es 'map(select(.params.flop_per_token)) | length > 0 and all(
		(.params.flop_per_token > 0) and (.params.bytes_per_token > 0) and (.unit == "tokens/s") and
		(.params.matrix_flop_per_s > 0) and (.params.memory_bytes_per_s > 0) and
		(.params | ((1e15 / .token_ns * .flop_per_token / .matrix_flop_per_s - .matrix_ppm) | fabs) < 2 + .matrix_ppm / .token_ns) and
		(.params.roof_ppm + 1 >= .params.matrix_ppm and .params.roof_ppm + 1 >= .params.memory_ppm) and
		(.params.roof_ppm <= 1 + ([.params.matrix_ppm, .params.memory_ppm] | max)))' <<<"$output" >/dev/null ||
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
