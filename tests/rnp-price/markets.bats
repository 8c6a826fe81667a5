# rnp-price feed: Prime, RunPod, Salad, Nosana, each with the peculiarities of its own format.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	export XDG_CACHE_HOME=$BATS_TEST_TMPDIR/cache RNP_NOW=2026-11-20T18:00:00Z
}

# short FIELD...: prints these fields of each record, one line each
short() {
	jq -c "[$1]" <<<"$output"
}

@test "prime: the price of all GPUs as one for each, the socket in the name, a page is no market" {
	cat >prime.json <<-'END'
		{"items":[
		 {"cloudId":"a","gpuType":"H100_80GB","socket":"SXM5","provider":"maker","region":"eu","country":"FI","gpuCount":8,"gpuMemory":80,
		  "vcpu":{"defaultCount":96},"memory":{"defaultCount":null},"stockStatus":"Low","security":"secure_cloud",
		  "prices":{"onDemand":16.0000004,"communityPrice":null,"currency":"USD"},"isSpot":null},
		 {"cloudId":"b","gpuType":"H100_80GB","socket":"PCIe","provider":"maker","country":null,"gpuCount":1,"gpuMemory":80,
		  "stockStatus":"Unavailable","security":null,"prices":{"onDemand":1.5,"currency":null},"isSpot":true},
		 {"cloudId":"c","gpuType":"H100_80GB","socket":null,"gpuCount":1,"gpuMemory":80,"prices":{"onDemand":null}}],
		 "totalCount":3}
	END
	run_split rnp-price feed -m prime prime.json
	assert_success
	assert_equal "$(short '.gpu_model,.gpu_count,.uusd_per_gpu_hour,.spot,.secure,.rentable,.host,.country,.cpu_cores')" \
		'["H100 SXM",8,2000000,false,true,true,"maker","FI",96]
["H100 PCIe",1,1500000,true,null,false,"maker",null,null]'
	[[ $stderr == *"items[2]: a row without a price, left out"* ]]
	jq '.totalCount = 608' prime.json >page.json
	refused 65 "a page: it says that there are 608 rows and holds 3" rnp-price feed -m prime page.json
	jq '.items[0].prices.currency = "EUR"' prime.json >bad.json
	refused 65 "items[0].prices.currency: not USD" rnp-price feed -m prime bad.json
	jq '.items[0].gpuCount = "8"' prime.json >bad.json
	refused 65 "items[0].gpuCount" rnp-price feed -m prime bad.json
	jq '.items[0].prices.onDemand = -1' prime.json >bad.json
	refused 65 "items[0].onDemand" rnp-price feed -m prime bad.json
	jq '.items[1] = .items[0]' prime.json >twice.json
	run_split rnp-price feed -m prime twice.json
	assert_equal "$(wc -l <<<"$output")" 1
	[[ $stderr == *"the same offer again"* ]]
}

@test "prime: the real list, cross-read by jq" {
	local file
	file=$(data prices/prime_availability_response.json) || skip_data
	jq '.totalCount = (.items | length)' "$file" >whole.json
	run_split rnp-price feed -m prime whole.json
	assert_success
	assert_equal "$(jq -s 'map(.uusd_per_gpu_hour) | sort' -c <<<"$output")" \
		"$(jq -c '[.items[] | .prices.onDemand * 1e6 / .gpuCount | round] | sort' "$file")"
}

@test "runpod: each tier is an offer, null is none, lowestPrice where no tier has a price" {
	cat >runpod.json <<-'END'
		{"data":{"gpuTypes":[
		 {"id":"NVIDIA GeForce RTX 4090","displayName":"RTX 4090","memoryInGb":24,"securePrice":0.69,"communityPrice":0.34,
		  "communitySpotPrice":0.2,"secureSpotPrice":null,"lowestPrice":{"minimumBidPrice":0.2,"uninterruptablePrice":0.34}},
		 {"id":"Tesla X","displayName":"NVIDIA L4","memoryInGb":24,"securePrice":null,"communityPrice":null,
		  "lowestPrice":{"minimumBidPrice":null,"uninterruptablePrice":0.43}},
		 {"id":"NVIDIA A30","memoryInGb":24,"securePrice":null,"lowestPrice":null}]}}
	END
	run_split rnp-price feed -m runpod runpod.json
	assert_success
	assert_equal "$(short '.gpu_model,.uusd_per_gpu_hour,.spot,.secure')" \
		'["RTX 4090",690000,false,true]
["RTX 4090",340000,false,false]
["RTX 4090",200000,true,false]
["L4",430000,false,null]'
	[[ $stderr == *"gpuTypes[2]: a GPU type without a price, left out"* ]]
	echo '{"errors":[{"message":"throttled"}]}' >bad.json
	refused 65 "answered with errors" rnp-price feed -m runpod bad.json
	echo '{"data":{}}' >bad.json
	refused 65 "not a list of RunPod's" rnp-price feed -m runpod bad.json
}

@test "salad: prices are texts, and only a high priority is not spot" {
	cat >salad.json <<-'END'
		{"items":[{"id":"4f0f4a38-0000-4000-8000-000000000001","name":"RTX 4090 (24 GB)","gpu_class_type":"community",
		 "prices":[{"priority":"high","price":"0.3"},{"priority":"batch","price":"0.160"},{"priority":"low","price":"0"}]}]}
	END
	run_split rnp-price feed -m salad salad.json
	assert_success
	assert_equal "$(short '.gpu_model,.uusd_per_gpu_hour,.spot,.secure')" \
		'["RTX 4090",300000,false,false]
["RTX 4090",160000,true,false]'
	sed 's/"0.3"/"cheap"/' salad.json >bad.json
	refused 65 "items[0].prices[0].price" rnp-price feed -m salad bad.json
}

@test "nosana: the customer pays a tenth more than the host gets" {
	echo '[{"name":"NVIDIA 3090","usd_reward_per_hour":0.2,"gpu_types":["NVIDIA GeForce RTX 3090"],"lowest_vram":24},
		{"name":"mixed","usd_reward_per_hour":0.1,"gpu_types":["a","b"]},{"name":"free","usd_reward_per_hour":null}]' >nosana.json
	run_split rnp-price feed -m nosana nosana.json
	assert_success
	assert_equal "$(short '.offer_id,.gpu_model,.uusd_per_gpu_hour')" \
		'["NVIDIA 3090","RTX 3090",220000]
["mixed","mixed",110000]'
	echo '{}' >bad.json
	refused 65 "not a list of Nosana's markets" rnp-price feed -m nosana bad.json
}
