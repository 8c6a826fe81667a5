# The registry in a browser: / and /nodes/{address}.
load ../helper
load registry

teardown() {
	stop_registry
}

need_browser() {
	browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
		skip "no Chromium: apt-get install chromium"
	[[ -e $ROOT/build/node/node_modules/puppeteer-core ]] || skip "no puppeteer-core: scripts/bootstrap"
}

# a trusted verifier v; a node a with a GPU that failed, was proven and quotes; a node b with a
# hostile name
some_nodes() {
	local at
	cd "$BATS_TEST_TMPDIR" || return
	make_key v && make_key a && make_key b
	start_registry --trust "$v"
	node_record a '{name: "one", gpus: [{model: "NVIDIA <b>T400 4GB"}, {vendor: "NVIDIA", model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864}],
		labels: {country: "SE"}, network: {down_bps: 4000000000, up_bps: 4500000000, ping_us: 9000}}' >n.json
	post /v1/nodes n.json
	node_record b '{name: "\"><script>alert(1)</script>\u202eevil", labels: {country: "DE",
		region: "<img src=x onerror=alert(2)>"}}' >n.json
	post /v1/nodes n.json
	assert_equal "$status_code" 201
	rnp-register heartbeat --registry "$url" --once --key a.json --state busy >/dev/null
	at=$(date -u +%FT%TZ)
	jq -nc --arg n "$a" --arg v "$v" --arg at "$at" '{kind: "rnp.verdict", v: 1, node: $n, signer: $v, at: $at, passed: false,
		challenge_sha256: ("a" * 64), checks: [{check: "chain", passed: true}, {check: "deadline", passed: false,
		reason: "<b>late</b> by 3 s"}], readings: {}, score_ppm: 750000}' | rnp-register sign --key v.json >n.json
	post /v1/records n.json
	assert_equal "$status_code" 201
	signed a '{kind: "rnp.quote", ask_uusd: 376200, customer_uusd: 400000, floor_uusd: 100000, why: []}' >n.json
	post /v1/records n.json
	assert_equal "$status_code" 201
}

@test "page: / shows what the API says: nodes, health, verdicts with reasons, uptime, prices, pools, how to join" {
	some_nodes
	get /
	assert_equal "$status_code" 200
	for text in '2 nodes with 1 GPU' 'busy' 'offline' 'failed' 'deadline: &lt;b&gt;late&lt;/b&gt; by 3 s' '75 %' '\$0.3762' \
		'RTX 4090' '<small>and 1 NVIDIA &lt;b&gt;T400 4GB</small>' 'Up, 7 days' "setup --registry $url" 'not proven yet' 'none yet'; do
		grep -q -- "$text" answer.json || fail "/ lacks '$text': $(cat answer.json)"
	done
	# filters are links, and the API accepts each of them
	grep -oE 'href="\./\?[^"]*"' answer.json | sed 's/href="\.//; s/"$//; s/&amp;/\&/g' | sort -u >links
	(($(wc -l <links) >= 6))
	while read -r link; do
		get "$link"
		assert_equal "$status_code" 200
		get "/v1/nodes${link#/}"
		assert_equal "$status_code" 200
	done <links
	get '/?country=SE'
	grep -q 'Only country <bdi>SE</bdi>' answer.json
	assert_equal "$(grep -c '"nodes/' answer.json)" 1
	get '/?country=XX'
	grep -q 'No node fits' answer.json
	get '/?contry=SE'
	error_is 400 contry
	# list and status say the same words of the verdicts, and status advises what runs as it stands
	rnp-register list --registry "$url" --table >listed
	grep -E '^one .* failed ' listed
	grep -E ' none yet ' listed
	rnp-register status --registry "$url" --key a.json --table | grep -E '^verdict +failed$'
	rnp-register status --registry "$url" --key b.json --table | grep -E '^verdict +none yet$'
	rnp-register status --registry "$url" --node "$a" | jq -e '.passed == false and (has("verdict") | not)'
	rnp-register status --registry "$url" --node "$b" | jq -e '.next == "no heartbeats arrive: its operator has to look"'
	make_key c
	run_split rnp-register status --registry "$url" --key c.json
	assert_equal "$status" 1
	[[ $stderr == *"(register it: rnp-register detect --key c.json | rnp-register sign --key c.json | rnp-register submit --registry $url)" ]] ||
		fail "$stderr"
	eval "$(sed 's/.*(register it: //; s/)$//' <<<"$stderr")" >/dev/null
	rnp-register status --registry "$url" --key c.json | jq -r '.next | sub(".*arrive: "; "") | sub("heartbeat"; "heartbeat --once")' >next
	bash -e next | jq -e --arg c "$c" '.kind == "rnp.stored" and .node == $c'
}

@test "page: pages follow each other, and every node is on one of them" {
	start_registry
	for i in {1..28}; do
		make_key k
		node_record k "{name: \"node $i\"}" >n.json
		post /v1/nodes n.json
		rm k.json
	done
	link=/
	: >names
	while [[ $link ]]; do
		get "$link"
		grep -oE 'node [0-9]+' answer.json >>names
		link=$(grep -oE 'href="\./[^"]*cursor[^"]*"' answer.json | sed 's/href="\.//; s/"$//; s/&amp;/\&/g' || true)
	done
	assert_equal "$(sort -u names | wc -l)" 28
	assert_equal "$(wc -l <names)" 28
}

@test "page: one node shows its verdicts and all that it says, and an unknown one is 404" {
	some_nodes
	get "/nodes/$a"
	for text in 'deadline' "$v" '4 Gbit/s' '25.8 GB\|24 GiB' 'RTX 4090' "/v1/nodes/$a"; do
		grep -q -- "$text" answer.json || fail "the page of a node lacks '$text': $(cat answer.json)"
	done
	get "/nodes/$v"
	assert_equal "$status_code" 404
	get /nodes/nonsense
	assert_equal "$status_code" 400
}

@test "page: in Chromium it loads nothing, runs nothing, and fits a phone" {
	need_browser
	some_nodes
	node "$ROOT/tests/tools/browser.mjs" "$browser" . 360,1280 "$url/" "$url/nodes/$a" "$url/nodes/$b" >seen.jsonl
	assert_equal "$(wc -l <seen.jsonl)" 6
	jq -se 'all(.[]; .width <= (.at | tonumber) and .dialogs == [] and .hidden == 0)' seen.jsonl >fits ||
		fail "$(jq -c '[.url, .at, .width, .dialogs, .hidden]' seen.jsonl)"
	# the page itself, and the browser's own request for an icon
	jq -se 'all(.[]; [.loaded[] | select(endswith("/favicon.ico") | not)] == [.url])' seen.jsonl >fits || fail "$(jq -c .loaded seen.jsonl)"
	# a hostile name is shown as text
	head -1 seen.jsonl | jq -e '.text | contains("\"><script>alert(1)</script>")'
	head -1 seen.jsonl | jq -e '.links | index("./?country=SE")'
	[[ -z ${SHOTS-} ]] || cp ./*.png "$SHOTS"
	[[ -s 0-360.png && -s 0-1280.png ]]
}

@test "serve: a terminal gets a line for people a request" {
	cd "$BATS_TEST_TMPDIR"
	run on_terminal 80 'rnp-register serve --listen 127.0.0.1:0 --port-file port --db db & while [[ ! -s port ]]; do sleep 0.1; done
		curl -s -o /dev/null --path-as-is "http://127.0.0.1:$(<port)/v1/none?a=%1b"; kill %1; wait'
	assert_line --regexp '^[0-9:]{8}Z 127\.0\.0\.1 GET /v1/none[^ ]* 404, [0-9]+ bytes, [0-9.]+ ms$'
	refute_output --partial '{'
}
