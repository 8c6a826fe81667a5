/* sign.c - signs a message with the key at hand, or asks a program that has the key. That program
 * gets a description of the message in words. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-reward/payout/run.h"
#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"

#define ANSWER_MAX      512
#define SIGNER_GRACE_NS INT64_C(1000000000) /* between SIGTERM and SIGKILL */

/* --- the request to the signer -------------------------------------------------------------- */

static int write_request(const struct pay_run *run, const void *message, size_t len,
	struct buf *out)
{
	char base64[sodium_base64_ENCODED_LEN(SOLANA_TX_BYTES_MAX,
		sodium_base64_VARIANT_ORIGINAL)];
	json_t *request = json_record("rnp.signing"), *list = json_array();
	struct solana_parsed parsed;
	struct buf words = BUF_INIT;
	char wallet[ADDRESS_MAX];
	char *line, *save;

	if (len > SOLANA_TX_BYTES_MAX || !solana_parse(message, len, &parsed))
		bug("a message of ours cannot be read");
	solana_words(&words, &parsed);
	for (line = strtok_r(words.data, "\n", &save); line;
		line = strtok_r(NULL, "\n", &save))
		json_push_text(list, line);
	sodium_bin2base64(base64, sizeof base64, message, len,
		sodium_base64_VARIANT_ORIGINAL);
	address_format(run->payer.wallet.bytes, wallet);
	json_set_text(request, "wallet", wallet);
	json_set_text(request, "message", base64);
	json_set(request, "words", list);
	json_write(out, request);
	buf_addc(out, '\n');
	json_decref(request);
	buf_release(&words);
	return 0;
}

/* --- the signer ----------------------------------------------------------------------------- */

struct child {
	pid_t pid;
	int in, out; /* its standard input and output; -1: closed */
};

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int start(struct child *c, const char *command)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_sys(EX_OSERR, "cannot make a pipe");
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		close(in[1]);
		return err_sys(EX_OSERR, "cannot make a pipe");
	}
	c->pid = fork();
	if (c->pid == 0) {
		signal(SIGPIPE, SIG_DFL);
		if (dup2(in[0], 0) >= 0 && dup2(out[1], 1) >= 0)
			execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	c->in = in[1];
	c->out = out[0];
	return c->pid < 0 ? err_sys(EX_OSERR, "cannot start the signer") : 0;
}

/* Writes some more of the request. A signer that closes its input early may have read enough:
 * its answer decides. */
static void write_some(struct child *c, const struct buf *request, size_t *sent)
{
	ssize_t n = write(c->in, request->data + *sent, request->len - *sent);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	*sent += n < 0 ? request->len : (size_t)n;
	if (*sent >= request->len)
		close_end(&c->in);
}

/* Reads some more of the answer. Returns 1; 0 at its end; -1: it is too long. */
static int read_some(struct child *c, struct buf *answer)
{
	char part[256];
	ssize_t n = read(c->out, part, sizeof part);

	if (n < 0 && errno == EINTR)
		return 1;
	if (n <= 0)
		return 0;
	buf_add(answer, part, (size_t)n);
	return answer->len > ANSWER_MAX ?
		err_set(EX_DATAERR, "the signer says more than a signature") :
		1;
}

static int not_in_time(void)
{
	return err_set(EX_TEMPFAIL, "the signer did not answer in time: run pay again");
}

static int talk(struct child *c, const struct buf *request, struct buf *answer,
	int64_t end_ns)
{
	size_t sent = 0;

	for (int rc = 1; rc > 0;) {
		struct pollfd fds[2] = { { c->out, POLLIN, 0 }, { c->in, POLLOUT, 0 } };
		int64_t left_ms = (end_ns - clock_mono_ns()) / 1000000;

		if (left_ms <= 0)
			return not_in_time();
		if (poll(fds, c->in >= 0 ? 2 : 1,
			    (int)(left_ms > 1000 ? 1000 : left_ms)) < 0 &&
			errno != EINTR)
			return err_sys(EX_OSERR, "cannot wait for the signer");
		if (c->in >= 0 && fds[1].revents)
			write_some(c, request, &sent);
		if (fds[0].revents)
			rc = read_some(c, answer);
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* Waits until the child has ended, and kills it when the time is over: a child that has closed
 * its output, or ignores SIGTERM, would keep the ledger locked for ever. Returns whether it
 * ended by itself. */
static bool reap(struct child *c, int64_t end_ns, int *status)
{
	static const struct timespec pause = { 0, 5000000 };
	int64_t kill_ns = end_ns + SIGNER_GRACE_NS;
	bool late = false;

	for (;;) {
		pid_t got = waitpid(c->pid, status, WNOHANG);

		if (got == c->pid || (got < 0 && errno != EINTR))
			return got == c->pid && !late;
		if (!late && clock_mono_ns() > end_ns) {
			late = true;
			kill(c->pid, SIGTERM);
		}
		if (clock_mono_ns() > kill_ns)
			kill(c->pid, SIGKILL);
		nanosleep(&pause, NULL);
	}
}

static int run_signer(struct pay_run *run, const struct buf *request, struct buf *answer)
{
	int64_t end_ns = clock_mono_ns() + run->timeout_ms * 1000000;
	struct child c = { -1, -1, -1 };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	int rc, status = 0;

	sigaction(SIGPIPE, &ignore, &before);
	rc = start(&c, run->signer);
	if (rc == 0)
		rc = talk(&c, request, answer, end_ns);
	close_end(&c.in);
	close_end(&c.out);
	if (c.pid > 0 && !reap(&c, rc < 0 ? clock_mono_ns() : end_ns, &status) && rc == 0)
		rc = not_in_time();
	sigaction(SIGPIPE, &before, NULL);
	if (rc == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		rc = err_set(EX_TEMPFAIL, "the signer refuses (exit %d)",
			WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return rc;
}

static int ask_signer(struct pay_run *run, const void *message, size_t len,
	unsigned char signature[SOLANA_SIGNATURE_BYTES])
{
	struct buf request = BUF_INIT, answer = BUF_INIT;
	int rc = write_request(run, message, len, &request);

	if (rc == 0)
		rc = run_signer(run, &request, &answer);
	while (answer.len && strchr(" \t\r\n", answer.data[answer.len - 1]))
		answer.data[--answer.len] = '\0';
	if (rc == 0 &&
		base58_decode(signature, SOLANA_SIGNATURE_BYTES, buf_text(&answer)) !=
			SOLANA_SIGNATURE_BYTES)
		rc = err_set(EX_DATAERR,
			"the signer's answer is not a signature: '%.100s'",
			buf_text(&answer));
	if (rc == 0 &&
		crypto_sign_verify_detached(signature, message, len,
			run->payer.wallet.bytes) != 0)
		rc = err_set(EX_DATAERR,
			"the signer's answer is not the payer's signature of this message");
	buf_release(&request);
	buf_release(&answer);
	return rc;
}

int pay_sign(struct pay_run *run, const void *message, size_t len,
	unsigned char signature[SOLANA_SIGNATURE_BYTES])
{
	if (!run->key)
		return ask_signer(run, message, len, signature);
	crypto_sign_detached(signature, NULL, message, len, run->key->secret);
	return 0;
}
