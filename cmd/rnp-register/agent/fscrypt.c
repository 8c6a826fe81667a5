/* fscrypt.c - a folder whose files the kernel encrypts: policies of version 2 by ioctl. */
#include "cmd/rnp-register/agent/fscrypt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <sodium.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/err.h"

#define KEY_BYTES FSCRYPT_MAX_KEY_SIZE

static int open_folder(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 ? fd : err_sys(0, "cannot open '%s'", folder);
}

/* Hands random bytes to the kernel. *id gets what they are called from now on. */
static int add_key(int fd, struct fscrypt_key_specifier *id)
{
	size_t size = sizeof(struct fscrypt_add_key_arg) + KEY_BYTES;
	struct fscrypt_add_key_arg *arg = sodium_init() < 0 ? NULL : sodium_malloc(size);
	int rc;

	if (!arg)
		return err_sys(EX_OSERR, "no memory for a key");
	memset(arg, 0, size);
	arg->key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
	arg->raw_size = KEY_BYTES;
	randombytes_buf(arg->raw, KEY_BYTES);
	rc = ioctl(fd, FS_IOC_ADD_ENCRYPTION_KEY, arg);
	*id = arg->key_spec;
	if (rc < 0)
		err_sys(EX_UNAVAILABLE, "the kernel takes no key for encryption");
	sodium_free(arg);
	return rc;
}

int fscrypt_seal(const char *folder)
{
	struct fscrypt_policy_v2 policy = { .version = FSCRYPT_POLICY_V2,
		.contents_encryption_mode = FSCRYPT_MODE_AES_256_XTS,
		.filenames_encryption_mode = FSCRYPT_MODE_AES_256_CTS,
		.flags = FSCRYPT_POLICY_FLAGS_PAD_32 };
	struct fscrypt_key_specifier id = { 0 };
	int fd = open_folder(folder), rc = -1;

	if (fd < 0 || add_key(fd, &id) < 0)
		goto out;
	memcpy(policy.master_key_identifier, id.u.identifier,
		FSCRYPT_KEY_IDENTIFIER_SIZE);
	rc = ioctl(fd, FS_IOC_SET_ENCRYPTION_POLICY, &policy);
	if (rc < 0)
		err_sys(EX_UNAVAILABLE, "cannot encrypt '%s'", folder);
out:
	if (fd >= 0)
		close(fd);
	return rc;
}

/* The name of a folder's key. Returns 0; 1: the folder is not encrypted; -1 with err_set. */
static int key_of(int fd, const char *folder, struct fscrypt_key_specifier *id)
{
	struct fscrypt_get_policy_ex_arg arg = { .policy_size = sizeof arg.policy };

	memset(id, 0, sizeof *id);
	if (ioctl(fd, FS_IOC_GET_ENCRYPTION_POLICY_EX, &arg) < 0) {
		if (errno == ENODATA || errno == EOPNOTSUPP || errno == ENOTTY)
			return 1;
		return err_sys(EX_OSERR, "cannot ask how '%s' is encrypted", folder);
	}
	if (arg.policy.version != FSCRYPT_POLICY_V2)
		return 1;
	id->type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
	memcpy(id->u.identifier, arg.policy.v2.master_key_identifier,
		FSCRYPT_KEY_IDENTIFIER_SIZE);
	return 0;
}

int fscrypt_is_open(const char *folder, const char **why)
{
	struct fscrypt_get_key_status_arg status = { 0 };
	int fd = open_folder(folder),
	    rc = fd < 0 ? -1 : key_of(fd, folder, &status.key_spec);

	*why = rc == 1 ? "it is not encrypted" : "the kernel has its key no more";
	if (rc == 0) {
		rc = ioctl(fd, FS_IOC_GET_ENCRYPTION_KEY_STATUS, &status);
		if (rc < 0)
			err_sys(EX_OSERR, "cannot ask for the key of '%s'", folder);
		else
			rc = status.status == FSCRYPT_KEY_STATUS_PRESENT;
	} else if (rc == 1) {
		rc = 0;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

int fscrypt_forget(const char *folder, bool *busy)
{
	struct fscrypt_remove_key_arg arg = { 0 };
	int fd = open_folder(folder),
	    rc = fd < 0 ? -1 : key_of(fd, folder, &arg.key_spec);
	int root = rc == 0 ? openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	/* an open folder would itself be a file that is busy: the request is made of the one
	 * above */
	if (fd >= 0)
		close(fd);
	fd = root;
	*busy = false;
	if (rc == 0) {
		rc = ioctl(fd, FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS, &arg);
		*busy = rc == 0 &&
			arg.removal_status_flags &
				FSCRYPT_KEY_REMOVAL_STATUS_FLAG_FILES_BUSY;
		if (rc < 0 && errno == ENOKEY)
			rc = 0;
		else if (rc < 0)
			err_sys(EX_OSERR, "the kernel keeps the key of '%s'", folder);
	} else if (rc == 1) {
		rc = 0;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}
