/* netns.h - network namespaces that have a name. Needs root. Uses err, threads.
 *
 * A namespace is entered by a thread of its own that ends afterwards, so that no thread has to find
 * its way back. */
#ifndef RNP_CMD_REGISTER_AGENT_NETNS_H
#define RNP_CMD_REGISTER_AGENT_NETNS_H

/* Makes a namespace and mounts it on the new file path, where setns(2), podman and `ip netns` find
 * it. Returns 0, or -1 with err_set and nothing made. */
int netns_make(const char *path);

/* Opens the namespace mounted on path. Returns a file, or -1 with err_set: 66 there is none. */
int netns_open(const char *path);

/* Takes the name away, and the file. The namespace ends with its last process. One that is not
 * there has gone. Returns 0, or -1 with err_set. */
int netns_drop(const char *path);

/* Calls work in the namespace of an open file; -1: in a new one, in which there is nothing.
 * What it sets as err is the caller's. Returns what work returns, or -1 with err_set. */
int netns_run(int netns, int (*work)(void *context), void *context);

#endif
