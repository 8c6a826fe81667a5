# Proof of compute: a challenge, its answer and the verdict, as users run the commands.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	rnp-register keygen --out node.key >node.json
	rnp-register keygen --out verifier.key >verifier.json
	NODE=$(jq -r .node node.json)
}

# small CHALLENGE-OPTIONS: makes a challenge that takes a tenth of a second to answer
small() {
	rnp-bench challenge --node "$NODE" --key verifier.key --size 64 --rounds 16 \
		--memory 2MiB --hashes 4096 "$@"
}

answer() {
	rnp-bench answer --key node.key "$@"
}

verdict() {
	rnp-bench verdict --key verifier.key --challenge "$@"
}

@test "poc: an honest answer passes through a pipe, and nothing else is claimed" {
	small >c.json
	answer <c.json | verdict c.json >v.json
	jq -e '.passed and (.checks | all(.passed)) and (has("score_ppm") | not)
		and .unknown["readings.bandwidth"] and .readings.memory == 2097152
		and (.proves | test("some device"))' v.json
	jq -e --arg node "$NODE" --slurpfile v verifier.json \
		'.node == $node and .signer == $v[0].node and .elapsed_ns > 0' v.json
	rnp-register verify v.json | jq -e .ok
	rnp-register verify c.json | jq -e .ok
}

@test "poc: a verdict says which record and which devices are proven, and a failed one none" {
	jq -cn --arg n "$NODE" '{kind: "rnp.node", v: 1, at: "2026-01-01T00:00:00Z", node: $n, gpus: [{model: "L4"}]}' >n.json
	rnp-bench challenge --node "$NODE" --key verifier.key --claims n.json >c.json
	answer <c.json >a.json
	verdict c.json <a.json >v.json
	jq -e --slurpfile c c.json '.passed and .node_record == $c[0].node_record and .node_record
		and (.proven | length) == 1 and .proven[0].device == $c[0].devices[0].device
		and .proven[0].memory_bytes == .readings.memory' v.json
	jq -c '.devices[0].matmul.root |= explode | .devices[0].matmul.root |= (reverse | implode)' a.json >bad.json
	run verdict c.json <bad.json
	jq -e '.node_record and (has("proven") | not)' <<<"$output"
}

@test "poc: --quick is answered and judged in seconds" {
	rnp-bench challenge --node "$NODE" --key verifier.key --quick >c.json
	answer <c.json | verdict c.json | jq -e '.passed and .readings.teraflops > 0
		and .readings.clock > 0 and .readings.memory == 67108864'
}

@test "poc: a verdict that is no is exit 1 and scores 0" {
	small >c.json
	answer <c.json >a.json
	small >other.json
	run verdict other.json <a.json
	assert_equal "$status" 1
	jq -e '(.passed | not) and .score_ppm == 0 and (has("proves") | not)
		and (.checks[-1] | .check == "challenge" and (.passed | not))' <<<"$output"
}

@test "poc: time runs on the verifier's clock, from the moment it signed" {
	small --deadline 60s >c.json
	answer <c.json >a.json
	RNP_NOW=$(date -u -d '+61 seconds' +%FT%TZ) run verdict c.json <a.json
	assert_equal "$status" 1
	jq -e '.checks[-1] | .check == "deadline" and (.passed | not)' <<<"$output"
	RNP_NOW=$(date -u -d '-61 seconds' +%FT%TZ) run verdict c.json <a.json
	assert_equal "$status" 1
	RNP_NOW=$(jq -r .issued_at c.json) run verdict c.json <a.json
	assert_equal "$status" 0
	jq -e '.unknown["readings.teraflops"] | test("no time")' <<<"$output"
}

@test "poc: a challenge by somebody else is not believed" {
	small >c.json
	answer <c.json >a.json
	rnp-register keygen --out other.key >/dev/null
	refused 65 "not by this key" rnp-bench verdict --key other.key --challenge c.json a.json
	jq -c '.deadline_ms += 1' c.json >forged.json
	refused 65 "not signed" rnp-bench verdict --key verifier.key --challenge forged.json a.json
	refused 65 "not signed" answer forged.json
	refused 65 "not for this key" rnp-bench answer --key verifier.key c.json
}

@test "poc: an answer that says more or less than it may is refused" {
	local edit
	small >c.json
	answer <c.json >a.json
	for edit in '.devices = []' '.devices[0].matmul.openings = []' '.devices[0].matmul.rows = ""' \
		'.devices[0].chain.checkpoints = ""' '.devices[0].memory.roots = []' 'del(.devices[0].memory)' \
		'.devices[0].matmul.root = null' '.devices += .devices' '.proof = null' 'del(.proof)' '.proof = []' \
		'.devices[0].memory.paths[0] = .devices[0].memory.paths[1]' '.devices[0].readings = {"ops": 1e18}' \
		'.devices[0].device = "cpu:0"' '.node = "11111111111111111111111111111111"'; do
		jq -c "$edit" a.json >bad.json
		run verdict c.json <bad.json
		assert_equal "$edit: $status" "$edit: 1"
		jq -e '.passed | not' <<<"$output" >/dev/null
	done
}

@test "poc: a signature does not make a wrong answer right" {
	local edit
	# without the memory test, so that rnp-register sign accepts the answer
	small | jq -c 'del(.proof, .devices[0].memory)' >plain.json
	rnp-register sign --key verifier.key plain.json >c.json
	answer <c.json >a.json
	for edit in '.devices[0].matmul.openings |= reverse' \
		'.devices[0].matmul.openings[1] = .devices[0].matmul.openings[0]' \
		'.devices[0].matmul.path += "AAAA"' '.devices[0].matmul.rows |= .[4:] + .[:4]' \
		'.devices[0].chain.checkpoints |= .[4:] + .[:4]' '.devices[0].matmul.rows += "="'; do
		jq -c "del(.proof) | $edit" a.json >bad.json
		rnp-register sign --key node.key bad.json >signed.json
		run verdict c.json <signed.json
		assert_equal "$edit: $status" "$edit: 1"
	done
	# the same content signed again is as valid as before
	jq -c 'del(.proof)' a.json >same.json
	rnp-register sign --key node.key same.json | verdict c.json | jq -e .passed
}

@test "poc: what is no answer is an error, in one line" {
	small >c.json
	refused 65 "there is no answer" rnp-bench verdict --key verifier.key --challenge c.json /dev/null
	echo '{"kind":"rnp.node","v":1}' >n.json
	refused 65 "kind" rnp-bench verdict --key verifier.key --challenge c.json n.json
	echo '[' >n.json
	refused 65 "answer" rnp-bench verdict --key verifier.key --challenge c.json n.json
	# parsed JSON would take 75 times as much memory
	{ printf '{"kind":"rnp.answer","v":1,"devices":['; printf '{},%.0s' {1..270000}; echo '{}]}'; } >n.json
	refused 65 "more than 262144 values" rnp-bench verdict --key verifier.key --challenge c.json n.json
	echo '{"kind":"rnp.answer","v":1}' >n.json
	refused 66 "none.json" rnp-bench verdict --key verifier.key --challenge none.json n.json
}

@test "poc: sizes beyond the limits are refused before any work" {
	local edit
	small >c.json
	run small --size 32
	assert_equal "$status" 64
	refused 64 "--size: is not a multiple of 64" small --size 100
	refused 64 "lanes * per_slice" small --memory 2TiB
	refused 64 "per_slice" small --memory 1KiB
	refused 64 "rounds" small --size 16384 --rounds 268435456
	# an answer for a CPU and eight GPUs fits, one for 16 does not
	rnp-bench challenge --node "$NODE" --key verifier.key --device cpu $(printf -- '--device GPU-%s ' {1..8}) >many.json
	refused 64 "larger than 256 MiB" rnp-bench challenge --node "$NODE" --key verifier.key \
		$(printf -- '--device GPU-%s ' {1..16})
	for edit in '.devices[0].matmul.rounds = 4194305' '.devices[0].memory.per_slice = 0' \
		'.devices[0].memory = {"lanes": 65536, "per_slice": 268435456, "passes": 1}' \
		'.devices[0].chain = {"segments": 65536, "steps": 16777216}' '.devices[0] = {"device": "x"}' \
		'.devices += .devices' '.devices = []' '.nonce = "00"'; do
		jq -c "del(.proof) | $edit" c.json >bad.json
		rnp-register sign --key verifier.key bad.json >signed.json
		refused 65 "" answer signed.json
	done
}

@test "poc: a device that is not here is exit 69" {
	small --device GPU-0 >c.json
	refused 69 "GPU-0" answer c.json
	small --device cpu --device GPU-0 >c.json
	refused 69 "GPU-0" answer c.json
}

@test "poc: a challenge that cannot be answered does not keep the node from the next" {
	small --device GPU-0 >absent.json
	small >c.json
	{ cat absent.json; echo '{'; cat c.json; } >in.json
	run_split answer in.json
	assert_equal "$status" 69
	assert_equal "$(jq -r .kind <<<"$output" | tr '\n' ,)" rnp.unanswered,rnp.answer,
	[[ $stderr == *GPU-0*in.json:2:* && $(wc -l <<<"$stderr") == 2 ]]
	tail -1 <<<"$output" | verdict c.json | jq -e .passed
	# but it does not continue when its output cannot be written
	cat c.json c.json >in.json
	run bash -c 'rnp-bench answer --key node.key in.json >/dev/full'
	assert_equal "$status" 74
	assert_equal "$(wc -l <<<"$output")" 1
}

@test "poc: a busy node answers the newest challenge first, and not those whose time is over" {
	beat() {
		jq -nc --arg n "$NODE" --arg at "$1" '{kind: "rnp.heartbeat", v: 1, node: $n, at: $at, interval_s: 60, state: "busy"}'
	}
	for name in old older newer; do small >$name.json; done
	# all of it waits in the pipe when the node reads it
	{ beat "$(date -u -d '-1 hour' +%FT%TZ)" && cat old.json && beat "$(date -u +%FT%TZ)" && cat older.json newer.json; } >waiting
	status=0
	(cat waiting; sleep 1) | answer >answers 2>said || status=$?
	assert_equal "$status" 75
	grep -q 'skipped, the challenge gave' said
	assert_equal "$(wc -l <said)" 1
	head -1 answers | verdict newer.json | jq -e .passed
	sed -n 2p answers | verdict older.json | jq -e .passed
	tail -1 answers | jq -e '.kind == "rnp.unanswered" and (.reason | test("^skipped, the challenge gave .* has waited for 1 h"))'
	assert_equal "$(wc -l <answers)" 3
	# challenges from a file are not urgent: they keep their order
	answer older.json newer.json | head -1 | verdict older.json | jq -e .passed
}

@test "poc: a node may answer one verifier only, and not what is beyond its memory" {
	local v
	v=$(jq -r .node verifier.json)
	small >c.json
	answer --signer "$v" <c.json | verdict c.json | jq -e .passed
	refused 77 "the challenge is by $v" rnp-bench answer --key node.key --signer "$NODE" c.json
	run rnp-bench answer --key node.key --signer nobody c.json
	assert_equal "$status" 64
	# a tebibyte
	jq -c 'del(.proof) | .devices[0].memory = {lanes: 65536, per_slice: 4096, passes: 1}' c.json >huge.json
	rnp-register sign --key verifier.key huge.json >signed.json
	refused 69 "asks for 1040.0 GiB of memory" answer signed.json
}

@test "poc: work that cannot end in its time, or has no room in this hour, is refused before it begins" {
	local huge words='the work takes at least .* here, and the challenge gives 3 s'
	for huge in '.matmul = {n: 4096, rounds: 65536}' '.matmul = {n: 64, rounds: 4000000}' '.chain = {segments: 64, steps: 16777216}' \
		'.memory = {lanes: 64, per_slice: 256, passes: 8} | .matmul = {n: 16384, rounds: 100}'; do
		small --deadline 3s | jq -c "del(.proof) | .devices[0] |= ($huge)" | rnp-register sign --key verifier.key >huge.json
		run_split answer huge.json
		assert_equal "$status" 69
		[[ $stderr =~ huge.json:1:\ refused:\ $words ]] || fail "$stderr"
		[[ $(jq -r 'select(.kind == "rnp.unanswered").reason' <<<"$output") =~ ^refused:\ $words ]] || fail "$output"
	done
	# the verdict has these words, whoever else signs them has none
	run verdict huge.json <<<"$output"
	assert_equal "$status" 1
	jq -e '(.passed | not) and (.checks[0].reason | startswith("the node says: refused: the work takes"))' <<<"$output"
	rnp-register keygen --out other.key >/dev/null
	answer huge.json 2>/dev/null | jq -c 'del(.proof)' | rnp-register sign --key other.key >others.json
	refused 77 "" rnp-bench verdict --key verifier.key --challenge huge.json others.json
	# an hour of which challenges have taken all but a tenth of a second
	mkdir -p cache/rnp
	cp "$XDG_CACHE_HOME/rnp/measured.jsonl" cache/rnp
	echo "$(($(date +%s%3N) - 3500000)) 9950" >cache/rnp/challenges
	small --rounds 20000 --deadline 60s >c.json
	# what is refused exchanges no bytes either: nobody listens at that port
	XDG_CACHE_HOME=$PWD/cache refused 75 "refused: the work takes at least" answer --per-hour 10s --verifier http://127.0.0.1:1 c.json
	[[ $stderr != *"no bandwidth"* ]] || fail "$stderr"
	[[ $stderr == *"of the 10 s that challenges may take in an hour (--per-hour) 50 ms are left"* ]] || fail "$stderr"
	# those of the hour before do not count, and what this one takes does
	echo "$(($(date +%s%3N) - 3700000)) 9950" >cache/rnp/challenges
	XDG_CACHE_HOME=$PWD/cache answer --per-hour 10s c.json | verdict c.json | jq -e .passed
	assert_equal "$(wc -l <cache/rnp/challenges)" 2
	# with the exchange: three tries, and 125 and 250 ms at least between them
	small >c.json
	XDG_CACHE_HOME=$PWD/cache answer --per-hour 10s --verifier http://127.0.0.1:1 c.json 2>said | verdict c.json | jq -e .passed
	grep -q 'no bandwidth was measured' said
	assert [ "$(tail -n 1 cache/rnp/challenges | cut -d ' ' -f 2)" -ge 375 ]
}

@test "poc: work that is late is ended, and the line says what time it had, took and got" {
	local words='late: .* passed, 1 s were allowed, and [0-9]+% of the work was done; it got [0-9]+% of [0-9]+ processor.*, load [0-9.]+, priority .nice. '$(nice -n 5 nice)
	small --size 2048 --deadline 1ms | answer - >/dev/null 2>&1 || true # measures
	# a machine that was faster when it was measured
	mkdir -p cache/rnp
	jq -c '.params.best = 1000000000000000' "$XDG_CACHE_HOME/rnp/measured.jsonl" >cache/rnp/measured.jsonl
	small --rounds 3000000 --deadline 1s >c.json
	XDG_CACHE_HOME=$PWD/cache run_split nice -n 5 rnp-bench answer --key node.key c.json
	assert_equal "$status" 75
	[[ $stderr =~ c.json:1:\ $words ]] || fail "$stderr"
	jq -e '.kind == "rnp.unanswered" and (.reason | startswith("late: "))' <<<"$output"
	# a terminal shows how far it is
	small --rounds 3000000 --deadline 4s >c.json
	XDG_CACHE_HOME=$PWD/cache on_terminal 80 "rnp-bench answer --key node.key c.json" >seen || true
	grep -aq 'challenge .*%' seen
}

@test "poc: every level of the CPU's instructions gives the same answer" {
	local isa
	small >c.json
	RNP_ISA=ref answer <c.json | jq -c 'del(.at, .proof)' >ref.json
	for isa in avx2 avx512; do
		RNP_ISA=$isa answer <c.json 2>/dev/null | jq -c 'del(.at, .proof)' >fast.json
		[[ ! -s fast.json ]] || cmp ref.json fast.json
	done
	OMP_NUM_THREADS=1 answer <c.json | jq -c 'del(.at, .proof)' | cmp ref.json
	# memory for four rounds of 16: the others are computed again when they are opened
	mkdir -p root/proc
	echo 'MemAvailable: 32 kB' >root/proc/meminfo
	RNP_SYSROOT=$PWD/root answer <c.json | jq -c 'del(.at, .proof)' | cmp ref.json
}

# registry EVERY [OPTION...]: starts one that sends challenges, at $URL; teardown stops it
registry() {
	rnp-register serve -q --db registry.db --listen 127.0.0.1:0 --port-file port --key verifier.key \
		--challenge-every "$1" --trust "$(jq -r .node verifier.json)" "${@:2}" 3>&- &
	REGISTRY=$!
	wait_file port
	URL=http://127.0.0.1:$(<port)
	rnp-register detect | jq -c --arg n "$NODE" '{kind, v, at, node: $n}' >n.json
	rnp-register sign --key node.key n.json | rnp-register submit --registry "$URL" >/dev/null
}

# challenged [KEY FILE]: stores in c.json the challenge that the node's heartbeats bring
challenged() {
	asked_now() {
		rnp-register heartbeat --once --registry "$URL" --key "$1" | jq -c 'select(.kind == "rnp.challenge")' >"$2"
		[[ -s $2 ]]
	}
	wait_until 'a challenge' asked_now "${1:-node.key}" "${2:-c.json}"
}

# within SECONDS CHALLENGE: the same challenge, signed again by the registry, with the deadline
# that many seconds from now
within() {
	jq -c --argjson s "$1" 'del(.proof) |
		.deadline_ms = $s * 1000 + (now - (.issued_at[:19] + "Z" | fromdate) | floor) * 1000' "$2" |
		rnp-register sign --key verifier.key
}

stop() {
	kill "$REGISTRY"
	ended "$REGISTRY" || true
	REGISTRY=
	rm -f port
}

teardown() {
	[[ -z ${LOSSY:-} ]] || kill "$LOSSY"
	[[ -z ${BEATING:-} ]] || kill "$BEATING"
	[[ -z ${REGISTRY:-} ]] || { kill "$REGISTRY" && ended "$REGISTRY"; }
}

@test "poc: heartbeat | answer | submit: a registry's challenges become verdicts in its history" {
	registry 1s
	mkfifo beats
	rnp-register heartbeat --registry "$URL" --key node.key --interval 1s >beats 3>&- &
	BEATING=$!
	{ tee beats.jsonl <beats | rnp-bench answer --key node.key | rnp-register submit --registry "$URL" >stored.jsonl; } 3>&- &
	wait_until 'a verdict' grep -qs '"of":"rnp.verdict"' stored.jsonl
	kill "$BEATING"
	BEATING=
	ended "$!" || true
	jq -se '[.[] | select(.kind == "rnp.challenge") | .nonce] | length >= 1 and length == (unique | length)' beats.jsonl
	curl -sS "$URL/v1/records?kind=rnp.verdict&node=$NODE" >history.json
	jq -e --slurpfile v verifier.json '[.. | objects | select(.kind? == "rnp.verdict")] |
		length >= 1 and all(.passed and .signer == $v[0].node)' history.json
}

@test "poc: why a challenge is not answered stands in the verdict, the status and the node's page" {
	registry 1s
	challenged
	echo "$(date +%s%3N) 9999" >challenges
	CACHE_DIRECTORY=$PWD answer --per-hour 1s c.json 2>said | rnp-register submit --registry "$URL" >stored.jsonl || true
	grep -q 'refused: the work takes at least .* are left$' said
	jq -e '.of == "rnp.unanswered"' stored.jsonl
	failed_in_status() { rnp-register status --registry "$URL" --key node.key >status.json && jq -e .reason status.json; }
	wait_until 'the verdict' failed_in_status
	jq -e --arg said "$(sed 's/.*refused: //' said)" '.reason == "answer: the node says: refused: " + $said and (.next | test("not passed"))' status.json
	curl -sS "$URL/nodes/$NODE" | grep -q 'the node says: refused: the work takes at least'
	# it is closed: neither that nor an answer counts any more, and submit says nothing twice
	CACHE_DIRECTORY=$PWD answer --per-hour 1s c.json 2>/dev/null | rnp-register submit --registry "$URL" 2>&1 | (! grep .)
}

@test "poc: a challenge whose reply was lost comes with another heartbeat at once" {
	registry 1s
	rnp-register heartbeat --once --registry "$URL" --key node.key >/dev/null
	sleep 2.1 # from now on a challenge is due
	python3 "$ROOT/tests/tools/fake_http.py" "lose-reply:$(<port)" lossy 3>&- &
	LOSSY=$!
	wait_file lossy
	rnp-register heartbeat --once --registry "http://127.0.0.1:$(<lossy)" --key node.key >beats.jsonl
	# the heartbeat whose reply was lost, the one after it, and the challenge that it
	# brought
	jq -ce '.kind' beats.jsonl | tee kinds
	assert_equal "$(tr '\n' ' ' <kinds)" '"rnp.heartbeat" "rnp.heartbeat" "rnp.challenge" '
	curl -sS "$URL/v1/records?kind=rnp.heartbeat&node=$NODE" | jq -e '.records | length == 3'
}

@test "poc: a registry takes an answer once, and only the node's own to what is open" {
	registry 1s
	challenged
	answer c.json >a.json
	jq -c '.proof.proofValue |= sub("^z."; "z1")' a.json >forged.json
	run rnp-register submit --registry "$URL" forged.json
	assert_failure
	# a record that claims to answer this challenge but answers another does not use it up
	tail -1 a.json | jq -c 'del(.proof) | .devices |= map({device}) | .challenge_sha256 |= (explode | reverse | implode)' |
		rnp-register sign --key node.key >other.json
	assert_equal "$(curl -s -o refused.json -w '%{http_code}' --data-binary @other.json \
		"$URL/v1/answers?node=$(jq -r .node c.json)&challenge=$(tail -1 a.json | jq -r .challenge_sha256)")" 409
	rnp-register submit --registry "$URL" a.json | jq -e '.of == "rnp.verdict" and .new'
	run rnp-register submit --registry "$URL" a.json
	assert_failure
	small >own.json
	answer own.json >b.json
	run rnp-register submit --registry "$URL" b.json
	assert_failure
	# a late answer does not end the pipe: the next record is stored
	rnp-register sign --key node.key <<<"$(jq -c '.name = "late"' n.json)" >next.json
	run_split rnp-register submit --registry "$URL" a.json b.json next.json
	assert_equal "$status" 1
	jq -e '.of == "rnp.node"' <<<"$output"
	# the roots and the answer of the first, and the answer of the second
	assert_equal "$(grep -c 'no such challenge' <<<"$stderr")" 3
}

@test "poc: while one answer is judged the registry replies to others, and an answer that waits is not late" {
	local begun asked replied sent slow_done done
	registry 1s
	rnp-register keygen --out slow.key >slow.json
	# a challenge that takes seconds to verify: the registry is to have the slowest hashes,
	# and one thread for HTTP
	jq -c --slurpfile k slow.json '.node = $k[0].node | .memory_bytes = 268435456 | .cpu = {threads: 2, isa: ["avx2"]}' n.json |
		rnp-register sign --key slow.key | rnp-register submit --registry "$URL"
	challenged slow.key slow.c
	begun=$EPOCHREALTIME
	challenged
	stop
	within 120 slow.c >slow.long
	answer --key slow.key slow.long >slow.a
	# a deadline that ends while the other answer is being verified, measured by the speed
	# of this machine
	asked=$EPOCHREALTIME
	answer c.json >a.json
	within "$(jq -n "$EPOCHREALTIME - $asked | 4 * . + 4 | ceil")" c.json >short.json
	answer short.json >a.json
	sqlite3 registry.db "DELETE FROM challenges; INSERT INTO challenges VALUES ('0', '$(<slow.long)'), ('1', '$(<short.json)')"
	RNP_ISA=ref registry 1h --threads 1
	{
		rnp-register submit --registry "$URL" slow.a >slow.stored
		echo "$EPOCHREALTIME" >slow.done
	} 3>&- &
	sleep 1
	asked=$EPOCHREALTIME
	curl -sSf "$URL/health"
	replied=$EPOCHREALTIME
	sent=$EPOCHREALTIME
	rnp-register submit --registry "$URL" a.json >stored.jsonl
	done=$EPOCHREALTIME
	wait $!
	slow_done=$(<slow.done)
	echo "begun $begun asked $asked replied $replied sent $sent slow $slow_done done $done"
	jq -ne "$replied < $slow_done"
	curl -sS "$URL/v1/records?kind=rnp.verdict&node=$NODE" >history.json
	jq -c '[.. | objects | select(.kind? == "rnp.verdict")] | map({passed, elapsed_ns, roundtrip_ns, checks})' history.json
	jq -e "[.. | objects | select(.kind? == \"rnp.verdict\")] | length == 1 and
		(.[0] | .passed and .elapsed_ns / 1e9 < $sent - $begun + ($done - $sent) / 2 and .roundtrip_ns > 0
			and .roundtrip_ns <= .elapsed_ns / 2)" history.json
}

@test "poc: a challenge survives a restart of the registry, and its answer is taken then" {
	registry 1s
	challenged
	answer c.json >a.json
	stop
	registry 1s
	rnp-register submit --registry "$URL" a.json | jq -e '.of == "rnp.verdict" and .new'
	stop
	assert_equal "$(sqlite3 registry.db 'SELECT count(*) FROM challenges')" 0
}

@test "poc: who does not answer has failed, also when the registry was restarted meanwhile" {
	local begun=$EPOCHREALTIME up
	registry 1s
	up=$(jq -n "$EPOCHREALTIME - $begun | ceil")
	challenged
	jq -e '.deadline_ms <= 60000' c.json
	stop
	# the registry has to be up again before: challenges that fell due while it was away are
	# forgotten
	within $((3 + 4 * up)) c.json >signed.json
	sqlite3 registry.db "DELETE FROM challenges; INSERT INTO challenges VALUES ('0', '$(cat signed.json)')"
	registry 1h
	judged() {
		curl -sS "$URL/v1/records?kind=rnp.verdict&node=$NODE" >history.json
		jq -e '[.. | objects | select(.kind? == "rnp.verdict")] | length == 1' history.json >/dev/null
	}
	wait_until 'a verdict' judged
	jq -e '[.. | objects | select(.kind? == "rnp.verdict")] | length == 1 and
		all((.passed | not) and .score_ppm == 0 and (.checks[0].reason | test("no answer")))' history.json
}

@test "poc: claims say what is asked, by class: all memory of a GPU less 15%, a machine's fourth" {
	jq -cn --arg n "$NODE" '{kind: "rnp.node", v: 1, at: "2026-01-01T00:00:00Z", node: $n, memory_bytes: 8589934592,
		cpu: {threads: 2, isa: ["avx2"]}, gpus: [{uuid: "GPU-1", model: "NVIDIA H200", memory_bytes: 150754820096},
		{uuid: "GPU-2", model: "NVIDIA GeForce RTX 4090", memory_bytes: 25757220864}, {model: "without a uuid"},
		{uuid: "GPU-3", model: "NVIDIA H200", memory_bytes: 150754820096, mig: true}]}' >n.json
	rnp-bench challenge --node "$NODE" --key verifier.key --claims n.json >c.json
	jq -e '(.devices | length) == 3 and ([.devices[].device] | .[1:] | sort) == ["GPU-1", "GPU-2"] and
		(.devices[0].memory | .lanes * .per_slice * 4096 == 2147483648) and
		((.devices[] | select(.device == "GPU-1")).memory | .lanes * .per_slice * 4096 / 150754820096 | . > 0.84 and . <= 0.851) and
		((.devices[] | select(.device == "GPU-2")).memory | .lanes * .per_slice * 4096 / 25757220864 | . > 0.84 and . <= 0.851) and
		([.devices[].matmul.n] | sort) == [1024, 4096, 8192]' c.json
	# a container of two CPUs and 2 GiB on a machine of 64 CPUs gets the challenge of a
	# machine of the container's size
	jq -c 'del(.gpus) | .cpu.threads = 64 | .limits = {cpus: 32, cpu_milli: 2000, memory_bytes: 2147483648}' n.json >container.json
	jq -c 'del(.gpus) | .memory_bytes = 2147483648' n.json >machine.json
	rnp-bench challenge --node "$NODE" --key verifier.key --claims container.json >limited.json
	rnp-bench challenge --node "$NODE" --key verifier.key --claims machine.json >whole.json
	jq -es 'map({devices, deadline_ms}) | .[0] == .[1]' limited.json whole.json
	# the model decides, whatever memory is claimed beside it, and a name that leaves the
	# variant open means the slowest
	jq -c '.gpus = [{uuid: "GPU-1", model: "NVIDIA H200", memory_bytes: 1000000000}]' n.json >small.json
	rnp-bench challenge --node "$NODE" --key verifier.key --claims small.json >small.c
	jq -es '.[0].deadline_ms <= .[1].deadline_ms and
		([.[] | .devices[] | select(.device == "GPU-1") | .matmul] | .[0] == .[1]) and
		(.[0].devices[1].memory | .lanes * .per_slice * 4096 / 151397597184 | . > 0.75)' small.c c.json
	for model in H100 "A100 80GB"; do
		jq -c --arg m "$model" '.gpus = [{uuid: "GPU-1", model: $m}]' n.json >open.json
		rnp-bench challenge --node "$NODE" --key verifier.key --claims open.json |
			jq -e '.devices[1].matmul.n >= 4096 and (.devices[1].memory | .lanes * .per_slice * 4096 > 20e9)'
	done
	# the challenge is about this record and no other
	assert_equal "$(jq -r .node_record c.json)" "$(jq -c 'del(.proof)' n.json | rnp-register canon | tr -d '\n' | sha256sum | cut -d' ' -f1)"
	refused 64 "claims" rnp-bench challenge --node "$NODE" --key verifier.key --claims n.json --quick
	refused 65 "not --node" rnp-bench challenge --node "$(jq -r .node verifier.json)" --key verifier.key --claims n.json
}
