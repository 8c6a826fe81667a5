# rnp-price estimate: what a day leaves on each market, against an independent calculation.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export RNP_NOW=2026-11-20T18:00:00Z
	NODE=$ROOT/tests/data/man/node.json
	echo '{"watts_load":450,"watts_idle":50,"per_kwh":"0.20 USD","hardware":"1800 USD","depreciation_days":900,"fee_ppm":250000}' >costs.json
}

# offers MARKET [RENTED:PRICE ...]: one RTX 4090 of a host each; RENTED is true, false or ?
offers() {
	local i=0 p
	for p in "${@:2}"; do
		i=$((i + 1))
		jq -nc --arg m "$1" --arg i "$i" --argjson p "${p#*:}" --arg r "${p%%:*}" '{kind: "rnp.offer", v: 1, market: $m, offer_id: $i, host: $i,
			gpu_model: "RTX 4090", gpu_count: 2, uusd_per_gpu_hour: $p, spot: false} + if $r == "?" then {} else {rented: ($r == "true"), rentable: ($r == "false")} end'
	done
}

@test "estimate: of GPUs of several models one is estimated, and the others are named" {
	offers vast false:400000 true:400000 >o
	jq -c '.gpus = [{model: "NVIDIA T400 4GB"}] + [range(2) | {model: "NVIDIA GeForce RTX 4090"}]' "$NODE" >n
	run_split rnp-price estimate --node n --costs costs.json o
	assert_success
	assert_equal "$stderr" "rnp-price: n: not in this estimate: 1 T400 4GB (--gpu-model)"
	assert_equal "$(jq -c '[.gpu_model, .gpu_count]' <<<"$output")" '["RTX 4090",2]'
	refused 64 "--gpu-model: 'L4' is not among the GPUs of n: 2 RTX 4090, 1 T400 4GB" \
		rnp-price estimate --node n --gpu-model L4 --costs costs.json o
}

@test "estimate: price, occupancy, fee and power, as another program computes them" {
	jq -c '.gpus = [range(2) | {model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864}]' "$NODE" >n
	{
		offers vast false:400000 false:500000 false:450000 false:620000 true:300000 true:410000
		offers runpod '?:600000' '?:700000'
		offers prime
	} >o
	run_split rnp-price estimate --node n --costs costs.json --render 2.50 --fee runpod=100000 o
	assert_success
	echo "$output" >got
	python3 - <<-'END'
		import json, math
		z, q = 1.2815515594600038, 1.3489795003921634
		def quantile(v, p):
		    at = p * (len(v) - 1); i = int(at)
		    return v[i] if i + 1 >= len(v) else v[i] + (at - i) * (v[i + 1] - v[i])
		def want(prices, rented, told, fee):
		    mid = quantile(prices, .5) * 2
		    s = math.log(quantile(prices, .75) / quantile(prices, .25)) / q if len(prices) >= 3 else .3
		    if told:
		        a, b = rented + .5, told - rented + .5
		        occ, sd = a / (a + b), math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
		    else:
		        occ, sd = .5, .25
		    def left(price, busy):
		        return price * 24 * busy * (1 - fee) - 90000 * 24 * busy - 10000 * 24 * (1 - busy)
		    both = math.hypot(s, sd / occ)
		    ds, do = z * s * s / both, z * sd * sd / occ / both
		    return [left(mid * math.exp(-ds), max(occ - do, .01)), left(mid, occ), left(mid * math.exp(ds), min(occ + do, .99))]
		got = {r["market"]: r for r in map(json.loads, open("got"))}
		assert list(got) == sorted(got, key=lambda m: -got[m]["day_uusd"]["mid"]), list(got)
		for market, w in (("vast", want([400000, 450000, 500000, 620000], 2, 6, .25)), ("runpod", want([600000, 700000], 0, 0, .1))):
		    d = got[market]["day_uusd"]
		    for key, v in zip(("low", "mid", "high"), w):
		        assert abs(d[key] - v) < 2, (market, key, d[key], v)
		        assert abs(got[market]["day_base_units"][key] - v * 1e8 / 2.5e6) < 100
		    assert d["low"] < d["mid"] < d["high"]
		assert got["vast"]["occupancy_ppm"]["known"] and not got["runpod"]["occupancy_ppm"]["known"]
		assert got["vast"]["hardware_day_uusd"] == 2000016 or abs(got["vast"]["hardware_day_uusd"] - 2000000) < 30
	END
}

@test "estimate: what it cannot tell is said" {
	offers vast false:400000 >o
	run_split rnp-price estimate --node "$NODE" --costs costs.json --fee vast o
	assert_equal "$status" 64
	refused 64 "is no price of RENDER" rnp-price estimate --node "$NODE" --costs costs.json --render 0 o
	refused 66 missing rnp-price estimate --node "$NODE" --costs costs.json --render missing o
	sed 's/RTX 4090/L4/' o >l4
	refused 75 "no market among 1 offers lists such GPUs" rnp-price estimate --node "$NODE" --costs costs.json l4
	jq -c '.gpus = []' "$NODE" >none
	refused 65 "no GPU that markets list" rnp-price estimate --node none --costs costs.json o
	# one offer of a millionth of a dollar does not count
	{
		offers vast false:400000 false:500000 false:450000 false:620000
		offers vast false:1 | sed 's/"offer_id":"1","host":"1"/"offer_id":"9","host":"9"/'
	} >o
	assert_equal "$(rnp-price estimate --node "$NODE" --costs costs.json o | jq .hosts)" 4
	# a record of the price of RENDER
	echo '{"kind":"rnp.price","v":1,"source":"twap","at":"2026-11-20T17:00:00Z","price_uusd":2000000}' >render.json
	assert_equal "$(rnp-price estimate --node "$NODE" --costs costs.json --render render.json o | jq '.day_base_units.mid - .day_uusd.mid * 50 | . > -51 and . < 51')" true
}

@test "quote: RENDER beside dollars where its price is given" {
	offers vast false:400000 false:500000 false:450000 false:620000 >o
	run_split rnp-price quote --node "$NODE" --costs costs.json --render 2.00 o
	assert_success
	assert_equal "$(jq -c '[.render.price_uusd, .render.ask_base_units - .ask_uusd * 50, .render.customer_base_units - .customer_uusd * 50]' <<<"$output")" "[2000000,0,0]"
	run_split rnp-price quote --node "$NODE" --costs costs.json o
	assert_equal "$(jq .render <<<"$output")" null
}
