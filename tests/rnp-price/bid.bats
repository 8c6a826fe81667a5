# rnp-price bid: Akash's contract for price scripts.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	unset AKASH_OWNER
}

# order RESOURCES [AMOUNT [DENOM]]: prints an order
order() {
	echo "{\"resources\":[$1],\"price\":{\"denom\":\"${3:-uact}\",\"amount\":\"${2:-100000000.0}\"},\"price_precision\":6}"
}

# gpu UNITS MODEL [RAM [INTERFACE]]: prints a resource
gpu() {
	jq -nc --argjson u "$1" --arg m "$2" --arg r "${3-}" --arg i "${4-}" \
		'{gpu:{units:$u,attributes:{vendor:{nvidia:({model:$m} + if $r != "" then {ram:$r} else {} end + if $i != "" then {interface:$i} else {} end)}}}}'
}

@test "bid: rates are exact, rounded up, for random orders and tokens" {
	cat >check.py <<-'END'
		import json, random, subprocess, sys
		from fractions import Fraction as F
		from math import ceil
		draw = random.Random(5)
		names = ["cpu", "memory", "ephemeral", "hdd", "ssd", "nvme", "endpoint", "ip"]
		classes = {"ephemeral": "ephemeral", "default": "ephemeral", "beta1": "hdd", "beta2": "ssd", "beta3": "nvme"}
		for t in range(40):
		    prices = {n: draw.randrange(0, 9 * 10**6) for n in names}
		    token = draw.randrange(1, 3 * 10**6)
		    file = {**prices, "gpus": {"a100.80Gi": draw.randrange(10**9), "*": 7}, "tokens": {"uakt": token}}
		    json.dump(file, open("prices", "w"))
		    total, resources = F(0), []
		    for _ in range(draw.randrange(1, 4)):
		        count, cpu, memory = draw.randrange(1, 5), draw.randrange(10**6), draw.randrange(2**40)
		        storage = [(draw.choice(list(classes)), draw.randrange(2**44)) for _ in range(draw.randrange(3))]
		        ends, ips, units = draw.randrange(9), draw.randrange(3), draw.randrange(3)
		        resources.append({"cpu": cpu, "memory": memory, "count": count, "endpoint_quantity": ends, "ip_lease_quantity": ips,
		            "storage": [{"class": c, "size": s} for c, s in storage],
		            "gpu": {"units": units, "attributes": {"vendor": {"nvidia": {"model": "a100", "ram": "80Gi", "interface": "sxm4"}}}}})
		        total += count * (F(cpu, 1000) * prices["cpu"] + F(memory, 2**30) * prices["memory"] + ends * prices["endpoint"] + ips * prices["ip"]
		            + units * file["gpus"]["a100.80Gi"] + sum(F(s, 2**30) * prices[classes[c]] for c, s in storage))
		    places = draw.randrange(0, 19)
		    want = ceil(total / 429909 / token * 10**6 * 10**places)
		    asked = {"resources": resources, "price": {"denom": "uakt", "amount": "9" * 30}, "price_precision": places}
		    out = subprocess.run(["rnp-price", "bid", "--prices", "prices"], input=json.dumps(asked).encode(), stdout=subprocess.PIPE, check=True).stdout.decode()
		    assert out.endswith("\n") and len(out.strip().partition(".")[2]) == places, out
		    assert int(out.strip().replace(".", "")) == want, (out, want)
	END
	run -0 python3 check.py
}

@test "bid: GPUs by the most specific price, by what is free, and never the dearest for any" {
	cat >prices <<-'END'
		{"cpu": 0, "memory": 0, "gpus": {"a100": "429.909 USD", "a100.80Gi": "859.818 USD", "a100.80Gi.sxm4": "1289.727 USD",
		 "rtx4090": "42.9909 USD", "h100": "4299.09 USD"}}
	END
	for case in "a100 80Gi sxm4=0.003" "a100 80Gi pcie=0.002" "a100 40Gi=0.001" "A100=0.001" "rtx4090=0.0001"; do
		# shellcheck disable=SC2086
		run -0 rnp-price bid --prices prices <<<"$(order "$(gpu 1 ${case%=*})")"
		assert_equal "$(jq -n "$output / 1000000")" "${case#*=}"
	done
	refused 1 "no bid: no price, or not enough free, for GPU model 'v100'" rnp-price bid --prices prices <<<"$(order "$(gpu 1 v100)")"
	# an order for any model: no bid while it is unknown how many are free; otherwise the
	# cheapest model of which enough are free
	refused 1 "no bid" rnp-price bid --prices prices <<<"$(order "$(gpu 1 '*')")"
	jq '.free = {"h100": 8, "a100.80Gi.sxm4": 2, "rtx4090": 1}' prices >free
	run -0 rnp-price bid --prices free <<<"$(order "$(gpu 1 '*')")"
	assert_output 100.000000
	run -0 rnp-price bid --prices free <<<"$(order "$(gpu 2 '*')")"
	assert_output 6000.000000
	run -0 rnp-price bid --prices free <<<"$(order "$(gpu 1 '*'),$(gpu 1 '*')")"
	assert_output 3100.000000
	refused 1 "no price, or not enough free" rnp-price bid --prices free <<<"$(order "$(gpu 9 '*')")"
	refused 1 "not enough GPUs 'a100' are free" rnp-price bid --prices free <<<"$(order "$(gpu 3 a100)")"
	# a quote supplies the price of a model that is not in the file: 1 $/h is 730.488 a
	# month
	jq -nc '{kind:"rnp.quote",v:1,ask_uusd:2000000,customer_uusd:0,floor_uusd:0,why:[],spec:{gpu_model:"RTX 3090",gpu_count:2}}' >quote
	run -0 rnp-price bid --prices prices --quote quote <<<"$(order "$(gpu 1 rtx3090)")"
	assert_output 1699.168894
}

@test "bid: an order that two vendors may fill costs what one of them costs that can, in either order" {
	cat >prices <<-'END'
		{"cpu": 0, "memory": 0, "gpus": {"a100": "429.909 USD", "mi300x": "859.818 USD"}}
	END
	either() { # UNITS VENDOR MODEL VENDOR MODEL
		order "$(jq -nc --argjson u "$1" '{gpu: {units: $u, attributes: {vendor: {($ARGS.positional[1]): {model: $ARGS.positional[2]},
			($ARGS.positional[3]): {model: $ARGS.positional[4]}}}}}' --args "$@")"
	}
	costs() { # DOLLARS FILE UNITS
		for way in "nvidia a100 amd mi300x" "amd mi300x nvidia a100"; do
			# shellcheck disable=SC2086
			run -0 rnp-price bid --prices "$2" <<<"$(either "$3" $way)"
			assert_output "$1"
		done
	}
	# what is free is not known: it may be either
	costs 2000.000000 prices 1
	# one has no price
	jq 'del(.gpus.mi300x)' prices >one
	costs 1000.000000 one 1
	# what is known to be free: the cheaper one, or the other where that is not enough
	jq '.free = {"a100": 2, "mi300x": 8}' prices >free
	costs 2000.000000 free 2
	costs 6000.000000 free 3
	# the one is taken by the first resource, and the other remains
	run -0 rnp-price bid --prices free <<<"$(jq -c '.resources += .resources' <<<"$(either 2 nvidia a100 amd mi300x)")"
	assert_output 6000.000000
	refused 1 "not enough GPUs 'a100' or 'mi300x' are free" rnp-price bid --prices free <<<"$(either 9 nvidia a100 amd mi300x)"
	refused 1 "no price, or not enough free, for GPU model 'h100' or 'h200'" rnp-price bid --prices free <<<"$(either 1 nvidia h100 amd h200)"
}

@test "bid: owners, what the tenant offers, tokens, classes; each no is 1 with its reason" {
	echo '{"allow": ["akash1a", "akash1b"], "deny": ["akash1b"]}' >prices
	order '{"cpu":1000}' >one
	AKASH_OWNER=akash1a run -0 rnp-price bid --prices prices <one
	assert_output 3.721718
	AKASH_OWNER=akash1b refused 1 "no bid: akash1b may not deploy here" rnp-price bid --prices prices <one
	refused 1 "no bid: akash1c may not deploy here" rnp-price bid --prices prices --owner akash1c <one
	refused 1 "no bid: nobody may not deploy here" rnp-price bid --prices prices <one
	run -0 rnp-price bid <<<"$(order '{"cpu":1000}' 3.721718)"
	refused 1 "the tenant offers less than 3.721718 per block" rnp-price bid <<<"$(order '{"cpu":1000}' 3.721717)"
	refused 1 "no price for the token 'uakt'" rnp-price bid <<<"$(order '{"cpu":1000}' 10 uakt)"
	refused 1 "no price for storage class 'beta9'" rnp-price bid <<<"$(order '{"storage":[{"class":"beta9","size":1}]}')"
	rnp-price bid --example >prices
	run -0 rnp-price bid --prices prices <<<"$(order '{"cpu":1000}' 10 uakt)"
	assert_output 8.655158
}

@test "bid: malformed orders and files are 65, without a price on stdout" {
	for bad in '{}' '[]' '{"resources":[]}' '{"resources":[1],"price":{"denom":"uact","amount":"1"}}' \
		"$(order '{"cpu":-1}')" "$(order '{"cpu":1e99}')" "$(order '{"cpu":1}' 1.2.3)" "$(order '{"count":0}')" \
		"$(order '{"storage":7}')" "$(order '{"gpu":[]}')" 'x'; do
		run_split rnp-price bid <<<"$bad"
		assert_equal "$status $output" "65 "
		assert_equal "$(wc -l <<<"$stderr")" 1
	done
	printf '{"resources":[' >huge
	for _ in {1..900}; do printf '{"cpu":1000000000,"memory":9007199254740991,"count":100000},'; done >>huge
	printf '{}],"price":{"denom":"uact","amount":"1"}}' >>huge
	refused 65 "beyond every price" rnp-price bid <huge
	echo '{"cpus": 1}' >prices
	refused 65 "did you mean 'cpu'" rnp-price bid --prices prices <huge
	echo '{"gpus": {"a100": "many"}}' >prices
	refused 65 "gpus: a100" rnp-price bid --prices prices <huge
	echo '{"tokens": {"uakt": 0}}' >prices
	refused 65 "a price of 0" rnp-price bid --prices prices <huge
}
