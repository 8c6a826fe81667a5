# A stranger's first ten minutes: installed programs alone, and no knowledge but what they say. Every next step is
# taken from the message before it.
load helper
load registry

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
	[[ $(awk 'NF == 0 { n++ } n == 2 && NF { print $1; exit }' help) == setup ]] || fail "$(<help)"

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

	# each line of next holds a command or an option that there is
	jq -r '.next[]' <<<"$setup" >next
	grep -q 'rnp-price floor --example > costs.json' next || fail "$(<next)"
	grep -oE 'rnp-[a-z]+ [a-z]+( --[a-z-]+)*' next | while read -r program sub options; do
		"$program" "$sub" --help >help
		for option in $options; do grep -q -- "$option" help || fail "$program $sub has no $option"; done
	done
	bash -c "$(sed -n 's/^a price: \(.*\), then --costs$/\1/p' next)"
	run_split rnp-register setup --root image --policy testnet --costs costs.json --bench bench.jsonl </dev/null
	jq -e '.floor_uusd > 0' <<<"$output"

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
	[[ $next == *"does rnp-bench answer run"* ]] || fail "$next $(<service.log)"

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
