# rnp-reward: prices, burns, issuance and reputation, compared with Python's fractions.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# price SOURCE TIME UUSD: prints a price record
price() {
	echo "{\"kind\":\"rnp.price\",\"v\":1,\"source\":\"$1\",\"at\":\"2026-11-20T$2Z\",\"price_uusd\":$3}"
}

window=(--from 2026-11-20T12:00:00Z --to 2026-11-20T13:00:00Z)

@test "twap: price x seconds over seconds, by the sources that agree" {
	{
		for minute in $(seq -w 0 3 57); do
			price a "12:$minute:00" 2000000
			price b "12:$minute:00" "$((10#$minute < 30 ? 2200000 : 2000000))"
		done
	} >prices
	# half an hour at the mean of 2.00 and 2.20, half an hour at 2.00
	assert_equal "$(rnp-reward twap "${window[@]}" prices | jq .price_uusd)" 2050000
	# a source that is too far from the others is left out, whatever price it gives
	for minute in $(seq -w 0 3 57); do price liar "12:$minute:00" 99000000; done >>prices
	rnp-reward twap "${window[@]}" prices >out
	assert_equal "$(jq -c '[.price_uusd, .left_out_s]' out)" '[2050000,{"liar":3600}]'
	# the order of the input does not matter
	shuf --random-source=prices prices | rnp-reward twap "${window[@]}" | cmp - out
}

@test "twap: a window with an instant of too few sources has no price" {
	for minute in $(seq -w 0 5 55); do price a "12:$minute:00" 2000000; price b "12:$minute:00" 2000000; done >prices
	rnp-reward twap "${window[@]}" prices >/dev/null
	refused 65 "at 2026-11-20T12:20:00Z 1 sources are fresh and agree, 2 are needed" \
		rnp-reward twap "${window[@]}" <(grep -v 'b.*12:2[05]:' prices)
	rnp-reward twap --age 16m "${window[@]}" <(grep -v 'b.*12:2[05]:' prices) >/dev/null
	rnp-reward twap --quorum 1 "${window[@]}" <(grep -v 'b.*12:2[05]:' prices) >/dev/null
	refused 65 "at 2026-11-20T12:00:00Z 0 sources" rnp-reward twap "${window[@]}" /dev/null
	# two sources that contradict each other are no quorum, nor is either half of four
	refused 65 "0 sources are fresh and agree" rnp-reward twap "${window[@]}" \
		<(sed '/"b"/s/2000000/3000000/' prices)
	refused 65 "0 sources are fresh and agree" rnp-reward twap "${window[@]}" prices \
		<(sed 's/"a"/"c"/; s/"b"/"d"/; s/2000000/1000000/' prices)
	# no feed has two voices: by another spelling of its name, or by an average that it is in
	refused 65 "source 'A ' is 'a' in other letters" rnp-reward twap "${window[@]}" <(sed '/"b"/s/"b"/"A "/' prices)
	rnp-reward twap "${window[@]}" prices >average
	refused 65 "average:1: is an average, not a sample of a source" rnp-reward twap "${window[@]}" prices average
	refused 65 "is an average" rnp-reward twap "${window[@]}" <(sed 's/"source":"twap"/"source":"c"/' average)
	refused 64 "--to must be after" rnp-reward twap --from 2026-11-20T12:00:00Z --to 2026-11-20T12:00:00Z prices
	refused 65 "price_uusd" rnp-reward twap "${window[@]}" <<<"$(price a 12:00:00 0)"
}

@test "twap: random samples, as Python's fractions have it" {
	python3 - >prices <<-'PY'
		import json, random
		rng = random.Random(5)
		for i in range(4000):
		    s = rng.randrange(-300, 3600)
		    print(json.dumps({"kind": "rnp.price", "v": 1, "source": "s%d" % rng.randrange(5),
		        "at": "2026-11-20T%02d:%02d:%02dZ" % (12 + s // 3600, s // 60 % 60, s % 60),
		        "price_uusd": rng.randrange(1500000, 2500000)}))
	PY
	expected=$(python3 - prices <<-'PY'
		import json, sys
		from fractions import Fraction as F
		samples = sorted((int(r["at"][11:13]) * 3600 + int(r["at"][14:16]) * 60 + int(r["at"][17:19]) - 43200,
		    r["source"], r["price_uusd"]) for r in map(json.loads, open(sys.argv[1])))
		total = 0
		for t in range(3600):
		    last = {}
		    for at, source, price in samples:
		        if at <= t:
		            last[source] = (at, price)
		    fresh = sorted(p for at, p in last.values() if t - at < 300)
		    middles = fresh[(len(fresh) - 1) // 2], fresh[len(fresh) // 2]
		    kept = [p for p in fresh if all(abs(p - m) * 5 <= m for m in middles)]
		    total += F(kept[(len(kept) - 1) // 2] + kept[len(kept) // 2], 2)
		print(round(total / 3600))
	PY
	)
	assert_equal "$(rnp-reward twap "${window[@]}" prices | jq .price_uusd)" "$expected"
}

@test "burn: the worked examples: fee, grant, and every cent somewhere" {
	burn() { rnp-reward burn "$@" | jq -c '[.burned_uusd, .fee_uusd, .operator_uusd, .burned_base_units, .credits]'; }
	# RNP-021: a customer pays 20.00: 19.00 burned, fee 1.00
	assert_equal "$(burn --policy rnp-021 --usd 20 --price 2)" '[19000000,1000000,0,950000000,19000000]'
	# a matching grant changes neither: 2,400 of use, 400 of it granted
	assert_equal "$(burn --policy rnp-021 --usd 2400 --grant 400 --price 2)" '[2280000000,120000000,0,114000000000,2280000000]'
	# RNP-023: 1,000 at 60% and 2.00: 300 tokens; at 35%: 175
	assert_equal "$(burn --policy rnp-023 --usd 1000 --price 2)" '[600000000,50000000,350000000,30000000000,600000000]'
	assert_equal "$(burn --policy rnp-023-gateway --usd 1000 --price 2)" '[350000000,50000000,600000000,17500000000,350000000]'
	# rounding loses nothing: the remainder is burned
	for usd in 0.000001 0.00001 0.000019 1.234567; do
		rnp-reward burn --policy rnp-023 --usd $usd --price 1.23 |
			jq -e '.burned_uusd + .fee_uusd + .operator_uusd == .usd_uusd and .credits == .burned_uusd'
	done
	# the record names the policy, wherever its file is
	rnp-reward burn --policy "$ROOT/cmd/rnp-reward/policies/rnp-021.json" --usd 20 --price 2 |
		cmp - <(rnp-reward burn --policy rnp-021 --usd 20 --price 2)
	# jobs that a ledger could take for one another are no jobs
	rnp-reward burn --policy rnp-021 --usd 5 --price 1 --job "$(printf 'ü%.0s' {1..120})" | jq -e '.job | length == 120'
	for job in "" "$(printf 'ü%.0s' {1..121})" $'\xff'; do
		refused 64 "--job: has to be 1 to 120 characters" rnp-reward burn --policy rnp-021 --usd 5 --price 1 --job "$job"
	done
	refused 64 "give --usd and --price" rnp-reward burn --policy rnp-021 --usd 5
	refused 64 "--grant" rnp-reward burn --policy rnp-021 --usd 5 --price 1 --grant 6
	refused 64 "says nothing of burns" rnp-reward burn --policy rnp-006 --usd 5 --price 1
}

@test "burn: when: tokens at once, cards as credit is used or after chargebacks, transfers as they arrive" {
	at() { rnp-reward burn --policy rnp-023 --usd 5 --price 1 --at 2026-03-01T10:00:00Z "$@" | jq -r .burn_at; }
	assert_equal "$(at)" 2026-03-01T10:00:00Z
	assert_equal "$(at --payment transfer)" 2026-03-01T10:00:00Z
	assert_equal "$(at --payment card)" 2026-06-29T10:00:00Z
	assert_equal "$(at --payment card --used 2026-03-05T00:00:00Z)" 2026-03-06T00:00:00Z
	assert_equal "$(at --payment card --used 2026-03-05T23:59:59Z)" 2026-03-06T00:00:00Z
	assert_equal "$(at --payment card --used 2026-12-05T00:00:00Z)" 2026-06-29T10:00:00Z
	# the day on which the last credit is used does not outlast the chargebacks
	assert_equal "$(at --payment card --used 2026-06-29T09:59:59Z)" 2026-06-29T10:00:00Z
	refused 64 "--payment card needs --at" rnp-reward burn --policy rnp-023 --usd 5 --price 1 --payment card
	refused 64 "--used goes with --payment card" rnp-reward burn --policy rnp-023 --usd 5 --price 1 --used 2026-03-05T00:00:00Z
	# top-up: at least 3% more is burned than is rewarded
	assert_equal "$(rnp-reward burn --policy rnp-023 --rewarded 100 --burned 90 | jq .burned_uusd)" 13000000
	assert_equal "$(rnp-reward burn --policy rnp-023 --rewarded 100 --burned 103 | jq .burned_uusd)" 0
	assert_equal "$(rnp-reward burn --policy rnp-023 --rewarded 100 --burned 90 --price 2 --job week-1 |
		jq -c '[.job, .burned_base_units]')" '["week-1",650000000]'
	for how in "--at 2026-03-01T10:00:00Z" "--payment card" "--grant 1"; do
		# shellcheck disable=SC2086
		refused 64 "--grant, --payment and --at go with --usd" rnp-reward burn --policy rnp-023 --rewarded 100 --burned 90 $how
	done
	misused "9223372036854 is too large" rnp-reward burn --policy rnp-023 --rewarded 9223372036854 --burned 1
}

@test "mint: the schedule to the last unit, the cap, and recycling; nothing of it depends on burns" {
	schedule=$ROOT/tests/data/man/schedule.json
	rnp-reward mint --schedule "$schedule" >out
	assert_equal "$(jq -s 'map(.minted_base_units)[:12] | add' out)" 912680400000000
	python3 - >expected <<-'PY'
		cap, rate, left = 536870912 * 10**8 // 5, 760567 * 10**8, 536870912 * 10**8 // 5
		full = rate
		for m in range(720):
		    if m and m % 12 == 0:
		        rate = rate * 945 // 1000
		    recycled = 0 if left else full * 5 // 100
		    minted = min(rate, left)
		    full = rate if left else full
		    left -= minted
		    print(m + 1, minted, recycled, cap - left)
	PY
	diff <(jq -r '"\(.month) \(.minted_base_units) \(.recycled_base_units) \(.total_minted_base_units)"' out) expected
	assert_equal "$(tail -1 out | jq -c '[.total_minted_base_units, .left_base_units]')" '["10737418240000000",0]'
	assert_equal "$(rnp-reward mint --schedule "$schedule" --month 13 | jq -c .)" "$(sed -n 13p out)"
	rnp-reward simulate --schedule "$schedule" >still
	rnp-reward simulate --schedule "$schedule" --burned 1000000 --svg supply.svg >burning
	diff <(jq -c 'del(.supply_base_units)' still) <(jq -c 'del(.supply_base_units)' burning)
	assert_equal "$(wc -l <still)" 60
	# the supply is what existed before, plus what was minted and recycled
	assert_equal "$(head -1 still | jq .supply_base_units)" '"54599771600000000"'
	python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("supply.svg")'
	# more tokens than can be counted, and a cap of nothing
	refused 65 "the supply of month 2 does not fit 64 bits" rnp-reward simulate --schedule \
		<(jq '.supply = "46000000000" | .first_month = "46000000000" | .cap = "1" | .recycling = "1"' "$schedule")
	assert_equal "$(rnp-reward mint --month 2 --schedule <(jq '.cap = "0"' "$schedule") |
		jq -c '[.minted_base_units, .recycled_base_units]')" '[0,0]'
	refused 65 "damping" rnp-reward mint --schedule <(jq '.damping = "1.5"' "$schedule")
	refused 65 "burned" rnp-reward mint --schedule <(jq '.burned = "1"' "$schedule")
	refused 66 nowhere rnp-reward mint --schedule nowhere
}

@test "reputation: Wilson's bound of weighted verdicts, as Python has it; maintenance is no trial" {
	rnp-register keygen --out judge.json >/dev/null
	rnp-register keygen --out node.json >/dev/null
	judge=$(rnp-register address --key judge.json) node=$(rnp-register address --key node.json)
	python3 - "$node" "$judge" >verdicts <<-'PY'
		import json, random, sys
		rng = random.Random(2)
		for i in range(60):
		    print(json.dumps({"kind": "rnp.verdict", "v": 1, "node": sys.argv[1], "signer": sys.argv[2],
		        "at": "2026-%02d-%02dT%02d:00:00Z" % (rng.randrange(1, 12), rng.randrange(1, 29), i % 24),
		        "passed": rng.random() < 0.8, "checks": [], "readings": {}}))
	PY
	rnp-register sign --key judge.json <verdicts >signed
	rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" signed >out
	expected=$(python3 - verdicts <<-'PY'
		import datetime, json, math, sys
		s = n = 0
		for r in map(json.loads, open(sys.argv[1])):
		    age = (datetime.datetime(2026, 12, 1) - datetime.datetime.strptime(r["at"], "%Y-%m-%dT%H:%M:%SZ")).total_seconds()
		    w = 2 ** (-age / (30 * 86400))
		    n += w
		    s += w * r["passed"]
		z = 1.96
		p = s / n
		low = (p + z * z / 2 / n - z * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)) / (1 + z * z / n)
		print(low * 1e6)
	PY
	)
	python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 2, (a, b)' \
		"$(jq .reputation_ppm out)" "$expected"
	assert_equal "$(jq .trials out)" 60
	# the same verdicts twice, in another order, give the same reputation
	{ cat signed; tac signed; } | rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" | cmp - out
	# strangers' verdicts do not count
	run_split rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$node" signed
	assert_equal "$output" ""
	# one failure, announced by the node beforehand: no trial
	jq -nc "{kind: \"rnp.verdict\", v: 1, node: \"$node\", signer: \"$judge\", at: \"2026-11-30T12:30:00Z\",
		passed: false, checks: [], readings: {}}" | rnp-register sign --key judge.json >failed
	worse=$(cat signed failed | rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" | jq .reputation_ppm)
	((worse < $(jq .reputation_ppm out)))
	jq -nc "{kind: \"rnp.heartbeat\", v: 1, node: \"$node\", at: \"2026-11-30T12:00:00Z\", interval_s: 3600,
		state: \"maintenance\"}" | rnp-register sign --key node.json >announced
	cat signed failed announced | rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" |
		jq -e --argjson r "$(jq .reputation_ppm out)" '.reputation_ppm == $r and .maintenance == 1'
	# an announcement afterwards is too late
	jq -nc "{kind: \"rnp.heartbeat\", v: 1, node: \"$node\", at: \"2026-11-30T12:31:00Z\", interval_s: 3600,
		state: \"maintenance\"}" | rnp-register sign --key node.json >late
	assert_equal "$(cat signed failed late | rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" |
		jq .reputation_ppm)" "$worse"
	# so it is when the challenge is known already: verdicts come later than challenges, and heartbeats may be dated back
	beat() { # AT INTERVAL [STATE]
		jq -nc "{kind: \"rnp.heartbeat\", v: 1, node: \"$node\", at: \"2026-11-30T$1Z\", interval_s: $2,
			state: \"${3:-maintenance}\"}" | rnp-register sign --key node.json
	}
	counts() { # FAILED BEATS: whether the failure counts
		assert_equal "$(cat signed "$1" "$2" | rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" |
			jq -c '[.trials, .maintenance]')" "$3"
	}
	jq -c 'del(.proof) | .elapsed_ns = 600000000000' failed | rnp-register sign --key judge.json >slow
	beat 12:20:00 3600 >reply
	counts failed reply '[60,1]'
	counts slow reply '[61,0]'
	beat 12:15:01 3600 >back
	counts slow back '[61,0]'
	beat 12:15:00 3600 >before
	counts slow before '[60,1]'
	# one heartbeat after the other, and one that is missing
	for m in 10 11 12 13 14 15 16 17 18 19 20; do beat "12:$m:00" 360; done >chain
	counts slow chain '[60,1]'
	counts slow <(grep -v 12:15:00 chain) '[61,0]'
	# one that has just ended is not prolonged: all but the first of these may have been dated back
	for m in 14 15 16 17 18 19 20; do beat "12:$m:59" 61; done >prolonged
	counts slow prolonged '[61,0]'
	counts slow <(cat prolonged; beat 12:14:59 302) '[60,1]'
	# an hour is over when the node says that it is back, whatever the order; a stranger's word ends nothing
	beat 12:10:00 3600 >hour
	counts slow hour '[60,1]'
	for at in 12:10:00 12:19:59 12:20:00; do
		beat "$at" 60 idle >back
		counts slow <(cat back hour) '[61,0]'
		counts slow <(cat hour back) '[61,0]'
	done
	counts slow <(cat hour; sed 's/"60"/"61"/;s/"interval_s":60/"interval_s":61/' back) '[60,1]'
	counts slow <(cat hour; beat 12:20:01 60 idle; beat 12:09:59 60 busy) '[60,1]'
	counts slow <(cat hour back; beat 12:12:00 3600) '[61,0]'
	beat 12:11:00 60 render >back
	counts slow <(cat hour back; beat 12:12:00 3600) '[60,1]'
	# a verdict on a challenge that another node passed first is void: neither passed nor failed,
	# whatever the order of the records. Its own challenge, passed twice, is not
	rnp-register keygen --out other.json >/dev/null
	other=$(rnp-register address --key other.json)
	passed() { # NODE AT CHALLENGE
		jq -nc "{kind: \"rnp.verdict\", v: 1, node: \"$1\", signer: \"$judge\", at: \"2026-11-$2Z\", passed: true,
			challenge_sha256: (\"$3\" * 64), checks: [], readings: {}}" | rnp-register sign --key judge.json
	}
	{ passed "$node" 29T12:00:00 a; passed "$other" 29T12:00:01 b; } >own
	{ passed "$other" 29T12:00:01 a; passed "$other" 29T13:00:00 b; } >anothers
	cat signed own | rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" >before
	for records in "signed own anothers" "anothers own signed"; do
		cat $records | rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" >after
		diff <(jq -c "select(.node == \"$node\")" before) <(jq -c "select(.node == \"$node\")" after)
		jq -se --arg n "$other" 'map(select(.node == $n)) == [.[] | select(.node == $n and .trials == 2 and
			.passed == 2 and .void == 1)]' after
	done
	assert_equal "$(jq -c "select(.node == \"$other\") | [.trials, .void]" before)" "[1,0]"
	# one that failed is a trial, whoever's challenge it was
	jq -c '.passed = false | del(.proof)' anothers | rnp-register sign --key judge.json >lost
	assert_equal "$(cat own lost | rnp-reward reputation --at 2026-12-01T00:00:00Z --trust "$judge" |
		jq -c "select(.node == \"$other\") | [.trials, .passed, .void]")" "[3,1,0]"
}
