/* door.c - every customer's word stays out of these texts but for its key. */
#include "cmd/rnp-register/agent/door.h"

#include <inttypes.h>

static const char sshd_options[] =
	"UsePAM no\n"
	"PidFile none\n"
	"StrictModes yes\n"
	"AuthenticationMethods publickey\n"
	"PasswordAuthentication no\n"
	"KbdInteractiveAuthentication no\n"
	"PubkeyAcceptedAlgorithms " SSHKEY_TYPES "\n"
	"HostKeyAlgorithms ssh-ed25519\n"
	/* from the lease's network, where this sshd stands: its container's ports */
	"AllowTcpForwarding local\n"
	"GatewayPorts no\n"
	"AllowStreamLocalForwarding no\n"
	"AllowAgentForwarding no\n"
	"X11Forwarding no\n"
	"PermitTunnel no\n"
	"PermitUserRC no\n"
	"PermitUserEnvironment no\n"
	"PrintMotd no\n"
	"PrintLastLog no\n"
	"Subsystem sftp sftp-server\n"
	"MaxSessions 32\n"
	"MaxAuthTries 12\n"
	"LoginGraceTime 20\n"
	"ClientAliveInterval 15\n"
	"ClientAliveCountMax 4\n"
	"TCPKeepAlive no\n"
	"Compression no\n"
	"UseDNS no\n"
	"LogLevel ERROR\n";

void door_sshd_config(struct buf *out, const struct door *d)
{
	buf_adds(out, sshd_options);
	buf_addf(out, "AllowUsers %s\n", d->file->user);
	buf_addf(out, "HostKey %s/ssh_host_key\n", d->directory);
	buf_addf(out, "AuthorizedKeysFile %s/authorized_keys\n", d->directory);
}

static void add_line(struct buf *out, const struct door *d, const char *options,
	const char *role, const struct sshkey *key)
{
	buf_addf(out, "restrict,%scommand=\"%s session --dir %s%s\" %s %s\n", options,
		d->program, d->directory, role, key->type, key->blob);
}

void door_authorized_keys(struct buf *out, const struct door *d)
{
	const struct session_file *f = d->file;
	struct sshkey key;

	/* sshd takes the first line of a key: what a node is goes before what a customer may */
	for (size_t i = 0; i < f->npeers; i++) {
		struct buf role = BUF_INIT;

		if (f->peers[i].rank < f->rank)
			continue;
		buf_addf(&role, " --rank %" PRId64, f->peers[i].rank);
		sshkey_of_node(f->peers[i].public_key, &key);
		add_line(out, d, "", role.data, &key);
		buf_release(&role);
	}
	sshkey_of_node(d->public_key, &key);
	add_line(out, d, "", " --probe", &key);
	for (size_t i = 0; i < f->nkeys; i++)
		add_line(out, d, "pty,port-forwarding,permitlisten=\"127.0.0.1:1\",", "",
			&f->keys[i]);
}

static const char ssh_options[] = "  BatchMode yes\n"
				  "  StrictHostKeyChecking yes\n"
				  "  GlobalKnownHostsFile /dev/null\n"
				  "  UpdateHostKeys no\n"
				  "  CheckHostIP no\n"
				  "  HostKeyAlgorithms ssh-ed25519\n"
				  "  PreferredAuthentications publickey\n"
				  "  IdentitiesOnly yes\n"
				  "  IdentityAgent none\n"
				  "  ForwardAgent no\n"
				  "  ForwardX11 no\n"
				  "  ControlMaster no\n"
				  "  Compression no\n"
				  "  ConnectTimeout 15\n"
				  "  ServerAliveInterval 5\n"
				  "  ServerAliveCountMax 3\n"
				  "  ExitOnForwardFailure yes\n"
				  "  EscapeChar none\n"
				  "  LogLevel ERROR\n";

/* A host behind the gateway. */
static void add_host(struct buf *out, const struct door *d, const char *name,
	int64_t number)
{
	char address[PLACE_TEXT_MAX];

	place_on_gateway(number, address);
	buf_addf(out,
		"Host %s\n  HostName %s\n  Port %d\n  User %s\n  HostKeyAlias rnp-%s\n"
		"  ProxyJump gateway\n",
		name, address, PLACE_PORT, d->file->user, name);
}

void door_ssh_config(struct buf *out, const struct door *d)
{
	const struct session_file *f = d->file;

	buf_addf(out, "Host gateway\n  HostName %s\n  Port %" PRId64 "\n  User %s\n",
		f->gateway_host, f->gateway_port, f->gateway_user);
	buf_adds(out, "  HostKeyAlias rnp-gateway\n");
	add_host(out, d, "self", f->number);
	for (size_t i = 0; i < f->npeers; i++) {
		struct buf name = BUF_INIT;

		buf_addf(&name, "rank-%" PRId64, f->peers[i].rank);
		add_host(out, d, name.data, f->peers[i].number);
		buf_release(&name);
	}
	buf_addf(out,
		"Host *\n%s  UserKnownHostsFile %s/known_hosts\n  IdentityFile %s\n",
		ssh_options, d->directory, d->identity);
}

void door_known_hosts(struct buf *out, const struct door *d,
	const struct sshkey *own_host_key)
{
	const struct session_file *f = d->file;

	buf_addf(out, "rnp-gateway %s %s\n", f->gateway_key.type, f->gateway_key.blob);
	buf_addf(out, "rnp-self %s %s\n", own_host_key->type, own_host_key->blob);
	for (size_t i = 0; i < f->npeers; i++)
		buf_addf(out, "rnp-rank-%" PRId64 " %s %s\n", f->peers[i].rank,
			f->peers[i].host_key.type, f->peers[i].host_key.blob);
}
