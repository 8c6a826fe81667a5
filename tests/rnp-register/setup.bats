# rnp-register setup makes a machine a node: at a terminal, without one, below a directory.
load ../helper
load registry

wallet=4fYNw3dojWmQ4dXtSGE9epjRGy9pFSx62YypT7avPYvA

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	unset RNP_GPUS RNP_REGISTRY RNP_WALLET RNP_KEY RNP_COSTS RNP_LABEL RNP_NAME RNP_BENCH
	export RNP_NODE_ENV=$BATS_TEST_TMPDIR/none
	cp "$ROOT/tests/data/man/costs.json" "$ROOT/tests/data/man/offers.jsonl" .
	# what rnp-bench run prints, so that no test measures but one
	: >bench.jsonl
	for test in down up ping; do
		jq -nc --arg test "$test" '{kind: "rnp.bench", v: 1, at: "2026-11-01T00:00:00Z", suite: "net", test: $test,
			device: "network", samples: 5, params: {peer: "http://127.0.0.1:1"}} + (if $test == "ping" then
			{unit: "ns", median: 9000000, low: 8000000, high: 9100000} else
			{unit: "B/s", median: 125000000, low: 120000000, high: 126000000} end)' >>bench.jsonl
	done
}

teardown() {
	stop_registry
}

@test "setup: without a terminal options are enough, and the preflight says what is missing" {
	start_registry
	run_split rnp-register setup --root image --registry "$url" --wallet "$wallet" --name 'my node' \
		--label country=DE --label 'region=North Sea' --costs costs.json --bench bench.jsonl
	assert_equal "$status" 1 # no GPU: a clear no
	rnp-register --schema rnp.setup >schema
	python3 -c 'import json, sys, jsonschema
jsonschema.Draft202012Validator(json.load(open("schema"))).validate(json.loads(sys.argv[1]))' "$output"
	jq -e '.registered and (.qualified | not) and .service == "written" and .floor_uusd > 0 and .pending' <<<"$output"
	jq -e '.reasons == ["gpu_model: this machine has no GPU"] and (.next[0] | test("testnet"))' <<<"$output"
	# the record that the registry has is what was said
	rnp-register list --registry "$url" >listed
	rnp-register verify <listed
	jq -e --arg w "$wallet" '.wallet == $w and .name == "my node" and .labels == {country: "DE", region: "North Sea"} and
		.network.down_bps == 1000000000' listed
	assert_equal "$(stat -c %a image/etc/rnp/key.json)" 600
	assert_equal "$(find image -perm /022)" ""
}

@test "setup: settings that it writes make the same record, and a second run keeps key, settings and figures" {
	start_registry
	rnp-register setup -q --policy testnet --root image --registry "$url" --wallet "$wallet" --name n \
		--label country=DE --label host_type=miner --gpus 0,2 --costs costs.json --bench bench.jsonl >first || true
	cp image/etc/rnp/key.json key.before
	cp image/etc/rnp/node.env env.before
	# paths are those of the machine that will run from the image
	grep -qx 'RNP_COSTS="/etc/rnp/costs.json"' env.before
	grep -qx 'RNP_GPUS="0,2"' env.before
	sed 's|/etc/rnp|image/etc/rnp|' env.before >node.env
	RNP_NODE_ENV=node.env rnp-register detect --key image/etc/rnp/key.json | jq -c '[.node, .wallet, .name, .labels, .network]' >detected
	assert_equal "$(<detected)" "$(jq -c '[.node, .wallet, .name, .labels, .network]' image/etc/rnp/node.json)"
	# status asks for this node, whoever runs it
	assert_equal "$(RNP_NODE_ENV=node.env rnp-register status | jq -r .node)" "$(jq -r .node image/etc/rnp/node.json)"
	# bash and systemd read the file, too
	assert_equal "$(bash -c '. image/etc/rnp/node.env; echo "$RNP_LABEL"')" "country=DE; host_type=miner"
	rnp-register setup -q --policy testnet --root image </dev/null >second || true
	cmp key.before image/etc/rnp/key.json
	cmp env.before image/etc/rnp/node.env
	jq -e '.tier != "Unknown" and .floor_uusd > 0' second
	grep -c '"suite":"net"' image/etc/rnp/bench.jsonl | grep -qx 3
	grep -q '"suite":"mem"' image/etc/rnp/bench.jsonl
}

@test "setup: what it would earn is a quote among the offers given" {
	start_registry
	rnp-register setup -q --root image --registry "$url" --costs costs.json --bench bench.jsonl --offers offers.jsonl >out || true
	assert_equal "$(jq -c '[.ask_uusd, .floor_uusd]' out)" "$(rnp-price quote --node image/etc/rnp/node.json \
		--costs costs.json offers.jsonl | jq -c '[.ask_uusd, .floor_uusd]')"
}

@test "setup: an option that is wrong is 64 or 65 before anything is sent, and a key is never lost" {
	refused 64 "option --registry URL is required, or RNP_REGISTRY" rnp-register setup --root image --bench bench.jsonl
	misused "--registry URL is required; or set RNP_REGISTRY, or run rnp-register setup" rnp-register list
	misused "--costs F is required; or set RNP_COSTS" rnp-price quote --node node.json
	refused 64 "not a base58 address" rnp-register setup --root image --registry http://127.0.0.1:1 --wallet x
	refused 64 "holds quotes" rnp-register setup --root image --registry http://127.0.0.1:1 --name "\$(reboot)"
	refused 64 "not NAME=VALUE" rnp-register setup --root image --registry http://127.0.0.1:1 --label 'a=b;c=d'
	refused 64 "there is no 'contry'" rnp-register setup --root image --registry http://127.0.0.1:1 --label contry=DE
	# each option is judged, with what its file holds, before anything is made or measured
	local row rest
	echo '{"watts": 3}' >wrong.json
	echo '{"watts_load": 3,,}' >comma.json
	jq -c --arg w "$wallet" '.node = $w' bench.jsonl >foreign.jsonl
	for row in "64 --policy foo|no policy 'foo'" '64 --label country=Germany|"Germany" is not two capital letters' \
		"66 --costs nofile|'nofile'" "66 --bench nofile|'nofile'" "66 --offers nofile|'nofile'" "66 --ca nofile|'nofile'" \
		'65 --costs wrong.json|wrong.json: there is no' '65 --costs comma.json|comma.json: not JSON' \
		'65 --bench wrong.json|wrong.json:1' "65 --bench foreign.jsonl|measured by node $wallet" '65 --offers wrong.json|wrong.json:1' \
		"64 --gpus none|'none' is neither" "64 --name $(printf '%0200d' 1)|is longer than"; do
		rest=${row#* }
		# shellcheck disable=SC2086 # words
		run_split rnp-register setup --root image --registry http://127.0.0.1:1 --peer http://127.0.0.1:1 ${rest%%|*}
		assert_equal "$row: $status" "$row: ${row%% *}"
		[[ $stderr == *"${rest#*|}"* ]] || fail "$row: $stderr"
		[[ ! -e image ]] || fail "$row: $(find image)"
	done
}

@test "setup: a registry that is away leaves all files, and a message to try again" {
	run_split rnp-register setup --root image --registry http://127.0.0.1:1 --bench bench.jsonl
	assert_equal "$status" 69
	[[ $stderr == *"run it again when http://127.0.0.1:1 can be reached"* ]] || fail "$stderr"
	[[ -s image/etc/rnp/node.env && -s image/etc/systemd/system/rnp-heartbeat.service ]]
	# it is told before anything takes long: the settings are written after what is measured
	asked=$(grep -n 'cannot reach .http://127.0.0.1:1.*going on, for the files' <<<"$stderr" | head -1 | cut -d: -f1)
	written=$(grep -n 'bench.jsonl: measurements' <<<"$stderr" | cut -d: -f1)
	[[ $asked && $asked -lt $written ]] || fail "$stderr"
}

@test "setup: what was measured within the hour is not measured again, what is older or another's is" {
	start_registry
	rnp-register setup -q --policy testnet --root image --registry "$url" --bench bench.jsonl >out || true
	node=$(jq -r .node image/etc/rnp/node.json)
	for row in '-10 minutes|kept' '-2 hours|measuring memory' '10 minutes|measuring memory'; do
		jq -nc --arg at "$(date -u -d "${row%|*}" +%FT%TZ)" --arg n "$node" '{kind: "rnp.bench", v: 1, at: $at, suite: "mem", test: "copy", node: $n,
			device: "a CPU", unit: "B/s", median: 77000000007, low: 77000000006, high: 77000000008, samples: 8, params: {}}' >image/etc/rnp/bench.jsonl
		run_split rnp-register setup --policy testnet --root image --registry "$url"
		[[ $stderr == *"${row#*|}"* ]] || fail "$row: $stderr"
		assert_equal "$row $(grep -c 77000000007 image/etc/rnp/bench.jsonl)" "$row $([[ $row == *kept ]] && echo 1 || echo 0)"
	done
}

@test "setup: in a folder whose name has blanks the commands of next are words of a shell" {
	start_registry
	rnp-register setup -q --root "my image" --registry "$url" --bench bench.jsonl >out || true
	advised .next out | grep '/scripts/install ' >install
	bash -e install
	[[ -x "my image/usr/local/bin/rnp-register" ]]
	advised .next out | grep -- "--root 'my image'" >again
	assert [ -s again ]
}

@test "setup: its units are sound, name programs that services see, and next says how to put them there" {
	start_registry
	rnp-register setup -q --root image --registry "$url" --bench bench.jsonl >out || true
	# a build tree is no place for services: the step is a command that runs as it stands
	advised .next out | grep '/scripts/install ' >install
	! grep -q "$RNP_BUILD" image/etc/systemd/system/* || fail "$(grep "$RNP_BUILD" image/etc/systemd/system/*)"
	bash -e install
	rnp-register setup -q --root image --registry "$url" >again || true
	[[ $(advised .next again) != *install* ]] || fail "$(<again)"
	local unit program
	for unit in image/etc/systemd/system/* image/usr/local/lib/systemd/system/rnp-node.service; do
		for program in $(grep -oE '/[a-z/]*/rnp-[a-z]+( |$)' "$unit" | sort -u); do
			[[ -x image$program ]] || fail "$unit: $program is not there"
		done
	done
	if command -v systemd-analyze >/dev/null; then
		sed "s|/usr/local/bin|$RNP_BUILD/bin|" -i image/etc/systemd/system/*
		systemd-analyze verify --man=no image/etc/systemd/system/* 2>verify.err || fail "$(<verify.err)"
	fi
	# the daily registration, as systemd would run it
	CREDENTIALS_DIRECTORY=$PWD/credentials
	mkdir credentials
	cp image/etc/rnp/key.json credentials/key
	sed 's|/etc/rnp|image/etc/rnp|' image/etc/rnp/node.env >node.env
	local command
	command=$(awk '/^ExecStart=/ { on = 1; sub(/.*-c \047/, "") } on { last = !/\\$/; sub(/\\$/, ""); printf "%s\n", $0 } last { exit }' \
		image/etc/systemd/system/rnp-node.service | sed "s/'\$//; s|/usr/local/bin|$RNP_BUILD/bin|g")
	(set -a && . ./node.env && export CREDENTIALS_DIRECTORY && sh -c "$command") >stored
	jq -e '.kind == "rnp.stored"' stored
}

@test "setup: units of a package are left alone" {
	mkdir -p image/usr/bin image/usr/lib/systemd/system
	cp "$RNP_BUILD/bin/rnp-register" image/usr/bin
	echo x >image/usr/lib/systemd/system/rnp-heartbeat.service
	run_split rnp-register setup --root image --registry http://127.0.0.1:1 --bench bench.jsonl
	[[ ! -e image/etc/systemd ]]
}

@test "setup: settings from each source are used, and those of the image go before" {
	cp costs.json other.json
	sed -i 's/"watts_load": [0-9]*/"watts_load": 999/' other.json
	# environment, the person's file, the image's own: the file of costs is read, whoever names it
	RNP_COSTS=$PWD/other.json run_split rnp-register setup --root image --registry http://127.0.0.1:1 --bench bench.jsonl
	assert_equal "$status" 69
	grep -q 999 image/etc/rnp/costs.json
	mkdir -p "$XDG_CONFIG_HOME/rnp"
	printf 'costs = %s\nwallet = %s\nname = mine\nlabel = country=DE\n' "$PWD/costs.json" "$wallet" >"$XDG_CONFIG_HOME/rnp/config"
	run_split rnp-register setup --root second --registry http://127.0.0.1:1 --bench bench.jsonl
	assert_equal "$status" 69
	cmp costs.json second/etc/rnp/costs.json
	grep -qx 'RNP_NAME="mine"' second/etc/rnp/node.env
	rm "$XDG_CONFIG_HOME/rnp/config"
	# a second run measures again where it is asked to, and not what it wrote itself
	export RNP_NODE_ENV=$PWD/second/etc/rnp/node.env
	run_split rnp-register setup --root second
	assert_equal "$status" 69
	grep -qx 'RNP_NAME="mine"' second/etc/rnp/node.env
	grep -q '"suite":"mem"' second/etc/rnp/bench.jsonl
	# what another image has set is not taken for this one
	run_split rnp-register setup --root third --registry http://127.0.0.1:1 --bench bench.jsonl
	! grep -q RNP_NAME third/etc/rnp/node.env || fail "$(<third/etc/rnp/node.env)"
}

# at_terminal "ANSWER..." COMMAND: what a person sees who answers these lines
at_terminal() {
	python3 - "$@" <<-'END'
		import os, pty, select, sys
		import signal
		signal.alarm(100)
		answers = sys.argv[1].split("\n")
		pid, fd = pty.fork()
		if pid == 0:
		    os.environ["TERM"] = "dumb"
		    os.execvp("bash", ["bash", "-c", sys.argv[2]])
		out, seen = b"", 0
		while True:
		    try:
		        piece = os.read(fd, 65536)
		    except OSError:
		        break
		    if not piece:
		        break
		    out += piece
		    if out[seen:].rstrip(b"\r\n").endswith(b": "):
		        answer = answers.pop(0) if answers else "" # $(...) drops empty ones at the end
		        os.write(fd, b"\x04" if answer == "EOF" else answer.encode() + b"\n")
		        seen = len(out) + len(answer) + 2
		status = os.waitpid(pid, 0)[1]
		sys.stdout.write(out.decode().replace("\r\n", "\n"))
		sys.exit(os.waitstatus_to_exitcode(status))
	END
}

@test "setup: at a terminal it asks until there is a registry, shows all before it writes, and asks again" {
	start_registry
	answers=$(printf '%s\n' '' "$url" nonsense "$wallet" 'my node' Germany DE '' miner '' 450mW '0.45 kW' '' 60 1.5 '' 1599.00 no \
		'' '' '' '' '' '' '' '' '15 ct/kWh' '' yes)
	run at_terminal "$answers" "rnp-register setup --root image --bench bench.jsonl"
	assert_equal "$status" 1
	assert_output --partial "a node needs a registry"
	assert_output --partial "'nonsense' is not a base58 address"
	assert_output --partial "two capital letters"
	# slips are asked again, or seen in what an hour costs
	assert_output --partial "watts: '450mW' is less than 1 W"
	assert_output --partial "what a kWh costs is part of the lowest price: 0 if nothing"
	assert_output --partial "what the hardware costs is part"
	assert_output --partial "dollars for a kWh: 60.00 USD/kWh is unusual; did you mean"
	assert_output --partial '450 W at 1.50 USD/kWh: $0.675 an hour'
	assert_output --partial '450 W at 0.15 USD/kWh: $0.068 an hour; hardware 1599.00 USD over 4 years'
	[[ $output =~ qualified\ +no ]] || fail "$output"
	[[ $output =~ floor\ +\$0\.1[0-9]+\ an\ hour ]] || fail "$output"
	[[ $output != *'"kind"'* ]]
	jq -e '.labels == {country: "DE", host_type: "miner"} and .name == "my node"' image/etc/rnp/node.json
	jq -e '.watts_load == 450 and .per_kwh == "0.15 USD/kWh"' image/etc/rnp/costs.json
	# the answers are the defaults of the next time
	answers=$(printf '%s\n' '' '' 'other' '' '' '' '')
	run at_terminal "$answers" "rnp-register setup --root image --bench bench.jsonl"
	assert_output --partial "Wallet that is paid (Solana address) [$wallet]"
	jq -e '.labels == {country: "DE", host_type: "miner"} and .name == "other"' image/etc/rnp/node.json
	jq -e '.watts_load == 450' image/etc/rnp/costs.json
}

@test "setup: on a terminal each command of next stands in lines that can be pasted" {
	start_registry
	run at_terminal "" "rnp-register setup -q --root image --registry $url --bench bench.jsonl"
	assert_output --partial '  rnp-price floor --example > costs.json &&
'
	[[ $output == *$'\n              rnp-register setup --root image --policy testnet\n'* ]] || fail "$output"
}

@test "setup: who ends the input is told that nothing was written" {
	run at_terminal "" "rnp-register setup --root image --policy foo"
	assert_equal "$status" 64
	refute_output --partial "Registry (URL)"
	run at_terminal "$(printf '%s\n' http://127.0.0.1:1 EOF)" "rnp-register setup --root image"
	assert_equal "$status" 64
	assert_output --partial "nothing was written"
	[[ ! -e image ]] || fail "$(find image)"
}
