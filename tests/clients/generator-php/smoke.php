<?php
/* The steps with the client that openapi-generator generates. */
declare(strict_types=1);

use Rlockd\Api\{LatchesApi, LeasesApi, LocksApi, SemaphoresApi, SessionsApi};
use Rlockd\ApiException;
use Rlockd\Configuration;
use Rlockd\Model\{AcquireFields, AcquirePermitFields, AcquireSemaphoreFields, CreateLatchFields,
    CreateSemaphoreFields, KeepAliveFields, MultiAcquireFields, OpenSessionFields, RenewFields};

require 'GuzzleHttp/autoload.php';
// As that of Composer: a class that has no file is none.
spl_autoload_register(function (string $class): void {
    $path = __DIR__ . '/lib/' . strtr(substr($class, strlen('Rlockd\\')), '\\', '/') . '.php';
    if (str_starts_with($class, 'Rlockd\\') && is_file($path)) {
        require $path;
    }
});

const PREFIX = 'generator-php/';

function ok(string $step): void
{
    echo "ok $step\n";
}

function check(bool $holds, string $what): void
{
    if (!$holds) {
        throw new RuntimeException("not so: $what");
    }
}

function token(): string
{
    $hex = bin2hex(random_bytes(16));
    $hex[12] = '4';
    $hex[16] = 'a';
    return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split($hex, 4));
}

/* The data of an answer, given by the form of an operation that has the status, too. */
function granted(int $status, array $answer): object
{
    check($answer[1] === $status, "the answer is $answer[1]");
    return $answer[0];
}

/* The problem that a call is answered with. */
function refused(int $status, callable $call): object
{
    try {
        $call();
    } catch (ApiException $error) {
        check($error->getCode() === $status, "{$error->getCode()} is $status");
        return json_decode($error->getResponseBody());
    }
    throw new RuntimeException("no $status");
}

final class Smoke
{
    private LeasesApi $leases;
    private LocksApi $locks;
    private SessionsApi $sessions;
    private SemaphoresApi $semaphores;
    private LatchesApi $latches;
    private string $sessionToken;
    private string $sessionId;

    public function __construct()
    {
        $at = (new Configuration())->setHost(getenv('RLOCKD_URL'));
        $this->leases = new LeasesApi(null, $at);
        $this->locks = new LocksApi(null, $at);
        $this->sessions = new SessionsApi(null, $at);
        $this->semaphores = new SemaphoresApi(null, $at);
        $this->latches = new LatchesApi(null, $at);
        $this->sessionToken = token();
    }

    public function openSession(): void
    {
        $fields = new OpenSessionFields(['name' => 'smoke/php']);
        $session = granted(201, $this->sessions->openSessionWithHttpInfo($this->sessionToken,
            $fields));
        check($session->getTtlMs() === 30000, 'a session lasts 30 s by default');
        $this->sessionId = $session->getSessionId();
        ok('open-session');
    }

    public function endSession(): void
    {
        $end = $this->sessions->endSession($this->sessionToken, $this->sessionId);
        check($end->getReleased() === 0, 'no leases left');
        ok('end-session');
    }

    public function oneLock(): void
    {
        $name = PREFIX . 'orders 42';
        $token = token();
        $fields = new AcquireFields(['ttl_ms' => 60000, 'note' => 'smoke']);
        $acquire = fn() => $this->leases->acquireLockWithHttpInfo($token, $name,
            $this->sessionToken, null, $fields);

        $lease = granted(201, $acquire());
        check($lease->getLock() === $name && $lease->getFencingToken() > 0, 'its lease');
        ok('acquire');
        check(granted(200, $acquire())->getLeaseId() === $lease->getLeaseId(), 'the same lease');
        ok('acquire-again');
        $locked = refused(423, fn() => $this->leases->acquireLock(token(), $name, null, null,
            new AcquireFields(['wait_ms' => 50])));
        check($locked->type === 'urn:rlockd:problem:locked', 'type');
        check($locked->holder->lease_id === $lease->getLeaseId(), 'the holder');
        check($locked->retry_after_ms > 0, 'when to ask again');
        ok('locked');
        $this->look($name, $lease);
        check($this->leases->renewLock($token, $name)->getWatchdog(), 'the watchdog renews it');
        ok('renew');
        $alive = $this->sessions->keepSessionAlive($this->sessionToken, $this->sessionId,
            new KeepAliveFields(['held' => [$lease->getLeaseId()]]));
        check(count($alive->getLeases()) === 1, 'one lease');
        check($alive->getLeases()[0]->getLeaseId() === $lease->getLeaseId(), 'its lease');
        check($alive->getLost() === [], 'no losses');
        ok('keep-alive');
        check($this->leases->releaseLock($token, $name)->getHoldCount() === 0, 'no holds left');
        ok('release');
        check(refused(410, $acquire)->reason === 'released', 'the reason');
        ok('ended');
    }

    private function look(string $name, object $lease): void
    {
        $holder = $this->locks->getLock($name)->getHolders()[0];
        check($holder->getLeaseId() === $lease->getLeaseId(), 'the holder');
        check($holder->getNote() === 'smoke', 'the note');
        ok('look');
        $page = $this->locks->listLocks(PREFIX);
        check(count($page->getLocks()) === 1, 'one lock is listed');
        check($page->getLocks()[0]->getLock() === $name, 'the lock is listed');
        check($page->getNextCursor() === null, 'one page');
        ok('list');
    }

    public function severalLocks(): void
    {
        $token = token();
        $fields = new MultiAcquireFields(['locks' => [PREFIX . '2', PREFIX . '1']]);
        $lease = granted(201, $this->leases->acquireLocksWithHttpInfo($token, $fields));
        check($lease->getLocks()[0]->getLock() === PREFIX . '1', 'both locks, in order');
        // The generator has no `oneOf` in PHP: it would read the locks of a lease as names.
        $looks = $this->leases->getMultiLockRequest($token);
        $state = json_decode((string) (new GuzzleHttp\Client())->send($looks)->getBody());
        check($state->state === 'held', 'held');
        check($state->lease_id === $lease->getLeaseId(), 'the lease');
        check($this->leases->releaseMultiLock($token)->getHoldCount() === 0, 'no holds left');
        ok('several-locks');
    }

    public function semaphore(): void
    {
        $name = PREFIX . 'pool';
        granted(201, $this->semaphores->createSemaphoreWithHttpInfo($name,
            new CreateSemaphoreFields(['permits' => 3])));
        $taken = $this->semaphores->acquireSemaphore($name, null, null,
            new AcquireSemaphoreFields(['permits' => 2]));
        check($taken->getAvailable() === 1, 'one left');
        check($this->semaphores->releaseSemaphore($name)->getAvailable() === 2, 'two left');
        check($this->semaphores->deleteSemaphore($name)->getDeleted(), 'deleted');
        ok('semaphore');
    }

    public function permit(): void
    {
        $name = PREFIX . 'gpu';
        $token = token();
        granted(201, $this->semaphores->createPermitSemaphoreWithHttpInfo($name,
            new CreateSemaphoreFields(['permits' => 2])));
        $permit = granted(201, $this->semaphores->acquirePermitWithHttpInfo($token, $name,
            $this->sessionToken, null, new AcquirePermitFields()));
        check($permit->getAvailable() === 1 && $permit->getWatchdog(), 'one left');
        $this->semaphores->renewPermit($token, $name, new RenewFields(['ttl_ms' => 60000]));
        $holders = $this->semaphores->getPermitSemaphore($name)->getHolders();
        check($holders[0]->getLeaseId() === $permit->getLeaseId(), 'its holder');
        $this->semaphores->releasePermit($token, $name);
        ok('permit');
    }

    public function latch(): void
    {
        $name = PREFIX . 'ready';
        $key = token();
        $greatest = 2 ** 53 - 1;
        $made = granted(201, $this->latches->createLatchWithHttpInfo($name,
            new CreateLatchFields(['count' => $greatest])));
        check($made->getCount() === $greatest, 'the greatest count');
        for ($i = 0; $i < 2; $i++) {
            check($this->latches->countDown($name, $key)->getCount() === $greatest - 1,
                'counted once');
        }
        check($this->latches->getLatch($name, 50)->getCount() === $greatest - 1, 'seen');
        $this->latches->deleteLatch($name);
        ok('latch');
    }
}

$smoke = new Smoke();
$smoke->openSession();
$smoke->oneLock();
$smoke->severalLocks();
$smoke->semaphore();
$smoke->permit();
$smoke->latch();
$smoke->endSession();
