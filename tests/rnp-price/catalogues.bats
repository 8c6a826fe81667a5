# rnp-price fit and backtest: what whole catalogues and series of a market say.
load ../helper
load price

# --- fit -----------------------------------------------------------------------------------

# offers of four catalogues, each under the name of its market
catalogues() {
	local pair file
	for pair in v5_runpod_vms__02d7ef67:runpod v7_vast_vms__00690e76:vast v8_vast_vms__01b8cdda:vast \
		v8_primeintellect_vms__d9a304ea:prime; do
		file=$(data "prices/${pair%:*}.csv") || return
		rnp-price feed -q -m skypilot --name "${pair#*:}" "$file"
	done
}

@test "fit: four real catalogues, in sample and with a model or a market left out" {
	catalogues >offers || skip_data
	run_split rnp-price fit offers
	assert_success
	jq -e '.used > 500 and .error_ppm.in_sample <= 115000 and .error_ppm.model_left_out <= 160000 and
		.error_ppm.market_left_out <= 230000' <<<"$output" || fail "$(jq -c .error_ppm <<<"$output")"
	jq -e '.coefficients | .memory > 0 and .tensor > 0 and .spot < 0' <<<"$output"
	assert_equal "$(jq -r .data_sha256 <<<"$output")" "$(sha256sum offers | cut -d' ' -f1)"
	# people see the price of each model, and how far off it is
	rnp-price fit --table offers >prices
	grep -qE '^GPU +\$/h +from +to +offers$' prices && grep -qE '^RTX 4090 +\$0\.' prices && grep -q 'error in sample' prices
	# the order of the offers does not change any visible result
	jq -c '[.error_ppm, .spread]' <<<"$output" >a
	sort -R --random-source=<(yes) offers | rnp-price fit | jq -c '[.error_ppm, .spread]' >b
	python3 -c 'import json, sys
a, b = (json.load(open(f)) for f in "ab")
assert all(abs(x[k] - y[k]) < 20000 for x, y in zip(a, b) for k in x), (a, b)'
}

@test "fit: quote takes the fitted price where nobody else has the model" {
	local model i=0
	costs 50000 >c.json
	for model in "RTX 3090" "RTX 3080" "RTX A6000" "L40S" "H100 SXM" "A100 80GB SXM" "RTX 4080" "L4" "RTX 4070" "H200"; do
		offer "$model" 1 $((300000 + 10000 * i))
		offer "$model" 1 $((320000 + 10000 * i++))
	done >offers
	rnp-price fit offers >fit.json
	quote "$NODE" --costs c.json --fit fit.json offers
	jq -e '.model_uusd | .low <= .mid and .mid <= .high and .model_known == false and .market_known == false' <<<"$output"
	jq -e '(.customer_uusd - .model_uusd.mid) | . <= 0 and . >= -2' <<<"$output"
	quote "$NODE" --costs c.json --fit fit.json --market test offers
	jq -e '.model_uusd.market_known' <<<"$output"
	# a single unknown offer is compared with the fit
	cp offers more
	offer "RTX 4090" 1 50000 >>more
	quote "$NODE" --costs c.json --fit fit.json more
	why_has "left out: 1 of 1 hosts below 0."
	jq -e 'has("rival_uusd") | not' <<<"$output"
}

@test "fit: too few offers, records that are none" {
	offer "RTX 4090" 1 400000 >offers
	refused 65 "1 offers with a model and a price: at least 8 are wanted" rnp-price fit offers
	refused 65 "kind" rnp-price fit "$NODE"
	costs 50000 >c.json
	jq -c '.kind = "rnp.fit"' "$NODE" >fit.json
	refused 65 "fit.json" rnp-price quote --node "$NODE" --costs c.json --fit fit.json offers
}

# --- backtest ------------------------------------------------------------------------------

@test "backtest: real markets, ours ahead of the baselines, the same whatever the threads" {
	local name args=()
	for name in A100_80GB_PCIe H100_80GB_PCIe; do
		gunzip -c "$(data "history/prime_30min/$name.jsonl.gz")" >"$name" || skip_data
		args+=(--history "$name")
	done
	run_split rnp-price backtest "${args[@]}" --policy ours,undercut,step10 --seed 7
	assert_success
	jq -se 'map({key: .policy, value: .}) | from_entries | .ours.runs == 36 and .ours.mean_ppm > 900000 and
		.ours.changes_max <= 6 and .ours.mean_ppm > .undercut.mean_ppm + 30000 and
		.ours.mean_ppm > .step10.mean_ppm + 30000' <<<"$output" || fail "$output"
	OMP_NUM_THREADS=1 rnp-price backtest "${args[@]}" --policy ours,undercut,step10 --seed 7 | cmp - <(echo "$output")
}

@test "backtest: worlds, the same as an independent reading within 0.1%" {
	gunzip -c "$(data history/prime_30min/H200_141GB.jsonl.gz)" | head -40 >series || skip_data
	[[ -s series ]] || skip_data
	run python3 "$ROOT/tests/tools/price_worlds.py" series "${RNP_SEED:-7}"
	assert_success
	[[ $output == *"486 results of worlds agree within 0.1%"* ]]
}

@test "backtest: series that are none are refused" {
	refused 64 "--history, --jobs and --pods" rnp-price backtest
	refused 66 "missing" rnp-price backtest --history missing
	echo '{}' | gzip >packed.jsonl.gz
	refused 65 "packed.jsonl.gz:1: compressed with gzip: unpack it first" rnp-price backtest --history packed.jsonl.gz
	refused 65 "packed.jsonl.gz: compressed with gzip" rnp-price backtest --jobs packed.jsonl.gz --gpus 1
	refused 65 "packed.jsonl.gz: compressed with gzip" rnp-price feed --market vast packed.jsonl.gz
	refused 65 "packed.jsonl.gz: compressed with gzip" rnp-price feed --market skypilot packed.jsonl.gz
	echo '{"price_stats":{"median":1},"by_provider":{"a":{"count":1,"min":1}}}' >one
	refused 65 "fewer than two snapshots" rnp-price backtest --history one
	refused 64 "there is no policy 'best'" rnp-price backtest --history one --policy best
	echo '{"price_stats":{"median":1},"by_provider":{"a":{"count":1,"min":-1}}}' >one
	refused 65 "one:1: by_provider.a: min" rnp-price backtest --history one
}

@test "backtest: Philly's jobs, to the second of what was measured before" {
	gunzip -c "$(data jobs/philly_jobs.csv.gz)" >jobs.csv || skip_data
	run_split rnp-price backtest --jobs jobs.csv --gpus 624
	assert_success
	# seconds of the mean job, from a simulation of its own, without the C
	assert_equal "$(jq -r '[.algorithm, .mean_s, .runs] | join(" ")' <<<"$output")" \
		"fifo 64678 82247
las 14013 82247
las-queues 14658 82247
shortest 13774 82247"
	run_split rnp-price backtest --jobs jobs.csv --gpus 499 --algorithm las
	assert_equal "$(jq .mean_s <<<"$output")" 19830
	# jobs wait for nothing but the next round
	run_split rnp-price backtest --jobs jobs.csv --gpus 1100
	jq -se 'all(.mean_s == 13294 or .mean_s == 13295)' <<<"$output"
}

@test "backtest: a trace by hand, and traces that are none" {
	# two GPUs; a long job and, a minute later, two short ones: las serves the short ones
	# first
	printf 'timestamp,duration,num_gpus,user\n2026-01-01 00:00:00,1200,2,a\n2026-01-01 00:01:00,300,1,b\n2026-01-01 00:01:00,300,2,c\n2026-01-01 00:01:00,100,3,d\n' >jobs
	run_split rnp-price backtest --jobs jobs --gpus 2
	assert_success
	# fifo: 1200; the next two from 1200 and 1500: 1440 and 1740 after their arrival. las:
	# the second and
	# third run in the second and third round, until 600 and 900, and the first one ends at
	# 1800
	assert_equal "$(jq -r 'select(.algorithm == "fifo" or .algorithm == "las") | [.algorithm, .mean_s, .refused, .makespan_s] | join(" ")' <<<"$output")" \
		"fifo 1460 1 1800
las 1060 1 1800"
	# speeds 1200 / 1800, 300 / 540 and 300 / 840 of las: Jain's index and the worst slowdown
	assert_equal "$(jq -c 'select(.algorithm == "las") | [.fairness_ppm, .slowdown_p99_ppm]' <<<"$output")" "[944162,2800000]"
	refused 64 "--jobs and --gpus" rnp-price backtest --jobs jobs
	refused 66 missing rnp-price backtest --jobs missing --gpus 2
	local row
	for row in 'a,b|no column' 'timestamp,duration,num_gpus|no jobs' ; do
		echo "${row%|*}" >jobs
		refused 65 "${row##*|}" rnp-price backtest --jobs jobs --gpus 2
	done
	for row in 'yesterday,1,1|:2: timestamp' '2026-01-01 00:00:00,nan,1|:2: duration' '2026-01-01 00:00:00,1e30,1|:2: duration' \
		'2026-01-01 00:00:00,-1,1|:2: duration' '2026-01-01 00:00:00,1,-1|:2: num_gpus' '2026-01-01 00:00:00,1,1.5|:2: num_gpus'; do
		printf 'timestamp,duration,num_gpus\n%s\n' "${row%|*}" >jobs
		refused 65 "${row##*|}" rnp-price backtest --jobs jobs --gpus 2
	done
}

@test "backtest: Alibaba's pods, six policies within half a point of what was published" {
	local nodes pods
	nodes=$(data jobs/openb_node_list_gpu_node.csv) || skip_data
	pods=$(data jobs/openb_pod_list_default.csv) || skip_data
	run_split rnp-price backtest --pods "$pods" --nodes "$nodes" --runs 4
	assert_success
	# published by the authors of FGD: GPUs in use when 100 and 130% were asked for
	jq -se 'map({key: .algorithm, value: .}) | from_entries as $all |
		{random: [86.3, 87.5], "dot-product": [90.6, 90.9], "gpu-clustering": [91.7, 91.9],
		 "gpu-packing": [91.8, 92.0], "best-fit": [92.9, 93.1], fgd: [95.2, 95.4]} | to_entries | all(
			($all[.key].allocated_100_ppm / 10000 - .value[0] | fabs < 0.5) and
			($all[.key].allocated_130_ppm / 10000 - .value[1] | fabs < 0.5) and
			$all[.key].gpus == 6212)' <<<"$output" || fail "$output"
	OMP_NUM_THREADS=1 rnp-price backtest --pods "$pods" --nodes "$nodes" --runs 4 | cmp - <(echo "$output")
}

@test "backtest: --plot and --report, the same bytes whatever the threads; nothing half written" {
	local i
	for i in 1 2 3 4 5 6; do
		echo '{"price_stats":{"median":1.2},"by_provider":{"a":{"count":2,"min":1.0'$i'},"b":{"count":1,"min":1.3}}}'
	done >history
	run_split rnp-price backtest --history history --worlds formula --policy ours,undercut --plot p.svg --report p.html
	assert_success
	assert_equal "$(jq -r '.mode' <<<"$output" | sort | uniq -c | xargs)" "2 worlds"
	xmllint --noout p.svg 2>/dev/null || python3 -c 'import sys, xml.dom.minidom as m; m.parse("p.svg")'
	grep -q "revenue over the best in hindsight" p.svg
	grep -q "rnp-price backtest --history history --worlds formula --policy ours,undercut --seed 1" p.html
	assert_equal "$(grep -c '<td data-l="mean lease">' p.html)" 36 # each of 18 worlds under two policies
	run grep -iE 'src=|href=|<script|@import' p.html p.svg
	assert_failure
	cp p.svg one.svg
	cp p.html one.html
	OMP_NUM_THREADS=1 rnp-price backtest --history history --worlds formula --policy ours,undercut --plot p.svg --report p.html >/dev/null
	cmp p.svg one.svg
	cmp p.html one.html
	run_split rnp-price backtest --history history --policy undercut --each
	assert_equal "$(jq -sc 'map(select(.mode == "world")) | [length, ([.[].revenue_ppm] | add / 18 / 100 | round)]' <<<"$output")" \
		"$(jq -sc 'map(select(.mode == "worlds")) | [18, (.[0].mean_ppm / 100 | round)]' <<<"$output")"
	printf 'timestamp,duration,num_gpus\n2026-01-01 00:00:00,1200,2\n' >jobs
	rnp-price backtest --jobs jobs --gpus 2 --plot jobs.svg --report jobs.html >/dev/null
	grep -q "Mean completion" jobs.svg
	grep -q "shortest" jobs.html
	rnp-price backtest --history history --policy undercut --report p.html --worlds nothing && fail "a world that is none"
	cmp p.html one.html
	refused 73 "/dev/full" rnp-price backtest --history history --plot /dev/full
}

@test "backtest: a part of a GPU goes where it leaves the least behind" {
	# parts of 600 and 400 fill a GPU together, which leaves the other one for a whole pod: fgd
	# sees to that, and luck does not
	printf 'cpu_milli,memory_mib,gpu\n64000,100000,2\n' >nodes
	printf 'cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,10,1,600\n1000,10,1,400\n1000,10,1,1000\n' >pods
	run_split rnp-price backtest --pods pods --nodes nodes --runs 200
	assert_success
	jq -se 'map({key: .algorithm, value: .}) | from_entries | (.fgd | .gpus == 2 and .runs == 200) and
		.fgd.allocated_100_ppm > .random.allocated_100_ppm + 30000' <<<"$output" || fail "$output"
	refused 64 "belong together" rnp-price backtest --pods pods
	refused 64 "fgd is not one for --jobs" rnp-price backtest --jobs pods --gpus 1 --algorithm fgd
	local row
	for row in '1,1,2,500|gpu_milli' '1,1,1,0|gpu_milli' '1,1,9,1000|num_gpu' '-1,1,1,1000|cpu_milli' '1,1,0,0|no pod wants a GPU'; do
		printf 'cpu_milli,memory_mib,num_gpu,gpu_milli\n%s\n' "${row%|*}" >bad
		refused 65 "${row##*|}" rnp-price backtest --pods bad --nodes nodes
	done
	printf 'cpu_milli,memory_mib\n1,1\n' >bad
	refused 65 "no column 'gpu'" rnp-price backtest --pods pods --nodes bad
}
