/* bare: libmicrohttpd and nothing else, driven as rlockd drives it (external epoll mode, nested
 * in an epoll of our own). What an answer costs here is what HTTP itself costs. Prints its
 * port. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { POOL_BYTES = 6 * 1024, CONNECTIONS_MAX = 2000 };

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_len, void **context)
{
    static char body[] = "{\"state\":\"released\",\"hold_count\":0     }";

    (void)arg, (void)url, (void)method, (void)version, (void)data, (void)data_len;
    if (*context == NULL) {
        *context = connection; /* the headers; the answer comes with the second call */
        return MHD_YES;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(sizeof(body) - 1, body,
                                                                    MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result ok = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return ok;
}

static int open_listener(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 ||
        listen(fd, SOMAXCONN) != 0 || getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return -1;
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(void)
{
    int listen_fd = open_listener();
    if (listen_fd < 0)
        return EXIT_FAILURE;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_END);
    if (daemon == NULL)
        return EXIT_FAILURE;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event) != 0)
        return EXIT_FAILURE;
    for (;;) { /* until it is killed */
        MHD_UNSIGNED_LONG_LONG timeout_ms;
        bool more = MHD_get_timeout(daemon, &timeout_ms) == MHD_YES && timeout_ms == 0;
        epoll_wait(epoll_fd, &event, 1, more ? 0 : -1);
        MHD_run(daemon);
    }
}
