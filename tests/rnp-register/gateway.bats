# gateway.bats - where customers and nodes meet by SSH: what keys may do, and what they may not, with OpenSSH's own programs.
load ../helper
load gateway

setup() {
	missing=$(gateway_missing)
	[[ -z $missing ]] || skip "GATEWAY NOT TESTED: ${missing//$'\n'/, }"
	cd "$BATS_TEST_TMPDIR" || return
	chmod 755 . # what the gateway's user reads
	machine_up
	make_ssh_key n
	make_ssh_key m
	make_ssh_key a
	make_ssh_key b
}
teardown() {
	machine_down
}

# Two leases: of n, whose customer is a, and of m, whose customer is b; m is of n's cluster
usual() {
	grant access.json "[{node: \$n, numbers: [1]}, {node: \$m, numbers: [2], peers: [1]}]" \
		"[{key: \$a, numbers: [1]}, {key: \$b, numbers: [2]}]"
}

# A node's tunnel: serve NAME ADDRESS [LEADS TO]
serve() {
	ssh_to -N -i "$1" -R "$2:2200:${3:-127.0.0.1:8000}" >"tunnel.$1" 2>&1 3>&- &
	tunnel=$!
	wait_until "the tunnel of $1" listens "$2"
}
listens() { on ss -Hltn "src $1:2200" | grep -q LISTEN; }

# What answers behind the tunnels
start_web() {
	mkdir -p web
	echo "of this node" >web/index.html
	on python3 -m http.server -b 127.0.0.1 8000 -d web >/dev/null 2>&1 3>&- &
	wait_until "a server" web_answers
}
web_answers() { on curl -sf http://127.0.0.1:8000/ >/dev/null; }

# opens KEY ADDRESS: reads the page behind an address through the gateway
opens() { printf 'GET / HTTP/1.0\r\n\r\n' | ssh_to -i "$1" -W "$2:${3:-2200}" 2>"opens.err" | grep -q "of this node"; }

@test "gateway: a customer's key opens its lease's address, and nothing else" {
	usual
	start_gateway --keys access.json
	start_web
	serve n 127.1.0.1
	serve m 127.1.0.2
	opens a 127.1.0.1
	opens b 127.1.0.2
	# another's, another port of the same, the gateway's own, the world
	run ! opens a 127.1.0.2
	assert [ "$(grep -c 'administratively prohibited' opens.err)" = 1 ]
	run ! opens b 127.1.0.1
	run ! opens a 127.1.0.1 8000
	run ! opens a 127.0.0.1 8000
	run ! opens a 127.0.0.1 2222
	run ! opens a 127.0.0.1 1
	run ! opens a ::1 8000
	run ! opens a localhost 2200
	# a rank opens its peers, not the other way round
	opens m 127.1.0.1
	run ! opens n 127.1.0.2
}

@test "gateway: nobody listens but a node, there on its own address alone" {
	usual
	start_gateway --keys access.json
	start_web
	for address in 127.1.0.1 127.1.0.2 127.0.0.1 0.0.0.0 '*' '[::1]'; do
		run ssh_to -N -i a -R "$address:2200:127.0.0.1:8000"
		assert_failure
		assert_output --partial "remote port forwarding failed"
	done
	for address in 127.1.0.2 127.0.0.1 0.0.0.0 '*' ''; do
		run ssh_to -N -i n -R "${address:+$address:}2200:127.0.0.1:8000"
		assert_failure
		assert_output --partial "remote port forwarding failed"
	done
	run ssh_to -N -i n -R 127.1.0.1:2201:127.0.0.1:8000
	assert_failure
	run ssh_to -N -i n -R 127.1.0.1:0:127.0.0.1:8000
	assert_failure
	# any number of addresses by SOCKS
	run ssh_to -N -i a -R 127.1.0.1:2200
	assert_failure
	serve n 127.1.0.1
	opens a 127.1.0.1
	# whoever comes second gets nothing of the first
	run ssh_to -N -i n -R 127.1.0.1:2200:127.0.0.1:8000
	assert_failure
}

@test "gateway: no unix sockets, no agent, no terminal, no command, no device" {
	usual
	start_gateway --keys access.json
	run ssh_to -N -i n -R /mnt/state/sock:127.0.0.1:8000
	assert_failure
	run ssh_to -N -i a -R /tmp/sock:127.0.0.1:8000
	assert_failure
	on python3 -c 'import socket, time
s = socket.socket(socket.AF_UNIX); s.bind("/mnt/sock"); s.listen(); time.sleep(1000)' 3>&- &
	wait_until "a socket" on test -S /mnt/sock
	on chmod 777 /mnt/sock
	run ssh_to -i a -W /mnt/sock:0
	assert_failure
	ssh_to -N -i a -L "$BATS_TEST_TMPDIR/local:/mnt/sock" 2>unix.err 3>&- &
	wait_until "the local end" test -S local
	run on curl -s -m 20 --unix-socket "$BATS_TEST_TMPDIR/local" http://x/
	assert_failure
	wait_until "a refusal" grep -q "open failed" unix.err
	grep -q "refused streamlocal port forward" gateway.err
	for command in '' id 'cat /etc/passwd' 'internal-sftp'; do
		run ssh_to -i a $command
		assert_failure
		refute_output --partial uid=
		refute_output --partial root:
	done
	run ssh_to -tt -i a
	assert_failure
	run ssh_to -s -i a sftp
	assert_failure
	run ssh_to -w 0:0 -N -i n
	assert_failure
	# an agent that is offered is not asked: no session would have its socket
	eval "$(on ssh-agent -s | sed 's/echo.*//')"
	on env SSH_AUTH_SOCK="$SSH_AUTH_SOCK" ssh-add -q a
	run on env SSH_AUTH_SOCK="$SSH_AUTH_SOCK" ssh -A -F none -o BatchMode=yes -o UserKnownHostsFile=known_hosts -p 2222 \
		rnp-gateway@127.0.0.1 env
	assert_failure
	refute_output --partial SSH_AUTH_SOCK
	run ! on ls /mnt/state/sock
}

@test "gateway: unknown keys, other types, other users and passwords are refused" {
	usual
	make_ssh_key stranger
	make_ssh_key r rsa
	make_ssh_key e ecdsa
	start_gateway --keys access.json
	for key in stranger r; do
		run ssh_to -N -i $key -W 127.1.0.1:2200
		assert_failure 255
		assert_output --partial "Permission denied"
	done
	for user in root rnp-session nobody; do
		run on ssh -F none -o BatchMode=yes -o UserKnownHostsFile=known_hosts -o IdentitiesOnly=yes -i a -p 2222 -W 127.1.0.1:2200 \
			$user@127.0.0.1
		assert_failure 255
		assert_output --partial "Permission denied (publickey)"
	done
	# a certificate over a good key
	ssh-keygen -q -s stranger -I x -n rnp-gateway a.pub
	run ssh_to -i a -o CertificateFile=a-cert.pub -o PubkeyAcceptedAlgorithms=ssh-ed25519-cert-v01@openssh.com -W 127.1.0.1:2200
	assert_failure 255
	# an RSA key of a booking never gets as far as the table, and says why
	jq -c --arg r "$(cat r.pub)" '.customers += [{key: $r, numbers: [1]}]' access.json >x && mv x access.json
	wait_until "a refusal" grep -q "customers\[2\]: no key of a type that is let in: 'ssh-rsa'" gateway.err
	# those of before stay
	start_web
	serve n 127.1.0.1
	opens a 127.1.0.1
	# ECDSA is fine
	jq -c --arg r "$(cat e.pub)" '.customers[2] = {key: $r, numbers: [1]}' access.json >x && mv x access.json
	wait_until "the key" opens e 127.1.0.1
}

@test "gateway: open sessions of a key that was revoked end within 10 s, others go on" {
	usual
	start_gateway --keys access.json
	start_web
	serve n 127.1.0.1
	serve m 127.1.0.2
	node=$tunnel
	ssh_to -N -i a -L 8101:127.1.0.1:2200 2>a.err 3>&- &
	a=$!
	ssh_to -N -i b -L 8102:127.1.0.2:2200 2>b.err 3>&- &
	b=$!
	wait_until "both" on sh -c 'curl -sf http://127.0.0.1:8101/ && curl -sf http://127.0.0.1:8102/'
	grant access.json "[{node: \$n, numbers: [1]}, {node: \$m, numbers: [2]}]" "[{key: \$b, numbers: [2, 1]}]"
	SECONDS=0
	fails "$a"
	((SECONDS <= 60)) || fail "it took $SECONDS s" # 10 where there is time
	run ! opens a 127.1.0.1
	# a right more ends nothing; it counts for the next connection. The node's lost peers end its own.
	on curl -sf http://127.0.0.1:8102/ || true
	wait_until "the new right" opens b 127.1.0.1
	kill -0 "$b"
	fails "$node"
	# a lease that ended: its address is free, and nobody listens there
	grant access.json '[]' '[]'
	fails "$b"
	wait_until "silence" on sh -c '! ss -Hltn src 127.1.0.1:2200 | grep -q .'
	run ! opens b 127.1.0.2
}

@test "gateway: one that is killed is followed by another that knows the open connections" {
	usual
	start_gateway --keys access.json
	start_web
	serve n 127.1.0.1
	on pkill -9 -of 'rnp-register gateway --dir'
	wait "$gateway" || true
	wait_until "its sshd to end" on sh -c '! ss -Hltn src 127.0.0.1:2222 | grep -q .'
	opens_now() { on curl -sf http://127.1.0.1:2200/ | grep -q "of this node"; }
	wait_until "the tunnel goes on" opens_now
	grant access.json '[]' '[]'
	start_gateway --keys access.json
	wait_until "the tunnel's end" on sh -c '! ss -Hltn src 127.1.0.1:2200 | grep -q .'
}

@test "gateway: what is wrong at the start is said in a line" {
	grant access.json '[]' '[]'
	refused 77 "needs no root" on /mnt/bin/rnp-register gateway --dir /mnt/state --listen 127.0.0.1:2222 --keys access.json
	as_gateway() { on setpriv --reuid 65533 --regid 65533 --clear-groups "$@"; }
	refused 64 "--listen is required" as_gateway /mnt/bin/rnp-register gateway --keys access.json
	refused 64 "either --registry or --keys" as_gateway /mnt/bin/rnp-register gateway --listen 127.0.0.1:2222
	as_gateway /mnt/bin/rnp-register keygen --out /mnt/state/key.json >/dev/null
	refused 64 "customers and nodes cannot reach '0.0.0.0:2222': --external HOST:PORT says where they do" as_gateway /mnt/bin/rnp-register \
		gateway --dir /mnt/state --key /mnt/state/key.json --registry http://127.0.0.1:1 --listen 0.0.0.0:2222
	as_gateway mkdir "/mnt/state/a b"
	refused 64 "a character that sshd does not take" as_gateway /mnt/bin/rnp-register gateway --dir "/mnt/state/a b" \
		--listen 127.0.0.1:2222 --keys access.json
	on sh -c 'mkdir /mnt/open; chmod 777 /mnt/open; cp /mnt/bin/rnp-register /mnt/open'
	refused 77 "'/mnt/open' belongs to user 0, mode 0777" as_gateway /mnt/open/rnp-register gateway --dir /mnt/state \
		--listen 127.0.0.1:2222 --keys access.json
	refused 69 "cannot start '/nowhere/sshd'" as_gateway /mnt/bin/rnp-register gateway --dir /mnt/state --sshd /nowhere/sshd \
		--listen 127.0.0.1:2222 --keys access.json
	run --separate-stderr as_gateway /mnt/bin/rnp-register gateway --dir /mnt/state --listen 192.0.2.1:2222 --keys access.json
	assert_equal "$status" 69
	[[ ${stderr_lines[-1]} == *"/usr/sbin/sshd: ended with 255" ]] || fail "$stderr"
}
