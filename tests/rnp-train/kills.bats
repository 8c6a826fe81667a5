#!/usr/bin/env bats
# rnp-train coordinate and join, each killed at chosen instants (before and behind an fsync, a rename, a commit: tests/net/kill_at.c),
# and with a full disk. 200 instants: tests/soak/train-instants.
load ../helper
load train_net

setup_file() {
	export DIR=$BATS_FILE_TMPDIR
	gcc -shared -fPIC -O1 -o "$DIR/kill_at.so" "$ROOT/tests/net/kill_at.c" -ldl
	make_training
}

setup() { coordinator='' worker=(); }
teardown() {
	stop_training
	! mountpoint -q "$BATS_TEST_TMPDIR/small" || umount -l "$BATS_TEST_TMPDIR/small"
}

# killed_at WHO CALL BEHIND [OPTION...]: a run of two rounds in which WHO ("coordinator", "worker") ends at this call, and goes on
killed_at() {
	local who=$1 pid
	local kill=(env LD_PRELOAD="$DIR/kill_at.so" RNP_KILL_AT="$2" RNP_KILL_AFTER="$3")
	shift 3
	rm -rf m port state-a c.out a.out
	if [[ $who == coordinator ]]; then
		rnp-train() { "${kill[@]}" rnp-train "$@"; }
		start_coordinator_that_may_end "$@"
		unset -f rnp-train
		[[ -s started ]] && start_worker a || true
		wait_until 'the coordinator to be killed' process_is_gone "$coordinator"
		wait "$coordinator" || true
		start_coordinator "$@"
		[[ -n ${worker[a]-} ]] || start_worker a
	else
		start_coordinator "$@"
		rnp-train() { "${kill[@]}" rnp-train "$@"; }
		start_worker a
		unset -f rnp-train
		wait_until 'the worker to be killed' process_is_gone "${worker[a]}"
		wait "${worker[a]}" || true
		start_worker a
	fi
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	unset 'worker[a]'
	rounds | jq -s -c 'unique_by(.round)[]' >once
	jq -se 'map(.round) == [1, 2] and .[1].base == .[0].model and all(.workers == 1)' once
	jq -se '[.[].members[] | select(.state == "counted").first] | length == (unique | length)' once
	rnp-train eval --model m --data "$DIR/valid" --length 32 --tokens 256 --device cpu >/dev/null
	[[ -z $(find m state-a -name '*.rnp-part*') ]] || fail "left: $(find m state-a -name '*.rnp-part*')"
}

# As start_coordinator, of one that may be killed before it listens
start_coordinator_that_may_end() {
	local until=$((SECONDS + 60))
	cp -r "$DIR/model" m
	rm -f started
	rnp-train coordinate --model m --data "$DIR/tok" --listen 127.0.0.1:0 --port-file started --batch 4 --length 32 \
		--lr 3e-3 --device cpu --log-file requests.log "$@" >>c.out 2>>c.err 3>&- &
	coordinator=$!
	while ((SECONDS < until)) && [[ ! -s started ]] && ! process_is_gone "$coordinator"; do sleep 0.05; done
	[[ -s started ]] || return 0
	cp started port
	url=http://127.0.0.1:$(cat port)
}

@test "kills: the coordinator while it makes a run, and around the commits of a round" {
	cd "$BATS_TEST_TMPDIR"
	for at in 4 90; do killed_at coordinator "$at" $((at % 2)) --workers 1 --rounds 2 --inner-steps 2; done
}

# The file is written and has not its name yet: the second call of export, of a new coordinator for its key
@test "kills: what is left beside a file that was written goes when it is written again" {
	local export=(rnp-train export --model "$DIR/model" --out copy)
	cd "$BATS_TEST_TMPDIR"
	run -137 env LD_PRELOAD="$DIR/kill_at.so" RNP_KILL_AT=2 "${export[@]}"
	[ -s copy/model.safetensors.rnp-part0 ]
	"${export[@]}" >/dev/null
	[ "$(ls copy)" = "$(ls "$DIR/model")" ]
	killed_at coordinator 2 0 --workers 1 --rounds 2 --inner-steps 2
}

@test "kills: the worker while it keeps what it fetched, and its delta" {
	cd "$BATS_TEST_TMPDIR"
	killed_at worker 50 0 --workers 1 --rounds 2 --inner-steps 2
}

# its state.json: the number of the file of AdamW's state, 0 before the first turn is kept
kept() { jq .adam "$BATS_TEST_TMPDIR"/state-a/*/state.json; }
answers() { jq -r "select(.path | startswith(\"/v1/delta/\")) | select(.method == \"$1\") | .status" requests.log; }

# Pieces leave while a thread keeps what belongs to them; the rename of state.json (36) is not made, and all pieces are there
@test "kills: a worker whose delta is there and not kept: the same again is not sent again, another one in its place" {
	cd "$BATS_TEST_TMPDIR"
	local kill=(env LD_PRELOAD="$DIR/kill_at.so" RNP_KILL_AT=36 RNP_KILL_WAIT=700) again
	for again in '' '--micro-batch 2'; do
		rm -rf m port state-a c.out a.out requests.log
		start_coordinator --workers 1 --rounds 1 --inner-steps 2
		rnp-train() { "${kill[@]}" rnp-train "$@"; }
		start_worker a
		unset -f rnp-train
		wait_until 'the worker to be killed' process_is_gone "${worker[a]}"
		fails "${worker[a]}"
		[ "$(kept)" = 0 ]
		[ "$(answers POST)" = '' ]
		grep -q . <(answers PUT)
		cp requests.log before.log
		# other passes make other bits
		start_worker a $again
		end_of a "${worker[a]}"
		end_of coordinate "$coordinator"
		unset 'worker[a]'
		rounds | jq -se 'length == 1 and .[0].workers == 1 and .[0].dropped == 0'
		if [[ $again ]]; then
			[ "$(answers POST | paste -sd' ')" = '422 200' ]
		else
			[ "$(answers PUT | wc -l)" = "$(jq -r 'select(.method == "PUT") | .path' before.log | wc -l)" ]
			[ "$(answers POST)" = 200 ]
		fi
	done
}

# In the second turn it stands still before the first file that belongs to the delta has its name, and is killed there
@test "kills: a delta leaves while what belongs to it is copied, and is made again, the same, after a kill" {
	cd "$BATS_TEST_TMPDIR"
	local kill=(env LD_PRELOAD="$DIR/kill_at.so" RNP_KILL_NAME=/m-4.f32 RNP_KILL_WAIT=600000) pieces
	start_coordinator --workers 1 --rounds 2 --inner-steps 2
	rnp-train() { exec "${kill[@]}" rnp-train "$@"; }
	start_worker a
	unset -f rnp-train
	pieces_of() { jq -r "select(.method == \"PUT\" and (.path | test(\"/$1/[0-9]+$\"))) | .status" requests.log; }
	leaves() { pieces_of 2 | grep -q 201; }
	wait_until 'the second delta to leave' leaves
	kill_hard "${worker[a]}"
	[ "$(answers POST)" = 200 ]
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	[ "$(answers POST | paste -sd' ')" = '200 200' ]
	# neither is a piece there with other bytes
	[ -z "$(pieces_of 2 | grep -v '20[01]')" ]
	rounds | jq -se 'length == 2 and all(.workers == 1 and .dropped == 0)'
}

# The thread that keeps it stands still before the container is flushed
@test "kills: a delta leaves before it is on the disk, and its record does not" {
	cd "$BATS_TEST_TMPDIR"
	local kill=(env LD_PRELOAD="$DIR/kill_at.so" RNP_KILL_SYNC=/delta-2.rnpg RNP_KILL_WAIT=600000)
	start_coordinator --workers 1 --rounds 2 --inner-steps 2
	rnp-train() { exec "${kill[@]}" rnp-train "$@"; }
	start_worker a
	unset -f rnp-train
	leaves() { jq -r 'select(.method == "PUT" and (.path | test("/2/[0-9]+$"))) | .status' requests.log | grep -q 201; }
	wait_until 'the second delta to leave' leaves
	[ "$(answers POST)" = 200 ]
	(($(kept) < 4))
	kill_hard "${worker[a]}"
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	rounds | jq -se 'length == 2 and all(.workers == 1 and .dropped == 0)'
}

# The coordinator stands still before the update has its name, and is killed there
@test "kills: an update is there for nobody before its round is on the disk, also where that is made twice" {
	cd "$BATS_TEST_TMPDIR"
	local kill=(env LD_PRELOAD="$DIR/kill_at.so" RNP_KILL_WAIT=600000) base bytes
	rnp-train() { exec "${kill[@]}" RNP_KILL_NAME="$stops_at" rnp-train "$@"; }
	stops_at=/update- start_coordinator --workers 2 --rounds 2 --inner-steps 2
	unset -f rnp-train
	start_worker a
	start_worker b
	stands() { curl -s "$url/metrics" | grep -qx 'rnp_train_delivered 2' && [ -n "$(find m/coordinate -name '*update-*' -size +0)" ]; }
	wait_until 'the update to be made' stands
	[ -z "$(rounds)" ]
	base=$(jq -r .base state-a/*/state.json)
	[ "$(curl -s -m 20 -o answer -w '%{http_code}' "$url/v1/update/$base")" = 404 ]
	kill -STOP "${worker[a]}" "${worker[b]}"
	kill_hard "$coordinator"
	start_coordinator --workers 2 --rounds 2 --inner-steps 2
	wait_until 'a round' rounds_are 1
	[ "$(rounds | jq -sr '.[0].base')" = "$base" ]
	# its tag is its root's, which is near its end
	curl -s -m 20 -D head -o update "$url/v1/update/$base"
	bytes=$(stat -c %s update)
	grep -qi "^ETag: \"$(tail -c +$((bytes - 43)) update | head -c 32 | xxd -p -c 64)\"" head
	kill -CONT "${worker[a]}" "${worker[b]}"
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinate "$coordinator"
	rounds | jq -se 'map(.round) == [1, 2] and .[1].base == .[0].model and all(.workers == 2 and .dropped == 0)'
}

# While the next turn is made a thread keeps the last one: killed before state.json names it (49), behind (50), and while an update is kept,
# the worker ends with the parameters of one that nobody killed
@test "kills: a streaming worker while it keeps what it sends: the same deltas, bit for bit" {
	cd "$BATS_TEST_TMPDIR"
	local streams=(--workers 1 --rounds 1 --inner-steps 4 --fragments 2 --overlap 1) at
	start_coordinator "${streams[@]}"
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	rounds | jq .model >undisturbed
	for at in 26 49 70; do
		killed_at worker "$at" $((at > 49)) "${streams[@]}"
		jq .model once | diff undisturbed -
	done
}

# A file system of so many MiB at ./small
small_disk() {
	((EUID == 0)) || skip 'a small file system needs root'
	mkdir -p small
	mount -t tmpfs -o "size=$1m" none small 2>/dev/null || skip 'no file system can be mounted here'
}

fill() { head -c 1G /dev/zero >small/filler 2>/dev/null || true; }

# disk_of_coordinator OPTION...: a run of four rounds whose coordinator's disk is full behind the first
disk_of_coordinator() {
	small_disk 80
	cp -r "$DIR/model" small/m
	ln -s small/m m
	start_coordinator --workers 1 "$@"
	start_worker a --give-up 120s
	wait_until 'a round' rounds_are 1
	fill
	# a piece is refused and the worker waits; or the round cannot be closed, and the coordinator ends with one line
	is_refused() { grep -Eq 'No space left|database or disk is full' a.err c.err; }
	wait_until 'somebody to say so' is_refused
	rm small/filler
	rnp-train eval --model m --data "$DIR/valid" --length 32 --tokens 256 --device cpu >/dev/null
	if process_is_gone "$coordinator"; then
		fails "$coordinator"
		start_coordinator
	fi
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	rounds | jq -s -c 'unique_by(.round)[]' >once
	jq -se '. as $all | map(.round) == [1, 2, 3, 4] and all(range(1; 4); $all[.].base == $all[. - 1].model)' once
}

# disk_of_worker MIB OPTION...: of a worker whose disk of so many is full behind the first round
disk_of_worker() {
	small_disk "$1"
	ln -s small state-a
	start_coordinator --workers 1 "${@:2}"
	start_worker a
	wait_until 'a round' rounds_are 1
	# it has rounds left, and makes none while its disk is filled
	kill -STOP "${worker[a]}"
	fill
	kill -CONT "${worker[a]}"
	wait_until 'the worker to end' process_is_gone "${worker[a]}"
	code=0
	wait "${worker[a]}" || code=$?
	forget "${worker[a]}"
	((code == 73 || code == 74)) || fail "ended with $code"
	[ "$(grep -c 'No space left on device' a.err)" = 1 ]
	rm small/filler
	start_worker a
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	rounds | jq -se 'map(.round) == [range(1; length + 1)] and all(.workers == 1)'
}

@test "disk: the coordinator's is full: it says so, and the run goes on when there is room again" {
	cd "$BATS_TEST_TMPDIR"
	disk_of_coordinator --rounds 4 --inner-steps 5
}

@test "disk: the coordinator's is full while a worker streams" {
	cd "$BATS_TEST_TMPDIR"
	disk_of_coordinator --rounds 2 --inner-steps 8 --fragments 2 --overlap 2
}

@test "disk: a worker's is full: one line, and it goes on when there is room again" {
	cd "$BATS_TEST_TMPDIR"
	disk_of_worker 60 --rounds 6 --inner-steps 5
}

@test "disk: a streaming worker's is full" {
	cd "$BATS_TEST_TMPDIR"
	disk_of_worker 90 --rounds 8 --inner-steps 8 --fragments 2 --overlap 2
}

# A relay of TCP that breaks off its first eight connections behind 20000 to 90000 bytes: prints its port
breaking_relay='
import socket, sys, threading
to, broken, lock = int(sys.argv[1]), [0], threading.Lock()
def pump(a, b, left):
    try:
        while data := a.recv(4096):
            if left is not None:
                left[0] -= len(data)
                if left[0] < 0: break
            b.sendall(data)
    except OSError: pass
    for s in (a, b):
        try: s.shutdown(socket.SHUT_RDWR)
        except OSError: pass
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True:
    a = s.accept()[0]
    b = socket.create_connection(("127.0.0.1", to))
    with lock: broken[0] += 1
    left = [10000 + 10000 * broken[0]] if broken[0] <= 8 else None
    for pair in ((a, b), (b, a)): threading.Thread(target=pump, args=(*pair, left), daemon=True).start()'

@test "tls: connections that break off in the middle of what they carry: everything arrives, once" {
	cd "$BATS_TEST_TMPDIR"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout k.pem -out c.pem -days 1 \
		-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
	start_coordinator --workers 1 --rounds 2 --inner-steps 3 --cert c.pem --cert-key k.pem
	python3 -c "$breaking_relay" "$(cat port)" >relay.port 2>relay.err 3>&- &
	worker[relay]=$!
	wait_until 'the relay' test -s relay.port
	url=https://127.0.0.1:$(cat relay.port)
	start_worker a --ca c.pem
	end_of a "${worker[a]}"
	end_of coordinate "$coordinator"
	rounds | jq -se 'map(.round) == [1, 2] and all(.workers == 1)'
}
