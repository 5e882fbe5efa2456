import java.util.List;
import java.util.Set;
import java.util.UUID;
import rlockd.ApiClient;
import rlockd.ApiException;
import rlockd.ApiResponse;
import rlockd.JSON;
import rlockd.api.LatchesApi;
import rlockd.api.LeasesApi;
import rlockd.api.LocksApi;
import rlockd.api.SemaphoresApi;
import rlockd.api.SessionsApi;
import rlockd.model.AcquireFields;
import rlockd.model.AcquireSemaphoreFields;
import rlockd.model.CreateLatchFields;
import rlockd.model.CreateSemaphoreFields;
import rlockd.model.KeepAliveFields;
import rlockd.model.Lease;
import rlockd.model.MultiAcquireFields;
import rlockd.model.MultiLease;
import rlockd.model.OpenSessionFields;
import rlockd.model.Permit;
import rlockd.model.Problem;
import rlockd.model.ProblemReason;
import rlockd.model.RenewFields;

/** The steps with the client that openapi-generator generates. */
public final class Smoke {
    private static final String PREFIX = "generator-java/";

    private final LeasesApi leases;
    private final LocksApi locks;
    private final SessionsApi sessions;
    private final SemaphoresApi semaphores;
    private final LatchesApi latches;
    private final String sessionToken = token();
    private UUID session;

    private interface Call<T> {
        T ask() throws ApiException;
    }

    private Smoke(ApiClient client) {
        leases = new LeasesApi(client);
        locks = new LocksApi(client);
        sessions = new SessionsApi(client);
        semaphores = new SemaphoresApi(client);
        latches = new LatchesApi(client);
    }

    public static void main(String[] arguments) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(System.getenv("RLOCKD_URL"));
        Smoke smoke = new Smoke(client);
        smoke.openSession();
        smoke.oneLock();
        smoke.severalLocks();
        smoke.semaphore();
        smoke.permit();
        smoke.latch();
        smoke.endSession();
    }

    private static String token() {
        return UUID.randomUUID().toString();
    }

    private static void ok(String step) {
        System.out.println("ok " + step);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("not so: " + what);
        }
    }

    private static <T> T granted(int status, Call<ApiResponse<T>> call) throws ApiException {
        ApiResponse<T> answer = call.ask();
        check(answer.getStatusCode() == status, "the answer is " + status);
        return answer.getData();
    }

    private static Problem refused(int status, Call<?> call) throws Exception {
        try {
            call.ask();
        } catch (ApiException error) {
            check(error.getCode() == status, error.getCode() + " is " + status);
            return JSON.getDefault().getMapper().readValue(error.getResponseBody(),
                                                           Problem.class);
        }
        throw new AssertionError("no " + status);
    }

    private void openSession() throws ApiException {
        var fields = new OpenSessionFields().name("smoke/java");
        var opened = granted(201, () -> sessions.openSessionWithHttpInfo(sessionToken, fields));
        check(opened.getTtlMs() == 30000, "a session lasts 30 s by default");
        session = opened.getSessionId();
        ok("open-session");
    }

    private void endSession() throws ApiException {
        check(sessions.endSession(sessionToken, session).getReleased() == 0, "no leases left");
        ok("end-session");
    }

    private void oneLock() throws Exception {
        String name = PREFIX + "orders 42";
        String token = token();
        var fields = new AcquireFields().ttlMs(60000).note("smoke");
        Call<ApiResponse<Lease>> acquire =
            () -> leases.acquireLockWithHttpInfo(token, name, sessionToken, null, fields);

        Lease lease = granted(201, acquire);
        check(lease.getLock().equals(name) && lease.getFencingToken() > 0, "its lease");
        ok("acquire");
        check(granted(200, acquire).getLeaseId().equals(lease.getLeaseId()), "the same lease");
        ok("acquire-again");
        Problem locked = refused(423, () -> leases.acquireLock(token(), name, null, null,
                                                               new AcquireFields().waitMs(50)));
        check(locked.getType().toString().equals("urn:rlockd:problem:locked"), "type");
        check(locked.getHolder().getLeaseId().equals(lease.getLeaseId()), "the holder");
        check(locked.getRetryAfterMs() > 0, "when to ask again");
        ok("locked");

        look(name, lease);
        // No body at all: the client sends `null`.
        check(leases.renewLock(token, name, null).getWatchdog(), "the watchdog renews it");
        ok("renew");
        var known = new KeepAliveFields().held(List.of(lease.getLeaseId()));
        var alive = sessions.keepSessionAlive(sessionToken, session, known);
        check(alive.getLeases().size() == 1, "one lease");
        check(alive.getLeases().get(0).getLeaseId().equals(lease.getLeaseId()), "its lease");
        check(alive.getLost().isEmpty(), "no losses");
        ok("keep-alive");
        check(leases.releaseLock(token, name).getHoldCount() == 0, "no holds left");
        ok("release");
        check(refused(410, acquire).getReason() == ProblemReason.RELEASED, "the reason");
        ok("ended");
    }

    private void look(String name, Lease lease) throws ApiException {
        var state = locks.getLock(name, null);
        check(state.getHolders().get(0).getLeaseId().equals(lease.getLeaseId()), "the holder");
        check(state.getHolders().get(0).getNote().equals("smoke"), "the note");
        ok("look");
        var page = locks.listLocks(PREFIX, null, null);
        check(page.getLocks().size() == 1, "one lock is listed");
        check(page.getLocks().get(0).getLock().equals(name), "the lock is listed");
        check(page.getNextCursor() == null, "one page");
        ok("list");
    }

    private void severalLocks() throws ApiException {
        String token = token();
        var fields = new MultiAcquireFields().locks(Set.of(PREFIX + 2, PREFIX + 1));
        var lease = granted(201, () -> leases.acquireLocksWithHttpInfo(
            token, fields, null, null));
        check(lease.getLocks().get(0).getLock().equals(PREFIX + 1), "both locks, in order");
        var state = leases.getMultiLock(token).getActualInstance();
        check(state instanceof MultiLease, "held");
        check(((MultiLease) state).getLeaseId().equals(lease.getLeaseId()), "the lease");
        check(leases.releaseMultiLock(token).getHoldCount() == 0, "no holds left");
        ok("several-locks");
    }

    private void semaphore() throws ApiException {
        String name = PREFIX + "pool";
        granted(201, () -> semaphores.createSemaphoreWithHttpInfo(
            name, new CreateSemaphoreFields().permits(3)));
        var two = new AcquireSemaphoreFields().permits(2);
        var taken = semaphores.acquireSemaphore(name, null, null, two);
        check(taken.getAvailable() == 1, "one left");
        check(semaphores.releaseSemaphore(name, null, null).getAvailable() == 2, "two left");
        check(semaphores.deleteSemaphore(name).getDeleted(), "deleted");
        ok("semaphore");
    }

    private void permit() throws ApiException {
        String name = PREFIX + "gpu";
        String token = token();
        granted(201, () -> semaphores.createPermitSemaphoreWithHttpInfo(
            name, new CreateSemaphoreFields().permits(2)));
        Permit permit = granted(201, () -> semaphores.acquirePermitWithHttpInfo(
            token, name, sessionToken, null, null));
        check(permit.getAvailable() == 1 && permit.getWatchdog(), "one left");
        semaphores.renewPermit(token, name, new RenewFields().ttlMs(60000));
        var holders = semaphores.getPermitSemaphore(name).getHolders();
        check(holders.get(0).getLeaseId().equals(permit.getLeaseId()), "its holder");
        semaphores.releasePermit(token, name);
        ok("permit");
    }

    private void latch() throws ApiException {
        String name = PREFIX + "ready";
        String key = token();
        long greatest = (1L << 53) - 1;
        var made = granted(201, () -> latches.createLatchWithHttpInfo(
            name, new CreateLatchFields().count(greatest)));
        check(made.getCount() == greatest, "the greatest count");
        for (int i = 0; i < 2; i++) {
            check(latches.countDown(name, key).getCount() == greatest - 1, "counted once");
        }
        check(latches.getLatch(name, 50, null).getCount() == greatest - 1, "seen");
        latches.deleteLatch(name);
        ok("latch");
    }
}
