# tests/bench/predict: how long the kernels of a step should take on a GPU that need not be here.
load ../helper

predict() {
	"$RNP_BUILD/benches/predict" step "$@"
}

@test "predict: each kernel's limit, their sum last; compiled code tells the issue of instructions" {
	run_split predict --gpu H100 --work token --model 7b
	assert_success
	jq -es 'all(.kind == "rnp.prediction") and (.[0].part | startswith("linear layers")) and .[0].limit == "hbm" and .[0].unknown.issue_ns and
		(.[:-1] | map(.ns) | . == (sort | reverse)) and .[-1].kernel == "all" and
		((.[:-1] | map(.ns) | add) - .[-1].ns | fabs) < 100 and .[-1].tokens_per_s > 150 and .[-1].tokens_per_s < 250' <<<"$output"
	# a kernel that needs many instructions for each byte is limited by them; of other chips nothing is taken
	jq -nc '{kind: "rnp.sass", v: 1, file: "f", kernel: "project_wide_kernel<0, 1>", registers: 32, hot_bytes: 2,
		hot_instructions: 173} | (.arch = "sm_80" | .hot_instructions = 1), (.arch = "sm_90")' >"$BATS_TEST_TMPDIR/sass"
	run_split predict --gpu H100 --work token --model 7b --type f32 "$BATS_TEST_TMPDIR/sass"
	assert_success
	jq -es '.[0].part == "linear layers" and .[0].limit == "issue" and .[0].issue_ns + .[0].launch_ns == .[0].ns and .[-1].tokens_per_s < 60' <<<"$output"
	# attention whose operands pass through shared memory is limited by it, however few its instructions
	jq -nc '{kind: "rnp.sass", v: 1, file: "f", kernel: "attend_tensor_kernel<64, 2>", registers: 32,
		hot: {mma: 64}, hot_instructions: 128, hot_shared_cycles: 256} | .arch = ("sm_80", "sm_90")' >"$BATS_TEST_TMPDIR/shared"
	run_split predict --gpu A100 "$BATS_TEST_TMPDIR/shared"
	assert_success
	jq -es '[.[] | select(.part == "attention forward")][0] | .limit == "shared" and .shared_ns + .launch_ns == .ns and .issue_ns < .ns' <<<"$output"
	run_split predict --gpu H100 "$BATS_TEST_TMPDIR/shared"
	assert_success
	# attention by wgmma, of enough queries, whose tiles are counted loop by loop
	jq -es 'any(.kernel == "attend_wide_kernel<64, false>" and .limit == "tensor" and .unknown.issue_ns)' <<<"$output"
	predict --gpu H100 --tokens 1024 --length 1024 | jq -es 'any(.kernel == "attend_tensor_kernel<64, 2>")'
	# without cuBLASLt an H100 makes products by wgmma, and SwiGLU with its own; others have not
	jq -es 'any(.kernel == "swiglu_kernel<unsigned short>") and any(.kernel == "cuBLASLt") and
		any(.part == "norm\u0027s weights backward" and .limit == "latency" and .latency_ns > .hbm_ns) and
		any(.part == "embedding backward" and .limit == "hbm" and .latency_ns < .hbm_ns)' <<<"$output"
	run_split predict --gpu H100 --without-library
	assert_success
	jq -es 'any(.kernel | test("^wide_product_kernel<")) and any(.kernel == "swiglu_product_kernel<true>") and
		all(.kernel | test("^(multiply_kernel<|swiglu_kernel<|cuBLASLt)") | not)' <<<"$output"
	run_split predict --gpu A100 --without-library
	assert_success
	jq -es 'any(.kernel | test("^multiply_kernel<")) and all(.kernel | test("^(wide|swiglu)_product_kernel") | not)' <<<"$output"
	# compression: loop by loop, once all of a kernel's loops are known
	run_split predict --work decode "$BATS_TEST_TMPDIR/shared"
	assert_success
	jq -es 'length == 2 and .[0].limit == "hbm" and .[0].unknown.issue_ns and .[1].values_per_s > 1e11' <<<"$output"
	jq -nc '{kind: "rnp.sass", v: 1, file: "f", kernel: "decode_kernel", arch: "sm_90", registers: 32, hot_instructions: 1,
		functions: [("get_plane_warp", "add_lows_warp") | {name: ., instructions: 9000, loops: [
			{instructions: 4000, bytes: 0, shared_cycles: 9}, {instructions: 3000, bytes: 8, shared_cycles: 8},
			{instructions: 2000, bytes: 8, shared_cycles: 0}]}]}' >"$BATS_TEST_TMPDIR/loops"
	run_split predict --work decode "$BATS_TEST_TMPDIR/loops"
	assert_success
	jq -es '.[0].limit == "issue" and (.[0].unknown | not) and .[1].values_per_s < 1e11' <<<"$output"
	# bytes of a value: 5 for its symbol, 13 with what is added and left
	each() { predict --work compress --values 65536000 --method "$@" | jq -s "map(select(.kernel | test(\"^(carry|encode_(sigma|blocks|wide)|decode|remain|spread)\")) | .bytes) | add / 65536000"; }
	run -0 each q4
	assert_output 5
	run -0 each q4 --feedback
	assert_output 13
	run -0 each ecq --feedback
	assert_output 21
	run -0 each q8:sigma --feedback
	assert_output 13
	run -0 each q8:sigma
	assert_output 5
	run_split predict --work expand --method q4 --values 65536000
	jq -es 'length == 3 and any(.kernel == "decode_levels<7, false>" and .bytes == 5 * 65536000) and .[-1].values_per_s > 1e11' <<<"$output"
	run -64 predict --work compress --method q5
	refused 64 "values" predict --work encode --values 0
	refused 65 "no rnp.sass record for sm_120" predict --gpu RTX5090 "$BATS_TEST_TMPDIR/sass"
	echo '{"kind":"rnp.bench"}' >"$BATS_TEST_TMPDIR/other"
	refused 65 "rnp.sass" predict "$BATS_TEST_TMPDIR/other"
	refused 66 "nowhere" predict "$BATS_FILE_TMPDIR/nowhere"
	run -64 predict --gpu GTX
	assert_line --partial "A100|H100"
	refused 64 "tokens" predict --length 0
}

@test "predict: a table is no wider than a terminal of 80 columns" {
	on_terminal 80 "NO_COLOR=1 '$RNP_BUILD/benches/predict' step" >"$BATS_TEST_TMPDIR/screen"
	grep -qE '^part +launches +time +limit +share .* use$' "$BATS_TEST_TMPDIR/screen"
	# characters, not bytes
	run ! grep -E '^.{81}' "$BATS_TEST_TMPDIR/screen"
}
