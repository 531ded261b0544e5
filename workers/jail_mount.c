/* The jail's view of the file system: the host's tree read-only; own, empty folders in the place of what is
 * private or writable; over that what the controller asked for, at its own path; a /proc of its own and a
 * minimal /dev.
 *
 * Uses the mount API of Linux 5.12: all trees are copied before anything covers them, made safe, and attached
 * last. */
#include "jail_parts.h"
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAFE                                                                                                 \
	(MOUNT_ATTR_NOSUID |                                                                                 \
	 MOUNT_ATTR_NODEV) /* nodev: a device node can be written on a read-only mount, too */
#define READ_ONLY (SAFE | MOUNT_ATTR_RDONLY)

/* ---- trees ---- */

/* A detached copy of what is at path. Always recursive: a user namespace may not copy a mount without those
 * that lie on it. mount_setattr changes every submount in one step and keeps the flags that the kernel has
 * locked (MS_REMOUNT would need them repeated, mount by mount). Private, not slave: a later mount on the host
 * would arrive here writable. */
static int copy_tree(const char *path, uint64_t attributes)
{
	struct mount_attr a = {.attr_set = attributes, .propagation = MS_PRIVATE};
	int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (fd < 0 || mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof a) < 0)
		jail_fail("%s: cannot be shown to user %s: %s", path, jail.user, strerror(errno));
	return fd;
}

static void attach(int tree, const char *path)
{
	if (move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS) < 0)
		jail_fail("%s: cannot be mounted in the jail: %s", path, strerror(errno));
	close(tree);
}

/* ---- paths ---- */

/* What is mounted over the host's tree: entries, sorted so that what lies below comes after; and bases, the
 * folders whose place something of our own takes, so that mount points in them have to be made. */
struct entry {
	char *path;
	enum jail_path_kind kind;
	bool folder, device;
	int tree;
	char *stage; /* HIDDEN: what covers it, in the staging tmpfs */
};
static struct entry entries[2 * JAIL_PATHS_MAX + 1];
static size_t entry_count;

static const struct base {
	const char *path, *stage; /* where its content is prepared, below STAGING */
	bool writable;
} bases[] = {
    {"/home", "/tmp/own0", true}, {"/root", "/tmp/own1", true},	   {"/run", "/tmp/own2", true},
    {"/tmp", "/tmp/own3", true},  {"/var/tmp", "/tmp/own4", true}, {"/dev/shm", "/tmp/own5", true},
    {"/dev", "/tmp/dev", false},
};
static char
    *base_path[ARRAY_SIZE(bases)]; /* without links; NULL: not there on this host, or inside another */

/* Is path below folder, or the same? Returns what follows folder: "/x", or "" for the same; NULL if not. */
static const char *below(const char *path, const char *folder)
{
	size_t n = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
	return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0) ? path + n : NULL;
}

/* "a: user u may not enter b" says more than "permission denied" on a long path. */
static _Noreturn void refuse(const char *path, enum jail_path_kind kind, int code)
{
	char part[PATH_MAX];
	const char *need = kind == PATH_READ_WRITE ? "written" : "read";
	snprintf(part, sizeof part, "%s", path);
	for (char *slash = strchr(part + 1, '/'); code == EACCES && slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (access(part, X_OK) < 0)
			jail_fail("%s: not accessible to user %s, who runs the reconciler: %s cannot be "
				  "entered; give it x for "
				  "that user, or move the folder elsewhere",
				  path, jail.user, part);
		*slash = '/';
	}
	jail_fail("%s: not accessible to user %s, who runs the reconciler: it cannot be %s: %s", path,
		  jail.user, need, strerror(code));
}

static void add_entry(const char *path, enum jail_path_kind kind, const struct stat *st)
{
	entries[entry_count++] =
	    (struct entry){xstrdup(path), kind, S_ISDIR(st->st_mode), S_ISCHR(st->st_mode), -1, NULL};
}

static bool replaced(const char *path)
{
	for (size_t b = 0; b < ARRAY_SIZE(bases); b++)
		if (base_path[b] && below(path, base_path[b]))
			return true;
	return false;
}

/* No "//", "/./", "/../" or "/" at the end. */
static bool plain(const char *path)
{
	for (const char *c = path; *c; c++)
		if (*c == '/' && (c[1] == '/' || c[1] == 0 || (c[1] == '.' && strchr("/.", c[2]))))
			return false;
	return true;
}

/* Checks what the jail's user may do with it, as that user: access() asks for the real uid. */
static void resolve(const char *path, enum jail_path_kind kind)
{
	char real[PATH_MAX];
	struct stat st;
	int need = kind == PATH_READ_WRITE ? R_OK | W_OK : R_OK;
	if (!realpath(path, real) || stat(real, &st) < 0) {
		if (kind == PATH_HIDDEN) /* not there, or out of reach: nothing to hide */
			return;
		refuse(path, kind, errno);
	}
	if (kind != PATH_HIDDEN) {
		if (access(path, need | (S_ISDIR(st.st_mode) ? X_OK : 0)) < 0)
			refuse(path, kind, errno);
		if (below(real, "/proc"))
			jail_fail("%s: cannot be shown: the jail has a /proc of its own", path);
		for (size_t b = 0; b < ARRAY_SIZE(bases); b++)
			if (base_path[b] && strcmp(real, base_path[b]) != 0 && below(base_path[b], real))
				jail_fail("%s: would cover the jail's own %s; name what lies in it instead",
					  path, base_path[b]);
	}
	add_entry(real, kind, &st);
	/* At its own path too, where the link that leads there is not seen. */
	if (strcmp(real, path) != 0 && kind != PATH_HIDDEN && replaced(path) && plain(path))
		add_entry(path, kind, &st);
}

static int by_path(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = strcmp(x->path, y->path); /* "/a" sorts before "/a/b" */
	return order ? order : (int)x->kind - (int)y->kind;
}

/* The same path twice: writable wins over read-only; shown and hidden at once is a mistake that only its
 * author can solve. */
static void sort_entries(void)
{
	size_t kept = 0;
	qsort(entries, entry_count, sizeof *entries, by_path);
	for (size_t i = 0; i < entry_count; i++) {
		struct entry *before = kept ? &entries[kept - 1] : NULL;
		if (!before || strcmp(before->path, entries[i].path) != 0) {
			entries[kept++] = entries[i];
			continue;
		}
		if (entries[i].kind == PATH_HIDDEN && before->kind != PATH_HIDDEN)
			jail_fail("%s: is to be shown to the reconciler, but holds our own sockets, regions "
				  "or a kubeconfig; move one "
				  "of them to another folder",
				  before->path);
		free(before->path);
		*before = entries[i];
	}
	entry_count = kept;
}

static void resolve_all(void)
{
	char real[PATH_MAX];
	for (size_t b = 0; b < ARRAY_SIZE(bases); b++) {
		struct stat st;
		if (!realpath(bases[b].path, real)) /* /dev/shm is in our /dev in any case */
			snprintf(real, sizeof real, "%s",
				 strcmp(bases[b].path, "/dev/shm") == 0 ? bases[b].path : "");
		else if (stat(real, &st) < 0 || !S_ISDIR(st.st_mode))
			*real = 0;
		for (size_t o = 0; *real && o < b; o++) /* /var/tmp as a link to /tmp: one is enough */
			if (base_path[o] && below(real, base_path[o]))
				*real = 0;
		base_path[b] = *real ? xstrdup(real) : NULL;
	}
	for (size_t i = 0; i < jail.path_count; i++)
		resolve(jail.paths[i].path, jail.paths[i].kind);
	/* Debian's resolv.conf is often a link into /run: without its target there are no names. */
	struct stat st;
	if ((jail.network_host || jail.without[PART_NETWORK]) && realpath("/etc/resolv.conf", real) &&
	    strcmp(real, "/etc/resolv.conf") != 0 && stat(real, &st) == 0 && access(real, R_OK) == 0)
		add_entry(real, PATH_READ_ONLY, &st);
	sort_entries();
}

/* ---- the own tmpfs ---- */

static void make_node(const char *path, mode_t mode)
{
	int r = S_ISDIR(mode) ? mkdir(path, mode & 07777) : mknod(path, mode, 0);
	if (r < 0 && errno != EEXIST)
		jail_fail("own tmpfs: %s: %s", path, strerror(errno));
	if (r == 0 && geteuid() != jail.uid && lchown(path, jail.uid, jail.gid) < 0)
		jail_fail("own tmpfs: owner of %s: %s", path, strerror(errno));
}

/* Makes stage/rest and what leads to it: a mount point for a folder or a file. */
static void make_mount_point(const char *stage, const char *rest, bool folder)
{
	char path[PATH_MAX + 32];
	size_t start = (size_t)snprintf(path, sizeof path, "%s%s", stage, rest);
	if (start >= sizeof path)
		jail_fail("%s: longer than a path can be", rest);
	for (char *slash = path + strlen(stage); *rest && slash; *slash = '/') {
		slash = strchr(slash + 1, '/');
		if (!slash)
			break;
		*slash = 0;
		make_node(path, S_IFDIR | 0755);
	}
	if (*rest)
		make_node(path, folder ? S_IFDIR | 0755 : S_IFREG | 0444);
}

static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
				      "/dev/random", "/dev/urandom", "/dev/tty"};

/* One tmpfs for everything that is the jail's own: one limit, one thing to empty. It lies over /tmp of a tree
 * that goes away. */
static void make_staging(void)
{
	static const char *const links[][2] = {{"/proc/self/fd", "fd"},
					       {"/proc/self/fd/0", "stdin"},
					       {"/proc/self/fd/1", "stdout"},
					       {"/proc/self/fd/2", "stderr"}};
	char path[64];
	if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,nr_inodes=16k,mode=755") < 0)
		jail_fail("own tmpfs on /tmp: %s", strerror(errno));
	make_node("/tmp/new", S_IFDIR | 0755);
	for (size_t b = 0; b < ARRAY_SIZE(bases); b++)
		make_node(bases[b].stage, S_IFDIR | 0755);
	make_node("/tmp/dev/shm", S_IFDIR | 0755);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		snprintf(path, sizeof path, "/tmp%s", devices[i]);
		make_node(path, S_IFREG | 0444);
	}
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		snprintf(path, sizeof path, "/tmp/dev/%s", links[i][1]);
		if (symlink(links[i][0], path) < 0)
			jail_fail("own tmpfs: %s: %s", path, strerror(errno));
	}
}

/* A mount point below an own folder is the program's, who could rename it away under later attempts. What is
 * mounted on cannot be renamed: so the first component becomes a read-only mount of itself. */
static char *guards[ARRAY_SIZE(entries)];
static size_t guard_count;

static void add_guard(const char *folder, const char *rest)
{
	const char *end = strchrnul(rest + 1, '/');
	char *path = xasprintf("%s%.*s", folder, (int)(end - rest), rest);
	for (size_t g = 0; g < guard_count; g++)
		if (strcmp(guards[g], path) == 0) {
			free(path);
			return;
		}
	guards[guard_count++] = path;
}

/* What an entry's mount point lies in: the last entry above it, or a base, whichever is deeper. Where that is
 * something of our own, the mount point is made in its stage; elsewhere it stands in the host's tree. False:
 * a hidden path that is out of sight anyway. */
static bool prepare(size_t index)
{
	struct entry *e = &entries[index];
	const char *over = "", *stage = NULL;
	bool writable = false;
	for (size_t b = 0; b < ARRAY_SIZE(bases); b++)
		if (base_path[b] && below(e->path, base_path[b]) && strlen(base_path[b]) > strlen(over)) {
			over = base_path[b];
			stage = bases[b].stage;
			writable = bases[b].writable;
		}
	for (size_t i = 0; i < index; i++) /* an entry on a base's own path lies over it */
		if (entries[i].path && below(e->path, entries[i].path) &&
		    strlen(entries[i].path) >= strlen(over)) {
			over = entries[i].path;
			stage = entries[i].stage;
			writable = false;
		}
	if (stage && e->kind == PATH_HIDDEN)
		return false;
	if (stage) {
		const char *rest = below(e->path, over);
		make_mount_point(stage, rest, e->folder);
		if (writable && *rest)
			add_guard(over, rest);
	}
	if (e->kind == PATH_HIDDEN) {
		e->stage = xasprintf("/tmp/hide%zu", index);
		make_node(e->stage, e->folder ? S_IFDIR | 0755 : S_IFREG | 0444);
	}
	return true;
}

/* ---- /proc ---- */

/* A new /proc is refused where it would show what somebody has covered in the old one; say who. */
static _Noreturn void proc_refused(int code)
{
	char line[PATH_MAX * 2], at[PATH_MAX], cover[PATH_MAX] = "nothing in view; is /proc mounted at all?";
	FILE *f = fopen("/proc/self/mountinfo", "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "%*s %*s %*s %*s %4095s", at) == 1 && strncmp(at, "/proc/", 6) == 0 &&
		    strncmp(at, "/proc/sys/fs/binfmt_misc", 24) != 0) {
			memcpy(cover, at, sizeof cover);
			break;
		}
	jail_fail(
	    "own /proc refused to user %s: %s: the old one is covered by a mount: %s. In a unit: leave out "
	    "ProtectKernelTunables=, ProtectKernelLogs=, ProtectProc=, ProcSubset=. In Docker: "
	    "--security-opt "
	    "systempaths=unconfined. Or give up this part: sandbox.without: [proc]",
	    jail.user, strerror(code), cover);
}

static void mount_proc(void)
{
	int fs = fsopen("proc", FSOPEN_CLOEXEC), fd = -1;
	if (fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
		fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (fd < 0)
		proc_refused(errno);
	close(fs);
	attach(fd, "/proc");
}

/* ---- all together ---- */

/* The root is changed first, then things are mounted by plain names: so an absolute link (/var/tmp -> /tmp)
 * cannot lead into the old root. openat2(RESOLVE_IN_ROOT) would do as well, but a unit's RestrictSUIDSGID=
 * answers it with ENOSYS. */
static void change_root(int host)
{
	attach(host, "/tmp/new");
	if (chdir("/tmp/new") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
	    chdir("/") < 0)
		jail_fail("change of the root: %s", strerror(errno));
}

void jail_mount(struct own_folders *ret_own)
{
	int device[ARRAY_SIZE(devices)], base[ARRAY_SIZE(bases)];

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		jail_fail("mount namespace: %s", strerror(errno));
	resolve_all();

	/* Copies of the host's, before anything is covered. */
	for (size_t i = 0; i < entry_count; i++) {
		const struct entry *e = &entries[i];
		uint64_t open =
		    e->device ? MOUNT_ATTR_NOSUID : SAFE; /* a device that is named is meant as one */
		if (e->kind != PATH_HIDDEN)
			entries[i].tree = copy_tree(e->path, e->kind == PATH_READ_WRITE ? open : READ_ONLY);
	}
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		device[i] = copy_tree(devices[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	int host = copy_tree("/", READ_ONLY);

	/* Our own, complete with the mount points in it. */
	make_staging();
	for (size_t i = 0; i < entry_count; i++)
		if (!prepare(i)) {
			free(entries[i].path);
			entries[i].path = NULL;
		}
	for (size_t i = 0; i < entry_count; i++)
		if (entries[i].stage)
			entries[i].tree = copy_tree(entries[i].stage, READ_ONLY);
	for (size_t b = 0; b < ARRAY_SIZE(bases); b++) {
		base[b] = base_path[b] ? copy_tree(bases[b].stage, bases[b].writable ? SAFE : READ_ONLY) : -1;
		if (base[b] >= 0 && bases[b].writable)
			ret_own->fd[ret_own->count++] =
			    open(bases[b].stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}

	change_root(host);
	if (!jail.without[PART_PROC])
		mount_proc();
	for (size_t b = ARRAY_SIZE(bases); b-- > 0;) /* /dev, then what lies on it */
		if (base[b] >= 0)
			attach(base[b], base_path[b]);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		attach(device[i], devices[i]);
	for (size_t g = 0; g < guard_count; g++)
		attach(copy_tree(guards[g], READ_ONLY), guards[g]);
	for (size_t i = 0; i < entry_count; i++)
		if (entries[i].path)
			attach(entries[i].tree, entries[i].path);
}
