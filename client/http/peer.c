/* A server: the parts of its URL, its addresses, which a thread looks up, and its certificate,
 * which OpenSSL checks. */
#include "client/http/peer.h"

#include <errno.h>
#include <event2/http.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT_HTTP = 80, PORT_HTTPS = 443, SERVICE_MAX = 8 };

/* ---- the URL */

/* libevent's parser leaves the brackets around an IPv6 address. */
static char *without_brackets(const char *host)
{
    size_t len = strlen(host);

    return *host == '[' && host[len - 1] == ']' ? strndup(host + 1, len - 2) : strdup(host);
}

static char *basic(const char *user_and_password)
{
    size_t len = 0;
    char *line = NULL, *encoded = NULL;
    char *text = evhttp_uridecode(user_and_password, 0, &len);

    if (text && (encoded = malloc(4 * (len / 3) + 5))) {
        EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)text, (int)len);
        line = asprintf(&line, "Basic %s", encoded) < 0 ? NULL : line;
    }
    free(encoded);
    free(text);
    return line;
}

static bool take_parts(struct peer *peer, const struct evhttp_uri *uri)
{
    const char *host = evhttp_uri_get_host(uri), *user = evhttp_uri_get_userinfo(uri);
    const char *scheme = evhttp_uri_get_scheme(uri), *path = evhttp_uri_get_path(uri);
    int port = evhttp_uri_get_port(uri), made;

    if (!host || !*host || !scheme || port == 0) {
        return false;
    }
    peer->is_tls = strcasecmp(scheme, "https") == 0;
    int usual = peer->is_tls ? PORT_HTTPS : PORT_HTTP;
    peer->port = port < 0 ? usual : port;
    peer->host = without_brackets(host);
    peer->folder = strdup(path ? path : "");
    peer->authorization = user ? basic(user) : NULL;
    made = peer->port == usual ? asprintf(&peer->host_header, "%s", host)
                               : asprintf(&peer->host_header, "%s:%d", host, peer->port);
    if (made < 0) {
        peer->host_header = NULL;
    }
    return peer->host && peer->folder && peer->host_header && (!user || peer->authorization);
}

bool peer_read(struct peer *peer, const char *url)
{
    struct evhttp_uri *uri = evhttp_uri_parse(url);

    *peer = (struct peer){0};
    bool is_read = uri && take_parts(peer, uri);
    if (uri) {
        evhttp_uri_free(uri);
    }
    return is_read;
}

void peer_clear(struct peer *peer)
{
    free(peer->host);
    free(peer->folder);
    free(peer->host_header);
    free(peer->authorization);
    *peer = (struct peer){0};
}

/* ---- its addresses */

struct lookup {
    atomic_int owners; /* the caller, and the thread while it runs */
    int ends[2];       /* the thread writes a byte at its end */
    char *host, service[SERVICE_MAX];
    int error; /* of getaddrinfo() */
    struct addrinfo *found;
};

void lookup_drop(struct lookup *lookup)
{
    if (!lookup || atomic_fetch_sub(&lookup->owners, 1) > 1) {
        return;
    }
    if (lookup->found) {
        freeaddrinfo(lookup->found);
    }
    close(lookup->ends[0]);
    close(lookup->ends[1]);
    free(lookup->host);
    free(lookup);
}

static void search(struct lookup *lookup, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};

    lookup->error = getaddrinfo(lookup->host, lookup->service, &hints, &lookup->found);
}

static void end_search(struct lookup *lookup)
{
    while (write(lookup->ends[1], "", 1) < 0 && errno == EINTR) {
    }
}

static void *search_in_thread(void *context)
{
    struct lookup *lookup = context;

    search(lookup, AI_ADDRCONFIG);
    if (lookup->error == EAI_NONAME) { /* the loopback interface alone does not count there */
        search(lookup, 0);
    }
    end_search(lookup);
    lookup_drop(lookup);
    return NULL;
}

/* Signals are for the process's first thread. */
static bool start_thread(struct lookup *lookup)
{
    pthread_t thread;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add(&lookup->owners, 1);
    bool is_started = pthread_create(&thread, NULL, search_in_thread, lookup) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started) {
        pthread_detach(thread);
    }
    return is_started;
}

struct lookup *lookup_start(const struct peer *peer)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));

    if (!lookup || pipe2(lookup->ends, O_CLOEXEC) != 0) {
        free(lookup);
        return NULL;
    }
    atomic_init(&lookup->owners, 1);
    snprintf(lookup->service, sizeof(lookup->service), "%d", peer->port);
    lookup->host = strdup(peer->host);
    if (!lookup->host) {
        lookup_drop(lookup);
        return NULL;
    }
    search(lookup, AI_NUMERICHOST); /* asks nobody */
    if (lookup->error == 0) {
        end_search(lookup);
    } else if (!start_thread(lookup)) {
        atomic_store(&lookup->owners, 1);
        lookup_drop(lookup);
        return NULL;
    }
    return lookup;
}

int lookup_fd(const struct lookup *lookup)
{
    return lookup->ends[0];
}

struct addrinfo *lookup_take(struct lookup *lookup, const char **why)
{
    struct addrinfo *found = lookup->found;

    lookup->found = NULL;
    *why = found ? NULL : gai_strerror(lookup->error);
    return found;
}

/* ---- its certificate */

static const char *first_error(void)
{
    const char *reason = ERR_reason_error_string(ERR_get_error());

    ERR_clear_error();
    return reason ? reason : "unknown";
}

static bool read_files(SSL_CTX *trust, const struct settings *settings, char *why, size_t size)
{
    const char *key = settings->key ? settings->key : settings->cert;
    const char *failed = NULL;

    if (settings->ca ? SSL_CTX_load_verify_locations(trust, settings->ca, NULL) != 1
                     : SSL_CTX_set_default_verify_paths(trust) != 1) {
        failed = settings->ca ? settings->ca : "the system's certificates";
    } else if (settings->cert &&
               SSL_CTX_use_certificate_chain_file(trust, settings->cert) != 1) {
        failed = settings->cert;
    } else if (settings->cert &&
               SSL_CTX_use_PrivateKey_file(trust, key, SSL_FILETYPE_PEM) != 1) {
        failed = key;
    }
    if (failed) {
        snprintf(why, size, "cannot use %s: %s", failed, first_error());
    }
    return !failed;
}

SSL_CTX *peer_trust(const struct settings *settings, char *why, size_t size)
{
    static const unsigned char http_1_1[] = "\x08http/1.1";
    SSL_CTX *trust = SSL_CTX_new(TLS_client_method());

    if (!trust) {
        snprintf(why, size, "TLS: %s", first_error());
        return NULL;
    }
    if (!read_files(trust, settings, why, size)) {
        SSL_CTX_free(trust);
        return NULL;
    }
    SSL_CTX_set_min_proto_version(trust, TLS1_2_VERSION);
    SSL_CTX_set_verify(trust, settings->trusts_any ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(trust, http_1_1, sizeof(http_1_1) - 1);
    return trust;
}

SSL *peer_session(const struct peer *peer, SSL_CTX *trust)
{
    SSL *session = SSL_new(trust);

    if (!session) {
        return NULL;
    }
    SSL_set_hostflags(session, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    /* An address is compared with the certificate's addresses; a name is also sent. */
    bool is_set = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), peer->host) == 1 ||
                  (SSL_set1_host(session, peer->host) == 1 &&
                   SSL_set_tlsext_host_name(session, peer->host) == 1);
    if (!is_set) {
        SSL_free(session);
        return NULL;
    }
    return session;
}

const char *peer_session_trouble(const SSL *session, unsigned long error)
{
    long verified = SSL_get_verify_result(session);
    const char *reason = error ? ERR_reason_error_string(error) : NULL;

    return verified != X509_V_OK ? X509_verify_cert_error_string(verified) : reason;
}
