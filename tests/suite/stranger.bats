# A stranger's first ten minutes: installed programs alone, and no knowledge but what they say. Every next step is
# taken from the message before it.
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	"$ROOT/scripts/install" "$PWD/usr" "$RNP_BUILD" /usr
	PATH=$PWD/usr/bin:/usr/bin:/bin
	unset RNP_REGISTRY RNP_WALLET RNP_KEY RNP_COSTS RNP_LABEL RNP_NAME RNP_BENCH RNP_BUILD
	export HOME=$PWD/home XDG_CONFIG_HOME=$PWD/home/.config RNP_NODE_ENV=$PWD/image/etc/rnp/node.env
	mkdir -p home
	# a small machine: what it claims is what it has to prove
	export RNP_SYSROOT=$PWD/machine
	mkdir -p machine/proc
	printf 'MemTotal: 262144 kB\nMemAvailable: 200000 kB\n' >machine/proc/meminfo
	cp /proc/cpuinfo machine/proc/
}

teardown() {
	[[ -z ${service:-} ]] || kill -- -"$service" 2>/dev/null || true
	stop_registry
}

@test "stranger: from the name of a program to a node with its first verdict and a price, by what the programs say" {
	make_key operator
	start_registry --trust "$operator"

	# a name without anything says how to go on, and that says what makes a node
	run_split rnp-register
	assert_equal "$status" 64
	[[ $stderr == *"see rnp-register --help"* ]] || fail "$stderr"
	rnp-register --help >help
	[[ $(awk 'NF == 0 { n++ } n == 2 && NF && !/:$/ { print $1; exit }' help) == setup ]] || fail "$(<help)"

	# what setup lacks it names, and what its answer is refused for, too
	run_split rnp-register setup --root image </dev/null
	[[ $stderr == *"--registry URL"* ]] || fail "$stderr"
	run_split rnp-register setup --root image --registry nonsense </dev/null
	[[ $stderr == *nonsense* ]] || fail "$stderr"
	RNP_SYSROOT='' rnp-bench run -q --quick --suite mem --test latency --time 50ms >bench.jsonl
	sed -i 's/"node":"[^"]*",//' bench.jsonl
	run_split rnp-register setup --root image --policy testnet --registry "$url" --bench bench.jsonl </dev/null
	[[ $status -le 1 ]] || fail "$stderr"
	setup=$output

	# every command of next is run as it stands, with what only a person knows in place of ADDRESS and URL
	echo "$setup" >setup.json
	assert_equal "$(jq '.next | length' setup.json)" "$(advised .next setup.json | wc -l)"
	assert_equal "$(advised .next setup.json | wc -l)" 4
	advised .next setup.json | sed "s|ADDRESS|$(rnp-register address --key operator.json)|" >commands
	grep -q '^rnp-price floor --example > costs.json && ' commands || fail "$(<commands)"
	while read -r command; do
		[[ $command != systemctl* ]] || command -v systemctl >/dev/null || continue
		# an editor that changes nothing; a clear no is an answer, too
		RNP_SYSROOT='' EDITOR=true bash -c "$command" >said 2>&1 </dev/null || [[ $? == 1 ]] || fail "$command: $(<said)"
	done <commands
	[[ -x image/usr/local/bin/rnp-register ]]
	run_split rnp-register setup --root image --policy testnet --bench bench.jsonl
	jq -e '.floor_uusd > 0 and (.next | length) == 1' <<<"$output" || fail "$output"

	# status says what is missing, as a command; it is run as it stands, as the service does
	export RNP_KEY=$PWD/image/etc/rnp/key.json
	rnp-register status >status.json
	next=$(jq -r .next status.json)
	[[ $next == "no heartbeats arrive: "* ]] || fail "$next"
	# in a group of its own, so that all of the pipe can be ended
	RNP_SYSROOT='' setsid bash -c "${next#*: } >stored.jsonl 2>service.log" 3>&- &
	service=$!
	for _ in {1..400}; do
		rnp-register status >status.json
		jq -e .online status.json >/dev/null && break
		sleep 0.2
	done
	next=$(jq -r .next status.json)
	# what it says there is the pipe that runs already
	[[ $next == "no challenge was answered this week"* && $next == *": rnp-register heartbeat | rnp-bench answer | rnp-register submit" ]] ||
		fail "$next $(<service.log)"

	# the operator challenges by hand: with a deadline that a busy machine keeps, too
	node=$(jq -r .node status.json)
	rnp-bench challenge --node "$node" --key operator.json --size 64 --rounds 16 --memory 2MiB --hashes 4096 --deadline 10m >c.json
	RNP_SYSROOT='' rnp-bench answer c.json >a.json
	rnp-bench verdict --key operator.json --challenge c.json a.json | rnp-register submit --registry "$url" >/dev/null
	rnp-register status >status.json
	jq -e '.online and .passed and .challenges_passed == 1 and (has("reason") | not)' status.json || fail "$(<status.json)"
	kill -- -"$service"
	service=

	# a price, from the files that setup wrote
	cp "$ROOT/tests/data/man/offers.jsonl" .
	rnp-price quote --node image/etc/rnp/node.json --costs image/etc/rnp/costs.json offers.jsonl >quote.json
	jq -e '.ask_uusd >= .floor_uusd and (.why | length > 0)' quote.json
	# and the page of the registry has it all
	get /
	grep -q 'passed' answer.json
}
