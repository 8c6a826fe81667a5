# The registry: what it accepts, stores and answers, and how it handles everything else.
load ../helper
load registry

# a server with a leak or a sanitizer error does not end with 0
teardown() {
	stop_fake
	stopped_with=0
	stop_registry
	! mountpoint -q "$BATS_TEST_TMPDIR/disk" || umount "$BATS_TEST_TMPDIR/disk"
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

@test "registry: a node registers, beats, is listed, counted and up" {
	start_registry
	make_key a
	node_record a '{name: "one", gpus: [{vendor: "NVIDIA", model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864}],
		labels: {country: "SE"}, network: {down_bps: 4000000000, up_bps: 4500000000, ping_us: 9000}}' >n.json
	run_split rnp-register submit --registry "$url" n.json
	assert_success
	assert_equal "$(jq -c '[.kind, .of, .node, .new]' <<<"$output")" "[\"rnp.stored\",\"rnp.node\",\"$a\",true]"

	# the same content changes nothing, even when it was signed again
	run_split rnp-register submit --registry "$url" n.json
	assert_equal "$(jq .new <<<"$output")" false
	jq -c 'del(.proof)' n.json | rnp-register sign --key a.json >again.json
	run_split rnp-register submit --registry "$url" again.json
	assert_equal "$(jq .new <<<"$output")" false

	run_split rnp-register heartbeat --registry "$url" --once --key a.json --state busy --interval 30s
	assert_success
	assert_equal "$(jq -c '[.kind, .node, .interval_s, .state]' <<<"$output")" "[\"rnp.heartbeat\",\"$a\",30,\"busy\"]"

	# for people: the state, when it was last heard of, its GPU, within 80 columns
	COLUMNS=80 run_split rnp-register list --registry "$url" --table
	grep -qE '^name +state +last seen +verdict +GPU +node$' <<<"${lines[0]}" || fail "$output"
	[[ ${lines[1]} == *busy*" s "*"none yet"*"RTX 4090"*"${a:0:5}"*"${a: -4}" ]] || fail "$output"
	assert_equal "${#lines[@]}" 2
	assert [ "$(wc -L <<<"$output")" -le 80 ]

	# records come out as they went in: the signature is still valid
	rnp-register list --registry "$url" | tee listed.json | rnp-register verify
	assert_equal "$(jq -cS . listed.json)" "$(jq -cS . n.json)"

	get "/v1/nodes/$a"
	assert_equal "$(jq -c '[.node, .state, .online, .pool.tier, .pool.model, (.history | length)]' answer.json)" \
		"[\"$a\",\"busy\",true,\"high\",\"RTX 4090\",1]"
	get /v1/pools
	assert_equal "$(jq -c '.pools[0] | [.tier, .nodes, .gpus, .countries[0].country, .countries[0].devices[0].device,
		.countries[0].devices[0].makers[0].maker, .countries[0].devices[0].makers[0].models[0]]' answer.json)" \
		'["high",1,1,"SE","GPU","NVIDIA",{"model":"RTX 4090","nodes":1,"gpus":1}]'
	get "/v1/records?kind=rnp.heartbeat&node=$a"
	jq -c '.records[]' answer.json | rnp-register verify
	# of a maintenance the first five minutes count for nothing, so that each announces five more
	for promise in "30s 330" "59m 3600" "1h 3600"; do
		run_split rnp-register heartbeat --registry "$url" --once --key a.json --state maintenance \
			--interval "${promise% *}"
		assert_equal "$(jq -c '[.interval_s, .state]' <<<"$output")" "[${promise#* },\"maintenance\"]"
	done
}

@test "registry: an older at never replaces a newer one, and neither can be replayed" {
	start_registry
	make_key a
	for ago in 20 10 15; do
		node_record a "{name: \"$ago\", at: (now - $ago | todate)}" >"n$ago.json"
	done
	post /v1/nodes n20.json
	assert_equal "$status_code" 201
	post /v1/nodes n10.json
	assert_equal "$status_code" 200
	post /v1/nodes n15.json
	error_is 409 "as new or newer is here already"
	assert_equal "$(jq -r .known_at answer.json)" "$(jq -r .at n10.json)"
	post /v1/nodes n20.json
	error_is 409 "as new or newer is here already"
	get "/v1/nodes/$a"
	assert_equal "$(jq -c '[.record.name, .history[].name]' answer.json)" '["10","10","20"]'

	for ago in 20 10 15; do
		heartbeat_record a "{at: (now - $ago | todate)}" >"h$ago.json"
	done
	post /v1/heartbeats h20.json
	assert_equal "$status_code" 200
	post /v1/heartbeats h10.json
	post /v1/heartbeats h15.json
	error_is 409 "as new or newer is here already"
	post /v1/heartbeats h10.json
	error_is 409 "as new or newer is here already"
}

@test "registry: five minutes of clock skew, no more, either way" {
	start_registry
	make_key a
	node_record a >n.json
	post /v1/nodes n.json
	for seconds in 290 -290; do
		make_key k
		node_record k "{at: (now + $seconds | todate)}" >k.rec
		post /v1/nodes k.rec
		assert_equal "$status_code" 201
		rm k.json
	done
	for seconds in 310 -310; do
		node_record a "{at: (now + $seconds | todate)}" >late.json
		post /v1/nodes late.json
		[[ $status_code == 4?? ]]
		heartbeat_record a "{at: (now + $seconds | todate)}" >late.json
		post /v1/heartbeats late.json
		error_is 422 "more than 5 minutes from our clock"
		make_key k
		node_record k "{at: (now + $seconds | todate)}" >k.rec
		post /v1/nodes k.rec
		error_is 422 "more than 5 minutes from our clock"
		rm k.json
	done
	# a record that is already stored may be sent again at any time
	stop_registry
	RNP_NOW=$(date -u -d '+1 hour' +%FT%TZ) start_registry
	post /v1/nodes n.json
	assert_equal "$status_code" 200
}

@test "registry: only the right party may say what it says" {
	start_registry --trust 11111111111111111111111111111112
	stop_registry
	make_key a; make_key b; make_key judge
	start_registry --trust "$judge"
	node_record a >n.json
	post /v1/nodes n.json

	# signed by a key that is not the node's
	jq -nc --arg n "$a" '{kind: "rnp.node", v: 1, node: $n, at: (now | todate)}' | rnp-register sign --key b.json >x.json
	post /v1/nodes x.json
	error_is 403 "is signed by $b, not by the node itself"
	# changed after it was signed, not signed, null proof, empty proof set
	jq -c '.name = "other"' n.json >x.json
	post /v1/nodes x.json
	assert_equal "$status_code" 401
	for change in 'del(.proof)' '.proof = null' '.proof = []' '.proof = {}'; do
		jq -c "$change" n.json >x.json
		post /v1/nodes x.json
		[[ $status_code == 40[01] ]] || fail "$change: $status_code"
	done
	jq -nc --arg n "$b" '{kind: "rnp.heartbeat", v: 1, node: $n, at: (now | todate), interval_s: 9, state: "idle"}' |
		rnp-register sign --key b.json >x.json
	post /v1/heartbeats x.json
	error_is 404 "is not registered here"

	receipt='{kind: "rnp.receipt", job: "j", from: "2026-01-01T00:00:00Z", to: "2026-01-01T01:00:00Z", gpu_seconds: 3600}'
	signed a "$receipt" >x.json
	post /v1/records x.json
	error_is 403 "not by a verifier or coordinator that is trusted here"
	jq -c 'del(.proof)' x.json | rnp-register sign --key judge.json >r.json
	post /v1/records r.json
	assert_equal "$status_code" 201
	post /v1/records r.json
	assert_equal "$(jq .new answer.json)" false
	# the named signer has not signed it; work that is not yet done; time that runs
	# backwards
	receipt_with() {
		jq -c "del(.proof) | $1" x.json | rnp-register sign --key judge.json >y.json
		post /v1/records y.json
	}
	receipt_with ".signer = \"$b\""; error_is 403 "signer: has not signed"
	receipt_with ".signer = \"$judge\""; assert_equal "$status_code" 201
	receipt_with '.to = (now + 3600 | todate)'; error_is 422 "to: a receipt is for work that is done"
	receipt_with '.to = .from'; error_is 400 "'to' is not after 'from'"
	bench='{kind: "rnp.bench", suite: "cpu", test: "t", unit: "ns", median: 1, low: 1, high: 1, samples: 1}'
	signed a "$bench" >x.json
	post /v1/records x.json
	assert_equal "$status_code" 201
	jq -c 'del(.proof) | .median = 2' x.json | rnp-register sign --key b.json >y.json
	post /v1/records y.json
	error_is 403 "not by the node itself or a verifier"
	post /v1/records n.json
	error_is 400 "kind 'rnp.node' are not taken here"
	get "/v1/records?kind=rnp.receipt&node=$a"
	assert_equal "$(jq '.records | length' answer.json)" 2
}

@test "registry: malformed bodies are refused with their path and reason" {
	start_registry
	make_key a
	try() { # try STATUS TEXT FILE
		post /v1/nodes "$3"
		error_is "$1" "$2"
	}
	printf '' >x; try 400 "body: not JSON" x
	node_record a >n.json
	head -c 100 n.json >x; try 400 "body: not JSON" x
	printf '[1]' >x; try 400 "not a JSON object" x
	printf '{"kind":"rnp.node","kind":"rnp.node"}' >x; try 400 "duplicate" x
	printf '{"kind":"rnp.node","v":1,"name":"\xff"}' >x; try 400 "body: not JSON" x
	printf '{"kind":"rnp.node","v":1,"name":"\x00"}' >x; try 400 "NUL" x
	{ printf '%0.s[' {1..40}; printf '%0.s]' {1..40}; } >x; try 400 "deeper than 24" x
	node_record a '{v: 2}' >x; try 400 "version 2" x
	node_record a '{gpus: [{model: "x", memory_bytes: -1}]}' >x; try 400 "gpus[0].memory_bytes: -1 is less than 1" x
	node_record a '{memory_bytes: 1e300}' >x || true
	printf '{"kind":"rnp.node","v":1,"at":"2026-01-01T00:00:00Z","memory_bytes":1e300}' >x; try 400 "memory_bytes" x
	printf '{"kind":"rnp.node","v":1,"at":"2026-01-01T00:00:00Z","memory_bytes":NaN}' >x; try 400 "not JSON" x
	printf '{"kind":"rnp.node","v":1,"at":"yesterday"}' >x; try 400 "at: " x
	printf '{"kind":"rnp.node","v":1,"at":"2026-01-01T00:00:00Z"}' >x; try 400 "node" x
	head -c 300000 /dev/zero | tr '\0' ' ' >x; try 413 "larger than 32768 bytes" x
	status_code=$(curl -s -o answer.json -w '%{http_code}' -H 'Transfer-Encoding: chunked' --data-binary @x "$url/v1/nodes")
	error_is 413 "larger than 32768 bytes"
	printf '{"kind":"rnp.heartbeat","v":1,"node":"%s","at":"2026-01-01T00:00:00Z","interval_s":999999,"state":"idle"}' "$a" >x
	post /v1/heartbeats x
	error_is 400 "interval_s: 999999 is more than 3600"
	# and the registry is unchanged
	get /v1/nodes
	assert_equal "$(cat answer.json)" '{"nodes":[]}'
}

@test "registry: paths, methods and queries that do not exist" {
	start_registry
	get /v2/nodes; error_is 404 "nothing at this path"
	get /v1/nodes/; error_is 404 "nothing at this path"
	get /v1/nodes/x/y; error_is 404 "nothing at this path"
	for base in "$url/v1" "$url/v1/"; do
		refused 1 "'$url/v1' refused: there is nothing at this path (give the URL without /v1)" rnp-register list --registry "$base"
	done
	refused 69 "no secure connection to 'https://${url#http://}': what answers there speaks no TLS (if it speaks plain http: $url)" \
		rnp-register list --registry "https://${url#http://}"
	get /v1/nodes/xyz; error_is 400 "address"
	get /v1/nodes/11111111111111111111111111111112; error_is 404 "not registered here"
	get /v1/nodes -X DELETE; error_is 405 "does not know that method"
	[[ $(curl -sI -X DELETE "$url/v1/nodes") == *"Allow: GET, HEAD, POST"* ]]
	get '/v1/nodes?limit=0'; error_is 400 "limit"
	get '/v1/nodes?limit=1001'; error_is 400 "limit"
	get '/v1/nodes?cursor=abc'; error_is 400 "cursor"
	get '/v1/nodes?tier=best'; error_is 400 "tier"
	get '/v1/nodes?min_memory=-1'; error_is 400 "min_memory"
	get '/v1/nodes?a=%00'; error_is 400 "malformed"
	get '/v1/nodes?a=%zz'; error_is 400 "malformed"
	get '/v1/nodes?a=%ff'; error_is 400 "malformed"
	# a misspelt filter must not list everything
	get '/v1/nodes?gpu_modell=x'; error_is 400 "gpu_modell: this path has no such query field"
	get '/v1/nodes?limit=5&limit=7'; error_is 400 "limit: is given twice"
	get '/v1/nodes?device=tpu'; error_is 400 "device: 'tpu' is neither gpu nor cpu"
	get '/v1/pools?country=SE'; error_is 400 "country: this path has no such query field"
	get '/v1/records?node=xyz'; error_is 400 "node: 'xyz' is not"
	get '/v1/records?kind=rnp.heartbeat&signer=11111111111111111111111111111112'; error_is 400 "signer: "
	get '/v1/uptime?node=xyz'; error_is 400 "node: 'xyz' is not"
	get '/v1/uptime'; error_is 400 "from and to are needed"
	get '/v1/uptime?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z'; error_is 400 "from is before to"
	status_code=$(curl -s -o answer.json -w '%{http_code}' -H "X: $(head -c 60000 /dev/zero | tr '\0' x)" "$url/health")
	assert_equal "$status_code" 431
	get /health
	assert_equal "$(cat answer.json)" '{"status":"ok"}'
	# the log must not count an incomplete body as a success, nor a malformed one
	for body in '5\r\nab' 'zz\r\n'; do
		printf "POST /v1/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n$body" >x
		python3 -c 'import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); s.sendall(open("x", "rb").read())
s.shutdown(socket.SHUT_WR)
while s.recv(99): pass' "$(cat port)"
	done
	stop_registry
	assert_equal "$(jq -c 'select(.path == "/v1/nodes" and .method == "POST").status' requests.log | xargs)" "499 400"
}

@test "registry: filters, pages and entity tags" {
	start_registry
	for i in 1 2 3 4 5; do
		make_key k
		node_record k "{name: \"n$i\", gpus: [{vendor: \"NVIDIA\", model: (if $i < 4 then \"NVIDIA L4\" else \"NVIDIA GeForce RTX 4090\" end),
			memory_bytes: (if $i < 4 then 24152899584 else 25757220864 end)}], labels: {country: (if $i % 2 == 0 then \"US\" else \"DE\" end)},
			network: {down_bps: ($i * 1000000000), up_bps: 9000000000, ping_us: 1}}" >>all.json
		rm k.json
	done
	make_key c
	node_record c '{name: "n6", gpus: [], cpu: {model: "AMD EPYC 7313"}, labels: {country: "DE"}}' >>all.json
	# a display card in the first slot changes nothing
	make_key k
	node_record k '{name: "n7", gpus: ([{model: "NVIDIA T400 4GB", memory_bytes: 4294967296}] + [range(2) | {model: "NVIDIA L40", memory_bytes: 48305799168}]),
		labels: {country: "FR"}}' >>all.json
	rnp-register submit --registry "$url" all.json >/dev/null
	names() { rnp-register list --registry "$url" "$@" | jq -r .name | xargs; }
	assert_equal "$(names)" "n1 n2 n3 n4 n5 n6 n7"
	assert_equal "$(names --gpu-model L40) $(names --gpu-model L40 --min-gpus 2) $(names --min-memory 48GB)" "n7 n7 n7"
	assert_equal "$(names --min-gpus 3)" ""
	rnp-register list --registry "$url" --table --gpu-model L40 | grep -q "2 L40, 1 T400 4GB"
	assert_equal "$(names --gpu-model L4)" "n1 n2 n3"
	assert_equal "$(names --gpu-model 'GeForce RTX 4090')" "n4 n5"
	assert_equal "$(names --country de)" "n1 n3 n5 n6"
	assert_equal "$(names --gpu-model l4 --country us)" "n2"
	# marketing sizes: the drivers of L4 and RTX 4090, both sold as 24 GB, report 22.5 and
	# 23.99 GiB
	assert_equal "$(names --min-memory 24GiB)" "n1 n2 n3 n4 n5 n7"
	assert_equal "$(names --min-memory 25GiB)" "n4 n5 n7"
	assert_equal "$(names --min-memory 50GiB)" ""
	assert_equal "$(names --tier med)" "n1 n2"
	assert_equal "$(names --tier High)" "n4 n5"
	assert_equal "$(names --tier unknown)" "n6 n7"
	assert_equal "$(names --device cpu)" "n6"
	assert_equal "$(names --maker nvidia --limit 2)" "n1 n2"
	assert_equal "$(names --online)" ""
	refused 65 "tier: 'best' is not a tier" rnp-register list --registry "$url" --tier best
	# pages of two
	cursor=0 seen=
	for i in 1 2 3 4; do
		get "/v1/nodes?limit=2&cursor=$cursor"
		seen+=$(jq -r '.nodes[].record.name' answer.json | xargs),
		cursor=$(jq -r '.next // "end"' answer.json)
	done
	assert_equal "$seen $cursor" "n1 n2,n3 n4,n5 n6,n7, end"
	# entity tags
	for path in /v1/nodes /v1/pools "/v1/nodes/$c" /openapi.json; do
		etag=$(curl -sD - -o /dev/null "$url$path" | tr -d '\r' | sed -n 's/^ETag: //p')
		get "$path" -H "If-None-Match: \"x\", W/$etag"
		assert_equal "$path $status_code $(cat answer.json)" "$path 304 "
	done
	etag=$(curl -sD - -o /dev/null "$url/v1/pools" | tr -d '\r' | sed -n 's/^ETag: //p')
	make_key d
	node_record d >d.rec
	post /v1/nodes d.rec
	get /v1/pools -H "If-None-Match: $etag"
	assert_equal "$status_code" 200
	assert_equal "$(jq '[.pools[].nodes] | add' answer.json)" 8
}

@test "registry: uptime by hand-computed heartbeats" {
	export RNP_NOW=2026-05-01T12:00:00Z
	start_registry
	make_key a
	signed a '{kind: "rnp.node", at: "2026-05-01T11:58:00Z"}' >n.json
	post /v1/nodes n.json
	assert_equal "$status_code" 201
	for t in 11:56:00 11:56:40 11:57:21 11:58:01; do
		heartbeat_record a "{at: \"2026-05-01T${t}Z\", interval_s: 20}" >h.json
		post /v1/heartbeats h.json
		assert_equal "$status_code" 200
	done
	up() {
		get "/v1/uptime?from=2026-05-01T$1Z&to=2026-05-01T$2Z"
		jq -c '.uptime[0].up_ms' answer.json
	}
	# they all arrived at noon, so what they claim about earlier times does not count
	assert_equal "$(up 11:55:00 12:00:00)" 0
	# had they arrived at the times they claim, each would cover the 20 s that it announced
	sqlite3 registry.db 'PRAGMA busy_timeout = 5000; UPDATE heartbeats SET received_ms = at_ms' >/dev/null
	assert_equal "$(up 11:55:00 12:00:00)" 80000
	assert_equal "$(up 11:56:00 11:56:40)" 20000
	assert_equal "$(up 11:56:10 11:57:00)" 30000
	assert_equal "$(up 11:57:00 11:57:31)" 10000
	assert_equal "$(up 11:58:01 11:59:00)" 20000
	assert_equal "$(up 11:00:00 11:56:00)" 0
}

@test "registry: the OpenAPI document names every route, and every route is in it" {
	start_registry
	get /openapi.json
	assert_equal "$(jq -r .openapi answer.json)" 3.1.0
	jq -r '.paths | to_entries[] | .key as $p | .value | keys[] | ascii_upcase + " " + $p' answer.json | sort >documented
	get /metrics
	# as promtool check metrics has it: base units, a help text for each
	! grep -nE '^# TYPE [a-z_]*_(bits?|ms|milliseconds|us|minutes|hours|days|kb|mb|gb|percent)(_total)? ' answer.json || fail "no base unit"
	assert_equal "$(sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' answer.json | sort)" "$(sed -n 's/^# HELP \([^ ]*\) .*/\1/p' answer.json | sort)"
	! command -v promtool || promtool check metrics <answer.json
	grep -o 'rnp_http_request_seconds_count{method="[A-Z]*",route="[^"]*"' answer.json |
		grep -v 'route="other"' | sed 's/.*method="\(.*\)",route="\(.*\)"/\1 \2/' | sort >served
	run diff documented served
	assert_success
	get /openapi.json
	# references resolve, operations have their own names, parameters of a path are declared
	run jq -e '. as $d | ([.. | ."$ref"? // empty | ltrimstr("#/") | split("/") as $p | $d | getpath($p) != null] | all)
		and ([.paths[][].operationId] | length == (unique | length))
		and ([.paths | to_entries[] | select(.key | contains("{")) | .value[].parameters | any(.in == "path" and .required)] | all)
		and ([.paths[][] | .responses | length > 0 and (to_entries | all(.value.description != ""))] | all)' answer.json
	assert_success
}

@test "registry: what is acknowledged survives kill -9" {
	make -s -C "$ROOT" build/benches/registry_load
	TMPDIR=$BATS_TEST_TMPDIR run "$ROOT/build/benches/registry_load" --kill 5
	assert_success
	[[ $output == *"5 kills, "*" records acknowledged, 0 lost"* ]]
}

@test "registry: SIGTERM ends it gracefully, and the next start finds all" {
	start_registry
	make_key a
	node_record a >n.json
	post /v1/nodes n.json
	rnp-register heartbeat --registry "$url" --interval 1s --key a.json >beats.json 2>beats.err 3>&- &
	beater=$!
	have_come() { (($(wc -l <beats.json) >= 2)); }
	wait_until 'two heartbeats' have_come
	stop_registry
	assert_equal "$stopped_with" 0
	[[ ! -e registry.db-wal ]]
	wait_until 'one that reaches nobody' test -s beats.err
	kill "$beater"
	ended "$beater"
	beats=$(wc -l <beats.json)
	((beats >= 2))
	start_registry
	get "/v1/records?kind=rnp.heartbeat"
	assert_equal "$(jq '.records | length' answer.json)" "$beats"
	assert_equal "$(jq -c '.records[]' answer.json)" "$(cat beats.json)"
}

@test "heartbeat: goes on when the clock was put back" {
	start_registry
	make_key a
	node_record a >n.json
	post /v1/nodes n.json
	now=$(date -u +%FT%TZ)
	# a clock that stands still, and so is set back all the time: each heartbeat is a moment newer than the one before
	RNP_NOW=$now rnp-register heartbeat --registry "$url" --interval 1s --key a.json >beats.json 2>beats.err 3>&- &
	beater=$!
	three() { (($(wc -l <beats.json) >= 3)); }
	wait_until 'a third one' three
	kill "$beater"
	ended "$beater"
	assert_equal "$(grep -c "this machine's clock was set back by [1-9] s: heartbeats get times just after the last one, of $(date -u -d "$now" +%FT%T)" beats.err)" 1
	jq -se 'map(.at)[1:] | . == unique and length >= 2' beats.json
	# a process that knows nothing of them is told by the registry, and goes on after the last
	ahead=$(date -u -d "$now 120 seconds" +%FT%TZ)
	RNP_NOW=$ahead rnp-register heartbeat --registry "$url" --once --key a.json | jq -e --arg at "$ahead" '.at == $at'
	RNP_NOW=$now run_split rnp-register heartbeat --registry "$url" --once --key a.json
	assert_success
	assert_equal "$(jq -r .at <<<"$output")" "${ahead%Z}.001Z"
	[[ $stderr == *"clock is 120 s behind the last heartbeat that the registry has, of $ahead: it was set back, "* ]] || fail "$stderr"
	rnp-register verify <<<"$output"
	# further than clocks may be apart nothing is made up
	RNP_NOW=$(date -u -d "$now -181 seconds" +%FT%TZ) run_split rnp-register heartbeat --registry "$url" --once --key a.json
	assert_failure 75
	[[ $stderr == *"as new or newer is here already"* ]] || fail "$stderr"
}

@test "heartbeat: one key on two machines is told to both, to the registry's operator, status and page" {
	start_registry
	make_key a
	node_record a | rnp-register submit --registry "$url" >/dev/null
	two_said() { local n; for n; do grep -q 'another machine, or another process here, uses the same key' "said$n" || return; done; }
	# a process that is started anew is not two
	for n in 1 2 3; do rnp-register heartbeat --registry "$url" --once --key a.json >/dev/null; done
	heard() { [[ -s beats ]]; }
	rnp-register heartbeat --registry "$url" --interval 1s --key a.json >beats 2>said1 3>&- &
	one=$!
	wait_until 'a heartbeat' heard
	[[ ! -s said1 ]] || fail "$(<said1)"
	run ! grep two serve.err
	rnp-register heartbeat --registry "$url" --interval 1s --key a.json >/dev/null 2>said2 3>&- &
	other=$!
	wait_until 'both to say so' two_said 1 2
	rnp-register status --registry "$url" --key a.json | jq -e '.twin_ms >= 0 and (.next | test("^two machines"))'
	curl -sS "$url/nodes/$a" | grep -q 'two machines use this key'
	kill "$one" "$other"
	ended "$one" && ended "$other"
	assert_equal "$(cat said1 said2 | grep -c another)" 2
	assert_equal "$(grep -c "node $a: two machines, or two processes, send heartbeats with this key" serve.err)" 1
}

@test "heartbeat: nobody can say of another's node that it is two machines" {
	start_registry
	make_key a
	node_record a >n.json
	said_two() { grep -q 'two machines' serve.err || rnp-register status --registry "$url" --key a.json | grep -q '"twin_ms"'; }
	rnp-register submit --registry "$url" n.json >/dev/null
	rnp-register heartbeat --registry "$url" --once --key a.json >own.json
	jq -e '.instance | test("^[0-9a-f]{16}$")' own.json
	# what is public comes again, with any word beside it
	for i in x y x y x y; do
		post /v1/nodes n.json -H "rnp-instance: $i"
		post /v1/heartbeats own.json -H "rnp-instance: $i"
		assert_equal "$(jq -r .error answer.json)" "a heartbeat of $a as new or newer is here already, of $(jq -r .at own.json)"
	done
	run ! said_two
	# the word is signed
	rnp-register heartbeat --registry "$url" --once --key a.json | jq -c '.instance = "x"' >forged.json
	post /v1/heartbeats forged.json
	error_is 401 proof
	# heartbeats without one, as old clients send them, are taken and count for none
	from=$(($(date +%s) + 10))
	beat() {
		((from += 1))
		jq -c --arg at "$(date -u -d "@$from" +%FT%T.000Z)" "del(.proof, .instance) | .at = \$at $2" own.json |
			rnp-register sign --key a.json >"$1"
	}
	for i in x y x y x y; do
		beat old.json
		post /v1/heartbeats old.json -H "rnp-instance: $i"
		assert_equal "$status_code" 200
	done
	run ! said_two
	# any text is kept as it was signed; two that come in turns show two, which others' replays do not
	for i in x 0123456789ABCDEF x; do
		beat "beat$i.json" "| .instance = \"$i\""
		post /v1/heartbeats "beat$i.json"
		cat "beat$i.json" >>sent.json
	done
	for i in x 0123456789ABCDEF x; do post /v1/heartbeats "beat$i.json"; done
	run ! said_two
	beat last.json '| .instance = "0123456789ABCDEF"'
	post /v1/heartbeats last.json
	cat last.json >>sent.json
	said_two
	get "/v1/records?kind=rnp.heartbeat&limit=100"
	assert_equal "$(jq -c '.records[]' answer.json | tail -n 4)" "$(cat sent.json)"
	assert_equal "$(jq -c '.records[0]' answer.json)" "$(cat own.json)"
	# what our client writes is kept as its signature and 8 bytes
	assert_equal "$(sqlite3 registry.db 'SELECT length(signature), body IS NULL FROM heartbeats ORDER BY id LIMIT 1')" "72|1"
}

@test "registry: slow clients do not stop others, and are closed" {
	start_registry
	make_key a
	python3 - "$(cat port)" <<'END' 3>&- &
import socket, sys, time
slow = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for i in range(200)]
open("slow", "w").write("connected")
for i in range(400):
    for s in slow[i % 20::20]:
        try: s.send(b"P" if i < 1 else b"O")
        except OSError: pass
    time.sleep(0.05)
END
	slow=$!
	wait_file slow
	for i in 1 2 3 4 5; do
		node_record a "{name: \"$i\"}" >n.json
		# a slow one is cut after ten seconds, and so long whoever stood behind it would wait
		took=$(curl -s -o answer.json -w '%{time_total}' --data-binary @n.json "$url/v1/nodes")
		awk "BEGIN { exit !($took < 9) }" || fail "took $took s"
	done
	kill "$slow"
}

@test "registry: too many requests of one client are told so" {
	start_registry --rate 1
	for i in {1..400}; do
		get /health -D head
		[[ $status_code == 429 ]] && break
	done
	error_is 429 "too many requests"
	grep -q '^Retry-After: 1' head
	sleep 1.2
	get /health
	assert_equal "$status_code" 200
}

@test "registry: a full disk is told and nothing acknowledged is lost" {
	((EUID == 0)) || skip "needs root for a small file system"
	cd "$BATS_TEST_TMPDIR"
	mkdir disk
	mount -t tmpfs -o size=400k none disk || skip "cannot mount a tmpfs"
	make_key a
	make_key other
	rnp-register serve --db disk/r.db --listen 127.0.0.1:0 --port-file port -q 2>serve.err 3>&- &
	server=$!
	wait_port port "$server"
	url=http://127.0.0.1:$(cat port)
	stored=0
	for i in {1..60}; do
		node_record a "{name: \"$i\", unknown: ([range(20) | {key: \"x\(.)\", value: (\"x\" * 1000)}] | from_entries)}" >n.json
		post /v1/nodes n.json
		[[ $status_code == 20? ]] || break
		stored=$i
	done
	error_is 503 "cannot store records at present"
	((stored > 0))
	grep -q 'full' serve.err
	get "/v1/nodes/$a"
	assert_equal "$(jq -r .record.name answer.json)" "$stored"
	# who watches it is told, and so when records are stored again: to have been asked for something else changes nothing
	get /health
	error_is 503 "cannot store records at present"
	heartbeat_record other >b.json
	post /v1/heartbeats b.json
	error_is 404 "not registered"
	get /health
	error_is 503 "cannot store records at present"
	mount -o remount,size=4m disk
	post /v1/nodes n.json
	[[ $status_code == 20? ]] || fail "$(cat answer.json)"
	get /health
	assert_equal "$status_code" 200
	stop_registry
	umount disk
}

@test "registry: HTTPS with a certificate; clients check it" {
	cd "$BATS_TEST_TMPDIR"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 2 \
		-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout k.pem -out c.pem 2>/dev/null
	start_registry --cert c.pem --cert-key k.pem
	url=https://127.0.0.1:$(cat port)
	make_key a
	node_record a >n.json
	run_split rnp-register submit --registry "$url" --ca c.pem n.json
	assert_success
	refused 69 "SSL certificate problem: self-signed certificate" rnp-register submit --registry "$url" n.json
	# TLS 1.2 with forward secrecy and authenticated encryption, and 1.3; the client offers
	# every cipher that it has
	handshake() {
		openssl s_client -connect "${url#https://}" -CAfile c.pem "$@" </dev/null 2>/dev/null | grep -c '^New, TLSv1'
	}
	assert_equal "$(handshake -tls1_3)" 1
	assert_equal "$(handshake -tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256)" 1
	assert_equal "$(handshake -tls1_2 -cipher ECDHE-ECDSA-AES128-SHA@SECLEVEL=0)" 0
	assert_equal "$(handshake -tls1_1 -cipher ALL@SECLEVEL=0)" 0
	stop_registry
	# with RSA certificates, too, no cipher without forward secrecy
	openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 \
		-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout rsa.key -out c.pem 2>/dev/null
	start_registry --cert c.pem --cert-key rsa.key
	url=https://127.0.0.1:$(cat port)
	assert_equal "$(handshake -tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256)" 1
	assert_equal "$(handshake -tls1_2 -cipher AES128-GCM-SHA256)" 0
	assert_equal "$(handshake -tls1_2 -cipher ECDHE-RSA-AES128-SHA@SECLEVEL=0)" 0
	stop_registry
	refused 64 "both a certificate and its key" rnp-register serve --db x.db --listen 127.0.0.1:0 --cert c.pem
	cp c.pem "open key.pem" && chmod 644 "open key.pem"
	refused 77 "by others than its owner (chmod 600 'open key.pem')" rnp-register serve --db x.db --listen 127.0.0.1:0 --cert c.pem --cert-key "open key.pem"
	refused 77 "by others than its owner" rnp-register serve --db x.db --listen 127.0.0.1:0 --cert c.pem --cert-key c.pem
	install -m 600 c.pem other.pem
	refused 65 "cannot use certificate" rnp-register serve --db x.db --listen 127.0.0.1:0 --cert c.pem --cert-key other.pem
}

@test "serve: wrong addresses, taken ports, bad databases" {
	start_registry
	refused 69 "Address already in use" rnp-register serve --db other.db --listen "127.0.0.1:$(cat port)"
	for bad in 127.0.0.1 127.0.0.1:x 127.0.0.1:70000 '[::1:80' ''; do
		refused 64 "is not HOST:PORT" rnp-register serve --db other.db --listen "$bad"
	done
	echo "this is no database, and long enough to be sure of it" >text.db
	refused 65 "not a database" rnp-register serve --db text.db --listen 127.0.0.1:0
	refused 66 "cannot open the database" rnp-register serve --db none/x.db --listen 127.0.0.1:0
	misused "is not a base58 address" rnp-register serve --db x.db --listen 127.0.0.1:0 --trust nobody
	refused 64 "needs a file" rnp-register serve --db :memory: --listen 127.0.0.1:0
	sqlite3 later.db 'PRAGMA user_version = 99'
	refused 65 "later version" rnp-register serve --db later.db --listen 127.0.0.1:0
}

@test "serve: the request log is JSON, one line a request, without bodies and keys" {
	start_registry
	get /health
	get "/v1/nodes?country=x"
	stop_registry
	run jq -es 'length == 2 and .[0].path == "/health" and .[1].path == "/v1/nodes" and all(.[]; .status == 200 and .method == "GET")' requests.log
	assert_success
}

@test "clients: a server that cannot be reached, is slow, or answers nonsense" {
	cd "$BATS_TEST_TMPDIR"
	make_key a
	node_record a >n.json
	refused 69 "rnp-register: cannot reach 'http://127.0.0.1:1': " rnp-register submit --registry http://127.0.0.1:1 n.json
	# the registry is named as it was given, without the paths and queries that programs add
	refused 69 "cannot reach 'http://127.0.0.1:1': " rnp-register list --registry http://127.0.0.1:1 --country DE
	misused "is not an http or https URL" rnp-register submit --registry ftp://x n.json
	misused "is not an http or https URL" rnp-register list --registry file:///etc/passwd
	refused 69 "cannot reach" rnp-register list --registry http://no-such-host.invalid
	start_fake silent
	refused 75 "did not answer in time" rnp-register submit --registry "$url" --timeout 200ms n.json
	stop_fake
	while read -r behaviour code text; do
		start_fake "$behaviour"
		refused "$code" "$text" timeout 60 rnp-register list --registry "$url"
		stop_fake
	done <<-END
		garbage 65 did not answer with HTTP
		not-json 69 a web page came in place of an answer
		wrong-json 65 version 7
		truncated 65 broke off
		redirect 65 redirects to another scheme
		loop 65 its pages lead in a circle
		circle 65 its pages lead in a circle
		403 77 so says the server
		401 77 so says the server
		400 65 so says the server
		404 1 so says the server
		409 1 so says the server
		500 75 so says the server
	END
	start_fake too-large
	refused 65 "more than 65536 bytes" rnp-register submit --registry "$url" n.json
	stop_fake
	start_fake inflates
	for client in "rnp-register list --registry $url" "rnp-price feed --market akash $url/" \
		"rnp-serve metrics --url $url" "rnp-train judge $url"; do
		# shellcheck disable=SC2086 # words
		refused 65 "bytes that unpack to more than 100 times as many" $client
	done
}

@test "clients: temporary failures are tried again, permanent ones are not" {
	cd "$BATS_TEST_TMPDIR"
	start_fake busy-twice
	run_split rnp-register list --registry "$url"
	assert_success
	stop_fake
	start_fake "503 Service Unavailable"
	refused 75 "cannot serve this now: so says the server" rnp-register list --registry "$url"
	assert_equal "$(cat fake.asked)" 4
	stop_fake
	start_fake "400 Bad Request"
	refused 65 "refused: so says the server" rnp-register list --registry "$url"
	assert_equal "$(cat fake.asked)" 1
}

@test "submit: unsigned and foreign records do not leave; good ones before them do" {
	start_registry
	make_key a
	node_record a >in.json
	echo '{"kind":"rnp.node","v":1}' >>in.json
	run --separate-stderr rnp-register submit --registry "$url" in.json
	assert_equal "$status" 65
	assert_equal "$(jq -r .of <<<"$output")" rnp.node
	[[ $stderr == *"in.json:2: the record is not signed"* ]]
	echo '{"kind":"other","v":1,"proof":{}}' >in.json
	refused 65 "in.json:1: kind 'other' is not one of ours" rnp-register submit --registry "$url" in.json
	heartbeat_record a '{at: "2020-01-01T00:00:00Z"}' >in.json
	refused 65 "more than 5 minutes from our clock" rnp-register submit --registry "$url" in.json
	make_key b
	jq -c 'del(.proof)' in.json | rnp-register sign --key b.json >x.json
	node_record a '{name: "2"}' | jq -c 'del(.proof)' | rnp-register sign --key b.json >x.json
	refused 77 "is signed by $b" rnp-register submit --registry "$url" x.json
}

# A hotel's page, a proxy's "{}" and another record's confirmation are 200, too. Nothing of that is success, and
# nothing of it ends a service for good.
@test "clients: only a registry's confirmation of this very record is success" {
	cd "$BATS_TEST_TMPDIR"
	make_key a
	make_key b
	heartbeat_record a >beat.json
	confirmed() { # NODE OF AT
		jq -nc --arg node "$1" --arg of "$2" --arg at "$3" '{kind: "rnp.stored", v: 1, $of, $node, $at, new: true}'
	}
	at=$(jq -r .at beat.json)
	for says in '200 OK:{}' '200 OK:' '204 No Content:' '200 OK:{"kind":"rnp.stored","v":1}' \
		"200 OK:$(confirmed "$b" rnp.heartbeat "$at")" "200 OK:$(confirmed "$a" rnp.node "$at")" \
		"200 OK:$(confirmed "$a" rnp.heartbeat 2020-01-01T00:00:00Z)"; do
		start_fake "says:$says"
		refused 69 "did not confirm the record" rnp-register submit --registry "$url" beat.json
		assert_equal "$output" ""
		refused 69 "did not confirm the record" rnp-register heartbeat --once --registry "$url" --key a.json
		assert_equal "$output" ""
		stop_fake
	done
	for says in '{}' "{\"record\":{\"node\":\"$b\"}}"; do
		start_fake "says:200 OK:$says"
		refused 69 "did not say what it has of the node" rnp-register status --registry "$url" --node "$a"
		assert_equal "$output" ""
		stop_fake
	done
	start_fake "says:201 Created:$(confirmed "$a" rnp.heartbeat "$at")"
	run_split rnp-register submit --registry "$url" beat.json
	assert_success
	stop_fake
	node_record a >n.json
	start_fake "says:201 Created:$(confirmed "$a" rnp.node "$(jq -r .at n.json)" | jq -c '.sha256 = "00" * 32')"
	refused 69 "sha256: is another record's" rnp-register submit --registry "$url" n.json
}

@test "clients: what stands between is named, and is not the registry" {
	cd "$BATS_TEST_TMPDIR"
	make_key a
	heartbeat_record a >beat.json
	while read -r code client; do
		start_fake "page:$code Says"
		refused 69 "a web page came in place of an answer of '$url' (HTTP $code): \"Please log in\"" \
			rnp-register $client --registry "$url"
		stop_fake
	done <<-END
		200 submit beat.json
		200 heartbeat --once --key a.json
		200 status --node $a
		401 list
		404 status --node $a
	END
	# the loop goes on
	start_fake "page:403 Forbidden"
	run_split timeout 3 rnp-register heartbeat --interval 1s --registry "$url" --key a.json
	assert_equal "$status" 124
	stop_fake
	start_fake "moved:http://login.invalid:81/?from=here"
	refused 69 "'$url' redirects to 'http://login.invalid:81': cannot reach 'http://login.invalid:81'" \
		rnp-register list --registry "$url"
	stop_fake
	start_fake "moved:https://login.invalid/"
	refused 69 "'$url' redirects to 'https://login.invalid' (HTTP 302)" rnp-register list --registry "$url"
	stop_fake
	start_fake "moved:https://127.0.0.1/x"
	refused 65 "'$url' redirects to 'https://127.0.0.1' (give that address)" rnp-register list --registry "$url"
	stop_fake
	export http_proxy=http://me:secret@127.0.0.1:1
	refused 69 "cannot get through the proxy 'http://127.0.0.1:1' to 'http://registry.invalid'" \
		rnp-register submit --registry http://registry.invalid beat.json
	start_fake "page:407 Proxy Authentication Required"
	http_proxy=$url
	refused 69 "the proxy '$url' before 'http://registry.invalid' asks for a name and a password" \
		rnp-register submit --registry http://registry.invalid beat.json
}

@test "heartbeat: its state comes from a file, where that has one" {
	start_registry
	make_key a
	node_record a >n.json
	post /v1/nodes n.json
	beat() {
		run_split rnp-register heartbeat --registry "$url" --once --key a.json --state render --state-from state
		assert_success
		jq -r .state <<<"$output"
	}
	run beat
	assert_output render
	echo busy >state
	run beat
	assert_output busy
	echo asleep >state
	run_split rnp-register heartbeat --registry "$url" --once --key a.json --state-from state
	assert_equal "$(jq -r .state <<<"$output")" idle
	[[ $stderr == *"'state' has no state: idle, busy, render or maintenance: heartbeats say 'idle'"* ]] || fail "$stderr"
}

@test "heartbeat: goes on while the registry is away, ends when it refuses" {
	start_registry
	make_key a
	refused 1 "is not registered here" rnp-register heartbeat --registry "$url" --interval 1s --key a.json
	node_record a >n.json
	post /v1/nodes n.json
	run_split rnp-register heartbeat --registry "$url" --interval 1ms --once --key a.json
	assert_equal "$status" 64
	[[ $stderr == *"1ms is below 1 s"* ]]
	refused 66 "cannot open" rnp-register heartbeat --registry "$url" --once --key none.json
}

@test "registry: no data race under load (after make tsan)" {
	[[ -x $ROOT/build/tsan/bin/rnp-register ]] || skip "run make tsan first"
	make -s -C "$ROOT" build/benches/registry_load
	PATH=$ROOT/build/tsan/bin:$PATH TSAN_OPTIONS="log_path=$BATS_TEST_TMPDIR/tsan" start_registry
	"$ROOT/build/benches/registry_load" --port "$(cat port)" 3
	get /v1/pools
	get /metrics
	stop_registry
	assert_equal "$stopped_with" 0
	run cat tsan.*
	assert_failure
}
