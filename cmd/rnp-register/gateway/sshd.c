/* sshd.c - an sshd of the gateway's own, which lets keys in for forwarding and for nothing else. It
 * runs as a user without rights, like the gateway itself: sshd needs root only to become others. */
#include "cmd/rnp-register/gateway/sshd.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sodium.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"

/* What does not depend on anything. A unix socket cannot be restricted by path, so none is
 * forwarded; MaxSessions 0 leaves no session whose command could be refused. */
#define HARDENED                                      \
	"UsePAM no\n"                                 \
	"PidFile none\n"                              \
	"StrictModes yes\n"                           \
	"AuthorizedKeysFile none\n"                   \
	"AuthenticationMethods publickey\n"           \
	"PasswordAuthentication no\n"                 \
	"KbdInteractiveAuthentication no\n"           \
	"PubkeyAcceptedAlgorithms " SSHKEY_TYPES "\n" \
	"HostKeyAlgorithms ssh-ed25519\n"             \
	"AllowTcpForwarding yes\n"                    \
	"GatewayPorts clientspecified\n"              \
	"AllowStreamLocalForwarding no\n"             \
	"AllowAgentForwarding no\n"                   \
	"X11Forwarding no\n"                          \
	"PermitTunnel no\n"                           \
	"PermitTTY no\n"                              \
	"PermitUserRC no\n"                           \
	"PermitUserEnvironment no\n"                  \
	"ForceCommand /bin/false\n"                   \
	"MaxSessions 0\n"                             \
	"MaxStartups 200:30:1000\n"                   \
	"MaxAuthTries 12\n"                           \
	"LoginGraceTime 20\n"                         \
	"ClientAliveInterval 5\n"                     \
	"ClientAliveCountMax 2\n"                     \
	"TCPKeepAlive no\n"                           \
	"Compression no\n"                            \
	"UseDNS no\n"                                 \
	"PrintMotd no\n"                              \
	"PrintLastLog no\n"

static int check_path(const char *path, const char *what)
{
	for (const char *p = path; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("\"'\\%#$`", *p))
			return err_set(EX_USAGE,
				"%s: '%s' has a character that sshd does not take as it is",
				what, path);
	return path[0] == '/' ?
		0 :
		err_set(EX_USAGE, "%s: '%s' does not begin with '/'", what, path);
}

int gateway_sshd_config(struct buf *out, const struct gateway_sshd *s)
{
	const char *host = *s->host ? s->host : "0.0.0.0";

	if (check_path(s->directory, "--dir") < 0 ||
		check_path(s->program, "this program") < 0)
		return -1;
	buf_adds(out, HARDENED);
	buf_addf(out,
		strchr(host, ':') ? "ListenAddress [%s]:%d\n" : "ListenAddress %s:%d\n",
		host, s->port);
	if (!*s->host)
		buf_addf(out, "ListenAddress [::]:%d\n", s->port);
	buf_addf(out, "HostKey %s/ssh_host_key\nAllowUsers %s\n", s->directory, s->user);
	buf_addf(out, "AuthorizedKeysCommandUser %s\n", s->user);
	buf_addf(out, "AuthorizedKeysCommand %s gateway --dir %s --answer %%t %%k\n",
		s->program, s->directory);
	return 0;
}

/* Writes a key as sshd reads it, once. */
static int write_for_sshd(const char *path, const struct key *key)
{
	struct buf text = BUF_INIT;
	int rc;

	sshkey_private(&text, key);
	rc = io_replace(path, text.data, text.len, 0600);
	sodium_memzero(text.data, text.len);
	buf_release(&text);
	return rc;
}

int gateway_host_key(const char *directory, struct sshkey *out)
{
	struct buf ours = BUF_INIT, theirs = BUF_INIT;
	struct key key = KEY_INIT;
	int rc = -1;

	buf_addf(&ours, "%s/host_key.json", directory);
	buf_addf(&theirs, "%s/ssh_host_key", directory);
	if (access(ours.data, F_OK) == 0)
		rc = key_load(&key, ours.data, NULL);
	else if (key_generate(&key) == 0)
		rc = key_save(&key, ours.data, NULL);
	if (rc == 0)
		rc = write_for_sshd(theirs.data, &key);
	if (rc == 0)
		sshkey_of_node(key.public_key, out);
	key_release(&key);
	buf_release(&ours);
	buf_release(&theirs);
	return rc;
}

static int check_one(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_sys(0, "cannot look at '%s'", path);
	if (st.st_uid == 0 && !(st.st_mode & 022))
		return 0;
	err_set(EX_NOPERM,
		"sshd runs no command whose path others may change: '%s' belongs to user %d, mode "
		"%04o",
		path, (int)st.st_uid, st.st_mode & 07777);
	return err_hint(
		"install this program below a folder of root's, such as /usr/local/bin");
}

int gateway_check_owner(const char *path)
{
	struct buf part = BUF_INIT;
	int rc = check_one("/");

	for (const char *p = path; rc == 0 && *p;) {
		size_t n = 1 + strcspn(p + 1, "/");

		buf_add(&part, p, n);
		rc = check_one(part.data);
		p += n;
	}
	buf_release(&part);
	return rc;
}
