"""rlock over TLS: servers that it checks, and servers that check it."""
import subprocess
import uuid
from pathlib import Path

from world import PATIENCE, name, servers, wait_for


def make_certificate(world):
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    base = Path(world.folder) / uuid.uuid4().hex
    certificate, key = f"{base}.pem", f"{base}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-addext",
                    "basicConstraints=critical,CA:TRUE", "-out", certificate, "-keyout", key],
                   check=True, capture_output=True, timeout=20)
    return certificate, key


def the_server_is_checked(world, _):
    certificate, key = make_certificate(world)
    other, _ = make_certificate(world)
    server = world.front("--tls-cert", certificate, "--tls-key", key, tls=True)
    assert world.run(server.url, "--ca", certificate, name(), "true").status() == 0
    assert world.run(server.url, name(), "true", RLOCK_CA=certificate).status() == 0
    for wrong, status, why in (([], 69, "certificate"), (["--ca", other], 69, "certificate"),
                               (["--ca", "/nowhere"], 64, "cannot read /nowhere")):
        run = world.run(server.url, "-n", *wrong, name(), "true")
        assert run.status() == status and why in run.err, run.err
    ttl_s = 2 + PATIENCE
    kept = ["-t", f"{ttl_s}s", "-k", "1s", "--ca", certificate]
    run = world.run(server.url, *kept, name(), "sleep", str(ttl_s + 1))
    assert run.status() == 0, run.err


def a_health_check_needs_no_name(world, _):
    """The certificate is for 127.0.0.1; the container knows no name of its server."""
    certificate, key = make_certificate(world)
    server = world.front("--tls-cert", certificate, "--tls-key", key, tls=True)
    own = {"RLOCK_URL": "", "RLOCKD_LISTEN": f":{server.port}"}
    once = ["ready", "--connect-timeout", "0"]
    assert world.rlock_does("", *once, RLOCKD_TLS_CERT=certificate, **own).status() == 0
    assert world.rlock_does("", *once, **own).status() == 69
    assert world.rlock_does(server.url, *once).status() == 69
    assert world.rlock_does(server.url, *once, "--ca", certificate).status() == 0


def the_client_is_checked(world, front):
    """With --cert and --key; a server with --tls-client-ca refuses other clients."""
    certificate, key = make_certificate(world)
    mine, my_key = make_certificate(world)
    port = servers.free_port()
    server = subprocess.Popen(
        [world.rlockd, "--listen", f"127.0.0.1:{port}", "--redis", world.redis.url(False),
         "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", mine],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def status(*options):
            run = world.run(f"https://127.0.0.1:{port}", "-n", "--ca", certificate, *options,
                            name(), "true")
            return run.status()

        wait_for(lambda: status("--cert", mine, "--key", my_key) == 0, "the client is served")
        assert status() == 69
        assert status("--cert", certificate, "--key", key) == 69
    finally:
        server.terminate()
        server.wait()


TESTS = {"tls_" + test.__name__: test for test in (the_server_is_checked,
                                                   a_health_check_needs_no_name,
                                                   the_client_is_checked)}
