# A stranger fills the registry's disk or memory: limits on what each identity and each address
# may store, the cost of joining, and the size of replies.
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	stopped_with=0
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

# many KEY N [JQ PROGRAM]: writes N signed records that differ in median
many() {
	jq -nc --arg node "${!1}" --argjson n "$2" "range(\$n) as \$i | {v: 1, node: \$node, at: (now | todate)} + $bench + {median: \$i, high: \$i} + (${3:-{\}})" |
		rnp-register sign --key "$1.json"
}

bench='{kind: "rnp.bench", suite: "cpu", test: "t", unit: "ns", median: 1, low: 1, high: 1, samples: 1}'

@test "disk: who never registered has nothing stored" {
	start_registry
	make_key a
	signed a "$bench" >x.json
	post /v1/records x.json
	error_is 404 "is not registered here"
	signed a '{kind: "rnp.quote", ask_uusd: 1}' >x.json
	post /v1/records x.json
	[[ $status_code == 40[04] ]]
	get /v1/records
	assert_equal "$(cat answer.json)" '{"records":[]}'
}

@test "disk: of a node the newest records of a kind are kept" {
	start_registry
	make_key a
	node_record a '{name: "first", at: (now - 250 | todate)}' >n.json
	post /v1/nodes n.json
	many a 260 | rnp-register submit --registry "$url" | jq -es 'length == 260'
	assert_equal "$(sqlite3 registry.db "SELECT count(*), min(json_extract(body, '$.median')) FROM records WHERE kind = 'rnp.bench'")" "256|4"
	# node records are limited, too, except those that a passed challenge was about
	sha=$(sqlite3 registry.db "SELECT sha256 FROM nodes")
	sqlite3 registry.db "PRAGMA busy_timeout = 5000; INSERT INTO proven VALUES ('$a', '$sha', 1)" >/dev/null
	jq -nc --arg a "$a" 'range(100; 140) | {kind: "rnp.node", v: 1, node: $a, name: "\(.)", at: (now - 150 + . | todate)}' |
		rnp-register sign --key a.json >nodes.jsonl
	rnp-register submit --registry "$url" nodes.jsonl >/dev/null
	assert_equal "$(sqlite3 registry.db "SELECT count(*), min(json_extract(body, '$.name')) FROM records WHERE kind = 'rnp.node' AND sha256 <> '$sha'")" "32|108"
	assert_equal "$(sqlite3 registry.db "SELECT json_extract(body, '$.name') FROM records WHERE sha256 = '$sha'")" first
}

@test "disk: joining costs work, which submit does; work for another node or token is none" {
	start_registry --join-work 14
	make_key a; make_key b
	node_record a >a.rec
	node_record b >b.rec
	post /v1/nodes a.rec
	error_is 428 "joining costs a proof of work of 14 bits"
	token=$(jq -r .work.token answer.json)
	assert_equal "$(jq .work.bits answer.json)" 14
	get /v1/nodes
	assert_equal "$(cat answer.json)" '{"nodes":[]}'
	for work in "" x "$token" "$token." "$token.0" "$token.-1" "${token/-14-/-1-}.0" "1-14-00000000000000000000000000000000.0"; do
		post "/v1/nodes?work=$work" a.rec
		assert_equal "$work $status_code" "$work 428"
	done
	run_split rnp-register submit --registry "$url" a.rec
	assert_success
	assert_equal "$(jq -c '[.of, .new, .pending]' <<<"$output")" '["rnp.node",true,true]'
	[[ $stderr == *"costs a proof of work: about 1.64e+04 hashes"* ]]
	# the proof of work belongs to one node: find a number that would do for another, by
	# brute force
	number=$(python3 - "$token" "$a" <<-'END'
		import hashlib, sys
		n = 0
		while int.from_bytes(hashlib.sha256(f"rnp-join-1:{sys.argv[1]}:{sys.argv[2]}:{n}".encode()).digest()[:2], "big") >> 2: n += 1
		print(n)
	END
	)
	post "/v1/nodes?work=$token.$number" b.rec
	error_is 428 "proof of work"
	# once a node has joined, records need no further work
	node_record a '{name: "2"}' >a.rec
	post /v1/nodes a.rec
	assert_equal "$status_code" 200
}

@test "disk: an invitation by somebody who is trusted is as good as work" {
	make_key boss; make_key a; make_key b
	start_registry --join-work 20 --trust "$boss"
	invite() { # invite NODE EXPIRES KEY
		jq -nc --arg n "$1" --arg s "$boss" --argjson e "$2" '{kind: "rnp.invitation", v: 1, node: $n, signer: $s, at: (now | todate),
			expires: (now + $e | todate)}' | rnp-register sign --key "$3" >i.json
		post /v1/records i.json
	}
	invite "$a" 3600 a.json; error_is 403 "signer: has not signed"
	invite "$a" -5 boss.json; error_is 422 "expires: is over"
	invite "$a" 99999999 boss.json; error_is 422 "more than a year"
	invite "$a" 3600 boss.json
	assert_equal "$status_code" 201
	node_record a >a.rec
	post /v1/nodes a.rec
	assert_equal "$status_code" 201
	node_record b >b.rec
	post /v1/nodes b.rec
	error_is 428 "or an invitation"
}

@test "disk: an address has its share of a day, and the bound of the disk leaves room for heartbeats" {
	start_registry --quota 40KiB --join-work 1
	make_key a
	node_record a >n.json
	rnp-register submit --registry "$url" n.json >/dev/null
	for ((i = 0; i < 10; i++)); do
		signed a "$bench + {median: $i, high: $i, device: (\"x\" * 120), params: {p: (\"y\" * 7000)}}" >x.json
		post /v1/records x.json
		[[ $status_code == 201 ]] || break
	done
	error_is 429 "stored its share of a day"
	((i >= 3 && i <= 6))
	stop_registry

	rm -f registry.db*
	start_registry --disk 1MiB
	sleep 3 # the task that deletes looks now, and not again for a minute
	post /v1/nodes n.json
	many a 300 '{params: {p: ("y" * 8000)}}' >many.jsonl
	run_split rnp-register submit --registry "$url" --timeout 2s many.jsonl
	assert_equal "$status" 75
	[[ $stderr == *"the disk's bound is reached"* ]]
	(($(stat -c %s registry.db) < 1500000))
	make_key b
	node_record b >b.rec
	post /v1/nodes b.rec
	error_is 507 "only heartbeats, verdicts and receipts"
	heartbeat_record a >h.json
	post /v1/heartbeats h.json
	assert_equal "$status_code" 200
}

@test "disk: the task that deletes makes room again, and keeps what pay depends on" {
	make_key v
	start_registry --disk 1MiB
	make_key a
	node_record a >n.json
	post /v1/nodes n.json
	many a 200 '{params: {p: ("y" * 8000)}}' >many.jsonl
	run rnp-register submit --registry "$url" --timeout 2s many.jsonl
	stop_registry
	start_registry --disk 1MiB
	is_empty() {
		get "/v1/records?kind=rnp.bench"
		[[ $(jq '.records | length' answer.json) == 0 ]]
	}
	wait_until 'room' is_empty
	signed a "$bench" >x.json
	post /v1/records x.json
	assert_equal "$status_code" 201
	get "/v1/nodes/$a"
	assert_equal "$status_code" 200
}

@test "memory: a page ends by bytes, and the next goes on where it ended" {
	start_registry
	for ((i = 0; i < 60; i++)); do
		make_key k
		node_record k "{name: \"n$i\", unknown: ([range(28) | {key: \"x\(.)\", value: (\"x\" * 1000)}] | from_entries)}"
		rm k.json
	done >all.jsonl
	rnp-register submit --registry "$url" all.jsonl >/dev/null
	get '/v1/nodes?limit=1000'
	(($(stat -c %s answer.json) < 1200000))
	jq -e '.next' answer.json
	assert_equal "$(rnp-register list --registry "$url" | jq -r .name | tr '\n' ' ')" "$(echo n{0..59}' ' | tr -d '\n' | sed 's/  */ /g')"
	get '/v1/records?limit=1000'
	(($(stat -c %s answer.json) < 1200000))
}

@test "health: is answered before reads that came first, however many and long they are" {
	start_registry --threads 1
	make_key a
	node_record a >n.json
	post /v1/nodes n.json
	sqlite3 registry.db "PRAGMA busy_timeout = 5000; INSERT INTO heartbeats (node, at_ms, interval_s, state, created_ms, signature)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
		SELECT 1, i, 60, 0, i, zeroblob(64) FROM n" >/dev/null
	python3 - "$(cat port)" <<-'END' 3>&-
		import select, socket, sys
		def ask(path):
		    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=120)
		    s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
		    return s
		def hear(s):
		    return b"".join(iter(lambda: s.recv(65536), b""))
		# each request scans every row and finds none
		reads = [ask("/v1/records?kind=rnp.heartbeat&from=2025-01-01T00:00:00Z") for _ in range(40)]
		for _ in range(5):
		    assert hear(ask("/health")).endswith(b'{"status":"ok"}\n')
		answered = len(select.select(reads, [], [], 0)[0])
		print(answered, "of 40 reads were answered before")
		assert answered < 20, answered
		assert all(b'"records":[]' in hear(s) for s in reads)
	END
}
