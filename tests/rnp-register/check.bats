# rnp-register check: node records compared with the minimum requirements of a policy.
load ../helper

node=$ROOT/tests/data/rtx4090.node.json

# prints the example node with this jq program applied
with() {
	jq -c "$1" "$node"
}

@test "check: the example RTX 4090 qualifies, with its tier and pool" {
	run_split rnp-register check --policy rnp-021 "$node"
	assert_success
	assert_equal "$(jq -r '.qualified, .tier, .pool, (.reasons | length)' <<<"$output")" \
		$'true\nMed\nMed > US > GPU > NVIDIA > RTX 4090\n0'
	assert_equal "$(jq -r '.requirements[] | select(.name == "download") |
		"\(.actual) \(.unit) \(.met)"' <<<"$output")" "940000000 bit/s true"
}

@test "check: no GPU is a clear no with the reason and the remedy" {
	run_split rnp-register check --policy rnp-021 <<<"$(with '.gpus = []')"
	assert_failure 1
	assert_equal "$(jq -r '.qualified, .reasons[]' <<<"$output")" \
		$'false\ngpu_model: this machine has no GPU'
	[[ $(jq -r '.requirements[] | select(.name == "gpu_model").remedy' <<<"$output") == *testnet* ]]
}

@test "check: what was not measured is unknown, not zero, and does not qualify" {
	run_split rnp-register check --policy rnp-021 \
		<<<"$(with 'del(.network) | .unknown["network.down_bps"] = "nobody asked"')"
	assert_failure 1
	assert_equal "$(jq -c '.requirements[] | select(.name == "download") |
		[has("actual"), has("met"), .unknown]' <<<"$output")" '[false,false,"nobody asked"]'
	assert_equal "$(jq -r .tier <<<"$output")" Unknown
}

@test "check: minima must be exceeded, not only met" {
	run_split rnp-register check --policy rnp-021 <<<"$(with '.network.down_bps = 100000000')"
	assert_failure 1
	assert_equal "$(jq -r '.reasons[]' <<<"$output")" \
		"download: 100 Mbit/s is not more than 100 Mbit/s"
}

@test "check: a model that the policy does not know; a family that it does" {
	run_split rnp-register check --policy rnp-021 \
		<<<"$(with '.gpus[0].model = "NVIDIA GeForce GTX 1660" | del(.gpus[0].memory_bytes)')"
	assert_failure 1
	assert_equal "$(jq -r '.reasons[]' <<<"$output")" \
		"gpu_model: 'GTX 1660' is not among those of the policy"
	run_split rnp-register check --policy rnp-021 \
		<<<"$(with '.gpus[0].model = "NVIDIA H100 80GB HBM3" | .gpus[0].memory_bytes = 85520809984')"
	assert_success
}

@test "check: a display card counts in no slot; the GPUs that qualify do, the others are named" {
	for gpus in '[$card, .gpus[0], $second]' '[.gpus[0], $second, $card]'; do
		run_split rnp-register check --policy rnp-021 <<<"$(with \
			"{model: \"NVIDIA T400 4GB\", memory_bytes: 4294967296} as \$card
			| (.gpus[0] | .uuid |= sub(\"4090\"; \"4091\")) as \$second | .gpus = $gpus")"
		assert_success
		assert_equal "$(jq -c '[.pool, (.gpus[] | [.model, .count, .counts, .reason])]' <<<"$output")" \
			'["Med > US > GPU > NVIDIA > RTX 4090",["RTX 4090",2,true,null],["T400 4GB",1,false,"gpu_model: '"'T400 4GB'"' is not among those of the policy"]]'
	done
	# the most powerful one need not be the one that the policy pays
	run_split rnp-register check --policy rnp-021 <<<"$(with '
		.gpus += [{uuid: "GPU-00000000-0000-4000-8000-000000000002", model: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", memory_bytes: 102641958912}]')"
	assert_success
	assert_equal "$(jq -c '.gpus | map([.model, .counts])' <<<"$output")" '[["RTX PRO 6000 WS",false],["RTX 4090",true]]'
	run rnp-register check --table --policy rnp-021 <<<"$(with '.gpus += [{uuid: "GPU-00000000-0000-4000-8000-000000000002", model: "NVIDIA L40"}, {model: "NVIDIA T400 4GB"}]')"
	assert_success
	# each model that qualifies is paid
	assert_equal "$(tr -s ' \n' ' ' <<<"$output" | grep -o 'gpus 1 L40, 1 RTX 4090; not counted: 1 T400 4GB (gpu_model:' | wc -l)" 1
	# where none qualifies the node does not, and each says why
	run_split rnp-register check --policy rnp-021 <<<"$(with '.gpus = [{model: "NVIDIA T400 4GB"}, {model: "NVIDIA T1000"}]')"
	assert_failure 1
	assert_equal "$(jq -c '[.gpus[].reason] | length' <<<"$output")" 2
}

@test "check: a GPU in slices or without a uuid is never challenged: it does not qualify, and what helps is said" {
	paid_not() { # JQ REASON REMEDY
		run_split rnp-register check --policy rnp-021 <<<"$(with "$1")"
		assert_failure 1
		assert_equal "$(jq -r '.qualified, .reasons[0]' <<<"$output")" $'false\n'"gpu_model: $2, and is not paid"
		jq -e --arg t "$3" '.requirements[] | select(.name == "gpu_model") | (.met | not) and .remedy == $t' <<<"$output"
	}
	uuid="the driver tells uuids: make the record on the machine itself, with rnp-register setup"
	mig="switch its slices off, as root: nvidia-smi -i GPU-00000000-0000-4000-8000-000000004090 -mig 0; then: rnp-register setup"
	paid_not '.gpus[0].mig = true' "a GPU in slices (mig) cannot be challenged" "$mig"
	paid_not 'del(.gpus[0].uuid)' "without a uuid it cannot be challenged" "$uuid"
	paid_not '.gpus[0].mig = true | .gpus += [.gpus[0] | .mig = false | del(.uuid)]' "a GPU in slices (mig) cannot be challenged" "$mig"
	# others of the node count without it, be they of its model or not
	run_split rnp-register check --policy rnp-021 <<<"$(with '.gpus += [.gpus[0] | .mig = true | .uuid = "GPU-00000000-0000-4000-8000-000000000002"]')"
	assert_success
	assert_equal "$(jq -c '.gpus | map([.model, .count, .counts, .reason])' <<<"$output")" \
		'[["RTX 4090",1,true,null],["RTX 4090",1,false,"a GPU in slices (mig) cannot be challenged, and is not paid"]]'
	run_split rnp-register check --policy rnp-021 <<<"$(with '.gpus[0].mig = true | .gpus += [{uuid: "GPU-00000000-0000-4000-8000-000000000002", model: "NVIDIA T400 4GB"}]')"
	assert_failure 1
	assert_equal "$(jq -r '.reasons[0]' <<<"$output")" "gpu_model: 'T400 4GB' is not among those of the policy"
	# the processor is challenged all the same, and the testnet asks for no more
	rnp-register check --policy testnet <<<"$(with '.gpus[0].mig = true')"
}

@test "check: a GPU with less memory than any of its name is not taken for one, one with more is" {
	small=12582912000
	run_split rnp-register check --policy rnp-021 <<<"$(with ".gpus[0].memory_bytes = $small")"
	assert_failure 1
	assert_equal "$(jq -r '.qualified, .reasons[0]' <<<"$output")" \
		$'false\ngpu_model: not known: it says \'NVIDIA GeForce RTX 4090\' and has 11.7 GiB of memory, where such a GPU has 24.0'
	jq -e '.requirements[] | select(.name == "gpu_model") | has("met") | not' <<<"$output"
	# more is only not counted, and what a driver keeps for itself (a tenth at most) changes nothing
	rnp-register check -q --policy rnp-021 <<<"$(with '.gpus[0].memory_bytes = 51514441728')"
	rnp-register check -q --policy rnp-021 <<<"$(with '.gpus[0].memory_bytes = 23400000000')"
	# of two the good one counts
	run_split rnp-register check --policy rnp-021 <<<"$(with ".gpus = [(.gpus[0] | .memory_bytes = $small | .uuid = \"GPU-00000000-0000-4000-8000-000000000002\"), .gpus[0]]")"
	assert_success
	assert_equal "$(jq -c '.gpus | map([.count, .counts, (.reason // "" | test("11.7 GiB"))])' <<<"$output")" '[[1,true,false],[1,false,true]]'
}

@test "check: anything qualifies for the testnet" {
	rnp-register detect | rnp-register check --policy testnet
}

@test "check: good records before a bad one are written; policies that are not there" {
	run_split rnp-register check --policy rnp-021 - <<<"$(cat "$node"; echo '{"kind":"rnp.node"}')"
	assert_failure 65
	assert_equal "$(wc -l <<<"$output")" 1
	[[ $stderr == *stdin:2* ]]
	run_split rnp-register check --policy nonsense "$node"
	assert_failure 64
	[[ $stderr == *"no policy 'nonsense'"* && $stderr == *rnp-021* ]]
	# one that is near is named alone
	refused 64 "there is no policy 'testnt'; did you mean 'testnet'?" rnp-register check --policy testnt "$node"
	[[ $stderr != *rnp-021* ]]
	echo '{"kind":"rnp.policy","v":1}' >"$BATS_TEST_TMPDIR/p.json"
	refused 65 "is missing" rnp-register check --policy "$BATS_TEST_TMPDIR/p.json" "$node"
	run_split rnp-register check "$node"
	assert_failure 64
}

@test "check: what it and detect tell to run exists" {
	cd "$BATS_TEST_TMPDIR"
	rnp-register detect >node.json
	{ jq -r '.unknown[]' node.json; rnp-register check --policy rnp-021 node.json; } |
		grep -oE 'rnp-[a-z]+ [a-z]+( --suite [a-z]+)?' | sort -u >commands
	grep -q 'rnp-bench run --suite mem' commands
	while read -r command; do
		# shellcheck disable=SC2086 # words
		run $command --help
		assert_success
	done <commands
}

@test "check: for people it is a page, with units, what is missing and what helps" {
	local page=$BATS_TEST_TMPDIR/page
	with '.gpus = [] | .network.down_bps = 50000000' >"$BATS_TEST_TMPDIR/poor.json"
	COLUMNS=80 run_split rnp-register check --table --policy rnp-021 "$BATS_TEST_TMPDIR/poor.json"
	assert_failure 1
	echo "$output" >"$page"
	grep -qxE 'qualified +no: 2 of 4 requirements are not met' "$page"
	grep -qxE '  download +no: 50 Mbit/s \(more than 100 Mbit/s\)' "$page"
	grep -qxE '  upload +ok: 910 Mbit/s \(more than 75 Mbit/s\)' "$page"
	grep -qxE '  gpu model +no: none \(a model of the tables gpu, enterprise\)' "$page"
	# each remedy is there, whole
	rnp-register check --policy rnp-021 "$BATS_TEST_TMPDIR/poor.json" >"$BATS_TEST_TMPDIR/record" || true
	jq -r '.requirements[], .recommendations[] | .remedy // empty' "$BATS_TEST_TMPDIR/record" | while read -r remedy; do
		tr -s ' \n' ' ' <"$page" | grep -qF "$remedy" || fail "not on the page: $remedy"
	done
	assert_equal "$(awk 'length > 80' "$page")" ""
	COLUMNS=80 rnp-register check --table --policy rnp-021 "$node" | grep -qxE 'qualified +yes'
}

@test "check: a policy's numbers may have their unit; one of another unit is doubted" {
	local p=$BATS_TEST_TMPDIR/p.json policy='{"kind":"rnp.policy","v":1,"name":"mine","requires":[
		{"name":"download","field":"down_bps","more_than":"100 Mbit/s","unit":"bit/s"}]}'
	jq . "$ROOT/cmd/rnp-reward/policies/testnet.json" >"$p.all"
	jq --argjson r "$(jq .requires <<<"$policy")" '.requires = $r' "$p.all" >"$p"
	run_split rnp-register check --policy "$p" "$node"
	assert_success
	assert_equal "$stderr" ""
	assert_equal "$(jq -c '.requirements[0].met' <<<"$output")" true
	[[ $(rnp-register check --table --policy "$p" "$node") == *"100 Mbit/s"* ]]
	jq '.requires[0].more_than = 100' "$p" >"$p.100.json"
	run_split rnp-register check --policy "$p.100.json" "$node"
	assert_success
	[[ $stderr == *"download: 0.0001 Mbit/s is unusual; did you mean 100 Mbit/s (Mbit/s)"* ]]
	jq '.requires[0].more_than = "100 Mbit/s or so"' "$p" >"$p.so.json"
	refused 65 "no amount such as \"100 Mbit/s\"" rnp-register check --policy "$p.so.json" "$node"
}

@test "check: each name of the driver's list has its row, and no laptop's chip is taken for the desktop's" {
	local list=$ROOT/tests/data/gpus/nvidia.tsv
	cd "$BATS_TEST_TMPDIR"
	grep -v '^#' "$list" | jq -Rc --slurpfile node "$node" 'split("\t") | .[0] as $name |
		$node[0] | .gpus[0].model = $name | del(.gpus[0].memory_bytes)' >nodes
	rnp-register check --policy testnet nodes | jq -r '.pool | split(" > ")[-1]' >rows
	grep -v '^#' "$list" | awk -F'\t' '{print $2 == "-" ? $1 : $2}' | sed 's/^NVIDIA //' >want
	diff want rows
	[ "$(wc -l <want)" -gt 200 ]
}
