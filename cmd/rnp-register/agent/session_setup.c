/* session_setup.c - files, sockets and the user of a lease's sessions. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/session_parts.h"
#include "common/base/err.h"
#include "common/base/io.h"

static void path_of(struct buf *out, const struct session_state *s, const char *name)
{
	buf_reset(out);
	buf_addf(out, "%s/%s", s->serve->directory, name);
}

int session_socket(const char *directory, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (snprintf(out->sun_path, sizeof out->sun_path, "%s/session.sock", directory) >=
		(int)sizeof out->sun_path)
		return err_set(EX_USAGE, "'%s' is too long for a socket", directory);
	return 0;
}

/* Opens a socket of that name in the lease's directory, for one user alone. */
static int listen_at(const struct session_state *s, const char *name, int type, uid_t uid,
	gid_t gid)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t before = umask(0177);
	int rc = -1;

	snprintf(at.sun_path, sizeof at.sun_path, "%s/%s", s->serve->directory, name);
	unlink(at.sun_path);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
		chown(at.sun_path, uid, gid) == 0)
		rc = listen(fd, 64);
	umask(before);
	if (rc == 0)
		return fd;
	err_sys(EX_OSERR, "cannot listen at '%s'", at.sun_path);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* A file that never has a name: the key is in no directory. */
static int put_identity(struct session_state *s)
{
	struct buf text = BUF_INIT;
	int rc = -1;

	sshkey_private(&text, s->serve->key);
	s->identity = memfd_create("identity", MFD_CLOEXEC);
	if (s->identity >= 0 && fchmod(s->identity, 0600) == 0)
		rc = io_write_all(s->identity, text.data, text.len);
	snprintf(s->identity_path, sizeof s->identity_path, "/proc/%d/fd/%d",
		(int)getpid(), s->identity);
	sodium_memzero(text.data, text.len);
	buf_release(&text);
	return rc < 0 ? err_sys(EX_OSERR, "cannot keep the key for ssh") : 0;
}

/* Writes the host key for the lease's user, who alone reads it. */
static int put_host_key(struct session_state *s)
{
	struct buf text = BUF_INIT, path = BUF_INIT;
	struct key key = KEY_INIT;
	int rc = key_load(&key, s->file.host_key_file, NULL);

	path_of(&path, s, "ssh_host_key");
	if (rc == 0) {
		sshkey_of_node(key.public_key, &s->host_key);
		sshkey_private(&text, &key);
		rc = io_replace(path.data, text.data, text.len, 0600);
		sodium_memzero(text.data, text.len);
	}
	if (rc == 0 && chown(path.data, s->uid, s->gid) < 0)
		rc = err_sys(0, "cannot give '%s' to user '%s'", path.data, s->file.user);
	key_release(&key);
	buf_release(&text);
	buf_release(&path);
	return rc;
}

static int put(const struct session_state *s, const char *name, const struct buf *text)
{
	struct buf path = BUF_INIT;
	int rc;

	path_of(&path, s, name);
	rc = io_replace(path.data, text->data, text->len, 0644);
	buf_release(&path);
	return rc;
}

int session_write(struct session_state *s)
{
	const struct door d = { .file = &s->file,
		.directory = s->serve->directory,
		.program = s->serve->program,
		.identity = s->identity_path,
		.public_key = s->serve->key->public_key };
	struct buf text[4] = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	int rc = -1;

	door_sshd_config(&text[0], &d);
	door_authorized_keys(&text[1], &d);
	door_ssh_config(&text[2], &d);
	door_known_hosts(&text[3], &d, &s->host_key);
	if (put(s, "sshd_config", &text[0]) == 0 &&
		put(s, "authorized_keys", &text[1]) == 0 &&
		put(s, "known_hosts", &text[3]) == 0)
		rc = put(s, "ssh_config", &text[2]);
	for (int i = 0; i < 4; i++)
		buf_release(&text[i]);
	return rc;
}

/* Without rights: not root, and a name that sshd finds. */
static int find_user(struct session_state *s)
{
	const struct passwd *user = getpwnam(s->file.user);

	if (!user || user->pw_uid == 0) {
		err_set(EX_UNAVAILABLE, "there is no user '%s' without rights",
			s->file.user);
		return err_hint("useradd --system --home-dir / --shell /bin/sh %s",
			s->file.user);
	}
	s->uid = user->pw_uid;
	s->gid = user->pw_gid;
	return 0;
}

/* Whether the user gets to the lease's files: sshd would only say "Permission denied", each
 * time. */
static int check_way(const struct session_state *s)
{
	struct buf part = BUF_INIT;
	struct stat st;
	int rc = 0;

	for (const char *p = s->serve->directory; rc == 0 && *p;) {
		size_t n = 1 + strcspn(p + 1, "/");

		buf_add(&part, p, n);
		if (stat(part.data, &st) == 0 && !(st.st_mode & 001) &&
			st.st_uid != s->uid)
			rc = err_set(EX_NOPERM, "'%s' does not let user '%s' pass",
				part.data, s->file.user);
		p += n;
	}
	buf_release(&part);
	return rc;
}

static int open_signals(struct session_state *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? err_sys(EX_OSERR, "cannot wait for signals") : 0;
}

int session_open(struct session_state *s)
{
	struct sockaddr_un unused;

	s->door = s->sock = s->identity = s->signals = s->ranks.tun = -1;
	if (session_socket(s->serve->directory, &unused) < 0 || find_user(s) < 0 ||
		check_way(s) < 0 || open_signals(s) < 0 || put_identity(s) < 0 ||
		put_host_key(s) < 0)
		return -1;
	s->door = listen_at(s, "door.sock", SOCK_STREAM, 0, 0);
	if (s->door >= 0)
		s->sock = listen_at(s, "session.sock", SOCK_SEQPACKET, s->uid, s->gid);
	return s->sock < 0 ? -1 : session_write(s);
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void session_close(struct session_state *s)
{
	close_one(&s->door);
	close_one(&s->sock);
	close_one(&s->identity);
	close_one(&s->signals);
	for (size_t i = 0; i < s->nwaiting; i++)
		close(s->waiting[i]);
	s->nwaiting = 0;
	buf_release(&s->config);
	buf_release(&s->forward);
	session_file_release(&s->file);
}
