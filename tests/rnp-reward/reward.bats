# rnp-reward: usage, epoch, explain, proof, verify. The ledger: ledger.bats.
load ../helper

usages=$ROOT/tests/data/man/usage.jsonl

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# pay FILE: one line `node job availability` for each reward, as tests/tools/reward.py prints them
pay() {
	jq -r 'select(.kind == "rnp.reward") |
		"\(.node) \(.job_base_units) \(.availability_base_units)"' "$1"
}

# tokens BASE_UNITS: in the form that the option takes
tokens() {
	printf '%d.%08d' $(($1 / 100000000)) $(($1 % 100000000))
}

# agrees POLICY [POOL_BASE_UNITS]: compares random usages to the last base unit, and the root
agrees() {
	rnp-reward epoch --policy "$1" ${2:+--pool "$(tokens "$2")"} random.jsonl >out
	diff <(pay out) <(python3 "$ROOT/tests/tools/reward.py" "$@" <random.jsonl)
	assert_equal "$(tail -1 out | jq -r .merkle_root)" "$(python3 "$ROOT/tests/tools/merkle.py" <out)"
	assert_equal "$(tail -1 out | jq .total_base_units)" \
		"$(jq -s 'map(.base_units // 0) | add' out)"
}

@test "epoch: 2000 random nodes are paid as Python's fractions say, to the last base unit" {
	python3 "$ROOT/tests/tools/reward.py" make 2000 11 >random.jsonl
	agrees rnp-004 123456789012345
	agrees rnp-006 8408520000000
	agrees rnp-006 99999999999999
	agrees rnp-019
	agrees rnp-021
	agrees rnp-021-per-node
	agrees rnp-001 123456789012345
	# in dollars: days of 24 h, and a price instead of a pool
	jq -c 'del(.gpu_worked_s) | .up_s = 0 | .worked_s = 0' random.jsonl >days && mv days random.jsonl
	for policy in rnp-023 rnp-023-gateway; do
		rnp-reward epoch --policy $policy --price 2.10 random.jsonl >out
		diff <(pay out) <(python3 "$ROOT/tests/tools/reward.py" $policy 2100000 <random.jsonl)
	done
}

@test "epoch: worked examples of the proposals" {
	rnp-reward epoch --policy rnp-021 "$usages" >out
	# two kinds of records, two tables: no row of dashes
	rnp-reward epoch --policy rnp-021 "$usages" --table >page
	grep -qE '^merkle root +[0-9a-f]{64}$' page || fail "$(<page)"
	! grep -qE -- '- +- +- +-' page || fail "$(<page)"
	assert_equal "$(jq -c 'select(.kind == "rnp.reward") |
		[.job_base_units, .availability_base_units, .base_units]' out | head -2)" \
		$'[1488095238,199000000,1687095238]\n[7440476190,200000000,7640476190]'
	assert_equal "$(jq -r 'select(.qualified == false).reasons[0]' out)" "gpu_model: not known"
}

@test "epoch: the pool of RNP-006 is the lower of 840,852 / 10 and 75 for each qualified node" {
	rnp-reward epoch --policy rnp-006 --left 840852 --epochs 10 <<<"$(head -1 "$usages")" >out
	assert_equal "$(tail -1 out | jq -c '[.scheduled_base_units, .pool_base_units]')" \
		"[8408520000000,7500000000]"
	for i in 1 2; do
		python3 "$ROOT/tests/tools/reward.py" make 1500 $i
	done | jq -c '.gpu_model = "RTX 4090" | .wallet = .node | .down_bps = 1000000000 |
		.up_bps = 1000000000 | .up_s = 1000 | del(.gpu_memory_bytes)' >many
	rnp-reward epoch --policy rnp-006 --left 840852 --epochs 10 many >out
	assert_equal "$(tail -1 out | jq .total_base_units)" 8408520000000
	run_split rnp-reward epoch --policy rnp-006 "$usages"
	assert_failure 64
	[[ $stderr == *--pool* ]]
	assert_equal "$output" ""
}

@test "epoch: RNP-023: 1,000 dollars of revenue are 280 tokens at 2.00, at other prices others" {
	try() { # POLICY CREDITS PRICE BASE_UNITS
		rnp-reward epoch --policy $1 --price $3 >out <<<"$(head -1 "$usages" |
			jq -c "del(.worked_s, .gpu_worked_s, .up_s, .from, .to) | .credits = $2")"
		assert_equal "$(head -1 out | jq .base_units)" "$4"
	}
	try rnp-023 600000000 2.00 28000000000
	try rnp-023 600000000 2.10 26666666666
	try rnp-023 600000000 1.90 29473684210
	try rnp-023-gateway 350000000 2.00 15500000000
	try rnp-023-gateway 350000000 2.10 14761904761
	try rnp-023-gateway 350000000 1.90 16315789473
	refused 64 "give --price" rnp-reward epoch --policy rnp-023 "$usages"
}

@test "epoch: RNP-001: credits share one half, passed challenges the other" {
	for i in 1 2 3; do
		jq -c ".credits = $((i == 1 ? 2 : 49)) | .challenges_passed = $((i == 1 ? 5 : 95 / 2 + i % 2))" <<<"$(sed -n ${i}p "$usages")"
	done >three
	rnp-reward epoch --policy rnp-001 --pool 1000 three >out
	# 2 of 100 credits: 2% of 500; 5 of 100 challenges: 5% of 500
	assert_equal "$(head -1 out | jq -c '[.job_base_units, .availability_base_units]')" \
		'[1000000000,2500000000]'
	assert_equal "$(tail -1 out | jq .total_base_units)" 100000000000
}

@test "epoch: earnings up to 100 dollars stay locked, at the epoch's price" {
	rnp-reward epoch --policy rnp-021 --price 2.00 "$usages" >out
	# 16.87 and 76.40 RENDER are 33.74 and 152.81 dollars: all of the first, 50 RENDER of
	# the second
	assert_equal "$(jq -c 'select(.qualified) | [.base_units, .locked_base_units]' out | head -2)" \
		$'[1687095238,1687095238]\n[7640476190,5000000000]'
	jq -c 'if .worked_s == 360000 then .staked_uusd = 99000000 else . end' "$usages" >staked
	rnp-reward epoch --policy rnp-021 --price 3.00 staked >out
	# a dollar at 3.00 is 0.33333334 RENDER: rounded up
	assert_equal "$(head -1 out | jq -c '[.base_units, .locked_base_units]')" '[1687095238,33333334]'
	rnp-reward verify --usage staked out
	node=$(head -1 staked | jq -r .node)
	rnp-reward proof --node "$node" out | rnp-reward verify
	assert_equal "$(rnp-reward explain --node "$node" --policy rnp-021 --price 3.00 staked |
		jq -r 'select(.step == "locked").value')" "0.33333334 RENDER"
	assert_equal "$(tail -1 out | jq .locked_base_units)" "$(jq -s 'map(.locked_base_units // 0) | add' <(sed '$d' out))"
	rnp-reward epoch --policy rnp-021 "$usages" | tail -1 | jq -e '.unknown.locked_base_units'
}

@test "epoch: caps of a wallet and of a month: what is over them stays in the pool" {
	jq '.name = "capped" | .caps = {wallet: "20"}' "$ROOT/cmd/rnp-reward/policies/rnp-021.json" >capped.json
	rnp-reward epoch --policy rnp-021 "$usages" >free
	rnp-reward epoch --policy ./capped.json --pool 1000 "$usages" >out
	assert_equal "$(jq -s 'map(select(.wallet)) | group_by(.wallet)[] | map(.base_units) | add' out | sort -n | tail -1)" 2000000000
	# the pay of nodes of one wallet is reduced together, in proportion, and nothing is lost
	assert_equal "$(tail -1 out | jq -c '[.pool_base_units]')" '[100000000000]'
	assert_equal "$(tail -1 out | jq .total_base_units)" "$(jq -s 'map(.base_units // 0) | add' <(sed '$d' out))"
	jq '.name = "monthly" | .pool = {per_month: "100"}' "$ROOT/cmd/rnp-reward/policies/rnp-021.json" >monthly.json
	rnp-reward epoch --policy ./monthly.json "$usages" >out
	# 100 x 604800 / 2629800, rounded down
	assert_equal "$(tail -1 out | jq .total_base_units)" $((10000000000 * 604800 / 2629800))
	refused 65 "GPUs have in 604800 s" rnp-reward epoch --policy rnp-021 - \
		<<<"$(head -1 "$usages" | jq -c '.gpu_worked_s = 604801')"
}

@test "policy check: bounds of ours, terms that nothing uses, pay that no input bounds" {
	for policy in "$ROOT"/cmd/rnp-reward/policies/*.json; do
		run_split rnp-reward policy check "$policy"
		case $policy in
		*rnp-023*) # dollars that were really burned are the bound
			assert_failure 1
			assert_equal "$(jq -r 'select(.ok | not).what' <<<"$output")" "pay job" ;;
		*rnp-019* | *rnp-021*) # scales that go on in proportion, and factors of the usage
			assert_equal "$(jq -r 'select(.ok | not).what' <<<"$output")" "pay job"
			# what a node says of itself beyond what bounds it
			claims="gpu_memory_bytes, gpu_clock_mhz, gpu_memory_bandwidth_bps"
			[[ $policy != *rnp-019* ]] || claims+=", down_bps, up_bps"
			assert_equal "$(jq -r 'select(.ok | not).reason' <<<"$output")" "no input bounds it ($claims): only --pool does" ;;
		*) assert_success ;;
		esac
	done
	run_split rnp-reward policy check testnet
	assert_equal "$(jq -r 'select(.what == "pay job") | .formula + " <= " + .at_most' <<<"$output")" \
		"10 x worked + 3 x score x uptime <= 13"
	jq '.name = "loose" | .terms += [{"name": "idle", "value": {"power": [{"field": "up_s"}, 2]}}]
		| .tables = {"old": {"T4": "1"}} | .pay.job.amount = {"field": "credits"}' \
		"$ROOT/cmd/rnp-reward/policies/testnet.json" >loose.json
	run_split rnp-reward policy check ./loose.json
	assert_failure 1
	assert_equal "$(jq -r 'select(.ok | not) | .what + ": " + .reason' <<<"$output")" \
		"table old: nothing uses it
term worked: nothing uses it
term score: nothing uses it
term idle: nothing uses it
pay job: no input bounds it (credits): only --pool does"
	assert_equal "$(jq -r 'select(.what == "term idle") | .formula + " <= " + .at_most' <<<"$output")" \
		"(up_s)^2 <= $((604800 * 604800))"
	refused 64 "check it" rnp-reward policy show testnet
	refused 64 "no policy" rnp-reward policy check nothing
}

@test "epoch: who passed fewer than half of an epoch's challenges is paid nothing" {
	for policy in rnp-006 rnp-019 rnp-021 rnp-021-per-node testnet; do
		for passed in 0 499999 500000 1000000; do
			rnp-reward epoch --policy $policy --pool 100 --price 2 >out <<<"$(head -1 "$usages" | jq -c --argjson p $passed '.passed_ppm = $p')"
			assert_equal "$policy $passed $(head -1 out | jq -c '[.qualified, .base_units > 0]')" \
				"$policy $passed $( ((passed < 500000)) && echo '[false,false]' || echo '[true,true]')"
		done
		head -1 "$usages" | jq -c '.passed_ppm = 0' | rnp-reward epoch --policy $policy --pool 100 --price 2 | head -1 |
			jq -e '.reasons[0] | startswith("challenges: ")'
	done
}

@test "epoch: the testnet pays a machine without a GPU" {
	rnp-reward epoch --policy testnet "$usages" >out
	assert_equal "$(sed -n 4p out | jq -c '[.qualified, .base_units > 0]')" "[true,true]"
	assert_equal "$(tail -1 out | jq -r .token)" TEST
}

@test "epoch: a policy is a file: a new one needs no new code" {
	cat >new.json <<-'POLICY'
		{"kind": "rnp.policy", "v": 1, "name": "new", "title": "a third per up hour, at most 5",
		 "epoch": {"seconds": 604800}, "requires": [],
		 "terms": [{"name": "hours", "value": {"divide": [{"field": "up_s"}, 3600]}}],
		 "pay": {"job": {"amount": {"least": ["5", {"divide": [{"term": "hours"}, 3]}]}}}}
	POLICY
	rnp-reward epoch --policy ./new.json >out \
		<<<'{"kind":"rnp.usage","v":1,"node":"J4tKqyDa5yTicVvypCpfySW9jf5b7owJcPvpKkMhZrqW","up_s":3600}'
	assert_equal "$(jq -s '.[0].base_units' out)" 33333333
	assert_equal "$(tail -1 out | jq -r .policy)" new
}

@test "epoch: one node twice is refused, naming both lines" {
	refused 65 "dup.jsonl:5: node J4tKqyDa5yTicVvypCpfySW9jf5b7owJcPvpKkMhZrqW has a usage already, in dup.jsonl:1" \
		sh -c 'cat "$1" >dup.jsonl; head -1 "$1" >>dup.jsonl
			rnp-reward epoch --policy rnp-021 dup.jsonl' sh "$usages"
}

@test "epoch: a device that two registries' usages name is paid once" {
	named() { jq -c --argjson d "$2" '.devices = $d' <<<"$1"; }
	named "$(sed -n 1p "$usages")" '["GPU-a", "GPU-b", "GPU-b"]' >east.jsonl
	{ sed -n 2p "$usages"; named "$(sed -n 3p "$usages")" '["GPU-c", "GPU-b"]'; } >west.jsonl
	rnp-reward epoch --policy rnp-021 east.jsonl >/dev/null
	rnp-reward epoch --policy rnp-021 west.jsonl >/dev/null
	refused 65 "west.jsonl:2: it names a device of node $(jq -r .node east.jsonl), in east.jsonl:1: a device is paid once" \
		rnp-reward epoch --policy rnp-021 east.jsonl west.jsonl
	# as usage has it, a uuid in capital letters names the same device
	sed -i 's/GPU-b/gpu-B/' west.jsonl
	refused 65 "west.jsonl:2: it names a device of node" rnp-reward epoch --policy rnp-021 east.jsonl west.jsonl
}

@test "epoch: bad usages are refused with line, field and reason, and nothing is written" {
	try() {
		{
			head -1 "$usages"
			sed -n 2p "$usages" | jq -c "$2"
		} >bad.jsonl
		refused 65 "$1" rnp-reward epoch --policy rnp-021 bad.jsonl
		assert_equal "$output" ""
		[[ $stderr == *bad.jsonl:2* ]]
	}
	try "worked_s" '.worked_s = -1'
	try "worked_s" '.worked_s = 604801'
	try "more than the 604800 s" '.up_s = 604801'
	try "up_s" '.up_s = 1.5'
	try "up_s" '.up_s = 1e300'
	try "up_s" '.up_s = "many"'
	try "node" 'del(.node)'
	try "node" '.node = "0OIl"'
	try "wallet" '.wallet = .wallet + "1"'
	try "v" '.v = 2'
	try "kind" '.kind = "rnp.node"'
	try "no such factor" '.factors = {"luck": 7}'
	try "factors" '.factors = {"gpu": -1}'
	try "factors" '.factors = {"gpu": 1e9}'
	try "another epoch" '.to = "2026-11-17T00:00:00Z"'
	printf '{"kind":"rnp.usage","v":1,' >bad.jsonl
	refused 65 "bad.jsonl:1" rnp-reward epoch --policy rnp-021 bad.jsonl
	refused 66 "nowhere" rnp-reward epoch --policy rnp-021 nowhere
	refused 65 "there are no rnp.usage records: an epoch needs at least one" rnp-reward epoch --policy rnp-021 /dev/null
	printf '{"kind":"rnp.usage","v":1,"node":"a","node":"b"}\n' >bad.jsonl
	refused 65 "bad.jsonl:1" rnp-reward epoch --policy rnp-021 bad.jsonl
}

@test "epoch: plain and other spellings of a usage are read alike" {
	python3 "$ROOT/tests/tools/reward.py" make 300 5 >plain.jsonl
	# an escape, a decimal string and an unknown field are parsed by the general code
	jq -c '.note = {"a": ["\u00e9\n"]} | if .up_s then .up_s |= tostring else . end' \
		plain.jsonl >other.jsonl
	rnp-reward epoch --policy rnp-019 plain.jsonl >a
	rnp-reward epoch --policy rnp-019 other.jsonl >b
	cmp a b
}

@test "epoch: gcc -O2 and clang -O0, one core and several, agree on every byte over 10,000 nodes" {
	command -v clang >/dev/null || skip "no clang"
	python3 "$ROOT/tests/tools/reward.py" make 10000 3 >random.jsonl
	# of the library only what the program needs: the kernels take a minute
	cd "$ROOT"
	make -s BUILD="$BATS_TEST_TMPDIR/clang" CC=clang OPENMP= OPT=-O0 \
		COMMON="$(echo common/{base,json,record,cli,net,http,httpd,httpsig,registry,chain,store,plot,hw}/*.c)" \
		KERNELS="$(echo kernels/dev/{library,cpu}.c kernels/crypto/*.c)" \
		"$BATS_TEST_TMPDIR/clang/bin/rnp-reward"
	cd "$BATS_TEST_TMPDIR"
	for policy in rnp-019 rnp-021 "rnp-006 --pool 84085.2" "rnp-004 --pool 1000"; do
		# the clang build is in another folder: name the policy's file
		set -- $policy
		rnp-reward epoch --policy $policy random.jsonl >a
		OMP_NUM_THREADS=1 rnp-reward epoch --policy $policy random.jsonl >b
		"$BATS_TEST_TMPDIR/clang/bin/rnp-reward" epoch \
			--policy "$ROOT/cmd/rnp-reward/policies/$1.json" "${@:2}" random.jsonl >c
		cmp a b
		cmp a c
	done
}

@test "epoch: a node takes less than 200 bytes of memory, from a pipe too, so that 10^7 fit in 2 GB" {
	cat >memory.py <<'EOT'
import resource, subprocess, sys
digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
def number(i):
    return "".join(digits[i // 58**k % 58] for k in range(4))
def peak(n, args):
    child = subprocess.Popen(["rnp-reward", "epoch", *args], stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True)
    for i in range(n):
        # the wallets have their first 28 bytes in common, as somebody might choose them
        child.stdin.write('{"kind":"rnp.usage","v":1,"node":"z%s%s","wallet":"z%s%s","gpu_model":"H200",'
            '"gpu_count":8,"gpu_memory_bytes":150754820096,"gpu_clock_mhz":1980,"cpu_cores":64,'
            '"gpu_memory_bandwidth_bps":4800000000000,"cpu_clock_mhz":3000,"worked_s":400000,'
            '"up_s":%d,"earned_uusd":4123456789,"credits":%d,"down_bps":1000000000,"up_bps":1000000000,'
            '"score_ppm":2000000,"gpu_worked_s":%d,"challenges_passed":40,"passed_ppm":990000,'
            '"reputation_ppm":980000,"staked_uusd":50000000}\n' % (number(i), "2" * 38, "3" * 38, number(i),
            600000 - i % 1000, i, 3000000 + i))
    child.stdin.close()
    assert child.wait() == 0
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
small = peak(50000, sys.argv[1:])
print((peak(200000, sys.argv[1:]) - small) // 150000)
EOT
	# rates cut to a pool, stakes and wallets; then two shares of a pool
	for options in "rnp-021 --pool 1000 --price 2.5" "rnp-001 --pool 1000"; do
		each=$(python3 memory.py --policy $options)
		echo "$options: $each bytes a node"
		((each < 200))
	done
}

@test "explain: every term with inputs, sources and exact values" {
	node=$(head -1 "$usages" | jq -r .node)
	rnp-reward explain --node "$node" --policy rnp-021 "$usages" >out
	assert_equal "$(jq -r 'select(.step == "uptime").value' out)" 0.995
	assert_equal "$(jq -r 'select(.step == "worked").value' out)" "0.595238095 (25/42)"
	assert_equal "$(jq -r 'select(.step == "total").value' out)" "16.87095238 RENDER"
	assert_equal "$(jq -r 'select(.part == "pay" and .step == "job").formula' out)" \
		"25 x multiplier x worked"
	[[ $(jq -r 'select(.step == "up_s").source' out) == *usage.jsonl:1 ]]
	jq -r 'select(.part == "note").source' out | grep -q 0.82
	# options of the epoch change the pay, and explain shows how: 2.5 x 1488095238.095..
	rnp-reward epoch --policy rnp-021 --job-scale 2.5 "$usages" >out
	assert_equal "$(jq -r 'select(.step == "job" and .part == "pay") | .formula + " = " + .value' \
		<(rnp-reward explain --node "$node" --policy rnp-021 --job-scale 2.5 "$usages"))" \
		"--job-scale 2.5 x (25 x multiplier x worked) = 37.20238095 RENDER"
	assert_equal "$(head -1 out | jq .job_base_units)" 3720238095
	rnp-reward epoch --policy rnp-021 --left 10 --epochs 2 "$usages" >out
	rnp-reward explain --node "$node" --policy rnp-021 --left 10 --epochs 2 "$usages" >pay
	assert_equal "$(jq -r 'select(.step == "total").value' pay)" \
		"$(tokens "$(head -1 out | jq .base_units)") RENDER"
	grep -q 'cut like all others to the pool of 5.00000000 RENDER' pay
	# what a stranger wrote gives the terminal no commands
	jq -c '.gpu_model = "\u001b[31mRTX\u0007 4090" | .sources.gpu_model = "\u001b]0;x\u0007"' \
		"$usages" >hostile
	rnp-reward explain --table --node "$node" --policy rnp-021 hostile >page
	grep -q "?\[31mRTX? 4090  (?\]0;x?)" page
	run -1 grep -q "[[:cntrl:]]" page
	# the pay comes last, and below it what is missing, each with its cause; no two rows have one name
	node=$(jq -r .node <<<"$(head -1 "$usages")")
	head -1 "$usages" | jq -c '.up_s = 0 | .sources.up_s = "no day that a trusted registry has signed"' >idle
	rnp-reward explain --node "$node" --policy rnp-021 idle | tail -1 >last
	assert_equal "$(jq -r '[.part, .step, .value, .source] | join("|")' last)" \
		"pay|not_paid|up_s: 0|no day that a trusted registry has signed"
	jq -c '.up_bps = 1000' idle | rnp-reward explain --node "$node" --policy rnp-021 | jq -r 'select(.step == "not_paid").value' >short
	grep -q "^upload: 1000 bit/s is not more than" short
	rnp-reward explain --table --node "$node" --policy rnp-021 idle >page
	assert_equal "$(grep -oE '^  (time up|up) ' page | xargs)" "time up"
	refused 1 "has no usage" rnp-reward explain --policy rnp-021 "$usages" \
		--node 11111111111111111111111111111111
}

@test "proof and verify: each wallet is proven, a changed amount is not" {
	python3 "$ROOT/tests/tools/reward.py" make 50 9 >random.jsonl
	rnp-reward epoch --policy rnp-019 random.jsonl >out
	for node in $(jq -r 'select((.base_units // 0) > 0).node // empty' out); do
		rnp-reward proof --node "$node" out
	done >proofs
	rnp-reward verify proofs >checks
	assert_equal "$(wc -l <checks)" "$(wc -l <proofs)"
	# every proof leads to the root of the epoch
	assert_equal "$(jq -r .merkle_root proofs | sort -u)" "$(tail -1 out | jq -r .merkle_root)"
	run_split rnp-reward verify <<<"$(head -1 proofs | jq -c '.unlocked_base_units += 1')"
	assert_failure 1
	run_split rnp-reward verify <<<"$(head -1 proofs | jq -c '.proof |= .[1:]')"
	assert_failure 1
	poor=$(jq -rs 'group_by(.wallet)[] | select((map(.base_units // 0) | add) == 0)[0].node // empty' \
		<(sed '$d' out) | head -1)
	refused 1 "" rnp-reward proof --node "$poor" out
	# with one of the paid rewards missing
	sed "$(grep -nm1 '"base_units":[1-9]' out | cut -d: -f1)d" out >part
	rich=$(jq -r 'select((.base_units // 0) > 0).node // empty' part | head -1)
	refused 65 "some are missing" rnp-reward proof --node "$rich" part
}

# flip FILE: for each line of FILE, and each field of it at any depth, the line with another value there, without it, and
# with one more field in each object
flip() {
	jq -c '. as $r
		| def other: if type == "number" then . + 1 elif type == "boolean" then not
			elif type == "string" then (if test("^[0-9]+$") then (tonumber + 1 | tostring)
				elif startswith("2") then "1" + .[1:] else "2" + .[1:] end)
			elif type == "array" then . + (if length > 0 then [.[0]] else ["x"] end) else empty end;
		(paths as $p | (try (setpath($p; getpath($p) | other)) catch empty), delpaths([$p])),
		(paths(type == "object") as $p | setpath($p + ["more"]; "x")), . + {more: 7}
		| select(. != $r)' "$1"
}

# each_refused FILE COMMAND...: the command refuses each of the lines of FILE (1, 65, or 64 for a policy that nobody knows)
each_refused() {
	local line code n=0
	while read -r line; do
		code=0
		"${@:2}" <<<"$line" >said 2>&1 || code=$?
		[[ $code == 1 || $code == 6[45] ]] || fail "exit $code: $line: $(cat said)"
		((++n))
	done <"$1"
	((n > 10)) || fail "only $n"
}

@test "verify: every field of what is read is hashed, signed or computed again, or else refused" {
	rnp-reward epoch --policy rnp-021 --price 2.00 "$usages" >out
	rnp-reward proof --all out | head -1 >proof
	rnp-reward verify proof
	# (without its leaf, which follows from the rest, it is the same proof)
	flip proof | jq -c 'select(.leaf)' >flipped
	# kinds of field that proofs had once
	for more in '.index = 0' '.policy = "rnp-021"' '.node = .wallet'; do jq -c "$more" proof >>flipped; done
	each_refused flipped rnp-reward verify
	# rewards and their epoch, against the usages; without them they are refused as they are
	run_split rnp-reward verify out
	assert_failure 1
	[[ $output == *'"what":"rewards","reason":"policy, reasons and terms are in no hash'* ]] || fail "$output"
	rnp-reward verify --usage "$usages" out
	rest=$(sed 1d out)
	with_rest() { { cat; echo "$rest"; } | rnp-reward verify --usage "$usages"; }
	flip <(head -1 out) >flipped
	each_refused flipped with_rest
	rest=$(sed '$d' out)
	flip <(tail -1 out) >flipped
	each_refused flipped with_rest
	# a row of a ledger: its signature, or the ledger, has what no usage tells
	rnp-register keygen --out k.json >/dev/null
	for how in "--key k.json" ""; do
		rm -f db*
		# shellcheck disable=SC2086
		rnp-reward epoch -q --policy rnp-021 --price 2.00 --store db $how "$usages" >out
		rest=$(sed '$d' out)
		tail -1 out | flip - >flipped
		if [[ $how ]]; then
			rnp-reward verify --usage "$usages" out
			# who has signed it is in the signature, too; without one nobody vouches for the rest
			each_refused flipped with_rest
		else
			refused_alone=$(rnp-reward verify --usage "$usages" out) && fail "an unsigned row alone is good"
			[[ $refused_alone == *"sequence is neither signed nor hashed here: look it up with --store"* ]] || fail "$refused_alone"
		fi
		with_store() { { cat; echo "$rest"; } | rnp-reward verify --store db --usage "$usages"; }
		rnp-reward verify --store db --usage "$usages" out
		each_refused flipped with_store
	done
}

@test "proof --all: the same proofs as one by one, of every wallet, for trees of every shape" {
	for n in 1 2 3 5 8 50 1025; do
		python3 "$ROOT/tests/tools/reward.py" make $n $n | jq -c '.wallet = .node | .gpu_model = "RTX 4090"
			| del(.down_bps, .up_bps)' >random.jsonl
		rnp-reward epoch --policy rnp-021 --price 0.01 random.jsonl >out
		rnp-reward proof --all out >all
		rnp-reward verify all | jq -se 'all(.ok)' >/dev/null
		assert_equal "$(wc -l <all)" "$(tail -1 out | jq .claimants)"
		assert_equal "$(jq -r .merkle_root all | sort -u)" "$(tail -1 out | jq -r .merkle_root)"
		wallet=$(tail -1 all | jq -r .wallet)
		assert_equal "$(rnp-reward proof --node "$wallet" out | jq -cS .)" \
			"$(tail -1 all | jq -cS .)"
	done
	refused 64 "--node or --all" rnp-reward proof out
	refused 64 "--node or --all" rnp-reward proof --all --node "$wallet" out
	sed 1d out >part
	refused 65 "some are missing" rnp-reward proof --all part
}

@test "verify: an epoch is computed again; the first difference is named" {
	rnp-reward epoch --policy rnp-006 --pool 150 "$usages" >out
	rnp-reward verify --usage "$usages" out
	run_split rnp-reward verify --usage "$usages" \
		<<<"$(jq -c 'if .kind == "rnp.reward" then .terms.s_ppm += 1 else . end' out)"
	assert_failure 1
	assert_equal "$(jq -r 'select(.what == "recomputed").reason' <<<"$output")" \
		"reward 1: terms.s_ppm is 859001, computed 859000"
	run_split rnp-reward verify <<<"$(sed 2d out)"
	assert_failure 1
	[[ $output == *"nodes is 3 by the rewards, 4 by the epoch"* ]]
	run_split rnp-reward verify --usage "$usages" <<<"$(jq -c '
		if .policy_sha256 then .policy_sha256 |= gsub("[0-9]"; "0") else . end' out)"
	assert_failure 1
	[[ $output == *policy_sha256* ]]
	# the record stores scales in ppm: a scale with more digits could not be computed again
	run_split rnp-reward epoch --policy rnp-021 --job-scale 1.0000001 "$usages"
	assert_failure 64
	[[ $stderr == *"--job-scale: 1.0000001 has more than 6 decimals"* ]]
	rnp-reward epoch --policy rnp-021 --job-scale 1.000001 "$usages" >out
	rnp-reward verify --usage "$usages" out
	refused 65 "nothing to verify" rnp-reward verify <"/dev/null"
}

@test "verify: lines as epoch writes them and in other spellings are held alike" {
	local file
	rnp-reward epoch --policy rnp-021 "$usages" >out
	jq . --compact-output --sort-keys out >sorted # read the slow way
	for file in out sorted; do
		rnp-reward verify --usage "$usages" $file >good
		rnp-reward verify --usage "$usages" - <$file | cmp - good
		assert_equal "$(jq -s 'map(.ok)' -c good)" "[true,true]"
		# one base unit more, with its sum
		jq -c 'if .kind == "rnp.reward" then .job_base_units += 1 | .base_units += 1 else . end' $file >more
		for run in "more" "- <more"; do
			run_split eval "rnp-reward verify --usage '$usages' $run"
			assert_failure 1
			[[ $(jq -r 'select(.what == "recomputed").reason' <<<"$output") == "reward 1: "*"base_units is "*", computed "* ]] ||
				fail "$output"
		done
	done
	# what no other line of a file is parsed for is found where it differs: a key twice, no form of a record
	sed '1s/"terms":{/"terms":{"a_ppm":1,"a_ppm":1,/' out >twice
	sed '1s/"node":"[^"]*"/"node":"x"/' out >nobody
	for file in twice nobody; do
		run_split rnp-reward verify --usage "$usages" $file
		assert_failure
		[[ $output$stderr == *"reward 1"* || $stderr == *"$file:1"* ]] || fail "$output $stderr"
	done
	# beyond the usages, and none for one of them
	sed -n '1p;1,$p' out >longer
	run_split rnp-reward verify --usage "$usages" longer
	assert_failure 1
	jq -s 'all(.ok | not)' <<<"$output" | grep -q true
}

@test "verify: whatever was done to the records, a file and a pipe give the same checks and messages" {
	local edit n=0
	head -60 "$usages" >some
	rnp-reward epoch --policy rnp-021 some >out
	# files are first held against the computed bytes as a whole, a pipe is read with care at once
	for edit in '' '$s/"total_base_units":/&9/' '$s/"nodes":/&1/' '$s/}$/,"locked_base_units":5}/' '2d' '2{h;d};3G' \
		'2p' '2s/.*//' '2s/^/\n/' '2s/.$//' '2s/"base_units":[0-9]*/"base_units":7/' '2s/"node":"./"node":"0/' \
		'2i {"kind":"rnp.node","v":1}' '$d' '$!d' '$p' '$s/"policy":"rnp-021"/"policy":"rnp-019"/'; do
		sed "$edit" out >edited
		for file in some nowhere out; do
			rnp-reward verify --usage $file edited >file.out 2>file.err && a=0 || a=$?
			rnp-reward verify --usage $file - <edited >pipe.out 2>pipe.err && b=0 || b=$?
			sed -i 's/edited:/stdin:/' file.err
			assert_equal "$a $(cat file.out file.err)" "$b $(cat pipe.out pipe.err)"
			[[ $a != 0 ]] || n=$((n + 1))
		done
	done
	# only the first and the one with a blank line are good
	assert_equal $n 2
}

@test "usage: uptime, work and score from signed records; strangers do not count" {
	rnp-register keygen --out node.json >/dev/null
	rnp-register keygen --out judge.json >/dev/null
	rnp-register keygen --out stranger.json >/dev/null
	node=$(rnp-register address --key node.json)
	judge=$(rnp-register address --key judge.json)
	stranger=$(rnp-register address --key stranger.json)
	jq -c ".node = \"$node\"" "$ROOT/tests/data/rtx4090.node.json" |
		rnp-register sign --key node.json >records
	for minute in $(seq -w 0 59); do
		[[ $minute == 2? ]] || # ten minutes of silence
			echo "{\"kind\":\"rnp.heartbeat\",\"v\":1,\"node\":\"$node\",
				\"at\":\"2026-11-20T12:$minute:00Z\",\"interval_s\":60,\"state\":\"idle\"}"
	done | jq -c . | rnp-register sign --key node.json >>records
	receipt() { # SIGNER JOB FROM TO UUSD
		echo "{\"kind\":\"rnp.receipt\",\"v\":1,\"node\":\"$node\",\"signer\":\"$1\",\"job\":\"$2\",
			\"from\":\"2026-11-20T$3Z\",\"to\":\"2026-11-20T$4Z\",\"earned_uusd\":$5}" | jq -c .
	}
	verdict() {
		echo "{\"kind\":\"rnp.verdict\",\"v\":1,\"node\":\"$node\",\"signer\":\"$judge\",
			\"at\":\"2026-11-20T12:0$1:00Z\",\"passed\":$2,\"checks\":[],
			\"readings\":$3}" | jq -c "$4"
	}
	{
		receipt "$judge" a 11:50:00 12:10:00 1001
		receipt "$judge" b 12:05:00 12:15:00 1000 # overlaps
		verdict 1 true '{"bandwidth":1000000000,"teraflops":82580000000000,"memory":25769803776,"clock":10000000}' '.score_ppm = 3'
		verdict 2 false '{}' .
	} | rnp-register sign --key judge.json >>records
	receipt "$stranger" c 12:00:00 13:00:00 999999999 | rnp-register sign --key stranger.json >>records
	head -5 records | tail -1 | sed 's/12:03/12:25/' >>records # a changed heartbeat
	set -- --from 2026-11-20T12:00:00Z --to 2026-11-20T13:00:00Z --trust "$judge" --heartbeats
	# duplicate records are not twice the work
	run_split rnp-reward usage "$@" records records
	assert_success
	# fifty heartbeats cover a minute each; the receipts cover 12:00 to 12:15; 501 of the
	# first one's 1001 uusd count
	assert_equal "$(jq -c '[.up_s, .worked_s, .earned_uusd, .score_ppm, .gpu_model]' <<<"$output")" \
		'[3000,900,1501,1,null]'
	assert_equal "$(grep -c 'nobody who is trusted' <<<"$stderr")" 2
	assert_equal "$(grep -c 'left out' <<<"$stderr")" 4
	run_split rnp-reward usage "$@" --policy rnp-004 records
	assert_equal "$(jq .score_ppm <<<"$output")" 8000000
	# two partial epochs add up to the whole
	sum=$(for half in "12:00:00Z 12:07:07Z" "12:07:07Z 13:00:00Z"; do
		read -r a b <<<"$half"
		rnp-reward usage -q --from "2026-11-20T$a" --to "2026-11-20T$b" --trust "$judge" records 2>/dev/null
	done | jq -s 'map(.earned_uusd) | add')
	assert_equal "$sum" 1501
	rnp-reward usage "$@" records 2>/dev/null | rnp-reward epoch --policy testnet | tail -1 |
		jq -e '.epoch_s == 3600 and .total_base_units > 0'
	refused 64 "--to must be after" rnp-reward usage --from 2026-11-20T12:00:00Z --to 2026-11-20T12:00:00Z records
	misused "not a base58 address" rnp-reward usage "$@" --trust nobody records
	refused 65 "records.bad:1" sh -c 'echo "{" >records.bad; rnp-reward usage "$@" records.bad' sh "$@"
}

@test "policy: bombs are refused at once: powers of powers, terms of terms, depth, size, cycles" {
	bomb() { # CODE WORDS 'JQ': for the policy, and for an epoch by it
		rnp-reward policy --example | jq "$3" >bomb.json
		run_split timeout 120 rnp-reward policy check bomb.json
		assert_equal "$status" "${1%,*}"
		run_split timeout 120 rnp-reward epoch --policy ./bomb.json "$usages"
		assert_equal "$status" "${1#*,}"
		[[ $stderr == *"$2"* ]] || fail "$stderr"
	}
	local pays='.pay.job.amount = {term: .terms[0].name}'
	# powers of powers, and doublings in a chain of terms: exact, or not at all
	bomb 1,65 "does not fit 128 bits" ".terms = [{name: \"t\", value: (reduce range(10) as \$i ({field: \"gpu_worked_s\"}; {power: [., 8]}))}] + .terms | $pays"
	bomb 1,65 "does not fit 128 bits" ".terms = ([{name: \"t0\", value: {field: \"gpu_worked_s\"}}] + [range(1; 28) |
		{name: \"t\\(.)\", value: {product: [{term: \"t\\(. - 1)\"}, {term: \"t\\(. - 1)\"}]}}]) + .terms | .pay.job.amount = {term: \"t27\"}"
	bomb 65,65 "nested deeper" '.terms[0].value = reduce range(40) as $i ({field: "up_s"}; {sum: [.]})'
	bomb 65,65 "'power' is" '.terms[0].value = {power: [{field: "up_s"}, 1000000000]}'
	bomb 65,65 "no such term before" '.terms[0].value = {term: .terms[0].name}'
	bomb 65,65 "too many items" '.terms = [range(5000) | {name: "t\(.)", value: "1"}]'
	bomb 65,65 "is larger than" '.terms = [range(100000) | {name: "t\(.)", value: "1"}]'
	bomb 65,65 "is too large" '.terms[0].value = "1" * 100000'
	bomb 65,65 "epoch.seconds" '.epoch.seconds = 0'
}

@test "epoch: nodes of which each says another memory cost no more than if all said the same" {
	python3 "$ROOT/tests/tools/reward.py" wallets 40000 5 >wallets
	TIMEFORMAT='%U'
	for more in 0 1; do
		awk -v more=$more '{printf "{\"kind\":\"rnp.usage\",\"v\":1,\"node\":\"%s\",\"gpu_model\":\"RTX 4090\"," \
			"\"gpu_memory_bytes\":%d,\"gpu_count\":1,\"from\":\"2026-11-09T00:00:00Z\",\"to\":\"2026-11-16T00:00:00Z\"," \
			"\"up_s\":%d}\n", $1, 2000000000 + more * NR, 150000 + NR}' wallets >usages
		# processor time, which depends little on what else the machine does
		{ time rnp-reward epoch -q --policy rnp-021 usages >epoch.$more; } 2>time.$more
	done
	cmp epoch.0 epoch.1
	awk '{ t[NR] = $1 } END { exit t[2] > 8 * t[1] + 0.2 }' time.0 time.1 || fail "$(cat time.0 time.1)"
}
