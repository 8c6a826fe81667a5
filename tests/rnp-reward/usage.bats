# rnp-reward usage: proven work is paid, once; work that is only claimed is not.
load ../helper

epoch=(--from 2026-11-16T00:00:00Z --to 2026-11-23T00:00:00Z)

setup() {
	cd "$BATS_TEST_TMPDIR"
	rnp-register keygen --out judge.json >/dev/null
	judge=$(rnp-register address --key judge.json)
	>records
}

# node NAME 'JQ': makes a node with its own key, its record rtx4090.node.json changed by JQ;
# sets $NAME to its address and $NAME_sha to the record's hash
node() {
	rnp-register keygen --out "$1.json" >/dev/null
	local address
	address=$(rnp-register address --key "$1.json")
	printf -v "$1" %s "$address"
	post "$1" "$2"
}

# post NAME 'JQ': adds one more record of that node
post() {
	jq -c --arg node "${!1}" ".node = \$node | .wallet = \$node | .at = \"2026-11-15T12:00:00Z\" | $2" \
		"$ROOT/tests/data/rtx4090.node.json" >"$1.node"
	rnp-register sign --key "$1.json" <"$1.node" >>records
	printf -v "${1}_sha" %s "$(rnp-register canon <"$1.node" | tr -d '\n' | sha256sum | cut -d' ' -f1)"
}

# say KEY 'JSON': adds a record signed by a key
say() {
	jq -nc "$2" | rnp-register sign --key "$1.json" >>records
}

# verdict NAME TIME PASSED 'UUIDS' [SHA]: adds a verdict, on the challenge of the hash $challenge if set
verdict() {
	local sha=${1}_sha
	say judge "{kind: \"rnp.verdict\", v: 1, node: \"${!1}\", signer: \"$judge\", at: \"2026-11-$2Z\",
		passed: $3, checks: [], readings: {}, node_record: \"${5:-${!sha}}\",
		proven: ($4 | map({device: ., memory_bytes: 1000}))${challenge:+, challenge_sha256: \"$challenge\"}}"
}

# receipt NAME FROM TO [GPU_SECONDS]: adds a receipt, of $devices if set
receipt() {
	say judge "{kind: \"rnp.receipt\", v: 1, node: \"${!1}\", signer: \"$judge\", job: \"$2\",
		from: \"2026-11-$2Z\", to: \"2026-11-$3Z\", earned_uusd: 1000${4:+, gpu_seconds: $4}${devices:+, devices: $devices}}"
}

# uptime NAME DAY 'SPANS': adds an uptime record
uptime() {
	say judge "{kind: \"rnp.uptime\", v: 1, node: \"${!1}\", signer: \"$judge\", at: \"2026-11-24T00:00:00Z\",
		from: \"2026-11-$2T00:00:00Z\", to: \"2026-11-$(($2 + 1))T00:00:00Z\", beats: 1,
		up_ms: ($3 | map(.[1] - .[0]) | add), spans: $3}"
}

# of NAME 'JQ': prints the result of JQ on the node's usage
of() {
	jq -c --arg n "${!1}" "select(.node == \$n) | $2" usage
}

usage() {
	rnp-reward usage -q "${epoch[@]}" --trust "$judge" "$@" records >usage
}

gpu='"GPU-00000000-0000-4000-8000-000000004090"'

@test "usage: three nodes that name one GPU: the first that proved it is paid, the others hear why" {
	# the cause is cut in the middle of a character, and holds what JSON escapes
	node a 'del(.network.down_bps) | .unknown = {network: ("\"\n" + "ü" * 100)}'
	node b . && node c '.gpus[0].uuid |= ascii_upcase'
	verdict b 17T00:00:00 true "[$gpu]"
	verdict a 16T12:00:00 true "[$gpu]"
	verdict c 18T00:00:00 true "[$gpu | ascii_upcase]"
	usage
	assert_equal "$(of a '[.gpu_model, .gpu_count, .devices]')" "[\"RTX 4090\",1,[$gpu]]"
	assert_equal "$(of a '.unknown.down_bps | [length, .[:3], .[100:]]')" '[101,"\"\nü","�"]'
	assert_equal "$(of b '[.gpu_model, .devices]')" '[null,null]'
	assert_equal "$(of b '.unknown["gpus[0]"]')" "\"node $a proved it first, and a device is paid once\""
	assert_equal "$(of c '.gpu_model')" null
	rnp-reward epoch --policy rnp-021 usage >rewards
	assert_equal "$(jq -r 'select(.qualified) | .node' rewards)" "$a"
	# in any order of the records
	tac records >reversed && mv reversed records
	cp usage before
	usage
	cmp before usage
}

@test "usage: one challenge in verdicts of several nodes proves the first node; to the others it is void" {
	# b tells a its answer: both verdicts are on one challenge, of different GPUs; c has its own
	for n in a b c; do node $n ".gpus[0].uuid = \"GPU-$n\""; done
	challenge=$(printf 1 | sha256sum | cut -d' ' -f1)
	verdict a 17T00:00:00 true '["GPU-a"]'
	verdict b 16T12:00:00 true '["GPU-b"]'
	challenge=$(printf 2 | sha256sum | cut -d' ' -f1)
	verdict c 17T00:00:00 true '["GPU-c"]'
	usage
	assert_equal "$(of b '[.gpu_model, .devices, .challenges_passed, .passed_ppm]')" '["RTX 4090",["GPU-b"],1,1000000]'
	assert_equal "$(of c '.devices')" '["GPU-c"]'
	assert_equal "$(of a '[.gpu_model, .devices, .challenges_passed, .passed_ppm, .score_ppm]')" '[null,null,0,null,null]'
	assert_equal "$(of a '[.sources.challenges_passed, .unknown.passed_ppm, .unknown.score_ppm]')" \
		'["0 verdicts, 0 failed; 1 void, as other nodes passed their challenges first","no verdict in this epoch but void ones","no verdict in this epoch but void ones"]'
	of a .unknown.gpu_model | grep -q "node $b passed the challenge of its last verdict first"
	# who passed none of its own is not paid, however often it passed others' challenges
	rnp-reward epoch --policy rnp-021 usage >rewards
	assert_equal "$(jq -r 'select(.qualified) | .node' rewards | sort | xargs)" "$(sort <<<"$b"$'\n'"$c" | xargs)"
	# an own challenge, passed before or after, is its own
	challenge=$(printf 3 | sha256sum | cut -d' ' -f1)
	verdict a 16T00:00:00 true '["GPU-a"]'
	# and what a takes from others claims no GPU: c stays paid for its own
	challenge=$(printf 1 | sha256sum | cut -d' ' -f1)
	verdict a 16T18:00:00 true '["GPU-c"]'
	usage
	assert_equal "$(of a '[.gpu_model, .devices, .challenges_passed, .passed_ppm]')" '["RTX 4090",["GPU-a"],1,1000000]'
	assert_equal "$(of c '.devices')" '["GPU-c"]'
	# reputation counts the same verdicts
	rnp-reward reputation --at 2026-11-23T00:00:00Z --trust "$judge" records >reputations
	assert_equal "$(jq -c "select(.node == \"$a\") | [.trials, .passed, .void]" reputations)" '[1,1,2]'
	# whatever the order of the records, and however they are written
	tac records | sed 's/"kind":"r/"kind":"\\u0072/' >turned && mv turned records
	cp usage before
	usage
	cmp usage before
}

@test "usage: what is claimed without a passed challenge is not paid" {
	node none '.gpus[0].model = "NVIDIA H200"'
	node failed . && verdict failed 17T00:00:00 false "[$gpu]"
	node early . && verdict early 15T23:59:59 true "[$gpu]"
	node late . && verdict late 23T00:00:00 true "[$gpu]"
	node stranger . && rnp-register keygen --out other.json >/dev/null
	mv judge.json right.json && cp other.json judge.json
	verdict stranger 17T00:00:00 true "[$gpu]"
	mv right.json judge.json
	node slice '.gpus[0] |= (del(.uuid) | .mig = true)' && verdict slice 17T00:00:00 true '["cpu:1"]'
	node changed . && verdict changed 17T00:00:00 true "[$gpu]" "$(printf %064d 7)"
	usage 2>/dev/null
	assert_equal "$(jq -s 'map(select(.gpu_model or .gpu_count or .devices)) | length' usage)" 0
	assert_equal "$(of none .unknown.gpu_model)" '"it was not challenged in this epoch"'
	assert_equal "$(of failed .unknown.gpu_model)" '"no verdict of this epoch proves a device"'
	assert_equal "$(of failed '[.passed_ppm, .score_ppm]')" '[0,0]'
	assert_equal "$(of early .unknown.gpu_model)" '"it was not challenged in this epoch"'
	assert_equal "$(of slice '.unknown["gpus[0]"]')" '"it has no uuid: it cannot be challenged"'
	assert_equal "$(of slice .unknown.gpu_model)" '"no GPU of this node is proven and paid"'
	assert_equal "$(of changed .unknown.gpu_model)" '"the rnp.node that was challenged is not among the records"'
	rnp-reward epoch --policy rnp-021 usage | jq -se 'map(select(.qualified)) == []'
}

@test "usage: a GPU has no more memory, bandwidth and clock than its model" {
	# the policy's own name of the model, so that no table of names objects
	node a '.gpus[0] |= (.model = "RTX 4090" | .memory_bytes = 9007199254740991 |
		.memory_bandwidth_bps = 9007199254740991 | .clock_max_mhz = 100000)'
	verdict a 17T00:00:00 true "[$gpu]"
	usage
	assert_equal "$(of a '[.gpu_model, .gpu_memory_bytes, .gpu_memory_bandwidth_bps, .gpu_clock_mhz]')" \
		'["RTX 4090",25769803776,1008000000000,4000]'
	assert_equal "$(of a '.sources.gpu_memory_bytes | sub(".*: "; "")')" \
		'"gpus[0].memory_bytes, which is more than its model has"'
	rnp-reward epoch -q --policy rnp-021 usage >/dev/null
}

@test "usage: what has the name of one GPU and the memory of another is not paid as either" {
	node a '.gpus[0] |= (.model = "NVIDIA GeForce RTX 4090" | .memory_bytes = 12582912000)'
	verdict a 17T00:00:00 true "[$gpu]"
	usage
	assert_equal "$(of a '[.gpu_model, .unknown.gpu_model]')" \
		"[null,\"it says 'NVIDIA GeForce RTX 4090' and has 11.7 GiB of memory, where such a GPU has 24.0\"]"
	rnp-reward epoch --policy rnp-021 usage | jq -se 'map(select(.qualified)) == []'
}

@test "usage: bandwidth counts no further than verdicts measured it, and nobody has more than a link carries" {
	# measured NAME TIME BYTES_A_SECOND PASSED
	measured() {
		local sha=${1}_sha
		say judge "{kind: \"rnp.verdict\", v: 1, node: \"${!1}\", signer: \"$judge\", at: \"2026-11-$2Z\", passed: $4,
			checks: [], readings: {bandwidth: $3}, node_record: \"${!sha}\", challenge_sha256: \"$(printf %d "$3" | sha256sum | cut -d" " -f1)\",
			proven: [{device: \"GPU-$1\", memory_bytes: 1000}]}"
	}
	for n in a c d; do
		node $n ".gpus[0].uuid = \"GPU-$n\" | .network = {down_bps: 9007199254740991, up_bps: 9007199254740991}"
	done
	node b '.gpus[0].uuid = "GPU-b" | .network = {down_bps: 900000000, up_bps: 9007199254740991}'
	# more download than upload is measured as its upload, and stays
	node e '.gpus[0].uuid = "GPU-e" | .network = {down_bps: 1000000000, up_bps: 80000000}'
	measured e 17T00:00:00 9900000 true
	measured a 17T00:00:00 50000000 true
	measured a 18T00:00:00 40000000 true
	# what failed, was measured before the epoch, or on another node's challenge, measures nothing
	measured a 19T00:00:00 999999999 false
	measured a 15T00:00:00 999999998 true
	measured b 16T12:00:00 90000000 true
	measured a 17T12:00:00 90000000 true
	verdict c 17T00:00:00 true '["GPU-c"]'
	measured d 17T00:00:00 9007199254740991 true
	usage
	assert_equal "$(of a '[.down_bps, .up_bps]')" '[800000000000,400000000]'
	assert_equal "$(of a '.sources | [.down_bps, .up_bps] | map(sub(".*bps(, )?"; ""))')" \
		'["which is more than a link carries","which is more than verdicts measured"]'
	assert_equal "$(of b '[.down_bps, .up_bps]')" '[720000000,800000000000]'
	# unmeasured, a claim reaches the highest tier that is published, and no more
	assert_equal "$(of c '[.down_bps, .up_bps]')" '[2000000000,2000000000]'
	[[ $(of c .sources.up_bps) == *"more than counts where no verdict measured it"* ]]
	assert_equal "$(of d '[.down_bps, .up_bps]')" '[800000000000,800000000000]'
	assert_equal "$(of e '[.down_bps, .up_bps]')" '[1000000000,79200000]'
	# however the verdicts are written
	cp usage before
	sed -i 's/"kind":"rnp/"kind":"\\u0072np/' records
	usage
	cmp usage before
}

@test "usage: hardware is what the last passed verdict names, not what was posted in the last second" {
	node a . && verdict a 17T00:00:00 true "[$gpu]"
	first=$a_sha
	post a '.at = "2026-11-22T23:59:59Z" | .gpus[0].model = "NVIDIA H200"
		| .gpus[0].memory_bytes = 151397597184 | .gpus += [.gpus[0] | .uuid = "GPU-more"]
		| .wallet = "'"$judge"'"'
	usage
	assert_equal "$(of a '[.gpu_model, .gpu_count, .wallet]')" "[\"RTX 4090\",1,\"$judge\"]"
	# the new claim counts once it is proven
	verdict a 22T23:59:59 true "[$gpu]"
	usage
	assert_equal "$(of a '[.gpu_model, .gpu_count]')" '["H200",1]'
	assert_equal "$(of a '.unknown["gpus[1]"]')" '"the last passed verdict does not prove it"'
	# and a later verdict that failed reduces nothing but the ratio
	verdict a 22T23:59:59.500 false '[]'
	usage
	assert_equal "$(of a '[.gpu_model, .challenges_passed, .passed_ppm]')" '["H200",2,666666]'
	# the hash is of the verdict that decides
	sha=$(of a .verdict_sha256 | tr -d '"')
	grep '"passed":true' records | tail -1 | jq -c 'del(.proof)' | rnp-register canon | tr -d '\n' |
		sha256sum | grep -q "^$sha"
}

@test "usage: GPUs of several models: each group is paid, whatever slots it is in" {
	card='.gpus[0] * {model: "NVIDIA T400 4GB", memory_bytes: 4294967296, uuid: "GPU-card"}'
	pro='.gpus[0] * {model: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", memory_bytes: 102641958912, uuid: "GPU-pro"}'
	node a ".gpus = [($card), .gpus[0]]" && verdict a 17T00:00:00 true "[\"GPU-card\", $gpu]"
	node b ".gpus = [.gpus[0], ($pro)] | .gpus[0].uuid = \"GPU-b\"" && verdict b 17T00:00:00 true '["GPU-b", "GPU-pro"]'
	receipt a 17T00:00:00 17T01:00:00 7200
	usage
	assert_equal "$(of a '[.gpu_model, .gpu_count, .devices, .gpu_worked_s]')" "[\"RTX 4090\",1,[$gpu],3600]"
	assert_equal "$(of a '.more_gpus | map([.gpu_model, .gpu_count, .gpu_memory_bytes, .devices, .worked_s, .gpu_worked_s])')" \
		'[["T400 4GB",1,4294967296,["GPU-card"],0,3600]]'
	# without a policy the most powerful ones come first, else those that it pays
	assert_equal "$(of b '[.gpu_model, .devices, .more_gpus[0].gpu_model]')" '["RTX PRO 6000 WS",["GPU-pro"],"RTX 4090"]'
	usage --policy rnp-021
	assert_equal "$(of b '[.gpu_model, .devices, .more_gpus[0].gpu_model]')" '["RTX 4090",["GPU-b"],"RTX PRO 6000 WS"]'
	assert_equal "$(of a '.gpu_model')" '"RTX 4090"'
	# what the policy does not pay is told, and costs the others nothing
	rnp-reward epoch --policy rnp-021 usage >rewards
	# shellcheck disable=SC2154
	jq -c --arg n "$b" 'select(.node == $n) | .groups[] | [.gpu_model, .qualified, .reasons]' rewards >groups
	assert_equal "$(sed -n 2p groups)" "[\"RTX PRO 6000 WS\",false,[\"gpu_model: 'RTX PRO 6000 WS' is not in the policy's tables\"]]"
	assert_equal "$(head -1 groups)" '["RTX 4090",true,[]]'
	rnp-reward explain --policy rnp-021 --node "$b" usage | jq -c 'select(.step == "not_paid") | [.gpus, .value]' >why
	grep -q "RTX PRO 6000 WS.*is not in the policy's tables" why
	rnp-reward explain --table --policy rnp-021 --node "$b" usage | grep -q '^What the policy requires: 1 RTX PRO 6000 WS$'
}

@test "usage: what a mixed node is paid: each group for its own work, the node's uptime once" {
	models='.gpus = [range(2) as $i | .gpus[0] | .uuid = "GPU-a\($i)"] + [range(4) as $i | .gpus[0] * {model: "NVIDIA GeForce RTX 3090",
		memory_bandwidth_bps: 936000000000, uuid: "GPU-b\($i)"}]'
	all='["GPU-a0","GPU-a1","GPU-b0","GPU-b1","GPU-b2","GPU-b3"]'
	node mixed "$models" && verdict mixed 17T00:00:00 true "$all"
	node only4090 '.gpus = [range(2) as $i | .gpus[0] | .uuid = "GPU-c\($i)"]' && verdict only4090 17T00:00:00 true '["GPU-c0","GPU-c1"]'
	node only3090 "$models"' | .gpus = .gpus[2:] | .gpus |= map(.uuid += "x")' && verdict only3090 17T00:00:00 true '["GPU-b0x","GPU-b1x","GPU-b2x","GPU-b3x"]'
	devices='["GPU-a0", "gpu-A1"]' receipt mixed 17T00:00:00 17T10:00:00 72000
	devices='["GPU-b0","GPU-b1","GPU-b3"]' receipt mixed 17T05:00:00 17T15:00:00 108000
	receipt only4090 17T00:00:00 17T10:00:00 72000
	receipt only3090 17T05:00:00 17T15:00:00 108000
	for n in mixed only4090 only3090; do uptime $n 17 '[[0,86400000]]'; done
	usage --policy rnp-021
	assert_equal "$(of mixed '[.gpu_model, .gpu_count, .gpu_worked_s, .worked_s, (.more_gpus[0] | .gpu_model, .gpu_count, .gpu_worked_s, .worked_s)]')" \
		'["RTX 4090",2,72000,36000,"RTX 3090",4,108000,18000]'
	rnp-reward epoch --policy rnp-021 usage >rewards
	pay() { jq -r --arg n "${!1}" "select(.node == \$n) | $2" rewards; }
	# the mixed node earns with its work what two nodes do, and with its uptime what one does
	a=$(pay only4090 .job_base_units) b=$(pay only3090 .job_base_units)
	((a > 0 && b > 0 && a != b))
	assert_equal "$(pay mixed .job_base_units)" $((a + b))
	assert_equal "$(pay mixed .availability_base_units)" "$(pay only4090 .availability_base_units)"
	assert_equal "$(pay mixed '.groups | map([.gpu_model, .gpu_count, .job_base_units, .availability_base_units]) | tojson')" \
		"[[\"RTX 4090\",2,$a,$(pay only4090 .availability_base_units)],[\"RTX 3090\",4,$b,0]]"
	# where the first one is not paid by the policy, the next one gets the node's uptime
	jq -c 'if .more_gpus then .gpu_model = "NVIDIA T400 4GB" else . end' usage >card
	rnp-reward epoch --policy rnp-021 card | jq -c "select(.node == \"$mixed\") | [.job_base_units, .availability_base_units]" >paid
	assert_equal "$(cat paid)" "[$b,$(pay only3090 .availability_base_units)]"
	# a policy that pays hours pays each hour once, and one that pays a share pays a node's
	rnp-reward epoch --policy rnp-019 usage >rewards
	(($(pay mixed .job_base_units) > $(pay only4090 .job_base_units)))
	rnp-reward epoch --policy rnp-006 --pool 1000 usage >rewards
	assert_equal "$(pay mixed '.groups[1].job_base_units')" 0
	# all of it, cut to a pool, adds up
	jq -s '{kind: "rnp.policy", v: 1, name: "small"} * (.[0] | .name = "small" | .pool = {per_month: "1"})' \
		"$ROOT/cmd/rnp-reward/policies/rnp-021.json" | jq -c . >small.json
	rnp-reward epoch --policy small.json usage >rewards
	assert_equal "$(pay mixed '.job_base_units == (.groups | map(.job_base_units) | add)')" true
	# and is recomputed from the usages
	rnp-reward epoch --policy rnp-021 usage >rewards
	rnp-reward verify --policy rnp-021 --usage usage rewards
}

@test "usage: GPU-seconds: eight GPUs earn as eight, one GPU-second earns a second" {
	eight='.gpus = [range(8) as $i | .gpus[0] | .uuid = "GPU-\($i)"]'
	node big "$eight" && node small . && node half "$eight" && node greedy . && node none .
	uuids='[range(8) | "GPU-\(.)"]'
	verdict big 17T00:00:00 true "$uuids"
	verdict small 17T00:00:00 true "[$gpu]"
	verdict half 17T00:00:01 true '["GPU-0", "GPU-x"]'
	verdict greedy 18T00:00:00 true "[\"GPU-g\"]"
	receipt big 17T00:00:00 17T01:00:00 28800
	receipt small 17T00:00:00 18T00:00:00 1
	receipt half 17T00:00:00 17T01:00:00 28800
	receipt none 17T00:00:00 17T01:00:00 3600
	usage
	assert_equal "$(of big '[.gpu_count, .gpu_worked_s, .worked_s]')" '[8,28800,3600]'
	# a receipt of one GPU-second over a whole day counts one second
	assert_equal "$(of small '[.gpu_worked_s, .worked_s]')" '[1,1]'
	# GPU-0 belongs to big, and nothing else of this node was proven
	assert_equal "$(of half '[.gpu_count, .gpu_worked_s]')" '[null,0]'
	assert_equal "$(of none '[.gpu_worked_s]')" '[0]'
	# overlapping receipts, and more GPU-seconds than possible: limited to wall time x GPUs
	receipt small 19T00:00:00 19T01:00:00 999999
	receipt small 19T00:30:00 19T01:30:00 3600
	receipt small 22T23:30:00 23T00:30:00 3600 # half of it in the epoch
	usage
	assert_equal "$(of small .gpu_worked_s)" $((1 + 5400 + 1800))
	receipt big 20T00:00:00 20T00:00:10 9007199254740991
	usage
	assert_equal "$(of big .gpu_worked_s)" $((28800 + 80))
	rnp-reward epoch --policy rnp-021 usage >/dev/null
}

@test "usage: only what the registry signed is uptime; back-dated heartbeats count nothing" {
	node a . && node b .
	for hour in 00 04 08 12 16 20; do
		say a "{kind: \"rnp.heartbeat\", v: 1, node: \"$a\", at: \"2026-11-17T$hour:00:00Z\",
			interval_s: 3600, state: \"idle\"}"
	done
	uptime b 15 '[[0, 86400000]]' # not in the epoch
	uptime b 16 '[[0, 1000], [5000, 86400000]]'
	uptime b 17 '[[0, 60000]]'
	uptime b 17 '[[30000, 90000]]' # a second registry's: what either saw
	usage
	assert_equal "$(of a .up_s)" 0
	assert_equal "$(of b .up_s)" $((86400 - 4 + 90))
	assert_equal "$(of b .sources.up_s)" '"rnp.uptime records of 2 days"'
	# copies are no further sources, and a record of another day is one
	for i in 1 2 3; do grep rnp.uptime records; done >again
	cat again >>records
	usage
	assert_equal "$(of b '[.up_s, .sources.up_s]')" "[$((86400 - 4 + 90)),\"rnp.uptime records of 2 days\"]"
	# a part of a day
	rnp-reward usage -q --from 2026-11-16T00:00:03Z --to 2026-11-16T00:00:10Z --trust "$judge" records >usage
	assert_equal "$(of b .up_s)" 5
	# records of strangers do not count, and malformed ones end the program
	run_split rnp-reward usage "${epoch[@]}" --trust "$a" records
	assert_equal "$(jq -c '[.up_s]' <<<"$output" | sort -u)" '[0]'
	uptime b 18 '[[0, 5000], [4000, 6000]]'
	refused 65 "records:$(wc -l <records): spans[1]" rnp-reward usage -q "${epoch[@]}" --trust "$judge" records
}

@test "usage: receipts: replayed, overlapping, of strangers, from beyond the epoch" {
	node a . && verdict a 17T00:00:00 true "[$gpu]"
	receipt a 17T00:00:00 17T01:00:00 3600
	tail -1 records >again
	cat again again >>records
	receipt a 17T00:30:00 17T01:30:00 3600
	receipt a 15T23:00:00 16T00:00:00 3600
	receipt a 23T00:00:00 23T01:00:00 3600
	say a "{kind: \"rnp.receipt\", v: 1, node: \"$a\", signer: \"$a\", job: \"mine\",
		from: \"2026-11-18T00:00:00Z\", to: \"2026-11-19T00:00:00Z\", gpu_seconds: 86400}"
	run_split rnp-reward usage "${epoch[@]}" --trust "$judge" records
	# whose signature it is, so that who knows the key can trust it
	[[ $stderr == *"left out: nobody who is trusted has signed it (rnp.receipt of $a; --trust)"* ]]
	echo "$output" >usage
	assert_equal "$(of a '[.worked_s, .gpu_worked_s, .earned_uusd]')" '[5400,5400,2000]'
}

@test "usage: whom a record names as its author must have signed it, however its JSON is written" {
	node a . && node b .
	gpus="[{device: \"GPU-1\", memory_bytes: 1000}]"
	# the trusted judge has signed these, and they say that somebody else has written them
	say judge "{kind: \"rnp.verdict\", v: 1, node: \"$a\", signer: \"$b\", at: \"2026-11-17T00:00:00Z\", passed: true,
		checks: [], readings: {}, node_record: \"$a_sha\", proven: $gpus}"
	say judge "{kind: \"rnp.receipt\", v: 1, node: \"$a\", signer: \"$b\", job: \"x\",
		from: \"2026-11-17T00:00:00Z\", to: \"2026-11-17T01:00:00Z\", earned_uusd: 1000}"
	say judge "{kind: \"rnp.uptime\", v: 1, node: \"$a\", signer: \"$b\", at: \"2026-11-24T00:00:00Z\",
		from: \"2026-11-17T00:00:00Z\", to: \"2026-11-18T00:00:00Z\", beats: 1, up_ms: 86400000, spans: [[0, 86400000]]}"
	for form in . 'sub("\"kind\":\"rnp.";"\"kind\":\"rn\\u0070.")'; do
		jq -cR "$form" records | jq -r . >form
		run_split rnp-reward usage "${epoch[@]}" --trust "$judge" form
		assert_success
		assert_equal "$(grep -c "left out: .*$b" <<<"$stderr")" 3
		echo "$output" >usage
		assert_equal "$(of a '[.up_s, .worked_s, .challenges_passed, .passed_ppm]')" '[0,0,0,null]'
	done
}

@test "usage: a record counts the same however its JSON is written" {
	node a . && node b '.gpus[0].uuid = "GPU-b"'
	for i in 16 17 18; do
		verdict a "${i}T00:00:00" true "[$gpu]" && verdict b "${i}T00:00:00" false '[]'
		receipt a "${i}T00:00:00" "${i}T01:00:00" 1800
		uptime b "$i" '[[0, 40000000], [50000000, 86400000]]'
	done
	say judge "{kind: \"rnp.verdict\", v: 1, node: \"$b\", signer: \"$judge\", at: \"2026-11-19T00:00:00Z\",
		passed: true, checks: [{passed: true, check: \"x\"}], node_record: \"$b_sha\",
		readings: {teraflops: 330000000000000, memory: 20000000000, clock: 5000000, bandwidth: 100000000},
		unknown: {z: \"\", a: \"why\"}, proven: [{memory_bytes: 5, device: \"GPU-b\"}], score_ppm: 7}"
	# a signature that fits another record, and the last receipt twice
	tail -1 records | sed 's/"score_ppm":7/"score_ppm":9000000/' >bad
	grep rnp.receipt records | tail -1 >again
	cat bad again >>records
	for policy in "" "--policy rnp-004"; do
		# shellcheck disable=SC2086 # two words
		run_split rnp-reward usage "${epoch[@]}" --trust "$judge" $policy records
		assert_success
		assert_equal "$(grep -c 'left out' <<<"$stderr")" 1
		[[ $stderr == *"records:16: left out: proof: the signature does not fit the record"* ]]
		echo "$output" >usage
		# no line of these is plain: a letter is escaped; and those are in another order
		sed 's/"kind":"rnp/"kind":"\\u0072np/' records >escaped
		jq -cS . records >sorted
		for other in escaped sorted; do
			# shellcheck disable=SC2086
			rnp-reward usage -q "${epoch[@]}" --trust "$judge" $policy "$other" | cmp - usage
		done
	done
	assert_equal "$(of a '[.worked_s, .passed_ppm]')" '[5400,1000000]'
	assert_equal "$(of b '[.up_s, .challenges_passed, .devices]')" '[229200,1,["GPU-b"]]'
}

@test "usage: a registry's records that are of no form are left out; they stop nobody's pay" {
	node a . && verdict a 17T00:00:00 true "[$gpu]"
	post a '.at = "2026-11-14T00:00:00Z" | .gpus += [.gpus[0]]'
	say judge "{kind: \"rnp.receipt\", v: 1, node: \"$a\", signer: \"$judge\", job: \"x\",
		from: \"2026-11-18T00:00:00Z\", to: \"2026-11-17T00:00:00Z\"}"
	refused 65 "gpus[1].uuid" rnp-reward usage -q "${epoch[@]}" --trust "$judge" records
	timeout 120 python3 - records >port 2>/dev/null 3>&- <<-'PY' &
		import http.server, json, sys
		records = [json.loads(l) for l in open(sys.argv[1])]
		class Handler(http.server.BaseHTTPRequestHandler):
		    def do_GET(self):
		        kind = self.path.split("kind=")[1].split("&")[0]
		        page = {"records": [r for r in records if r["kind"] == kind]}
		        if self.path.startswith("/circle"):
		            # five pages, and from the last one back to the third
		            at = int((self.path.split("cursor=") + ["0"])[1])
		            page["next"] = str(at + 1 if at < 5 else 3)
		        body = json.dumps(page).encode()
		        self.send_response(200)
		        self.send_header("Content-Length", str(len(body)))
		        self.end_headers()
		        self.wfile.write(body)
		server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
		print(server.server_port, flush=True)
		server.serve_forever()
	PY
	pid=$!
	wait_file port
	refused 65 "its pages lead in a circle" timeout 60 rnp-reward usage -q "${epoch[@]}" --trust "$judge" \
		--registry "http://127.0.0.1:$(<port)/circle"
	run_split rnp-reward usage "${epoch[@]}" --trust "$judge" --registry "http://127.0.0.1:$(<port)"
	kill $pid
	assert_success
	assert_equal "$(jq -c '[.gpu_model, .worked_s]' <<<"$output")" '["RTX 4090",0]'
	assert_equal "$(grep -c 'left out' <<<"$stderr")" 2
}

@test "usage: the registry that is set is asked where no records are given; with none of both it says so" {
	node a .
	run_split rnp-reward usage "${epoch[@]}" </dev/null
	assert_equal "$status" 64
	[[ $stderr == *"no registry, no files"* ]] || fail "$stderr"
	export RNP_REGISTRY=http://127.0.0.1:1
	refused 69 "cannot reach 'http://127.0.0.1:1'" rnp-reward usage "${epoch[@]}" </dev/null
	# a file or a pipe are the records, then
	rnp-reward usage "${epoch[@]}" records </dev/null >usage
	[[ -s usage ]]
	cat records | rnp-reward usage "${epoch[@]}" | cmp - usage
	rnp-reward usage "${epoch[@]}" <records | cmp - usage
}
