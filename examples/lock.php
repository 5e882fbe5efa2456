<?php
// lock.php FILE: one more in FILE, under a lock; PHP's curl is all that it needs.
//
// When things go wrong
// - Another process has the lock: the request waits up to 20 s, then comes 423, and it asks again.
// - No answer, 429 or 5xx: the same request again with the same token, which never locks twice.
// - This process dies: the lock is free after `ttl_ms`, here a minute. So the work has to end in
//   that time; a longer one takes a session, or PATCHes the lease from time to time.
// - 410 at the DELETE: the lock ended before the work did, which was not alone; status 79.
// - Another 4xx: the request is wrong, or not allowed; status 77.
$url = (getenv('RLOCK_URL') ?: 'http://localhost:7400') . '/v1/locks/' . rawurlencode('counter');
$bytes = bin2hex(random_bytes(16)); // a UUID of version 4
$token = preg_replace('/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/', '$1-$2-4$3-a$4-$5', $bytes);

function ask(string $method, string $url, string $token): int
{
    $deadline = time() + 300;
    do {
        $curl = curl_init($url);
        curl_setopt_array($curl, [CURLOPT_CUSTOMREQUEST => $method, CURLOPT_TIMEOUT => 25,
            CURLOPT_RETURNTRANSFER => true, CURLOPT_HTTPHEADER => ["Lease-Token: $token"]]);
        curl_exec($curl);
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE); // 0: no answer
        if ($status < 423 && $status > 0)
            return $status;
        usleep(200000);
    } while (time() < $deadline);
    return $status;
}

$status = ask('PUT', "$url?wait_ms=20000&ttl_ms=60000", $token);
if ($status != 200 && $status != 201)
    exit($status >= 400 && $status < 423 ? 77 : 75);
$count = (int) @file_get_contents($argv[1]);
usleep((int) getenv('WORK_US'));
file_put_contents($argv[1], $count + 1);
exit(ask('DELETE', $url, $token) == 200 ? 0 : 79);
