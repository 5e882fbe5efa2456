/* A node refuses keys of slots that other nodes have. So the probe keys of a new connection get
 * tags whose slots the node has: a number is appended to each tag until its slot fits. A tag
 * that is a part of the operator's key prefix cannot change, and is probed at the node of its
 * slot. */
#include <stdio.h>
#include <string.h>

#include "storage/topology/cluster_internal.h"

/* Each try is some nanoseconds, and the chance of each that of a slot. */
enum { TRIES_PER_SLOT = 8 };

/* Writes `name` with ":<number>" at the end of its tag. */
static void write_tagged(char *out, const char *name, unsigned number)
{
    struct redis_tag tag = redis_tag_of(name, strlen(name));
    size_t before = (size_t)(tag.text - name) + tag.len;

    snprintf(out, CLUSTER_PROBE_KEY_SIZE, "%.*s:%u%s", (int)before, name, number,
             name + before);
}

/* Whether the tag is a part of the key prefix. All other tags end in the worker's id, as the
 * tag of the last home, which is the worker's id alone. */
static bool is_fixed(const struct redis_probe *wanted, const struct redis_tag *tag)
{
    const char *last = wanted->keys[wanted->slot_count - 1].names[0];
    const struct redis_tag id = redis_tag_of(last, strlen(last));

    return tag->len < id.len || memcmp(tag->text + tag->len - id.len, id.text, id.len) != 0;
}

static bool owns(const struct cluster_node *node, const struct redis_tag *tag)
{
    return node->cluster->owners[redis_slot_of(tag)] == node;
}

struct number_search {
    const struct cluster_node *node;
    unsigned number;
};

static bool try_number(void *arg, unsigned number, uint16_t slot)
{
    struct number_search *search = arg;

    search->number = number;
    return search->node->cluster->owners[slot] == search->node;
}

/* A number that gives the keys with this tag a slot of this node. False: none was found. */
static bool find_number(const struct cluster_node *node, const struct redis_tag *tag,
                        unsigned *number)
{
    struct number_search search = {.node = node};
    char text[CLUSTER_PROBE_KEY_SIZE];
    int len = snprintf(text, sizeof(text), "%.*s:", (int)tag->len, tag->text);
    const struct redis_tag before = {.text = text, .len = (size_t)len};

    if (before.len >= sizeof(text) ||
        !redis_slot_walk(&before, TRIES_PER_SLOT * REDIS_SLOTS, try_number, &search))
        return false;
    *number = search.number;
    return true;
}

/* Writes the keys of one home to the places from `used` on. Returns their number. */
static size_t write_home(struct cluster_node *node, const struct redis_probe_keys *keys,
                         size_t used)
{
    struct cluster_probe *probe = &node->probe;
    const struct redis_tag tag = redis_tag_of(keys->names[0], strlen(keys->names[0]));
    bool fixed = is_fixed(node->cluster->topology.options.probe, &tag);
    unsigned number;

    if (used + keys->count > CLUSTER_PROBE_KEYS || (fixed && !owns(node, &tag)) ||
        (!fixed && !find_number(node, &tag, &number)))
        return 0;
    for (size_t i = 0; i < keys->count; i++) {
        char *out = probe->keys[used + i];
        if (fixed)
            snprintf(out, CLUSTER_PROBE_KEY_SIZE, "%s", keys->names[i]);
        else
            write_tagged(out, keys->names[i], number);
        probe->names[used + i] = out;
    }
    return keys->count;
}

/* In a cluster each master has a key of its own, in the slot of topology_slot_at(). */
static void write_layout_key(struct cluster_node *node, const char *name)
{
    struct cluster_probe *probe = &node->probe;
    char tag[REDIS_SLOT_TAG_SIZE];

    redis_slot_tag(&node->cluster->slot_tags, node->last_slot, tag);
    snprintf(probe->layout_key, sizeof(probe->layout_key), "%s:{%s}", name, tag);
    probe->probe.layout_key = probe->layout_key;
}

void cluster_probe_follow(struct cluster_node *node)
{
    if (node->has_new_slots && node->slot_count > 0)
        write_layout_key(node, node->cluster->topology.options.probe->layout_key);
}

void cluster_probe_make(struct cluster_node *node)
{
    const struct redis_probe *wanted = node->cluster->topology.options.probe;
    struct cluster_probe *probe = &node->probe;
    size_t used = 0;

    if (!node->has_new_slots)
        return;
    node->has_new_slots = false;
    probe->probe = (struct redis_probe){.keys = probe->homes,
                                        .channels = wanted->channels,
                                        .channel_count = wanted->channel_count,
                                        .layout = wanted->layout,
                                        .edition = probe->probe.edition + 1};
    if (node->slot_count == 0)
        return;
    write_layout_key(node, wanted->layout_key);
    for (size_t i = 0; i < wanted->slot_count && i < CLUSTER_PROBE_HOMES; i++) {
        size_t count = write_home(node, &wanted->keys[i], used);
        if (count == 0)
            continue;
        probe->homes[probe->probe.slot_count++] = (struct redis_probe_keys){
            .names = &probe->names[used], .count = count};
        used += count;
    }
}
