#!/usr/bin/env python3
"""fenced_row.py TEXT: one writer at a time for a row of PostgreSQL, and no late one:

    CREATE TABLE report (name text PRIMARY KEY, body text, fence bigint NOT NULL DEFAULT 0);
    INSERT INTO report (name) VALUES ('daily');

The lock alone cannot do this. A process that is paused between check() and its UPDATE goes on
when another process has the lock. So the row keeps the highest fencing token that it has seen,
and an UPDATE with a lower one changes nothing. Tokens grow from grant to grant, also when Redis
has lost its data.

When things go wrong
- The writer is paused for longer than its lease: its UPDATE finds no row; status 1.
- The connection breaks in the UPDATE: psycopg2 raises, and the outcome is unknown. Run it again:
  a new grant has a higher token.
- Another writer has the lock for longer than 30 s: NotAcquired, and nothing is written."""
import os
import sys

import psycopg2

import rlockd  # clients/python/rlockd.py: copy it beside this file

UPDATE = "UPDATE report SET body = %s, fence = %s WHERE name = 'daily' AND fence <= %s"
servers = rlockd.Client(ttl=float(os.environ.get("WRITER_TTL", "10")))

with rlockd.Lease(servers, "report/daily", wait=30) as lease:
    print("has the lock", flush=True)
    sys.stdin.readline()  # the work, which may take long
    with psycopg2.connect("") as connection, connection.cursor() as cursor:  # PGHOST …
        cursor.execute(UPDATE, (sys.argv[1], lease.fencing_token, lease.fencing_token))
        if cursor.rowcount == 0:
            sys.exit("too late: another process has written since")
