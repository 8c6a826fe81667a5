# rnp-price publish: the price listed is the price quoted, whatever happens on the way.
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export RNP_NOW=2026-11-20T18:00:00Z
	mkdir -p vast
	echo host-key >key
	chmod 600 key
	quote 400000
	machines 0.35
}

teardown() {
	if [[ -n ${host-} ]]; then
		kill "$host"
		wait "$host" || true
	fi
	stop_registry
	stop_fake
}

# quote CUSTOMER [FLOOR] [AT]: writes q, for two GPUs
quote() {
	jq -nc --argjson c "$1" --argjson f "${2:-100000}" --arg at "${3:-2026-11-20T17:55:00Z}" '{kind: "rnp.quote", v: 1, at: $at,
		ask_uusd: ($c * 0.95 | floor), customer_uusd: $c, floor_uusd: $f, why: [], spec: {gpu_model: "RTX 4090", gpu_count: 2}}' >q
}

# machines PRICE: what Vast lists of machine 77, per GPU; null: nothing
machines() {
	jq -nc --argjson p "$1" '{machines: [{id: 76, num_gpus: 8, listed: true, listed_gpu_cost: 9},
		{id: 77, num_gpus: 2, listed: ($p != null), listed_gpu_cost: $p, min_bid_price: 0.11, listed_inet_up_cost: 0.002,
		listed_inet_down_cost: 0.001, listed_min_gpu_count: 1, end_date: 1798761600.0, gpu_occupancy: "R x"}]}' >vast/machines
}

vast_host() {
	rm -f vast/port vast/log vast/reached
	printf '%s\n' "$@" >vast/how
	[[ -z ${host-} ]] || kill "$host"
	python3 "$ROOT/tests/fake/vast_host.py" vast vast/port 3>&- 2>/dev/null &
	host=$!
	wait_port vast/port "$host"
	HOST=http://127.0.0.1:$(<vast/port)
}

publish() {
	run_split rnp-price publish --market vast --machine 77 --key-file key --state p.db --url "$HOST" "$@" q
}

listed() {
	jq -c '.machines[] | select(.id == 77) | .listed_gpu_cost' vast/machines
}

@test "publish: what is quoted is listed, per GPU, and every other term is sent again" {
	vast_host
	publish --dry-run
	assert_success
	assert_equal "$(jq -c '[.was_uusd, .listed_uusd, .difference_uusd, .sent, .dry_run]' <<<"$output")" "[700000,490000,-210000,false,true]"
	assert_equal "$(jq -c .request <<<"$output")" \
		'{"machine":77,"price_gpu":0.245,"price_inetu":0.002,"price_inetd":0.001,"price_min_bid":0.11,"min_chunk":1,"end_date":1798761600}'
	assert_equal "$(listed)" 0.35
	run ! grep PUT vast/log
	# a name that is mistyped is seen, and a dry run leaves nothing there
	[[ $stderr == *"'p.db' is new: what was listed before is not known"* && ! -e p.db ]]
	quote 600000
	publish
	assert_success
	[[ $stderr == *"'p.db' is new"* ]]
	assert_equal "$(jq -c '[.market, .unit, .was_uusd, .listed_uusd, .quoted_uusd, .limited, .sent]' <<<"$output")" \
		'["vast","77",700000,600000,600000,false,true]'
	assert_equal "$(listed)" 0.3
	assert_equal "$(jq '.machines[1].end_date' vast/machines)" 1798761600
	# again: nothing is sent
	publish
	assert_success
	[[ $stderr != *"is new"* ]]
	assert_equal "$(jq .sent <<<"$output")" false
	assert_equal "$(grep -c PUT vast/log)" 1
	# 600001 for two GPUs: rounded up to a whole uusd each
	quote 600001
	publish
	assert_equal "$(listed)" 0.300001
	publish
	assert_equal "$(jq .sent <<<"$output")" false
	! grep -q host-key p.db*
}

@test "publish: killed at each step, the next run lists what is quoted, once" {
	local step changes
	quote 600000
	for step in get1 before after get2; do
		rm -f p.db*
		machines 0.35
		vast_host hang:$step
		rnp-price publish --market vast --machine 77 --key-file key --state p.db --url "$HOST" q >out 2>&1 3>&- &
		client=$!
		wait_until "the request" test -e vast/reached
		[[ -e vast/reached ]]
		kill -9 $client
		wait $client || true
		vast_host
		publish
		assert_success
		assert_equal "$step $(listed) $(jq .listed_uusd <<<"$output")" "$step 0.3 600000"
		publish
		assert_equal "$(jq .sent <<<"$output")" false
		changes=$(grep -c PUT vast/log || true)
		# what was changed before the end is not changed again
		if [[ $step == after || $step == get2 ]]; then assert_equal "$step $changes" "$step 0"; else assert_equal "$step $changes" "$step 1"; fi
	done
}

@test "publish: a price moves so far a day and no further, whatever is tried, and never under the floor" {
	local i
	vast_host
	quote 10000000
	for i in 1 2 3 4; do
		publish
		assert_success
		assert_equal "$(jq -c '[.listed_uusd, .limited]' <<<"$output")" "[910000,true]"
		[[ $stderr == *"a day's change is at most 30%"* ]]
	done
	assert_equal "$(listed)" 0.455
	# a day later the next step
	quote 10000000 100000 2026-11-21T18:00:00Z
	RNP_NOW=2026-11-21T18:00:01Z publish
	assert_equal "$(jq .listed_uusd <<<"$output")" 1183000
	# down again: a bound of the same kind
	quote 1000 900 2026-11-21T18:00:00Z
	RNP_NOW=2026-11-21T18:00:02Z publish
	assert_equal "$(jq .listed_uusd <<<"$output")" 637000
	# the bound would be under the floor
	quote 9000000 5000000 2026-11-21T18:00:00Z
	RNP_NOW=2026-11-21T18:00:03Z publish
	assert_equal "$status" 1
	[[ $stderr == *"the floor of 5000000 uusd is more above"* ]]
	assert_equal "$output" ""
	quote 600000
	publish
	assert_equal "$status" 65
	[[ $stderr == *"the clock went back"* ]]
}

@test "publish: the stop file stops everything before it is sent" {
	vast_host
	quote 600000
	: >halt
	publish --stop-file halt
	assert_equal "$status" 1
	[[ $stderr == *"stopped: there is 'halt'"* ]]
	[[ ! -e vast/log ]]
	rm halt
	publish --stop-file halt
	assert_success
}

@test "publish: what a market refuses, loses or denies is told" {
	quote 600000
	vast_host refuse
	publish
	assert_equal "$status" 1
	[[ $stderr == *"refused: machine not verified"* ]]
	vast_host lie
	publish
	assert_equal "$status" 75
	[[ $stderr == *"vast lists 700000 uusd, not the 600000 that were sent"* ]]
	vast_host busy:2
	publish
	assert_success
	echo wrong >key
	publish
	assert_equal "$status" 77
	[[ $stderr == *"Invalid user key"* ]]
	echo host-key >key
	chmod 644 key
	publish
	assert_equal "$status" 77
	chmod 600 key
	sed -i 's/"num_gpus": *2/"num_gpus": 4/' vast/machines
	publish
	assert_equal "$status" 65
	[[ $stderr == *"machine 77 has 4 GPUs, the quote is for 2"* ]]
	sed -i 's/"id": *77/"id": 78/' vast/machines
	publish
	[[ $stderr == *"there is no machine 77 of yours"* ]]
	echo '{"machines":[{"id":77,"num_gpus":2,"listed_gpu_cost":1e30}]}' >vast/machines
	publish
	assert_equal "$status" 65
}

@test "publish: a quote that is no price, stale, or of the future is not listed" {
	vast_host
	quote 600000 100000 2026-11-20T16:00:00Z
	publish
	assert_equal "$status" 75
	[[ $stderr == *"stale: the quote is 7200 s old"* ]]
	quote 600000 100000 2026-11-20T19:00:00Z
	publish
	assert_equal "$status" 65
	quote 600000 599000
	publish
	assert_equal "$status" 65
	[[ $stderr == *"less than its floor"* ]]
	for bad in 'ask_uusd = 0' 'ask_uusd = -1' 'ask_uusd = 9007199254740991 | .customer_uusd = 9007199254740991' 'ask_uusd = 600001' 'spec.gpu_count = 0' 'kind = "rnp.node"'; do
		quote 600000
		jq -c ".$bad" q >b && mv b q
		publish
		assert_equal "$bad $status" "$bad 65"
	done
	run_split rnp-price publish --market vast --key-file key --state p.db q
	assert_equal "$status" 64
	run_split rnp-price publish --market vast --machine 77 --key-file key q
	assert_equal "$status" 64
	run_split rnp-price publish --market rnp --key-file key --state p.db q
	assert_equal "$status" 64
	[[ ! -e vast/log ]] || ! grep PUT vast/log
}

@test "publish: two at once: one waits its turn by being refused" {
	vast_host hang:get1
	rnp-price publish --market vast --machine 77 --key-file key --state p.db --url "$HOST" q >out 2>&1 3>&- &
	client=$!
	wait_until "the request" test -e vast/reached
	publish
	assert_equal "$status" 75
	[[ $stderr == *"another publish is at work"* ]]
	kill -9 $client
	wait $client || true
}

@test "publish: in the registry, signed by the node, and again after a reply that was lost" {
	unset RNP_NOW
	start_registry
	make_key ann
	node_record ann '{gpus: [{model: "L4"}, {model: "L4"}]}' >n
	rnp-register submit --registry "$url" n >/dev/null
	jq -c --arg n "$ann" --arg at "$(date -u +%FT%TZ)" '.node = $n | .at = $at' q >b && mv b q
	registry=$url
	start_fake "lose-reply:${registry##*:}"
	run_split timeout 60 rnp-price publish --market rnp --key-file ann.json --state p.db --url "$url" q
	stop_fake
	fake=
	run_split rnp-price publish --market rnp --key-file ann.json --state p.db --url "$registry" q
	assert_success
	assert_equal "$(jq -c '[.market, .unit, .listed_uusd]' <<<"$output")" "[\"rnp\",\"$ann\",400000]"
	assert_equal "$(rnp-price feed -m rnp "$registry" | jq .uusd_per_gpu_hour)" 200000
	run_split rnp-price publish --market rnp --key-file ann.json --state p.db --url "$registry" q
	assert_equal "$(jq .sent <<<"$output")" false
	# limited: what is signed is what a day allows
	jq -c '.ask_uusd = 9500000 | .customer_uusd = 10000000' q >b && mv b q
	run_split rnp-price publish --market rnp --key-file ann.json --state p.db --url "$registry" q
	assert_success
	assert_equal "$(rnp-register list --registry "$registry" --quotes | jq -c 'select(.kind == "rnp.quote") | [.ask_uusd, .customer_uusd]')" "[494000,520000]"
	make_key bob
	refused 77 "not of the quote's node" rnp-price publish --market rnp --key-file bob.json --state p.db --url "$registry" q
}
