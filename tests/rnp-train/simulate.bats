#!/usr/bin/env bats
# rnp-train simulate: runs over a network in virtual time, with sizes alone and with real steps.
load ../helper

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	awk 'BEGIN {
		srand(7)
		split("the cat,a dog,my friend,the old man,a bird", who, ",")
		split("sees,hears,likes,follows", does, ",")
		for (i = 0; i < 3000; i++)
			printf "%s %s %s.\n", who[1 + int(rand() * 5)], does[1 + int(rand() * 4)], who[1 + int(rand() * 5)]
	}' >"$DIR/text"
	rnp-train tokenize --vocab 280 --out "$DIR/tok" "$DIR/text" >/dev/null
	rnp-train init --preset nano --vocab 280 --out "$DIR/model"
}

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# four workers with tiny steps; what comes behind wins
learn() {
	rnp-train simulate --train --model "$DIR/model" --data "$DIR/tok" --valid "$DIR/tok" --eval-tokens 2048 --workers 4 \
		--quorum 4 --batch 2 --length 32 --rounds 3 --inner-steps 4 --lr 2e-3 --warmup 2 "$@"
}

@test "simulate: records fit their schemas, and the same seed gives the same bytes" {
	printf '{"name":"a","up_bps":20000000,"down_bps":50000000,"tokens_per_s":4000,"up_s":300,"away_s":60,"loss_ppm":1000}\n' >"$DIR/links"
	rnp-train simulate --workers 50 --rounds 8 --links "$DIR/links" >a
	# people have a row a round within 80 columns, and then the whole
	COLUMNS=80 rnp-train simulate --workers 50 --rounds 8 --links "$DIR/links" --table >page
	assert_equal "$(grep -cE '^ +[0-9]+ ' page)" 8
	grep -qE '^round +time +workers +lost +tokens +received +sent +busy$' page || fail "$(<page)"
	grep -qE '^fewer bytes +[0-9.]+ times$' page && assert [ "$(wc -L <page)" -le 80 ]
	rnp-train simulate --workers 50 --rounds 8 --links "$DIR/links" >b
	cmp a b
	rnp-train simulate --workers 50 --rounds 8 --links "$DIR/links" --seed 1 >c
	run ! cmp -s a c
	[[ $(jq -s 'map(.kind) | unique | join(" ")' a) == '"rnp.sim_round rnp.simulation"' ]]
	jq -se '.[-1].joins > 50 and .[-1].rounds == 8 and (map(.dropped // 0) | add > 0)' a
	jq -se '.[:-1] | all(.workers >= 25)' a # the quorum
}

@test "simulate: a transfer takes what its bytes take on the slower link, and losses slow it down" {
	local bytes
	link() { printf '{"up_bps":%s,"down_bps":1000000000,"latency_ms":%s,"loss_ppm":%s,"tokens_per_s":1000000000}\n' "$@" >l; }
	link 8000000 0 0
	rnp-train simulate --workers 1 --rounds 4 --parameters 8000000 --links l >fast
	# q4: half a byte and a scale for 64 of them, less what Huffman takes; 1 MB/s up, the rest next to nothing
	bytes=$(jq -s '.[2].bytes_received' fast)
	jq -se --argjson bytes "$bytes" '(.[2].to_s - .[2].from_s) * 1e6 / $bytes | . > 0.98 and . < 1.1' fast
	jq -se --argjson bytes "$bytes" '$bytes > 3500000 and $bytes < 4700000' fast
	link 8000000 100 20000
	rnp-train simulate --workers 1 --rounds 4 --parameters 8000000 --links l >slow
	jq -se --slurpfile fast fast '(.[2].to_s - .[2].from_s) > 2 * ($fast[2].to_s - $fast[2].from_s)' slow
}

@test "simulate: a hundred thousand workers, as a star and as a tree" {
	rnp-train simulate --workers 100000 --rounds 2 --parameters 1000000 --totals >star
	rnp-train simulate --workers 100000 --rounds 2 --parameters 1000000 --totals --groups 300 --group-rounds 2 >tree
	jq -e '.workers == 100000 and .tokens > 0' star
	# the root hears from 300 in place of 100000, and all train more
	jq -e --slurpfile star star '.bytes_received * 100 < $star[0].bytes_received and .tokens_per_s > $star[0].tokens_per_s and .near_bytes_received > 0' tree
}

@test "simulate: workers that are four times slower are waited for in rounds, not with Delayed Nesterov and dynamic steps" {
	printf '{"share":3,"up_bps":1000000000,"down_bps":1000000000,"latency_ms":1,"tokens_per_s":8000}\n{"share":1,"up_bps":1000000000,"down_bps":1000000000,"latency_ms":1,"tokens_per_s":2000}\n' >l
	rnp-train simulate --workers 4 --rounds 10 --quorum 4 --parameters 1000000 --links l --totals >rounds
	rnp-train simulate --workers 4 --rounds 10 --quorum 4 --parameters 1000000 --links l --totals --outer dn --dynamic-steps >dn
	jq -e '.compute_ppm < 500000' rounds
	jq -e --slurpfile r rounds '.compute_ppm > 800000 and .tokens_per_s > 1.5 * $r[0].tokens_per_s' dn
	# what a turn takes beside steps and transfers is waited for, and is not computing
	sed 's/}$/,"turn_ms":5000}/' l >saved
	for kind in l saved; do
		rnp-train simulate --workers 4 --rounds 4 --quorum 4 --parameters 1000000 --links $kind >$kind.rounds
	done
	jq -se --slurpfile l l.rounds 'map(select(.kind == "rnp.sim_round")) | (.[3].to_s - ($l | map(select(.kind == "rnp.sim_round"))[3].to_s) - 20 | fabs) < 0.001' saved.rounds
	jq -se --slurpfile l l.rounds '.[3].compute_ppm < $l[3].compute_ppm' saved.rounds
	refused 65 "no 'turn_mss'; did you mean 'turn_ms'" rnp-train simulate --links <(echo '{"up_bps":1,"down_bps":1,"tokens_per_s":1,"turn_mss":1}')
}

@test "simulate --train: it learns, the same bits twice, whatever the method" {
	learn >a
	learn >b
	cmp a b
	jq -se '.[0].loss > .[2].loss + 0.2 and .[-1].validation_loss < 5' a
	for method in none ecq:0.5 topk; do
		learn --method "$method" --totals >c
		jq -e --slurpfile a a '.validation_loss < 5.5 and .model != $a[-1].model' c
	done
}

@test "simulate --train: one worker whose delta is subtracted trains as one machine does" {
	learn --workers 1 --quorum 1 --start 8 --rounds 0 --steps 8 --totals >alone
	learn --workers 1 --quorum 1 --start 2 --rounds 3 --inner-steps 2 --steps 8 --outer mean --method none --totals >rounds
	# the difference is in the last bits of f32: schedule, text and AdamW go on
	jq -e --slurpfile a alone '(.validation_loss - $a[0].validation_loss) | fabs < 0.002' rounds
}

@test "simulate --train: streaming with one fragment and no overlap is DiLoCo, bit for bit; with overlap it waits less" {
	learn --method none >rounds
	learn --method none --fragments 1 >stream
	[ "$(jq -r .model rounds)" = "$(jq -r .model stream)" ]
	printf '{"up_bps":10000000,"down_bps":10000000,"latency_ms":50,"tokens_per_s":100}\n' >l
	learn --links l --fragments 1 >one
	learn --links l --inner-steps 6 --fragments 3 --overlap 1 >three
	jq -se --slurpfile one one '.[-1].compute_ppm > $one[-1].compute_ppm and .[0].loss > .[2].loss + 0.2' three
	# every fragment goes once a round: the same bytes, but for headers
	jq -se --slurpfile one one '.[1].bytes_received / $one[1].bytes_received | . > 0.95 and . < 1.1' three
}

@test "simulate --train: a rule holds against workers times a hundred, and judging finds those that flip" {
	learn --totals >honest
	learn --totals --hostile scale:1 >mean || true
	learn --totals --hostile scale:1 --aggregate clip >clip
	jq -e --slurpfile h honest '.validation_loss < $h[0].validation_loss + 0.4' clip
	jq -e --slurpfile c clip '.validation_loss > $c[0].validation_loss + 1 or (.validation_loss | isnan)' mean
	# the text is all alike, so that the smallest of the honest leads may be refused, too
	learn --hostile flip:1 --judge 4 >judged
	jq -se '.[:-1] | all(.refused >= 1 and .refused <= 3 and .workers == 4 - .refused)' judged
	learn --hostile copy:1 >copied
	jq -se '.[1].copied == 2' copied
}

@test "simulate: what cannot be is one line and the right code" {
	refuse() {
		local code=$1
		shift
		run --separate-stderr rnp-train simulate "$@"
		[[ $status -eq $code && ${#stderr_lines[@]} -eq 1 ]] || fail "$*: $status: $stderr"
	}
	refuse 64 --workers 3 --quorum 4
	refuse 64 --train
	refuse 64 --judge 2
	refuse 64 --aggregate krum:2 --workers 5
	refuse 64 --aggregate median
	refuse 64 --outer dn --aggregate clip
	refuse 64 --fragments 2
	refuse 64 --train --model "$DIR/model" --data "$DIR/tok" --fragments 9
	refuse 64 --train --model "$DIR/model" --data "$DIR/tok" --fragments 2 --overlap 25
	refuse 64 --hostile flip --train --model m --data d
	refuse 64 --train --workers 65 --model m --data d
	refuse 66 --links nowhere
	echo '{"up_bps":1,"down_bps":1,"tokens_per_s":1,"speed":3}' >l
	refuse 65 --links l
	echo '{"up_bps":1,"down_bps":1}' >l
	refuse 65 --links l
	echo '{"up_bps":1,"down_bps":1,"tokens_per_s":1,"up_s":5}' >l
	refuse 65 --links l
	: >l
	refuse 65 --links l
	echo '{"up_bps":9000,"down_bps":9000,"tokens_per_s":1,"up_s":1,"away_s":100000000}' >l
	run -0 timeout 120 rnp-train simulate --links l --workers 1 --rounds 0 --totals
}
