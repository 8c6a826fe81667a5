# What a customer types: plan, book, clusters, account, release.
load ../helper
load registry
load sign
load market

teardown() {
	stopped_with=0
	stop_registry
	((stopped_with == 0)) || { cat serve.err; return 1; }
}

@test "market: plan, book, clusters, release and account, from a job file" {
	start_market
	sells a 2
	sells b 2
	make_key c
	export RNP_REGISTRY=$url
	printf '%s\n' 'resources:' '  accelerators: RTX4090:2' 'run: nvidia-smi' >task.yaml
	run_split rnp-register plan task.yaml
	assert_success
	jq -e '.offers | length == 2 and .[0].uusd_per_hour == 525000' <<<"$output"
	echo "$output" >p.json

	# no money, nothing done
	refused 77 "0.525000 $ are missing" rnp-register book -q --key c.json p.json
	run_split rnp-register clusters --key c.json
	assert_success
	assert_output ''
	pays c 5000000
	ssh-keygen -q -t ed25519 -N '' -f id
	refused 64 "is a secret key" rnp-register book -q --key c.json --ssh-key id p.json
	run_split rnp-register book --key c.json --hours 2 --ssh-key id.pub --budget 0.80 p.json
	assert_success
	[[ $stderr == *"plan    "*"0.525000 $/h"* ]] || fail "$stderr"
	cluster=$(jq -r .cluster <<<"$output")
	assert_equal "$(sqlite3 registry.db "SELECT json_extract(body, '\$.ssh_keys[0]') FROM clusters")" "$(cat id.pub)"
	assert_equal "$(sqlite3 registry.db 'SELECT limit_uusd FROM clusters')" 800000

	# taken meanwhile: the registry's new proposal costs no more and is booked in its place
	run_split rnp-register book -q --key c.json p.json
	assert_success
	assert [ "$(jq -r '.nodes[0].node' <<<"$output")" != "$(jq -r '.offers[0].nodes[0].node' p.json)" ]
	second=$(jq -r .cluster <<<"$output")
	refused 75 "let already" rnp-register book -q --key c.json p.json

	run_split rnp-register clusters --key c.json
	assert_equal "$(jq -r .cluster <<<"$output")" "$cluster"$'\n'"$second"
	COLUMNS=100 run_split rnp-register clusters --key c.json --table
	[[ ${lines[0]} == cluster*state*cause*'$/h'* ]] || fail "$output"
	node=$(jq -r '.offers[0].nodes[0].node' p.json)
	who=$([[ $node == "$a" ]] && echo a || echo b)
	rnp-register clusters --key c.json --wait ready "$cluster" >ready.json 3>&- &
	waiter=$!
	becomes_ready "$who" 0
	wait "$waiter"
	assert_equal "$(jq -r .state ready.json)" ready
	refused 75 "is ready still" rnp-register clusters --key c.json --wait released --timeout 3s "$cluster"

	# more time and money, other keys, another node
	run_split rnp-register extend --key c.json --hours 3 --budget 1.5 "$cluster"
	assert_success
	assert_equal "$(sqlite3 registry.db 'SELECT hours, limit_uusd FROM clusters WHERE id = 1')" '5|1500000'
	misused "--hours is missing, or --budget" rnp-register extend --key c.json "$cluster"
	ssh-keygen -q -t ed25519 -N '' -f other
	run_split rnp-register keys --key c.json --ssh-key other.pub "$cluster"
	assert_success
	assert_equal "$(sqlite3 registry.db 'SELECT ssh_keys FROM clusters WHERE id = 1' | jq -r '.[]')" "$(cut -d' ' -f1,2 other.pub)"
	run_split rnp-register keys --key c.json --none "$cluster"
	assert_equal "$(sqlite3 registry.db 'SELECT ssh_keys FROM clusters WHERE id = 1')" '[]'
	misused "either --ssh-key F, or --none" rnp-register keys --key c.json "$cluster"
	refused 64 "is a secret key" rnp-register keys --key c.json --ssh-key other "$cluster"
	misused "--rank is missing" rnp-register replace --key c.json "$cluster"
	refused 75 "no spare of the booking is free" rnp-register replace --key c.json --rank 0 "$cluster"
	refused 65 "which rank" rnp-register replace --key c.json --rank 9 "$cluster"

	run_split rnp-register release --key c.json --cause 'done here' "$cluster" "$second"
	assert_success
	assert_equal "$(jq -r .state <<<"$output")" $'releasing\nreleased'
	jq -se '.[0].cause | contains("done here")' <<<"$output"
	refused 1 "the cluster is released" rnp-register clusters --key c.json --wait ready "$second"
	run_split rnp-register clusters --key c.json --all
	assert_equal "$(wc -l <<<"$output")" 2
	run_split rnp-register account --key c.json
	jq -e '.clusters == 1 and .deposited_uusd == 5000000' <<<"$output"

	printf '%s\n' 'resources:' '  accelerators: H100:8' 'run: nvidia-smi' >big.yaml
	run_split rnp-register plan big.yaml
	assert_equal "$status" 69
	jq -e '.offers == [] and .left_out.model == 2' <<<"$output"
	[[ $stderr == *model* ]] || fail "$stderr"
	refused 69 model rnp-register book -q --key c.json big.yaml
	refused 1 "you have no such cluster" rnp-register release --key a.json "$cluster"
	misused "cluster" rnp-register release --key c.json
	refused 64 "for which cluster" rnp-register clusters --key c.json --wait ready
}

@test "market: clocks ten minutes apart are named with both times, and a key of another type with its remedy" {
	start_market
	sells a 1
	make_key c
	pays c 5000000
	jq -nc '{kind: "rnp.job", v: 1, job: "j", hours: 1}' >job.json
	for apart in '-10 min' '+10 min'; do
		RNP_NOW=$(date -u -d "$apart" +%FT%TZ) run_split rnp-register account --registry "$url" --key c.json
		assert_failure 77
		[[ $stderr == *"; our clock shows $(date -u +%FT)"* ]] || fail "$stderr"
		RNP_NOW=$(date -u -d "$apart" +%FT%TZ) run_split rnp-register book --registry "$url" --key c.json job.json
		assert_failure 65
		[[ $stderr == *"more than 5 minutes from our clock, which shows $(date -u +%FT)"*"(set the clock, and sign anew)"* ]] || fail "$stderr"
	done
	ssh-keygen -q -t rsa -b 2048 -N '' -f rsa
	refused 65 "rsa.pub: no key of a type that is let in: 'ssh-rsa' (make one with ssh-keygen -t ed25519, and give its .pub file)" \
		rnp-register book -q --registry "$url" --key c.json --ssh-key rsa.pub job.json
	refused 64 "is a secret key; the public one ends in .pub" rnp-register book -q --registry "$url" --key c.json --ssh-key rsa job.json
	rnp-register clusters --all --registry "$url" --key c.json >clusters
	[[ ! -s clusters ]] || fail "$(cat clusters)"
}

@test "market: logs of a job that does nothing say where its ranks are, since when, until when, and why" {
	start_market
	sells a 1
	make_key c
	pays c 5000000
	plans
	books c
	run_split rnp-register logs --registry "$url" --key c.json "$cluster"
	assert_success
	[[ $stderr == *"nothing was printed so far"*"rank 0: reserved since $(date -u +%FT)"*", until "*" at most: booked" ]] || fail "$stderr"
	becomes_ready a 0
	says a 0 failed '{cause: "the disk is full"}'
	run_split rnp-register logs -f --registry "$url" --key c.json "$cluster"
	assert_success
	[[ $stderr == *"rank 0: failed since "*": the disk is full"* ]] || fail "$stderr"
}
