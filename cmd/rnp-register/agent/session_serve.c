/* session_serve.c - one loop for all of it; what may wait is a process of its own. */
#include "cmd/rnp-register/agent/session_serve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/session_parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"

#define TICK_MS   250
#define GRACE_MS  1000
#define POLLS_MAX (4 + SESSION_WAITING_MAX + 3 * SESSION_PEERS_MAX)

static void say(const struct session_state *s, const char *text)
{
	s->serve->say(text);
}

static void set_tunnel(struct session_state *s)
{
	char address[PLACE_TEXT_MAX];
	size_t n = 0;

	place_on_gateway(s->file.number, address);
	buf_reset(&s->forward);
	buf_addf(&s->forward, "%s:%d:%s/door.sock", address, PLACE_PORT,
		s->serve->directory);
	buf_reset(&s->config);
	buf_addf(&s->config, "%s/ssh_config", s->serve->directory);
	s->tunnel_argv[n++] = s->serve->ssh;
	s->tunnel_argv[n++] = "-F";
	s->tunnel_argv[n++] = s->config.data;
	s->tunnel_argv[n++] = "-N";
	s->tunnel_argv[n++] = "-R";
	s->tunnel_argv[n++] = s->forward.data;
	s->tunnel_argv[n++] = "gateway";
	s->tunnel_argv[n] = NULL;
	s->tunnel = (struct process)PROCESS_INIT(s->tunnel_argv);
}

/* Whether another file asks for another tunnel, or other links. */
static bool same_tunnel(const struct session_file *a, const struct session_file *b)
{
	return a->number == b->number && a->gateway_port == b->gateway_port &&
		strcmp(a->gateway_host, b->gateway_host) == 0 &&
		strcmp(a->gateway_user, b->gateway_user) == 0 &&
		strcmp(a->gateway_key.blob, b->gateway_key.blob) == 0;
}

static bool same_links(const struct session_file *a, const struct session_file *b)
{
	return a->address == b->address && a->npeers == b->npeers &&
		strcmp(a->netns, b->netns) == 0 &&
		(!a->npeers ||
			memcmp(a->peers, b->peers, a->npeers * sizeof *a->peers) == 0);
}

static void file_path(const struct session_state *s, struct buf *out)
{
	buf_addf(out, "%s/session.json", s->serve->directory);
}

/* Looks whether the agent has written another file, and does as it says. */
static void look_again(struct session_state *s)
{
	struct session_file next, before = s->file;
	struct buf path = BUF_INIT;
	bool tunnel, links;
	struct stat st;

	file_path(s, &path);
	if (stat(path.data, &st) < 0 ||
		(st.st_ino == s->last.st_ino &&
			st.st_mtim.tv_sec == s->last.st_mtim.tv_sec &&
			st.st_mtim.tv_nsec == s->last.st_mtim.tv_nsec))
		goto out;
	s->last = st;
	if (session_file_read(&next, path.data) < 0) {
		say(s, err_get()->text);
		goto out;
	}
	tunnel = !same_tunnel(&before, &next);
	links = !same_links(&before, &next);
	if (links)
		session_links_close(s);
	s->file = next;
	session_file_release(&before);
	if (session_write(s) < 0)
		say(s, err_get()->text);
	if (tunnel) {
		process_end(&s->tunnel, GRACE_MS);
		set_tunnel(s);
	}
	if (links && session_links_open(s) < 0)
		say(s, err_get()->text);
out:
	err_clear();
	buf_release(&path);
}

static void keep_tunnel(struct session_state *s)
{
	char words[PROCESS_WORDS_MAX], text[128];

	if (process_ended(&s->tunnel)) {
		process_words(s->tunnel.status, words);
		snprintf(text, sizeof text,
			"the tunnel to the gateway has %s; again in %d ms", words,
			(int)s->tunnel.wait_ms);
		say(s, text);
	}
	process_keep(&s->tunnel);
	err_clear();
}

/* Fills the list: signals, door, sessions, device, sessions that have not spoken, and of each peer
 * its stream both ways and what brought it. */
static size_t set_polls(const struct session_state *s, struct pollfd *p)
{
	size_t n = 0;

	p[n++] = (struct pollfd){ s->signals, POLLIN, 0 };
	p[n++] = (struct pollfd){ s->door, POLLIN, 0 };
	p[n++] = (struct pollfd){ s->sock, POLLIN, 0 };
	p[n++] = (struct pollfd){ s->ranks.tun, POLLIN, 0 };
	for (size_t i = 0; i < s->nwaiting; i++)
		p[n++] = (struct pollfd){ s->waiting[i], POLLIN, 0 };
	for (size_t i = 0; i < s->ranks.npeers; i++) {
		const struct ranks_peer *r = &s->ranks.peers[i];

		p[n++] = (struct pollfd){ r->in, POLLIN, 0 };
		p[n++] = (struct pollfd){ r->queue.len ? r->out : -1, POLLOUT, 0 };
		p[n++] = (struct pollfd){ s->links[i].control, POLLIN, 0 };
	}
	return n;
}

/* Moves a peer's packets; its three rows of the list. */
static void serve_peer(struct session_state *s, size_t i, const struct pollfd *p)
{
	struct ranks_peer *r = &s->ranks.peers[i];
	bool ended = p[2].revents != 0;

	if (!ended && p[0].revents)
		ended = ranks_from_peer(&s->ranks, r) < 0;
	if (!ended && p[1].revents)
		ended = ranks_to_peer(r) < 0;
	if (ended)
		session_link_drop(s, i);
}

/* Serves what is ready. Returns false when a signal ends it. */
static bool turn(struct session_state *s)
{
	struct pollfd p[POLLS_MAX];
	size_t n = set_polls(s, p), waiting = s->nwaiting, at = 4 + waiting;

	if (poll(p, n, TICK_MS) < 0 && errno != EINTR)
		bug("poll: %s", strerror(errno));
	if (p[0].revents)
		return false;
	/* peers first: what follows may change who they are */
	for (size_t i = 0; i < s->ranks.npeers; i++)
		serve_peer(s, i, p + at + 3 * i);
	if (p[3].revents)
		ranks_from_device(&s->ranks);
	for (size_t i = waiting; i-- > 0;)
		if (p[4 + i].revents)
			session_hear(s, i);
	if (p[1].revents)
		session_let_in(s);
	if (p[2].revents)
		session_take(s);
	return true;
}

static void end_children(struct session_state *s)
{
	for (size_t i = 0; i < s->nchildren; i++)
		kill(s->children[i], SIGTERM);
	for (int i = 0; i < 100 && s->nchildren; i++) {
		usleep(10000);
		session_reap(s);
	}
	for (size_t i = 0; i < s->nchildren; i++)
		kill(s->children[i], SIGKILL);
}

static void run(struct session_state *s)
{
	do {
		look_again(s);
		keep_tunnel(s);
		session_links_keep(s);
		session_reap(s);
	} while (turn(s));
	process_end(&s->tunnel, GRACE_MS);
	session_links_close(s);
	end_children(s);
}

int session_serve(const struct session_serve *v)
{
	struct session_state *s = xcalloc(1, sizeof *s);
	struct buf path = BUF_INIT;
	int rc = -1;

	s->serve = v;
	s->door = s->sock = s->identity = s->signals = s->ranks.tun = -1;
	signal(SIGPIPE, SIG_IGN);
	file_path(s, &path);
	if (stat(path.data, &s->last) < 0)
		err_sys(0, "cannot read '%s'", path.data);
	else if (session_file_read(&s->file, path.data) == 0 && session_open(s) == 0) {
		set_tunnel(s);
		rc = session_links_open(s);
		if (rc == 0)
			run(s);
	}
	session_close(s);
	buf_release(&path);
	free(s);
	return rc;
}
