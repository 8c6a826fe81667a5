/* ranks.c - a router of one hop. */
#include "cmd/rnp-register/agent/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/err.h"

#define HEADER_BYTES 20
#define AT_ONCE      65536
#define PACKETS_MOST 128 /* of the device, before others have their turn */
#define NETMASK      UINT32_C(0xffc00000)

static uint32_t word(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Whether this is one packet of IPv4, as long as it says, between these two. */
static bool is_between(const unsigned char *packet, size_t len, uint32_t from,
	uint32_t to)
{
	return len >= HEADER_BYTES && len <= RANKS_MTU && packet[0] >> 4 == 4 &&
		(packet[0] & 15) >= 5 && (size_t)(packet[2] << 8 | packet[3]) == len &&
		word(packet + 12) == from && word(packet + 16) == to;
}

void ranks_send(struct ranks *r, const unsigned char *packet, size_t len)
{
	const unsigned char size[2] = { (unsigned char)(len >> 8), (unsigned char)len };
	struct ranks_peer *p = NULL;

	if (len < HEADER_BYTES)
		return;
	for (size_t i = 0; i < r->npeers && !p; i++)
		if (r->peers[i].address == word(packet + 16))
			p = &r->peers[i];
	if (!p || !is_between(packet, len, r->address, p->address))
		return;
	if (p->out < 0 || p->queue.len - p->queue_from + len + 2 > RANKS_QUEUE_BYTES) {
		p->lost++;
		return;
	}
	buf_add(&p->queue, size, 2);
	buf_add(&p->queue, packet, len);
	p->packets_out++;
}

int ranks_receive(struct ranks *r, struct ranks_peer *p, const unsigned char *data,
	size_t len, ranks_emit_fn emit, void *ctx)
{
	while (len) {
		size_t size = 0, want = 2, n;

		if (p->nhave >= 2) {
			size = (size_t)(p->have[0] << 8 | p->have[1]);
			want = 2 + size;
		}
		n = want - p->nhave < len ? want - p->nhave : len;
		memcpy(p->have + p->nhave, data, n);
		p->nhave += n;
		data += n;
		len -= n;
		if (p->nhave < want)
			return 0;
		if (want == 2) {
			size = (size_t)(p->have[0] << 8 | p->have[1]);
			if (size < HEADER_BYTES || size > RANKS_MTU)
				return -1;
			continue;
		}
		p->nhave = 0;
		if (is_between(p->have + 2, size, p->address, r->address)) {
			p->packets_in++;
			emit(ctx, p->have + 2, size);
		} else {
			p->refused++;
		}
	}
	return 0;
}

void ranks_from_device(struct ranks *r)
{
	unsigned char packet[RANKS_MTU + 1];

	for (int i = 0; i < PACKETS_MOST; i++) {
		ssize_t n = read(r->tun, packet, sizeof packet);

		if (n <= 0)
			return;
		ranks_send(r, packet, (size_t)n);
	}
}

/* Gives a packet to the lease; one that its device does not take is lost. */
static void to_device(void *ctx, const unsigned char *packet, size_t len)
{
	const struct ranks *r = ctx;

	(void)!write(r->tun, packet, len);
}

int ranks_from_peer(struct ranks *r, struct ranks_peer *p)
{
	unsigned char data[AT_ONCE];
	ssize_t n = read(p->in, data, sizeof data);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	return n == 0 ? -1 : ranks_receive(r, p, data, (size_t)n, to_device, r);
}

int ranks_to_peer(struct ranks_peer *p)
{
	ssize_t n = write(p->out, p->queue.data + p->queue_from,
		p->queue.len - p->queue_from);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	p->queue_from += (size_t)n;
	if (p->queue_from == p->queue.len) {
		buf_reset(&p->queue);
		p->queue_from = 0;
	} else if (p->queue_from > RANKS_QUEUE_BYTES) {
		memmove(p->queue.data, p->queue.data + p->queue_from,
			p->queue.len - p->queue_from);
		p->queue.len -= p->queue_from;
		p->queue_from = 0;
	}
	return 0;
}

void ranks_attach(struct ranks_peer *p, int in, int out)
{
	if (p->in >= 0)
		close(p->in);
	if (p->out >= 0 && p->out != p->in)
		close(p->out);
	p->in = in;
	p->out = out;
	p->nhave = 0;
	p->queue_from = 0;
	buf_reset(&p->queue);
	if (in >= 0)
		fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
	if (out >= 0)
		fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

static void set_address(struct ifreq *request, uint32_t address)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(address) } };

	memcpy(&request->ifr_addr, &in, sizeof in);
}

/* Gives the device its address, size and state. Returns 0 or -1 with errno. */
static int set_up(const char *name, uint32_t address)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = -1;
	struct ifreq request = { 0 };

	if (fd < 0)
		return -1;
	snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
	set_address(&request, address);
	rc = ioctl(fd, SIOCSIFADDR, &request);
	set_address(&request, NETMASK);
	if (rc == 0)
		rc = ioctl(fd, SIOCSIFNETMASK, &request);
	request.ifr_mtu = RANKS_MTU;
	if (rc == 0)
		rc = ioctl(fd, SIOCSIFMTU, &request);
	if (rc == 0)
		rc = ioctl(fd, SIOCGIFFLAGS, &request);
	request.ifr_flags |= IFF_UP | IFF_RUNNING;
	if (rc == 0)
		rc = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return rc;
}

static int make_device(const char *name, uint32_t address)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_sys(EX_UNAVAILABLE,
			"ranks cannot reach one another: cannot open "
			"/dev/net/tun");
	snprintf(request.ifr_name, IFNAMSIZ, "%s", name);
	if (ioctl(fd, TUNSETIFF, &request) == 0 && set_up(name, address) == 0)
		return fd;
	err_sys(errno == EPERM ? EX_NOPERM : EX_OSERR, "cannot make the device '%s'",
		name);
	close(fd);
	return -1;
}

int ranks_open_device(const char *netns, const char *name, uint32_t address)
{
	int ours, theirs, fd = -1;

	if (!*netns)
		return make_device(name, address);
	ours = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	theirs = open(netns, O_RDONLY | O_CLOEXEC);
	if (ours < 0 || theirs < 0 || setns(theirs, CLONE_NEWNET) < 0) {
		err_sys(EX_OSERR, "cannot enter the network of '%s'", netns);
	} else {
		fd = make_device(name, address);
		if (setns(ours, CLONE_NEWNET) < 0)
			bug("cannot leave the network of a lease");
	}
	if (ours >= 0)
		close(ours);
	if (theirs >= 0)
		close(theirs);
	return fd;
}
