/* session_links.c - one stream a pair of ranks: the higher one opens it, through the gateway
 * and the lower one's sshd, so that each end has proven its key to the other. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/session_parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"

#define DEVICE       "ranks" /* as network.h calls it */
#define GRACE_MS     500
#define SOCKET_BYTES (1 << 20)

static bool is_ours(const struct session_state *s, size_t i)
{
	return s->file.peers[i].rank < s->file.rank;
}

int session_links_open(struct session_state *s)
{
	size_t n = s->file.npeers;

	s->ranks = (struct ranks){ .address = s->file.address, .tun = -1 };
	if (!n)
		return 0;
	s->ranks.tun = ranks_open_device(s->file.netns, DEVICE, s->file.address);
	if (s->ranks.tun < 0)
		return -1;
	s->ranks.npeers = n;
	s->ranks.peers = xcalloc(n, sizeof(struct ranks_peer));
	s->links = xcalloc(n, sizeof(struct session_link));
	for (size_t i = 0; i < n; i++) {
		struct session_link *l = &s->links[i];

		s->ranks.peers[i].address = s->file.peers[i].address;
		s->ranks.peers[i].in = s->ranks.peers[i].out = -1;
		l->control = -1;
		snprintf(l->name, sizeof l->name, "rank-%" PRId64, s->file.peers[i].rank);
		l->argv[0] = s->serve->ssh;
		l->argv[1] = "-F";
		l->argv[2] = s->config.data;
		l->argv[3] = "-T";
		l->argv[4] = l->name;
		l->argv[5] = "packets"; /* the other end knows what we are by our key */
		l->process = (struct process)PROCESS_INIT(l->argv);
	}
	return 0;
}

void session_link_drop(struct session_state *s, size_t i)
{
	struct session_link *l = &s->links[i];

	ranks_attach(&s->ranks.peers[i], -1, -1);
	if (l->control >= 0)
		close(l->control);
	l->control = -1;
	if (is_ours(s, i))
		process_end(&l->process, GRACE_MS);
}

/* The process is gone, or has to go: its stream is, too. */
static void keep_one(struct session_state *s, size_t i)
{
	struct session_link *l = &s->links[i];
	int ends[2], size = SOCKET_BYTES;

	if (process_ended(&l->process))
		ranks_attach(&s->ranks.peers[i], -1, -1);
	if (l->process.pid)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return;
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	l->process.in = l->process.out = ends[1];
	if (process_keep(&l->process))
		ranks_attach(&s->ranks.peers[i], ends[0], ends[0]);
	else
		close(ends[0]);
	err_clear();
	close(ends[1]);
}

void session_links_keep(struct session_state *s)
{
	for (size_t i = 0; i < s->ranks.npeers; i++)
		if (is_ours(s, i))
			keep_one(s, i);
}

bool session_link_take(struct session_state *s, int64_t rank, int in, int out,
	int control)
{
	for (size_t i = 0; i < s->ranks.npeers; i++) {
		if (s->file.peers[i].rank != rank || is_ours(s, i))
			continue;
		session_link_drop(s, i);
		ranks_attach(&s->ranks.peers[i], in, out);
		s->links[i].control = control;
		return true;
	}
	return false;
}

void session_links_close(struct session_state *s)
{
	for (size_t i = 0; i < s->ranks.npeers; i++) {
		session_link_drop(s, i);
		buf_release(&s->ranks.peers[i].queue);
	}
	if (s->ranks.tun >= 0)
		close(s->ranks.tun);
	free(s->ranks.peers);
	free(s->links);
	s->links = NULL;
	s->ranks = (struct ranks){ .tun = -1 };
}
