// A minimal TCP relay: one thread, level-triggered epoll, no parsing. It is the
// floor that wsbouncer is measured against: what four system calls per round
// trip cost when a program does nothing else.
//
//   cc -O2 -o epoll epoll.c && ./epoll 127.0.0.1:9000 127.0.0.1:9001 127.0.0.1:9002
//
// The first address is listened on, the others are backends, taken round robin.

#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "relay.h"

enum { BUFFER = 64 * 1024, BATCH = 256 };

// One socket of a session. A session is two of them, each the other's peer.
struct side {
	struct side *peer;
	char *rest;       // bytes for this socket that it did not take yet
	int rest_len;
	int fd;
	unsigned interest; // what epoll watches; 0 means not registered
	char blocked;      // not writable yet (connecting, or full): its peer is not read
	char ended;        // it sent its FIN
	char dead;         // closed, freed after the batch
};

static int epfd;
static char buffer[BUFFER];
static struct side *graveyard[2 * BATCH];
static int graves;

// watch tells epoll what a side waits for now: input unless its peer is
// blocked or it has ended, output while it is blocked itself.
static void watch(struct side *s) {
	unsigned want = (s->ended || s->peer->blocked ? 0 : EPOLLIN) | (s->blocked ? EPOLLOUT : 0);
	if (want == s->interest)
		return;
	struct epoll_event e = {.events = want, .data.ptr = s};
	int op = !s->interest ? EPOLL_CTL_ADD : want ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
	if (epoll_ctl(epfd, op, s->fd, &e))
		die("epoll_ctl");
	s->interest = want;
}

static void end_session(struct side *s) {
	for (int i = 0; i < 2; i++, s = s->peer) {
		close(s->fd);
		s->dead = 1;
		graveyard[graves++] = s;
	}
}

// readable moves one read's worth of bytes from s to its peer. Level-triggered
// epoll reports what is left, so a second read to see EAGAIN is not needed.
static void readable(struct side *s) {
	struct side *to = s->peer;
	int n = read(s->fd, buffer, BUFFER);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			end_session(s);
		return;
	}
	if (n == 0) { // nothing is pending towards the peer, or s would not be read
		s->ended = 1;
		if (to->ended) {
			end_session(s);
			return;
		}
		shutdown(to->fd, SHUT_WR);
		watch(s);
		return;
	}
	int sent = write(to->fd, buffer, n);
	if (sent == n)
		return;
	if (sent < 0) {
		if (errno != EAGAIN && errno != EINTR) {
			end_session(s);
			return;
		}
		sent = 0;
	}
	to->rest_len = n - sent;
	if (!(to->rest = malloc(to->rest_len)))
		die("malloc");
	memcpy(to->rest, buffer + sent, to->rest_len);
	to->blocked = 1;
	watch(to);
	watch(s);
}

// writable sends the kept rest; once it is gone the peer is read again.
static void writable(struct side *s) {
	if (s->rest_len) {
		int n = write(s->fd, s->rest, s->rest_len);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			end_session(s);
			return;
		}
		if (n < s->rest_len) {
			if (n > 0)
				memmove(s->rest, s->rest + n, s->rest_len -= n);
			return;
		}
		free(s->rest);
		s->rest = NULL;
		s->rest_len = 0;
	}
	s->blocked = 0;
	watch(s);
	watch(s->peer);
}

static struct side *new_side(int fd) {
	send_at_once(fd);
	struct side *s = calloc(1, sizeof *s);
	if (!s)
		die("calloc");
	s->fd = fd;
	return s;
}

static void accept_session(int listener, struct sockaddr_in *backend) {
	int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	if (client < 0)
		return;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (fd < 0 || (connect(fd, (void *)backend, sizeof *backend) && errno != EINPROGRESS)) {
		perror("backend");
		close(client);
		if (fd >= 0)
			close(fd);
		return;
	}
	struct side *a = new_side(client), *b = new_side(fd);
	a->peer = b;
	b->peer = a;
	b->blocked = 1; // until connected
	watch(a);
	watch(b);
}

int main(int argc, char **argv) {
	if (argc < 3) {
		fprintf(stderr, "usage: %s LISTEN BACKEND...\n", argv[0]);
		return 2;
	}
	raise_limits();
	int backends = argc - 2, next = 0;
	struct sockaddr_in backend[backends];
	for (int i = 0; i < backends; i++)
		backend[i] = address(argv[i + 2]);
	int listener = listen_at(argv[1], SOCK_NONBLOCK);
	epfd = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, listener, &e))
		die("epoll_ctl");

	struct epoll_event events[BATCH];
	for (;;) {
		int n = epoll_wait(epfd, events, BATCH, -1);
		for (int i = 0; i < n; i++) {
			struct side *s = events[i].data.ptr;
			if (!s) {
				accept_session(listener, &backend[next++ % backends]);
				continue;
			}
			if (s->dead)
				continue;
			if (events[i].events & EPOLLERR || (events[i].events & EPOLLHUP && !(s->interest & EPOLLIN))) {
				end_session(s);
				continue;
			}
			if (events[i].events & EPOLLOUT)
				writable(s);
			if (!s->dead && s->interest & EPOLLIN && events[i].events & (EPOLLIN | EPOLLHUP))
				readable(s);
		}
		while (graves) {
			struct side *s = graveyard[--graves];
			free(s->rest);
			free(s);
		}
	}
}
