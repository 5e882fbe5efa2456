package rlockd.interop;

/** Whatever REST clients may wait for: it has a path, and tells how many do. */
abstract class RestObject {
    final Rest front;
    final String path;

    RestObject(Rest front, String collection, String name) {
        this.front = front;
        this.path = "/v1/" + collection + "/" + Rest.encode(name);
    }

    final Rest.Answer look() {
        return front.get(path).expect(200);
    }

    final void awaitWaiters(long count) {
        Interop.eventually(count + " waiters", Interop.CONDITION_MS,
            () -> look().number("waiter_count") == count);
    }

    /** The same, unless the last one waits no more. */
    final void awaitWaiters(long count, Interop.Going<?> last) {
        Interop.eventually(count + " waiters", Interop.CONDITION_MS,
            () -> last.ended() || look().number("waiter_count") == count);
    }
}
