#!/usr/bin/env bats
# train-hostile - 2 of 10 workers are hostile, each kind under each rule and under judging, with real processes: how far the loss
# is from that of a run of honest ones. The records are written to $RNP_RESULTS, where that is set.
load ../helper
load ../rnp-train/train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	make_training
}

setup() { coordinator='' worker=() streaming=(); }
teardown() { stop_training; }

start_evil() {
	RNP_EVIL=$2 "$RNP_BUILD/evil/rnp-train" join "$url" --data "$DIR/tok" --state "$BATS_TEST_TMPDIR/state-$1" --device cpu \
		>>"$BATS_TEST_TMPDIR/$1.out" 2>>"$BATS_TEST_TMPDIR/$1.err" 3>&- &
	worker[$1]=$!
}

# loss_of KIND OPTION...: of ten workers, two of that kind ("none": all honest), in micronats; $streaming: options
loss_of() {
	local kind=$1 i until=$((SECONDS + 1800))
	shift
	rm -rf m port state-* c.out started
	worker=()
	start_coordinator --valid "$DIR/valid" --eval-tokens 4096 --workers 10 --rounds 10 --inner-steps 24 --lr 1e-3 \
		"${streaming[@]}" "$@"
	for i in 1 2 3 4 5 6 7 8; do start_worker "w$i"; done
	for i in 9 10; do if [[ $kind == none ]]; then start_worker "w$i"; else start_evil "w$i" "$kind"; fi; done
	while kill -0 "$coordinator" 2>/dev/null && ((SECONDS < until)); do sleep 1; done
	rounds | tail -n 1 | jq .validation_loss_micronats
	stop_training
}

# kind, rule, and by how much of a hundredth the loss may be above that of honest workers; 0: reported
cases() {
	cat <<-'END'
		flip mean 0
		flip trimmed:0.25 250
		flip cclip 250
		flip krum:2 250
		scale mean 0
		scale clip 250
		random trimmed:0.25 250
		stale trimmed:0.25 250
		idle mean 0
	END
}

@test "soak: two of ten workers are hostile" {
	local clean loss kind rule most failed=0
	cd "$BATS_TEST_TMPDIR" || return
	clean=$(loss_of none --aggregate mean)
	while read -r kind rule most; do
		loss=$(loss_of "$kind" --aggregate "$rule")
		echo "# $kind $rule: $loss of $clean" >&3
		[[ -z ${RNP_RESULTS-} ]] || jq -nc --arg t "hostile $kind $rule" --argjson l "$loss" --argjson c "$clean" \
			'{kind: "rnp.bench", v: 1, suite: "train", test: $t, unit: "micronats", median: $l, low: $l, high: $l, samples: 1, params: {honest: $c}}' \
			>>"$RNP_RESULTS"
		((most == 0 || loss * 10000 <= clean * (10000 + most))) || failed=1
	done < <(cases)
	for kind in flip idle random; do
		loss=$(loss_of "$kind" --judge 10)
		echo "# $kind judged: $loss of $clean" >&3
		((loss * 100 <= clean * 101)) || failed=1
		# it was found
		rounds | jq -se '[.[].members[] | select(.state == "refused")] | length >= 10'
	done
	((failed == 0))
}

@test "soak: two of ten workers are hostile while all stream" {
	local clean loss kind rule failed=0
	cd "$BATS_TEST_TMPDIR" || return
	streaming=(--fragments 2 --overlap 2)
	clean=$(loss_of none --aggregate mean)
	while read -r kind rule; do
		loss=$(loss_of "$kind" --aggregate "$rule")
		echo "# streaming: $kind $rule: $loss of $clean" >&3
		[[ -z ${RNP_RESULTS-} ]] || jq -nc --arg t "hostile streaming $kind $rule" --argjson l "$loss" --argjson c "$clean" \
			'{kind: "rnp.bench", v: 1, suite: "train", test: $t, unit: "micronats", median: $l, low: $l, high: $l, samples: 1, params: {honest: $c}}' \
			>>"$RNP_RESULTS"
		((loss * 10000 <= clean * 10250)) || failed=1
	done <<-'END'
		scale clip
		flip krum:2
		random trimmed:0.25
		stale krum:2
	END
	((failed == 0))
}
