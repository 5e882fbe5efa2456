package rlockd.interop;

/** A lock as REST clients see it; its leases acquire and release. */
final class RestLock extends RestObject {
    private final String kind;

    RestLock(Rest front, String name, String kind) {
        super(front, "locks", name);
        this.kind = kind;
    }

    Lease lease() {
        return lease(null);
    }

    Lease lease(Session session) {
        return new Lease(front, path, "kind=" + kind, session);
    }

    /** Reentrant with the owner's others. */
    Lease lease(Session session, String owner) {
        return new Lease(front, path, "kind=" + kind + "&owner=" + owner, session);
    }

    Rest.Answer forceUnlock() {
        return front.send("POST", path + "/force-unlock").expect(200);
    }
}
