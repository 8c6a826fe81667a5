#!/usr/bin/env bats
# rnp-train coordinate and join over a bad network: NAT, low rates, delay, loss, doubled and reordered packets, links and
# processes that go and come. Longer: tests/soak/train-faults.bats.
load ../helper
load train_net
load ../net/rig

setup_file() {
	export DIR=$BATS_FILE_TMPDIR RELAY_PROGRAM=$BATS_FILE_TMPDIR/relay
	[[ -z $(rig_missing) ]] || return 0
	gcc -O2 -o "$RELAY_PROGRAM" "$ROOT/tests/net/relay.c"
	make_training
}

setup() {
	coordinator='' worker=()
	[[ -z $(rig_missing) ]] || skip "$(rig_missing | paste -sd, -)"
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	stop_training
	rig_down
}

echo_server='
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.77.0.1", 9000))
while True:
    data, who = s.recvfrom(2000)
    s.sendto(data, who)'

# prints how many of N were lost and the median round trip in ms
echo_client='
import select, socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("10.77.0.1", 9000))
n, trips, sent = int(sys.argv[1]), [], {}
# the server takes a while to start
for i in range(600):
    try: s.send(b"0")
    except OSError: pass
    if select.select([s], [], [], 0.1)[0]:
        try: s.recv(2000); break
        except OSError: pass
time.sleep(0.5)
while select.select([s], [], [], 0)[0]:
    try: s.recv(2000)
    except OSError: pass
def take(until):
    while (left := until - time.monotonic()) > 0 and select.select([s], [], [], left)[0]:
        try: i = int(s.recv(2000))
        except OSError: continue
        trips.append(time.monotonic() - sent[i])
for i in range(n):
    sent[i] = time.monotonic()
    try: s.send(b"%d" % i)
    except OSError: pass
    take(time.monotonic() + 0.02)
take(time.monotonic() + 3)
print(n - len(trips), round(1000 * sorted(trips)[len(trips) // 2]) if trips else 0)'

@test "net: the rig itself: round trips, losses, one address for all homes" {
	rig_up 2 50mbit 50mbit 40 0 0 0 0
	rig_exec "$rig_server" python3 -c "$echo_server" >/dev/null 2>&1 3>&- &
	worker[echo]=$!
	read -r lost median < <(rig_in "${rig_home[1]}" python3 -c "$echo_client" 20)
	((median >= 80 && median < 1000 && lost < 10)) || fail "$median ms, $lost of 20 lost"
	rig_exec "$rig_server" python3 -m http.server --bind 10.77.0.1 8080 >http.out 2>&1 3>&- &
	worker[http]=$!
	wait_until 'the server' rig_in "${rig_home[2]}" curl -s -o /dev/null http://10.77.0.1:8080/
	rig_in "${rig_home[1]}" curl -s -o /dev/null http://10.77.0.1:8080/
	wait_until 'its log' grep -q '^10.77.0.2 ' http.out
	run ! grep -q '^10.78' http.out
	rig_down
	rig_up 1 50mbit 50mbit 1 0 300000 0 0 7
	rig_exec "$rig_server" python3 -c "$echo_server" >/dev/null 2>&1 3>&- &
	worker[echo2]=$!
	# 30% each way lose about half of the round trips
	read -r lost median < <(rig_in "${rig_home[1]}" python3 -c "$echo_client" 150)
	((lost > 45 && lost < 110)) || fail "$lost of 150 lost"
}

@test "net: workers behind a NAT, 20 Mbit/s, 60 ms, 1% loss, doubled and reordered packets: rounds go on" {
	rig_up 2 20mbit 20mbit 30 10 10000 5000 5000 1
	serve_training --workers 2 --rounds 3 --inner-steps 5
	join_from 1 a
	join_from 2 b
	end_of a "${worker[a]}"
	end_of b "${worker[b]}"
	end_of coordinate "$coordinator"
	nothing_is_twice
	rounds | jq -se 'length == 3 and all(.workers == 2)'
	[ "$(jq -r .base state-a/*/state.json)" = "$(rounds | tail -n 1 | jq -r .base)" ]
}

@test "net: a link that is down, a worker that is killed and one that stands still: nothing is lost or counted twice" {
	rig_up 3 50mbit 50mbit 10 0 0 0 0
	serve_training --workers 2 --rounds 4 --inner-steps 10
	join_from 1 a
	join_from 2 b
	join_from 3 c
	wait_until 'a round' rounds_are 1
	rig_link down
	sleep 3 # long enough for requests to be under way; what is waited for comes below
	rig_link up
	wait_until 'two rounds' rounds_are 2
	kill_hard "${worker[a]}"
	kill -STOP "${worker[b]}"
	join_from 1 a
	wait_until "three rounds" rounds_are 3
	kill -CONT "${worker[b]}"
	end_of coordinate "$coordinator"
	for name in a b c; do end_of "$name" "${worker[$name]}"; done
	nothing_is_twice
	rounds | jq -se 'length == 4 and all(.workers >= 2)'
}
