# The registry: what it accepts, stores and answers, and how it handles everything else.
load helper
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
	rnp-register submit --registry "$url" all.json >/dev/null
	names() { rnp-register list --registry "$url" "$@" | jq -r .name | xargs; }
	assert_equal "$(names)" "n1 n2 n3 n4 n5 n6"
	assert_equal "$(names --gpu-model L4)" "n1 n2 n3"
	assert_equal "$(names --gpu-model 'GeForce RTX 4090')" "n4 n5"
	assert_equal "$(names --country de)" "n1 n3 n5 n6"
	assert_equal "$(names --gpu-model l4 --country us)" "n2"
	# marketing sizes: the drivers of L4 and RTX 4090, both sold as 24 GB, report 22.5 and
	# 23.99 GiB
	assert_equal "$(names --min-memory 24GiB)" "n1 n2 n3 n4 n5"
	assert_equal "$(names --min-memory 25GiB)" "n4 n5"
	assert_equal "$(names --min-memory 27GiB)" ""
	assert_equal "$(names --tier med)" "n1 n2"
	assert_equal "$(names --tier High)" "n4 n5"
	assert_equal "$(names --tier unknown)" "n6"
	assert_equal "$(names --device cpu)" "n6"
	assert_equal "$(names --maker nvidia --limit 2)" "n1 n2"
	assert_equal "$(names --online)" ""
	refused 65 "tier: 'best' is not a tier" rnp-register list --registry "$url" --tier best
	# pages of two
	cursor=0 seen=
	for i in 1 2 3; do
		get "/v1/nodes?limit=2&cursor=$cursor"
		seen+=$(jq -r '.nodes[].record.name' answer.json | xargs),
		cursor=$(jq -r '.next // "end"' answer.json)
	done
	assert_equal "$seen $cursor" "n1 n2,n3 n4,n5 n6, end"
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
	assert_equal "$(jq '[.pools[].nodes] | add' answer.json)" 7
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
	# a clock that stands still: the second heartbeat is not newer than the first
	RNP_NOW=$now rnp-register heartbeat --registry "$url" --interval 1s --key a.json >beats.json 2>beats.err 3>&- &
	beater=$!
	wait_until 'a second one' grep -q 'as new or newer is here already' beats.err
	run ! process_is_gone "$beater"
	kill "$beater"
	ended "$beater"
	assert_equal "$(wc -l <beats.json)" 1
	RNP_NOW=$now run_split rnp-register heartbeat --registry "$url" --once --key a.json
	assert_failure 75
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
	for i in {1..40}; do
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
	refused 69 "cannot reach 'http://127.0.0.1:1': " rnp-register submit --registry http://127.0.0.1:1 n.json
	# the registry is named as it was given, without the paths and queries that programs add
	refused 69 "cannot reach 'http://127.0.0.1:1': " rnp-register list --registry http://127.0.0.1:1 --country DE
	refused 64 "is not an http or https URL" rnp-register submit --registry ftp://x n.json
	refused 64 "is not an http or https URL" rnp-register list --registry file:///etc/passwd
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
		not-json 65 not JSON
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
