# Bad input, bad places to read from and to write to: one line that says what and where, the
# right code, and what came before is written.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	rnp-register keygen --out key.json >/dev/null
	export OMP_NUM_THREADS=2
	local node=11111111111111111111111111111111 data=$ROOT/tests/data
	jq -c . "$data/rtx4090.node.json" >good.node
	rnp-register sign --key key.json >good.signed <<<'{"kind":"rnp.x","v":1}'
	echo '{"kind":"rnp.usage","v":1,"node":"'$node'","up_s":3600}' >good.usage
	rnp-reward epoch --policy testnet --pool 10 good.usage >good.rewards
	head -n 1 good.rewards >good.reward
	rnp-reward proof --node $node good.rewards >good.proof
	head -n 1 "$data/man/offers.jsonl" >good.offer
	# the commands that read records, and a good one for each
	readers=('rnp-register canon' 'rnp-register sign --key key.json' 'rnp-register verify'
		'rnp-register check --policy rnp-021' 'rnp-reward epoch --policy testnet --pool 10'
		"rnp-reward explain --node $node --policy testnet --pool 10"
		"rnp-reward proof --node $node" 'rnp-reward verify'
		"rnp-price floor --costs $data/man/costs.json"
		"rnp-price quote --node $data/man/node.json --costs $data/man/costs.json")
	goods=(node signed signed node usage usage reward proof node offer)
}

# good_for COMMAND: a record that it takes
good_for() {
	local i
	for i in "${!readers[@]}"; do
		if [[ ${readers[i]} == "$1" ]]; then cat "good.${goods[i]}"; fi
	done
}

# bad_line CODE COMMAND FILE: refused with one line of stderr that names stdin and the line
bad_line() {
	run_split bash -c "$2 <$3"
	[[ $status == "$1" && $(wc -l <<<"$stderr") == 1 && $stderr == "${2%% *}: "*stdin:* ]] ||
		fail "$2 <$3 ($(head -c 80 "$3" | tr '\0\n' '@|')): $status, '$stderr'"
}

@test "robust: what is not JSON is 65, with file and line, for every reader of records" {
	printf '{"a":' >bad.truncated
	printf '{"a":1,"a":2}\n' >bad.duplicate
	printf '{"a":"\0"}\n' >bad.nul
	printf '{"a":"\\u0000"}\n' >bad.escaped-nul
	printf '{"a":"\xff\xc0\x80"}\n' >bad.utf8
	printf '{"a":"\\ud800"}\n' >bad.surrogate
	printf '%600s%600s\n' '' '' | sed 's/ \{600\}/[/; s/[ ]/[/g; s/$/1/' >bad.deep
	printf '{"a":1e999}\n' >bad.huge
	printf '{"a":NaN}\n' >bad.nan
	printf '{} {}\n' >bad.two
	printf '{"a":"%01100000d"}\n' 7 >bad.long
	for reader in "${readers[@]}"; do
		for file in bad.*; do
			if [[ $reader == *canon && $file == bad.long ]]; then continue; fi # longer lines there
			bad_line 65 "$reader" "$file"
			{ good_for "$reader"; cat "$file"; } >after
			bad_line 65 "$reader" after
			[[ $stderr == *stdin:2* ]] || fail "$reader: $stderr"
		done
	done
}

@test "robust: good records before the bad one are written" {
	for reader in 'rnp-register canon' 'rnp-register sign --key key.json' 'rnp-register verify'; do
		{ yes "$(good_for "$reader")" | head -n 300; echo '{'; good_for "$reader"; } >after
		run_split bash -c "$reader <after"
		assert_equal "$status" 65
		assert_equal "$(wc -l <<<"$output")" 300
		[[ $stderr == *stdin:301* ]]
	done
}

@test "robust: records of another kind, version or shape are 65 where the kind matters" {
	printf '[]\n' >bad.array
	printf '{"kind":"rnp.error","v":1,"code":1,"message":""}\n' >bad.kind
	for reader in "${readers[@]:3:4}" "${readers[@]:8}"; do
		good_for "$reader" | jq -c '.v = 2' >bad.version
		good_for "$reader" | jq -c 'del(.kind)' >bad.no-kind
		good_for "$reader" | jq -c 'if .node then .node = "0OIl" else .kind = 7 end' >bad.address
		good_for "$reader" | jq -c 'if .node then .node = 7 else .v = "1x" end' >bad.type
		for file in bad.*; do bad_line 65 "$reader" "$file"; done
		[[ $stderr == *kind* || $stderr == *node* || $stderr == *v* ]]
	done
}

@test "robust: input that cannot be read is 66, 77 or 74" {
	for reader in "${readers[@]}"; do
		# shellcheck disable=SC2086 # words on purpose
		refused 66 "cannot open '$BATS_TEST_TMPDIR/none'" $reader "$BATS_TEST_TMPDIR/none"
		# shellcheck disable=SC2086
		refused 66 'Is a directory' $reader /
		run_split bash -c "$reader <&-"
		assert_equal "$status" 74
		[[ $stderr == *"cannot read 'stdin': Bad file descriptor" ]]
	done
}

@test "robust: output that cannot be written is 74" {
	for reader in "${readers[@]}"; do
		good_for "$reader" >good.now
		run_split bash -c "$reader <good.now >/dev/full"
		assert_equal "$status" 74
		assert_equal "$stderr" "${reader%% *}: cannot write to standard output: No space left on device"
		run_split bash -c "$reader <good.now >&-"
		assert_equal "$status" 74
		yes "$(cat good.now)" | head -n 1000 >many
		run_split bash -c "$reader <many | head -n 1 >/dev/null; echo \${PIPESTATUS[0]} >&2"
		# the others print one answer, which fits the pipe before head has gone
		[[ $reader != rnp-register* || $stderr == *74 ]] || fail "$reader: $stderr"
	done
}

@test "robust: keys that are missing, open to others or broken" {
	refused 66 'none.json' rnp-register sign --key none.json </dev/null
	cp key.json open.json
	chmod 644 open.json
	refused 77 'open.json' rnp-register sign --key open.json </dev/null
	echo '[1,2,3]' >short.json
	chmod 600 short.json
	refused 65 'short.json' rnp-register sign --key short.json </dev/null
	echo '{' >syntax.json
	chmod 600 syntax.json
	refused 65 'syntax.json' rnp-register address --key syntax.json
	refused 73 'exists' rnp-register keygen --out key.json
}

@test "robust: --table is for every command, also those that print plain text" {
	for reader in "${readers[@]}"; do
		good_for "$reader" >good.now
		run_split bash -c "$reader --table <good.now"
		((status <= 1)) || fail "$reader --table: $status $stderr"
		run_split bash -c "$reader --table </dev/null"
		((status != 70)) || fail "$reader --table </dev/null: $status $stderr"
	done
	run_split rnp-register address --table --key key.json
	assert_success
}

@test "robust: without libcurl a client ends at once and says what to install, and waits for no server" {
	cd "$BATS_TEST_TMPDIR"
	mkdir lib
	touch lib/libcurl.so.4
	while read -r command; do
		# shellcheck disable=SC2086 # words
		LD_LIBRARY_PATH=$PWD/lib run_split timeout 60 $command
		[[ $status == 71 && $stderr == *"cannot use libcurl: "*"install the package libcurl4"* ]] || fail "$command: $status: $stderr"
	done <<-'E'
		rnp-train join --key key.json --state state http://127.0.0.1:1
		rnp-register heartbeat --key key.json --registry http://127.0.0.1:1
		rnp-register list --registry http://127.0.0.1:1
		rnp-register logs --key key.json --registry http://127.0.0.1:1 00000000000000000000000000000000
		rnp-price feed --market vast http://127.0.0.1:1/
	E
}
