/* netlink.c - requests of rtnetlink: messages are built in place, and each is acknowledged. */
#include "cmd/rnp-register/agent/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/base/err.h"

#define REQUEST_BYTES 2048
#define ANSWER_BYTES  65536
#define ANSWER_S      10
#define FRAME_BYTES   1514

/* A message as it grows. Names and aliases are bounded, so that it always fits. */
struct request {
	union {
		struct nlmsghdr header;
		char bytes[REQUEST_BYTES];
	};
};

int netlink_open(struct netlink *n)
{
	struct timeval bound = { .tv_sec = ANSWER_S };

	n->sequence = 0;
	n->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (n->fd < 0)
		return err_sys(EX_OSERR, "cannot speak to the kernel about networks");
	setsockopt(n->fd, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
	return 0;
}

void netlink_close(struct netlink *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

/* --- messages ------------------------------------------------------------------------------- */

/* Begins a message with the struct that its type has. */
static void *begin(struct request *r, int type, int flags, size_t size)
{
	memset(r, 0, sizeof *r);
	r->header.nlmsg_type = (uint16_t)type;
	r->header.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	r->header.nlmsg_len = NLMSG_LENGTH(size);
	return NLMSG_DATA(&r->header);
}

static struct rtattr *add(struct request *r, int type, const void *data, size_t size)
{
	size_t at = NLMSG_ALIGN(r->header.nlmsg_len);
	struct rtattr *a = (struct rtattr *)(r->bytes + at);

	if (at + RTA_SPACE(size) > sizeof r->bytes)
		bug("a request of netlink has more than %d bytes", REQUEST_BYTES);
	a->rta_type = (uint16_t)type;
	a->rta_len = (uint16_t)RTA_LENGTH(size);
	if (size)
		memcpy(RTA_DATA(a), data, size);
	r->header.nlmsg_len = (uint32_t)(at + RTA_SPACE(size));
	return a;
}

static void add_u32(struct request *r, int type, uint32_t v)
{
	add(r, type, &v, sizeof v);
}

static void add_text(struct request *r, int type, const char *text)
{
	add(r, type, text, strlen(text) + 1);
}

/* Ends an attribute that holds others. */
static void end(struct request *r, struct rtattr *outer)
{
	outer->rta_len = (uint16_t)(r->bytes + r->header.nlmsg_len - (char *)outer);
}

static int refused(int code, const char *what, const char *name)
{
	errno = code;
	return err_sys(code == EEXIST                    ? EX_CANTCREAT :
			code == ENODEV || code == ENOENT ? EX_NOINPUT :
							   EX_OSERR,
		"cannot %s '%s'", what, name);
}

/* Sends a message. With visit, each message of the answer is handed over, else it is
 * acknowledged. */
static int ask(struct netlink *n, struct request *r, const char *what, const char *name,
	void (*visit)(const struct nlmsghdr *m, void *context), void *context)
{
	static _Thread_local char answer[ANSWER_BYTES] __attribute__((aligned(8)));

	r->header.nlmsg_seq = ++n->sequence;
	if (!visit)
		r->header.nlmsg_flags |= NLM_F_ACK;
	if (send(n->fd, r, r->header.nlmsg_len, 0) < 0)
		return refused(errno, what, name);
	for (;;) {
		ssize_t got = recv(n->fd, answer, sizeof answer, 0);
		struct nlmsghdr *m = (struct nlmsghdr *)answer;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return refused(errno, what, name);
		for (size_t left = (size_t)got; NLMSG_OK(m, left);
			m = NLMSG_NEXT(m, left)) {
			if (m->nlmsg_seq != n->sequence)
				continue;
			if (m->nlmsg_type == NLMSG_DONE)
				return 0;
			if (m->nlmsg_type == NLMSG_ERROR) {
				int code = -((struct nlmsgerr *)NLMSG_DATA(m))->error;

				return code ? refused(code, what, name) : 0;
			}
			if (visit)
				visit(m, context);
		}
	}
}

/* The number of a link in the namespace of the calling thread, which is that of the socket. */
static int index_of(const char *name)
{
	unsigned index = if_nametoindex(name);

	return index ? (int)index : refused(ENODEV, "find the link", name);
}

/* --- links ---------------------------------------------------------------------------------- */

int netlink_add_pair(struct netlink *n, const char *name, const char *peer,
	int peer_netns, uint32_t mtu)
{
	struct request r;
	struct ifinfomsg inner = { 0 };
	struct rtattr *info, *data, *other;

	begin(&r, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof inner);
	add_text(&r, IFLA_IFNAME, name);
	add_u32(&r, IFLA_MTU, mtu);
	info = add(&r, IFLA_LINKINFO, NULL, 0);
	add_text(&r, IFLA_INFO_KIND, "veth");
	data = add(&r, IFLA_INFO_DATA, NULL, 0);
	other = add(&r, VETH_INFO_PEER, &inner, sizeof inner);
	add_text(&r, IFLA_IFNAME, peer);
	add_u32(&r, IFLA_MTU, mtu);
	add_u32(&r, IFLA_NET_NS_FD, (uint32_t)peer_netns);
	end(&r, other);
	end(&r, data);
	end(&r, info);
	return ask(n, &r, "make the link", name, NULL, NULL);
}

int netlink_set_alias(struct netlink *n, const char *name, const char *alias)
{
	struct request r;
	struct ifinfomsg *m = begin(&r, RTM_NEWLINK, 0, sizeof *m);

	m->ifi_index = index_of(name);
	if (m->ifi_index < 0)
		return -1;
	add(&r, IFLA_IFALIAS, alias, strlen(alias));
	return ask(n, &r, "name the link", name, NULL, NULL);
}

int netlink_set_up(struct netlink *n, const char *name)
{
	struct request r;
	struct ifinfomsg *m = begin(&r, RTM_NEWLINK, 0, sizeof *m);

	m->ifi_index = index_of(name);
	m->ifi_flags = m->ifi_change = IFF_UP;
	return m->ifi_index < 0 ? -1 : ask(n, &r, "bring up the link", name, NULL, NULL);
}

int netlink_delete(struct netlink *n, const char *name)
{
	struct request r;
	struct ifinfomsg *m = begin(&r, RTM_DELLINK, 0, sizeof *m);

	m->ifi_index = index_of(name);
	return m->ifi_index < 0 ? -1 : ask(n, &r, "delete the link", name, NULL, NULL);
}

/* --- addresses, routes, rates --------------------------------------------------------------- */

int netlink_add_address(struct netlink *n, const char *name, uint32_t address, int bits)
{
	struct request r;
	struct ifaddrmsg *m = begin(&r, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL,
		sizeof *m);
	int index = index_of(name);

	if (index < 0)
		return -1;
	m->ifa_family = AF_INET;
	m->ifa_prefixlen = (uint8_t)bits;
	m->ifa_index = (unsigned)index;
	add_u32(&r, IFA_LOCAL, htonl(address));
	add_u32(&r, IFA_ADDRESS, htonl(address));
	return ask(n, &r, "give an address to the link", name, NULL, NULL);
}

int netlink_add_default(struct netlink *n, uint32_t gateway)
{
	struct request r;
	struct rtmsg *m = begin(&r, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof *m);

	m->rtm_family = AF_INET;
	m->rtm_table = RT_TABLE_MAIN;
	m->rtm_protocol = RTPROT_STATIC;
	m->rtm_scope = RT_SCOPE_UNIVERSE;
	m->rtm_type = RTN_UNICAST;
	add_u32(&r, RTA_GATEWAY, htonl(gateway));
	return ask(n, &r, "make the route", "default", NULL, NULL);
}

int netlink_limit(struct netlink *n, const char *name, int64_t bits_per_s)
{
	uint64_t rate = (uint64_t)bits_per_s / 8, burst = rate / 20;
	struct tc_tbf_qopt tbf = { .rate.linklayer = TC_LINKLAYER_ETHERNET };
	struct request r;
	struct tcmsg *m = begin(&r, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE,
		sizeof *m);
	struct rtattr *options;
	uint32_t depth;

	m->tcm_family = AF_UNSPEC;
	m->tcm_ifindex = index_of(name);
	if (m->tcm_ifindex < 0)
		return -1;
	m->tcm_parent = TC_H_ROOT;
	m->tcm_handle = TC_H_MAKE(1U << 16, 0);
	if (burst < 10 * FRAME_BYTES)
		burst = 10 * FRAME_BYTES;
	if (burst > UINT32_MAX / 4)
		burst = UINT32_MAX / 4;
	depth = (uint32_t)burst;
	tbf.rate.rate = rate > UINT32_MAX ? UINT32_MAX : (uint32_t)rate;
	tbf.limit = depth * 3;
	add_text(&r, TCA_KIND, "tbf");
	options = add(&r, TCA_OPTIONS, NULL, 0);
	add(&r, TCA_TBF_PARMS, &tbf, sizeof tbf);
	add_u32(&r, TCA_TBF_BURST, depth);
	if (rate > UINT32_MAX)
		add(&r, TCA_TBF_RATE64, &rate, sizeof rate);
	end(&r, options);
	return ask(n, &r, "limit the rate of the link", name, NULL, NULL);
}

/* --- what is there -------------------------------------------------------------------------- */

struct listing {
	void (*link)(const struct netlink_link *link, void *context);
	void (*route)(const struct netlink_route *route, void *context);
	void *context;
};

static void copy_text(char *to, size_t size, const struct rtattr *a)
{
	size_t len = strnlen(RTA_DATA(a), RTA_PAYLOAD(a));

	if (len >= size)
		len = size - 1;
	memcpy(to, RTA_DATA(a), len);
	to[len] = '\0';
}

static void see_link(const struct nlmsghdr *m, void *context)
{
	const struct listing *l = context;
	const struct ifinfomsg *info = NLMSG_DATA(m);
	int left = (int)m->nlmsg_len - (int)NLMSG_LENGTH(sizeof *info);
	struct netlink_link link = { 0 };

	if (m->nlmsg_type != RTM_NEWLINK || left < 0)
		return;
	link.index = info->ifi_index;
	for (const struct rtattr *a = IFLA_RTA(info); RTA_OK(a, left);
		a = RTA_NEXT(a, left)) {
		if (a->rta_type == IFLA_IFNAME)
			copy_text(link.name, sizeof link.name, a);
		else if (a->rta_type == IFLA_IFALIAS)
			copy_text(link.alias, sizeof link.alias, a);
		else if (a->rta_type == IFLA_MTU && RTA_PAYLOAD(a) >= sizeof link.mtu)
			memcpy(&link.mtu, RTA_DATA(a), sizeof link.mtu);
	}
	l->link(&link, l->context);
}

int netlink_links(struct netlink *n,
	void (*visit)(const struct netlink_link *link, void *context), void *context)
{
	struct listing l = { .link = visit, .context = context };
	struct request r;

	begin(&r, RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg));
	return ask(n, &r, "list", "links", see_link, &l);
}

static void see_route(const struct nlmsghdr *m, void *context)
{
	const struct listing *l = context;
	const struct rtmsg *info = NLMSG_DATA(m);
	int left = (int)m->nlmsg_len - (int)NLMSG_LENGTH(sizeof *info);
	struct netlink_route route = { 0 };
	uint32_t to = 0;

	if (m->nlmsg_type != RTM_NEWROUTE || left < 0 || info->rtm_family != AF_INET ||
		info->rtm_table != RT_TABLE_MAIN || info->rtm_type != RTN_UNICAST)
		return;
	route.bits = info->rtm_dst_len;
	for (const struct rtattr *a = RTM_RTA(info); RTA_OK(a, left);
		a = RTA_NEXT(a, left)) {
		if (a->rta_type == RTA_DST && RTA_PAYLOAD(a) >= sizeof to)
			memcpy(&to, RTA_DATA(a), sizeof to);
		else if (a->rta_type == RTA_OIF && RTA_PAYLOAD(a) >= sizeof route.link)
			memcpy(&route.link, RTA_DATA(a), sizeof route.link);
	}
	route.to = ntohl(to);
	l->route(&route, l->context);
}

int netlink_routes(struct netlink *n,
	void (*visit)(const struct netlink_route *route, void *context), void *context)
{
	struct listing l = { .route = visit, .context = context };
	struct request r;
	struct rtmsg *m = begin(&r, RTM_GETROUTE, NLM_F_DUMP, sizeof *m);

	m->rtm_family = AF_INET;
	return ask(n, &r, "list", "routes", see_route, &l);
}
