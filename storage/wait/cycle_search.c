/* Searches for cycles of waits: breadth first, one script at a time. */
#include "storage/wait/cycle_search.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/look/locks.h"
#include "storage/notes/waits.h"
#include "storage/store/lease_ref.h"

enum { EDGES_MAX = CYCLE_SEARCH_SCRIPTS, NODES_MAX = CYCLE_SEARCH_SCRIPTS };

/* A session, or an owner of a session, that holds a lock. The first node is where the search
 * began. */
struct node {
    char session_id[SESSION_ID_SIZE], owner[LOCK_OWNER_SIZE];
    size_t edge; /* whose lock it holds */
    char field[LOCK_HOLDER_SIZE];
    int64_t fencing_token;
};

/* A node waits for a lock. */
struct edge {
    size_t node;
    struct deadlock_member member;
};

struct cycle_search {
    struct store *store;
    cycle_search_done *done;
    void *arg;
    bool is_cancelled;
    unsigned scripts;
    size_t node_count, edge_count;
    size_t next_node, next_edge; /* that are to be read */
    struct node nodes[NODES_MAX];
    struct edge *edges[EDGES_MAX];
    /* Of waits that are younger than that of the search: they are followed last. */
    bool follows_younger;
    size_t younger_count;
    struct edge *younger[EDGES_MAX];
};

static void go_on(struct cycle_search *search);

static void search_free(struct cycle_search *search)
{
    for (size_t i = 0; i < search->edge_count; i++)
        free(search->edges[i]);
    for (size_t i = 0; i < search->younger_count; i++)
        free(search->younger[i]);
    free(search);
}

static void finish(struct cycle_search *search, struct deadlock *found)
{
    cycle_search_done *done = search->done;
    void *arg = search->arg;

    search_free(search);
    done(arg, found);
}

static void set_text(char *out, size_t out_size, const char *text)
{
    size_t len = strlen(text);

    if (len >= out_size) /* no text of rlockd's */
        len = 0;
    memcpy(out, text, len);
    out[len] = '\0';
}

/* --- the cycle that was found ------------------------------------------------------------- */

static size_t length_of(const struct cycle_search *search, size_t edge)
{
    size_t length = 1;

    for (; search->edges[edge]->node != 0; length++)
        edge = search->nodes[search->edges[edge]->node].edge;
    return length;
}

/* The cycle that this edge closes: the first node holds its lock, by `holder`. NULL: it is too
 * long. */
static struct deadlock *close_cycle(const struct cycle_search *search, size_t edge,
                                    const struct lock_holder *holder)
{
    size_t length = length_of(search, edge), i = length;
    const char *field = holder->field;
    int64_t fencing_token = holder->fencing_token;

    if (length > DEADLOCK_MEMBERS_MAX)
        return NULL;
    struct deadlock *found = calloc(1, sizeof(*found) + length * sizeof(found->members[0]));
    assert(found != NULL);
    found->count = length;
    while (i-- > 0) {
        struct deadlock_member *member = &found->members[i];
        const struct node *node = &search->nodes[search->edges[edge]->node];
        *member = search->edges[edge]->member;
        set_text(member->field, sizeof(member->field), field);
        member->fencing_token = fencing_token;
        field = node->field;
        fencing_token = node->fencing_token;
        edge = node->edge;
    }
    return found;
}

/* --- locks -------------------------------------------------------------------------------- */

static bool is_node(const struct node *node, const struct lock_holder *holder)
{
    return strcmp(node->session_id, holder->session_id) == 0 &&
           strcmp(node->owner, holder->owner) == 0;
}

static void add_node(struct cycle_search *search, size_t edge, const struct lock_holder *holder)
{
    for (size_t i = 0; i < search->node_count; i++)
        if (is_node(&search->nodes[i], holder))
            return;
    if (search->node_count == NODES_MAX)
        return;
    struct node *node = &search->nodes[search->node_count++];
    set_text(node->session_id, sizeof(node->session_id), holder->session_id);
    set_text(node->owner, sizeof(node->owner), holder->owner);
    set_text(node->field, sizeof(node->field), holder->field);
    node->fencing_token = holder->fencing_token;
    node->edge = edge;
}

static void on_lock(void *arg, const struct lock_view *view)
{
    struct cycle_search *search = arg;
    size_t edge = search->next_edge - 1;
    struct deadlock *found = NULL;

    if (search->is_cancelled) {
        search_free(search);
        return;
    }
    for (size_t i = 0; view->outcome == CALL_DONE && i < view->holders_shown; i++) {
        const struct lock_holder *holder = &view->holders[i];
        if (holder->session_id[0] == '\0')
            continue; /* a Java client, or a lease without session: nobody knows its waits */
        if (!is_node(&search->nodes[0], holder))
            add_node(search, edge, holder);
        else if (search->edges[edge]->node != 0 && found == NULL)
            found = close_cycle(search, edge, holder);
    }
    if (found != NULL)
        finish(search, found);
    else
        go_on(search);
}

/* A lock that two nodes wait for is read once, but the search begins with locks of its own:
 * what another node waits for among them may close a cycle. */
static bool is_known(const struct cycle_search *search, size_t node, const char *lock)
{
    for (size_t i = 0; i < search->edge_count; i++) {
        const struct edge *edge = search->edges[i];
        if ((edge->node == node || edge->node != 0) && strcmp(edge->member.lock, lock) == 0)
            return true;
    }
    return false;
}

static void take_edge(struct cycle_search *search, struct edge *edge)
{
    if (search->edge_count == EDGES_MAX || is_known(search, edge->node, edge->member.lock))
        free(edge);
    else
        search->edges[search->edge_count++] = edge;
}

static void put_off(struct cycle_search *search, struct edge *edge)
{
    if (search->younger_count == EDGES_MAX)
        free(edge);
    else
        search->younger[search->younger_count++] = edge;
}

/* No cycle of elder waits was found. */
static void follow_younger(struct cycle_search *search)
{
    search->follows_younger = true;
    for (size_t i = 0; i < search->younger_count; i++)
        take_edge(search, search->younger[i]);
    search->younger_count = 0;
}

static void add_edge(struct cycle_search *search, size_t node,
                     const struct deadlock_member *member, const char *lock, size_t len)
{
    struct edge *edge;

    if (len >= sizeof(member->lock))
        return;
    edge = malloc(sizeof(*edge));
    assert(edge != NULL);
    *edge = (struct edge){.node = node, .member = *member};
    memcpy(edge->member.lock, lock, len);
    edge->member.lock[len] = '\0';
    if (node != 0 && !search->follows_younger &&
        deadlock_is_younger(member, &search->edges[0]->member))
        put_off(search, edge);
    else
        take_edge(search, edge);
}

/* --- waits -------------------------------------------------------------------------------- */

static void add_wait(struct cycle_search *search, size_t node, const char *session_name,
                     const struct session_wait_view *view)
{
    const char *prefix = store_config(search->store)->key_prefix;
    size_t prefix_len = strlen(prefix);
    struct deadlock_member member = {.since_ms = view->since_ms};
    struct lease_ref_name names[LOCKS_MAX];
    struct lease_ref ref;

    lease_ref_copy(&ref, view->ref, view->ref_len);
    if (ref.lock_count > 0) {
        lease_ref_id(&ref, member.lease_id);
        member.is_set = lease_ref_is_set(&ref);
        lease_ref_names(&ref, names);
    }
    set_text(member.session_id, sizeof(member.session_id), search->nodes[node].session_id);
    set_text(member.owner, sizeof(member.owner), search->nodes[node].owner);
    set_text(member.session_name, sizeof(member.session_name), session_name);
    set_text(member.note, sizeof(member.note), view->note);
    set_text(member.wait_id, sizeof(member.wait_id), view->wait_id);
    for (size_t i = 0; i < ref.lock_count; i++)
        if (names[i].len > prefix_len && memcmp(names[i].text, prefix, prefix_len) == 0)
            add_edge(search, node, &member, names[i].text + prefix_len,
                     names[i].len - prefix_len);
    lease_ref_release(&ref);
}

static void on_waits(void *arg, const struct session_waits *waits)
{
    struct cycle_search *search = arg;

    if (search->is_cancelled) {
        search_free(search);
        return;
    }
    for (size_t i = 0; waits->outcome == CALL_DONE && i < waits->count; i++)
        add_wait(search, search->next_node - 1, waits->session_name, &waits->waits[i]);
    go_on(search);
}

/* --- the search --------------------------------------------------------------------------- */

static bool has_more(const struct cycle_search *search)
{
    return search->next_edge < search->edge_count || search->next_node < search->node_count;
}

static void go_on(struct cycle_search *search)
{
    static const struct lock_query query = {.holders_max = NODES_MAX};

    if (!has_more(search))
        follow_younger(search);
    if (!has_more(search) || search->scripts++ == CYCLE_SEARCH_SCRIPTS) {
        finish(search, NULL);
    } else if (search->next_edge < search->edge_count) {
        const struct edge *edge = search->edges[search->next_edge++];
        lock_get(search->store, edge->member.lock, &query, on_lock, search);
    } else {
        const struct node *node = &search->nodes[search->next_node++];
        session_waits_read(search->store, node->session_id, node->owner, NULL, on_waits,
                           search);
    }
}

struct cycle_search *cycle_search_start(struct store *store, const struct deadlock_member *self,
                                        const struct lock_names *names, cycle_search_done *done,
                                        void *arg)
{
    struct cycle_search *search = calloc(1, sizeof(*search));

    assert(search != NULL && names->count > 0);
    search->store = store;
    search->done = done;
    search->arg = arg;
    set_text(search->nodes[0].session_id, sizeof(search->nodes[0].session_id),
             self->session_id);
    set_text(search->nodes[0].owner, sizeof(search->nodes[0].owner), self->owner);
    search->node_count = search->next_node = 1;
    for (size_t i = 0; i < names->count; i++)
        add_edge(search, 0, self, names->name[i], strlen(names->name[i]));
    go_on(search);
    return search;
}

void cycle_search_cancel(struct cycle_search *search)
{
    search->is_cancelled = true;
}
