// A minimal TCP relay on io_uring: one thread, multishot accept and receive,
// buffers that the kernel picks from a ring, no parsing. With epoll.c it is the
// floor that wsbouncer is measured against: here there is one system call for
// all that has happened meanwhile, and the kernel does the rest.
//
//   cc -O2 -o uring uring.c && ./uring 127.0.0.1:9000 127.0.0.1:9001 127.0.0.1:9002
//
// The first address is listened on, the others are backends, taken round robin.
// It needs Linux 6.1 or newer, and uses the system calls themselves.

#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "relay.h"

enum {
	ENTRIES = 4096,    // of the submission ring
	BUFFERS = 1024,    // that the kernel may receive into
	BUFFER = 8 * 1024, // bytes in each
	GROUP = 1,
	MOST_WAITING = 4, // buffers for one socket before its peer is not read
};

// One socket of a session. A session is two of them, each the other's peer.
struct side {
	struct side *peer;
	int fd;
	int flying;       // operations that the kernel has of it
	int first, last;  // buffers that wait to be sent to it, -1 for none
	int waiting;      // how many
	char ready;       // connected
	char receiving;   // a multishot receive is armed
	char cancelling;  // and is asked to end
	char sending;     // the first buffer is with the kernel
	char ended;       // it sent its FIN
	char shut;        // we sent ours
	char starved;     // in the list of those that found no buffer
	char closed;
	struct side *next_starved;
};

// What a completion is about; kept in the low bits of user_data.
enum { ACCEPT, CONNECT, RECEIVE, SEND, CANCEL };

static int ring;
static unsigned *sq_head, *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static unsigned pending; // submissions that the kernel does not know of yet

static struct io_uring_buf_ring *offered;
static char *memory;
static struct {
	int next, length;
} buffers[BUFFERS];
static struct side *starved;

static void *map(size_t size, int fd, off_t offset) {
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, offset);
	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

// enter submits what is pending, and waits for that many completions.
static void enter(unsigned wait) {
	int n = syscall(SYS_io_uring_enter, ring, pending, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
	if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY)
		die("io_uring_enter");
	if (n > 0)
		pending -= n;
}

static struct io_uring_sqe *submission(int opcode, int fd, struct side *s, int kind) {
	unsigned tail = *sq_tail;
	while (tail - __atomic_load_n(sq_head, __ATOMIC_ACQUIRE) > *sq_mask)
		enter(0);
	unsigned i = tail & *sq_mask;
	struct io_uring_sqe *e = &sqes[i];
	memset(e, 0, sizeof *e);
	e->opcode = opcode;
	e->fd = fd;
	e->user_data = (unsigned long)s | kind;
	sq_array[i] = i;
	__atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
	pending++;
	if (s)
		s->flying++;
	return e;
}

static void start_ring(void) {
	struct io_uring_params p = {
	    .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	    .cq_entries = 8 * ENTRIES,
	};
	if ((ring = syscall(SYS_io_uring_setup, ENTRIES, &p)) < 0)
		die("io_uring_setup");
	char *sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned), ring, IORING_OFF_SQ_RING);
	char *cq = map(p.cq_off.cqes + p.cq_entries * sizeof *cqes, ring, IORING_OFF_CQ_RING);
	sqes = map(p.sq_entries * sizeof *sqes, ring, IORING_OFF_SQES);
	sq_head = (void *)(sq + p.sq_off.head);
	sq_tail = (void *)(sq + p.sq_off.tail);
	sq_mask = (void *)(sq + p.sq_off.ring_mask);
	sq_array = (void *)(sq + p.sq_off.array);
	cq_head = (void *)(cq + p.cq_off.head);
	cq_tail = (void *)(cq + p.cq_off.tail);
	cq_mask = (void *)(cq + p.cq_off.ring_mask);
	cqes = (void *)(cq + p.cq_off.cqes);

	offered = map(BUFFERS * sizeof(struct io_uring_buf), -1, 0);
	memory = map((size_t)BUFFERS * BUFFER, -1, 0);
	struct io_uring_buf_reg r = {.ring_addr = (unsigned long)offered, .ring_entries = BUFFERS, .bgid = GROUP};
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_PBUF_RING, &r, 1) < 0)
		die("io_uring_register");
}

// offer gives a buffer back to the kernel.
static void offer(int id) {
	unsigned short tail = offered->tail;
	struct io_uring_buf *b = &offered->bufs[tail & (BUFFERS - 1)];
	b->addr = (unsigned long)(memory + (size_t)id * BUFFER);
	b->len = BUFFER;
	b->bid = id;
	__atomic_store_n(&offered->tail, tail + 1, __ATOMIC_RELEASE);
}

// receive arms a side's multishot receive, unless its peer is behind.
static void receive(struct side *s) {
	if (s->receiving || s->ended || s->closed || s->starved || !s->peer->ready || s->peer->waiting >= MOST_WAITING)
		return;
	struct io_uring_sqe *e = submission(IORING_OP_RECV, s->fd, s, RECEIVE);
	e->ioprio = IORING_RECV_MULTISHOT;
	e->flags = IOSQE_BUFFER_SELECT;
	e->buf_group = GROUP;
	s->receiving = 1;
}

// pause_receiving ends it, until the peer has caught up.
static void pause_receiving(struct side *s) {
	if (!s->receiving || s->cancelling)
		return;
	struct io_uring_sqe *e = submission(IORING_OP_ASYNC_CANCEL, -1, s, CANCEL);
	e->addr = (unsigned long)s | RECEIVE;
	s->cancelling = 1;
}

// send_next sends the first waiting buffer; when none is left and the peer has
// ended, so do we.
static void send_next(struct side *s) {
	if (s->sending || s->closed || !s->ready)
		return;
	if (s->first < 0) {
		if (s->peer->ended && !s->shut) {
			shutdown(s->fd, SHUT_WR);
			s->shut = 1;
		}
		return;
	}
	struct io_uring_sqe *e = submission(IORING_OP_SEND, s->fd, s, SEND);
	e->addr = (unsigned long)(memory + (size_t)s->first * BUFFER);
	e->len = buffers[s->first].length;
	e->msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
	s->sending = 1;
}

static void drop_first(struct side *s) {
	int id = s->first;
	s->first = buffers[id].next;
	s->waiting--;
	offer(id);
}

// end_session closes both sockets. What the kernel still has comes back with
// errors; the last of it frees the session.
static void end_session(struct side *s) {
	for (int i = 0; i < 2; i++, s = s->peer)
		if (!s->closed) {
			s->closed = 1;
			shutdown(s->fd, SHUT_RDWR);
			pause_receiving(s);
		}
}

static void free_session(struct side *s) {
	if (!s->closed || s->flying || s->peer->flying || s->starved || s->peer->starved)
		return;
	struct side *peer = s->peer;
	for (int i = 0; i < 2; i++, s = s->peer) {
		while (s->first >= 0)
			drop_first(s);
		close(s->fd);
	}
	free(s);
	free(peer);
}

static struct side *new_side(int fd) {
	send_at_once(fd);
	struct side *s = calloc(1, sizeof *s);
	if (!s)
		die("calloc");
	s->fd = fd;
	s->first = -1;
	return s;
}

static void accepted(int client, struct sockaddr_in *backend) {
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0) {
		perror("backend");
		close(client);
		return;
	}
	struct side *a = new_side(client), *b = new_side(fd);
	a->peer = b;
	b->peer = a;
	a->ready = 1;
	struct io_uring_sqe *e = submission(IORING_OP_CONNECT, fd, b, CONNECT);
	e->addr = (unsigned long)backend;
	e->off = sizeof *backend;
}

static void received(struct side *s, int n, unsigned flags) {
	struct side *to = s->peer;
	if (!(flags & IORING_CQE_F_MORE))
		s->receiving = s->cancelling = 0;
	if (flags & IORING_CQE_F_BUFFER) {
		int id = flags >> IORING_CQE_BUFFER_SHIFT;
		if (n <= 0 || s->closed) {
			offer(id);
		} else {
			buffers[id].next = -1;
			buffers[id].length = n;
			if (to->first < 0)
				to->first = id;
			else
				buffers[to->last].next = id;
			to->last = id;
			to->waiting++;
		}
	}
	if (s->closed)
		return;
	if (n == -ENOBUFS) {
		s->starved = 1;
		s->next_starved = starved;
		starved = s;
	} else if (n == 0) {
		s->ended = 1;
	} else if (n < 0 && n != -ECANCELED) {
		end_session(s);
		return;
	}
	send_next(to);
	if (s->ended && to->ended && s->first < 0 && to->first < 0) {
		end_session(s);
		return;
	}
	if (to->waiting >= MOST_WAITING)
		pause_receiving(s);
	else
		receive(s);
}

static void sent(struct side *s, int n) {
	s->sending = 0;
	int whole = n == buffers[s->first].length;
	drop_first(s);
	if (s->closed)
		return;
	if (!whole) {
		end_session(s);
		return;
	}
	send_next(s);
	if (s->ended && s->peer->ended && s->first < 0 && s->peer->first < 0)
		end_session(s);
	else
		receive(s->peer);
}

static void completed(struct io_uring_cqe *c) {
	struct side *s = (struct side *)(c->user_data & ~7ul);
	if (!(c->flags & IORING_CQE_F_MORE))
		s->flying--;
	switch (c->user_data & 7) {
	case CONNECT:
		if (c->res < 0) {
			end_session(s);
			break;
		}
		s->ready = 1;
		receive(s);
		receive(s->peer);
		break;
	case RECEIVE:
		received(s, c->res, c->flags);
		break;
	case SEND:
		sent(s, c->res);
		break;
	}
	free_session(s);
}

int main(int argc, char **argv) {
	if (argc < 3) {
		fprintf(stderr, "usage: %s LISTEN BACKEND...\n", argv[0]);
		return 2;
	}
	raise_limits();
	start_ring();
	for (int i = 0; i < BUFFERS; i++)
		offer(i);
	int backends = argc - 2, next = 0;
	struct sockaddr_in backend[backends];
	for (int i = 0; i < backends; i++)
		backend[i] = address(argv[i + 2]);
	int listener = listen_at(argv[1], 0);
	submission(IORING_OP_ACCEPT, listener, NULL, ACCEPT)->ioprio = IORING_ACCEPT_MULTISHOT;

	for (;;) {
		enter(1);
		unsigned head = *cq_head;
		while (head != __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE)) {
			struct io_uring_cqe *c = &cqes[head & *cq_mask];
			if (c->user_data == ACCEPT) {
				if (c->res >= 0)
					accepted(c->res, &backend[next++ % backends]);
				if (!(c->flags & IORING_CQE_F_MORE))
					submission(IORING_OP_ACCEPT, listener, NULL, ACCEPT)->ioprio = IORING_ACCEPT_MULTISHOT;
			} else {
				completed(c);
			}
			__atomic_store_n(cq_head, ++head, __ATOMIC_RELEASE);
		}
		// Buffers have come back meanwhile: those that found none try again.
		struct side *s = starved;
		starved = NULL;
		while (s) {
			struct side *following = s->next_starved;
			s->starved = 0;
			receive(s);
			free_session(s);
			s = following;
		}
	}
}
