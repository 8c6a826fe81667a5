# session.bats - ssh into the container of a lease, through a gateway, with OpenSSH's own programs: commands, terminals, files,
# ports, and the other ranks of the cluster.
load ../helper
load gateway
load session

setup_file() {
	missing=$(session_missing)
	[[ -z $missing ]] || return 0
	make_image
}

setup() {
	missing=$(session_missing)
	[[ -z $missing ]] || skip "SESSIONS NOT TESTED: ${missing//$'\n'/, }"
	cd "$BATS_TEST_TMPDIR" || return
	chmod 755 .
	machine_up
	make_ssh_key a
	make_ssh_key b
	node_key n
	node_key m
	grant access.json "[{node: \$n, numbers: [1]}, {node: \$m, numbers: [2], peers: [1]}]" "[{key: \$a, numbers: [1, 2]}]"
	start_gateway --keys access.json
}
teardown() {
	sessions_down
	machine_down
}

@test "session: a command, its output, its input, its exit code, its end" {
	start_lease n 1
	start_container n
	run_split to n -- 'echo out; echo err >&2; exit 7'
	assert_equal "$status" 7
	assert_equal "$output" out
	assert_equal "$stderr" err
	# it is the container, and the words of the customer reach its shell as they are
	run_split to n -- "hostname; echo '\$HOME \"a b\"'; echo \$0"
	assert_success
	assert_line --index 0 box
	assert_line --index 1 "\$HOME \"a b\""
	# bytes of all values, both ways, and the end of the input
	head -c 3000000 /dev/urandom >random
	printf '\x10\x11\x10\x11' >>random
	to n -- cat <random >back
	cmp random back
	run to n -- 'wc -c' <random
	assert_output --regexp '^ *3000004$'
	# what goes on without its customer is ended
	to n -- 'echo begun; exec sleep 987654' >begun 3>&- &
	wait_until "the command" grep -q begun begun
	on pkill -f '^ssh -F ssh_config n'
	fails "$!"
	sleep_is_gone() { ! on pgrep -xf 'sleep 987654' >/dev/null; }
	wait_until "the command's end" sleep_is_gone
	# nothing is open to the host
	run to n -- 'ls /mnt/bin /work; cat /mnt/passwd'
	assert_failure
}

@test "session: a terminal, its size, its keys" {
	start_lease n 1
	start_container n
	cat >terminal.py <<-'END'
		import fcntl, os, pty, struct, sys, termios, time
		pid, fd = pty.fork()
		if pid == 0:
		    os.environ["TERM"] = "vt220"
		    os.execvp(sys.argv[1], sys.argv[1:])
		fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
		def until(text, out=[b""]):
		    while text not in out[0]:
		        piece = os.read(fd, 4096)
		        if not piece: raise SystemExit("ended: %r" % out[0])
		        out[0] += piece
		    seen, out[0] = out[0].split(text, 1)
		    return seen
		def ask(line, answer):
		    os.write(fd, line + b"\r")
		    return until(answer)
		ask(b"tty >/dev/null && echo is-a-$((20 + 3))", b"is-a-23")
		ask(b"stty size", b"33 77")
		fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 99, 0, 0))
		for _ in range(100):
		    os.write(fd, b"stty size; echo mark$((1 + 1))\r")
		    if b"44 99" in until(b"mark2"): break
		    time.sleep(0.1)
		else:
		    raise SystemExit("size did not change")
		ask(b"echo term is $TERM", b"term is vt220")
		os.write(fd, b"sleep 1000 || echo int$((4 + 4))\r")
		time.sleep(0.3)
		os.write(fd, b"\x03")
		ask(b"echo after$((2 + 1))", b"after3")
		os.write(fd, b"exit 5\r")
		try:
		    while os.read(fd, 4096): pass
		except OSError: pass
		sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	END
	run timeout 120 python3 terminal.py nsenter -t "$machine" -m -n -p --wd="$BATS_TEST_TMPDIR" ssh -F ssh_config -tt n
	assert_failure 5
}

@test "session: plain scp, sftp, rsync, and the container's ports" {
	start_lease n 1
	on sh -c 'touch /mnt/ns-n; unshare --net=/mnt/ns-n ip link set lo up'
	change_lease n '.netns = "/mnt/ns-n"'
	NETWORK=ns:/mnt/ns-n start_container n
	head -c 1000000 /dev/urandom >file
	on scp -q -F ssh_config file n:/tmp/one
	on scp -q -F ssh_config n:/tmp/one one
	cmp file one
	on sftp -q -b - -F ssh_config n <<<"put file /tmp/two"
	mkdir tree
	cp file tree/a
	[[ ! -x /usr/bin/rsync ]] || {
		on rsync -a -e "ssh -F ssh_config" tree/ n:/tmp/tree
		on rsync -a -e "ssh -F ssh_config" n:/tmp/tree/ back
		cmp file back/a
	}
	run to n -- 'cat /tmp/one /tmp/two | wc -c'
	assert_output --regexp '^ *2000000$'
	# a port of the container, which it has declared nowhere; nothing of the host
	to n -- 'mkdir -p /tmp/web; echo inside >/tmp/web/x; nc -l -p 8000 -e sh -c "printf \"HTTP/1.0 200 OK\r\n\r\n\"; cat /tmp/web/x"' 3>&- &
	to -N -L 9000:127.0.0.1:8000 -L 9001:127.0.0.1:2222 n 2>forward.err 3>&- &
	page_comes() { on curl -s -m 5 http://127.0.0.1:9000/ | grep -q inside; }
	wait_until "the container's page" page_comes
	on curl -s -m 5 telnet://127.0.0.1:9001 </dev/null || true
	wait_until "a refusal" grep -q "open failed" forward.err
	run to -N -o ExitOnForwardFailure=yes -R 9002:127.0.0.1:2222 n
	assert_failure
	run to -o ForwardAgent=yes n -- 'echo ${SSH_AUTH_SOCK:-none}'
	assert_output none
}

@test "session: ranks reach one another on any port, and nobody as another" {
	node_hosts
	for x in n m; do on sh -c "touch /mnt/ns-$x; unshare --net=/mnt/ns-$x ip link set lo up"; done
	start_lease n 1 ".netns = \"/mnt/ns-n\" | .peers = [{rank: 1, number: 2, node: \"$m\", host_key: \"$(ssh_public host-m.json)\"}]"
	start_lease m 2 ".netns = \"/mnt/ns-m\" | .peers = [{rank: 0, number: 1, node: \"$n\", host_key: \"$(ssh_public host-n.json)\"}]"
	in_net() { on nsenter --net="/mnt/ns-$1" "${@:2}"; }
	head -c 5000000 /dev/urandom >file
	in_net n python3 -m http.server -b 10.64.48.1 7777 >/dev/null 2>&1 3>&- &
	comes() { in_net m curl -s -m 10 -o got "http://10.64.48.1:$1/file" && cmp file got; }
	wait_until "the other rank" comes 7777
	# an address that is not the rank's own does not leave
	in_net m ip addr add 10.64.48.9/32 dev lo
	run in_net m curl -s -m 2 --interface 10.64.48.9 http://10.64.48.1:7777/file
	assert_failure 28
	# a stream that is cut is there again, and so is a rank
	on pkill -f 'rank-0 packets'
	wait_until "the stream" comes 7777
	on pkill -9 -f 'session --serve --dir /mnt/lease-n'
	wait "$lease_n" || true
	wait_until "the end" not_listening 127.1.0.1
	start_lease n 1 ".netns = \"/mnt/ns-n\" | .peers = [{rank: 1, number: 2, node: \"$m\", host_key: \"$(ssh_public host-m.json)\"}]"
	wait_until "the rank" comes 7777
	# a host key that is not the listing's is no peer
	change_lease m ".peers[0].host_key = \"$(ssh_public host-m.json)\""
	wait_until "a refusal" grep -q "Host key verification failed\|IDENTIFICATION HAS CHANGED" session-m.err
	run ! comes 7777
}

@test "session: what is wrong at the start is said in a line" {
	mkdir -m 700 "/proc/$machine/root/mnt/closed"
	start_lease n 1
	cp "/proc/$machine/root/mnt/lease-n/session.json" usual.json
	bad() { refused "$1" "$2" on /mnt/bin/rnp-register session --serve --dir "/mnt/$3" --key n.json; }
	cp usual.json "/proc/$machine/root/mnt/closed/session.json"
	bad 77 "'/mnt/closed' does not let user 'rnp-session' pass" closed
	mkdir -m 711 "/proc/$machine/root/mnt/other"
	other() { jq -c "$1" usual.json >"/proc/$machine/root/mnt/other/session.json"; }
	bad 66 "session.json" other
	other '.user = "root"'
	bad 69 "no user 'root' without rights" other
	other '.keys = ["ssh-rsa AAAA"]'
	bad 65 "keys[0]: no key of a type that is let in" other
	other '.gateway.host = "a b"'
	bad 65 "'host'" other
	other '.host_key_file = "/nowhere"'
	bad 66 "/nowhere" other
	# without a container there is a sentence, and for others no session at all
	run_split to n -- true
	assert_equal "$status" 69
	[[ $stderr == *"the container does not run yet"* ]] || fail "$stderr"
	run on /mnt/bin/rnp-register session --dir /mnt/lease-n
	assert_failure 69
}
