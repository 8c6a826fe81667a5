# rnp-bench run on a GPU: the suites gpu and link, the data recorded with them, and possible
# faults of a GPU. The plug-in is built from the CUDA sources, compiled for the CPU
# (tests/kernels/cuda_emu.h);
# the driver's library is a fake.
load ../helper

setup_file() {
	"${CC:-gcc}" -shared -fPIC -o "$BATS_FILE_TMPDIR/libnvidia-ml.so.1" "$ROOT/tests/fake/nvml.c"
	"${CC:-gcc}" -shared -fPIC -I "$ROOT" -o "$BATS_FILE_TMPDIR/wrong.so" "$ROOT/tests/fake/cuda_wrong.c" -ldl
	mkdir -p "$BATS_FILE_TMPDIR/nothing"
}

setup() {
	export RNP_CUDA_PLUGIN=$RNP_BUILD/emu/librnp_cuda.so CUDA_EMU_MEMORY=33554432
	export RNP_SYSROOT=$BATS_TEST_TMPDIR/root LD_LIBRARY_PATH=$BATS_FILE_TMPDIR
	mkdir -p "$RNP_SYSROOT/proc/driver/nvidia" "$RNP_SYSROOT/dev" "$RNP_SYSROOT/sys/bus/pci/devices/0000:01:00.0"
	echo x >"$RNP_SYSROOT/proc/driver/nvidia/version"
	: >"$RNP_SYSROOT/dev/nvidiactl"
	echo 0x10de >"$RNP_SYSROOT/sys/bus/pci/devices/0000:01:00.0/vendor"
	echo 0x030200 >"$RNP_SYSROOT/sys/bus/pci/devices/0000:01:00.0/class"
}

# One short run: the link suite takes the least time
link() {
	rnp-bench run --suite link --quick --time 8ms "$@"
}

no_driver() {
	rm -r "$RNP_SYSROOT"/proc "$RNP_SYSROOT"/dev/*
}

@test "bench run gpu: every test on the device table, and the record says what was measured" {
	run_split rnp-bench run --suite gpu --quick --time 8ms --device cuda:0
	assert_success
	assert_equal "$(jq -r '.test + " " + .unit' <<<"$output" | tr '\n' ,)" \
		"matmul_f32 FLOP/s,matmul_bf16 FLOP/s,matmul_f16 FLOP/s,matmul_f8 FLOP/s,matmul_int8 OP/s,copy B/s,triad B/s,random_read 1/s,launch ns,launch_queued ns,"
	jq -es 'all(.device == "emulation" and .median > 0 and .low <= .median and .median <= .high and .samples == 8)' <<<"$output"
	# without cuBLASLt our own tensor-core kernels take what they can
	assert_equal "$(jq -r '.test + " " + .params.kernel' <<<"$output" | head -5)" "$(printf '%s\n' "matmul_f32 sm_00" \
		"matmul_bf16 sm_00 mma" "matmul_f16 sm_00 mma" "matmul_f8 sm_00" "matmul_int8 sm_00 mma")"
	jq -es '.[0:5] | all(.params.n == 64)' <<<"$output"
	jq -es 'all(.clock_mhz == 1980 and .temperature_c == 54 and .other_users == 0 and .throttled == false)' <<<"$output"
	while read -r line; do
		python3 -c 'import json, sys, jsonschema
jsonschema.Draft202012Validator(json.loads(sys.argv[1])).validate(json.loads(sys.argv[2]))' \
			"$(rnp-bench --schema rnp.bench)" "$line"
	done <<<"$output"
}

@test "bench run link: there and back, pinned and pageable; between GPUs when there are two" {
	run_split link
	assert_success
	assert_equal "$(jq -r '.test + " " + (.params.memory // "")' <<<"$output" | tr '\n' ,)" \
		"host_to_device pinned,device_to_host pinned,host_to_device_pageable pageable,device_to_host_pageable pageable,"
	[[ $stderr == *"link device_to_device: left out: there is no second GPU"* ]]
	CUDA_EMU_DEVICES=2 run_split link
	assert_success
	assert_equal "$(jq -r 'select(.test == "device_to_device").params.from' <<<"$output")" emulation
}

@test "bench run: other users, heat and a slice of a GPU are in the record" {
	FAKE_NVML=busy run_split link
	jq -es 'all(.other_users == 2)' <<<"$output"
	FAKE_NVML=hot run_split link
	jq -es 'all(.throttled and .throttled_by == "power limit, heat" and .temperature_c == 91)' <<<"$output"
	FAKE_NVML=slice run_split link
	assert_success
	jq -es 'all(.clock_mhz == null and (.unknown.clock_mhz | length > 10))' <<<"$output"
	FAKE_NVML=notloaded run_split link
	assert_success
	jq -es 'all(.unknown.clock_mhz | contains("Driver Not Loaded"))' <<<"$output"
	LD_LIBRARY_PATH='' run_split link
	assert_success
	jq -es 'all(.unknown.clock_mhz | contains("libnvidia-ml.so.1"))' <<<"$output"
}

@test "bench run: no GPU, no driver, no plug-in, no permission: each by its name" {
	CUDA_EMU_DEVICES=0 refused 69 "no CUDA-capable device" link --device cuda
	refused 69 "there are 1 GPUs" link --device cuda:7
	refused 69 "the device asked for is 'cpu'" link --device cpu
	# a driver, but not the toolkit to build the plug-in with
	RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/none refused 69 "our CUDA plug-in is not: build it with nvcc" link
	# the plug-in without a driver: there is a GPU on the bus, or there is none
	no_driver
	CUDA_EMU_DRIVER=0 refused 69 "its driver is not loaded" link
	rm -r "$RNP_SYSROOT/sys"
	CUDA_EMU_DRIVER=0 refused 69 "no GPU and no driver are here" link
}

@test "bench run: device files that this user may not open are 77" {
	if ((EUID == 0)); then
		command -v setpriv >/dev/null || skip "root may open everything"
		chmod 700 "$RNP_SYSROOT/dev/nvidiactl"
		chmod 755 "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" 2>/dev/null || true
		CUDA_EMU_DEVICES=0 run --separate-stderr setpriv --reuid 65534 --clear-groups "$(command -v rnp-bench)" run --suite link
		[[ $stderr != *"setpriv: "* ]] || skip "cannot become another user: $stderr"
		# another user must be able to enter the folders that lead to the build
		[[ $stderr != *"failed to execute"* ]] || skip "$stderr"
	else
		chmod 0 "$RNP_SYSROOT/dev/nvidiactl"
		CUDA_EMU_DEVICES=0 run --separate-stderr link
	fi
	assert_equal "$status" 77
	[[ $stderr == *"may not open /dev/nvidiactl"* ]]
}

@test "bench run: a GPU without memory is 71, one that falls off the bus 69, with what was measured" {
	CUDA_EMU_MEMORY=1000000 refused 71 "no memory for" link
	CUDA_EMU_LOST=60 run_split link
	assert_equal "$status" 69
	[[ $stderr == *"link: cuda:0: cudaStreamSynchronize: unknown error"* ]]
	FAKE_NVML=gone run_split link --time 4s
	assert_equal "$status" 69
	[[ $stderr == *"link: cuda:0: driver: NVML: GPU is lost (15)"* ]]
}

# Runs a command with a GPU that has this fault
broken() {
	RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/wrong.so WRONG_CUDA_PLUGIN=$RNP_BUILD/emu/librnp_cuda.so WRONG_CUDA=$1 run_split "${@:2}"
}

@test "bench run: a GPU that computes or copies wrongly is 74 and no bug of ours; the other suites run" {
	cd "$BATS_TEST_TMPDIR"
	broken bytes rnp-bench run --suite cpu --suite disk --suite gpu --suite link --quick --time 8ms --size 16MiB
	assert_equal "$status" 74
	[[ $stderr == *"gpu: cuda:0: the matrix product of f32 is wrong"* &&
		$stderr == *"link: cuda:0: other bytes arrived than were sent"* && $stderr != *"bug"* ]]
	jq -es 'map(.suite) | unique | contains(["cpu", "disk"]) and (contains(["link"]) | not)' <<<"$output"
	head -c 1000000 /dev/zero >x.f32
	broken bytes rnp-train compress --method q8 --device cuda:0 x.f32 --out x.rnpg
	assert_equal "$status" 74
	[[ $stderr == *"gives sizes that cannot be"* && ! -e x.rnpg ]]
}

@test "bench run link: a second GPU that is there and does not open is an error" {
	CUDA_EMU_DEVICES=2 broken second link
	assert_equal "$status" 69
	[[ $stderr == *"link: cuda:1: GPU is lost"* && $stderr != *"left out"* ]]
}

@test "bench run: without a GPU the other suites run; one asked for by its device is still an error" {
	export CUDA_EMU_DEVICES=0
	cd "$BATS_TEST_TMPDIR"
	no_driver # and caches of unknown size, so that the mem suite takes little memory
	run_split rnp-bench run --quick --time 8ms --size 16MiB --backend tcp
	assert_success
	[[ $stderr == *"left out: gpu: cuda:0: "*"no CUDA-capable device"* && $stderr == *"left out: link: "* ]]
	jq -es 'map(.suite) | unique | contains(["cpu"]) and (contains(["gpu"]) | not)' <<<"$output"
	run_split rnp-bench run --suite cpu --suite disk --suite gpu --suite link --quick --time 8ms --size 16MiB --device cuda --dir "$BATS_TEST_TMPDIR/absent"
	assert_equal "$status" 66 # the first of the errors: the directory, then the GPU
	[[ $stderr == *"disk: "*"No such file"*"gpu: "*"link: "* ]]
	jq -es 'map(.suite) | unique | contains(["cpu"])' <<<"$output"
}

@test "auto: why a GPU that is there is not used is told once, and the CPU does the work; no GPU is no warning" {
	head -c 65536 /dev/zero >"$BATS_TEST_TMPDIR/g"
	cd "$BATS_TEST_TMPDIR"
	WRONG_CUDA_PLUGIN=$RNP_CUDA_PLUGIN WRONG_CUDA= RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/wrong.so \
		run_split rnp-train compress --method q8 --out a g
	assert_success
	assert_equal "$stderr" "rnp-train: cuda:0: GPU has fallen off the bus: using the CPU"
	RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/none/librnp_cuda.so run_split rnp-train compress --method q8 --out b g
	assert_success
	assert_equal "$stderr" ""
	cmp a b
}

@test "gpu: a chip or driver that this build has no kernels for is 69 with a sentence, before any operation" {
	head -c 65536 /dev/zero >"$BATS_TEST_TMPDIR/g"
	cd "$BATS_TEST_TMPDIR"
	CUDA_EMU_OLD=1 refused 69 "has no kernels for emulation" rnp-train compress --method q8 --device cuda --out a g
	# one whose driver lacks what the fastest products need goes on, and says so
	CUDA_EMU_NO_MAPS=1 run_split rnp-train compress --method q8 --device cuda --out b g
	assert_success
	assert_equal "$stderr" "rnp-train: cuda:0: some matrix products are slower than they could be: the driver has no tensor maps"
	CUDA_EMU_OLD=1 run_split rnp-train compress --method q8 --out a g
	assert_success
	[[ $stderr == *"has no kernels for"*": using the CPU" ]]
}

@test "gpu: a driver that does not begin is 69, with what to do where it does not say so itself; one that is busy is 75" {
	head -c 65536 /dev/zero >"$BATS_TEST_TMPDIR/g"
	cd "$BATS_TEST_TMPDIR"
	# cudaErrorSystemNotReady: an H100 behind an NVSwitch, before its fabric manager has run
	CUDA_EMU_ERROR=802 refused 69 "system not yet initialized (cudaErrorSystemNotReady); GPUs behind an NVSwitch need nvidia-fabricmanager to run" \
		rnp-train compress --method q8 --device cuda --out a g
	local e
	for e in 34 36 102 220 221 223 226 804 805 806 810; do
		CUDA_EMU_ERROR=$e refused 69 "cuda:0: cudaGetDeviceCount: " rnp-train compress --method q8 --device cuda --out a g
	done
	CUDA_EMU_ERROR=804 refused 69 "that of cuda-compat, not the driver's own" rnp-train compress --method q8 --device cuda --out a g
	CUDA_EMU_ERROR=34 refused 69 "a stub for linking" rnp-train compress --method q8 --device cuda --out a g
	for e in 807 808 809; do
		CUDA_EMU_ERROR=$e refused 75 "cuda:0: cudaGetDeviceCount: " rnp-train compress --method q8 --device cuda --out a g
	done
	# auto goes on with the CPU, and says why
	CUDA_EMU_ERROR=802 run_split rnp-train compress --method q8 --out a g
	assert_success
	[[ $stderr == *"nvidia-fabricmanager to run: using the CPU" ]]
}
