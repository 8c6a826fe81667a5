# rnp-bench: its measurements are true, and it reports what it cannot measure.
# slow: whole suites
load ../helper

# Prints a field of the only record in $output
of() {
	jq -c "$1" <<<"$output"
}

@test "bench list: all tests of all suites, one record each" {
	run_split rnp-bench list
	assert_success
	assert_equal "$(jq -r '.suite + " " + .test' <<<"$output" | tr '\n' ,)" \
		"cpu matmul_f32,cpu matmul_bf16,cpu matmul_int8,cpu peak_f32,cpu peak_bf16,cpu peak_int8,cpu hash_chain,mem copy,mem triad,mem latency,disk sequential_write,disk sequential_read,disk random_read,disk random_write,gpu matmul_f32,gpu matmul_bf16,gpu matmul_f16,gpu matmul_f8,gpu matmul_int8,gpu copy,gpu triad,gpu random_read,gpu launch,gpu launch_queued,link host_to_device,link device_to_host,link host_to_device_pageable,link device_to_host_pageable,link device_to_device,compress copy,compress encode_none,compress decode_none,compress encode_lossless,compress decode_lossless,compress encode_f16,compress decode_f16,compress encode_bf16,compress decode_bf16,compress encode_fp8e4,compress decode_fp8e4,compress encode_fp8e5,compress decode_fp8e5,compress encode_q8,compress decode_q8,compress encode_q4,compress decode_q4,compress encode_ecq,compress decode_ecq,compress encode_ecq_chunk,compress decode_ecq_chunk,compress encode_e3m0,compress decode_e3m0,compress encode_qsgd,compress decode_qsgd,compress encode_topk,compress decode_topk,compress zstd_levels,compress zstd_levels_back,compress lz4_levels,compress lz4_levels_back,compress huff0_levels,compress huff0_levels_back,train matmul_bf16,train read,train step_nano,train step_mini,train step_small,train step_medium,train step_1b,train step_7b,serve matmul_f32,serve read,serve prefill_nano_f32,serve decode_nano_f32,serve prefill_nano_bf16,serve decode_nano_bf16,serve prefill_nano_q8_0,serve decode_nano_q8_0,serve prefill_nano_q4_0,serve decode_nano_q4_0,serve prefill_mini_f32,serve decode_mini_f32,serve prefill_mini_bf16,serve decode_mini_bf16,serve prefill_mini_q8_0,serve decode_mini_q8_0,serve prefill_mini_q4_0,serve decode_mini_q4_0,serve prefill_small_f32,serve decode_small_f32,serve prefill_small_bf16,serve decode_small_bf16,serve prefill_small_q8_0,serve decode_small_q8_0,serve prefill_small_q4_0,serve decode_small_q4_0,serve prefill_medium_f32,serve decode_medium_f32,serve prefill_medium_bf16,serve decode_medium_bf16,serve prefill_medium_q8_0,serve decode_medium_q8_0,serve prefill_medium_q4_0,serve decode_medium_q4_0,serve prefill_1b_f32,serve decode_1b_f32,serve prefill_1b_bf16,serve decode_1b_bf16,serve prefill_1b_q8_0,serve decode_1b_q8_0,serve prefill_1b_q4_0,serve decode_1b_q4_0,serve prefill_7b_f32,serve decode_7b_f32,serve prefill_7b_bf16,serve decode_7b_bf16,serve prefill_7b_q8_0,serve decode_7b_q8_0,serve prefill_7b_q4_0,serve decode_7b_q4_0,serve decode_nano_q8_0_b1_c128,serve decode_nano_q8_0_b4_c128,serve decode_nano_q8_0_b8_c128,serve decode_nano_q8_0_b16_c128,serve decode_nano_q8_0_b1_c512,serve decode_nano_q8_0_b4_c512,serve decode_nano_q8_0_b8_c512,serve decode_nano_q8_0_b16_c512,serve decode_small_q8_0_b1_c128,serve decode_small_q8_0_b4_c128,serve decode_small_q8_0_b8_c128,serve decode_small_q8_0_b16_c128,serve decode_small_q8_0_b1_c512,serve decode_small_q8_0_b4_c512,serve decode_small_q8_0_b8_c512,serve decode_small_q8_0_b16_c512,serve decode_small_q8_0_b1_c2048,serve decode_small_q8_0_b4_c2048,serve decode_small_q8_0_b8_c2048,serve decode_small_q8_0_b16_c2048,serve decode_small_q8_0_b1_c8192,serve decode_small_q8_0_b4_c8192,serve decode_small_q8_0_b8_c8192,serve decode_small_q8_0_b16_c8192,net down,net up,net ping,comm pingpong,comm pingpong_latency,comm pingpong_bandwidth,comm pingpong_crossover,comm allreduce,comm allreduce_latency,comm allreduce_bandwidth,comm allreduce_crossover,"
}

@test "bench run cpu: records fit their schema and are in order" {
	run_split rnp-bench run --suite cpu --quick --time 60ms
	assert_success
	# which peaks there are depends on the CPU
	assert_equal "$(jq -r .test <<<"$output" | grep -v peak | tr '\n' ,)" "matmul_f32,matmul_bf16,matmul_int8,hash_chain,"
	jq -es 'all(.low <= .median and .median <= .high and .samples >= 1 and (.throttled | type) == "boolean")' <<<"$output"
	jq -es 'all(.unit == {matmul_int8: "OP/s", peak_int8: "OP/s", hash_chain: "1/s"}[.test] // "FLOP/s")' <<<"$output"
	while read -r line; do
		python3 -c 'import json, sys, jsonschema
jsonschema.Draft202012Validator(json.loads(sys.argv[1])).validate(json.loads(sys.argv[2]))' \
			"$(rnp-bench --schema rnp.bench)" "$line"
	done <<<"$output"
}

@test "bench run compress: sizes and errors on all kinds of data, peers beside them, a picture" {
	cd "$BATS_TEST_TMPDIR"
	RNP_HUFF0=$BATS_FILE_TMPDIR/nowhere.so run_split rnp-bench run --suite compress --quick --time 20ms --plot p.svg
	assert_success
	jq -es 'map(select(.params.method)) | length == 26 and (map(.params.method) | unique | length == 13)' <<<"$output"
	jq -es 'map(select(.params.method)) | all(.params | .gauss_microbits > 0 and .laplace_microbits > 0 and .gradient_microbits > 0 and .trained_microbits > 0 and .adverse_microbits > 0)' <<<"$output"
	jq -es 'map(select(.test == "encode_ecq"))[0].params | .gauss_microbits < 3700000 and .gauss_error_ppm < 101500 and .gradient_microbits < 2000000' <<<"$output"
	jq -es 'map(select(.test == "encode_topk"))[0].params.gauss_microbits < 160000' <<<"$output"
	jq -es 'map(select(.test == "encode_ecq" or .test == "encode_ecq_chunk").params.trained_error_ppm) | length == 2 and all(. > 94000 and . < 101500)' <<<"$output"
	jq -es 'map(select(.test == "encode_none")) | .[0].params | .trained_error_ppm == 0 and .trained_microbits > 32000000' <<<"$output"
	jq -es 'map(select(.test | startswith("huff0"))) | length == 0' <<<"$output"
	# whichever of zstd and lz4 is installed is measured in both directions
	jq -es 'map(select(.params.peer)) | group_by(.params.peer) | all(length == 2 and all(.params.trained_microbits > 0))' <<<"$output"
	grep -q '>[^<]*encode_q8' p.svg
	# bits against errors: each method is a point
	grep -q 'bits an element' p.svg
	grep -q '>ecq:0.1<' p.svg
}

@test "bench run: device is the CPU's model, node the key's address, at the time given" {
	rnp-register keygen --out "$BATS_TEST_TMPDIR/key" >/dev/null
	RNP_NOW=2026-01-02T03:04:05Z run_split rnp-bench run --suite cpu --quick --time 20ms --key "$BATS_TEST_TMPDIR/key"
	assert_success
	assert_equal "$(jq -r .node <<<"$output" | sort -u)" "$(rnp-register address --key "$BATS_TEST_TMPDIR/key")"
	assert_equal "$(jq -r .at <<<"$output" | sort -u)" 2026-01-02T03:04:05Z
	assert_equal "$(jq -r .device <<<"$output" | sort -u)" "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | sort -u | head -1)"
	run_split rnp-bench run --suite cpu --quick --time 20ms
	assert_equal "$(jq -r '.unknown.node[:7]' <<<"$output" | sort -u)" "no key:"
	refused 66 "cannot open" rnp-bench run --key "$BATS_TEST_TMPDIR/absent"
}

@test "bench run: every level of instructions works, the reference is slower" {
	grep -q avx2 /proc/cpuinfo || skip "this CPU has no AVX2"
	local ref fast
	run_split env RNP_ISA=ref rnp-bench run --test hash_chain --test matmul_int8 --quick --time 20ms
	assert_success
	assert_equal "$(jq -r .params.kernel <<<"$output" | sort -u)" reference
	ref=$(jq 'select(.test == "matmul_int8").median' <<<"$output")
	run_split env RNP_ISA=avx2 rnp-bench run --test matmul_int8 --quick --time 20ms
	assert_success
	assert_equal "$(jq -r .test <<<"$output")" matmul_int8
	fast=$(jq .median <<<"$output")
	((fast > ref)) || fail "AVX2 $fast is not above the reference's $ref"
	run_split env RNP_ISA=sse9 rnp-bench run --suite cpu
	assert_equal "$status" 64
}

@test "bench run --test: a name that no suite has, or of a suite measured as a whole, is 64" {
	refused 64 "there is no 'matmul_int9'; did you mean 'matmul_int8'?" rnp-bench run --test matmul_int9
	refused 64 "there is no 'hash_chain'" rnp-bench run --suite mem --test hash_chain
	run_split rnp-bench run --suite cpu --suite gpus
	assert_equal "$status" 64
	[[ $stderr == *"'gpus' is not one of cpu|mem|"*"did you mean 'gpu'?"* ]]
	refused 64 "--suite comm measures it" rnp-bench run --test "$(rnp-bench list | jq -r 'select(.suite == "comm").test' | head -1)"
}

@test "bench run: the hash chain's rate agrees with a count of its own" {
	# openssl hashes blocks of 64 bytes with the same instructions; the results agree within
	# a factor of 20 or ours is wrong: others may have the processor during one of the two
	run_split rnp-bench run --suite cpu --quick --time 100ms
	local ours theirs
	ours=$(jq 'select(.test == "hash_chain").median' <<<"$output")
	theirs=$(openssl speed -elapsed -seconds 1 -bytes 32 sha256 2>/dev/null | awk '/^sha256/ { sub("k", "", $2); print int($2 * 1000 / 32) }')
	((ours > theirs / 20 && ours < theirs * 20)) || fail "$ours against openssl's $theirs"
}

@test "bench run mem: arrays beyond twice the caches" {
	run_split rnp-bench run --suite mem --quick --time 50ms
	[[ $status == 69 ]] && skip "too little memory here: $stderr"
	assert_success
	# the cycle for the latency takes 1 GiB at most
	jq -es 'all(.params.array_bytes >= 67108864 and (.test == "latency" or .params.array_bytes >= 2 * .params.cache_bytes))' <<<"$output"
	# a load from memory takes 30 ns at least, 10 us at most
	jq -es '.[2] | .test == "latency" and .unit == "ns" and .median > 30 and .median < 10000' <<<"$output"
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

@test "bench run mem: too little memory is 69 and says how much; all last-level caches count" {
	local cache=/sys/devices/system/cpu/cpu0/cache
	root /proc/meminfo "MemTotal: 9 kB\nMemAvailable:  100000 kB"
	refused 69 "97 MiB are available" rnp-bench run --suite mem --quick
	# two caches of 512 MiB, each shared by 8 of 16 CPUs: arrays of 4 GiB
	root /sys/devices/system/cpu/online 0-15 "$cache/index0/level" 1 "$cache/index0/size" 48K \
		"$cache/index3/level" 3 "$cache/index3/size" 524288K "$cache/index3/shared_cpu_list" 0-7
	refused 69 "needs 6144 MiB" rnp-bench run --suite mem --quick
	# the control group allows less than the machine has
	root /proc/meminfo "MemAvailable: 999999999 kB" /proc/self/cgroup 0::/ \
		/proc/self/mountinfo "1 2 0:3 / /cg rw - cgroup2 c rw" /cg/memory.max 10485760 /cg/memory.current 4194304
	refused 69 "6 MiB are available" rnp-bench run --suite mem --quick
}

@test "bench run: throttled when the control group's quota ran out meanwhile" {
	root /proc/self/cgroup 0::/ /proc/self/mountinfo "1 2 0:3 / /cg rw - cgroup2 c rw" \
		/cg/cpu.stat "usage_usec 7\nnr_periods 9\nnr_throttled 0"
	rnp-bench run --suite cpu --quick --time 300ms >"$BATS_TEST_TMPDIR/out" 3>&- &
	local pid=$! i=0
	until process_is_gone "$pid"; do
		sleep 0.02
		i=$((i + 1))
		echo "nr_throttled $i" >"$RNP_SYSROOT/cg/cpu.stat.new"
		mv "$RNP_SYSROOT/cg/cpu.stat.new" "$RNP_SYSROOT/cg/cpu.stat"
	done
	wait "$pid"
	assert_equal "$(jq .throttled "$BATS_TEST_TMPDIR/out" | head -1)" true
}

# Sets $dir to a directory on a real disk, or skips the test
disk_dir() {
	dir=$BATS_TEST_TMPDIR
	[[ $(stat -f -c %T "$dir") != tmpfs ]] || dir=$ROOT/build
	[[ $(stat -f -c %T "$dir") != tmpfs ]] || skip "no directory on a disk"
}

@test "bench run disk: four figures, and no file is left, also when interrupted" {
	disk_dir
	mkdir "$dir/bench"
	run_split rnp-bench run --suite disk --quick --size 16MiB --time 50ms --dir "$dir/bench"
	[[ $status == 69 ]] && skip "$stderr"
	assert_success
	assert_equal "$(jq -r '.test + " " + .unit' <<<"$output" | tr '\n' ,)" \
		"sequential_write B/s,sequential_read B/s,random_read ns,random_write ns,"
	jq -es 'all(.params.direct and .params.file_bytes == 16777216 and .median > 0)' <<<"$output"
	rnp-bench run --suite disk --size 64MiB --time 30s --dir "$dir/bench" >/dev/null 2>&1 3>&- &
	local pid=$!
	# its file has no name, so that nothing is left of it
	has_file() { find "/proc/$pid/fd" -lname "$dir/bench/*" | grep -q .; }
	wait_until 'its file' has_file
	kill -9 "$pid"
	wait "$pid" || true
	assert_equal "$(ls -A "$dir/bench")" ""
}

@test "bench run disk: many writes anywhere in a small file leave it readable" {
	disk_dir
	# each of the 2048 blocks is written several times between the reads that check them
	run_split rnp-bench run --suite disk --quick --size 8MiB --time 800ms --dir "$dir"
	[[ $status == 69 ]] && skip "$stderr"
	assert_success
}

@test "bench run disk: memory is no disk, no room is 74, no permission is 77, no directory is 66" {
	disk_dir
	if [[ -d /dev/shm && $(stat -f -c %T /dev/shm) == tmpfs ]]; then
		refused 69 "is in memory" rnp-bench run --suite disk --dir /dev/shm
	fi
	# a file system that takes O_DIRECT and ignores it
	echo '#define _GNU_SOURCE
		#include <fcntl.h>
		#include <stdarg.h>
		#include <sys/syscall.h>
		#include <unistd.h>
		int open(const char *path, int flags, ...) { va_list a; va_start(a, flags); int mode = va_arg(a, int); va_end(a);
			return syscall(SYS_openat, AT_FDCWD, path, flags & ~O_DIRECT, mode); }
		int fcntl(int fd, int what, ...) { va_list a; va_start(a, what); long arg = va_arg(a, long); va_end(a);
			return syscall(SYS_fcntl, fd, what, arg) | (what == F_GETFL ? O_DIRECT : 0); }' >"$dir/cached.c"
	"${CC:-gcc}" -c -fPIC -o "$dir/c.o" "$dir/cached.c" && objcopy --redefine-sym open=open64 --redefine-sym fcntl=fcntl64 "$dir/c.o" "$dir/c64.o" &&
		"${CC:-gcc}" -shared -o "$dir/cached.so" "$dir/c.o" "$dir/c64.o"
	LD_PRELOAD=$dir/cached.so refused 69 "reads from its cache in spite of O_DIRECT" rnp-bench run --suite disk --quick --dir "$dir"
	refused 74 "disk full" rnp-bench run --suite disk --dir "$dir" --size 8000PB
	refused 66 "No such file" rnp-bench run --suite disk --dir "$dir/absent"
	run --separate-stderr bash -c "ulimit -f 8192; rnp-bench run --suite disk --quick --time 1s --dir '$dir'"
	assert_equal "$status" 74
	[[ $stderr == *"cannot write the file"*"too large"* ]]
	mkdir -m 755 "$dir/closed"
	if ((EUID == 0)); then
		command -v setpriv >/dev/null || skip "root may write everywhere"
		chmod 755 "$dir" "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR" 2>/dev/null || true
		run --separate-stderr setpriv --reuid 65534 --clear-groups "$(command -v rnp-bench)" run --suite disk --quick --dir "$dir/closed"
		[[ $stderr != *"setpriv: "* ]] || skip "cannot become another user: $stderr"
	else
		chmod 555 "$dir/closed"
		run --separate-stderr rnp-bench run --suite disk --quick --dir "$dir/closed"
	fi
	assert_equal "$status" 77
}

@test "bench run: a device that is not there is 69, one that nobody knows 64" {
	RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/none refused 69 "/none: cannot open" rnp-bench run --suite gpu --device cuda:0
	RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/none RNP_DEVICE=cuda refused 69 "/none: cannot open" rnp-bench run --suite link
	run_split rnp-bench run --device tpu
	assert_equal "$status" 64
	run_split rnp-bench run --suite tpu
	assert_equal "$status" 64
}

@test "bench run --plot: a picture with the figures in it, the same for the same figures" {
	cd "$BATS_TEST_TMPDIR"
	root /sys/devices/system/cpu/online 0 # caches of unknown size: the mem suite takes little
	run_split rnp-bench run --suite cpu --suite mem --quick --time 8ms --size 16MiB --plot p.svg --metrics-file m.prom
	assert_success
	python3 - p.svg <<-'END'
		import sys, xml.etree.ElementTree as xml
		root = xml.parse(sys.argv[1]).getroot()
		assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
		for e in root.iter():
		    # self-contained: it loads nothing and runs nothing
		    assert e.tag.split("}")[1] in "svg title g rect line path text circle polygon clipPath style".split(), e.tag
		    assert not any(word in (e.text or "") for word in ("url(", "@import")) or "}style" not in e.tag, e.text
		    assert not any("href" in k or "http" in v for k, v in e.attrib.items()), e.attrib
	END
	for word in matmul_f32 hash_chain triad latency "roofline" "memory, as triad has it"; do
		grep -q ">[^<]*$word" p.svg || fail "no '$word' in the picture"
	done
	refused 73 "cannot create" rnp-bench run --suite mem --quick --time 8ms --plot "$PWD/absent/x.svg"
}

@test "bench run --metrics-file: what Prometheus reads, whole or not at all" {
	mkdir "$BATS_TEST_TMPDIR/m"
	cd "$BATS_TEST_TMPDIR/m"
	run_split rnp-bench run --suite cpu --quick --time 8ms --metrics-file m.prom
	assert_success
	python3 "$ROOT/tests/tools/prometheus.py" m.prom
	if command -v promtool >/dev/null; then promtool check metrics <m.prom; fi
	# the record's median, to the digit
	local want
	want=$(jq -r 'select(.test == "hash_chain") | .median' <<<"$output")
	grep -q "^rnp_bench_events_per_second{suite=\"cpu\",test=\"hash_chain\",device=\"[^\"]*\"} $want\$" m.prom
	[[ $(ls -A) == m.prom ]] || fail "more files than one: $(ls -A)"
	assert_equal "$(stat -c %a m.prom)" 644
	mkdir d
	refused 73 "cannot create" rnp-bench run --suite cpu --quick --time 8ms --metrics-file d
}

bench_record() { # test unit median low high
	printf '{"kind":"rnp.bench","v":1,"at":"2026-11-20T12:00:00Z","suite":"cpu","test":"%s","unit":"%s","median":%s,"low":%s,"high":%s,"samples":10,"params":{"n":8,"kernel":"%s"}}\n' "${@:1:5}" "${6:-x}"
}

@test "bench compare: intervals that overlap are no difference; worse beyond the threshold is 1" {
	cd "$BATS_TEST_TMPDIR"
	{ bench_record a B/s 100 90 110 && bench_record b ns 100 99 101 && bench_record c B/s 100 99 101; } >old
	{ bench_record a B/s 80 70 90 && bench_record b ns 104 103 105 && bench_record c B/s 130 120 140 y; } >new
	run_split rnp-bench compare old new
	assert_success
	assert_equal "$(jq -r '.verdict + " " + (.change_ppm | tostring)' <<<"$output" | tr '\n' ,)" \
		"no difference -200000,worse 40000,better 300000,"
	run_split rnp-bench compare old new --threshold 3.9
	assert_equal "$status" 1
	run_split rnp-bench compare old new --threshold 4
	assert_success
	run_split rnp-bench compare new old
	assert_equal "$status" 1
}

@test "bench compare: nothing in common, malformed and missing files" {
	cd "$BATS_TEST_TMPDIR"
	bench_record a B/s 100 90 110 >old
	bench_record b B/s 100 90 110 >new
	run_split rnp-bench compare old new
	assert_equal "$status" 65
	[[ $stderr == *"no test in common"* ]]
	echo '{"kind":"rnp.bench","v":1,"suite":"cpu"}' >new
	refused 65 "new:1: at: is missing" rnp-bench compare old new
	refused 66 "cannot open" rnp-bench compare old absent
	run_split rnp-bench compare old
	assert_equal "$status" 64
}

@test "bench run: a closed standard output is an error of writing" {
	run bash -c 'rnp-bench run --suite cpu --quick --time 10ms >/dev/full'
	assert_equal "$status" 74
}

@test "bench run: Ctrl-C prints the results so far and says so" {
	cd "$BATS_TEST_TMPDIR"
	rnp-bench run --suite cpu --time 20s >results 2>message 3>&- &
	running=$!
	# it is measuring once it has used a second of processor time
	has_worked() { (($(awk '{ print $14 + $15 }' "/proc/$running/stat") >= 100)); }
	wait_until 'a second of work' has_worked
	kill -INT "$running"
	status=0
	ended "$running" || status=$?
	assert_equal "$status" 75
	grep -q 'interrupted: these are the results so far' message
	jq -se 'length > 0 and all(.[]; .kind == "rnp.bench" and .median > 0)' results >/dev/null
}
