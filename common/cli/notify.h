/* notify.h - tells the service manager how it stands: the line "Status:" of systemctl status. Uses
 * err. */
#ifndef RNP_COMMON_CLI_NOTIFY_H
#define RNP_COMMON_CLI_NOTIFY_H

/* Says a line, by the protocol of sd_notify(3). Where nobody listens nothing happens; what was said
 * last is not said again. From one thread. */
void notify_status(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
