#!/usr/bin/env bats
# network - what a lease reaches and what reaches it, against the real kernel and nft. The "host" is a network namespace without a
# way out, as is the world.
load ../helper
load ../net/node

setup() {
	missing=$(rig_missing)
	[[ -z $missing ]] || skip "$missing"
	cd "$BATS_TEST_TMPDIR" || return
	NET=$(realpath .)/net
	export RESOLVERS='' BLOCKED='' POOL=''
	before=$(ip -o link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward)
	node_up
}

teardown() {
	[[ ${NET-} ]] || return 0
	node_down
	[[ $(ip -o link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward) == "$before" ]] || fail "the machine's own network has changed"
	! grep -q " $NET/" /proc/self/mountinfo || fail "a mount was left"
}

# state of the host that leases must not change
state() {
	rig_in "$node_host" bash -c 'nft list ruleset; ip -o addr; ip route; grep -r . /proc/sys/net/ipv4/conf/{all,default,up0}/ /proc/sys/net/ipv4/ip_forward' 2>/dev/null |
		sed 's/ tentative//'
}

@test "network: a lease reaches the Internet, with the host's address" {
	network open a 0
	assert_equal "$(asks a tcp 9.9.9.9 80 9.9.9.9 8008)" "world world"
	assert_equal "$(asks a udp 9.9.9.9 8008)" world
	assert_equal "$(sort -u world.asked)" $'ready\ntcp 80 192.168.7.10\ntcp 8008 192.168.7.10\nudp 8008 192.168.7.10'
	in_lease a python3 - <<-'END'
		import socket
		socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)  # ping, without a capability
	END
}

@test "network: it does not reach host, router, private, shared, link-local, documentation or metadata addresses" {
	network open a 0
	many=()
	for address in 192.168.7.10 5.6.7.8 192.168.7.1 100.127.128.0 224.0.0.1 255.255.255.255 "${NODE_WORLD[@]:2}"; do
		many+=("$address" 80 "$address" 8008 "$address" 53)
	done
	assert_equal "$(asks a tcp "${many[@]}" | tr ' ' '\n' | sort -u)" refused # at once: nobody waits for what is forbidden
	assert_equal "$(asks a udp "${many[@]}" | tr ' ' '\n' | sort -u)" refused
	assert_equal "$(asks a tcp 2a00:1:2::10 80 fe80::1 80 ::ffff:192.168.7.10 80 fd00:ec2::254 80)" "refused refused refused refused"
	# nothing has come through
	assert_equal "$(cat host.asked world.asked)" $'ready\nready'
	# what is beside it is its own
	assert_equal "$(asks a tcp 127.0.0.1 80)" refused
}

@test "network: the host's fence holds alone, where that of the namespace has gone" {
	network open a 0
	network open b 0
	in_lease a nft flush ruleset
	in_lease b nft flush ruleset
	nsenter --net="$NET/b" python3 "$ROOT/tests/net/answers.py" b 80 >b.asked 3>&- &
	node_servers+=($!)
	wait_until "a server in a lease" grep -q ready b.asked
	assert_equal "$(asks a tcp 9.9.9.9 80)" world
	many=()
	for address in 192.168.7.10 5.6.7.8 192.168.7.1 100.127.128.0 100.127.128.2 100.127.128.3 "${NODE_WORLD[@]:2}"; do
		many+=("$address" 80 "$address" 53)
	done
	assert_equal "$(asks a tcp "${many[@]}" | tr ' ' '\n' | sort -u | paste -sd' ')" nothing
	assert_equal "$(cat host.asked b.asked)" $'ready\nready'
	# an address that is not its own is not let through
	in_lease a ip addr add 7.7.7.7/32 dev eth0
	in_lease a ip route replace default via 100.127.128.0 src 7.7.7.7
	assert_equal "$(asks a tcp 9.9.9.9 80)" nothing
	rig_in "$node_host" ip addr add 4.4.4.4/32 dev lo # one that the host has got since
	assert_equal "$(asks a tcp 4.4.4.4 80)" nothing
	assert_equal "$(grep -c . host.asked)" 1
}

@test "network: nobody reaches a lease, neither its neighbours nor the world nor the host" {
	network open a 0
	network open b 0
	nsenter --net="$NET/b" python3 "$ROOT/tests/net/answers.py" b 80 >b.asked 3>&- &
	node_servers+=($!)
	wait_until "a server in a lease" grep -q ready b.asked
	assert_equal "$(asks a tcp 100.127.128.3 80)" refused
	assert_equal "$(rig_in "$node_host" python3 "$ROOT/tests/net/ask.py" tcp 100.127.128.3 80)" nothing
	rig_in "$node_world" ip route add 100.127.128.0/17 via 192.168.7.10
	assert_equal "$(rig_in "$node_world" python3 "$ROOT/tests/net/ask.py" tcp 100.127.128.3 80)" nothing
	assert_equal "$(asks b tcp 127.0.0.1 80)" b
	assert_equal "$(cat b.asked)" $'ready\ntcp 80 127.0.0.1'
}

@test "network: servers of names are asked where they are, and for names alone" {
	RESOLVERS="192.168.7.1 1.1.1.1" network open a 0
	assert_equal "$(asks a udp 192.168.7.1 53 192.168.7.1 80 10.1.2.3 53)" "world refused refused"
	assert_equal "$(asks a tcp 192.168.7.1 53 1.1.1.1 53 192.168.7.10 53)" "world world refused"
	# the host is none, even where it is said to be
	RESOLVERS="192.168.7.10" network adopt a 0
	assert_equal "$(asks a udp 192.168.7.10 53 192.168.7.1 53)" "refused refused"
	refused 65 "is no address" env RESOLVERS='9.9.9.9}' "$RNP_BUILD/evil/lease" network open "$NET" b 0
	BLOCKED="9.9.9.0/24" network open b 0
	assert_equal "$(asks b tcp 9.9.9.9 80 1.1.1.1 80)" "refused world"
}

@test "network: peers are reached by the device of the ranks alone, on any port, both ways" {
	network open a 0
	in_lease a ip tuntap add dev ranks mode tun
	in_lease a ip addr add 10.64.0.1/24 dev ranks
	in_lease a ip link set ranks up
	assert_equal "$(asks a udp 10.64.0.2 8008)" refused
	network peers a 10.64.0.2 10.64.0.3
	# let through, and nobody is there: no answer, and no refusal
	assert_equal "$(asks a udp 10.64.0.2 8008 10.64.0.3 1 10.64.0.4 1)" "nothing nothing refused"
	in_lease a ip route add 9.9.9.9/32 dev ranks
	assert_equal "$(asks a tcp 9.9.9.9 80)" refused # the ranks are no way out
	network peers a 10.64.0.4
	assert_equal "$(asks a udp 10.64.0.2 8008 10.64.0.4 1)" "refused nothing"
	refused 65 "is no address" network peers a '10.64.0.2; flush ruleset'
}

@test "network: no more leaves a lease than was said, and others are not slower for it" {
	network open slow 8000000
	network open fast 0
	cat >send.py <<-'END'
		import socket, sys, time
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		s.connect(("9.9.9.9", 9))
		begin = time.monotonic()
		while time.monotonic() < begin + 2:
		    try:
		        s.send(bytes(1400))
		    except OSError:
		        pass
	END
	bytes() { rig_in "$node_world" cat /proc/net/dev | awk '$1 == "down0:" { print $2 }'; }
	first=$(bytes)
	in_lease slow python3 send.py
	second=$(bytes)
	in_lease fast python3 send.py
	third=$(bytes)
	# 1 MB/s and a burst; how long the two seconds were, a busy machine decides
	((second - first > 500000 && second - first < 12000000)) || fail "$((second - first)) bytes"
	((third - second > 2 * (second - first))) || fail "$((third - second)) bytes without a limit, $((second - first)) with one"
}

@test "network: the host is as it was, before, beside and after leases" {
	rig_in "$node_host" nft -f - <<-'END'
		table inet mine {
			chain forward {
				type filter hook forward priority 0; policy accept;
				iifname "none" drop
			}
		}
	END
	before_leases=$(state)
	network open a 0
	network open b 0
	assert_equal "$(rig_in "$node_host" cat /proc/sys/net/ipv4/ip_forward)" 0
	assert_equal "$(cat "$NET/.forwarding")" up0
	# a host that forwarded nothing forwards for leases alone: who asks it to pass on is not served
	rig_in "$node_host" ip link add lan type veth peer name lan1
	rig_in "$node_host" bash -c 'echo 1 | tee /proc/sys/net/ipv6/conf/lan/disable_ipv6 /proc/sys/net/ipv6/conf/lan1/disable_ipv6 >/dev/null'
	rig_in "$node_host" ip addr add 172.20.0.1/24 dev lan
	rig_in "$node_host" ip link set lan up
	rig_in "$node_host" ip link set lan1 up
	rig_in "$node_host" ip neigh add 172.20.0.9 lladdr 02:00:00:00:00:09 dev lan
	sent() { rig_in "$node_host" cat /proc/net/dev | awk '$1 == "lan1:" { print $3 }'; } # is what lan1 received
	first=$(sent)
	rig_in "$node_world" ip route add 172.20.0.0/24 via 192.168.7.10
	assert_equal "$(SECONDS_MAX=1 rig_in "$node_world" python3 "$ROOT/tests/net/ask.py" udp 172.20.0.9 80)" nothing
	assert_equal "$(sent)" "$first"
	rig_in "$node_host" ip link del lan
	network close a
	assert_equal "$(asks b tcp 9.9.9.9 80)" world
	network close b
	assert_equal "$(state)" "$before_leases"
	[[ -z $(ls "$NET") && ! -e $NET/.forwarding ]]
}

@test "network: whoever forwards already, or begins to, keeps that" {
	rig_in "$node_host" bash -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
	before_leases=$(state)
	network open a 0
	[[ ! -e $NET/.forwarding ]]
	assert_equal "$(asks a tcp 9.9.9.9 80)" world
	network close a
	assert_equal "$(state)" "$before_leases"
	rig_in "$node_host" bash -c 'echo 0 >/proc/sys/net/ipv4/ip_forward'
	network open a 0
	rig_in "$node_host" nft list chain inet rnp_leases forward | grep -q '"up0" drop'
	rig_in "$node_host" bash -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' # somebody installs Docker
	network refresh
	run ! grep '"up0" drop' <(rig_in "$node_host" nft list chain inet rnp_leases forward)
	network close a
	assert_equal "$(rig_in "$node_host" cat /proc/sys/net/ipv4/conf/up0/forwarding)" 1
}

@test "network: it outlives its agent, and rules that somebody flushed come back" {
	network open a 0
	refused 73 "is there already" network open a 0
	network adopt a 0
	assert_equal "$(asks a tcp 9.9.9.9 80)" world
	rig_in "$node_host" nft flush ruleset # as "systemctl reload nftables" does
	assert_equal "$(SECONDS_MAX=1 asks a tcp 9.9.9.9 80 5.6.7.8 80)" "nothing refused"
	network refresh
	assert_equal "$(asks a tcp 9.9.9.9 80)" world
	in_lease a nft flush ruleset
	network adopt a 0
	assert_equal "$(asks a tcp 9.9.9.9 80 5.6.7.8 80)" "world refused"
	# an address that the host has got since is refused, too
	rig_in "$node_host" ip addr add 4.4.4.4/32 dev lo
	network adopt a 0
	assert_equal "$(asks a tcp 4.4.4.4 80)" refused
	rig_in "$node_host" ip link del rnpl0
	refused 66 "no link any more" network adopt a 0
	refused 66 "no network namespace" network adopt b 0
	network close a
	network close a
}

@test "network: what belongs to no live lease is cleaned, also what a crash left" {
	network open live 0
	network open dead 0
	rig_in "$node_host" ip link add rnpl77 type veth peer name x77 # made, and not named yet
	rig_in "$node_host" ip link add mine type veth peer name mine1
	: >"$NET/empty" # a file, and no namespace yet
	assert_equal "$(network list | sort)" $'dead\nempty\nlive'
	assert_equal "$(network clean live)" 2
	assert_equal "$(network list)" live
	assert_equal "$(rig_in "$node_host" ip -o link | grep -c 'rnpl')" 1
	rig_in "$node_host" ip link show mine
	assert_equal "$(asks live tcp 9.9.9.9 80)" world
	# the last one went, and its agent was killed before it tidied up
	rig_in "$node_host" ip link del rnpl0
	umount "$NET/live" && rm "$NET/live"
	assert_equal "$(network clean)" 0
	assert_equal "$(rig_in "$node_host" nft list ruleset)" ""
	assert_equal "$(rig_in "$node_host" cat /proc/sys/net/ipv4/conf/up0/forwarding)" 0
}

@test "network: a lease that ends cuts what is open, and its processes keep nothing" {
	network open a 0
	nsenter --net="$NET/a" sleep 600 3>&- &
	sleeper=$!
	in_it() { [[ $(readlink /proc/$sleeper/ns/net) != "$(readlink /proc/self/ns/net)" ]]; }
	wait_until "a process in it" in_it
	network close a
	[[ -z $(ls "$NET") ]]
	assert_equal "$(nsenter -t $sleeper -n ip -o link | grep -c eth0 || true)" 0
	kill $sleeper
	network open a 0 # its name and its address are free
	assert_equal "$(asks a tcp 9.9.9.9 80)" world
}

@test "network: what somebody has of the pool is left alone, and one that is used up says so" {
	rig_in "$node_host" ip link add other type veth peer name other1
	rig_in "$node_host" ip addr add 100.127.128.1/30 dev other
	rig_in "$node_host" ip link set other up
	network open a 0
	assert_equal "$(in_lease a ip -o -4 addr show eth0 | awk '{ print $4 }')" 100.127.128.5/31
	POOL=100.127.128.0/30 refused 69 "no address for a lease is free" network open b 0
	[[ $(ls "$NET") == a ]]
	POOL=100.127.128.1/24 refused 64 "no network" network open b 0
	POOL=10.9.0.0/24 network open b 0
	assert_equal "$(asks b tcp 9.9.9.9 80)" world
	for id in '' A a/b .. -a .lock; do refused 65 "cannot name" network open "$id" 0; done
	refused 65 "at least 8000" network open c 1
}

@test "network: twelve at once, and a machine without nft says so" {
	pids=()
	for i in {1..12}; do
		network open n$i 0 &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do ended "$pid"; done
	assert_equal "$(for i in {1..12}; do asks n$i tcp 9.9.9.9 80; done | sort | uniq -c | tr -s ' ')" " 12 world"
	assert_equal "$(network clean)" 12
	network probe
	without() { unshare -m --propagation private bash -c 'mount -t tmpfs none /usr/sbin; mount -t tmpfs none /sbin; exec "$@"' - "$@"; }
	refused 69 "no program nft: install the package nftables" without "$RNP_BUILD/evil/lease" network probe "$NET"
	[[ -z $(ls "$NET") ]]
}
