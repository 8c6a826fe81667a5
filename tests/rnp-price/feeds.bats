# rnp-price feed over HTTP: markets that page, throttle, truncate, lie and redirect; all of them
# at once; a registry's quotes.
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache
	mkdir -p www
}

teardown() {
	if [[ -n ${market-} ]]; then
		kill "$market"
		wait "$market" || true
	fi
	stop_registry
}

market_server() {
	python3 "$ROOT/tests/fake/market_server.py" www market.port 3>&- &
	market=$!
	wait_port market.port "$market"
	MARKET=http://127.0.0.1:$(<market.port)
}

# how NAME WORD...: how the server serves www/NAME
how() {
	printf '%s\n' "${@:2}" >"www/$1.how"
}

# prime_rows N: a list of Prime with so many rows
prime_rows() {
	jq -nc --argjson n "$1" '{totalCount: $n, items: [range($n) | {cloudId: "c\(.)", gpuType: "L4_24GB", socket: "PCIe",
		provider: "p\(.)", gpuCount: 1, gpuMemory: 24, prices: {onDemand: (0.5 + . / 1000), currency: "USD"}}]}'
}

@test "feed: a list in pages is read to the end, and one that lies about its rows is refused" {
	market_server
	prime_rows 250 >www/prime
	how prime pages
	run_split rnp-price feed -m prime "$MARKET/prime"
	assert_success
	assert_equal "$(jq -s 'map(.offer_id) | unique | length' <<<"$output")" 250
	assert_equal "$(grep -c page= www/log)" 3
	rm -r cache
	how prime pages count:251
	refused 65 "it says that there are 251 rows and holds 250" rnp-price feed -m prime "$MARKET/prime"
	assert_equal "$output" ""
	how prime pages count:120
	refused 65 "it says that there are 120 rows and holds 200" rnp-price feed -m prime "$MARKET/prime"
	how prime pages same-page
	refused 65 "page 2 is page 1 again" rnp-price feed -m prime "$MARKET/prime"
	how prime pages grow
	refused 75 "the list changed from 251 to 252 rows while it was read" rnp-price feed -m prime "$MARKET/prime"
	# a row that is on two pages counts once
	jq -c '.items[100] = .items[0]' www/prime >www/twice
	how twice pages
	run_split rnp-price feed -m prime "$MARKET/twice"
	assert_success
	assert_equal "$(wc -l <<<"$output")" 249
	[[ $stderr == *"the same offer again"* ]]
}

@test "feed: a market that has had enough is asked again when it says; cut answers are refused" {
	market_server
	cp "$ROOT/tests/data/price/vast-made-up.json" www/vast
	how vast throttle:2:1 gzip
	run_split rnp-price feed -m vast "$MARKET/vast"
	assert_success
	assert_equal "$(wc -l <<<"$output")" 9
	assert_equal "$(cut -d' ' -f1 www/log | tr '\n' ,)" 429,429,200,
	rm -r cache
	how vast throttle:99:3600
	refused 75 "too many" rnp-price feed -m vast "$MARKET/vast"
	how vast slow-close
	refused 65 "it ends in the middle" rnp-price feed -m vast "$MARKET/vast"
	how vast truncate
	run_split timeout 60 rnp-price feed -m vast "$MARKET/vast"
	assert_equal "$output" ""
	[[ $stderr == *"broke off in the middle"* ]]
	[[ ! -e cache/rnp/feed-vast-*.json ]]
}

@test "feed: a market that changes its unit is refused, and the last good prices stand" {
	market_server
	jq -nc '{offers: [range(5) | {id: ., gpu_name: "RTX 4090", num_gpus: 1, gpu_ram: 24564, dph_base: (0.4 + . / 100)}]}' >www/vast
	rnp-price feed -m vast "$MARKET/vast" >first
	jq -c '.offers[].dph_base *= 100' www/vast >cents
	mv cents www/vast
	run_split rnp-price feed -m vast "$MARKET/vast"
	assert_equal "$status" 75
	[[ $stderr == *"an outlier: the median of RTX 4090 is 42000000 uusd, usually 420000"* ]]
	diff <(jq -c 'del(.at)' first) <(jq -c 'del(.at)' <<<"$output")
}

# body MARKET FACTOR: five models in a market's own shape, one price each
body() {
	local row='[["RTX4090",0.4],["RTX3090",0.2],["L4",0.3],["A6000",0.5],["H100",2]] | map({m: .[0], p: (.[1] * $f)})'
	case $1 in
	vast) row+=' | {offers: [.[] | {id: .m, gpu_name: .m, num_gpus: 1, gpu_ram: 24564, dph_base: .p}]}' ;;
	prime) row+=' | {totalCount: 5, items: [.[] | {cloudId: .m, gpuType: .m, provider: "p", gpuCount: 1, gpuMemory: 24, prices: {onDemand: .p, currency: "USD"}}]}' ;;
	runpod) row+=' | {data: {gpuTypes: [.[] | {id: .m, displayName: .m, memoryInGb: 24, securePrice: .p, communityPrice: null, lowestPrice: null}]}}' ;;
	salad) row+=' | {items: [.[] | {id: .m, name: .m, prices: [{priority: "high", price: (.p | tostring)}]}]}' ;;
	nosana) row+=' | [.[] | {name: .m, usd_reward_per_hour: .p, gpu_types: [.m], lowest_vram: 24}]' ;;
	akash) row+=' | {models: [.[] | {vendor: "nvidia", model: (.m | ascii_downcase), ram: "24Gi", interface: "PCIe",
		availability: {total: 2, available: 1}, price: {currency: "USD", min: .p, max: .p, avg: .p, weightedAverage: .p, med: .p}}]}' ;;
	skypilot) row+=' | "InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region,GpuInfo", (.[] | "\(.m),\(.m),1,\(.p),,US,")' ;;
	esac
	jq -nr --argjson f "$2" "$row"
}

@test "feed: every market that changes its unit, breaks off, throttles or leads home keeps its last good prices" {
	local m fault
	market_server
	for m in vast prime runpod salad nosana akash skypilot; do
		body $m 1 >"www/$m"
		run_split rnp-price feed -m $m "$MARKET/$m"
		assert_equal "$m $status $(wc -l <<<"$output")" "$m 0 5"
		jq -c 'del(.at)' <<<"$output" >"$m.first"
		for fault in unit slow-close throttle:99:3600 redirect:http://10.0.0.1/; do
			[[ $m$fault != skypilotslow-close ]] || continue # half of a table is one
			how $m $fault
			body $m "$([[ $fault == unit ]] && echo 100 || echo 1)" >"www/$m"
			run_split timeout 60 rnp-price feed -m $m "$MARKET/$m"
			assert_equal "$m $fault $status" "$m $fault 75"
			jq -c 'del(.at)' <<<"$output" | diff "$m.first" - || fail "$m $fault"
			[[ $fault != unit || $stderr == *"an outlier: the median of all models is "* ]] || fail "$m: $stderr"
		done
	done
}

@test "feed: keys are read from private files, sent to the market alone, and never in the clear" {
	market_server
	cp "$ROOT/tests/data/price/vast-made-up.json" www/vast
	how vast key:s3cret
	echo s3cret >key
	chmod 644 key
	refused 77 "'key' can be read or written by others" rnp-price feed -m vast --key-file key "$MARKET/vast"
	chmod 600 key
	run_split rnp-price feed -m vast --key-file key "$MARKET/vast"
	assert_success
	rm -r cache
	echo wrong >key
	refused 77 "no such key" rnp-price feed -m vast --key-file key "$MARKET/vast"
	refused 77 "a key is not sent in the clear" rnp-price feed -m vast --key-file key http://192.0.2.1/vast
	printf 'two\nlines\n' >key
	refused 65 "not one line of printable characters" rnp-price feed -m vast --key-file key "$MARKET/vast"
	echo s3cret >key
	how moved "redirect:$MARKET/vast"
	run_split rnp-price feed -m vast --key-file key "$MARKET/moved"
	assert_equal "$status" 65
	tail -1 www/log >last
	run ! grep -q 'GET /vast .*wrong' last
	assert_equal "$(tail -1 www/log)" "307 GET /moved Bearer s3cret"
	# nothing of the key is in what it leaves behind
	! grep -r s3cret cache
}

@test "feed: a redirect is followed on the same server, and never to a neighbour" {
	market_server
	cp "$ROOT/tests/data/price/vast-made-up.json" www/vast
	how moved "redirect:$MARKET/vast"
	run_split rnp-price feed -m vast "$MARKET/moved"
	assert_success
	assert_equal "$(wc -l <<<"$output")" 9
	rm -r cache
	for to in http://127.0.0.2:1/ http://10.0.0.1/ http://192.168.1.1/vast http://169.254.169.254/latest/meta-data/ "http://[::1]:1/" "http://[fd00::1]/" "http://[::ffff:10.0.0.1]/"; do
		how moved "redirect:$to"
		run_split timeout 120 rnp-price feed -m vast "$MARKET/moved"
		assert_equal "$status" 65
		[[ $stderr == *"redirects to the private address"* ]] || fail "$to: $stderr"
		assert_equal "$output" ""
	done
}

@test "feed: RunPod is asked in GraphQL" {
	market_server
	echo '{"data":{"gpuTypes":[{"id":"NVIDIA L4","memoryInGb":24,"securePrice":0.43,"communityPrice":null}]}}' >www/runpod
	how runpod bad:GET
	run_split rnp-price feed -m runpod "$MARKET/runpod"
	assert_success
	assert_equal "$(jq -c '[.gpu_model, .uusd_per_gpu_hour]' <<<"$output")" '["L4",430000]'
}

@test "akash: the median of what providers bid, the socket's number left out" {
	cat >akash.json <<-'END'
		{"availability":{"total":12,"available":3},"models":[
		 {"vendor":"nvidia","model":"h100","ram":"80Gi","interface":"SXM5","availability":{"total":8,"available":3},
		  "price":{"currency":"USD","min":0.000001,"max":3.5,"avg":2.1,"weightedAverage":2.0,"med":1.875}},
		 {"vendor":"nvidia","model":"rtx4090","ram":"24Gi","interface":"PCIe","availability":{"total":4,"available":0},
		  "price":{"currency":"USD","min":0.3,"max":0.5,"avg":0.4,"weightedAverage":0.4,"med":0.4}},
		 {"vendor":"nvidia","model":"t4","ram":"16Gi","interface":"PCIe","availability":{"total":1,"available":1},"price":null}]}
	END
	run_split rnp-price feed -m akash akash.json
	assert_success
	assert_equal "$(jq -c '[.gpu_model, .uusd_per_gpu_hour, .rentable]' <<<"$output")" \
		'["H100 SXM",1875000,true]
["RTX 4090",400000,false]'
	[[ $stderr == *"models[2]: a model without a price, left out"* ]]
	sed 's/"USD","min":0.3/"EUR","min":0.3/' akash.json >bad.json
	refused 65 "models[1].price.currency: not USD" rnp-price feed -m akash bad.json
	sed 's/24Gi/24GB/' akash.json >bad.json
	refused 65 "models[1].ram: not a memory such as 80Gi" rnp-price feed -m akash bad.json
	sed 's/0.4}}/-1}}/' akash.json >bad.json
	refused 65 "-1 is less than 0" rnp-price feed -m akash bad.json
	refused 65 models rnp-price feed -m akash - <<<'{}'
}

@test "feed --market all: a market that fails is named, the others count" {
	market_server
	cp "$ROOT/tests/data/price/vast-made-up.json" www/vast
	prime_rows 3 >www/prime
	how prime pages
	cat >markets.json <<-END
		{"markets":[{"market":"vast","url":"$MARKET/vast","own":["13"]},{"market":"prime","url":"$MARKET/prime"},
		 {"market":"salad","url":"$MARKET/gone"},{"market":"skypilot","name":"lambda","file":"$ROOT/tests/data/price/skypilot-made-up.csv"}]}
	END
	run_split rnp-price feed -m all --config markets.json
	assert_equal "$status" 75
	assert_equal "$(jq -r .market <<<"$output" | sort | uniq -c | awk '{ print $2, $1 }' | tr '\n' ,)" "lambda 13,prime 3,vast 9,"
	assert_equal "$(grep -c '^rnp-price: salad: .*nothing here' <<<"$stderr")" 1
	assert_equal "$(jq -s 'map(select(.own)) | length' <<<"$output")" 2
	# its last good prices stand when one fails later
	echo '{' >www/prime
	rm www/prime.how
	run_split rnp-price feed -m all --config markets.json
	assert_equal "$status" 75
	assert_equal "$(jq -r 'select(.market == "prime") | .offer_id' <<<"$output" | wc -l)" 3
	[[ $stderr == *"rnp-price: prime: "*"the last good prices, of "*" stand"* ]]
	# with all of them down there is nothing
	echo '{"markets":[{"market":"salad","url":"http://127.0.0.1:1/"}]}' >down.json
	run_split timeout 60 rnp-price feed -m all --config down.json
	assert_equal "$status" 69
	assert_equal "$output" ""
	rnp-price feed --example >example.json
	rnp-price --schema rnp.markets >schema.json
	python3 -c 'import json, jsonschema
jsonschema.validate(json.load(open("example.json")), json.load(open("schema.json")))'
}

@test "feed --config: what is wrong is named" {
	local c
	for c in '{"markets":[{"market":"vast","url":"http://x/","keyfile":"k"}]}|markets[0]: there is no '\''keyfile'\''' \
		'{"markets":[{"market":"nasdaq","url":"http://x/"}]}|markets[0]: market: '\''nasdaq'\'' is none of' \
		'{"markets":[{"market":"vast"}]}|either url or file' '{"markets":[{"market":"vast","url":"ftp://x/"}]}|neither http nor https' \
		'{"markets":[{"market":"vast","file":"a","max_age":"soon"}]}|max_age' '{"markets":[]}|not 1 to 64' '{"markets":7}|markets' \
		'{"markets":[{"market":"vast","file":"a"},{"market":"vast","file":"b"}]}|another market is called '\''vast'\''' \
		'{"markets":[{"market":"vast","file":"a","state":"s"},{"market":"vast","name":"b","file":"b","state":"s"}]}|markets[1]: state: '\''s'\'' is another market' \
		'{"markets":[{"market":"vast","file":"a","key_file":"k"}]}|markets[0]: key_file is for a url' \
		'{"markets":[{"market":"vast","file":"a","name":"a-name-of-more-than-thirty-two-bytes"}]}|name has 1 to 32 bytes' \
		'{"markets":[{"market":"vast","file":"a","own":[1]}]}|own[0]: not a text' '{"market":[]}|there is no '\''market'\''' \
		'{"kind":"rnp.costs","v":1,"markets":[]}|rnp.markets'; do
		echo "${c%%|*}" >c.json
		refused 65 "${c##*|}" rnp-price feed -m all --config c.json
	done
	refused 66 missing.json rnp-price feed -m all --config missing.json
	for c in "-m all" "-m vast --config c.json" "-m all --config c.json --name x" "-m vast --key-file k v.json" ""; do
		run_split rnp-price feed $c
		assert_equal "$status" 64
	done
}

@test "feed: a Vast list arrives in any pieces, and its envelope is held to JSON" {
	local bad
	cp "$ROOT/tests/data/price/vast-made-up.json" v.json
	rnp-price feed -m vast v.json >whole 2>/dev/null
	(while IFS= read -r -n 7 piece; do printf '%s' "$piece"; done < <(jq -c . v.json)) | rnp-price feed -m vast 2>/dev/null >pieces
	diff <(jq -c 'del(.at)' whole) <(jq -c 'del(.at)' pieces)
	for bad in '{"offers":[{}],}' '{"offers":[{"id":1},]}' '{"offers":[]' '{"offers":[]}}' '{"offers":[]} x' '[]' '{"offers":[1]}' \
		'{"offers":[],"offers":[]}' '{"offers" []}' '{offers:[]}' '{"offers":null}' '{"offers":[{"id":1]}}' '{"a":{"offers":[]}}' '"offers"' \
		'{"timestamp":1,"offers":[]}' '{"offers":[{"id":1,"x":01,"num_gpus":0}]}' '{"offers":[{"id":1,"x":"\u0000","num_gpus":0}]}' \
		'{"offers":[{"id":1,"x":tru,"num_gpus":0}]}' '{"offers":[{"id":1,"x":[1,],"num_gpus":0}]}' '{"offers":[{"id":1,"x":1e999,"num_gpus":0}]}'; do
		run_split rnp-price feed -m vast <<<"$bad"
		assert_equal "$status/$bad" "65/$bad"
		assert_equal "$output" ""
	done
	# one offer of two megabytes
	(printf '{"offers":[{"id":1,"x":"'; head -c 2000000 /dev/zero | tr '\0' a; printf '"}]}') >big.json
	refused 65 "a value of more than 1048576 bytes" rnp-price feed -m vast big.json
}

@test "rnp: a signed quote is in the registry's list, in feed --market rnp and in match" {
	start_registry
	for k in ann bob cid; do
		make_key $k
	done
	node_record ann '{name: "ann", gpus: [range(2) | {model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864}], labels: {country: "DE"}, network: {down_bps: 900000000, up_bps: 800000000}}' >n
	rnp-register submit --registry "$url" n >/dev/null
	heartbeat_record ann >b
	rnp-register submit --registry "$url" b >/dev/null
	rnp-price quote --node n --costs "$ROOT/tests/data/man/costs.json" "$ROOT/tests/data/man/offers.jsonl" --floor-if-empty >quote.json 2>/dev/null
	rnp-register sign --key ann.json <quote.json | rnp-register submit --registry "$url" >/dev/null
	ask=$(jq .customer_uusd quote.json)
	assert_equal "$(rnp-register list --registry "$url" --quotes | jq -rs 'map(.kind) | join(",")')" rnp.node,rnp.quote
	[[ $(rnp-register list --registry "$url" --table) == *"\$$(jq -r '.customer_uusd / 1e6' quote.json)"* ]]
	run_split rnp-price feed -m rnp "$url"
	assert_success
	assert_equal "$(jq -c '[.market, .offer_id, .gpu_model, .gpu_count, .rentable, .country, .down_bps]' <<<"$output")" \
		"[\"rnp\",\"$ann\",\"RTX 4090\",2,true,\"DE\",900000000]"
	assert_equal "$(jq .uusd_per_gpu_hour <<<"$output")" $(((ask + 1) / 2))
	echo "$output" >offers
	echo '{"kind":"rnp.job","v":1,"job":"j1","gpu_model":"RTX 4090","gpu_count":2}' >job
	assert_equal "$(rnp-price match job offers | jq -r '.nodes[0].node')" "rnp/$ann"
	rnp-register list --registry "$url" --quotes >nodes
	assert_equal "$(rnp-price match job nodes | jq -c '[.nodes[0].node, (.uusd_per_hour - '$ask' | . >= 0 and . < 2)]')" "[\"$ann\",true]"
	# a later quote replaces it
	signed ann '{kind: "rnp.quote", ask_uusd: 95, customer_uusd: 100, floor_uusd: 1, why: [], spec: {gpu_count: 2}}' | rnp-register submit --registry "$url" >/dev/null
	assert_equal "$(rnp-price feed -m rnp "$url" | jq .uusd_per_gpu_hour)" 50
}

@test "rnp: a registry that lies about quotes, and nodes that sell what they have not" {
	for k in ann bob; do
		make_key $k
	done
	market_server
	node_record ann '{gpus: [{model: "L4"}]}' >n1
	node_record bob '{gpus: [{model: "L4"}, {model: "L4"}]}' >n2
	signed ann '{kind: "rnp.quote", ask_uusd: 380000, customer_uusd: 400000, floor_uusd: 1, why: []}' >q1
	signed bob '{kind: "rnp.quote", ask_uusd: 380000, customer_uusd: 400000, floor_uusd: 1, why: [], spec: {gpu_count: 4}}' >q2
	list() {
		jq -nc --slurpfile n1 n1 --slurpfile n2 n2 --slurpfile q1 q1 --slurpfile q2 q2 --arg ann "$ann" --arg bob "$bob" "{nodes: [$1]}" >www/v1_nodes
	}
	good='{node: $ann, online: true, state: "idle", record: $n1[0], quote: $q1[0]}'
	rows=("$good" "{node: \$bob, record: \$n2[0], quote: \$q1[0]}|a node whose record or quote it has not signed"
		"$good | .quote.customer_uusd = 1|a node whose record or quote it has not signed"
		"$good | .record.gpus += [{model: \"L4\"}]|a node whose record or quote it has not signed"
		'{node: $bob, online: true, record: $n2[0], quote: $q2[0]}|a quote for other GPUs than the node'
		'{node: $bob, online: true, record: $n2[0]}|a node without a quote'
		"$good | .quote = 7|malformed" "$good | .record = []|not a node with its record" "7|not a node with its record")
	list "$good"
	how v1_nodes cursor
	assert_equal "$(rnp-price feed -m rnp "$MARKET" | jq -c '[.offer_id, .uusd_per_gpu_hour, .rentable]')" "[\"$ann\",400000,true]"
	for row in "${rows[@]:1}"; do
		list "$good, (${row%|*})"
		rm -rf cache
		run_split rnp-price feed -m rnp "$MARKET"
		assert_success
		assert_equal "$(wc -l <<<"$output")" 1
		[[ $stderr == *"${row##*|}"* ]] || fail "$row: $stderr"
	done
	list "$good, (7, 7, 7, 7)"
	run_split rnp-price feed -m rnp "$MARKET"
	assert_success
	how v1_nodes cursor same-page
	refused_by_page() { [[ $stderr == *"page 2"* ]]; }
	rm -rf cache
	run_split rnp-price feed -m rnp "$MARKET"
	assert_equal "$status" 65
	refused_by_page
}
