# rnp-register work: the node's agent with real containers, on what a registry of the test assigns (work_registry.py).
load ../helper
load registry
load containers

setup_file() {
	need_podman
	need_sandbox
	make_machine
	start_images
	IMAGE=$(push_image plain)
	export IMAGE
}

teardown_file() {
	stop_images
	end_machine
}

setup() {
	use_machine
	BOX=$(mktemp -d /var/tmp/rnp-work-XXXXXX)
	RUN=/run/rt-$$
	mkdir -p "$BOX/reg/blobs" "$RUN"
	cd "$BOX" || return
	make_key node
	make_key customer
	"${IN_MACHINE[@]}" python3 "$ROOT/tests/tools/work_registry.py" reg 2>"$BATS_TEST_TMPDIR/registry.err" 3>&- &
	registry=$!
	wait_port reg/port "$registry"
	url=http://127.0.0.1:$(cat reg/port)
	quote='{kind: "rnp.quote", ask_uusd: 100000, customer_uusd: 105000, floor_uusd: 1, why: []}'
	signed node "$quote" >reg/quotes.jsonl
	quote_sha256=$(sha_of <reg/quotes.jsonl)
}

teardown() {
	stop_agent
	kill "$registry" 2>/dev/null || true
	end_leases "$BOX" "$RUN"
	rm -rf "$BOX" "$RUN"
}

# The hash of a record: that of its canonical form without its proof.
sha_of() {
	jq -c 'del(.proof)' | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1
}

start_agent() {
	"${IN_MACHINE[@]}" rnp-register work --registry "$url" --key node.json --dir "$BOX/work" --run-dir "$RUN" --state-to "$BOX/state" \
		--memory 512MiB --disk 128MiB --cpu-cores 1 --grace 5s "$@" 2>>"$BATS_TEST_TMPDIR/agent.err" 3>&- &
	agent=$!
}

stop_agent() {
	[[ -n ${agent:-} ]] || return 0
	kill "$agent" 2>/dev/null || true
	ended "$agent" || true
	agent=
}

# blob TEXT: keeps it at the registry, prints its hash
blob() {
	local sha
	sha=$(printf %s "$1" | sha256sum | cut -d' ' -f1)
	printf %s "$1" >"reg/blobs/$sha"
	echo "$sha"
}

# booking SCRIPT [JQ]: prints a booking of one node for that script, signed by the customer; the jq program changes it
booking() {
	jq -nc --arg customer "$customer" --arg node "$node" --arg quote "$quote_sha256" --arg image "$IMAGE" \
		--arg now "$(date -u +%FT%TZ)" --arg until "$(date -u -d '+10 min' +%FT%TZ)" --arg run "$(blob "$1")" \
		'{kind: "rnp.booking", v: 1, signer: $customer, at: $now, offer: 0, hours: 1, image: $image, run_sha256: $run,
		proposal: {kind: "rnp.proposal", v: 1, signer: $customer, at: $now, job: ("0" * 64), valid_until: $until,
			request: {kind: "rnp.job", v: 1, job: "j", memory_bytes: 134217728, disk_bytes: 67108864, cpu_cores: 1},
			offers: [{nodes: [{node: $node, quote: $quote, uusd_per_hour: 105000, node_uusd_per_hour: 100000}],
				uusd_per_hour: 105000, up_to_uusd: 105000}]}} | '"${2:-.}" |
		rnp-register sign --key "${3:-customer}.json"
}

# assign CLUSTER BOOKING [JQ]: it is assigned to the node as of now
assign() {
	jq -c --arg cluster "$1" --arg sha "$(sha_of <<<"$2")" --arg customer "$customer" --arg quote "$quote_sha256" \
		'{cluster: $cluster, rank: 0, turn: 0, number: 1, gpus: [], quote: $quote, uusd_per_hour: 105000,
		node_uusd_per_hour: 100000, want: "run", cause: "", customer: $customer, booking_sha256: $sha, booking: .,
		peers: [], restarts: 0} | '"${3:-.}" <<<"$2" >reg/entry
	[[ -e reg/work.json ]] || echo '[]' >reg/work.json
	jq -c --slurpfile new reg/entry '. + $new' reg/work.json >reg/work.part
	mv reg/work.part reg/work.json
}

# change CLUSTER JQ: the registry says something else of it
change() {
	jq -c --arg c "$1" "map(if .cluster == \$c then $2 else . end)" reg/work.json >reg/work.part
	mv reg/work.part reg/work.json
}

C=$(printf 'c%.0s' {1..32})
D=$(printf 'd%.0s' {1..32})

# told CLUSTER JQ: the node has told an event of which this is true
told() {
	[[ -e reg/events.jsonl && -n $(jq -c --arg c "$1" "select(.cluster == \$c) | select($2)" reg/events.jsonl) ]]
}

# states CLUSTER: prints the states that it went through, once each
states() {
	jq -r --arg c "$1" 'select(.cluster == $c).to' reg/events.jsonl | uniq | tr '\n' ' '
}

nothing_left() {
	! pgrep -f "$RUN/l/" >/dev/null && [[ -z $(ls "$RUN/l" "$RUN/net" "$BOX/work/volumes" 2>/dev/null | grep -v '^/\|^$') ]]
}

@test "work: a booked container runs; its log and its exit code arrive, and nothing of it stays" {
	assign "$C" "$(booking 'echo hello from rank $SKYPILOT_NODE_RANK of $RNP_NODES; id -u; pwd; exit 3')"
	start_agent
	wait_until "the run's end" told "$C" '.exit == 3'
	wait_until "its release" told "$C" '.to == "released"'
	assert_equal "$(states "$C")" "proving pulling starting ready releasing released "
	assert_equal "$(cat "reg/log-$C-0")" $'hello from rank 0 of 1\n0\n/root/sky_workdir'
	run jq -s 'map(.seq) == [range(1; length + 1)]' reg/events.jsonl
	assert_output true
	while read -r event; do rnp-register verify <<<"$event" >/dev/null; done <reg/events.jsonl
	wait_until "an empty machine" nothing_left
	wait_until "an idle state" grep -q idle state
}

@test "work: what a registry makes up is refused, and nothing is made for it" {
	local good other
	good=$(booking 'true')
	make_key other
	# signed by another; a lower price than quoted; a quote that nobody signed; another node's part; a GPU that is not here;
	# hours that are over; an altered command; no digest
	assign "$(printf '1%.0s' {1..32})" "$(booking true . other)"
	assign "$(printf '2%.0s' {1..32})" "$(booking true '.proposal.offers[0].nodes[0].node_uusd_per_hour = 5')" '.node_uusd_per_hour = 5'
	assign "$(printf '3%.0s' {1..32})" "$(booking true ".proposal.offers[0].nodes[0].quote = (\"0\" * 64)")" '.quote = ("0" * 64)'
	assign "$(printf '4%.0s' {1..32})" "$(booking true ".proposal.offers[0].nodes[0].node = \"$other\"")"
	assign "$(printf '5%.0s' {1..32})" "$(booking true '.proposal.offers[0].nodes[0].gpus = ["GPU-1"]')" '.gpus = ["GPU-1"]'
	assign "$(printf '6%.0s' {1..32})" "$(booking true '.at = "2020-01-01T00:00:00Z"')"
	assign "$(printf '7%.0s' {1..32})" "$good" '.booking.run_sha256 = ("0" * 64)'
	assign "$(printf '8%.0s' {1..32})" "$(booking true '.image = "docker.io/library/debian:12"')"
	start_agent
	for n in 1:'not signed by customer' 2:'and this node quoted 100000' 3:'has not quoted' 4:'no such part for this node' \
		5:"no GPU 'GPU-1'" 6:'hours are over' 7:'not signed by customer' 8:'has no digest'; do
		wait_until "refusal $n" told "$(printf "${n%%:*}%.0s" {1..32})" ".to == \"failed\" and (.cause | contains(\"${n#*:}\"))"
	done
	assert [ -z "$(ls "$BOX/work/volumes" | grep -v '^\.' || true)" ]
	run jq -s 'map(.to) | unique' -c reg/events.jsonl
	assert_output '["failed"]'
}

@test "work: the agent is killed while a container runs; the next one finds it, and its end" {
	assign "$C" "$(booking 'echo begins; sleep 6; echo ends; exit 4')"
	start_agent
	wait_until "a running container" told "$C" '.to == "ready"'
	wait_until "its first line" grep -q begins "reg/log-$C-0"
	kill -9 "$agent"
	wait "$agent" || true
	start_agent
	wait_until "its end" told "$C" '.exit == 4'
	wait_until "its release" told "$C" '.to == "released"'
	assert_equal "$(cat "reg/log-$C-0")" $'begins\nends'
	assert_equal "$(states "$C")" "proving pulling starting ready releasing released "
	wait_until "an empty machine" nothing_left
}

@test "work: a container whose supervisor was killed is a failure of the node, and goes" {
	assign "$C" "$(booking 'echo begins; sleep 1000')"
	start_agent
	wait_until "a running container" told "$C" '.to == "ready"'
	wait_until "its first line" grep -q begins "reg/log-$C-0"
	pkill -9 -f "conmon .*$RUN/l/"
	wait_until "its failure" told "$C" '.to == "failed" and (.cause | contains("supervisor was killed"))'
	wait_until "an empty machine" nothing_left
}

@test "work: a lease that is released or not listed any more ends within its grace, whatever its job does with SIGTERM" {
	assign "$C" "$(booking 'trap "echo asked; exit 0" TERM; echo begins; while :; do sleep 0.1; done')"
	assign "$D" "$(booking 'trap "" TERM; echo begins; while :; do sleep 1000; done' '.proposal.request.job = "k"')"
	start_agent --grace 1s
	wait_until "the first container" grep -q begins "reg/log-$C-0"
	# there is one device, and so one lease
	wait_until "a refusal" told "$D" '.to == "failed" and (.cause | contains("is in another lease"))'
	change "$C" '.want = "release" | .cause = "the customer wants it"'
	wait_until "its release" told "$C" '.to == "released"'
	told "$C" '.to == "releasing" and .cause == "the customer wants it"'
	grep -q asked "reg/log-$C-0"
	wait_until "an empty machine" nothing_left

	E=$(printf 'e%.0s' {1..32})
	assign "$E" "$(booking 'trap "" TERM; echo begins; while :; do sleep 1000; done' '.proposal.request.job = "l"')"
	wait_until "a deaf container" grep -q begins "reg/log-$E-0"
	echo '[]' >reg/work.json
	wait_until "an empty machine" nothing_left
	wait_until "an idle state" grep -q idle state
}
