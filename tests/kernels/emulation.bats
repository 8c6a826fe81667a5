# The CUDA kernels in the emulation of tests/kernels/cuda_emu.h: with every access to memory checked, and with
# lanes run in orders that a GPU may choose although ours did not. tests/soak/lanes does so for all of them.
# slow: kernels run fiber by fiber
load ../helper

setup_file() {
	make -s -C "$ROOT" BUILD="$RNP_BUILD" NVCC= MPI= NCCL= "$RNP_BUILD/kcheck-race" >"$BATS_FILE_TMPDIR/log" 2>&1 ||
		{ cat "$BATS_FILE_TMPDIR/log"; return 1; }
}

@test "emulation: no access of a kernel races with another" {
	run -0 "$RNP_BUILD/kcheck-race" --only emu huff memfill sha256_rows int8 philox
	refute_output --partial FAIL
	refute_output --partial SKIP
	# one case of each kind; tests/soak/lanes has lm, which takes a minute so
	run -0 "$RNP_BUILD/kcheck-race" --each --only emu wgmma
	refute_output --partial FAIL
	assert_output --regexp 'wgmma +ok ([4-9]|[1-9][0-9])'
}

@test "emulation: any order of lanes between barriers gives the same bytes" {
	for seed in 1 2 3; do
		CUDA_EMU_SEED=$seed run -0 "$RNP_BUILD/kcheck" --only emu huff memfill lm_project
		refute_output --partial FAIL
		refute_output --partial SKIP
	done
}

@test "emulation: attention over a cache on GPUs without tensor cores is within its bound, of the same bits alone" {
	CUDA_EMU_TENSOR=0 run -0 "$RNP_BUILD/kcheck" --only emu lm_paged
	refute_output --partial FAIL
	assert_output --regexp 'lm_paged +ok [1-9]'
	# and so are linear layers
	CUDA_EMU_TENSOR=0 run -0 "$RNP_BUILD/kcheck" --each --only emu lm_project
	refute_output --partial FAIL
	assert_output --regexp 'lm_project +ok [1-9]'
}

@test "emulation: where wgmma adds otherwise it makes the few rows, too; where it does not work or begin it makes none, and that is told" {
	CUDA_EMU_WGMMA=1 run -0 "$RNP_BUILD/kcheck" --each --only emu lm_project
	refute_output --partial FAIL
	refute_output --partial note
	CUDA_EMU_WGMMA=2 run -0 "$RNP_BUILD/kcheck" --each --only emu lm_project
	refute_output --partial FAIL
	assert_line "kcheck: note: lm_project: cuda:0: some matrix products are slower than they could be: its wgmma computes something else"
	CUDA_EMU_SHARED=150000 run -0 "$RNP_BUILD/kcheck" --each --only emu lm_project
	refute_output --partial FAIL
	assert_line --partial "note: lm_project: cuda:0: some matrix products are slower than they could be: cuda:0: cudaFuncSetAttribute: "
	# a driver that makes maps of what is asked at the beginning, but not of every layer
	CUDA_EMU_MAP_MOST=72 run -0 "$RNP_BUILD/kcheck" --each --only emu lm_project
	refute_output --partial FAIL
}

@test "emulation: an operand in registers that changes before its product is waited for changes the product" {
	cd "$ROOT"
	sed 's/weigh_all<EDGE>(EDGE);/&\n\t\tpack();/' kernels/lm/cuda/attend_sm90a.cu >"$BATS_TEST_TMPDIR/attend_sm90a.cu"
	run -1 cmp "$BATS_TEST_TMPDIR/attend_sm90a.cu" kernels/lm/cuda/attend_sm90a.cu
	gcc -x c++ -std=gnu++17 -O2 -ffp-contract=off -fno-exceptions -fno-rtti -I. -D_GNU_SOURCE -DCUDA_EMU -Drnp_cuda_open=rnp_emu_open \
		-c -o "$BATS_TEST_TMPDIR/attend_sm90a.o" "$BATS_TEST_TMPDIR/attend_sm90a.cu"
	gcc -fopenmp -o "$BATS_TEST_TMPDIR/kcheck" "$RNP_BUILD"/obj/tests/kernels/*.o \
		$(find "$RNP_BUILD/race" -name '*.o' ! -name attend_sm90a.o) "$BATS_TEST_TMPDIR/attend_sm90a.o" \
		"$RNP_BUILD/librnp.a" -ljansson -lsodium -lsqlite3 -lm -ldl -lpthread
	run "$BATS_TEST_TMPDIR/kcheck" --each --only emu wgmma
	assert_failure
	assert_output --partial "attend bf16 2 heads on 1 of 64, 0 + 129"
	assert_output --partial "is farther from the reference than the bound"
	assert_output --regexp ': [0-9]+ of [0-9]+ words, to byte [0-9]+; the first is 0x[0-9a-f]{8} \(.+\), wanted 0x.* within .*, at byte [0-9]+'
}

@test "emulation: an mbarrier orders what was written before all arrivals, not what another lane wrote meanwhile" {
	cd "$ROOT"
	mkdir -p "$BATS_TEST_TMPDIR/kernels/lm/cuda"
	sed 's/__syncwarp(); \/\* all have waited, and written \*\///' kernels/lm/cuda/attend_back_load.cuh >"$BATS_TEST_TMPDIR/kernels/lm/cuda/attend_back_load.cuh"
	run -1 cmp -s "$BATS_TEST_TMPDIR/kernels/lm/cuda/attend_back_load.cuh" kernels/lm/cuda/attend_back_load.cuh
	gcc -x c++ -std=gnu++17 -O1 -g -fno-exceptions -fno-rtti -I"$BATS_TEST_TMPDIR" -I. -D_GNU_SOURCE -fsanitize=thread \
		--param=tsan-instrument-func-entry-exit=0 -DCUDA_EMU -Drnp_cuda_open=rnp_emu_open \
		-c -o "$BATS_TEST_TMPDIR/attend_back_sm90a.o" kernels/lm/cuda/attend_back_sm90a.cu
	gcc -fopenmp -o "$BATS_TEST_TMPDIR/kcheck" "$RNP_BUILD"/obj/tests/kernels/*.o \
		$(find "$RNP_BUILD/race" -name '*.o' ! -name attend_back_sm90a.o) "$BATS_TEST_TMPDIR/attend_back_sm90a.o" \
		"$RNP_BUILD/librnp.a" -ljansson -lsodium -lsqlite3 -lm -ldl -lpthread
	run "$BATS_TEST_TMPDIR/kcheck" --each --only emu wgmma
	assert_failure
	assert_output --partial "no barrier is between them"
	assert_output --partial "load_tiles"
}

@test "emulation: the race of a read behind a vote, as kernels/grad/cuda/huff_get.cu had it, is found, with its line" {
	cd "$ROOT"
	sed '/__any_sync(FULL, rc < 0)/,/__syncwarp/{/__syncwarp/d}' kernels/grad/cuda/huff_get.cu \
		>"$BATS_TEST_TMPDIR/huff_get.cu"
	run -1 cmp "$BATS_TEST_TMPDIR/huff_get.cu" kernels/grad/cuda/huff_get.cu
	gcc -x c++ -std=gnu++17 -O1 -g -fno-exceptions -fno-rtti -I. -D_GNU_SOURCE -fsanitize=thread \
		--param=tsan-instrument-func-entry-exit=0 -DCUDA_EMU -Drnp_cuda_open=rnp_emu_open \
		-c -o "$BATS_TEST_TMPDIR/huff_get.o" "$BATS_TEST_TMPDIR/huff_get.cu"
	gcc -fopenmp -o "$BATS_TEST_TMPDIR/kcheck" "$RNP_BUILD"/obj/tests/kernels/*.o \
		$(find "$RNP_BUILD/race" -name '*.o' ! -name huff_get.o) "$BATS_TEST_TMPDIR/huff_get.o" \
		"$RNP_BUILD/librnp.a" -ljansson -lsodium -lsqlite3 -lm -ldl -lpthread
	run "$BATS_TEST_TMPDIR/kcheck" --only emu huff
	assert_failure
	assert_output --partial "no barrier is between them"
	assert_output --partial "add_lows_warp"
}
