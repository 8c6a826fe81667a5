# work.bash - an agent with a registry of the test's own (work_registry.py), for files that load helper, registry and containers:
# `load work`.

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

# shellcheck disable=SC2120 # some tests give options
start_agent() {
	"${IN_MACHINE[@]}" rnp-register work --registry "$url" --key node.json --dir "$BOX/work" --run-dir "$RUN" --state-to "$BOX/state" \
		--memory 512MiB --disk 128MiB --images 64MiB --private-images --cpu-cores 1 --grace 5s "$@" 2>>"$BATS_TEST_TMPDIR/agent.err" 3>&- &
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

# directory [DIR/]NAME TEXT: keeps a directory of one file at the registry, prints the name of its manifest
directory() {
	local sha
	sha=$(blob "$2")
	blob "$(jq -nc --arg path "$1" --arg sha "$sha" --argjson n "${#2}" '{kind: "rnp.manifest", v: 1, bytes: $n,
		blobs: [{bytes: $n, sha256: $sha}], files: ([$path | select(contains("/")) | {path: split("/")[0], dir: true, mode: 493}] +
			[{path: $path, mode: 420, bytes: $n, sha256: $sha}])}')"
}

# kept KEY MANIFEST [RANK [CLUSTER]]: prints the event by which a node says what it kept of a rank
kept() {
	signed "$1" "{kind: \"rnp.event\", cluster: \"${4:-$C}\", rank: ${3:-0}, seq: 7, to: \"ready\", artifacts: \"$2\"}"
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
HASH=$(printf '5%.0s' {1..64})

# told CLUSTER JQ: the node has told an event of which this is true
told() {
	[[ -e reg/events.jsonl && -n $(jq -c --arg c "$1" "select(.cluster == \$c) | select($2)" reg/events.jsonl) ]]
}

# states CLUSTER: prints the states that it went through, once each
states() {
	jq -r --arg c "$1" 'select(.cluster == $c).to' reg/events.jsonl | uniq | tr '\n' ' '
}

nothing_left() {
	! pgrep -f "$RUN/l/" >/dev/null && [[ -z $(find "$RUN/l" "$RUN/net" "$BOX/work/volumes" -mindepth 1 -maxdepth 1 ! -name '.*' 2>/dev/null) ]]
}

# kill_rounds N SEED: books N times, and kills agent, podman's service or conmon at a random instant of each. After each the
# lease has ended with the job's own code or with a cause, nothing of it is here, and no more was reported than it ran.
kill_rounds() {
	local n=$1 i victim cluster truth
	RANDOM=$2
	start_agent
	for ((i = 1; i <= n; i++)); do
		cluster=$(printf '%032x' "$i")
		# its own clock says how long it ran
		assign "$cluster" "$(booking "read a _ </proc/uptime; sleep 1; read b _ </proc/uptime; echo \$a \$b; exit 6 # $i")"
		victim=$((RANDOM % 3))
		sleep "$((RANDOM % 4)).$((RANDOM % 10))"
		case $victim in
		0)
			kill -9 "$agent"
			wait "$agent" 2>/dev/null || true
			start_agent
			;;
		1) pkill -9 -f "podman --root $BOX.*system service" || true ;;
		2) pkill -9 -f "conmon .*$RUN/l/" || true ;;
		esac
		wait_until "the end of round $i, victim $victim" told "$cluster" '.to == "released" or .to == "failed"'
		wait_until "an empty machine after round $i, victim $victim" nothing_left
		if told "$cluster" '.to == "failed"'; then
			told "$cluster" '.to == "failed" and (.cause | length > 10)' || fail "round $i has no cause"
			((victim != 0)) || fail "round $i: who kills the agent fails no lease: $(grep "$cluster" reg/events.jsonl)"
			continue
		fi
		told "$cluster" '.exit == 6' || fail "round $i: $(grep "$cluster" reg/events.jsonl)"
		truth=$(awk '{ printf "%d", ($2 - $1) * 1000 + 1000 }' "reg/log-$cluster-0")
		told "$cluster" ".ready_ms > $truth" && fail "round $i: more than $truth ms reported"
	done
	true
}
