/* cell_bars.c - what keeps a cell's child in. */
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/cell_parts.h"
#include "common/base/err.h"

#define MEMORY_MAX ((rlim_t)2 << 30)
#define FILES_MAX  512 /* directories are open 128 deep */

/* Sanitizers want much memory, and calls of their own. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define WATCHED 1
#else
#define WATCHED 0
#endif

#if defined __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* --- calls ----------------------------------------------------------------------------------- */

/* All that reading, making and hashing files needs. Another call fails, as where it were not known
 * (EPERM). */
static const unsigned short calls[] = {
#ifdef __NR_open
	__NR_open, __NR_stat, __NR_lstat, __NR_mkdir, __NR_rmdir, __NR_unlink,
	__NR_rename, __NR_symlink, __NR_readlink, __NR_chmod, __NR_poll, __NR_dup2,
	__NR_getdents,
#endif
	__NR_read, __NR_write, __NR_readv, __NR_writev, __NR_pread64, __NR_pwrite64,
	__NR_close, __NR_fstat, __NR_newfstatat, __NR_statx, __NR_lseek, __NR_openat,
	__NR_openat2, __NR_getdents64, __NR_readlinkat, __NR_mkdirat, __NR_symlinkat,
	__NR_unlinkat, __NR_renameat, __NR_renameat2, __NR_fchmod, __NR_fchmodat,
	__NR_fchown, __NR_fchownat, __NR_chdir, __NR_fchdir, __NR_ftruncate, __NR_fsync,
	__NR_fdatasync, __NR_dup, __NR_dup3, __NR_fcntl, __NR_getcwd, __NR_mmap,
	__NR_munmap, __NR_mremap, __NR_mprotect, __NR_brk, __NR_madvise, __NR_futex,
	__NR_getrandom, __NR_clock_gettime, __NR_clock_nanosleep, __NR_nanosleep,
	__NR_gettimeofday, __NR_getpid, __NR_gettid, __NR_getuid, __NR_geteuid,
	__NR_getgid, __NR_getegid, __NR_tgkill, __NR_rt_sigaction, __NR_rt_sigprocmask,
	__NR_rt_sigreturn, __NR_restart_syscall, __NR_sched_yield, __NR_ppoll, __NR_exit,
	__NR_exit_group
};
#define CALLS (sizeof calls / sizeof *calls)

static int filter_calls(void)
{
#ifdef ARCH
	struct sock_filter code[6 + 2 * CALLS];
	struct sock_fprog program = { .filter = code };
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
		SECCOMP_RET_KILL_PROCESS);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < CALLS; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			calls[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
			SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
		SECCOMP_RET_ERRNO | EPERM);
	program.len = n;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		return err_sys(EX_OSERR, "cannot filter calls");
#endif
	return 0;
}

/* --- rights ---------------------------------------------------------------------------------- */

/* Files of all users of the container are its own, as they are for the container's root. */
static int keep_files_alone(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const unsigned keep = 1u << CAP_DAC_OVERRIDE;
	struct __user_cap_data_struct data[2] = { { .effective = keep,
		.permitted = keep } };

	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return err_sys(EX_OSERR, "cannot drop capabilities");
	if (syscall(SYS_capset, &head, data) < 0)
		return err_sys(EX_OSERR, "cannot drop capabilities");
	return 0;
}

static int limit(int what, rlim_t most)
{
	const struct rlimit l = { most, most };

	return setrlimit((__rlimit_resource_t)what, &l) < 0 ?
		err_sys(EX_OSERR, "cannot set limits") :
		0;
}

int cell_bars(int dir, int (*users_given)(void))
{
	if (setgroups(0, NULL) < 0 ||
		unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return err_sys(EX_OSERR, "cannot leave the machine's name spaces");
	if (users_given() < 0)
		return err_set(EX_OSERR, "nobody gives users");
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(EX_OSERR, "cannot become another user");
	if (fchdir(dir) < 0 || chroot(".") < 0 || close(dir) < 0)
		return err_sys(EX_OSERR, "cannot move into the folder");
	/* only now: a change of user forgets it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(EX_OSERR, "cannot give up rights");
	if (keep_files_alone() < 0 || limit(RLIMIT_CORE, 0) < 0 ||
		limit(RLIMIT_NOFILE, FILES_MAX) < 0 ||
		(!WATCHED && (limit(RLIMIT_AS, MEMORY_MAX) < 0 || filter_calls() < 0)))
		return -1;
	return 0;
}
