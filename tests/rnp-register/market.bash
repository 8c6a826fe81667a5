# market.bash - a market to test against: nodes that sell, customers with money. `load market` after
# `load registry`.

# the digest of nothing
IMAGE=docker.io/library/debian@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855

# Starts a registry with a market: $url, $REGISTRY is its address. Arguments: further options.
start_market() {
	cd "$BATS_TEST_TMPDIR" || return
	[[ -e registry.json ]] || rnp-register keygen --out registry.json >/dev/null
	[[ -e bank.json ]] || make_key bank
	REGISTRY=$(rnp-register address --key registry.json)
	start_registry --market --default-image "$IMAGE" --key registry.json \
		--trust "$(rnp-register address --key bank.json)" "$@"
}

# sells NODE [GPUS [UUSD [JQ PROGRAM FOR THE LISTING]]]: a node with so many GPUs (uuids GPU-NODE-I)
# that asks so much for all of them; 0 GPUs: none. It beats once, and promises the next in an hour.
sells() {
	make_key "$1"
	node_record "$1" "{gpus: [range(${2:-1}) | {vendor: \"NVIDIA\", model: \"NVIDIA GeForce RTX 4090\",
		memory_bytes: 25757220864, uuid: \"GPU-$1-\(.)\"}], labels: {country: \"SI\"}}" >"$1.node"
	post /v1/nodes "$1.node"
	quotes "$1" "${3:-500000}"
	heartbeat_record "$1" '{interval_s: 3600}' >"$1.beat"
	post /v1/heartbeats "$1.beat"
	lists "$1" "${4:-{\}}"
}

# quotes NODE UUSD: what it asks, and its customer pays, from now on
quotes() {
	signed "$1" "{kind: \"rnp.quote\", ask_uusd: $2, customer_uusd: ($2 + 25000), floor_uusd: 0, why: []}" >"$1.quote"
	post /v1/records "$1.quote"
	assert_equal "$status_code" 201
}

# lists NODE [JQ PROGRAM]
lists() {
	signed "$1" "{kind: \"rnp.listing\", until: (now + 3600 | todate), engine: \"podman\", cpu_cores: 8,
		memory_bytes: 64000000000, disk_bytes: 500000000000} + (${2:-{\}})" >"$1.listing"
	post /v1/listings "$1.listing"
	assert_equal "$status_code" 201
}

# by SIGNER JQ PROGRAM: as signed, by a customer
by() {
	jq -nc --arg signer "${!1}" --arg now "$(date -u +%FT%T.%3NZ)" \
		"{v: 1, signer: \$signer, at: \$now} + ($2)" | rnp-register sign --key "$1.json"
}

# pays CUSTOMER UUSD [ID]: a deposit
pays() {
	by bank "{kind: \"rnp.deposit\", customer: \"${!1}\", uusd: $2, source: \"paid\", id: \"${3:-$RANDOM$RANDOM$RANDOM}\"}" >deposit.json
	post /v1/deposits deposit.json
}

# plans [JQ PROGRAM]: a proposal to proposal.json
plans() {
	jq -nc "{kind: \"rnp.job\", v: 1, job: \"job\", hours: 4} + (${1:-{\}})" >job.json
	post /v1/plans job.json
	cp answer.json proposal.json
}

# booking CUSTOMER [JQ PROGRAM]: prints a booking of the first offer of proposal.json
booking() {
	jq -c --arg signer "${!1}" --arg now "$(date -u +%FT%T.%6NZ)" \
		"{kind: \"rnp.booking\", v: 1, signer: \$signer, at: \$now, proposal: ., offer: 0, hours: 4} + (${2:-{\}})" \
		proposal.json | rnp-register sign --key "$1.json"
}

# books CUSTOMER [JQ PROGRAM]: books it; the cluster is $cluster
books() {
	booking "$@" >booking.json
	post /v1/bookings booking.json
	cluster=$(jq -r '.cluster // empty' answer.json)
}

# asks KEY PATH [curl options]: a signed GET
asks() {
	sign_request "$1.json" GET "$url$2" >signed.headers
	get "$2" -H @signed.headers "${@:3}"
}

# says NODE RANK TO [JQ PROGRAM]: its next event of $cluster
says() {
	seq=$((${seq:-0} + 1))
	signed "$1" "{kind: \"rnp.event\", cluster: \"$cluster\", rank: $2, seq: $seq, to: \"$3\"} + (${4:-{\}})" >event.json
	post /v1/events event.json
}

# becomes_ready NODE RANK: all events on the way
becomes_ready() {
	local state
	for state in proving pulling starting ready; do
		says "$1" "$2" "$state"
		[[ $status_code == 201 ]] || fail "$state: $(cat answer.json)"
	done
}
