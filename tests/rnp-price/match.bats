# rnp-price match: jobs and nodes in, matches out.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export RNP_NOW=2026-11-22T10:00:00Z
}

# offer ID MODEL GPUS UUSD [MORE]: prints an offer
offer() {
	echo "{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"$1\",\"gpu_model\":\"$2\",\"gpu_count\":$3,\"uusd_per_gpu_hour\":$4,\"spot\":false${5:+,$5}}"
}

# job ID [MORE]: prints a job
job() {
	echo "{\"kind\":\"rnp.job\",\"v\":1,\"job\":\"$1\"${2:+,$2}}"
}

match() {
	run_split rnp-price match "$@"
	assert_success
}

# where JOB: prints its nodes and price as "node:gpus,... price"
where() {
	jq -r --arg j "$1" 'select(.job == $j) | (.nodes | map("\(.node):\(.gpus | join(","))") | join(" ")) + " \(.uusd_per_hour // "-")"' <<<"$output"
}

# why JOB: prints why it waits
why() {
	jq -r --arg j "$1" 'select(.job == $j).waiting' <<<"$output"
}

@test "match: the cheapest node that has what the job asks for, and the reason where none has" {
	{
		offer a "RTX 4090" 2 400000 '"country":"US","gpu_memory_bytes":25769803776'
		offer b "GeForce RTX 4090" 4 300000 '"country":"DE","gpu_memory_bytes":25769803776'
		offer c "H100 SXM" 8 2100000 '"country":"DE","gpu_memory_bytes":85899345920,"reliability_ppm":990000'
		offer d "RTX 4090" 1 100000 '"rented":true'
	} >offers
	{
		job one '"gpu_model":"NVIDIA GeForce RTX 4090"'
		job us '"gpu_model":"4090","region":"us","gpu_count":2'
		job any '"gpu_memory_bytes":64000000000'
		job many '"gpu_model":"RTX 4090","gpu_count":16'
		job dear '"gpu_model":"H100 SXM","gpu_count":4,"max_uusd_per_hour":8000000'
		job none '"gpu_model":"H200"'
		job there '"gpu_model":"H100 SXM","region":"FR"'
		job good '"gpu_model":"H100 SXM","reputation_ppm":995000'
		job law '"compliance":["GDPR"]'
	} >jobs
	match jobs offers
	assert_equal "$(where one)" "m/b:0 300000"
	assert_equal "$(where us)" "m/a:0,1 800000"
	assert_equal "$(where any)" "m/c:0 2100000"
	assert_equal "$(why many)" "the largest of 2 nodes has 4 GPUs, the job wants 16"
	assert_equal "$(why dear)" 'the cheapest of 1 nodes asks 8.400000 $/h, above the limit'
	assert_equal "$(why none)" "no node has such a GPU"
	assert_equal "$(why there)" "none of 1 nodes is there"
	assert_equal "$(why good)" "none of 1 nodes has the reputation"
	assert_equal "$(why law)" "none of 3 nodes complies with all that is asked"
	assert_equal "$(jq -r 'select(.job == "one") | .start + " " + .end' <<<"$output")" \
		"2026-11-22T10:00:00Z 2026-11-22T11:00:00Z"
	for kind in job match; do rnp-price --schema "rnp.$kind" | jq -e . >/dev/null; done
}

@test "match: nodes with their quotes, several nodes for one job, a part of a GPU" {
	rnp-register keygen --out k.json >/dev/null 2>&1
	local a
	a=$(rnp-register address --key k.json)
	jq -c --arg a "$a" '.node = $a | .gpus = [.gpus[0], .gpus[0]] | .gpus[1].uuid = "GPU-2"' "$ROOT/tests/data/rtx4090.node.json" >nodes
	{
		jq -nc --arg a "$a" '{kind:"rnp.quote",v:1,node:$a,at:"2026-11-22T09:00:00Z",ask_uusd:900,customer_uusd:700001,floor_uusd:1,why:[]}'
		jq -nc --arg a "$a" '{kind:"rnp.quote",v:1,node:$a,at:"2026-11-21T09:00:00Z",ask_uusd:900,customer_uusd:1,floor_uusd:1,why:[]}'
		jq -nc '{kind:"rnp.node",v:1,at:"2026-11-22T09:00:00Z",node:"11111111111111111111111111111111",gpus:[{model:"RTX 4090"}]}'
		offer x "RTX 4090" 2 400000
	} >>nodes
	{
		job wide '"gpu_model":"RTX 4090","gpu_count":4,"nodes_max":2'
	} >jobs
	# a quote may come before its node
	tac nodes >backwards
	match jobs backwards
	assert_equal "$(where wide)" "$a:0,1 m/x:0,1 1500001"
	match jobs nodes
	[[ $stderr == *"1 node without a quote or without GPUs: not for sale"* ]]
	assert_equal "$(where wide)" "$a:0,1 m/x:0,1 1500001"
	# the price of a node is divided by its GPUs, rounded up; jobs that want parts share one
	# GPU
	{ job p '"gpu_share_ppm":500000'; job q '"gpu_share_ppm":500000'; job r '"gpu_share_ppm":600000'; } >jobs
	match jobs nodes
	assert_equal "$(where p)" "$a:0 175001"
	assert_equal "$(where q)" "$a:0 175001"
	assert_equal "$(where r)" "$a:1 210001"
	# of GPUs of several models the quoted ones are let, by their places in the record
	card='{model: "NVIDIA T400 4GB", memory_bytes: 4294967296}'
	jq -c "if .gpus and .name then .gpus = [$card] + .gpus else . end" nodes >mixed
	job wide '"gpu_model":"RTX 4090","gpu_count":4,"nodes_max":2' >jobs
	match jobs mixed
	assert_equal "$(where wide)" "$a:1,2 m/x:0,1 1500001"
	# what runs there is found again, and a quote for other GPUs sells none of these
	jq -c '.end = "2026-11-23T10:00:00Z"' <<<"$output" >running
	job one '"gpu_model":"RTX 4090"' >jobs
	match --running running jobs mixed
	assert_equal "$(where one)" " -"
	jq -c 'if .kind == "rnp.quote" then .spec = {gpu_model: "RTX 3090"} else . end' mixed >other
	match jobs other
	assert_equal "$(where one)" "m/x:0 400000"
}

@test "match: who comes first: rendering, the higher bid, the owner with less, the node with less work" {
	offer a "RTX 4090" 1 100000 >offers
	{
		job low '"max_uusd_per_hour":200000'
		job high '"max_uusd_per_hour":300000'
		job film '"max_uusd_per_hour":150000,"work":"render"'
	} >jobs
	match jobs offers
	assert_equal "$(where film)" "m/a:0 100000"
	assert_equal "$(why high)" "all 1 nodes that fit are busy"
	grep -v film jobs >two
	match two offers
	assert_equal "$(where high)" "m/a:0 100000"
	# as running jobs end, waiting ones begin
	match --until 2026-11-23T00:00:00Z jobs offers
	assert_equal "$(jq -r '.job + " " + .start' <<<"$output" | tr '\n' ' ')" \
		"film 2026-11-22T10:00:00Z high 2026-11-22T11:00:00Z low 2026-11-22T12:00:00Z "
	# las: after a's first job it is b's turn, although a's second job came before b's
	offer b "RTX 4090" 2 100000 >offers
	{ job a1 '"owner":"a"'; job a2 '"owner":"a"'; job b1 '"owner":"b"'; } >jobs
	match --algorithm las jobs offers
	assert_equal "$(jq -r 'select(.start).job' <<<"$output" | tr '\n' ' ')" "a1 b1 "
	{ job a1 '"owner":"a","share_ppm":3000000'; job a2 '"owner":"a","share_ppm":3000000'; job b1 '"owner":"b"'; job b2 '"owner":"b"'; } >jobs
	offer b "RTX 4090" 4 100000 >offers
	match --algorithm las jobs offers
	assert_equal "$(jq -r .job <<<"$output" | tr '\n' ' ')" "a1 b1 a2 b2 "
	# RNP-019: nodes take turns, whatever their price
	{ offer a "RTX 4090" 2 300000; offer b "RTX 4090" 2 100000; } >offers
	{ job j1; job j2; job j3; } >jobs
	match --algorithm rotation jobs offers
	assert_equal "$(where j1), $(where j2), $(where j3)" "m/a:0 300000, m/b:0 100000, m/a:1 300000"
}

@test "match: gavel takes the least cost for the work, fgd leaves whole nodes whole" {
	{ offer a "RTX 3090" 1 200000; offer b "RTX 4090" 1 300000; } >offers
	job j '"type":"resnet","gpu_models":["RTX 3090","RTX 4090"],"hours":3' >jobs
	echo '{"resnet":{"RTX 3090":100,"RTX 4090":300}}' >rates
	match --algorithm gavel --throughputs rates jobs offers
	assert_equal "$(where j)" "m/b:0 300000"
	assert_equal "$(jq -r .end <<<"$output")" 2026-11-22T11:00:00Z # three hours of a 3090
	echo '{"resnet":{"RTX 3090":100,"RTX 4090":120}}' >rates
	match --algorithm gavel --throughputs rates jobs offers
	assert_equal "$(where j)" "m/a:0 200000"
	refused 64 "gavel needs --throughputs" rnp-price match --algorithm gavel jobs offers
	local rate
	for rate in -1 1e300 1e-300; do
		echo "{\"resnet\":{\"RTX 3090\":$rate}}" >rates
		refused 65 "not a throughput" rnp-price match --algorithm gavel --throughputs rates jobs offers
	done
	# who had less done for his share comes first: an hour on the fast GPU is more than one on the slow one
	{ offer a "RTX 3090" 1 100000; offer b "RTX 4090" 1 100000; } >offers
	echo '{"resnet":{"RTX 3090":1,"RTX 4090":3}}' >rates
	{
		job fast '"type":"resnet","gpu_models":["RTX 4090","RTX 3090"],"owner":"x"'
		job slow '"type":"resnet","gpu_models":["RTX 3090","RTX 4090"],"owner":"y"'
		job x2 '"type":"resnet","gpu_models":["RTX 4090","RTX 3090"],"owner":"x","at":"2026-11-22T10:30:00Z"'
		job y2 '"type":"resnet","gpu_models":["RTX 4090","RTX 3090"],"owner":"y","at":"2026-11-22T10:30:00Z"'
	} >jobs
	match --algorithm gavel --throughputs rates --until 2026-11-22T12:00:00Z jobs offers
	assert_equal "$(jq -r 'select(.start) | "\(.job) \(.nodes[0].node) \(.start[11:16])"' <<<"$output" | tr '\n' ' ')" \
		"fast m/b 10:00 slow m/a 10:00 y2 m/b 11:00 x2 m/a 11:00 "
	{ offer a "RTX 4090" 4 100000; offer b "RTX 4090" 2 200000; } >offers
	{ job j1 '"gpu_count":2'; job j2 '"gpu_count":4,"at":"2026-11-22T10:00:01Z"'; } >jobs
	match --algorithm fgd jobs offers
	assert_equal "$(where j1), $(where j2)" "m/b:0,1 400000, m/a:0,1,2,3 400000"
	match jobs offers
	assert_equal "$(where j1)" "m/a:0,1 200000"
	assert_equal "$(why j2)" "all 1 nodes that fit are busy"
}

@test "backtest: several GPU models, each job where it is fast for its turn" {
	# on the V100 a runs ten times as fast as on the K80, b as fast on both
	printf 'timestamp,duration,num_gpus,job_type\n2026-01-01 00:00:00,36000,1,b\n2026-01-01 00:00:00,36000,1,a\n2026-01-01 00:00:00,60,2,a\n2026-01-01 00:00:00,0,1,b\n' >jobs
	echo '{"a":{"V100":10,"K80":1,"H100":9},"b":{"V100":5,"K80":5},"c":{"V100":1}}' >rates
	local args=(--jobs jobs --throughputs rates --cluster v100=1,k80=1)
	run_split rnp-price backtest "${args[@]}"
	assert_success
	# the shortest makespan is ten hours: a has the V100 for all of its time and b the K80. match puts b,
	# which comes first, on the V100, and there it stays: a takes 100 h on the K80
	jq -se 'map({key: .algorithm, value: .}) | from_entries | (map(.refused == 1 and .runs == 3) | all) and
		.["gavel-makespan"].makespan_s < 36000 * 1.05 and .["gavel-match"].makespan_s == 360000 and
		.gavel.makespan_s < 1.3 * 36000 and .["max-min"].makespan_s > 1.5 * 36000' <<<"$output" || fail "$output"
	OMP_NUM_THREADS=1 rnp-price backtest "${args[@]}" | cmp - <(echo "$output")
	run_split rnp-price backtest "${args[@]}" --algorithm gavel --window 2:3
	assert_equal "$(jq -c '[.runs, .mean_s == .makespan_s]' <<<"$output")" '[1,true]'
	refused 64 "belong together" rnp-price backtest --jobs jobs --cluster v100=1
	refused 64 "takes the place of --gpus" rnp-price backtest "${args[@]}" --gpus 3
	refused 64 "--window is one of --cluster" rnp-price backtest --jobs jobs --gpus 3 --window 1:2
	refused 64 "las is not one for --cluster" rnp-price backtest "${args[@]}" --algorithm las
	refused 64 "gavel is not one for --jobs with --gpus" rnp-price backtest --jobs jobs --gpus 2 --algorithm gavel
	local bad
	for bad in '=1' 'v100' 'v100=1,' 'v100=1,k80' 'v100=0' 'v100=x' 'v100=1,Tesla V100=1' 'v100=1e9'; do
		refused 64 "--cluster" rnp-price backtest --jobs jobs --throughputs rates --cluster "$bad"
	done
	for bad in 1 1: 2:2 3:1 0:5 x:2; do
		refused 64 "--window" rnp-price backtest "${args[@]}" --window "$bad"
	done
	refused 65 "has no throughput on A100" rnp-price backtest --jobs jobs --throughputs rates --cluster a100=8
	cut -d, -f1-3 jobs >untyped
	refused 65 "no column 'job_type'" rnp-price backtest --jobs untyped --throughputs rates --cluster v100=1
	echo '{"a":{"V100":"10"}}' >rates
	refused 65 "not a throughput" rnp-price backtest "${args[@]}"
}

@test "backtest: Gavel's cluster, within 2% of what its authors' simulator printed" {
	local rates
	rates=$(data jobs/simulation_throughputs.json.gz) || skip_data
	python3 "$ROOT/tests/tools/gavel_trace.py" "$rates" 4.4 0 6000 jobs rates
	run_split rnp-price backtest --jobs jobs --throughputs rates --cluster v100=36,p100=36,k80=36 --window 4000:5000
	assert_success
	# 23.81 and 17.48 h: stanford-futuredata/gavel, scheduler/notebooks/figures/evaluation/continuous_jobs.ipynb
	jq -se 'map({key: .algorithm, value: .mean_s}) | from_entries |
		(.["max-min"] / 3600 / 23.81 - 1 | fabs < 0.02) and (.gavel / 3600 / 17.48 - 1 | fabs < 0.02)' <<<"$output" || fail "$output"
}

@test "match: an auction has one price for buyers and one for sellers, and pays its way" {
	{ offer a "RTX 4090" 1 100000; offer b "RTX 4090" 1 200000; offer c "RTX 4090" 1 300000; } >offers
	{
		job j1 '"gpu_model":"RTX 4090","max_uusd_per_hour":400000'
		job j2 '"gpu_model":"RTX 4090","max_uusd_per_hour":350000'
		job j3 '"gpu_model":"RTX 4090","max_uusd_per_hour":150000'
		job j4 '"gpu_model":"RTX 4090"'
	} >jobs
	# two pairs; the mean of the third, (150000 + 300000) / 2, lies between 200000 and
	# 350000
	match --algorithm auction jobs offers
	assert_equal "$(where j1), $(where j2)" "m/a:0 225000, m/b:0 225000"
	assert_equal "$(jq -r 'select(.start).node_uusd_per_hour' <<<"$output" | sort -u)" 225000
	[[ $(why j4) == *"takes bids"* ]]
	# without a third ask the second pair sets the prices and does not trade
	head -2 offers >two
	match --algorithm auction jobs two
	assert_equal "$(where j1)" "m/a:0 350000"
	assert_equal "$(jq -r 'select(.start).node_uusd_per_hour' <<<"$output")" 200000
}

@test "match: what runs keeps its GPUs, and a log played again gives the same matches" {
	{ offer a "RTX 4090" 2 100000; offer b "RTX 4090" 2 200000; } >offers
	{
		job j1 '"at":"2026-11-22T10:00:00Z","hours":2'
		job j2 '"at":"2026-11-22T10:30:00Z","gpu_count":2'
		job j3 '"at":"2026-11-22T11:40:00Z","gpu_count":2'
		job j4 '"at":"2026-11-22T12:00:00Z","gpu_count":2'
	} >log
	match log offers
	jq -c 'del(.algorithm)' <<<"$output" >whole
	assert_equal "$(jq -r '.nodes[0].node' whole | tr '\n' ' ')" "m/a m/b m/b m/a "
	: >running
	while read -r line; do
		rnp-price match --running running <(echo "$line") offers >>more
		cat more >running
	done <log
	cmp <(jq -c 'del(.algorithm)' running) whole
	jq -c 'select(.job == "j1")' running >twice
	jq -c 'select(.job == "j1")' running >>twice
	refused 65 "these GPUs are taken" rnp-price match --running twice log offers
}

@test "match: bad jobs and nodes are refused by name" {
	{ offer a "RTX 4090" 1 100000; offer a "RTX 4090" 1 50000 | sed 's/"spot":false/"spot":true/'; } >offers
	job a '"spot":true' >jobs
	match jobs offers
	assert_equal "$(where a)" "m/a:0 100000" # on demand and as spot: sold once, on demand
	offer a "RTX 4090" 1 100000 >offers
	job a >jobs
	{ job a; job b; job a; } >twice
	refused 65 "twice:3: there is a job 'a' already" rnp-price match twice offers
	cat offers offers >two
	refused 65 "two:2: there is an offer 'm/a' already" rnp-price match jobs two
	job a '"hours":1,"seconds":3' >bad
	refused 65 "hours and seconds" rnp-price match bad offers
	job a '"gpu_count":2,"gpu_share_ppm":500000' >bad
	refused 65 "gpu_share_ppm is of one GPU" rnp-price match bad offers
	job a '"gpu_count":-1' >bad
	refused 65 "gpu_count" rnp-price match bad offers
	job a '"max_uusd_per_hour":1e30' >bad
	refused 65 "max_uusd_per_hour" rnp-price match bad offers
	refused 65 "no node is for sale" rnp-price match jobs /dev/null
	refused 65 "rnp.job, where rnp.node" rnp-price match jobs jobs
	refused 66 "absent" rnp-price match jobs absent
	offer big "H100 SXM" 16 1 >offers
	refused 65 "has 16 GPUs, at most 8" rnp-price match --algorithm fgd jobs offers
	: >none
	match none offers
	assert_equal "$output" ""
}

@test "match: on each of some small markets the cheapest matches gain within 1% of the optimum" {
	command -v glpsol >/dev/null || skip "no glpsol (package glpk-utils)"
	run -0 python3 "$ROOT/tests/tools/match_optimum.py" 25
}

@test "match: a job with shares of places and several models pays the least that there is" {
	command -v glpsol >/dev/null || skip "no glpsol (package glpk-utils)"
	run -0 python3 "$ROOT/tests/tools/match_least.py" 40
}

# story: prints the matches as "job start-end", a stop as "job start-end!"
story() {
	jq -r 'select(.start) | "\(.job) \(.start[11:16])-\(.end[11:16])\(if .stopped_for then "!" else "" end)"' "${1:--}" | tr '\n' ' '
}

@test "match: --preempt stops what may be interrupted, and its work goes on from the checkpoint" {
	offer a "RTX 4090" 1 100000 >offers
	{
		job slow '"at":"2026-11-22T10:00:00Z","hours":4,"spot":true,"checkpoint_s":3600'
		job film '"at":"2026-11-22T11:30:00Z","work":"render"'
	} >jobs
	local until=2026-11-23T00:00:00Z
	match --until $until jobs offers
	assert_equal "$(story <<<"$output")" "slow 10:00-14:00 film 14:00-15:00 "
	match --preempt --until $until jobs offers
	assert_equal "$(story <<<"$output")" "slow 10:00-14:00 slow 10:00-11:30! film 11:30-12:30 slow 12:30-15:30 "
	jq -se '.[1] | .stopped_for == "film" and .why == "rendering comes before computing" and
		.left_ms == 3 * 3600000 and .checkpoint_s == 3600' <<<"$output" || fail "$output"
	# without checkpoints it starts over
	sed 's/,"checkpoint_s":3600//' jobs >bare
	match --preempt --until $until bare offers
	assert_equal "$(story <<<"$output")" "slow 10:00-14:00 slow 10:00-11:30! film 11:30-12:30 slow 12:30-16:30 "
	# who did not agree to it is never stopped
	sed 's/,"spot":true//' jobs >firm
	match --preempt --until $until firm offers
	assert_equal "$(story <<<"$output")" "slow 10:00-14:00 film 14:00-15:00 "
	# a job that may be interrupted stops none, and gives way to one that may not
	{
		head -1 jobs
		job spot '"at":"2026-11-22T10:30:00Z","spot":true'
		job firm '"at":"2026-11-22T11:00:00Z"'
	} >three
	match --preempt --until $until three offers
	assert_equal "$(story <<<"$output")" "slow 10:00-14:00 slow 10:00-11:00! firm 11:00-12:00 slow 12:00-15:00 spot 15:00-16:00 "
	# as few as it takes, with the least lost work
	{ offer a "RTX 4090" 1 100000; offer b "RTX 4090" 1 200000; offer c "RTX 4090" 2 300000; } >more
	{
		job a '"at":"2026-11-22T10:00:00Z","hours":9,"spot":true'
		job b '"at":"2026-11-22T10:10:00Z","hours":9,"spot":true,"checkpoint_s":600'
		job c '"at":"2026-11-22T10:20:00Z","hours":9,"spot":true,"gpu_count":2,"checkpoint_s":60'
		job d '"at":"2026-11-22T10:50:30Z"'
		job e '"at":"2026-11-22T10:52:00Z"'
	} >jobs
	match --preempt --until 2026-11-22T11:00:00Z jobs more
	assert_equal "$(jq -r 'select(.stopped_for) | .job + " " + .stopped_for' <<<"$output")" "b d"$'\n'"c e"
	# las: who is behind by more than is lost
	{
		job a '"at":"2026-11-22T10:00:00Z","hours":9,"owner":"a","spot":true,"checkpoint_s":1800'
		job b '"at":"2026-11-22T10:10:00Z","hours":1,"owner":"b","spot":true,"checkpoint_s":1800'
		job c '"at":"2026-11-22T11:40:00Z","hours":1,"owner":"c","spot":true,"checkpoint_s":1800'
	} >jobs
	match --preempt --algorithm las --until 2026-11-22T13:00:00Z jobs offers
	assert_equal "$(story <<<"$output" | cut -d' ' -f1-6)" "a 10:00-19:00 a 10:00-11:40! b 11:40-12:40"
	refused 64 "an auction stops nobody" rnp-price match --preempt --algorithm auction jobs offers
}

@test "match: called at each event with its own log, it decides as when it plays the log at once" {
	{ offer a "RTX 4090" 2 100000; offer b "RTX 4090" 2 200000; } >offers
	local i all=() algorithm now
	for i in {0..13}; do
		job "j$i" "\"at\":\"2026-11-22T1$((i / 4)):$((i * 13 % 6))0:00Z\",\"seconds\":$((i * 7919 % 9000 + 600)),
			\"owner\":\"o$((i % 3))\",\"gpu_count\":$((i % 2 + 1)),\"spot\":$([[ $((i % 4)) == 3 ]] && echo false || echo true),
			\"checkpoint_s\":$((i % 3 * 300 + 60)),\"work\":\"$([[ $i == 9 ]] && echo render || echo compute)\",
			\"share_ppm\":$((i % 3 * 1000000 + 1000000))"
	done | jq -c . | sort -t'"' -k16 >unsorted
	jq -sc 'sort_by(.at)[]' unsorted >jobs
	echo '{"t0":{"RTX 4090":7.3,"RTX 3090":3.1},"t1":{"RTX 4090":2.9,"RTX 3090":2.3}}' >rates
	for algorithm in cheapest rotation las fgd gavel; do
		all=(--algorithm "$algorithm" --preempt)
		if [[ $algorithm == gavel ]]; then # one node is slower; some jobs count their hours on it
			all+=(--throughputs rates)
			{ offer a "RTX 4090" 2 100000; offer c "RTX 3090" 2 90000; } >offers
			jq -c '((.job[1:] | tonumber) / 2 | floor % 2) as $t | .type = "t\($t)" |
				.gpu_models = (["RTX 4090", "RTX 3090"] | if $t == 1 then reverse else . end)' jobs >typed
			mv typed jobs
		fi
		match "${all[@]}" --until 2026-11-24T00:00:00Z jobs offers
		jq -c 'select(.start)' <<<"$output" >whole
		jq -se 'any(.stopped_for)' whole >/dev/null || fail "nobody is stopped: $algorithm"
		: >log
		while read -r now; do
			jq -c --arg now "$now" 'select(.at <= $now)' jobs >known
			rnp-price match "${all[@]}" --running log --until "$now" known offers >records
			jq -c 'select(.start)' records >>log
		done < <(jq -r 'if .stopped_for then .end else .start, .end end' whole | cat - <(jq -r .at jobs) | sort -u)
		diff whole log || fail "$algorithm"
		# and once more changes nothing
		match "${all[@]}" --running log --until 2026-11-24T00:00:00Z jobs offers
		assert_equal "$output" ""
	done
	jq -c 'select(.stopped_for)' log | head -1 >stop
	refused 65 "before it began then" rnp-price match --running stop jobs offers
	jq -c 'del(.left_ms)' stop | cat whole - >bad
	refused 65 "left_ms is missing" rnp-price match --running bad jobs offers
}

@test "match: fifty thousand jobs of as many owners, who could stop each other, are settled in seconds" {
	# processor time, which does not depend on how busy the machine is
	local i algorithm limit=10
	python3 -c '
import json
def job(name, **more): print(json.dumps({"kind": "rnp.job", "v": 1, "job": name, "owner": name, **more}, separators=(",", ":")), file=out)
with open("jobs", "w") as out:
	for i in range(8): job("r%d" % i, at="2026-11-22T09:00:00Z", hours=876000, spot=True, checkpoint_s=3153600000)
	for i in range(50000): job("j%d" % i, spot=i % 3 > 0, work="render" if i % 5 == 4 else "compute", gpu_model="RTX 4090",
		max_uusd_per_hour=100000 + i % 7, checkpoint_s=1 + i, share_ppm=1 + i % 1000000, type="t", seconds=1 + i)
with open("books", "w") as out:
	for i in range(50000): job("b%d" % i, gpu_model="made up %d" % i, max_uusd_per_hour=1 + i)
'
	for i in a b; do offer $i "RTX 4090" 4 100000; done >offers
	echo '{"t":{"RTX 4090":2}}' >rates
	for algorithm in cheapest las gavel; do
		bash -c "ulimit -t $limit; exec rnp-price match --preempt --algorithm $algorithm --throughputs rates jobs offers" >out
		# jobs that render and may not be stopped have all GPUs; everybody else waits, and is told so once
		grep '"start"' out | jq -c 'select(.start > "2026-11-22T09:30:00Z") | [.work, .spot]' >begun
		assert_equal "$(sort begun | uniq -c | sed 's/^ *//')" '8 ["render",null]'
		assert_equal "$(grep -c '"stopped_for"' out) $(grep -c '"waiting"' out)" "8 50000"
		assert_equal "$(grep '"waiting"' out | grep -o '"job":"[^"]*"' | sort -u | wc -l)" 50000
	done
	bash -c "ulimit -t $limit; exec rnp-price match --algorithm auction books offers" >out
	assert_equal "$(grep -c 'no bid meets an ask' out)" 50000
}

# node NAME GPUS UUSD [MORE] [NODE]: prints the records of a node for sale: its own, its quote and, with MORE, its listing
node() {
	local address gpus
	address=$(printf '1%.0s' {1..31})$1
	gpus=$(jq -nc --argjson n "$2" '[range($n) | {model: "RTX 4090", memory_bytes: 25769803776, uuid: "GPU-\(.)"}]')
	echo "{\"kind\":\"rnp.node\",\"v\":1,\"at\":\"2026-11-22T09:00:00Z\",\"node\":\"$address\",\"gpus\":$gpus${5:+,$5}}"
	echo "{\"kind\":\"rnp.quote\",\"v\":1,\"at\":\"2026-11-22T09:00:00Z\",\"node\":\"$address\",\"ask_uusd\":1,\"customer_uusd\":$3,\"floor_uusd\":1,\"why\":[]}"
	if [[ ${4:-} ]]; then
		echo "{\"kind\":\"rnp.listing\",\"v\":1,\"at\":\"2026-11-22T09:00:00Z\",\"until\":\"2026-11-23T09:00:00Z\",\"node\":\"$address\",$4}"
	fi
}

# at JOB: prints the last letters of its nodes, how many GPUs each has, and the price
at() {
	jq -r --arg j "$1" 'select(.job == $j) | (.nodes | map("\(.node[-1:])\(.gpus | length)") | join(" ")) + " \(.uusd_per_hour // .waiting)"' <<<"$output"
}

@test "match: what a host has: cores, memory, disk, link, place, a part of it, none of its GPUs" {
	local eu='"labels":{"country":"SI","host_type":"data-center"},"network":{"down_bps":9000000000,"up_bps":9000000000,"ping_us":20000}'
	{
		node a 4 400000 '"cpu_cores":64,"memory_bytes":256000000000,"disk_bytes":4000000000000,"part_gpus":1'
		node b 2 300000 '"cpu_cores":8,"memory_bytes":64000000000,"disk_bytes":100000000000' "$eu"
		node c 0 50000 '"cpu_cores":96,"memory_bytes":128000000000,"disk_bytes":500000000000'
		node d 0 60000
	} | sed 's/"labels":{"country":"SI"/"labels":{"country":"SI","region":"Ljubljana"/' >nodes
	{
		job one
		job cores '"cpu_cores":9,"gpu_count":2'
		job share '"cpu_cores":17'
		job memory '"memory_bytes":64000000000,"gpu_count":2,"exclude":["1111111111111111111111111111111a"]'
		job disk '"disk_bytes":1000000000001'
		job tier '"tier":"high"'
		job slow '"tier":"ultra-high","ping_us":20000'
		job near '"ping_us":19999'
		job host '"host_type":"miner"'
		job cpu '"gpu_count":0,"cpu_cores":90,"nodes":1'
		job cpus '"gpu_count":0,"nodes":2'
		job cpus3 '"gpu_count":0,"nodes":3'
		job dear '"hours":10,"max_uusd":999999,"gpu_count":1'
		job cheap '"hours":10,"max_uusd":1000000,"gpu_count":1'
		job late '"start_by":"2026-11-22T09:59:59Z"'
	} >all
	# each alone: none takes what another wants
	while read -r line; do
		rnp-price match <(echo "$line") nodes
	done <all >each
	output=$(cat each)
	assert_equal "$(at one)" "a1 100000"
	assert_equal "$(at cores)" "a2 200000"
	[[ $(at share) == *"none of 2 nodes has so many cores for its GPUs" ]]
	assert_equal "$(at memory)" "b2 300000"
	[[ $(at disk) == *"so much disk"* ]]
	assert_equal "$(at tier)" "b2 300000" # it is sold whole
	assert_equal "$(at slow)" "b2 300000"
	[[ $(at near) == *"none of 2 nodes is so near" ]]
	[[ $(at host) == *"is such a host" ]]
	assert_equal "$(at cpu)" "c0 50000"
	assert_equal "$(at cpus)" "c0 d0 110000"
	[[ $(at cpus3) == *"2 nodes fit, the job wants 3" ]]
	[[ $(at dear) == *"above the limit" ]]
	assert_equal "$(at cheap)" "a1 100000"
	[[ $(at late) == *"it was to start by then"* ]]
	# a node without GPUs is taken, and given back
	{ job cpu '"gpu_count":0,"nodes":2'; job next '"gpu_count":0,"nodes":2'; } >jobs
	match --until 2026-11-22T11:00:00Z jobs nodes
	assert_equal "$(jq -r 'select(.start) | .job + .start[10:16]' <<<"$output" | tr '\n' ' ')" "cpuT10:00 nextT11:00 "
	jq -c 'select(.job == "cpu")' <<<"$output" >running
	job other '"gpu_count":0' >jobs
	match --running running jobs nodes
	[[ $(at other) == *"all 2 nodes that fit are busy" ]]
}

@test "match: shares of places by largest remainder, the cheapest that go together, over 64 nodes and more" {
	local i
	for i in {1..9}; do
		offer us$i "RTX 4090" 1 $((100000 + i)) '"country":"US"'
		offer ca$i "RTX 4090" 1 $((200000 + i)) '"country":"US","region":"California"'
		offer si$i "RTX 4090" 1 $((300000 + i)) '"country":"SI"'
		offer l40$i "L40S" 1 $((150000 + i)) '"country":"SI"'
	done >offers
	{
		job ten '"gpu_model":"RTX 4090","gpu_count":10,"nodes":10,"places":[{"country":"US","region":"california","share_ppm":870000},{"country":"SI","share_ppm":130000}]'
		job any '"gpu_count":3,"nodes":3,"places":[{"country":"SI"},{"region":"California"}]'
		job overlap '"gpu_model":"RTX 4090","gpu_count":4,"nodes":4,"places":[{"country":"US","share_ppm":500000},{"region":"California","share_ppm":500000}]'
		job none '"gpu_count":20,"nodes":20,"places":[{"country":"US","share_ppm":1000000}]'
	} >all
	while read -r line; do rnp-price match <(echo "$line") offers; done <all >each
	output=$(cat each)
	# 8.7 and 1.3 nodes: the larger remainder is 0.7
	assert_equal "$(jq -r 'select(.job == "ten").nodes | map(.node[2:4]) | group_by(.) | map("\(.[0])\(length)") | join(" ")' <<<"$output")" "ca9 si1"
	assert_equal "$(where any)" "m/l401:0 m/l402:0 m/l403:0 450006"
	assert_equal "$(where overlap | tr ' ' '\n' | sort | tr '\n' ' ')" "600006 m/ca1:0 m/ca2:0 m/us1:0 m/us2:0 "
	assert_equal "$(why none)" "18 nodes fit, the job wants 20"
	# "A100" is any of them
	{ offer a "A100 80GB SXM" 1 300000; offer b "A100 PCIe" 1 200000; offer c "H100 SXM" 1 1; } >models
	job j '"gpu_model":"A100"' >jobs
	match jobs models
	assert_equal "$(where j)" "m/b:0 200000"
	for i in {1..130}; do offer o$i "H100 SXM" 8 $((1000000 + i)); done >many
	job wide '"gpu_count":1000,"nodes":125' >jobs
	match jobs many
	assert_equal "$(jq '[(.nodes | length), .uusd_per_hour]' <<<"$output" | jq -c .)" "[125,$((8 * (125 * 1000000 + 125 * 126 / 2)))]"
	jq -c . <<<"$output" >running
	job more '"gpu_count":48,"nodes":6' >jobs
	match --running running jobs many
	assert_equal "$(why more)" "all 130 nodes that fit are busy"
}

@test "match: a job that contradicts itself is refused by name" {
	offer a "RTX 4090" 1 100000 >offers
	local bad
	while IFS='|' read -r bad text; do
		job a "$bad" >bad
		refused 65 "$text" rnp-price match bad offers
	done <<-'END'
		"nodes":2,"nodes_max":2|nodes and nodes_max
		"gpu_count":3,"nodes":2|3 GPUs are not 2 equal parts
		"gpu_count":0,"gpu_model":"RTX 4090"|gpu_model, but gpu_count is 0
		"gpu_count":0,"gpu_share_ppm":5000|gpu_share_ppm, but gpu_count is 0
		"places":[{"country":"US"}],"region":"US"|places and regions
		"places":[{}]|neither country nor region
		"places":[{"country":"US","share_ppm":5},{"country":"SI"}]|either all places have one or none
		"places":[{"country":"US","share_ppm":900000}]|come to 900000 ppm
		"places":[{"country":"us"}]|two capital letters
		"memory":5|did you mean 'memory_bytes'
		"tier":"fast"|tier
		"host_type":"datacenter"|data-center
	END
	job a '"nodes":2,"gpu_count":2' >bad
	refused 65 "fgd: job a wants several nodes" rnp-price match --algorithm fgd bad offers
}
