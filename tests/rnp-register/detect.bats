# rnp-register detect: what it finds on this machine and on captured trees of others.
load ../helper

setup_file() {
	local cc=${CC:-gcc}
	"$cc" -shared -fPIC -o "$BATS_FILE_TMPDIR/libnvidia-ml.so.1" "$ROOT/tests/fake/nvml.c"
	mkdir "$BATS_FILE_TMPDIR/old"
	"$cc" -shared -fPIC -DOLD -o "$BATS_FILE_TMPDIR/old/libnvidia-ml.so.1" \
		"$ROOT/tests/fake/nvml.c"
	"$cc" -shared -fPIC -I"$ROOT" -o "$BATS_FILE_TMPDIR/cuda.so" \
		"$ROOT/tests/fake/cuda.c"
}

# Makes tests/data/sys/NAME.tree the machine that detect examines.
tree() {
	export RNP_SYSROOT=$BATS_TEST_TMPDIR/root RNP_CUDA_PLUGIN=$BATS_TEST_TMPDIR/none.so
	awk -v root="$RNP_SYSROOT" '
		/^== / { if (file) close(file); file = root substr($0, 4)
			dir = file; sub("/[^/]*$", "", dir); system("mkdir -p \"" dir "\""); printf "" >file; next }
		{ print >file }' "$ROOT/tests/data/sys/$1.tree"
}

# Provides the driver's library and CUDA. $1: the fault to simulate in them
gpus() {
	export LD_LIBRARY_PATH=$BATS_FILE_TMPDIR RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/cuda.so FAKE_NVML=$1
}

# Writes the output of `detect --share all` to $BATS_TEST_TMPDIR/node.json; `is PATH VALUE` then
# checks it
detect() {
	rnp-register detect --share all "$@" >"$BATS_TEST_TMPDIR/node.json"
}
is() {
	assert_equal "$(jq -c "$1" "$BATS_TEST_TMPDIR/node.json")" "$2"
}

@test "detect: this machine, and the record fits its schema" {
	detect
	jq -e '.kind == "rnp.node" and .v == 1 and .cpu.threads >= 1 and .memory_bytes > 1e8' \
		"$BATS_TEST_TMPDIR/node.json"
	is .cpu.threads "$(getconf _NPROCESSORS_ONLN)"
	is .os.release "\"$(uname -r)\""
	is .memory_bytes $(($(awk '/MemTotal/ {print $2}' /proc/meminfo) * 1024))
	python3 - "$BATS_TEST_TMPDIR/node.json" "$(rnp-register --schema rnp.node)" <<-E
		import json, sys, jsonschema
		jsonschema.Draft202012Validator(json.loads(sys.argv[2])).validate(json.load(open(sys.argv[1])))
	E
}

@test "detect: a desktop: cores, clock, memory, system, no limits" {
	tree desktop
	detect
	is .cpu.model '"AMD Ryzen 7 5800X 8-Core Processor"'
	is .cpu.cores 4
	is .cpu.threads 8
	is .cpu.clock_max_mhz 4850
	is .cpu.isa '["sse4_2","avx","avx2","fma","f16c","bmi2","aes","vaes","vpclmulqdq","sha_ni"]'
	is .memory_bytes $((65762392 * 1024))
	is .os '{"name":"Linux","release":"6.8.0-45-generic","distribution":"Ubuntu 24.04.1 LTS","machine":"x86_64"}'
	is .limits '{"cgroup":2}'
}

@test "detect: NVMe, SSD and hard disk; no stick, loop or empty slot" {
	tree desktop
	detect
	is '[.disks[] | [.name, .type, .model, .size_bytes]]' \
		'[["nvme0n1","nvme","Samsung SSD 980 PRO 1TB",1000204886016],["sda","ssd","CT500MX500SSD1",500107862016],["sdb","hdd","ST4000DM004-2CV1",4000787030016]]'
}

@test "detect: a container: quota, memory, pids, pinned CPUs; virtual disks have no type" {
	tree container
	detect
	is .limits '{"cgroup":2,"cpu_milli":1500,"cpus":2,"memory_bytes":2147483648,"pids":512}'
	is .cpu.threads 6
	is .cpu.cores null
	is '.unknown["cpu.cores"]' '"/sys/devices/system/cpu shows no topology"'
	is '[.disks[].type]' '[null,null]'
	is '.unknown["disks[1].type"]' '"vda is a virtual disk"'
	is '.gpus' '[]'
}

@test "detect: nested groups of version 1: the smallest limit on the way up counts" {
	tree arm
	detect
	is .limits '{"cgroup":1,"cpu_milli":500,"memory_bytes":1073741824}'
	is .cpu.isa '["aes","asimd","asimddp","asimdhp","bf16","i8mm","sve","sha2"]'
	is '.unknown["cpu.model"]' '"/proc/cpuinfo does not name it"'
	is '.unknown.memory_bytes' '"/proc/meminfo has no MemTotal"'
	is '.cpu.model' null
	is '.memory_bytes' null
}

@test "detect: an empty root leaves a cause for everything" {
	mkdir "$BATS_TEST_TMPDIR/root"
	export RNP_SYSROOT=$BATS_TEST_TMPDIR/root
	detect
	for field in gpus cpu.model cpu.threads cpu.cores cpu.clock_max_mhz memory_bytes disks os.name limits; do
		is ".unknown[\"$field\"] | length > 5" true
	done
}

@test "detect: two GPUs, joined with CUDA by UUID and by PCI address" {
	tree desktop
	gpus two
	detect
	is '.gpus[0]' '{"uuid":"GPU-11111111-2222-3333-4444-555555555555","vendor":"NVIDIA","model":"NVIDIA GeForce RTX 4090","memory_bytes":25757220864,"driver":"580.95.05","compute_capability":"8.9","sm_count":128,"clock_max_mhz":3105,"power_limit_mw":450000,"pcie_gen":4,"pcie_width":16,"ecc":false,"mig":false}'
	is '.gpus[1] | [.model, .sm_count, .ecc, .mig, .power_limit_mw]' '["NVIDIA A100-SXM4-80GB",108,true,false,null]'
	is '.unknown["gpus[1].power_limit_mw"]' '"driver: NVML: Not Supported (3)"'
}

@test "detect: multi-instance mode: no multiprocessors of slices, no memory without permission" {
	tree desktop
	gpus mig
	detect
	is '.gpus[1] | [.mig, .sm_count, .memory_bytes]' '[true,null,null]'
	is '.unknown["gpus[1].memory_bytes"]' '"permission: NVML: Insufficient Permissions (4)"'
	is '.gpus[0].mig' false
}

@test "detect: a lost GPU is left out and named" {
	tree desktop
	gpus lost
	detect
	is '.gpus | length' 1
	is .unknown.gpus '"GPU 2 of 2: driver: NVML: GPU is lost (15)"'
}

@test "detect: no permission, driver not loaded, versions that differ, an old library: each its cause" {
	tree desktop
	FAKE_CUDA=fail
	export FAKE_CUDA
	gpus permission
	detect
	is .gpus null
	is .unknown.gpus '"permission: NVML: Insufficient Permissions (4)"'
	gpus notloaded
	detect
	is .unknown.gpus '"driver: NVML: Driver Not Loaded (9)"'
	gpus mismatch
	detect
	is '.unknown.gpus | startswith("library: NVML: Driver/library version mismatch (18); ")' true
	gpus two
	LD_LIBRARY_PATH=$BATS_FILE_TMPDIR/old
	detect
	is '.unknown.gpus | startswith("library: ")' true
	touch "$RNP_SYSROOT/.dockerenv"
	gpus permission
	detect
	is '.unknown.gpus | startswith("container: ")' true
}

@test "detect: GPUs on the bus but no library is not the same as no GPU" {
	tree desktop
	detect
	is .gpus null
	is '.unknown.gpus | startswith("library: libnvidia-ml.so.1: cannot open")' true
	rm -r "$RNP_SYSROOT"/sys/bus/pci/devices/* "$RNP_SYSROOT/proc/driver" "$RNP_SYSROOT/dev"
	detect
	is .gpus '[]'
	is .unknown.gpus null
}

@test "detect: without the driver's library CUDA alone is used" {
	tree desktop
	export RNP_CUDA_PLUGIN=$BATS_FILE_TMPDIR/cuda.so
	detect
	is '[.gpus[] | [.model, .sm_count, .compute_capability]]' \
		'[["NVIDIA A100-SXM4-80GB",108,"8.0"],["NVIDIA GeForce RTX 4090",128,"8.9"]]'
	is '.unknown["gpus[0].power_limit_mw"] | startswith("library: ")' true
}

@test "detect: the plug-in for CUDA 12 where the driver is too old for that of 13" {
	local dir=$BATS_TEST_TMPDIR/own version
	tree desktop
	unset RNP_CUDA_PLUGIN
	mkdir -p "$dir/bin" "$dir/lib"
	cp "$RNP_BUILD/bin/rnp-register" "$dir/bin/"
	for version in 13 12; do
		"${CC:-gcc}" -shared -fPIC -I"$ROOT" -DNEEDS=$((version * 1000)) -o "$dir/lib/cuda$version" \
			"$ROOT/tests/fake/cuda.c"
	done
	"${CC:-gcc}" -shared -fPIC -o "$dir/lib/libcuda.so.1" "$ROOT/tests/fake/libcuda.c"
	export LD_LIBRARY_PATH=$dir/lib
	model() { FAKE_DRIVER=$1 "$dir/bin/rnp-register" detect --share all | jq -r '.gpus[0].model'; }
	mv "$dir/lib/cuda13" "$dir/lib/librnp_cuda.so"
	assert_equal "$(model 12040)" "for CUDA 13000" # nothing else is there: CUDA says what is wrong
	mv "$dir/lib/cuda12" "$dir/lib/librnp_cuda12.so"
	assert_equal "$(model 13000)" "for CUDA 13000"
	assert_equal "$(model 13020)" "for CUDA 13000"
	assert_equal "$(model 12040)" "for CUDA 12000"
	assert_equal "$(model 11080)" "for CUDA 13000"
	assert_equal "$(model)" "for CUDA 13000"
	rm "$dir/lib/librnp_cuda.so"
	assert_equal "$(model 13000)" "for CUDA 12000"
}

@test "detect: a library that returns garbage gives no garbage" {
	tree desktop
	gpus garbage
	detect
	is '.gpus[0] | [(.model | test("^[?]+$")), .memory_bytes, .clock_max_mhz]' '[true,null,null]'
	is '.unknown["gpus[0].memory_bytes"]' '"driver: NVML says nothing sensible"'
}

@test "detect: CUDA that sees nothing, or fails, leaves the multiprocessors unknown" {
	tree desktop
	gpus two
	FAKE_CUDA=none detect
	is '.unknown["gpus[0].sm_count"]' '"CUDA does not see this GPU (CUDA_VISIBLE_DEVICES?)"'
	FAKE_CUDA=fail detect
	is '.unknown["gpus[0].sm_count"]' '"cudaErrorInsufficientDriver: too old"'
}

@test "detect: only what the operator opts in to is shared; causes of the rest are not told" {
	tree desktop
	run_split rnp-register detect
	assert_success
	assert_equal "$(jq -c '[.withheld, .disks, .os, (.cpu | length > 3)]' <<<"$output")" '[["disks","os"],null,null,true]'
	run_split rnp-register detect --share gpus,os
	assert_equal "$(jq -c '[.withheld, .cpu, .os.name]' <<<"$output")" \
		'[["cpu","memory_bytes","memory_bandwidth_bps","disks","limits","network"],null,"Linux"]'
	assert_equal "$(jq -c '.unknown | keys' <<<"$output")" '["gpus","node"]'
	run_split rnp-register detect --share none
	assert_equal "$(jq -c '[.gpus, (.withheld | length), .unknown.gpus]' <<<"$output")" '[null,8,null]'
	run_split rnp-register detect --share gpus,nonsense
	assert_equal "$status" 64
	[[ $stderr == *"no field 'nonsense'"* ]]
}

@test "detect: name, wallet and labels are what the operator says" {
	detect --name "my node" --wallet 11111111111111111111111111111111 --label country=DE \
		--label compliance=SOC2,GDPR --label host_type=data-center --label x_rack=b7 \
		--label peak_hours=22-6
	is '[.name, .wallet]' '["my node","11111111111111111111111111111111"]'
	is .labels '{"country":"DE","compliance":["SOC2","GDPR"],"host_type":"data-center","x_rack":"b7","peak_hours":"22-6"}'
	for bad in "--label country=Germany" "--label country=de" "--label country=1!" \
		"--label peak_hours=25-99" "--label peak_hours=17" "--label peak_hours=1-2-3" \
		"--label peak_hours=evening" "--label host_type=garage" "--label x" "--label =x" \
		"--label compliance=SOC9" "--wallet 0OIl" "--name ''"; do
		eval "run_split rnp-register detect $bad"
		assert_equal "$status" 64
		assert_equal "$output" ""
	done
}

@test "detect: node is the key's address; a key that is named must be there" {
	refused 66 "cannot open" rnp-register detect --key "$BATS_TEST_TMPDIR/absent"
	detect
	is .node null
	is '.unknown.node | startswith("no key: ")' true
}

@test "detect: measured figures come from --bench, of this machine only" {
	tree container
	local bench=$BATS_TEST_TMPDIR/bench cpu
	cpu="Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"
	record() { # suite test device unit median rest
		printf '{"kind":"rnp.bench","v":1,"at":"2026-11-20T12:00:00Z","suite":"%s","test":"%s","device":"%s","unit":"%s","median":%s,"low":1,"high":%s,"samples":9%s}\n' \
			"$1" "$2" "$3" "$4" "$5" "$5" "${6:-}"
	}
	{
		record mem triad "$cpu" B/s 61000000000
		record net down x B/s 117500000
		record net up x B/s 100000000
		record net ping x ns 9000999
		record cpu hash_chain "$cpu" 1/s 20000000 ',"clock_mhz":3750'
		record disk "sequential_read" x B/s 2000000000 ',"params":{"disk":"vda"}'
	} >"$bench"
	detect --bench "$bench"
	is .memory_bandwidth_bps 61000000000
	is .network '{"down_bps":940000000,"up_bps":800000000,"ping_us":9000}'
	is .cpu.clock_max_mhz 3750
	is '.disks[1].read_bps' 2000000000
	is '.unknown | keys' '["cpu.cores","disks[0].type","disks[1].type","node","os.distribution"]'
	detect
	is '.unknown.memory_bandwidth_bps' '"not measured: rnp-bench run --suite mem"'
	record mem triad "Another CPU" B/s 61000000000 >"$bench"
	refused 65 "measured on 'Another CPU'" rnp-register detect --bench "$bench"
	echo '{"kind":"rnp.bench","v":1}' >"$bench"
	refused 65 "$bench:1: at: is missing" rnp-register detect --bench "$bench"
	refused 66 "cannot open" rnp-register detect --bench "$bench.absent"
}

# pci ADDRESS VENDOR CLASS [FILE=TEXT...]: a device on the bus
pci() {
	local dir=$RNP_SYSROOT/sys/bus/pci/devices/$1 file
	mkdir -p "$dir"
	echo "$2" >"$dir/vendor" && echo "$3" >"$dir/class"
	for file in "${@:4}"; do
		mkdir -p "$(dirname "$dir/${file%%=*}")"
		printf '%b\n' "${file#*=}" >"$dir/${file%%=*}"
	done
}

@test "detect: a driver that hangs or faults ends nothing, and the GPUs that answer are told" {
	tree desktop
	gpus dead
	rnp-register detect --share all >"$BATS_TEST_TMPDIR/dead" 3>&- &
	local dead=$!
	gpus hang
	detect --gpus 1
	is '.gpus | map(.model)' '["NVIDIA A100-SXM4-80GB"]'
	is '.unknown.gpus' '"GPU 1 of 2: driver: NVML does not answer within 5 s"'
	is '.unknown["gpus[0].sm_count"]' '"driver: NVML does not answer, so CUDA was not asked"'
	gpus crash
	detect
	is '[.gpus, .unknown.gpus]' '[null,"driver: NVML crashed"]'
	wait "$dead"
	assert_equal "$(jq -c '[.gpus, .unknown.gpus, .cpu.threads]' "$BATS_TEST_TMPDIR/dead")" '[null,"driver: NVML does not answer within 5 s",8]'
}

@test "detect: a module whose memory is the system's (DGX Spark, Jetson) has that" {
	tree desktop
	gpus shared
	detect
	is '.gpus | map([.model, .memory_bytes])' '[["NVIDIA GB10",67340689408],["Orin (nvgpu)",67340689408]]'
	is '.unknown["gpus[0].memory_bytes"]' null
}

@test "detect: --gpus shares some GPUs, by number or uuid, with their own causes" {
	tree desktop
	gpus two
	detect --gpus 1
	is '.gpus | map(.uuid)' '["GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"]'
	is '.unknown["gpus[0].power_limit_mw"]' '"driver: NVML: Not Supported (3)"'
	is '[.unknown | keys[] | select(startswith("gpus[1]"))]' '[]'
	detect --gpus gpu-11111111-2222-3333-4444-555555555555
	is '.gpus | map(.model)' '["NVIDIA GeForce RTX 4090"]'
	is '[.unknown | keys[] | select(startswith("gpus"))]' '[]'
	run_split rnp-register detect --gpus 0,7
	assert_success
	assert_equal "$stderr" "rnp-register: --gpus: there is no GPU 7 that answers"
	assert_equal "$(jq -c '[(.gpus | length), .unknown.gpus]' <<<"$output")" '[1,"no GPU 7 of --gpus answers"]'
	# none of them: what it has is not known, and not none
	run_split rnp-register detect --gpus 7
	assert_equal "$(jq .gpus <<<"$output")" null
	refused 64 "--gpus: 'first' is neither a number" rnp-register detect --gpus first
	refused 64 "--gpus: '' is neither a number" rnp-register detect --gpus 0,
}

@test "detect: AMD's GPUs by amdgpu; what is there and cannot be read is not none, what only shows a picture is" {
	tree container
	pci 0000:c1:00.0 0x1002 0x120000 device=0x74a1 mem_info_vram_total=206141652992 'pp_dpm_sclk=0: 132Mhz\n1: 2100Mhz *' \
		'max_link_speed=32.0 GT/s PCIe' max_link_width=16 hwmon/hwmon3/power1_cap=750000000
	pci 0000:03:00.0 0x1002 0x030000 device=0x744c revision=0xc8 mem_info_vram_total=25753026560
	pci 0000:05:00.0 0x1002 0x030000 device=0x7999 revision=0x01 'product_name=Radeon Y 1' mem_info_vram_total=8589934592
	pci 0000:0e:00.0 0x1002 0x030000 device=0x164e mem_info_vram_total=536870912
	pci 0000:07:00.0 0x1a03 0x030000
	pci 0000:00:02.0 0x8086 0x030000
	detect
	is '.gpus | map([.vendor, .model])' '[["AMD","AMD Radeon RX 7900 XTX"],["AMD","AMD Radeon Y 1"],["AMD","AMD Instinct MI300X"]]'
	is '.gpus[2]' '{"vendor":"AMD","model":"AMD Instinct MI300X","memory_bytes":206141652992,"clock_max_mhz":2100,"power_limit_mw":750000,"pcie_gen":5,"pcie_width":16}'
	is '.unknown["gpus[2].uuid"]' '"challenges are computed on NVIDIA GPUs only"'
	is '.unknown.gpus' null
	rnp-register detect --wallet 7Rs4zKWKRiWRNLAKStYPTXTDWo2mJfBwMv2C5c5YRxi |
		rnp-register check --policy rnp-021 >"$BATS_TEST_TMPDIR/checked" || [ "$?" = 1 ]
	# the policy pays the model, and no registry can have it proven
	assert_equal "$(jq -c '.requirements[] | select(.name == "gpu_model") | [.actual, .met]' "$BATS_TEST_TMPDIR/checked")" '["MI300X",false]'
	assert_equal "$(jq -c '.reasons | map(select(test("gpu_model"))) | length' "$BATS_TEST_TMPDIR/checked")" 1
	jq -e '.reasons | map(select(test("gpu_model: a GPU of AMD cannot be challenged: proofs of work run on NVIDIA.s GPUs and on CPUs, and is not paid"))) | length == 1' \
		"$BATS_TEST_TMPDIR/checked"
	# with NVIDIA's, in one list
	gpus two
	detect --gpus 1,2
	is '.gpus | map(.model)' '["NVIDIA A100-SXM4-80GB","AMD Radeon RX 7900 XTX"]'
	# without its driver, and Intel's
	rm -r "$RNP_SYSROOT/sys/bus/pci/devices"
	unset LD_LIBRARY_PATH
	export RNP_CUDA_PLUGIN=$BATS_TEST_TMPDIR/none.so
	pci 0000:07:00.0 0x1a03 0x030000
	detect
	is .gpus '[]'
	pci 0000:03:00.0 0x1002 0x030000 device=0x744c
	pci 0000:0c:00.0 0x8086 0x030000
	detect
	is '[.gpus, .unknown.gpus]' '[null,"AMD GPU at 0000:03:00.0: not read, because its driver amdgpu does not show it; Intel GPU at 0000:0c:00.0: not read, because only NVIDIA'"'"'s and AMD'"'"'s are"]'
	# a Jetson has its GPU on no bus
	rm -r "$RNP_SYSROOT/sys/bus/pci/devices"
	mkdir -p "$RNP_SYSROOT/etc"
	touch "$RNP_SYSROOT/etc/nv_tegra_release"
	detect
	is '[.gpus, (.unknown.gpus | startswith("a Jetson, "))]' '[null,true]'
}
