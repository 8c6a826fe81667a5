# A signature covers values: 25757220864 may be spelled 2.5757220864e10 by whoever passes a record on, its own node
# first of all, and means the same to everybody.
load ../helper
load ../rnp-register/registry

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	make_key v
	make_key n
	jq -nc --arg n "$n" '{kind: "rnp.node", v: 1, node: $n, at: "2026-11-20T00:00:00Z", memory_bytes: 17179869184,
		cpu: {model: "x", threads: 8, isa: ["avx2"]}, labels: {country: "SE"}, disks: [{name: "nvme0n1", type: "nvme", size_bytes: 2000398934016}],
		network: {down_bps: 4000000000, up_bps: 4500000000, ping_us: 9000},
		gpus: [{uuid: "GPU-11111111-2222-3333-4444-555555555555", vendor: "NVIDIA", model: "Unheard-of GPU", memory_bytes: 85899345920,
			compute_capability: "9.0"}]}' | rnp-register sign --key n.json >digits
	spell digits >spelled
}

teardown() {
	stop_registry
}

# spell FILE: the same record with every whole number of two digits and more behind a colon, or in an array, as a real
spell() {
	sed -E 's/([:,[])([1-9][0-9]+)([],}])/\1\2.0\3/g; s/([:,[])([1-9][0-9]+)([],}])/\1\2.0\3/g' "$1"
}

@test "spelled: the signature holds, and what is asked of a node is what it claims" {
	grep -q '"memory_bytes":85899345920.0' spelled
	rnp-register verify spelled >checked
	for f in digits spelled; do
		rnp-bench challenge --node "$n" --key v.json --claims $f | jq -c .devices >$f.asked
		run_split rnp-register check --policy rnp-021 $f
		jq -c '[.qualified, .requirements, .tier, .pool]' <<<"$output" >$f.check
	done
	# all of the memory of a GPU that no table has
	jq -e '.[1].memory | .lanes * .per_slice > 10000000' digits.asked
	cmp digits.asked spelled.asked
	cmp digits.check spelled.check
}

@test "spelled: a registry asks, lists and pools alike" {
	make_key op
	for f in digits spelled; do
		rm -f registry.db*
		start_registry --key op.json --challenge-every 1s
		jq -c 'del(.proof) | .at = (now | todate)' digits | rnp-register sign --key n.json >now
		[[ $f == digits ]] || { spell now >again && mv again now; }
		post /v1/nodes now
		assert_equal "$status_code" 201
		asked() { rnp-register heartbeat --once --registry "$url" --key n.json | jq -ce 'select(.kind == "rnp.challenge").devices' >$f.asked; }
		wait_until 'a challenge' asked
		get /v1/pools
		cp answer.json $f.pools
		get '/v1/nodes?min_memory=85899345920'
		jq -c '[.nodes[].record.gpus[].memory_bytes]' answer.json >$f.nodes
		stop_registry
	done
	cmp digits.asked spelled.asked
	cmp digits.pools spelled.pools
	cmp digits.nodes spelled.nodes
}

@test "spelled: usage, pay and a price are the same" {
	sha=$(jq -c 'del(.proof)' digits | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1)
	jq -nc --arg n "$n" --arg v "$v" --arg sha "$sha" '{kind: "rnp.verdict", v: 1, node: $n, signer: $v, at: "2026-11-20T12:00:00Z", passed: true,
		challenge_sha256: ("a" * 64), checks: [], readings: {bandwidth: 300000000}, score_ppm: 900000, node_record: $sha,
		proven: [{device: "GPU-11111111-2222-3333-4444-555555555555", memory_bytes: 80000000000}]}' | rnp-register sign --key v.json >>digits
	jq -nc --arg n "$n" '{kind: "rnp.heartbeat", v: 1, node: $n, at: "2026-11-20T11:00:00Z", interval_s: 3600, state: "idle"}' |
		rnp-register sign --key n.json >>digits
	jq -nc --arg n "$n" --arg v "$v" '{kind: "rnp.receipt", v: 1, node: $n, signer: $v, at: "2026-11-20T13:00:00Z", job: "j",
		from: "2026-11-20T12:00:00Z", to: "2026-11-20T13:00:00Z", gpu_seconds: 3600, tokens: 10, earned_uusd: 5000000,
		credits: 100}' | rnp-register sign --key v.json >>digits
	spell digits >spelled
	for f in digits spelled; do
		rnp-reward usage --heartbeats --trust "$v" --from 2026-11-20T00:00:00Z --to 2026-11-21T00:00:00Z $f >$f.usage
	done
	jq -e '.gpu_memory_bytes == 85899345920 and .earned_uusd == 5000000 and .up_s == 3600' digits.usage
	cmp digits.usage spelled.usage
	spell digits.usage >spelled.usage
	for f in digits spelled; do rnp-reward epoch --policy testnet --pool 10 $f.usage >$f.epoch; done
	cmp digits.epoch spelled.epoch
	spell digits.epoch >spelled.epoch
	rnp-reward verify --usage digits.usage --policy testnet spelled.epoch | jq -se 'all(.ok)'
	head -n 1 digits >node
	head -n 1 spelled >node.spelled
	spell "$ROOT/tests/data/man/offers.jsonl" >offers.spelled
	rnp-price quote --node node --costs "$ROOT/tests/data/man/costs.json" --floor-if-empty "$ROOT/tests/data/man/offers.jsonl" | jq 'del(.at)' >quote
	rnp-price quote --node node.spelled --costs "$ROOT/tests/data/man/costs.json" --floor-if-empty offers.spelled | jq 'del(.at)' | cmp - quote
}

@test "spelled: measurements are compared as they are, and an interval without its median is none" {
	b() { printf '{"kind":"rnp.bench","v":1,"at":"2026-11-20T12:00:00Z","suite":"a","test":"b","unit":"ns","median":%s,"low":%s,"high":%s,"samples":9}\n' "$@"; }
	b 100 90 110 >old
	b 300 290 310 >worse
	run -1 rnp-bench compare old worse
	b 3e2 2.9e2 310.0 >worse
	run -1 rnp-bench compare old worse
	b 300 0 1 >lie
	refused 65 "median: not between low and high" rnp-bench compare old lie
	b 300 301 302 >lie
	refused 65 "lie:1: median: not between low and high" rnp-bench compare old lie
}

@test "spelled: roots that somebody else sends for a node are refused, and the node's own count" {
	make_key op
	start_registry --key op.json --challenge-every 1s
	rnp-register detect --key n.json | jq -c '.memory_bytes = 268435456' | rnp-register sign --key n.json | rnp-register submit -q --registry "$url" >stored
	asked() { rnp-register heartbeat --once --registry "$url" --key n.json | jq -ce 'select(.kind == "rnp.challenge")' >c.json; }
	wait_until 'a challenge' asked
	sha=$(jq -c 'del(.proof)' c.json | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1)
	roots() { jq -nc --arg n "$1" --arg s "$sha" '{kind: "rnp.roots", v: 1, node: $n, at: (now | todate), challenge_sha256: $s, roots_sha256: ("0" * 64)}' >r.json; }
	roots "$n"
	rnp-register sign --key v.json r.json >r.signed
	post /v1/roots r.signed
	error_is 401 "not by its node"
	roots "$v"
	rnp-register sign --key v.json r.json >r.signed
	post /v1/roots r.signed
	error_is 409 "it was answered, or its time was over"
	# the first that the node itself sends: nobody was before it
	roots "$n"
	rnp-register sign --key n.json r.json >r.signed
	post /v1/roots r.signed
	assert_equal "$(jq -c '[.of, .new]' answer.json)" '["rnp.roots",true]'
}
