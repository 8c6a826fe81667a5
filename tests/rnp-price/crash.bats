# rnp-price with hostile numbers, full disks and sudden ends: the last price stands, and nobody is
# repriced by what cannot be.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export RNP_NOW=2026-11-20T18:00:00Z
	NODE=$ROOT/tests/data/man/node.json
	echo '{"watts_load":100,"watts_idle":10,"per_kwh":"0.10 USD"}' >costs.json
}

teardown() {
	if [[ -d disk ]]; then umount disk 2>/dev/null || true; fi
}

# offers N: so many hosts, the cheapest at 400000
offers() {
	jq -nc --argjson n "$1" 'range($n) | {kind: "rnp.offer", v: 1, market: "vast", offer_id: "\(.)", host: "\(.)", gpu_model: "RTX 4090",
		gpu_count: 1, uusd_per_gpu_hour: (400000 + .), spot: false}'
}

@test "quote --state: killed at any moment, the state opens and holds a price that was told" {
	local i ask
	jq -c '.gpus = [{model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864}]' "$NODE" >n
	offers 3000 >a
	sed 's/uusd_per_gpu_hour":/&1/' a >b # 1,400,000 and up
	rnp-price quote --node n --costs costs.json --state s.db a | jq .ask_uusd >asks
	for i in {1..12}; do
		rnp-price quote --node n --costs costs.json --state s.db "$([[ $((i % 2)) == 0 ]] && echo a || echo b)" >out 2>/dev/null &
		sleep "0.0$((i * 7 % 100 + 10))"
		kill -9 $! 2>/dev/null || true
		wait $! 2>/dev/null || true
		[[ ! -s out ]] || jq .ask_uusd out >>asks
		# without an offer the last price is written again
		run_split rnp-price quote --node n --costs costs.json --state s.db /dev/null
		assert_equal "$status" 75
		ask=$(jq .ask_uusd <<<"$output")
		((ask > 350000 && ask < 1500000)) || fail "$i: $ask"
	done
	# and a whole run is possible
	run_split rnp-price quote --node n --costs costs.json --state s.db a
	assert_success
}

@test "quote --state: a clock that goes back is refused by name, and the last price stands" {
	offers 9 >a
	rnp-price quote --node "$NODE" --costs costs.json --state s.db a >first
	RNP_NOW=2026-11-20T12:00:00Z refused 65 "s.db: the clock went back: the last price is of 2026-11-20T18:00:00Z, and now is 2026-11-20T12:00:00Z" \
		rnp-price quote --node "$NODE" --costs costs.json --state s.db a
	RNP_NOW=2026-11-20T18:30:00Z run_split rnp-price quote --node "$NODE" --costs costs.json --state s.db a
	assert_success
	assert_equal "$(jq .ask_uusd <<<"$output")" "$(jq .ask_uusd first)"
}

@test "quote --state: bytes that quote never wrote are refused, and with the state put back the price stands" {
	local set where=belief
	offers 9 >a
	jq -c '.gpus = [{model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864}]' "$NODE" >n
	echo '{"kind":"rnp.lease","v":1,"begin":"2026-11-20T15:00:00Z","end":"2026-11-20T17:00:00Z"}' >leases
	set_bytes() { # OFFSET HEX: the belief with other bytes
		echo "belief = CAST(substr(belief, 1, $1) || x'$2' || substr(belief, $(($1 + ${#2} / 2 + 1))) AS BLOB)"
	}
	rnp-price quote --node n --costs costs.json --leases leases --state s.db a >first
	sqlite3 s.db 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
	# the weights come first, then the leases, 21 usual rates, the number of observations
	for set in "$(set_bytes 80 000000000000f87f)|weight" "$(set_bytes 80 000000000000f07f)|weight" "$(set_bytes 88 000000000000f0bf)|weight" \
		"$(set_bytes 0 000000000000f03f)|add up" "$(set_bytes 4200 000000000000f07f)|leases" "$(set_bytes 4208 0000000000000000)|leases" \
		"$(set_bytes 4216 000000000000f0bf)|usual rate" "$(set_bytes 4384 ffffffffffffffff)|observations" \
		"belief = zeroblob(4392)|leases" "at_ms = -9223372036854775807|time" "at_ms = 9223372036854775807|time" \
		"copies = -1|rival" "price = -1|rival" "ratio = 9e999|rival" "copies = 2, ratio = 0|rival" "ask_uusd = -4|price" "ask_uusd = 9223372036854775807|price" "at_ms = -9223372036854775807|price"; do
		cp s.db bad.db
		case $set in *"|price") where=price ;; *"|rival") where=follower ;; *) where=demand ;; esac
		sqlite3 bad.db "UPDATE $where SET ${set%|*}"
		assert_equal "$(sqlite3 bad.db 'SELECT length(belief) FROM demand')" 4392
		refused 65 "bad.db: the state is damaged: " rnp-price quote --node n --costs costs.json --leases leases --state bad.db a
		[[ $stderr == *"${set##*|}"* ]] || fail "$set: $stderr"
	done
	run_split rnp-price quote --node n --costs costs.json --leases leases --state s.db a
	assert_success
	assert_equal "$(jq .ask_uusd <<<"$output")" "$(jq .ask_uusd first)"
}

@test "quote --state on a full disk: the error is told, and the last price stands" {
	mkdir disk
	mount -t tmpfs -o size=300k none disk || skip "cannot mount a tmpfs"
	offers 300 >a
	run_split rnp-price quote --node "$NODE" --costs costs.json --state disk/s.db a
	assert_success
	before=$output
	dd if=/dev/zero of=disk/fill bs=1k count=1000 2>/dev/null || true
	offers 3000 | sed 's/"host":"/&new/' >b
	run_split rnp-price quote --node "$NODE" --costs costs.json --state disk/s.db b
	assert_equal "$status" 74
	assert_equal "$output" ""
	assert_equal "$(wc -l <<<"$stderr")" 1
	rm disk/fill
	run_split rnp-price quote --node "$NODE" --costs costs.json --state disk/s.db /dev/null
	assert_equal "$status" 75
	assert_equal "$(jq .ask_uusd <<<"$output")" "$(jq .ask_uusd <<<"$before")"
	# output that cannot be written is told too
	for cmd in "feed -m vast $ROOT/tests/data/price/vast-made-up.json" "quote --node $NODE --costs costs.json a" \
		"estimate --node $NODE --costs costs.json a"; do
		run bash -c "rnp-price $cmd >/dev/full 2>err"
		assert_equal "$status $cmd" "74 $cmd"
	done
}

@test "feed --state on a full disk keeps the last good feed" {
	mkdir disk
	mount -t tmpfs -o size=100k none disk || skip "cannot mount a tmpfs"
	cp "$ROOT/tests/data/price/vast-made-up.json" v.json
	rnp-price feed -m vast --state disk/s.json v.json >first 2>/dev/null
	jq -c '.offers[0] as $o | .offers = [range(400) | $o + {id: .}]' v.json >many.json
	dd if=/dev/zero of=disk/fill bs=1k count=1000 2>/dev/null || true
	run_split rnp-price feed -m vast --max-move 1000 --state disk/s.json many.json
	assert_equal "$status" 74
	rm disk/fill
	assert_equal "$(ls disk)" s.json
	echo broken >v.json
	run_split rnp-price feed -m vast --max-age 1000d --state disk/s.json v.json
	assert_equal "$status" 75
	assert_equal "$output" "$(<first)"
}

@test "every reader refuses numbers that cannot be, by name" {
	local n
	for n in -1 1e300 1e18 -0.0000001 '"NaN"' '"1"' true '[1]' '{}' 99999999999999999999999; do
		echo "{\"offers\":[{\"id\":1,\"gpu_name\":\"L4\",\"num_gpus\":1,\"dph_base\":$n}]}" >vast.json
		refused 65 "offers[0].dph_base" rnp-price feed -m vast vast.json
		echo "{\"items\":[{\"cloudId\":\"a\",\"gpuType\":\"L4\",\"gpuCount\":1,\"prices\":{\"onDemand\":$n}}]}" >prime.json
		refused 65 "items[0].onDemand" rnp-price feed -m prime prime.json
		echo "{\"data\":{\"gpuTypes\":[{\"id\":\"L4\",\"securePrice\":$n}]}}" >runpod.json
		refused 65 "gpuTypes[0].securePrice" rnp-price feed -m runpod runpod.json
		echo "[{\"name\":\"L4\",\"usd_reward_per_hour\":$n}]" >nosana.json
		refused 65 "[0].usd_reward_per_hour" rnp-price feed -m nosana nosana.json
		echo "{\"models\":[{\"model\":\"l4\",\"price\":{\"med\":$n}}]}" >akash.json
		refused 65 "models[0].med" rnp-price feed -m akash akash.json
	done
	for n in -1 1e300 nan inf 0x10 1e18 ' '; do
		echo "{\"items\":[{\"id\":\"a\",\"name\":\"L4\",\"prices\":[{\"priority\":\"high\",\"price\":\"$n\"}]}]}" >salad.json
		refused 65 "items[0].prices[0].price" rnp-price feed -m salad salad.json
		printf 'InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,GpuInfo\na,L4,1,%s,,US,\n' "$n" >c.csv
		refused 65 "c.csv:2: Price" rnp-price feed -m skypilot c.csv
	done
	for n in 0 -1 1.5 1e18 9223372036854775808 '"x"' true; do
		offers 1 | jq -c . | sed "s/:400000,/:$n,/" >o
		refused 65 "uusd_per_gpu_hour" rnp-price quote --node "$NODE" --costs costs.json o
		refused 65 "uusd_per_gpu_hour" rnp-price estimate --node "$NODE" --costs costs.json o
		refused 65 "uusd_per_gpu_hour" rnp-price fit o
	done
	printf '{"offers":[{"id":1,"gpu_name":"L4","num_gpus":1,"dph_base":NaN}]}' >nan.json
	refused 65 nan.json rnp-price feed -m vast nan.json
}

@test "two hundred thousand models of one offer each are read in seconds" {
	python3 -c '
import json
for i in range(200000): print(json.dumps({"kind": "rnp.offer", "v": 1, "market": "m%d" % (i % 300), "offer_id": str(i), "gpu_model": "made up %d" % i, "gpu_count": 1, "uusd_per_gpu_hour": 1 + i, "spot": False}, separators=(",", ":")))' >o
	offers 5 >>o
	run_split timeout 60 rnp-price quote --node "$NODE" --costs costs.json o
	assert_success
	run_split timeout 60 rnp-price estimate --node "$NODE" --costs costs.json o
	assert_success
	assert_equal "$(jq -s length <<<"$output")" 1
}

# price_loop DIRECTORY: one turn, as cron has it: $status, $stderr
price_loop() {
	run_split env RNP_NODE_FILE="$NODE" RNP_COSTS="$PWD/costs.json" RNP_MARKETS="$PWD/markets.json" RNP_PRICE_STATE="$1" "$ROOT/scripts/price-loop"
}

@test "price-loop: two at once, no place to write, a market that is away, a disk that takes less than a turn: the price stands" {
	jq -n --arg f "$PWD/offers" '{kind: "rnp.markets", v: 1, markets: [{market: "vast", file: $f}]}' >markets.json
	cp "$ROOT/tests/data/man/costs.json" .
	cp "$ROOT/tests/data/man/vast.json" offers
	mkdir state
	price_loop "$PWD/state"
	assert_equal "$status" 0
	jq -e '.ask_uusd > 0' state/quote.json
	cp -r state before
	# another turn is at work
	exec 9>>state/lock
	flock 9
	price_loop "$PWD/state"
	exec 9>&-
	assert_equal "$status $stderr" "75 price-loop: another turn is at work"
	# a file system without locks is no other turn
	mkdir bin
	printf '#!/bin/sh\necho "flock: 9: No locks available" >&2\nexit 71\n' >bin/flock
	chmod +x bin/flock
	PATH=$PWD/bin:$PATH price_loop "$PWD/state"
	assert_equal "$status $stderr" "69 price-loop: cannot lock '$PWD/state/lock': its file system keeps no locks: flock: 9: No locks available; name another place in RNP_PRICE_STATE"
	: >none
	price_loop "$PWD/none"
	assert_equal "$status $stderr" "73 price-loop: '$PWD/none' takes no files: run it as root, or name another place in RNP_PRICE_STATE"
	# a limit that the offers do not fit, but fewer of them would
	[ "$(wc -c <state/offers.jsonl)" -gt 2048 ]
	run_split bash -c 'trap "" XFSZ; ulimit -f 2; RNP_NODE=$1 RNP_COSTS=$PWD/costs.json RNP_MARKETS=$PWD/markets.json \
		RNP_PRICE_STATE=$PWD/state "$2"' - "$NODE" "$ROOT/scripts/price-loop"
	assert_equal "$status" 74
	[[ ${stderr_lines[-1]} == "rnp-price: "*"cannot write to standard output: File too large" ]] || fail "$stderr"
	cmp before/offers.jsonl state/offers.jsonl
	cmp before/quote.json state/quote.json
	# the market is away: the last price is written again
	cp markets.json there
	sed -i 's|"file": ".*"|"url": "http://127.0.0.1:1/"|' markets.json
	price_loop "$PWD/state"
	assert_equal "$status" 69
	assert_equal "$(jq .ask_uusd state/quote.json)" "$(jq .ask_uusd before/quote.json)"
	mv there markets.json
	mkdir -p disk
	mount -t tmpfs -o size=64k tmpfs disk 2>/dev/null || return 0
	cp before/* disk/
	head -c 100000 /dev/zero >disk/full 2>/dev/null || true
	price_loop "$PWD/disk"
	assert_equal "$status" 74
	cmp before/quote.json disk/quote.json
	mount -o remount,ro disk
	price_loop "$PWD/disk"
	assert_equal "$status $stderr" "73 price-loop: '$PWD/disk' takes no files: run it as root, or name another place in RNP_PRICE_STATE"
}
