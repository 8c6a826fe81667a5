# rnp-price feed: every peculiarity of the markets, every way in which a feed can be bad.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	PRICE=$ROOT/tests/data/price
	export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache RNP_NOW=2026-11-20T18:00:00Z
}

teardown() {
	if [[ -n ${server-} ]]; then
		kill "$server"
		wait "$server" || true
	fi
}

# writes a catalogue with these rows
catalog() {
	echo InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,GpuInfo
	printf '%s\n' "$@"
}

# vast_feed TIME PRICE...: one RTX 4090 offer per price
vast_feed() {
	local time=$1 id=0 sep='' price
	shift
	printf '{"timestamp":"%s","offers":[' "$time"
	for price; do
		id=$((id + 1))
		printf '%s{"id":%d,"gpu_name":"RTX 4090","num_gpus":1,"gpu_ram":24564,"dph_base":%s}' "$sep" $id "$price"
		sep=,
	done
	echo ']}'
}

feed_server() {
	mkdir -p www
	python3 "$ROOT/tests/fake/feed_server.py" www port 3>&- &
	server=$!
	wait_file port
	URL=http://127.0.0.1:$(<port)/feed
}

@test "feed: the made-up SkyPilot catalogue, per GPU, spot apart" {
	run_split rnp-price feed --market skypilot "$PRICE/skypilot-made-up.csv"
	assert_success
	assert_equal "$stderr" ""
	assert_equal "${#lines[@]}" 13
	assert_equal "$(jq -s 'map(select(.spot)) | length' <<<"$output")" 4
	# 1.70 for four, 17.20 for eight
	assert_equal "$(jq -c 'select(.offer_id | startswith("4x-")) | [.gpu_count, .uusd_per_gpu_hour, .spot]' <<<"$output")" \
		"[4,425000,false]
[4,225000,true]"
	assert_equal "$(jq -c 'select(.gpu_model == "H100 SXM" and (.spot | not)) | .uusd_per_gpu_hour' <<<"$output")" 2150000
	# distinctions that AcceleratorName loses are restored: 4060 Ti, 16 GB, NVL, a 4090 with
	# 48 GB
	assert_equal "$(jq -r .gpu_model <<<"$output" | sort -u | tr '\n' ,)" \
		"H100 NVL,H100 SXM,RTX 3090,RTX 4060 Ti 16GB,RTX 4090,RTX 4090 48GB,"
	assert_equal "$(jq -r 'select(.region == ", FI, EU") | .country' <<<"$output" | sort -u)" FI
}

@test "feed: the made-up Vast list: Mbit/s, all GPUs, no storage, ids that repeat" {
	run_split rnp-price feed --market vast "$PRICE/vast-made-up.json"
	assert_success
	[[ $stderr == *"offers[5]: the same offer again, left out"* ]]
	assert_equal "$(jq -s length <<<"$output")" 9
	assert_equal "$(jq -c 'select(.offer_id == "1002")|[.gpu_count,.uusd_per_gpu_hour,.cpu_cores,.down_bps,.reliability_ppm,.at]' <<<"$output")" \
		'[4,383333,63,2400000000,990000,"2026-11-20T12:00:00.500Z"]'
	assert_equal "$(jq -c 'select(.offer_id == "1004" and .spot == false)|[.rentable,.rented]' <<<"$output")" '[false,true]'
	run_split rnp-price feed --market vast --own 13 --own 1001 "$PRICE/vast-made-up.json"
	assert_equal "$(jq -r 'select(.own) | .offer_id' <<<"$output" | sort -u | tr '\n' ,)" 1001,1003,
}

@test "feed: every offer keeps its schema" {
	rnp-price --schema rnp.offer | jq -e '.title == "rnp.offer"'
	run_split rnp-price feed --market vast "$PRICE/vast-made-up.json"
	jq -es 'all(.[]; .kind == "rnp.offer" and .v == 1 and (.uusd_per_gpu_hour | . == floor) and .uusd_per_gpu_hour > 0)' <<<"$output"
}

@test "feed: an unknown model is passed on under its own name, with a warning" {
	echo '{"offers":{"id":1,"gpu_name":"Imaginary RTX 9999","num_gpus":4,"gpu_ram":24576,"dph_base":0.4}}' >one.json
	run_split rnp-price feed --market vast one.json
	assert_success
	[[ $stderr == *"one.json: offers: GPU model 'Imaginary RTX 9999' with 24576 MiB is not in our table"* ]]
	assert_equal "$(jq -r '.gpu_model + "/" + .gpu_name' <<<"$output")" "Imaginary RTX 9999/Imaginary RTX 9999"
	# a name in our table, with a memory size that no such card has
	echo '{"offers":{"id":1,"gpu_name":"RTX 4090","num_gpus":1,"gpu_ram":16384,"dph_base":0.4}}' >one.json
	run_split rnp-price feed --market vast one.json
	[[ $stderr == *"'RTX 4090' with 16384 MiB is not in our table"* ]]
}

@test "feed: rows that are no offers are left out, each kind with its warning" {
	catalog cpu,,0.0,0.1,,US, free,L4,1,0.00,0.00,US, half,L4,1.5,1,,US, ok,L4,1,0.5,,US, >c.csv
	run_split rnp-price feed --market skypilot c.csv
	assert_success
	assert_equal "$(jq -r .offer_id <<<"$output")" ok@US
	assert_equal "$(wc -l <<<"$stderr")" 3
	[[ $stderr == *"c.csv:2: a machine without a GPU"*"c.csv:3: a row without a price"*"c.csv:4: 1.5 GPUs"* ]]
}

@test "feed: malformed values are refused with file, place and reason, and nothing is written" {
	local row
	catalog a,L4,1,0.5,,US, b,L4,1,abc,,US, >c.csv
	refused 65 "c.csv:3: Price: 'abc' is not a decimal" rnp-price feed -m skypilot c.csv
	assert_equal "$output" ""
	for row in "b,L4,1,-1,,US,|Price: -1 is less than 0" "b,L4,x,1,,US,|AcceleratorCount: 'x'" \
		"b,L4,1,1,nan,US,|SpotPrice: 'nan'" "b,,1,1,,US,|AcceleratorName is empty" \
		"b,L4,1,1,,US|the row has 6 fields, the first has 7" 'b,L4,1,1,,"US,|the quotes are not closed' \
		"b,L4,1,1,,US,{'Gpus': [|GpuInfo:" 'b,L4,1,1,,"U"S,|text behind the closing quote' \
		$'b,L4,1,1,,\xff,|not UTF-8' "b,L4,1,1e30,,US,|Price: 1e30 is too large"; do
		catalog a,L4,1,0.5,,US, "${row%|*}" >c.csv
		refused 65 "${row##*|}" rnp-price feed -m skypilot c.csv
		[[ $stderr == *"c.csv:3"* ]]
		assert_equal "$output" ""
	done
	echo 'a,b,c' >c.csv
	refused 65 "c.csv:1: no column 'InstanceType'" rnp-price feed -m skypilot c.csv
}

@test "feed: malformed JSON, too" {
	local item
	for item in '{}|offers[0].id: not there' '{"id":1,"num_gpus":1.5}|offers[0].num_gpus' \
		'{"id":1,"gpu_name":"L4","num_gpus":1,"dph_base":"1"}|offers[0].dph_base: not a number' \
		'{"id":1,"gpu_name":"L4","num_gpus":1,"dph_base":-1}|offers[0].dph_base: -1 is less than 0' \
		'{"id":1,"gpu_name":"L4","num_gpus":1,"inet_up":-5}|offers[0].inet_up' \
		'{"id":1,"gpu_name":"L4","num_gpus":1,"reliability2":7}|offers[0].reliability2' \
		'{"id":1,"id":2}|duplicate' 'NaN|v.json'; do
		printf '{"offers":[%s]}' "${item%|*}" >v.json
		refused 65 "${item##*|}" rnp-price feed -m vast v.json
		assert_equal "$output" ""
	done
	head -c 900 "$PRICE/vast-made-up.json" >v.json
	refused 65 v.json rnp-price feed -m vast v.json
	echo '{"data":[]}' >v.json
	refused 65 "not a list of Vast's offers" rnp-price feed -m vast v.json
}

@test "feed: an empty feed is refused" {
	: >c.csv
	refused 65 "the feed is empty" rnp-price feed -m skypilot c.csv
	catalog | head -1 >c.csv
	refused 65 "no offers in the feed" rnp-price feed -m skypilot c.csv
	refused 65 "no offers in the feed" rnp-price feed -m vast - <<<'{"offers":[]}'
	refused 66 missing.csv rnp-price feed -m skypilot missing.csv
	run_split rnp-price feed -m nasdaq c.csv
	assert_equal "$status" 64
	run_split rnp-price feed c.csv
	assert_equal "$status" 64
	[[ $stderr == *"--market"* ]]
}

@test "feed: --max-age goes by the feed's own time, then by the file's" {
	vast_feed 2026-11-20T12:00:00Z 0.4 >v.json
	run_split rnp-price feed -m vast --max-age 7h v.json
	assert_success
	refused 75 "stale: the feed is of 2026-11-20T12:00:00Z, 21600 s old, and 18000 s are allowed" \
		rnp-price feed -m vast --max-age 5h v.json
	assert_equal "$output" ""
	vast_feed 2026-11-21T12:00:00Z 0.4 >v.json
	refused 65 "in the future" rnp-price feed -m vast --max-age 5h v.json
	catalog a,L4,1,0.5,,US, >c.csv
	touch -d 2026-11-20T17:00:00Z c.csv
	run_split rnp-price feed -m skypilot --max-age 2h c.csv
	assert_success
	assert_equal "$(jq -r .at <<<"$output")" 2026-11-20T17:00:00Z
	refused 75 stale rnp-price feed -m skypilot --max-age 30m c.csv
}

@test "feed: an outlier is refused and the last good prices stand" {
	vast_feed 2026-11-20T17:00:00Z 0.40 0.42 0.44 >good.json
	vast_feed 2026-11-20T17:30:00Z 0.04 0.042 0.044 >broken.json
	run_split rnp-price feed -m vast --state s.json good.json
	assert_success
	cp s.json before
	run_split rnp-price feed -m vast --state s.json broken.json
	assert_equal "$status" 75
	[[ $stderr == *"an outlier: the median of RTX 4090 is 42000 uusd, usually 420000"*"the last good prices, of 2026-11-20T17:00:00Z, stand" ]]
	assert_equal "$(wc -l <<<"$stderr")" 1
	assert_equal "$(jq -c .uusd_per_gpu_hour <<<"$output" | tr '\n' ,)" 400000,420000,440000,
	cmp s.json before # a refused feed leaves no trace
	# the same for a feed that is malformed, empty or too short
	for bad in '{' '{"offers":[]}' ''; do
		printf '%s' "$bad" >bad.json
		run_split rnp-price feed -m vast --state s.json bad.json
		assert_equal "$status" 75
		assert_equal "$(wc -l <<<"$output")" 3
	done
	# a change within the factor is accepted
	run_split rnp-price feed -m vast --state s.json --max-move 11 broken.json
	assert_success
	assert_equal "$(jq -c .uusd_per_gpu_hour <<<"$output" | head -1)" 40000
}

@test "feed: a level that outlasts the last good feed is the new one" {
	vast_feed 2026-11-19T12:00:00Z 0.40 0.42 0.44 >good.json
	vast_feed 2026-11-20T17:30:00Z 0.04 0.042 0.044 >new.json
	RNP_NOW=2026-11-19T12:30:00Z rnp-price feed -m vast --state s.json good.json >/dev/null
	run_split rnp-price feed -m vast --state s.json new.json
	assert_success
	assert_equal "$(jq -c .uusd_per_gpu_hour <<<"$output" | head -1)" 40000
	# and if the feed fails after that, there is no older one to fall back on
	export RNP_NOW=2026-11-25T00:00:00Z
	echo '{"offers":[]}' >empty.json
	refused 65 "no offers in the feed" rnp-price feed -m vast --state s.json empty.json
	assert_equal "$output" ""
}

@test "feed: the state of another market or a broken one is refused" {
	vast_feed 2026-11-20T17:00:00Z 0.4 >v.json
	rnp-price feed -m vast --state s.json v.json >/dev/null
	catalog a,L4,1,0.5,,US, >c.csv
	refused 65 "the state of market 'vast', not of 'skypilot'" rnp-price feed -m skypilot --state s.json c.csv
	echo '{"market":' >s.json
	refused 65 s.json rnp-price feed -m vast --state s.json v.json
}

@test "feed: a URL is cached with its ETag, and a server that fails changes nothing" {
	feed_server
	vast_feed 2026-11-20T17:00:00Z 0.40 0.42 0.44 >www/feed
	run_split rnp-price feed -m vast "$URL"
	assert_success
	first=$output
	run_split rnp-price feed -m vast "$URL"
	assert_success
	assert_equal "$output" "$first"
	assert_equal "$(tr '\n' , <www/log)" 200,304,
	compgen -G "cache/rnp/feed-vast-*.json"
	echo garbage >www/mode
	run_split rnp-price feed -m vast "$URL"
	assert_equal "$status" 75
	assert_equal "$output" "$first"
	echo error >www/mode
	run_split rnp-price feed -m vast "$URL"
	assert_equal "$status" 75
	assert_equal "$output" "$first"
	[[ $stderr == *"the last good prices, of 2026-11-20T17:00:00Z, stand" ]]
}

@test "feed: Last-Modified is the age of a feed without a time of its own" {
	feed_server
	catalog a,L4,1,0.5,,US, >www/feed
	echo "Fri, 20 Nov 2026 15:00:00 GMT" >www/modified
	run_split rnp-price feed -m skypilot --max-age 4h "$URL"
	assert_success
	assert_equal "$(jq -r .at <<<"$output")" 2026-11-20T15:00:00Z
	# an unchanged feed does not become newer
	RNP_NOW=2026-11-20T20:00:00Z run_split rnp-price feed -m skypilot --max-age 4h "$URL"
	assert_equal "$status" 75
	[[ $stderr == *"stale: the feed is of 2026-11-20T15:00:00Z"* ]]
	assert_equal "$output" ""
	assert_equal "$(tail -1 www/log)" 304
	# an invalid date is ignored: the feed counts as new
	echo "yesterday" >www/modified
	rm -r cache
	run_split rnp-price feed -m skypilot --max-age 4h "$URL"
	assert_equal "$(jq -r .at <<<"$output")" 2026-11-20T18:00:00Z
}

@test "feed: an unreachable URL without a cache is 69" {
	refused 69 "" timeout 60 rnp-price feed -m vast http://127.0.0.1:1/feed
	assert_equal "$output" ""
}

@test "feed: prices of the real catalogues, cross-checked by another reader" {
	local file n=0
	data prices/v8_vast_vms__01b8cdda.csv >/dev/null || skip_data
	for file in "$(data prices)"/v[0-9]_*.csv; do
		rnp-price feed -m skypilot "$file" >offers 2>warnings
		python3 "$ROOT/tests/fake/check_skypilot.py" "$file" offers warnings || fail "$file"
		n=$((n + 1))
	done
	((n >= 4))
}

@test "feed: the real Vast offers: nothing lost, prices as jq has them" {
	local file
	file=$(data prices/vast_500farm_offers_2025-07-26.json) || skip_data
	run_split rnp-price feed -m vast "$file"
	assert_success
	assert_equal "$(jq -c '[.offer_id, .uusd_per_gpu_hour, .down_bps]' <<<"$output" | sort -u)" \
		"$(jq -c '.offers[] | [(.id | tostring), (.dph_base * 1e6 / .num_gpus + 0.5 | floor), (.inet_down * 1e6 | round)]' "$file" | sort -u)"
	[[ $stderr == *"says that it has 18909 offers, it holds 2"* ]]
	refused 75 stale rnp-price feed -m vast --max-age 1d "$file"
	file=$(data prices/vast_docs_search_offers_example.json)
	run_split rnp-price feed -m vast "$file"
	assert_success
	assert_equal "$(jq -c '[.uusd_per_gpu_hour, .spot]' <<<"$output" | tr '\n' ,)" "[30864,false],[27778,true],"
}

@test "feed: standard input is called that in every message" {
	for feed in '{"offers":[]}' '{}' ''; do
		run_split rnp-price feed --market vast <<<"$feed"
		assert_equal "$status" 65
		[[ $stderr == "rnp-price: standard input: "* ]]
	done
}

@test "feed: typed alone on a terminal it asks the market's own address, or says that there is none; it waits for no typing" {
	cd "$BATS_TEST_TMPDIR"
	# a proxy that is not there: nothing leaves this machine
	export https_proxy=http://127.0.0.1:1 NO_COLOR=1
	local market
	for market in akash prime runpod vast; do
		on_terminal 200 "rnp-price feed --market $market; echo \"ended \$?\"" >screen
		grep -qE "asks https://[a-z.-]*$market" screen || grep -q 'asks https://api.primeintellect.ai' screen || fail "$(<screen)"
		grep -q 'ended 69' screen || fail "$(<screen)"
		# the address is that of the example that people begin with
		grep -qF "$(sed -n 's/.*asks \([^ ]*\).*/\1/p' screen | tr -d '\r')" <(rnp-price feed --example) || fail "$(<screen)"
	done
	for market in nosana rnp salad skypilot; do
		on_terminal 200 "rnp-price feed --market $market; echo \"ended \$?\"" >screen
		grep -q "market $market has no one address: name a URL or a file" screen || fail "$(<screen)"
		grep -q 'ended 64' screen || fail "$(<screen)"
	done
	# who wants to type it is told what waits
	on_terminal 200 'rnp-price feed --market vast -' 'reads what you type here' 1 >screen
	# a pipe is read, as ever
	rnp-price feed --market vast <"$ROOT/tests/data/man/vast.json" | head -n 1 | grep -q '"market":"vast"'
}

@test "feed: what the markets' own command lines write, with a byte order mark too; UTF-16 is named" {
	# vastai search offers --raw: the array alone
	vast_feed 2026-11-20T18:00:00Z 0.40 0.50 >api
	jq -c .offers api >raw
	assert_equal "$(rnp-price feed -m vast raw | jq -c .uusd_per_gpu_hour | xargs)" "400000 500000"
	# prime availability list --output json
	cat >cli <<-'END'
		{"gpu_resources":[{"id":"a1b2c3","cloud_id":"H100","gpu_type":"H100 80GB (Spot)","gpu_count":2,"socket":"SXM5","provider":"runpod",
		 "location":"US","stock_status":"Low","price_per_hour":"$4.00","price_value":4.0,"security":"datacenter","vcpus":"8-16","memory_gb":"125",
		 "disk_gb":"120+","gpu_memory":80,"is_spot":true},
		 {"id":"a1b2c4","cloud_id":"x","gpu_type":"A100 80GB","gpu_count":1,"socket":"N/A","provider":"N/A","location":"N/A","stock_status":"Available",
		 "price_value":1,"security":"community","vcpus":"8","memory_gb":"64","gpu_memory":80,"is_spot":false}],"total_count":2,"filters":{"gpu_type":null}}
	END
	assert_equal "$(rnp-price feed -m prime cli | jq -c '[.gpu_model, .gpu_count, .uusd_per_gpu_hour, .spot, .cpu_cores, .country, .host, .secure]')" \
		'["H100 SXM",2,2000000,true,8,"US","runpod",true]
["A100 80GB",1,1000000,false,8,null,null,false]'
	local m f
	for f in vast:raw vast:api prime:cli skypilot:csv; do
		m=${f%:*} f=${f#*:}
		[[ $f != csv ]] || cp "$PRICE/skypilot-made-up.csv" csv
		touch -d 2026-11-20T18:00:00Z "$f"
		rnp-price feed -q -m "$m" "$f" | jq -c 'del(.at)' >plain
		{ printf '\xef\xbb\xbf'; cat "$f"; } >marked
		rnp-price feed -q -m "$m" marked | jq -c 'del(.at)' | cmp - plain
		iconv -t UTF-16 "$f" >wide
		refused 65 "UTF-16 or UTF-32: save it as UTF-8" rnp-price feed -m "$m" wide
		iconv -t UTF-16LE "$f" >wide
		refused 65 "UTF-16 or UTF-32" rnp-price feed -m "$m" wide
	done
	# Google's catalogue has GPUs without a machine, whose price is that of the chip alone
	printf '%s\n' InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,GpuInfo \
		,A100,1.0,,,2.93,0.88,us-central1,A100 g2-standard-4,L4,1.0,4,16,0.70,0.28,us-central1,L4 >gcp
	run_split rnp-price feed -m skypilot gcp
	assert_success
	assert_equal "$(jq -r .gpu_model <<<"$output" | sort -u)" L4
	[[ $stderr == *"gcp:2: a GPU that is sold without its machine (Google), left out"* ]]
}

@test "feed: a hostile list takes memory in proportion to its bytes, and time, too" {
	python3 - <<-'END'
		open("deep", "w").write('{"items":[' + "[]," * 2000000 + "[]]}")
		open("wide", "w").write('{"items":[{"cloudId":[' + "{}," * 300000 + "{}]}]}")
		open("long", "w").write('{"items":[' + ",".join('{"cloudId":"c%d","gpuType":"T%d","gpuCount":1,"prices":{"onDemand":1}}' % (i, i)
		    for i in range(50000)) + "]}")
	END
	local f
	for f in deep wide long; do
		# twice its bytes or eight times, beside what the program itself takes
		run_split bash -c "ulimit -v \$((200000 + 8 * $(stat -c %s $f) / 1024)); timeout 60 rnp-price feed -m prime $f"
		[[ $f == long ]] && assert_success || assert_equal "$status" 65
		assert [ "$(wc -l <<<"$stderr")" -lt 30 ]
	done
}
