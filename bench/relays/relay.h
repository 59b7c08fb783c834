// What the relays have in common: addresses, sockets and limits.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

static void die(const char *what) {
	perror(what);
	exit(1);
}

static struct sockaddr_in address(const char *text) {
	struct sockaddr_in a = {.sin_family = AF_INET};
	char host[64];
	int port;
	if (sscanf(text, "%63[^:]:%d", host, &port) != 2 || inet_pton(AF_INET, host, &a.sin_addr) != 1) {
		fprintf(stderr, "not an IPv4 address with a port: %s\n", text);
		exit(2);
	}
	a.sin_port = htons(port);
	return a;
}

// raise_limits allows as many descriptors as there may be, and lets a write to a
// socket that is gone fail.
static void raise_limits(void) {
	signal(SIGPIPE, SIG_IGN);
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int listen_at(const char *text, int flags) {
	int on = 1;
	struct sockaddr_in at = address(text);
	int listener = socket(AF_INET, SOCK_STREAM | flags, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (void *)&at, sizeof at) || listen(listener, 4096))
		die(text);
	return listener;
}

static void send_at_once(int fd) {
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}
