# gateway.bash - a machine of its own for a gateway and those who come to it: `load gateway` after `load helper`.
#
# Namespaces of mounts, processes and network without a way out, with loopback alone; /mnt there is a file system of root's, with
# this program in /mnt/bin and users of its own in /mnt/passwd. It ends with its first process, and takes all others with it.

# Prints what is missing here, or nothing
gateway_missing() {
	local tool
	((EUID == 0)) || echo "not root"
	for tool in /usr/sbin/sshd ssh ssh-keygen setpriv unshare nsenter; do
		command -v $tool >/dev/null || echo "no $tool (Debian's openssh-server, openssh-client, util-linux)"
	done
	unshare -m -n -p -f true 2>/dev/null || echo "no namespaces"
}

# The machine's first process is in $machine
machine_up() {
	cat >"$BATS_TEST_TMPDIR/machine.sh" <<-'END'
		set -e
		ip link set lo up
		mount -t tmpfs -o mode=755 rnp /mnt
		mkdir -p /mnt/bin /mnt/state /run/sshd
		cp "$1" /mnt/bin/
		chown -R root:root /mnt/bin
		cp /etc/passwd /mnt/passwd
		echo 'rnp-gateway:x:65533:65533::/nonexistent:/usr/sbin/nologin' >>/mnt/passwd
		echo 'rnp-session:x:65532:65532::/:/bin/sh' >>/mnt/passwd
		mount --bind /mnt/passwd /etc/passwd
		chown 65533:65533 /mnt/state
		touch /mnt/up
		exec sleep 1000000
	END
	unshare -m -n -p -f --mount-proc bash "$BATS_TEST_TMPDIR/machine.sh" "$RNP_BUILD/bin/rnp-register" \
		</dev/null >/dev/null 2>"$BATS_TEST_TMPDIR/machine.err" 3>&- &
	machine_parent=$!
	wait_until "a machine" machine_is_up
}
machine_is_up() {
	machine=$(cat "/proc/$machine_parent/task/$machine_parent/children" 2>/dev/null) || return 1
	machine=${machine%% *}
	[[ -n $machine && -e /proc/$machine/root/mnt/up ]]
}
machine_down() {
	[[ -n ${machine_parent:-} ]] || return 0
	kill -9 "$machine" "$machine_parent" 2>/dev/null || true
	wait 2>/dev/null || true
	machine_parent=''
}

# on COMMAND...: on the machine, as root
on() { nsenter -t "$machine" -m -n -p --wd="$BATS_TEST_TMPDIR" "$@"; }

# ssh_to [OPTION...]: the gateway as a customer or node sees it; its host key is known
ssh_to() {
	on ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile="$BATS_TEST_TMPDIR/known_hosts" \
		-o IdentitiesOnly=yes -o ExitOnForwardFailure=yes -p 2222 "$@" rnp-gateway@127.0.0.1
}

# make_ssh_key NAME [TYPE]: files NAME and NAME.pub; $NAME is the address of a node with this key
make_ssh_key() {
	ssh-keygen -q -t "${2:-ed25519}" -N '' -C '' -f "$1"
	[[ ${2:-ed25519} != ed25519 ]] || printf -v "$1" '%s' "$(python3 -c '
import base64, sys
n = int.from_bytes(base64.b64decode(open(sys.argv[1]).read().split()[1])[-32:], "big")
text = ""
while n: n, r = divmod(n, 58); text = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[r] + text
print(text)' "$1.pub")"
}

# grant FILE NODES CUSTOMERS: writes an rnp.access record, of jq arrays
grant() {
	jq -nc --arg a "$(cat a.pub 2>/dev/null)" --arg b "$(cat b.pub 2>/dev/null)" --arg n "${n:-}" --arg m "${m:-}" \
		"{kind: \"rnp.access\", v: 1, nodes: $2, customers: $3}" >"$1.part"
	mv "$1.part" "$1"
}

# start_gateway OPTION...: $gateway is its process; known_hosts knows it
start_gateway() {
	on setpriv --reuid 65533 --regid 65533 --clear-groups /mnt/bin/rnp-register gateway --dir /mnt/state --listen 127.0.0.1:2222 "$@" \
		>gateway.json 2>>gateway.err 3>&- &
	gateway=$!
	wait_port gateway.json "$gateway"
	know_gateway
	wait_until "the gateway's table" table_is_there
}
know_gateway() { jq -r '"[" + .host + "]:" + (.port | tostring) + " " + .host_key' gateway.json >known_hosts; }
table_is_there() { on test -e /mnt/state/table; }
