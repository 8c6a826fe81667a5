# rnp-price floor and quote: what a node costs, and the price that it asks.
load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	NODE=$ROOT/tests/data/rtx4090.node.json
	COSTS=$ROOT/tests/data/man/costs.json
	export RNP_NOW=2026-11-20T18:30:00Z
}

# offer MODEL COUNT UUSD [MORE]: prints an offer
offer() {
	echo "{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"test\",\"offer_id\":\"$1-$3\",\"gpu_model\":\"$1\",\"gpu_count\":$2,\"uusd_per_gpu_hour\":$3,\"spot\":false${4:+,$4}}"
}

# node GPUS...: prints a node record
node() {
	jq -nc '{kind:"rnp.node",v:1,at:"2026-11-20T12:00:00Z",gpus:($ARGS.positional|map({model:.}))}' --args "$@"
}

# costs UUSD: a node whose only cost is this many uusd an hour
costs() {
	echo "{\"watts_load\":0,\"uusd_per_kwh\":0,\"network_uusd_per_hour\":$1}"
}

quote() {
	run_split rnp-price quote --node "$@"
	assert_success
	jq -e . <<<"$output" >/dev/null
}

why_has() {
	jq -e --arg t "$1" '.why | any(startswith($t))' <<<"$output" >/dev/null ||
		fail "why lacks '$1': $(jq -c .why <<<"$output")"
}

# --- floor ---------------------------------------------------------------------------------

@test "floor: each term, their sum, and the days until the hardware is paid" {
	run_split rnp-price floor --costs "$COSTS" --explain <"$NODE"
	assert_success
	# 450 W x 0.15; 1599 / 1460 / 24; 10% of the sum, each rounded up
	assert_equal "$(jq -c '[.floor_uusd, .terms]' <<<"$output")" \
		'[146448,{"energy_uusd":67500,"depreciation_uusd":45634,"network_uusd":20000,"margin_uusd":13314,"fee_uusd":0}]'
	assert_equal "$(jq -c '[.idle_uusd, .hour, .break_even_days]' <<<"$output")" "[29000,18,1131]"
	assert_equal "$(jq -r .node <<<"$output")" "$(jq -r .node "$NODE")"
	why_has "energy: 450 W at 0.150000 \$/kWh (18:00 UTC) is 0.067500 \$/h"
	# without a node, from the costs alone
	run_split rnp-price floor --costs "$COSTS" </dev/null
	assert_success
	assert_equal "$(jq -c '[.floor_uusd, has("node"), has("why")]' <<<"$output")" "[146448,false,false]"
	run_split rnp-price floor --costs "$COSTS" --price 0.40 </dev/null
	assert_equal "$(jq .break_even_days <<<"$output")" 214 # 1599 / ((0.4 - 0.0875) x 24) = 213.2
	run_split rnp-price floor --costs "$COSTS" --price 0.05 </dev/null
	assert_equal "$(jq -c '[has("break_even_days"), .why]' <<<"$output")" \
		'[false,["break-even: never at 0.050000 $/h, which leaves nothing for the hardware"]]'
}

# Makes a machine with one package, its cores, and its memory: what each has used so far, in uJ
powercap() {
	local zone
	mkdir -p root/sys/class/powercap/intel-rapl:0{,:0,:1}
	for zone in :0=package-0=262143328850 :0:0=core=262143328850 :0:1=dram=65712999613; do
		IFS='=' read -r zone name range <<<"$zone"
		echo "$name" >"root/sys/class/powercap/intel-rapl$zone/name"
		echo "$range" >"root/sys/class/powercap/intel-rapl$zone/max_energy_range_uj"
		echo 262143000000 >"root/sys/class/powercap/intel-rapl$zone/energy_uj"
	done
	echo 65712000000 >root/sys/class/powercap/intel-rapl:0:1/energy_uj
	export RNP_SYSROOT=$PWD/root
}

@test "floor --measure: what GPUs and CPUs draw stands for watts_load" {
	"${CC:-gcc}" -shared -fPIC -o libnvidia-ml.so.1 "$BATS_TEST_DIRNAME/fake/nvml.c"
	powercap
	# counters that stand still: 300 W by a counter of energy, 250 W by readings, and 60 W beside them
	LD_LIBRARY_PATH=. run_split rnp-price floor --costs "$COSTS" --measure 2s --unmetered 60 --explain </dev/null
	assert_success
	jq -e '(.measured | .cpu_mw == 0 and (.gpu_mw - 550000 | fabs < 20000) and .unmetered_watts == 60 and
			.costs_watts == 450 and .watts == ((.gpu_mw + 999) / 1000 | floor) + 60 and .ms >= 2000) and
		.terms.energy_uusd == .measured.watts * 150' <<<"$output" || fail "$output"
	why_has "measured: 2 GPUs 5"
	# a counter that runs, and begins anew on the way: the cores are in their package, and do not count
	(
		for i in {1..600}; do
			echo $((i * 1000000)) >root/n
			for zone in 0 0:0; do # whole or not at all, as in sysfs
				cp root/n root/next
				mv root/next root/sys/class/powercap/intel-rapl:$zone/energy_uj
			done
			sleep 0.05
		done
	) 3>&- &
	local pid=$!
	run_split rnp-price floor --costs "$COSTS" --measure 3s </dev/null
	kill "$pid"
	wait "$pid" || :
	assert_success
	jq -e '.measured | .cpu_mw > 0 and .cpu_mw < 100000 and (has("gpu_mw") | not)' <<<"$output" || fail "$output"
	[[ $stderr == *"is the node at work?"* ]]
}

@test "floor --measure: a sum that would be too low is refused, and so is a machine without a meter" {
	"${CC:-gcc}" -shared -fPIC -o libnvidia-ml.so.1 "$BATS_TEST_DIRNAME/fake/nvml.c"
	powercap
	local scene
	for scene in lost mig; do # one is gone, one tells nothing
		FAKE_NVML=$scene LD_LIBRARY_PATH=. refused 69 "GPU 1 does not tell its power" \
			rnp-price floor --costs "$COSTS" --measure 1s
	done
	rm -r root/sys/class/powercap
	refused 69 "nothing here meters power" rnp-price floor --costs "$COSTS" --measure 1s
	refused 64 "--unmetered is for --measure" rnp-price floor --costs "$COSTS" --unmetered 5
	run_split rnp-price floor --costs "$COSTS" --measure 1ms
	assert_equal "$status" 64
	refused 64 "nor --measure" rnp-price floor --policy rnp-004 --measure 1s
}

@test "floor: the fee is a part of the price, the tariff one of 24" {
	echo '{"watts_load":1000,"uusd_per_kwh":95000,"fee_ppm":50000}' >c.json
	run_split rnp-price floor --costs c.json </dev/null
	assert_equal "$(jq -c '[.floor_uusd, .terms.fee_uusd]' <<<"$output")" "[100000,5000]"
	jq -nc '{watts_load:1000, tariff:[range(24) | . * 1000]}' >c.json
	run_split rnp-price floor --costs c.json </dev/null
	assert_equal "$(jq -c '[.hour, .floor_uusd]' <<<"$output")" "[18,18000]"
	RNP_NOW=2026-11-20T23:59:59Z run_split rnp-price floor --costs c.json </dev/null
	assert_equal "$(jq -c '[.hour, .floor_uusd]' <<<"$output")" "[23,23000]"
}

@test "floor: RNP-004's table, to the last digit" {
	run_split rnp-price floor --policy rnp-004
	assert_success
	assert_equal "$(jq -r '[.gpu_model, .msrp_uusd / 1e6, .tensor_cores, .f32_gflops / 1e3, .gpu_memory_bytes / 1048576, .bandwidth_mbytes / 1e3, .power_w, .daily_rounded_uusd / 1e6, .hourly_rounded_uusd / 1e6] | map(tostring) | join("|")' <<<"$output")" \
		"RTX 4090|1599|512|82.58|24576|1008|450|8.88|0.37
RTX 4080|1199|304|48.8|16384|716.8|320|6.66|0.28
RTX 4070 Ti|799|240|40.09|12288|504|285|4.44|0.18
RTX 3090 Ti|1999|336|40|24576|1008|450|11.11|0.46
RTX 3090|1499|328|35.58|24576|935.81|350|8.33|0.35
RTX 3080 Ti|1199|320|34.1|12288|912|350|6.66|0.28
RTX 3080|699|272|29.77|10240|760|320|3.88|0.16
RTX 3070 Ti|599|192|21.75|8192|608|290|3.33|0.14
RTX 3070|499|184|20.31|8192|448|220|2.77|0.12
RTX 3060 Ti|399|152|16.2|8192|608|290|2.22|0.09
RTX 2080 Ti|999|544|13.45|11264|616|250|5.55|0.2313
GTX 1660|219|0|5.03|6144|192|120|1.22|0.0507"
	assert_equal "$(jq -c 'select(.gpu_model == "RTX 2080 Ti") | .tiers | map([.tier, .at_least_mbytes, .surcharge_ppm, .hourly_uusd])' <<<"$output")" \
		'[["Low I",25,0,231250],["Low II",50,50000,242813],["Med I",100,100000,254375],["Med II",200,150000,265938],["Med III",300,200000,277500],["High I",400,225000,283281],["High II",500,255000,290219],["Ultra High",1000,500000,346875]]'
	refused 65 "no table of prices" rnp-price floor --policy rnp-019
	refused 64 "there is no policy" rnp-price floor --policy rnp-000
	run_split rnp-price floor --policy rnp-004 --table
	[[ ${lines[0]} == "gpu model"*msrp* && ${lines[1]} == "RTX 4090 "*'$'* ]]
}

@test "floor: --table shows the terms; at a price of nothing the hardware never pays for itself" {
	echo '{"watts_load": 100, "uusd_per_kwh": 200000, "hardware_uusd": 1000000, "depreciation_days": 1}' >c.json
	run_split rnp-price floor --costs c.json --table </dev/null
	assert_success
	[[ $output == *"floor "*'$'*"energy "'$0.02'* && $output != *msrp* ]]
	run_split rnp-price floor --costs c.json --price 0 </dev/null
	assert_equal "$(jq -c '[.break_even_days, .why[0][:17]]' <<<"$output")" '[null,"break-even: never"]'
}

@test "floor: bad costs are refused with the field" {
	local row
	for row in '{}|watts_load' '{"watts_load":1}|uusd_per_kwh' '{"watts_load":"1 W","uusd_per_kwh":1}|watts_load' \
		'{"watts_load":1,"uusd_per_kwh":-1}|uusd_per_kwh' '{"watts_load":1,"uusd_per_kwh":1,"fee_ppm":1000000}|fee_ppm' \
		'{"watts_load":1,"tariff":[1]}|tariff: 1 prices, not 24' '{"watts_load":1,"uusd_per_kwh":1,"hardware_uusd":5}|depreciation_days' \
		'{"watts_load":1,"uusd_per_kwh":1,"uusd_per_kwh":2}|duplicate' '[]|c.json' '{"watts_load":1e99,"uusd_per_kwh":1}|watts_load'; do
		echo "${row%|*}" >c.json
		refused 65 "${row##*|}" rnp-price floor --costs c.json
		[[ $stderr == *c.json* ]]
		assert_equal "$output" ""
	done
	refused 66 missing.json rnp-price floor --costs missing.json
	run_split rnp-price floor
	assert_equal "$status" 64
	run_split rnp-price floor --costs "$COSTS" --policy rnp-004
	assert_equal "$status" 64
}

@test "floor: records before a bad one are written" {
	run_split rnp-price floor --costs "$COSTS" - <<<"$(cat "$NODE"; echo '{"kind":"rnp.node","v":2}')"
	assert_equal "$status" 65
	assert_equal "$(wc -l <<<"$output")" 1
	[[ $stderr == *:2:* ]]
}

# --- quote ---------------------------------------------------------------------------------

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
	refused 65 "no label peak_hours" rnp-price quote --node "$NODE" --costs c.json --peak 1 offers
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
	node "RTX 4090" "RTX 3090" >n.json
	quote n.json --costs c.json offers
	why_has "no rival: the node's GPUs are of different models"
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
	run python3 "$ROOT/tests/price.py" 200 "${RNP_SEED:-7}"
	assert_success
	[[ $output == *"the same to the micro-dollar"* ]]
}

@test "quote: what it learned of customers, the same as an independent reading within 0.1%" {
	run python3 "$ROOT/tests/price_learn.py" 12 "${RNP_SEED:-7}"
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

@test "floor: dollars as dollars, a template, and a key that nobody knows is refused" {
	echo '{"watts_load":450,"per_kwh":"0.15 USD","hardware":"1599.00 USD","depreciation_days":1460,"network_per_hour":"$0.02","margin_ppm":100000}' >c.json
	run_split rnp-price floor --costs c.json </dev/null
	assert_success
	assert_equal "$(jq .floor_uusd <<<"$output")" 146448
	rnp-price floor --example >t.json
	run_split rnp-price floor --costs t.json </dev/null
	assert_success
	assert_equal "$(jq .floor_uusd <<<"$output")" 146448
	echo '{"watts_load":1,"uusd_per_kwh":150000,"hardware_usd":1599,"depreciation_days":1}' >c.json
	refused 65 "there is no 'hardware_usd'; did you mean 'hardware'?" rnp-price floor --costs c.json
	echo '{"watts_load":1,"uusd_per_kwh":150000,"hardware_uusd":1599,"depreciation_days":1}' >c.json
	run_split rnp-price floor --costs c.json </dev/null
	assert_success
	[[ $stderr == *"hardware_uusd is under one cent: are dollars meant?"* ]]
	echo '{"watts_load":1,"uusd_per_kwh":150000,"hardware":1599,"depreciation_days":1}' >c.json
	refused 65 "a number of micro-dollars goes into 'hardware_uusd'" rnp-price floor --costs c.json
}

@test "floor: a tariff with a time zone, one with a file of tomorrow's prices" {
	cat >c.json <<-'END'
		{"watts_load":1000,"tariff":{"zone":"Europe/Berlin","otherwise":"0.21 USD",
		 "rates":[{"days":"mon-fri","hours":"06-22","per_kwh":"0.32 USD"}]}}
	END
	run_split rnp-price floor --costs c.json </dev/null # a Friday, 19:30 in Berlin
	assert_equal "$(jq .floor_uusd <<<"$output")" 320000
	RNP_NOW=2026-11-20T21:00:00Z run_split rnp-price floor --costs c.json </dev/null
	assert_equal "$(jq .floor_uusd <<<"$output")" 210000
	mkdir sub
	echo '{"watts_load":1000,"network_uusd_per_hour":30000,"tariff":{"day_ahead":"p.csv","otherwise":"0.40 USD"}}' >sub/c.json
	printf 'start,price\n2026-11-20T18:00:00Z,-0.01\n2026-11-20T20:00:00Z,0.05\n' >sub/p.csv
	run_split rnp-price floor --costs sub/c.json --explain </dev/null
	assert_equal "$(jq -c '[.floor_uusd, .terms.energy_uusd]' <<<"$output")" "[20000,-10000]"
	why_has "energy: 1000 W at -0.010000 \$/kWh (18:00 UTC) is -0.010000 \$/h"
	RNP_NOW=2026-11-20T19:10:00Z run_split rnp-price floor --costs sub/c.json </dev/null
	assert_equal "$(jq .floor_uusd <<<"$output")" 430000
	rm sub/p.csv
	refused 66 "p.csv" rnp-price floor --costs sub/c.json
}

@test "quote: feed and quote in one pipe" {
	run_split bash -c "rnp-price feed -m skypilot '$ROOT/tests/data/price/skypilot-made-up.csv' |
		rnp-price quote --node '$NODE' --costs '$COSTS'"
	assert_success
	assert_equal "$(jq -c '[.rival_uusd, .customer_uusd]' <<<"$output")" "[410000,405900]"
}

# --- fit -----------------------------------------------------------------------------------

# offers of four catalogues, each under the name of its market
catalogues() {
	local pair file
	for pair in v5_runpod_vms__02d7ef67:runpod v7_vast_vms__00690e76:vast v8_vast_vms__01b8cdda:vast \
		v8_primeintellect_vms__d9a304ea:prime; do
		file=$(data "prices/${pair%:*}.csv") || return
		rnp-price feed -q -m skypilot --name "${pair#*:}" "$file"
	done
}

@test "fit: four real catalogues, in sample and with a model or a market left out" {
	catalogues >offers || skip_data
	run_split rnp-price fit offers
	assert_success
	jq -e '.used > 500 and .error_ppm.in_sample <= 115000 and .error_ppm.model_left_out <= 160000 and
		.error_ppm.market_left_out <= 230000' <<<"$output" || fail "$(jq -c .error_ppm <<<"$output")"
	jq -e '.coefficients | .memory > 0 and .tensor > 0 and .spot < 0' <<<"$output"
	assert_equal "$(jq -r .data_sha256 <<<"$output")" "$(sha256sum offers | cut -d' ' -f1)"
	# the order of the offers does not change any visible result
	jq -c '[.error_ppm, .spread]' <<<"$output" >a
	sort -R --random-source=<(yes) offers | rnp-price fit | jq -c '[.error_ppm, .spread]' >b
	python3 -c 'import json, sys
a, b = (json.load(open(f)) for f in "ab")
assert all(abs(x[k] - y[k]) < 20000 for x, y in zip(a, b) for k in x), (a, b)'
}

@test "fit: quote takes the fitted price where nobody else has the model" {
	local model i=0
	costs 50000 >c.json
	for model in "RTX 3090" "RTX 3080" "RTX A6000" "L40S" "H100 SXM" "A100 80GB SXM" "RTX 4080" "L4" "RTX 4070" "H200"; do
		offer "$model" 1 $((300000 + 10000 * i))
		offer "$model" 1 $((320000 + 10000 * i++))
	done >offers
	rnp-price fit offers >fit.json
	quote "$NODE" --costs c.json --fit fit.json offers
	jq -e '.model_uusd | .low <= .mid and .mid <= .high and .model_known == false and .market_known == false' <<<"$output"
	jq -e '(.customer_uusd - .model_uusd.mid) | . <= 0 and . >= -2' <<<"$output"
	quote "$NODE" --costs c.json --fit fit.json --market test offers
	jq -e '.model_uusd.market_known' <<<"$output"
	# a single unknown offer is compared with the fit
	cp offers more
	offer "RTX 4090" 1 50000 >>more
	quote "$NODE" --costs c.json --fit fit.json more
	why_has "left out: 1 of 1 hosts below 0."
	jq -e 'has("rival_uusd") | not' <<<"$output"
}

@test "fit: too few offers, records that are none" {
	offer "RTX 4090" 1 400000 >offers
	refused 65 "1 offers with a model and a price: at least 8 are wanted" rnp-price fit offers
	refused 65 "kind" rnp-price fit "$NODE"
	costs 50000 >c.json
	jq -c '.kind = "rnp.fit"' "$NODE" >fit.json
	refused 65 "fit.json" rnp-price quote --node "$NODE" --costs c.json --fit fit.json offers
}

# --- backtest ------------------------------------------------------------------------------

@test "backtest: real markets, ours ahead of the baselines, the same whatever the threads" {
	local name args=()
	for name in A100_80GB_PCIe H100_80GB_PCIe; do
		gunzip -c "$(data "history/prime_30min/$name.jsonl.gz")" >"$name" || skip_data
		args+=(--history "$name")
	done
	run_split rnp-price backtest "${args[@]}" --policy ours,undercut,step10 --seed 7
	assert_success
	jq -se 'map({key: .policy, value: .}) | from_entries | .ours.runs == 36 and .ours.mean_ppm > 900000 and
		.ours.changes_max <= 6 and .ours.mean_ppm > .undercut.mean_ppm + 30000 and
		.ours.mean_ppm > .step10.mean_ppm + 30000' <<<"$output" || fail "$output"
	OMP_NUM_THREADS=1 rnp-price backtest "${args[@]}" --policy ours,undercut,step10 --seed 7 | cmp - <(echo "$output")
}

@test "backtest: worlds, the same as an independent reading within 0.1%" {
	gunzip -c "$(data history/prime_30min/H200_141GB.jsonl.gz)" | head -40 >series || skip_data
	[[ -s series ]] || skip_data
	run python3 "$ROOT/tests/price_worlds.py" series "${RNP_SEED:-7}"
	assert_success
	[[ $output == *"486 results of worlds agree within 0.1%"* ]]
}

@test "backtest: series that are none are refused" {
	refused 64 "--history, --jobs and --pods" rnp-price backtest
	refused 66 "missing" rnp-price backtest --history missing
	echo '{}' | gzip >packed.jsonl.gz
	refused 65 "packed.jsonl.gz:1: compressed with gzip: unpack it first" rnp-price backtest --history packed.jsonl.gz
	refused 65 "packed.jsonl.gz: compressed with gzip" rnp-price backtest --jobs packed.jsonl.gz --gpus 1
	refused 65 "packed.jsonl.gz: compressed with gzip" rnp-price feed --market vast packed.jsonl.gz
	refused 65 "packed.jsonl.gz: compressed with gzip" rnp-price feed --market skypilot packed.jsonl.gz
	echo '{"price_stats":{"median":1},"by_provider":{"a":{"count":1,"min":1}}}' >one
	refused 65 "fewer than two snapshots" rnp-price backtest --history one
	refused 64 "there is no policy 'best'" rnp-price backtest --history one --policy best
	echo '{"price_stats":{"median":1},"by_provider":{"a":{"count":1,"min":-1}}}' >one
	refused 65 "one:1: by_provider.a: min" rnp-price backtest --history one
}

@test "backtest: Philly's jobs, to the second of what was measured before" {
	gunzip -c "$(data jobs/philly_jobs.csv.gz)" >jobs.csv || skip_data
	run_split rnp-price backtest --jobs jobs.csv --gpus 624
	assert_success
	# pricing.md, B.5
	assert_equal "$(jq -r '[.algorithm, .mean_s, .runs] | join(" ")' <<<"$output")" \
		"fifo 64678 82247
las 14013 82247
las-queues 14658 82247
shortest 13774 82247"
	run_split rnp-price backtest --jobs jobs.csv --gpus 499 --algorithm las
	assert_equal "$(jq .mean_s <<<"$output")" 19830
	# jobs wait for nothing but the next round
	run_split rnp-price backtest --jobs jobs.csv --gpus 1100
	jq -se 'all(.mean_s == 13294 or .mean_s == 13295)' <<<"$output"
}

@test "backtest: a trace by hand, and traces that are none" {
	# two GPUs; a long job and, a minute later, two short ones: las serves the short ones
	# first
	printf 'timestamp,duration,num_gpus,user\n2026-01-01 00:00:00,1200,2,a\n2026-01-01 00:01:00,300,1,b\n2026-01-01 00:01:00,300,2,c\n2026-01-01 00:01:00,100,3,d\n' >jobs
	run_split rnp-price backtest --jobs jobs --gpus 2
	assert_success
	# fifo: 1200; the next two from 1200 and 1500: 1440 and 1740 after their arrival. las:
	# the second and
	# third run in the second and third round, until 600 and 900, and the first one ends at
	# 1800
	assert_equal "$(jq -r 'select(.algorithm == "fifo" or .algorithm == "las") | [.algorithm, .mean_s, .refused, .makespan_s] | join(" ")' <<<"$output")" \
		"fifo 1460 1 1800
las 1060 1 1800"
	# speeds 1200 / 1800, 300 / 540 and 300 / 840 of las: Jain's index and the worst slowdown
	assert_equal "$(jq -c 'select(.algorithm == "las") | [.fairness_ppm, .slowdown_p99_ppm]' <<<"$output")" "[944162,2800000]"
	refused 64 "--jobs and --gpus" rnp-price backtest --jobs jobs
	refused 66 missing rnp-price backtest --jobs missing --gpus 2
	local row
	for row in 'a,b|no column' 'timestamp,duration,num_gpus|no jobs' ; do
		echo "${row%|*}" >jobs
		refused 65 "${row##*|}" rnp-price backtest --jobs jobs --gpus 2
	done
	for row in 'yesterday,1,1|:2: timestamp' '2026-01-01 00:00:00,nan,1|:2: duration' '2026-01-01 00:00:00,1e30,1|:2: duration' \
		'2026-01-01 00:00:00,-1,1|:2: duration' '2026-01-01 00:00:00,1,-1|:2: num_gpus' '2026-01-01 00:00:00,1,1.5|:2: num_gpus'; do
		printf 'timestamp,duration,num_gpus\n%s\n' "${row%|*}" >jobs
		refused 65 "${row##*|}" rnp-price backtest --jobs jobs --gpus 2
	done
}

@test "backtest: Alibaba's pods, six policies within half a point of what was published" {
	local nodes pods
	nodes=$(data jobs/openb_node_list_gpu_node.csv) || skip_data
	pods=$(data jobs/openb_pod_list_default.csv) || skip_data
	run_split rnp-price backtest --pods "$pods" --nodes "$nodes" --runs 4
	assert_success
	# pricing.md, B.5: GPUs in use when 100 and 130% were asked for
	jq -se 'map({key: .algorithm, value: .}) | from_entries as $all |
		{random: [86.3, 87.5], "dot-product": [90.6, 90.9], "gpu-clustering": [91.7, 91.9],
		 "gpu-packing": [91.8, 92.0], "best-fit": [92.9, 93.1], fgd: [95.2, 95.4]} | to_entries | all(
			($all[.key].allocated_100_ppm / 10000 - .value[0] | fabs < 0.5) and
			($all[.key].allocated_130_ppm / 10000 - .value[1] | fabs < 0.5) and
			$all[.key].gpus == 6212)' <<<"$output" || fail "$output"
	OMP_NUM_THREADS=1 rnp-price backtest --pods "$pods" --nodes "$nodes" --runs 4 | cmp - <(echo "$output")
}

@test "backtest: --plot and --report, the same bytes whatever the threads; nothing half written" {
	local i
	for i in 1 2 3 4 5 6; do
		echo '{"price_stats":{"median":1.2},"by_provider":{"a":{"count":2,"min":1.0'$i'},"b":{"count":1,"min":1.3}}}'
	done >history
	run_split rnp-price backtest --history history --worlds formula --policy ours,undercut --plot p.svg --report p.html
	assert_success
	assert_equal "$(jq -r '.mode' <<<"$output" | sort | uniq -c | xargs)" "2 worlds"
	xmllint --noout p.svg 2>/dev/null || python3 -c 'import sys, xml.dom.minidom as m; m.parse("p.svg")'
	grep -q "revenue over the best in hindsight" p.svg
	grep -q "rnp-price backtest --history history --worlds formula --policy ours,undercut --seed 1" p.html
	assert_equal "$(grep -c '<td data-l="mean lease">' p.html)" 36 # each of 18 worlds under two policies
	run grep -iE 'src=|href=|<script|@import' p.html p.svg
	assert_failure
	cp p.svg one.svg
	cp p.html one.html
	OMP_NUM_THREADS=1 rnp-price backtest --history history --worlds formula --policy ours,undercut --plot p.svg --report p.html >/dev/null
	cmp p.svg one.svg
	cmp p.html one.html
	run_split rnp-price backtest --history history --policy undercut --each
	assert_equal "$(jq -sc 'map(select(.mode == "world")) | [length, ([.[].revenue_ppm] | add / 18 / 100 | round)]' <<<"$output")" \
		"$(jq -sc 'map(select(.mode == "worlds")) | [18, (.[0].mean_ppm / 100 | round)]' <<<"$output")"
	printf 'timestamp,duration,num_gpus\n2026-01-01 00:00:00,1200,2\n' >jobs
	rnp-price backtest --jobs jobs --gpus 2 --plot jobs.svg --report jobs.html >/dev/null
	grep -q "Mean completion" jobs.svg
	grep -q "shortest" jobs.html
	rnp-price backtest --history history --policy undercut --report p.html --worlds nothing && fail "a world that is none"
	cmp p.html one.html
	refused 73 "/dev/full" rnp-price backtest --history history --plot /dev/full
}

@test "backtest: a part of a GPU goes where it leaves the least behind" {
	# parts of 600 and 400 fill a GPU together, which leaves the other one for a whole pod: fgd
	# sees to that, and luck does not
	printf 'cpu_milli,memory_mib,gpu\n64000,100000,2\n' >nodes
	printf 'cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,10,1,600\n1000,10,1,400\n1000,10,1,1000\n' >pods
	run_split rnp-price backtest --pods pods --nodes nodes --runs 200
	assert_success
	jq -se 'map({key: .algorithm, value: .}) | from_entries | (.fgd | .gpus == 2 and .runs == 200) and
		.fgd.allocated_100_ppm > .random.allocated_100_ppm + 30000' <<<"$output" || fail "$output"
	refused 64 "belong together" rnp-price backtest --pods pods
	refused 64 "fgd is not one for --jobs" rnp-price backtest --jobs pods --gpus 1 --algorithm fgd
	local row
	for row in '1,1,2,500|gpu_milli' '1,1,1,0|gpu_milli' '1,1,9,1000|num_gpu' '-1,1,1,1000|cpu_milli' '1,1,0,0|no pod wants a GPU'; do
		printf 'cpu_milli,memory_mib,num_gpu,gpu_milli\n%s\n' "${row%|*}" >bad
		refused 65 "${row##*|}" rnp-price backtest --pods bad --nodes nodes
	done
	printf 'cpu_milli,memory_mib\n1,1\n' >bad
	refused 65 "no column 'gpu'" rnp-price backtest --pods pods --nodes bad
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

@test "price: closed standard output is an error" {
	[[ -w /dev/full ]] || skip "no /dev/full"
	run_split bash -c "rnp-price floor --policy rnp-004 >/dev/full"
	assert_equal "$status" 74
}

@test "price: help, usage and records of the subcommands" {
	local sub
	for sub in backtest feed fit floor quote; do
		run_split rnp-price "$sub" --help
		assert_success
		[[ $output == "usage: rnp-price $sub"* ]]
	done
	for sub in rnp.backtest rnp.lease rnp.costs rnp.offer rnp.fit rnp.floor rnp.quote; do
		rnp-price --schema "$sub" | jq -e --arg k "$sub" '.title == $k'
	done
	run_split rnp-price feed -m vast --table "$ROOT/tests/data/price/vast-made-up.json"
	assert_success
	[[ ${lines[0]} == market*"gpu model"* && $output == *'$'[0-9]* ]]
}
