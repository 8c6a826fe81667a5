/* notify.c - one datagram to the socket that $NOTIFY_SOCKET names. */
#include "common/cli/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PREFIX "STATUS="

void notify_status(const char *fmt, ...)
{
	static char last[300];
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	char line[sizeof last] = PREFIX;
	size_t len = path ? strlen(path) : 0;
	va_list args;
	int fd;

	if (len < 2 || len >= sizeof to.sun_path || (*path != '/' && *path != '@'))
		return;
	va_start(args, fmt);
	vsnprintf(line + strlen(PREFIX), sizeof line - strlen(PREFIX), fmt, args);
	va_end(args);
	if (strcmp(line, last) == 0)
		return;
	memcpy(to.sun_path, path, len);
	if (*path == '@') /* of the abstract namespace */
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT,
		    (struct sockaddr *)&to,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) >= 0)
		memcpy(last, line, sizeof last);
	close(fd);
}
