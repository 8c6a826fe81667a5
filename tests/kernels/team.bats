# The team of threads: those that wait sleep, whatever OMP_WAIT_POLICY says. Processor times, which others on the machine hardly change.
load ../helper

setup() {
	cd "$BATS_TEST_TMPDIR"
}

# used COMMAND ...: its processor time in ms
used() {
	local TIMEFORMAT='%U %S' times
	times=$({ time "$@" >out 2>err; } 2>&1)
	awk '{ printf "%d\n", 1000 * ($1 + $2) }' <<<"$times"
}

@test "team: programs bring it along, and oneDNN's threads are the same" {
	for p in rnp-register rnp-bench rnp-price rnp-train rnp-serve rnp-reward; do
		program=$(command -v $p)
		run ! grep -q libgomp <(ldd "$program")
	done
	for f in GOMP_parallel GOMP_barrier omp_get_max_threads omp_get_num_threads omp_get_thread_num omp_in_parallel; do
		nm -D --defined-only "$(command -v rnp-bench)" | grep -q " T $f\$"
	done
}

@test "team: threads whose program waits for input use nothing" {
	# the team has worked and has more to do a while later; a second thread that spins would use the while
	lines() {
		seq 2000 | jq -c '{n: .}'
		sleep "$1"
		seq 2000 | jq -c '{n: .}'
	}
	rnp-register keygen --out k.json >/dev/null
	# libgomp would spin less with more threads than processors
	export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=active GOMP_SPINCOUNT=infinite
	at_once=$(used rnp-register sign --key k.json < <(lines 0))
	later=$(used rnp-register sign --key k.json < <(lines 4))
	assert_equal "$(wc -l <out)" 4000
	echo "$at_once ms, with a pause of four seconds $later ms"
	# one that spins uses four seconds, or its share of them
	((later < at_once + 1000))
}

@test "team: training beside busy loops uses no more than alone, and has the same bits" {
	local busy=() alone beside
	seq 20000 >text
	rnp-train tokenize --vocab 256 --out tok text >/dev/null
	rnp-train init --preset nano --tokenizer tok/tokenizer.json --out m
	train() {
		rnp-train run --model m --data tok --steps 6 --batch 4 --length 128 --device cpu "$@"
	}
	# The first run with a number of threads also measures the peak, and keeps it.
	OMP_NUM_THREADS=1 train --out one >/dev/null 2>&1
	OMP_NUM_THREADS=2 train --out measured >/dev/null 2>&1
	export OMP_NUM_THREADS=1
	alone=$(used train --out again)
	for _ in 1 2 3; do
		# ends by itself if this test fails
		timeout 300 bash -c 'while :; do :; done' &
		busy+=($!)
	done 3>&-
	export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=active GOMP_SPINCOUNT=infinite
	beside=$(used train --out two)
	kill "${busy[@]}"
	wait "${busy[@]}" || true
	echo "one thread $alone ms, two beside three busy loops $beside ms"
	# spinning teams used five times as much
	((beside < 2 * alone + 500))
	cmp one/model.safetensors two/model.safetensors
	cmp one/checkpoint.safetensors two/checkpoint.safetensors
}
