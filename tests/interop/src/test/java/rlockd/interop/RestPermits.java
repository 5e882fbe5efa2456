package rlockd.interop;

/** A semaphore whose permits expire, as REST clients see it; its leases are the permits. */
final class RestPermits extends RestObject {
    RestPermits(Rest front, String name) {
        super(front, "permit-semaphores", name);
    }

    Rest.Answer put(long permits) {
        return front.send("PUT", path + "?permits=" + permits);
    }

    Lease lease() {
        return lease(null);
    }

    Lease lease(Session session) {
        return new Lease(front, path + "/permit", "", session);
    }

    Rest.Answer delete() {
        return front.send("DELETE", path).expect(200);
    }
}
