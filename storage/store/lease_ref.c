/* The writer and the parser of the text that names a lease in a session's home. */
#include "storage/store/lease_ref.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/store/key.h"

enum { ID_LEN = LEASE_ID_SIZE - 1 };

/* The number of locks of a ref. 0: the text is no ref of rlockd, so no key may be made of
 * it. */
static size_t count_locks(const char *text, size_t len)
{
    size_t count = 0, name_len = 1; /* no name ends at the first newline */

    if (len < ID_LEN + 2 || text[ID_LEN] != ' ' || memchr(text, '\0', len) != NULL)
        return 0;
    if (text[ID_LEN + 1] != '\n')
        return len - ID_LEN - 1 <= KEY_NAME_MAX ? 1 : 0;
    for (size_t i = ID_LEN + 1; i < len; i++) {
        if (text[i] == '\n' && name_len == 0)
            return 0;
        name_len = text[i] == '\n' ? 0 : name_len + 1;
        count += text[i] == '\n';
        if (name_len > KEY_NAME_MAX)
            return 0;
    }
    return count <= LOCKS_MAX && name_len > 0 ? count : 0;
}

void lease_ref_copy(struct lease_ref *ref, const char *text, size_t len)
{
    ref->text = malloc(len + 1);
    assert(ref->text != NULL);
    memcpy(ref->text, text, len);
    ref->text[len] = '\0';
    ref->len = len;
    ref->lock_count = count_locks(text, len);
}

void lease_ref_make(struct lease_ref *ref, const char *key_prefix, const struct lease *lease)
{
    size_t names_len;
    char *names = lock_names_join(lease->names, key_prefix, &names_len);
    size_t skip = lease_is_set(lease) ? 0 : 1; /* the newline before a name */

    ref->len = ID_LEN + 1 + names_len - skip;
    ref->text = malloc(ref->len + 1);
    assert(ref->text != NULL);
    memcpy(ref->text, lease->id, ID_LEN);
    ref->text[ID_LEN] = ' ';
    memcpy(ref->text + ID_LEN + 1, names + skip, names_len - skip + 1);
    ref->lock_count = count_locks(ref->text, ref->len);
    free(names);
}

void lease_ref_release(struct lease_ref *ref)
{
    free(ref->text);
}

void lease_refs_free(struct lease_ref *refs, size_t count)
{
    for (size_t i = 0; refs != NULL && i < count; i++)
        lease_ref_release(&refs[i]);
    free(refs);
}

void lease_ref_id(const struct lease_ref *ref, char lease_id[LEASE_ID_SIZE])
{
    assert(ref->lock_count > 0);
    memcpy(lease_id, ref->text, ID_LEN);
    lease_id[ID_LEN] = '\0';
}

bool lease_ref_is_set(const struct lease_ref *ref)
{
    return ref->text[ID_LEN + 1] == '\n';
}

void lease_ref_names(const struct lease_ref *ref, struct lease_ref_name names[LOCKS_MAX])
{
    const char *name = ref->text + ID_LEN + 1;

    for (size_t i = 0; i < ref->lock_count; i++) {
        name += lease_ref_is_set(ref);
        names[i] = (struct lease_ref_name){.text = name, .len = strcspn(name, "\n")};
        name += names[i].len;
    }
}
