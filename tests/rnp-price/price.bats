# rnp-price floor: what a node costs. And what every subcommand of rnp-price does.
load ../helper
load price

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
	"${CC:-gcc}" -shared -fPIC -o libnvidia-ml.so.1 "$ROOT/tests/fake/nvml.c"
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
	"${CC:-gcc}" -shared -fPIC -o libnvidia-ml.so.1 "$ROOT/tests/fake/nvml.c"
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
	# who asks nothing is told
	echo '{"watts_load": 100, "per_kwh": "0 USD"}' >c.json
	run_split rnp-price floor --costs c.json </dev/null
	assert_equal "$stderr" "rnp-price: c.json: the floor is 0 USD: a node may then be had for nothing"
	run_split rnp-price quote --floor-if-empty --costs c.json --node "$ROOT/tests/data/rtx4090.node.json" </dev/null
	assert_equal "$stderr" "rnp-price: the ask is 0 USD: see floor_uusd, and the costs in c.json"
}

@test "floor: bad costs are refused with the field" {
	local row
	for row in '{}|watts_load' '{"watts_load":90}|uusd_per_kwh' '{"watts_load":"1 Wh","uusd_per_kwh":1}|watts_load' \
		'{"watts_load":90,"uusd_per_kwh":-1}|uusd_per_kwh' '{"watts_load":90,"per_kwh":"0.15 USD","fee_ppm":1000000}|fee_ppm' \
		'{"watts_load":90,"tariff":[1]}|tariff: 1 prices, not 24' '{"watts_load":90,"per_kwh":"0.15 USD","hardware":"99 USD"}|depreciation_days' \
		'{"watts_load":90,"uusd_per_kwh":1,"uusd_per_kwh":2}|duplicate' '[]|c.json' '{"watts_load":1e99,"uusd_per_kwh":1}|watts_load' \
		'{"watts_load":"450","per_kwh":"0.15 USD"}|no amount such as "450 W"' '{"watts_load":90,"per_kwh":"0.15 USDx"}|per_kwh' \
		'{"watts_load":90,"per_kwh":"0,15 USD"}|did you mean 0.15 USD?' \
		'{"watts_load":90,"per_kwh":"0,12"}|did you mean 0.12 USD/kWh?' '{"watts_load":"1,5 kW","per_kwh":"1 ct"}|did you mean 1.5 kW?' \
		'{"watts_load":90,"per_kwh":"$0.15","depreciation_days":900,"hardware":"1,599 USD"}|did you mean 1599 USD?' '{"watts_load":90,"per_kwh":"15 EUR/MWh"}|what one EUR is worth in USD' \
		'{"watts_load":90,"per_kwh":"$1 USD"}|per_kwh' '{"watts_load":90,"per_kwh":"0.15 USD","fee_ppm":"5 %%"}|fee_ppm' \
		'{"watts_load":90,"per_kwh":"1 USD/h"}|per_kwh' '{"watts_load":90,"per_kwh":"0.15 USD","usd_per":{"EUR":1.16}}|usd_per: EUR'; do
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

@test "floor: dollars as dollars, a template, and a key that nobody knows is refused" {
	echo '{"watts_load":450,"per_kwh":"0.15 USD","hardware":"1599.00 USD","depreciation_days":1460,"network_per_hour":"$0.02","margin_ppm":100000}' >c.json
	run_split rnp-price floor --costs c.json </dev/null
	assert_success
	assert_equal "$(jq .floor_uusd <<<"$output")" 146448
	rnp-price floor --example >t.json
	run_split rnp-price floor --costs t.json </dev/null
	assert_success
	assert_equal "$(jq .floor_uusd <<<"$output")" 146448
	echo '{"watts_load":90,"uusd_per_kwh":150000,"hardware_usd":1599,"depreciation_days":999}' >c.json
	refused 65 "there is no 'hardware_usd'; did you mean 'hardware'?" rnp-price floor --costs c.json
	echo '{"watts_load":90,"uusd_per_kwh":150000,"hardware_uusd":1599,"depreciation_days":999}' >c.json
	run_split rnp-price floor --costs c.json </dev/null
	assert_success
	[[ $stderr == *"hardware_uusd: 0.001599 USD is unusual; did you mean 1599.00 USD (dollars)?"* ]]
	echo '{"watts_load":90,"uusd_per_kwh":150000,"hardware":1599,"depreciation_days":999}' >c.json
	refused 65 "a number of micro-dollars goes into 'hardware_uusd'" rnp-price floor --costs c.json
}

@test "floor: units are read, and what nobody can mean is doubted: a warning, with --strict an error" {
	echo '{"watts_load":"0.45 kW","per_kwh":"15 ct/kWh","hardware":"1378.448276 EUR","depreciation_days":"4 years","network_per_hour":"14.60 USD/month","margin_ppm":"10%","usd_per":{"EUR":"1.16"}}' >c.json
	run_split rnp-price floor --strict --costs c.json </dev/null
	assert_success
	assert_equal "$stderr" ""
	assert_equal "$(jq .floor_uusd <<<"$output")" 146448
	local row
	for row in '"watts_load":450000,"per_kwh":"0.15 USD"|watts_load: 450000 W is unusual; did you mean 450 W (mW)?' \
		'"watts_load":450,"per_kwh":"15 USD"|did you mean 0.15 USD/kWh (cents)' \
		'"watts_load":450,"per_kwh":"0.15 USD","fee_ppm":10|fee_ppm: 0.001% is unusual; did you mean 10% (percent)?' \
		'"watts_load":450,"per_kwh":"0.15 USD","hardware":"1599 USD","depreciation_days":4|did you mean 1460 days (years)' \
		'"watts_load":450,"per_kwh":"0.15 USD","network_per_hour":"20 USD"|did you mean 0.027397 USD/h (a month)'; do
		echo "{${row%|*}}" >c.json
		run_split rnp-price floor --costs c.json </dev/null
		assert_success
		[[ $stderr == *"${row##*|}"* ]] || fail "$stderr lacks ${row##*|}"
		refused 65 "${row##*|}" rnp-price floor --strict --costs c.json
	done
	# options: percent, and the same doubt
	misused "'5 apples' is no amount such as \"5%\"" rnp-price quote --undercut "5 apples"
	run_split rnp-price quote --undercut 5 --node none --costs c.json
	[[ $stderr == *"--undercut: 0.0005% is unusual; did you mean 5% (percent)?"* ]]
	misused "'0,40' has a comma; did you mean 0.40?" rnp-price floor --costs c.json --price 0,40
}

@test "floor: a day-ahead file in EUR/MWh, by line or by heading; a comma in it is no decimal point" {
	echo '{"watts_load":1000,"tariff":{"day_ahead":"p.csv","otherwise":"0.40 USD"},"usd_per":{"EUR":"1.16"}}' >c.json
	local row
	for row in '2026-11-20T18:00:00Z,85.30 EUR/MWh|98948' 'Time,Price (EUR/MWh)\n2026-11-20T18:00:00Z,85.30|98948' \
		'Time;ct/kWh\n2026-11-20T18:00:00Z;8.53|85300' '2026-11-20T18:00:00Z,0.0853123456|85312' \
		'\xef\xbb\xbfTime,Price\n2026-11-20T18:00:00Z,0.0853|85300'; do
		printf "${row%|*}\n" >p.csv
		run_split rnp-price floor --costs c.json </dev/null
		assert_success
		assert_equal "$stderr" ""
		assert_equal "$(jq .terms.energy_uusd <<<"$output")" "${row##*|}"
	done
	printf '2026-11-20T18:00:00Z,85.30\n2026-11-20T19:00:00Z,90.10\n' >p.csv
	run_split rnp-price floor --costs c.json </dev/null
	assert_success
	assert_equal "$(wc -l <<<"$stderr")" 1
	[[ $stderr == *"p.csv:2: 90.10 USD/kWh is unusual; did you mean 0.901 USD/kWh (cents) or 0.0901 USD/kWh (per MWh)?"* ]]
	for row in '0,0853|did you mean 0.0853?' '0.0853 EUR/h|no amount such as' '0.0853,DE|no amount' '0.0853 x|no amount'; do
		echo "2026-11-20T18:00:00Z,${row%|*}" >p.csv
		refused 65 "${row##*|}" rnp-price floor --costs c.json
	done
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
	[[ ${lines[0]} == GPU*'$/h'* && $output == *'$'[0-9]* ]]
	# by model, the cheapest first
	rnp-price feed -q -m vast "$ROOT/tests/data/price/vast-made-up.json" | jq -r '[.gpu_model, .uusd_per_gpu_hour, .offer_id] | @tsv' |
		LC_ALL=C sort -t $'\t' -k1,1 -k2,2n -k3,3 | cut -f3 | cmp - <(awk 'NR > 1 {print $NF}' <<<"$output")
}
