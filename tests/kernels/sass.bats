# scripts/sass: what nvcc made of the kernels, and whether it keeps to kernels/budgets.json.
load ../helper

setup() {
	command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] || skip "no nvcc: what the kernels compile to is not checked"
	cd "$ROOT"
}

@test "sass: a record a kernel, with registers, spills, blocks and the hot loop's instructions" {
	run_split scripts/sass --arch sm_90 kernels/dev/cuda/mem.cu
	assert_success
	jq -es 'length == 2 and all(.kind == "rnp.sass" and .arch == "sm_90" and .registers > 4 and .registers < 64 and .spill_bytes == 0 and
		.stack_bytes == 0 and .shared_bytes == 0 and .blocks_per_sm == 8 and .instructions > 20 and .hot.global >= 1 and .hot.branch >= 1 and
		.hot_instructions < .instructions and .hot_shared_cycles == 0) and ([.[] | select(.kernel | test("copy"))][0].hot_bytes | . >= 2 and . % 2 == 0)' <<<"$output"
	# what tests/bench/predict reads
	head -1 <<<"$output" | "$RNP_BUILD/benches/predict" step --gpu H100 - >/dev/null
}

@test "sass: hot loops keep to their budgets on sm_90, nothing spills" {
	run -0 scripts/sass --arch sm_90 --budgets --records "$BATS_TEST_TMPDIR/records" kernels/lm/cuda/attend_tensor.cu kernels/lm/cuda/attend_tensor_back.cu kernels/lm/cuda/attend_sm90a.cu kernels/lm/cuda/attend_back_sm90a.cu kernels/lm/cuda/swiglu_tensor.cu kernels/lm/cuda/swiglu_sm90a.cu kernels/dev/cuda/mma.cu kernels/lm/cuda/project.cu kernels/lm/cuda/project_bf16.cu kernels/lm/cuda/project_sm90a.cu kernels/dev/cuda/mem.cu kernels/bulk/cuda/product.cu
	assert_output ""
	# with these a step of 124M and 65,536 tokens takes what an H100 is expected to, SwiGLU apart, as a chip was faster so than
	# with the products in it, whose prediction of 96 ms did not hold; without cuBLASLt no more than a tenth more
	"$RNP_BUILD/benches/predict" step --gpu H100 "$BATS_TEST_TMPDIR/records" >"$BATS_TEST_TMPDIR/step"
	jq -es '.[-1].ns < 100e6 and any(.kernel == "swiglu_kernel<unsigned short>") and
		any(.kernel == "attend_wide_kernel<64, false>" and .issue_ns > 0 and .ns < 4e6) and
		([.[] | select(.kernel | startswith("attend_back_wide_kernel<64,")) | select(.issue_ns > 0) | .ns] | length == 2 and add < 12e6)' "$BATS_TEST_TMPDIR/step"
	# of 7B tensor cores are the limit of attention, not what warps issue or shared memory moves
	"$RNP_BUILD/benches/predict" step --gpu H100 --model 7b "$BATS_TEST_TMPDIR/records" |
		jq -es '[.[] | select(.kernel | test("^attend_(back_)?wide_kernel<128,"))] | length == 3 and all(.limit == "tensor" and .issue_ns > 0)'
	"$RNP_BUILD/benches/predict" step --gpu H100 --without-library "$BATS_TEST_TMPDIR/records" |
		jq -es '.[-1].ns < 105e6 and any(.kernel == "swiglu_product_kernel<true>" and .issue_ns > 0 and .issue_ns < .tensor_ns)'
	# and a token of 7B takes what its weights' bytes take, but for six launches a layer
	"$RNP_BUILD/benches/predict" step --gpu H100 --work token --model 7b "$BATS_TEST_TMPDIR/records" |
		jq -es '.[0].issue_ns > 0 and .[0].limit == "hbm" and .[-1].tokens_per_s >= 210'
}

@test "sass: gradients are compressed and expanded at 400 GB/s of f32 or more on an H100, with error feedback too, and coded at 400 GB/s" {
	run -0 scripts/sass --arch sm_90 --budgets --records "$BATS_TEST_TMPDIR/records" kernels/grad/cuda/{quant,quant_blocks,quant_wide,huff_put,huff_get}.cu
	assert_output ""
	predict() { "$RNP_BUILD/benches/predict" step --gpu H100 --values 134217728 "$@" "$BATS_TEST_TMPDIR/records" >"$BATS_TEST_TMPDIR/predicted" && tail -1 "$BATS_TEST_TMPDIR/predicted"; }
	for skewed in "" --skewed; do
		for method in q8:sigma q8 q4 ecq; do
			predict --work compress --method "$method" --feedback $skewed | jq -e '.values_per_s * 4 >= 400e9' || fail "compress $method $skewed"
			predict --work expand --method "$method" $skewed | jq -e '.values_per_s * 4 >= 400e9' || fail "expand $method $skewed"
			# nothing stands there without its instructions
			jq -es 'all(.unknown | not)' "$BATS_TEST_TMPDIR/predicted"
		done
		for work in encode decode; do
			predict --work "$work" $skewed | jq -e '.values_per_s >= 400e9' || fail "$work $skewed"
		done
	done
	# what is added to and left of a value passes the memory once
	predict --work compress --method q4 --feedback
	jq -es 'any(.kernel == "encode_blocks<7, false, true>" and .limit == "hbm" and .bytes == 13 * pow(2; 27))' "$BATS_TEST_TMPDIR/predicted"
}

@test "sass: no kernel that make has built spills, on any architecture" {
	# --built reads what ptxas said then; a build without nvcc's objects has nothing to read
	[[ -e build/obj/kernels/dev/cuda/mem.cu.ptxas ]] || skip "build/ holds no kernels: make all builds them"
	run -0 scripts/sass --built build --budgets
	assert_output ""
	run_split scripts/sass --built build kernels/grad/cuda/quant_topk.cu
	jq -es 'any(.kernel == "encode_topk" and .registers < 128 and .blocks_per_sm >= 2) and all(.kind == "rnp.sass")' <<<"$output"
	refused 66 "make has not built" scripts/sass --built "$BATS_TEST_TMPDIR"
}

@test "sass: contraction changes nothing where a header promises bits; a sum that a compiler may fuse is told" {
	# tests/soak/contraction has all kernels
	run -0 scripts/sass --arch sm_90 --contraction --budgets kernels/bulk/cuda/bulk.cu kernels/grad/cuda/outer.cu kernels/lm/cuda/project.cu
	assert_output ""
	mkdir -p "$BATS_TEST_TMPDIR/scripts"
	cp -r kernels "$BATS_TEST_TMPDIR/"
	cp scripts/sass "$BATS_TEST_TMPDIR/scripts/"
	sed -i 's/__dadd_rn(b\[i\], __dmul_rn(s, c\[i\]))/b[i] + s * c[i]/' "$BATS_TEST_TMPDIR/kernels/bulk/cuda/bulk.cu"
	run -1 cmp kernels/bulk/cuda/bulk.cu "$BATS_TEST_TMPDIR/kernels/bulk/cuda/bulk.cu"
	run -1 "$BATS_TEST_TMPDIR/scripts/sass" --arch sm_90 --contraction --budgets kernels/bulk/cuda/bulk.cu
	assert_output --regexp '^kernels/bulk/cuda/bulk.cu: triad_kernel on sm_90: -fmad changes its code: '
}

@test "sass: each file of kernels says what contraction may change" {
	run grep -L -e -fmad $(grep -l __global__ kernels/backend/*.cu kernels/*/cuda/*.cu)
	assert_output ""
}

@test "sass: what asks for an architecture itself is compiled for it, not from another's code" {
	# the Makefile compiles for 7.5, 8.0 and 10.0, and the files of CUDA_OWN_90 for 9.0 besides
	run grep -lE '__CUDA_ARCH__ *(==|!=|<=?|>=?) *(8[1-9]|9[0-9]|10[1-9]|1[1-9][0-9])[0-9]' kernels/backend/*.cu kernels/*/cuda/*.cu kernels/*/cuda/*.cuh kernels/*/*.h kernels/*/*/*.h
	assert_output "$(sed -n 's/^CUDA_OWN_90 := //p' Makefile)"
}

@test "sass: what CUDA 12 compiles for GPUs before sm_70 asks for nothing that they lack" {
	# as the plug-in for drivers of 525 to 575 is made; here seen without that toolkit, in what the compiler is given
	local file include given
	# nvcc is asked: what PATH has may be a wrapper, far from the toolkit's headers
	echo >"$BATS_TEST_TMPDIR/none.cu"
	include=$("$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)" --dryrun -c -o "$BATS_TEST_TMPDIR/none.o" "$BATS_TEST_TMPDIR/none.cu" 2>&1 |
		sed -n 's/^#\$ INCLUDES="-I\([^"]*\)".*/\1/p')
	[[ -f $include/cuda_runtime.h ]]
	preprocessed() {
		g++ -E -x c++ -std=c++17 -D__CUDACC__ "-D__CUDA_ARCH__=$1" -I. -I"$include" "$2" | sed -n '/^# .*"kernels\//,$p'
	}
	for file in $(grep -lE 'GRID_CONSTANT|__grid_constant__' kernels/backend/*.cu kernels/*/cuda/*.cu | grep -v _sm90a); do
		preprocessed 500 "$file" >"$BATS_TEST_TMPDIR/old"
		preprocessed 700 "$file" >"$BATS_TEST_TMPDIR/new"
		given=$(grep -c 'grid_constant' "$BATS_TEST_TMPDIR/new")
		((given >= 1))
		run grep grid_constant "$BATS_TEST_TMPDIR/old"
		assert_output ""
	done
	((${given:-0} >= 1)) # there are such files
	[[ -n ${NVCC12-} ]] || return 0
	for file in kernels/lm/cuda/paged.cu kernels/lm/cuda/project_bf16.cu; do
		"$NVCC12" -std=c++17 -I. -arch=compute_50 -ptx -o "$BATS_TEST_TMPDIR/ptx" "$file"
	done
	# its ptxas ends
	timeout 120 "$NVCC12" -std=c++17 -I. -arch=sm_90a -cubin -o "$BATS_TEST_TMPDIR/cubin" kernels/lm/cuda/swiglu_sm90a.cu
	timeout 120 "$NVCC12" -std=c++17 -I. -arch=sm_90a -cubin -o "$BATS_TEST_TMPDIR/cubin" kernels/lm/cuda/attend_sm90a.cu
	timeout 120 "$NVCC12" -std=c++17 -I. -arch=sm_90a -cubin -o "$BATS_TEST_TMPDIR/cubin" kernels/lm/cuda/attend_back_sm90a.cu
}

@test "sass: branches of sm_80 are read: the hot loop of a product holds its MMAs, and no more than a loop" {
	run_split scripts/sass --arch sm_80 kernels/lm/cuda/project_tensor.cu
	jq -es 'all(select(.kernel | test("project_tensor_kernel")) | .hot.mma >= 4 and .hot_instructions * 2 < .instructions and
		.hot_shared_cycles >= 4 * .hot.ldmatrix)' <<<"$output"
}

@test "sass: what is over its budget is told, and is 1" {
	mkdir -p "$BATS_TEST_TMPDIR/kernels/dev" "$BATS_TEST_TMPDIR/scripts"
	cp -r kernels "$BATS_TEST_TMPDIR/"
	cp scripts/sass "$BATS_TEST_TMPDIR/scripts/"
	jq '.all.registers = 8' kernels/budgets.json >"$BATS_TEST_TMPDIR/kernels/budgets.json"
	run -1 "$BATS_TEST_TMPDIR/scripts/sass" --arch sm_90 --budgets kernels/dev/cuda/mem.cu
	assert_line --regexp '^kernels/dev/cuda/mem.cu: copy_kernel on sm_90: registers is [0-9]+, the budget 8$'
	# a loop inside of others, and one that is not there
	jq '.kernels += [{file: "kernels/lm/cuda/attend_sm90a.cu", kernel: "attend_wide_kernel<64, true>", arch: ["sm_90a"],
		loop2_instructions: 300, loop30_instructions: 9, why: "a test"}]' kernels/budgets.json >"$BATS_TEST_TMPDIR/kernels/budgets.json"
	run -1 "$BATS_TEST_TMPDIR/scripts/sass" --arch sm_90 --budgets kernels/lm/cuda/attend_sm90a.cu
	assert_line --regexp ': attend_wide_kernel<64, true> on sm_90a: loop2_instructions is [0-9]+, the budget 300$'
	assert_line --regexp ': attend_wide_kernel<64, true> on sm_90a: loop30_instructions is 10, the budget 9$'
	assert_equal "${#lines[@]}" 2
	# products by wgmma that ptxas makes one after the other, which it says without a warning
	local file=kernels/lm/cuda/swiglu_sm90a.cu name=_Z21swiglu_product_kernelj why what
	mkdir -p "$BATS_TEST_TMPDIR/built/obj/kernels/lm/cuda"
	for why in "" "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry." "ptxas info    : (C7520) Potential Performance Loss: wgmma.mma_async instructions are serialized due to program dependence on compiler-inserted WG.AR in divergent path in the function '$name'"; do
		printf '%s\n' "$why" "ptxas info    : Compiling entry function '$name' for 'sm_90a'" \
			"    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" "ptxas info    : Used 168 registers, used 1 barriers" \
			>"$BATS_TEST_TMPDIR/built/obj/$file.ptxas"
		run scripts/sass --built "$BATS_TEST_TMPDIR/built" --budgets $file
		[[ $why == *C7508* ]] && what=setmaxnreg_ignored || what=serialized
		assert_output "${why:+$file: swiglu_product_kernel on sm_90a: $what is 1, the budget 0}"
	done
	refused 64 "no option" scripts/sass --quick
	refused 64 "--built does not" scripts/sass --built build --contraction
}
