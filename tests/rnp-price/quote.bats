# rnp-price quote: the price that a node asks.
load ../helper
load price

@test "quote: the fee is 5% of the price, not of the ask" {
	costs 1900000 >c.json
	quote "$NODE" --costs c.json --hours 10 --floor-if-empty </dev/null
	assert_equal "$(jq -c '[.ask_uusd, .customer_uusd, .fee_uusd, .job]' <<<"$output")" \
		'[1900000,2000000,100000,{"hours":10,"customer_uusd":20000000,"burn_uusd":19000000,"fee_uusd":1000000}]'
}

@test "quote: just under the lowest comparable rival, and what was left out" {
	costs 100000 >c.json
	{
		offer "RTX 4090" 1 500000
		offer "NVIDIA GeForce RTX 4090" 1 400000
		offer "RTX 4090" 1 90000 '"own":true'
		offer "RTX 4090" 1 80000 '"rentable":false'
		offer "RTX 4090" 1 70000 '"reliability_ppm":500000'
		offer "RTX 4090" 8 60000
		offer "RTX 4090D" 1 50000
		offer "RTX 3090" 1 40000
	} >offers
	offer "RTX 4090" 1 30000 | sed 's/"spot":false/"spot":true/' >>offers
	quote "$NODE" --costs c.json offers
	assert_equal "$(jq -c '[.rival_uusd, .customer_uusd, .ask_uusd, .floor_uusd]' <<<"$output")" \
		"[400000,396000,376200,100000]"
	why_has "offers: 9 read, 2 comparable"
	why_has "left out: 1 our own"
	why_has "left out: 1 spot"
	why_has "left out: 1 not rentable"
	why_has "left out: 1 below a reliability of 90%"
	why_has "left out: 1 with another number of GPUs"
	why_has "left out: 2 of other GPU models"
	why_has "rival: test NVIDIA GeForce RTX 4090-400000, 0.400000 \$/h a GPU"
	assert_equal "$(jq -c .spec <<<"$output")" \
		'{"gpu_model":"RTX 4090","gpu_count":1,"gpu_memory_bytes":25757220864,"f32_gflops":82580,"country":"US"}'
	quote "$NODE" --costs c.json --min-reliability 400000 --undercut 0 offers
	assert_equal "$(jq -c '[.rival_uusd, .customer_uusd, .ask_uusd]' <<<"$output")" "[70000,105263,100000]"
	why_has "floor: "
}

@test "quote: a rival with another link or in another country is compared by its worth" {
	costs 1000 >c.json
	# the node's link is 113 MB/s up: Med I, +10%
	offer "RTX 4090" 1 400000 '"down_bps":9000000000,"up_bps":8000000000' >offers # +50%
	quote "$NODE" --costs c.json offers
	# 400000 / 1.5 x 1.1, half up; 1% less; 5% of that is the network's
	assert_equal "$(jq -c '[.rival_uusd, .rival_worth_uusd, .surcharge_ppm, .ask_uusd]' <<<"$output")" \
		"[400000,293333,100000,275879]"
	why_has "worth: on a link and in a place like ours, that is 0.293333 \$/h"
	# the dearer of two may be the better rival
	offer "RTX 4090" 1 390000 '"down_bps":900000000,"up_bps":900000000' >>offers
	quote "$NODE" --costs c.json offers
	assert_equal "$(jq -c '[.rival_uusd, .rival_worth_uusd]' <<<"$output")" "[400000,293333]"
	quote "$NODE" --costs c.json --surcharges none offers
	assert_equal "$(jq -c '[.rival_uusd, .rival_worth_uusd, .surcharge_ppm]' <<<"$output")" "[390000,null,null]"
	# what is not known is alike
	jq -c 'del(.network)' "$NODE" >n.json
	quote n.json --costs c.json offers
	assert_equal "$(jq -c '[.rival_uusd, .rival_worth_uusd]' <<<"$output")" "[390000,null]"
	refused 65 "has no prices.connectivity" rnp-price quote --node "$NODE" --costs c.json --surcharges rnp-021 offers
	# places by the levels of a fit: offers in the US cost twice those of DE
	local i
	for i in 1 2 3 4 5 6 7 8 9 10; do
		offer "RTX 4090" 1 "60000$i" '"country":"US"'
		offer "RTX 4090" 1 "30000$i" '"country":"DE"'
	done | rnp-price fit >fit.json
	offer "RTX 4090" 1 300000 '"country":"DE"' >offers
	quote "$NODE" --costs c.json --fit fit.json offers
	jq -e '.rival_worth_uusd > 500000 and .rival_worth_uusd <= 600000' <<<"$output" || fail "$output"
}

@test "quote: --split says in which parts the GPUs ask most together" {
	costs 100001 >c.json
	node 4090 4090 4090 4090 >n.json
	# whole 0.40 a GPU, in pairs 0.42, one by one 0.39; nobody sells three
	{ offer "RTX 4090" 4 400000; offer "RTX 4090" 2 420000; offer "RTX 4090" 1 390000; } >offers
	quote n.json --costs c.json --split offers
	# an ask is 0.99 x 0.95 of the rival; a part's floor is its share, rounded up
	assert_equal "$(jq -c '[.sell_gpus, (.splits[] | [.gpus, .parts, .rival_uusd, .ask_uusd, .floor_uusd, .total_uusd])]' <<<"$output")" \
		"[2,[4,1,1600000,1504800,100001,1504800],[2,2,840000,790020,50001,1580040],[1,4,390000,366795,25001,1467180]]"
	why_has "split: 2 of 2 GPUs each ask 1.580040 \$/h together"
	assert_equal "$(jq .ask_uusd <<<"$output")" 1504800 # the quote itself is of the whole node
	# at their floor, whole and parts differ by roundings only: fewer parts
	costs 8000000 >c.json
	quote n.json --costs c.json --split offers
	assert_equal "$(jq .sell_gpus <<<"$output")" 4
	offer "RTX 4090" 3 400000 >offers
	quote n.json --costs c.json --split offers
	assert_equal "$(jq -c '[.sell_gpus, .splits]' <<<"$output")" "[null,[]]"
}

@test "quote: --peak asks more in the hours of the node's label" {
	costs 1000 >c.json
	offer "RTX 4090" 1 400000 >offers
	jq -c '.labels.peak_hours = "17-22"' "$NODE" >n.json # it is 18:30
	quote n.json --costs c.json --peak 100000 offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 413820 # 400000 x 0.99 x 1.1 x 0.95
	why_has "peak: at this hour 10% more"
	RNP_NOW=2026-11-20T22:00:00Z quote n.json --costs c.json --peak 100000 offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 376200
	jq -c '.labels.peak_hours = "22-6"' "$NODE" >n.json
	RNP_NOW=2026-11-20T05:59:59Z quote n.json --costs c.json --peak 100000 offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 413820
	refused 65 "no label peak_hours" rnp-price quote --node "$NODE" --costs c.json --peak 10% offers
}

@test "quote: the floor is the node's, the market's price is per GPU" {
	costs 1000000 >c.json
	node 4090 4090 4090 4090 >n.json
	offer "RTX 4090" 4 400000 >offers
	quote n.json --costs c.json offers
	assert_equal "$(jq -c '[.rival_uusd, .customer_uusd, .ask_uusd, .spec.gpu_count]' <<<"$output")" \
		"[1600000,1584000,1504800,4]"
	# no offer has four: those with two to eight count
	{ offer "RTX 4090" 2 350000; offer "RTX 4090" 1 100000; } >offers
	quote n.json --costs c.json offers
	assert_equal "$(jq .rival_uusd <<<"$output")" 1400000
	why_has "rival: test RTX 4090-350000, 0.350000 \$/h a GPU (none has as many GPUs"
}

@test "quote: no rival: the model's price by TFLOPS, or the floor" {
	costs 50000 >c.json
	node "RTX 3090" >n.json
	{ offer "RTX 4090" 1 400000; offer "RTX 4090" 1 500000; offer "RTX 4090" 1 600000; } >offers
	quote n.json --costs c.json offers
	# 35.58 / 82.58 of 0.50
	assert_equal "$(jq -c '[.proportion_uusd, .customer_uusd, has("rival_uusd")]' <<<"$output")" "[215427,215426,false]"
	why_has "no rival: none of 3 offers is comparable"
	offer "L4" 1 400000 >offers
	quote n.json --costs c.json --floor-if-empty offers
	assert_equal "$(jq -c '[.ask_uusd, .floor_uusd, has("proportion_uusd")]' <<<"$output")" "[50000,50000,false]"
	why_has "no rival"
	# a chip that is not in the table, by its measured speed: 80% of the reference
	node "Mystery X1" >n.json
	offer "RTX 4090" 1 1000000 >offers
	jq -nc '{kind:"rnp.bench",v:1,at:"2026-11-20T12:00:00Z",suite:"gpu",test:"matmul_f32",unit:"FLOP/s",median:66064000000000,low:66000000000000,high:66100000000000,samples:11}' >bench
	quote n.json --bench bench --costs c.json offers
	[[ $stderr == *"'Mystery X1' is not in our table"* ]]
	assert_equal "$(jq -c '[.proportion_uusd, .customer_uusd, .ask_uusd]' <<<"$output")" "[800000,800000,760000]"
}

@test "quote: a node without a GPU is quoted from its floor, with the reason" {
	costs 50000 >c.json
	node >n.json
	offer "RTX 4090" 1 400000 >offers
	quote n.json --costs c.json offers
	assert_equal "$(jq -c '[.ask_uusd, .customer_uusd, has("rival_uusd")]' <<<"$output")" "[50000,52632,false]"
	why_has "no rival: the node has no GPU"
	jq -c 'del(.gpus) | .unknown = {gpus: "libnvidia-ml.so.1: cannot open"}' n.json >u.json
	quote u.json --costs c.json offers
	why_has "no rival: libnvidia-ml.so.1: cannot open"
}

@test "quote: GPUs of several models: the price is one group's, in whatever slots it is" {
	costs 50000 >c.json
	{ offer "RTX 4090" 2 400000 && offer "RTX 3090" 1 200000; } >offers
	node "RTX 4090" "RTX 4090" >two.json
	quote two.json --costs c.json offers
	two=$(jq .ask_uusd <<<"$output")
	node "NVIDIA T400 4GB" "RTX 4090" "RTX 3090" "RTX 4090" >n.json
	quote n.json --costs c.json offers
	assert_equal "$(jq -c '[.ask_uusd, .spec.gpu_model, .spec.gpu_count]' <<<"$output")" "[$two,\"RTX 4090\",2]"
	why_has "not priced: 1 RTX 3090, 1 T400 4GB; "
	# the other group has a price of its own
	quote n.json --gpu-model "GeForce RTX 3090" --costs c.json offers
	assert_equal "$(jq -c '[.customer_uusd, .spec.gpu_model, .spec.gpu_count]' <<<"$output")" '[198000,"RTX 3090",1]'
	why_has "not priced: 2 RTX 4090, 1 T400 4GB; "
	# and a past of its own
	quote n.json --costs c.json --state s.db offers
	first=$(jq .ask_uusd <<<"$output")
	for i in 1 2; do
		quote n.json --gpu-model "RTX 3090" --costs c.json --state s.db offers
		assert_equal "$(jq .customer_uusd <<<"$output")" 198000
	done
	quote n.json --costs c.json --state s.db offers
	assert_equal "$(jq .ask_uusd <<<"$output")" "$first"
	assert_equal "$(sqlite3 s.db 'SELECT count(DISTINCT node) FROM price')" 2
	# and all at once, the one without an offer last
	run_split rnp-price quote --node n.json --gpu-model each --costs c.json --floor-if-empty offers
	assert_success
	assert_equal "$(jq -c '[.spec.gpu_model, .spec.gpu_count, .customer_uusd]' <<<"$output" | head -2 | xargs)" \
		"[RTX 4090,2,$(jq -n "$two / 0.95 | round")] [RTX 3090,1,198000]"
	assert_equal "$(jq -r .spec.gpu_model <<<"$output" | tail -1)" "T400 4GB"
	refused 64 "--gpu-model: 'H100' is not among the GPUs of n.json: 2 RTX 4090, 1 RTX 3090, 1 T400 4GB" \
		rnp-price quote --node n.json --gpu-model H100 --costs c.json offers
}

@test "quote: own offers are never undercut" {
	costs 50000 >c.json
	offer "RTX 4090" 1 300000 '"own":true' >offers
	quote "$NODE" --costs c.json offers
	assert_equal "$(jq -c '[.customer_uusd, has("rival_uusd")]' <<<"$output")" "[300000,false]"
	why_has "own: "
}

@test "quote: --state damps small changes and outlives a feed that fails" {
	costs 50000 >c.json
	offer "RTX 4090" 1 400000 '"host":"a"' >offers
	quote "$NODE" --costs c.json --state s.db offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 376200
	offer "RTX 4090" 1 404000 '"host":"a"' >offers
	quote "$NODE" --costs c.json --state s.db offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 376200
	why_has "hysteresis: 0.376200 to 0.379962"
	# the feed failed: the last price is written again, and the exit code says so
	run_split rnp-price quote --node "$NODE" --costs c.json --state s.db </dev/null
	assert_equal "$status" 75
	assert_equal "$(jq .ask_uusd <<<"$output")" 376200
	why_has "the last price, 0.376200 \$/h, stands"
	[[ $stderr == *"no comparable offer among 0: the last price stands"* ]]
	offer "RTX 4090" 1 398000 '"host":"a"' >offers
	quote "$NODE" --costs c.json --state s.db offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 376200
	offer "RTX 4090" 1 300000 '"host":"a"' >offers
	quote "$NODE" --costs c.json --state s.db offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 282150
	assert_equal "$(sqlite3 s.db 'SELECT group_concat(ask_uusd) FROM price')" 376200,376200,376200,282150
	echo '{"kind":"rnp.price-state","v":1,"nodes":{}}' >s.json
	refused 65 "s.json" rnp-price quote --node "$NODE" --costs c.json --state s.json offers
	RNP_NOW=2026-11-20T17:00:00Z refused 65 "the clock went back" \
		rnp-price quote --node "$NODE" --costs c.json --state s.db offers
}

# hour N: sets the clock to N hours after noon
hour() {
	TZ=UTC printf -v RNP_NOW '%(%FT%TZ)T' $((1795132800 + $1 * 3600))
}

@test "quote: a day has six changes at most, whatever rivals do" {
	local h
	costs 50000 >c.json
	for h in {0..10}; do
		hour "$h"
		offer "RTX 4090" 1 $((400000 + h % 2 * 40000)) '"host":"a"' >offers
		quote "$NODE" --costs c.json --state s.db offers
	done
	why_has "hold: 6 changes in 24 hours"
	assert_equal "$(sqlite3 s.db 'SELECT sum(changed) FROM price')" 6
	# but never under the floor
	costs 500000 >c.json
	quote "$NODE" --costs c.json --state s.db offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 500000
}

@test "quote: who copies our price is left out, and is a rival again when he does not" {
	local h copied=430000
	costs 50000 >c.json
	for h in {0..42}; do
		hour "$h"
		# the market goes up and down by a tenth every four hours, and one copies us an hour later
		offer "RTX 4090" 1 $((400000 + h / 4 % 2 * 40000)) '"host":"a"' >offers
		offer "RTX 4090" 1 "$copied" '"host":"copier"' >>offers
		((h == 0 || h > 32)) || copied=$(jq .customer_uusd <<<"$output")
		quote "$NODE" --costs c.json --state s.db offers
		((h == 32)) || continue
		why_has "left out: 1 of hosts that copy our own price"
		# he would have brought it down by 1% an hour
		assert_equal "$(jq .customer_uusd <<<"$output")" 396000
	done
	! jq -r '.why[]' <<<"$output" | grep -q "copy our own price"
}

@test "quote: two of ours that see each other do not go down together" {
	local h ask=(430000 431000) low=999999
	costs 50000 >c.json
	for h in {0..71}; do
		hour "$((h / 2))"
		offer "RTX 4090" 1 400000 '"host":"other"' >offers
		offer "RTX 4090" 1 "${ask[1 - h % 2]}" '"host":"ours"' >>offers
		ask[h % 2]=$(rnp-price quote --node "$NODE" --costs c.json --state "$((h % 2)).db" offers | jq .customer_uusd)
		((h < 24 || ask[h % 2] > low)) || low=${ask[h % 2]}
	done
	# 1% an hour would be 270000
	((low > 350000)) || fail "down to $low: $(sqlite3 1.db 'SELECT group_concat(ask_uusd) FROM price')"
	((ask[0] > 380000 && ask[1] > 380000)) || fail "${ask[*]} at the end"
}

@test "quote: a market that says nothing reprices nobody to the floor" {
	costs 50000 >c.json
	refused 75 "no comparable offer among 0, and no last price" \
		rnp-price quote --node "$NODE" --costs c.json /dev/null
	assert_equal "$output" ""
	offer "L4" 1 400000 >offers
	refused 75 "no comparable offer among 1" rnp-price quote --node "$NODE" --costs c.json --state s.db offers
	quote "$NODE" --costs c.json --floor-if-empty offers
	assert_equal "$(jq .ask_uusd <<<"$output")" 50000
}

@test "quote: one stranger does not set the price" {
	costs 50000 >c.json
	local i
	for i in 500000 420000 410000 400000 390000; do offer "RTX 4090" 1 $i; done >offers
	quote "$NODE" --costs c.json offers
	assert_equal "$(jq .rival_uusd <<<"$output")" 390000
	for i in 1 2 3; do # three offers of one host are one
		cp offers "more$i"
		for ((j = 0; j < i; j++)); do offer "RTX 4090" 1 $((j + 1)) '"host":"evil"'; done >>"more$i"
		quote "$NODE" --costs c.json "more$i"
		assert_equal "$(jq .rival_uusd <<<"$output")" 390000
		why_has "left out: 1 of 6 hosts below 0.1"
	done
	# a single offer is compared with the least that the model costs
	offer "RTX 4090" 1 1 >offers
	refused 75 "no comparable offer" rnp-price quote --node "$NODE" --costs c.json --state s.db offers
	# with a state, a host that was not there before does not count yet
	offer "RTX 4090" 1 400000 '"host":"old"' >offers
	quote "$NODE" --costs c.json --state t.db offers
	offer "RTX 4090" 1 300000 '"host":"new"' >>offers
	quote "$NODE" --costs c.json --state t.db offers
	assert_equal "$(jq .rival_uusd <<<"$output")" 400000
	why_has "left out: 1 of hosts that were in no earlier snapshot"
	quote "$NODE" --costs c.json --state t.db offers
	assert_equal "$(jq .rival_uusd <<<"$output")" 300000
}

@test "quote: random markets, the same as a plain reading of the rules in exact fractions" {
	run python3 "$ROOT/tests/tools/price.py" 200 "${RNP_SEED:-7}"
	assert_success
	[[ $output == *"the same to the micro-dollar"* ]]
}

@test "quote: what it learned of customers, the same as an independent reading within 0.1%" {
	run python3 "$ROOT/tests/tools/price_learn.py" 12 "${RNP_SEED:-7}"
	assert_success
	[[ $output == *"agrees within 0.1%"* ]]
}

@test "quote: two at once over one state, and a full disk: no price is lost" {
	costs 50000 >c.json
	local i
	offer "RTX 4090" 1 400000 '"host":"a"' >offers
	for i in 1 2 3 4 5 6; do
		jq -c --arg n "$i" '.node = null | del(.node) | .gpus[0].model = "RTX 4090"' "$NODE" >"n$i.json"
		rnp-price quote --node "$NODE" --costs c.json --state s.db offers >"q$i" 3>&- &
	done
	wait
	assert_equal "$(sqlite3 s.db 'SELECT count(*), count(DISTINCT ask_uusd) FROM price')" "6|1"
	assert_equal "$(cat q? | jq -s 'map(.ask_uusd) | unique | tostring' -r)" "[376200]"
	# the state cannot grow: nothing is written, the last price remains
	offer "RTX 4090" 1 300000 '"host":"a"' >offers
	run_split bash -c "ulimit -f 1; trap '' XFSZ; rnp-price quote --node '$NODE' --costs c.json --state s.db offers"
	[[ $status -ne 0 ]]
	assert_equal "$output" ""
	assert_equal "$(sqlite3 s.db 'SELECT ask_uusd FROM price ORDER BY id DESC LIMIT 1')" 376200
}

@test "quote: feed and quote in one pipe" {
	run_split bash -c "rnp-price feed -m skypilot '$ROOT/tests/data/price/skypilot-made-up.csv' |
		rnp-price quote --node '$NODE' --costs '$COSTS'"
	assert_success
	assert_equal "$(jq -c '[.rival_uusd, .customer_uusd]' <<<"$output")" "[410000,405900]"
}

# lease BEGIN [END]: prints a lease, times in hours after the start of the test's day
lease() {
	local at="2026-11-01T00:00:00Z"
	jq -nc --arg at "$at" --argjson b "$1" --argjson e "${2:-null}" '($at | fromdate) as $t |
		{kind: "rnp.lease", v: 1, begin: ($t + $b * 3600 | todate)} +
		if $e then {end: ($t + $e * 3600 | todate)} else {} end'
}

# learn FILE: quotes every six hours for three days with the leases of FILE; the last quote is
# in $output
learn() {
	local h
	rm -f learn.db*
	for ((h = 0; h < 72; h += 6)); do
		RNP_NOW=$(date -u -d "2026-11-01T00:30:00Z + $h hours" +%Y-%m-%dT%H:%M:%SZ)
		# leases that are still in the future are left out
		jq -c --arg now "$RNP_NOW" 'select(.begin <= $now) | if .end and .end > $now then del(.end) else . end' "$1" >told
		quote "$NODE" --costs c.json --state learn.db --leases told --units 4 offers
	done
}

@test "quote: a node that is always sold out knows it, as one does that nobody takes" {
	local h u
	costs 50000 >c.json
	for h in 400000 420000 450000 500000; do offer "RTX 4090" 1 $h "\"host\":\"h$h\""; done >offers
	for ((u = 0; u < 4; u++)); do
		for ((h = 0; h < 72; h += 6)); do lease "$h.$u" "$((h + 5)).9"; done
	done >sold-out
	learn sold-out
	jq -e '.customer_uusd > 0.90 * .rival_uusd and .occupancy_ppm.expected > 850000 and .occupancy_ppm.just_under > 700000' <<<"$output" ||
		fail "$(jq -c '[.customer_uusd, .rival_uusd, .occupancy_ppm, .why]' <<<"$output")"
	why_has "customers: "
	assert_equal "$(sqlite3 learn.db "SELECT max(n) <= 6 FROM (SELECT count(*) AS n FROM price WHERE changed GROUP BY at_ms / 86400000)")" 1
	: >nobody
	learn nobody
	jq -e '.customer_uusd < 0.96 * .rival_uusd and .occupancy_ppm.expected < 300000' <<<"$output" ||
		fail "$(jq -c '[.customer_uusd, .rival_uusd, .occupancy_ppm]' <<<"$output")"
	# never below the floor, whatever was learned
	costs 390000 >c.json
	RNP_NOW=2026-11-04T00:00:00Z
	quote "$NODE" --costs c.json --state learn.db --leases nobody --units 4 offers
	jq -e '.ask_uusd >= .floor_uusd and .floor_uusd == 390000' <<<"$output"
	refused 64 "--leases is learned from in a --state" rnp-price quote --node "$NODE" --costs c.json --leases nobody offers
	lease 5 4 >wrong
	refused 65 "wrong:1: the lease ends before it begins" \
		rnp-price quote --node "$NODE" --costs c.json --leases wrong --state x.db offers
}

@test "quote: bad input is refused and no quote is written" {
	costs 50000 >c.json
	offer "RTX 4090" 1 400000 >offers
	echo '{"kind":"rnp.offer","v":2}' >>offers
	refused 65 "offers:2" rnp-price quote --node "$NODE" --costs c.json offers
	assert_equal "$output" ""
	offer "RTX 4090" 1 0 >offers
	refused 65 "uusd_per_gpu_hour" rnp-price quote --node "$NODE" --costs c.json offers
	echo '{"kind":"rnp.node","v":1}' >n.json
	refused 65 "n.json" rnp-price quote --node n.json --costs c.json /dev/null
	refused 66 "missing" rnp-price quote --node missing --costs c.json /dev/null
	refused 65 "fee_ppm" rnp-price quote --node "$NODE" --costs c.json --policy rnp-004 /dev/null
	run_split rnp-price quote --node - --costs c.json
	assert_equal "$status" 64
	[[ $stderr == *"standard input is wanted twice"* ]]
}
