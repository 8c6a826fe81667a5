# What a cluster cost: receipts, invoices, what the customer can check, and what the nodes are paid.
load ../helper
load registry
load sign
load market

teardown() {
	stopped_with=0
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

# A price of 1000 uusd a millisecond: two seconds are something.
dear=3600000000

# runs_a_while NODE RANK: it says that it was ready for 1.5 s, which it was
runs_a_while() {
	sleep 1.6
	says "$1" "$2" ready '{ready_ms: 1500}'
	assert_equal "$status_code" 201
}

receipts_are() {
	get '/v1/records?kind=rnp.receipt&limit=1000'
	[[ $(jq '.records | length' answer.json) == "$1" ]]
}

invoice() {
	rnp-register invoice --registry "$url" --key "$1.json" "${@:2}"
}

@test "invoice: receipts and fee add up to it, and the epoch pays the nodes by it" {
	start_market
	sells a 1 "$dear"
	sells b 1 $((dear / 4))
	make_key c
	pays c 90000000000
	plans '{nodes: 2, gpu_count: 2}'
	books c
	assert_equal "$status_code" 201
	mapfile -t nodes < <(jq -r '.nodes[].node' answer.json)
	for rank in "${!nodes[@]}"; do
		[[ ${nodes[rank]} == "$a" ]] && name=a || name=b
		becomes_ready "$name" "$rank"
	done
	for rank in "${!nodes[@]}"; do
		[[ ${nodes[rank]} == "$a" ]] && name=a || name=b
		runs_a_while "$name" "$rank"
	done
	invoice c "$cluster" >so.far
	jq -e '.final == false and .uusd > 0' so.far
	for rank in "${!nodes[@]}"; do
		[[ ${nodes[rank]} == "$a" ]] && name=a || name=b
		says "$name" "$rank" released
	done
	wait_until "receipts at the end" receipts_are "${#nodes[@]}"

	invoice c --check "$cluster" >invoice.json 2>invoice.err
	assert_equal "$(cat invoice.err)" "rnp-register: the invoice follows from booking, events and receipts"
	rnp-register verify --quiet invoice.json
	jq -se '.[0] as $i | .[1].records as $r | $i.final and ($r | map(.earned_uusd) | add) + $i.fee_uusd == $i.uusd and
		($r | map(.earned_uusd) | add) == $i.burn_uusd and all($r[]; .job == $i.cluster and .credits == .earned_uusd) and
		all($i.nodes[]; .uusd == (.uusd_per_hour * .ready_ms / 3600000 | floor) and
			.node_uusd == (.node_uusd_per_hour * .ready_ms / 3600000 | floor))' invoice.json answer.json
	asks c /v1/account
	assert_equal "$(jq .charged_uusd answer.json)" "$(jq .uusd invoice.json)"
	# somebody else's is not there
	make_key d
	refused 1 "you have no cluster" rnp-register invoice --registry "$url" --key d.json "$cluster"

	# what the network pays
	from=$(date -u -d '-1 day' +%FT00:00:00Z) to=$(date -u -d '+1 day' +%FT00:00:00Z)
	rnp-reward usage -q --registry "$url" --trust "$REGISTRY" --from "$from" --to "$to" >usage 2>/dev/null
	for rank in "${!nodes[@]}"; do
		jq -se --arg node "${nodes[rank]}" --argjson rank "$rank" '(.[0].nodes[$rank].node_uusd) as $e |
			any(.[1:][]; .node == $node and .earned_uusd == $e and .credits == $e)' invoice.json usage ||
			fail "$(cat usage)"
	done
	rnp-reward epoch -q --policy rnp-001 --pool 1000 usage >epoch
	rnp-reward explain --policy rnp-001 --pool 1000 --node "${nodes[0]}" usage >explained
	jq -se --slurpfile i invoice.json 'any(.[]; tostring | contains($i[0].nodes[0].node_uusd | tostring))' explained ||
		fail "$(cat explained)"
}

@test "invoice: what does not follow is found, and named" {
	start_market
	sells a 1 "$dear"
	make_key c
	pays c 90000000000
	plans
	books c
	becomes_ready a 0
	runs_a_while a 0
	says a 0 released
	wait_until "a receipt at the end" receipts_are 1
	invoice c --check "$cluster" >/dev/null

	# a registry that lies: about the time, the price, and what was booked
	lie() {
		sqlite3 registry.db "PRAGMA busy_timeout = 5000; $1" >/dev/null
		run --separate-stderr rnp-register invoice --check --registry "$url" --key c.json "$cluster"
		[[ $status == 1 ]] || fail "$stderr"
		[[ $stderr == *"the invoice does not follow: $2"* ]] || fail "$stderr"
	}
	charge='UPDATE members SET charged_uusd = uusd_per_hour * ready_ms / 3600000'
	lie "UPDATE members SET ready_ms = ready_ms + 1000; $charge" "rank 0: 2500 ms are charged, and the node has signed 1500"
	lie "UPDATE members SET ready_ms = ready_ms - 1000; $charge + 1" "rank 0: 1500 ms at"
	lie "UPDATE members SET uusd_per_hour = uusd_per_hour + 4000; $charge" "rank 0: node $a at"
	lie "UPDATE members SET uusd_per_hour = uusd_per_hour - 4000; $charge; DELETE FROM member_receipts" "rank 0: its receipts have 0 uusd"
}
