#include "region_ahead.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GROW_STEP = 4 << 20 };

/* The same for every process of one boot; the first 16 bytes of the id without its dashes. */
static int read_boot_id(uint8_t out[16])
{
	_cleanup_(close_fd) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	char text[64];
	ssize_t n = read(fd, text, sizeof(text));
	if (n < 0)
		return -errno;
	memset(out, 0, 16);
	size_t digits = 0;
	for (ssize_t i = 0; i < n && digits < 32; i++) {
		char c = text[i];
		unsigned v;
		if (c >= '0' && c <= '9')
			v = (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			v = (unsigned)(c - 'a') + 10;
		else
			continue;
		out[digits / 2] = (uint8_t)((unsigned)out[digits / 2] << 4 | v);
		digits++;
	}
	return digits == 32 ? 0 : -EINVAL;
}

/* Of what never changes in the life of the file; max_size follows the configured budget and is left out. */
static uint32_t header_checksum(const struct region_header *h)
{
	uint64_t sum = hash_bytes(&h->layout_version, sizeof(h->layout_version), HASH_SEED);
	sum = hash_bytes(&h->layout_hash, sizeof(h->layout_hash), sum);
	sum = hash_bytes(h->boot_id, sizeof(h->boot_id), sum);
	return (uint32_t)(sum ^ sum >> 32);
}

static int allocate(int fd, uint64_t from, uint64_t to)
{
	int r;
	do
		r = posix_fallocate(fd, (off_t)from, (off_t)(to - from));
	while (r == EINTR);
	return -r;
}

static int check_spec(const struct region_spec *spec, struct err *err)
{
	if (spec->initial_size < REGION_PAGE || spec->initial_size > spec->max_size ||
	    spec->max_size % REGION_PAGE)
		return err_set(
		    err, -EINVAL,
		    "a region of %llu bytes, %llu at first, is not possible: sizes are multiples of %u",
		    (unsigned long long)spec->max_size, (unsigned long long)spec->initial_size, REGION_PAGE);
	return 0;
}

/* Why the file cannot be used, in err; or 0. Only the writer asks, with the lock held, so `magic` tells a
 * finished creation. */
static int check_old(int fd, const struct stat *st, const struct region_spec *spec, const uint8_t boot_id[16],
		     struct err *err)
{
	struct region_header h;
	if (st->st_size < (off_t)REGION_PAGE || pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
		return err_set(err, -EPROTO, "it is shorter than a header");
	if (atomic_load_explicit(&h.magic, memory_order_relaxed) != spec->magic)
		return err_set(
		    err, -EPROTO,
		    "it has no valid magic number: its creation was never finished, or it is something else");
	if (h.layout_version != spec->layout_version || h.layout_hash != spec->layout_hash)
		return err_set(
		    err, -EPROTO,
		    "it has the layout of another version (%u, %016llx; this one writes %u, %016llx)",
		    h.layout_version, (unsigned long long)h.layout_hash, spec->layout_version,
		    (unsigned long long)spec->layout_hash);
	if (memcmp(h.boot_id, boot_id, 16) != 0)
		return err_set(err, -EPROTO, "it is from before the host's last boot");
	if (h.checksum != header_checksum(&h))
		return err_set(err, -EPROTO, "its header is damaged (checksum)");
	uint64_t allocated = atomic_load_explicit(&h.allocated, memory_order_relaxed);
	if (allocated < REGION_PAGE || allocated > (uint64_t)st->st_size || allocated > h.max_size)
		return err_set(err, -EPROTO, "its header is damaged (size)");
	return 0;
}

static int map_writer(struct region *r, uint64_t max_size, uint64_t allocated, struct err *err)
{
	void *at = mmap(NULL, max_size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, r->fd, 0);
	if (at == MAP_FAILED)
		return err_set(err, -errno, "%s: no address space for %llu bytes: %s", r->path,
			       (unsigned long long)max_size, strerror(errno));
	r->at = at;
	r->mapped = max_size;
	if (mprotect(at, allocated, PROT_READ | PROT_WRITE) < 0)
		return err_set(err, -errno, "%s: cannot map %llu bytes: %s", r->path,
			       (unsigned long long)allocated, strerror(errno));
	return 0;
}

/* region_has_writer takes the lock for an instant, so a refusal counts only when it lasts. */
static bool lock_writer(int fd)
{
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK || i == 20)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = 5 * NS_PER_MS}, NULL);
	}
	return true;
}

/* O_NONBLOCK, or a FIFO in the place of the file would stop its reader here. */
static int open_file(const char *path, int flags, mode_t mode, struct err *err)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
	if (fd >= 0)
		return fd;
	/* A link, a folder, a socket. */
	if (errno == ELOOP || errno == EISDIR || errno == ENXIO)
		return err_set(err, -errno, "%s is not a regular file: remove it", path);
	return err_set(err, -errno, "cannot open %s: %s", path, strerror(errno));
}

/* One try: 0 done, 1 the file was replaced meanwhile (try again), or negative. */
static int open_once(const char *path, mode_t mode, int *ret_fd, bool *ret_created, struct err *err)
{
	bool created = false;
	int fd = open_file(path, O_RDWR, 0, err);
	if (fd == -ENOENT) {
		fd = open_file(path, O_RDWR | O_CREAT | O_EXCL, mode, err);
		if (fd == -EEXIST)
			return 1;
		created = true;
	}
	if (fd < 0)
		return fd;
	struct stat by_fd = {0}, by_path = {0};
	int rc = 0;
	if (fstat(fd, &by_fd) < 0) {
		rc = err_set(err, -errno, "cannot stat %s: %s", path, strerror(errno));
	} else if (!S_ISREG(by_fd.st_mode)) {
		rc = err_set(err, -EINVAL, "%s is not a regular file: remove it", path);
	} else if (by_fd.st_uid != geteuid() && geteuid() != 0) {
		rc = err_set(err, -EPERM, "%s belongs to another user (uid %u): remove it", path,
			     by_fd.st_uid);
	} else if (!lock_writer(fd)) {
		struct region_header h = {0};
		if (errno != EWOULDBLOCK)
			rc = err_set(err, -errno, "cannot lock %s: %s", path, strerror(errno));
		else if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) || !h.writer_pid)
			rc = err_set(err, -EBUSY, "%s is written by another process: stop that one first",
				     path);
		else
			rc = err_set(err, -EBUSY,
				     "%s is written by another process (pid %u): stop that one first", path,
				     h.writer_pid);
	} else if (fstat(fd, &by_fd) < 0 /* its size may be another by now */ || stat(path, &by_path) < 0 ||
		   by_fd.st_ino != by_path.st_ino || by_fd.st_dev != by_path.st_dev) {
		rc = 1; /* between open and lock its last writer unlinked it */
	}
	if (rc != 0) {
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	*ret_created = created || by_fd.st_size == 0;
	return 0;
}

static int open_locked(const char *path, mode_t mode, int *ret_fd, bool *ret_created, struct err *err)
{
	int rc;
	do
		rc = open_once(path, mode, ret_fd, ret_created, err);
	while (rc > 0);
	return rc;
}

static int create_contents(struct region *r, const struct region_spec *spec, const uint8_t boot_id[16],
			   struct err *err)
{
	if (fchmod(r->fd, spec->mode) < 0)
		return err_set(err, -errno, "cannot set the mode of %s: %s", r->path, strerror(errno));
	int rc = allocate(r->fd, 0, spec->initial_size);
	if (rc < 0)
		return err_set(err, rc, "no room for %s: %llu bytes are needed at first: %s", r->path,
			       (unsigned long long)spec->initial_size, strerror(-rc));
	rc = map_writer(r, spec->max_size, spec->initial_size, err);
	if (rc < 0)
		return rc;
	struct region_header *h = region_header(r);
	h->layout_version = spec->layout_version;
	h->layout_hash = spec->layout_hash;
	memcpy(h->boot_id, boot_id, 16);
	h->max_size = spec->max_size;
	h->writer_pid = (uint32_t)getpid();
	h->checksum = header_checksum(h);
	atomic_store_explicit(&h->allocated, spec->initial_size, memory_order_relaxed);
	/* Not 1: whoever remembers an incarnation of an older file must not meet the same number again. */
	atomic_store_explicit(&h->incarnation, (uint64_t)clock_realtime_ns() / NS_PER_US,
			      memory_order_relaxed);
	atomic_store_explicit(&h->magic, spec->magic, memory_order_release);
	return 0;
}

static int take_over(struct region *r, const struct region_spec *spec, struct err *err)
{
	struct region_header old;
	if (pread(r->fd, &old, sizeof(old), 0) != (ssize_t)sizeof(old))
		return err_set(err, -EIO, "cannot read the header of %s", r->path);
	uint64_t allocated = atomic_load_explicit(&old.allocated, memory_order_relaxed);
	/* A smaller budget than what is in use cannot be honoured: a region never shrinks while it is
	 * linked. */
	uint64_t max_size = MAX(spec->max_size, (allocated + REGION_PAGE - 1) / REGION_PAGE * REGION_PAGE);
	int rc = map_writer(r, max_size, allocated, err);
	if (rc < 0)
		return rc;
	struct region_header *h = region_header(r);
	h->max_size = max_size;
	h->writer_pid = (uint32_t)getpid();
	atomic_fetch_add_explicit(&h->incarnation, 1, memory_order_release);
	return 0;
}

int region_write(const char *path, const struct region_spec *spec, struct region *ret,
		 enum region_state *ret_state, struct err *err)
{
	int rc = check_spec(spec, err);
	if (rc < 0)
		return rc;
	uint8_t boot_id[16];
	rc = read_boot_id(boot_id);
	if (rc < 0)
		return err_set(err, rc, "cannot read /proc/sys/kernel/random/boot_id: %s", strerror(-rc));
	struct region r = {.fd = -1, .writer = true, .path = xstrdup(path)};
	bool created = false;
	rc = open_locked(path, spec->mode, &r.fd, &created, err);
	enum region_state state = created ? REGION_CREATED : REGION_RECOVERED;
	struct err why = {0};
	if (rc == 0 && !created) {
		struct stat st;
		rc = fstat(r.fd, &st) < 0 ? err_set(err, -errno, "cannot stat %s: %s", path, strerror(errno))
					  : 0;
		if (rc == 0 && check_old(r.fd, &st, spec, boot_id, &why) < 0) {
			/* Its readers keep the old file; nobody is shown a file that changes its meaning
			 * under them. */
			if (unlink(path) < 0)
				rc = err_set(err, -errno, "cannot remove %s: %s", path, strerror(errno));
			close_fd(&r.fd);
			r.fd = -1;
			if (rc == 0)
				rc = open_locked(path, spec->mode, &r.fd, &created, err);
			state = REGION_REPLACED;
		}
	}
	if (rc == 0)
		rc = state == REGION_RECOVERED ? take_over(&r, spec, err)
					       : create_contents(&r, spec, boot_id, err);
	if (rc < 0) {
		region_done(&r);
		return rc;
	}
	if (state == REGION_REPLACED)
		err_set(err, 0, "%s was made anew: %s", path, why.text);
	*ret = r;
	*ret_state = state;
	return 0;
}

int region_grow(struct region *r, uint64_t size)
{
	struct region_header *h = region_header(r);
	uint64_t allocated = atomic_load_explicit(&h->allocated, memory_order_relaxed);
	if (size <= allocated)
		return 0;
	size = (size + REGION_PAGE - 1) / REGION_PAGE * REGION_PAGE;
	if (size > h->max_size)
		return -EFBIG;
	if (r->ahead && region_ahead_has(r->ahead, size)) {
		atomic_store_explicit(&h->allocated, size, memory_order_release);
		return 0;
	}
	while (allocated < size) {
		uint64_t next = MIN(size, allocated + GROW_STEP);
		int rc = allocate(r->fd, allocated, next);
		if (rc < 0)
			return rc;
		if (mprotect(r->at + allocated, next - allocated, PROT_READ | PROT_WRITE) < 0)
			return -errno;
		/* At once instead of a page fault for each page when it is written first; what fails here faults then. */
		madvise(r->at + allocated, next - allocated, MADV_POPULATE_WRITE);
		atomic_store_explicit(&h->allocated, next, memory_order_release);
		allocated = next;
	}
	return 0;
}

static int map_reader(struct region *r, uint64_t allocated)
{
	void *at = mmap(NULL, allocated, PROT_READ, MAP_SHARED, r->fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	if (r->at)
		munmap(r->at, r->mapped);
	r->at = at;
	r->mapped = allocated;
	return 0;
}

int region_read(const char *path, const struct region_spec *spec, struct region *ret, struct err *err)
{
	uint8_t boot_id[16];
	int rc = read_boot_id(boot_id);
	if (rc < 0)
		return err_set(err, rc, "cannot read /proc/sys/kernel/random/boot_id: %s", strerror(-rc));
	struct region r = {.fd = open_file(path, O_RDONLY, 0, err)};
	if (r.fd < 0)
		return r.fd;
	r.path = xstrdup(path);
	struct stat st;
	if (fstat(r.fd, &st) < 0)
		rc = err_set(err, -errno, "cannot stat %s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = err_set(err, -EPROTO, "%s is not a regular file", path);
	else if (st.st_size < (off_t)REGION_PAGE)
		rc = err_set(err, -EAGAIN, "%s is being made", path);
	if (rc == 0 && (rc = map_reader(&r, REGION_PAGE)) < 0)
		err_set(err, rc, "cannot map %s: %s", path, strerror(-rc));
	if (rc == 0) {
		struct region_header *h = region_header(&r);
		uint64_t magic = atomic_load_explicit(&h->magic, memory_order_acquire);
		uint64_t allocated = atomic_load_explicit(&h->allocated, memory_order_acquire);
		if (magic == 0)
			rc = err_set(err, -EAGAIN, "%s is being made", path);
		else if (magic != spec->magic)
			rc = err_set(err, -EPROTO, "%s is no region of this kind", path);
		else if (h->layout_version != spec->layout_version || h->layout_hash != spec->layout_hash)
			rc = err_set(err, -EPROTO,
				     "%s has the layout of another version (%u, %016llx; this program reads "
				     "%u, %016llx): use programs of one version",
				     path, h->layout_version, (unsigned long long)h->layout_hash,
				     spec->layout_version, (unsigned long long)spec->layout_hash);
		else if (h->checksum != header_checksum(h) || allocated < REGION_PAGE ||
			 allocated > (uint64_t)st.st_size)
			rc = err_set(err, -EPROTO,
				     "%s: the header is damaged; its writer makes it anew at its next start",
				     path);
		/* In containers whose boot_id is covered by a mount, services may see another one than a shell does: a
		 * living writer is of this boot. */
		else if (memcmp(h->boot_id, boot_id, 16) != 0 && !region_has_writer(&r))
			rc = err_set(err, -EAGAIN,
				     "%s is from before the host's last boot; its writer has not started yet",
				     path);
		else if ((rc = map_reader(&r, allocated)) < 0)
			err_set(err, rc, "cannot map %s: %s", path, strerror(-rc));
	}
	if (rc < 0) {
		region_done(&r);
		return rc;
	}
	*ret = r;
	return 0;
}

int region_remap(struct region *r)
{
	uint64_t allocated = atomic_load_explicit(&region_header(r)->allocated, memory_order_acquire);
	if (allocated <= r->mapped)
		return 0;
	struct stat st;
	if (fstat(r->fd, &st) < 0)
		return -errno;
	if (allocated > (uint64_t)st.st_size)
		return -EPROTO;
	return map_reader(r, allocated);
}

bool region_has_writer(const struct region *r)
{
	/* flock has no way to ask without taking. Through a description of its own, so that a writer's handle
	 * keeps its lock. */
	char self[64];
	snprintf(self, sizeof(self), "/proc/self/fd/%d", r->fd);
	_cleanup_(close_fd) int fd = open(self, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return false;
}

bool region_in_place(const struct region *r)
{
	struct stat by_fd, by_path;
	/* The size before the header: what is behind the end of the file cannot be read. */
	return fstat(r->fd, &by_fd) == 0 && stat(r->path, &by_path) == 0 && by_fd.st_ino == by_path.st_ino &&
	       by_fd.st_dev == by_path.st_dev && by_fd.st_size >= (off_t)REGION_PAGE &&
	       (uint64_t)by_fd.st_size >=
		   atomic_load_explicit(&region_header(r)->allocated, memory_order_relaxed);
}

void region_done(struct region *r)
{
	if (!r)
		return;
	region_ahead_stop(r);
	if (r->at)
		munmap(r->at, r->mapped);
	if (r->fd > 0 || (r->fd == 0 && r->at))
		close(r->fd);
	free(r->path);
	*r = (struct region){.fd = -1};
}
